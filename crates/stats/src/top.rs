//! The heaviest of many keys, in fixed memory.
//!
//! Source:      A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
//!              Streams", ICDT 2005: the Space-Saving algorithm (Figure 1), with weights.
//! Idea:        `k` rows. A key without a row takes over the lightest one, and with it that row's weight as its
//!              possible error. What the lost key's account held goes to the *other* row, so nothing is uncounted.
//! Units:       weights in any one unit; the caller's.
//! Cost:        a key that has a row: one look at a hash table, O(1). A new key: O(log k) amortised. `k` rows at most.
//! Deviations:  1. The paper's Stream-Summary moves an element with every count; here a heap of possibly outdated
//!              weights is put right only when a row must be given up. Weights only grow, so the first entry of the
//!              heap that is up to date is the lightest row.
//!              2. Each row carries an account that holds exactly what was counted since the row was its key's.
//!
//! Bounds, for total weight N (the paper's Lemmas 3 to 5 and Theorem 2, which hold for weights too):
//! - a row's weight is at least its key's true weight and at most `error` more;
//! - `error ≤` the lightest row `≤ N / k`, but for keys that were [forgotten](Top::forget);
//! - every key whose true weight exceeds the lightest row, so every one above N / k, has a row.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::shared::{Kept, Shared};

/// What a row keeps beside its weight.
pub trait Row: Clone + Default {
    /// Adds everything that `other` holds.
    fn absorb(&mut self, other: &Self);
    /// Holds nothing again; keeps its memory.
    fn clear(&mut self);
}

impl Row for u64 {
    fn absorb(&mut self, other: &Self) {
        *self += other;
    }
    fn clear(&mut self) {
        *self = 0;
    }
}

/// One key's row, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<V> {
    /// Whose row it is.
    pub key: u64,
    /// Never below the key's true weight.
    pub weight: u64,
    /// How much of the weight may be other keys'.
    pub error: u64,
    /// What was counted while the row was this key's.
    pub account: V,
}

impl<V> Ranked<V> {
    /// Weight that is the key's beyond doubt: exactly what was added since the row became the key's.
    pub const fn certain_weight(&self) -> u64 {
        self.weight - self.error
    }
}

/// All rows as read, heaviest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking<V> {
    /// The rows, by their certain weight, heaviest first.
    pub rows: Vec<Ranked<V>>,
    /// What was counted for keys that have no row, or had none then.
    pub other: V,
    /// The weight of everything together.
    pub weight: u64,
}

impl<V> Ranking<V> {
    fn new(mut rows: Vec<Ranked<V>>, other: V) -> Self {
        // A row that is taken over keeps its weight, so no weight is ever in none.
        let weight = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.weight));
        rows.sort_unstable_by_key(|row| (Reverse(row.certain_weight()), row.key));
        Self { rows, other, weight }
    }

    /// Whose rows there are, heaviest first.
    pub fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows.iter().map(|row| row.key)
    }
}

/// The heaviest keys of a stream.
#[derive(Clone, Debug)]
pub struct Top<V: Row> {
    rows_max: usize,
    rows: Vec<Ranked<Kept<V>>>,
    /// Open addressing: a row's index plus one, 0 where nothing is. Never more than half full.
    places: Vec<u32>,
    /// Outdated weights with their rows, lightest first.
    lightest: BinaryHeap<Reverse<(u64, u32)>>,
    other: V,
    /// The row that was asked for last: one job or file often comes many times in a row.
    recent: usize,
}

impl<V: Row> Top<V> {
    /// Nothing counted; allocates with the first key.
    ///
    /// # Panics
    /// If `rows_max` is 0 or above 2^24.
    pub fn new(rows_max: usize) -> Self {
        assert!((1..=1 << 24).contains(&rows_max), "{rows_max} rows");
        Self {
            rows_max,
            rows: Vec::new(),
            places: Vec::new(),
            lightest: BinaryHeap::new(),
            other: V::default(),
            recent: 0,
        }
    }

    /// Adds `weight` to a key, which has a row from now on, and returns its account.
    #[inline]
    pub fn add(&mut self, key: u64, weight: u64) -> &mut V {
        let mut at = self.recent;
        if self.rows.get(at).is_none_or(|row| row.key != key) {
            at = self.find(key).unwrap_or_else(|| self.admit(key));
            self.recent = at;
        }
        let row = &mut self.rows[at];
        row.weight = row.weight.saturating_add(weight);
        row.account.get_mut()
    }

    /// The account to note something without weight in: the key's, if it has a row or one is free, else *other*.
    pub fn note(&mut self, key: u64) -> &mut V {
        match self.find(key) {
            Some(row) => self.rows[row].account.get_mut(),
            None if self.rows.len() < self.rows_max => {
                let row = self.admit(key);
                self.rows[row].account.get_mut()
            }
            None => &mut self.other,
        }
    }

    /// Gives a key a row, if one is free.
    pub fn seat(&mut self, key: u64) {
        if self.rows.len() < self.rows_max && self.find(key).is_none() {
            self.admit(key);
        }
    }

    /// Gives a key's account to *other* and the key a fresh one, for a key that now means something else.
    /// The row's weight stays, as `error`, because every bound counts on it.
    pub fn forget(&mut self, key: u64) {
        if let Some(row) = self.find(key) {
            let row = &mut self.rows[row];
            row.error = row.weight;
            row.account.move_to(&mut self.other);
        }
    }

    /// Whether a key has a row.
    pub fn has(&self, key: u64) -> bool {
        self.find(key).is_some()
    }

    /// Which row a key has.
    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut place = self.home(key);
        loop {
            let row = (self.places[place] as usize).checked_sub(1)?;
            if self.rows[row].key == key {
                return Some(row);
            }
            place = (place + 1) & mask;
        }
    }

    /// All rows, heaviest first, as they are now. Nothing of an account is copied: the row and the
    /// ranking have it together until the row changes.
    pub fn share(&mut self) -> Ranking<Shared<V>> {
        let read = |row: &mut Ranked<Kept<V>>| {
            let Ranked { key, weight, error, ref mut account } = *row;
            Ranked { key, weight, error, account: account.lend() }
        };
        let rows = self.rows.iter_mut().map(read).collect();
        Ranking::new(rows, Shared::new(self.other.clone()))
    }

    /// All rows, heaviest first, copied.
    pub fn ranking(&self) -> Ranking<V> {
        let read = |row: &Ranked<Kept<V>>| {
            let Ranked { key, weight, error, ref account } = *row;
            Ranked { key, weight, error, account: account.copy() }
        };
        let rows = self.rows.iter().map(read).collect();
        Ranking::new(rows, self.other.clone())
    }

    /// Gives a key that has none a row.
    #[cold]
    fn admit(&mut self, key: u64) -> usize {
        if self.rows.len() == self.rows_max {
            return self.take_over(key);
        }
        let row = self.rows.len();
        self.rows.push(Ranked { key, weight: 0, error: 0, account: Kept::default() });
        self.lightest.push(Reverse((0, row as u32)));
        if self.rows.len() * 2 > self.places.len() {
            self.places = alloc::vec![0; (self.rows.len() * 4).next_power_of_two()];
            (0..self.rows.len()).for_each(|row| self.place(row));
        } else {
            self.place(row);
        }
        row
    }

    /// Gives the lightest row to another key.
    fn take_over(&mut self, key: u64) -> usize {
        let row = self.lightest_row();
        self.unplace(row);
        let taken = &mut self.rows[row];
        (taken.key, taken.error) = (key, taken.weight);
        taken.account.move_to(&mut self.other);
        self.place(row);
        row
    }

    fn lightest_row(&mut self) -> usize {
        loop {
            let mut first = self.lightest.peek_mut().expect("every row is in the heap");
            let Reverse((weight, row)) = *first;
            let now = self.rows[row as usize].weight;
            if weight == now {
                return row as usize;
            }
            *first = Reverse((now, row));
            // Dropped changed, it sinks to where it belongs now.
            drop::<PeekMut<'_, _>>(first);
        }
    }

    /// Where the search for a key begins: the high bits of a multiplication by 2^64 / φ (Knuth, volume 3, section 6.4).
    #[inline]
    fn home(&self, key: u64) -> usize {
        let bits = self.places.len().trailing_zeros();
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
    }

    fn place(&mut self, row: usize) {
        let mask = self.places.len() - 1;
        let mut place = self.home(self.rows[row].key);
        while self.places[place] != 0 {
            place = (place + 1) & mask;
        }
        self.places[place] = row as u32 + 1;
    }

    /// Removes a row from the hash table and closes the gap (Knuth, volume 3, section 6.4, algorithm R).
    fn unplace(&mut self, row: usize) {
        let mask = self.places.len() - 1;
        let mut gap = self.home(self.rows[row].key);
        while self.places[gap] != row as u32 + 1 {
            gap = (gap + 1) & mask;
        }
        let mut place = gap;
        loop {
            place = (place + 1) & mask;
            let Some(other) = (self.places[place] as usize).checked_sub(1) else { break };
            let home = self.home(self.rows[other].key);
            // It may move back unless its search begins after the gap.
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(gap) & mask) {
                self.places[gap] = self.places[place];
                gap = place;
            }
        }
        self.places[gap] = 0;
    }
}
