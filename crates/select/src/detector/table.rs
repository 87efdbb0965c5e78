//! A bounded table of what is in use, by key: what is not in use any more makes room.

use alloc::boxed::Box;
use alloc::vec;

/// Places that a key may have.
const WAYS: usize = 4;
/// 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Keys and the windows in which they were seen last: together, for one look.
#[derive(Clone, Copy, Debug)]
struct Set {
    keys: [u64; WAYS],
    windows: [u16; WAYS],
}

/// `4 · SETS` values.
///
/// A new key takes the place of one that was seen neither in this window nor in the one before.
/// If its four places are all in use it has none: those that are in the table stand for it, so
/// that a table that is too small is a sample and not a procession.
#[derive(Clone, Debug)]
pub(super) struct Table<T, const SETS: usize> {
    sets: Box<[Set]>,
    values: Box<[T]>,
}

/// A key's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) place: usize,
    /// When the key was seen last; `None` if the place was another key's.
    pub(super) seen: Option<u16>,
}

/// Whether a window is the present one or the one before.
pub(super) const fn is_recent(window: u16, now: u16) -> bool {
    now.wrapping_sub(window) < 2
}

impl<T: Clone + Default, const SETS: usize> Table<T, SETS> {
    /// What it takes beside itself.
    pub(super) const BYTES: usize = SETS * (size_of::<Set>() + WAYS * size_of::<T>());

    /// Empty, in a window that is not among the first two.
    pub(super) fn new() -> Self {
        let set = Set { keys: [u64::MAX; WAYS], windows: [0; WAYS] };
        Self {
            sets: vec![set; SETS].into_boxed_slice(),
            values: vec![T::default(); SETS * WAYS].into_boxed_slice(),
        }
    }

    /// The key's place, now seen in this window.
    #[inline]
    pub(super) fn find(&mut self, key: u64, window: u16) -> Option<Found> {
        let index = (key.wrapping_mul(GOLDEN) >> 32) as usize % SETS;
        let set = &mut self.sets[index];
        if let Some(way) = set.keys.iter().position(|other| *other == key) {
            let seen = core::mem::replace(&mut set.windows[way], window);
            return Some(Found { place: index * WAYS + way, seen: Some(seen) });
        }
        let way = set.windows.iter().position(|seen| !is_recent(*seen, window))?;
        (set.keys[way], set.windows[way]) = (key, window);
        self.values[index * WAYS + way] = T::default();
        Some(Found { place: index * WAYS + way, seen: None })
    }

    #[inline]
    pub(super) fn at(&mut self, place: usize) -> &mut T {
        &mut self.values[place]
    }

    /// A key's value and the window in which it was seen last.
    pub(super) fn get(&self, key: u64) -> Option<(&T, u16)> {
        let index = (key.wrapping_mul(GOLDEN) >> 32) as usize % SETS;
        let set = &self.sets[index];
        let way = set.keys.iter().position(|other| *other == key)?;
        Some((&self.values[index * WAYS + way], set.windows[way]))
    }

    /// Everything that was seen in this window or in the one before, with the window.
    pub(super) fn recent(&self, window: u16) -> impl Iterator<Item = (&T, u16)> {
        let windows = self.sets.iter().flat_map(|set| set.windows);
        let all = self.values.iter().zip(windows);
        all.filter(move |(_, seen)| is_recent(*seen, window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_stays_and_what_is_not_makes_room() {
        let mut table = Table::<u32, 1>::new();
        for key in 0..4 {
            let place = table.find(key, 10).expect("there is room").place;
            *table.at(place) = key as u32 + 1;
        }
        assert!(table.find(9, 11).is_none(), "all are in use");
        assert_eq!(table.find(2, 12).unwrap().seen, Some(10));
        let found = table.find(9, 12).expect("the others are not in use any more");
        assert_eq!((found.seen, *table.at(found.place)), (None, 0));
        assert_eq!(table.get(2), Some((&3, 12)));
        assert_eq!(table.recent(12).count(), 2);
    }
}
