//! The nodes of an ordered map, each by itself.

use super::CAP;

/// Entries in key order; `next` doubles as the free list.
#[derive(Clone, Debug)]
pub(super) struct Leaf<K, V> {
    pub(super) keys: [K; CAP],
    pub(super) values: [V; CAP],
    pub(super) len: usize,
    pub(super) prev: u32,
    pub(super) next: u32,
}

/// `keys[i]` bounds the keys of `children[i]` from below (`keys[0]` is never looked at); `children[0]` doubles as the free list.
#[derive(Clone, Debug)]
pub(super) struct Inner<K> {
    pub(super) keys: [K; CAP],
    pub(super) children: [u32; CAP],
    pub(super) len: usize,
}

impl<K: Copy, V: Copy> Leaf<K, V> {
    pub(super) fn open(&mut self, at: usize, key: K, value: V) {
        self.keys.copy_within(at..self.len, at + 1);
        self.values.copy_within(at..self.len, at + 1);
        (self.keys[at], self.values[at]) = (key, value);
        self.len += 1;
    }

    pub(super) fn close(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.len, at);
        self.values.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }
}

impl<K: Ord + Copy, V: Copy> Leaf<K, V> {
    /// Moves the entry at `at` to where `key` belongs: mostly not far, so one place after the other.
    pub(super) fn shift(&mut self, mut at: usize, key: K) {
        let value = self.values[at];
        while at + 1 < self.len && self.keys[at + 1] < key {
            (self.keys[at], self.values[at]) = (self.keys[at + 1], self.values[at + 1]);
            at += 1;
        }
        while at > 0 && key < self.keys[at - 1] {
            (self.keys[at], self.values[at]) = (self.keys[at - 1], self.values[at - 1]);
            at -= 1;
        }
        (self.keys[at], self.values[at]) = (key, value);
    }
}

impl<K: Ord + Copy> Inner<K> {
    pub(super) fn child_of(&self, key: K) -> usize {
        position(self.len, |i| (i == 0) | (self.keys[i] <= key)) - 1
    }

    pub(super) fn open(&mut self, at: usize, key: K, child: u32) {
        self.keys.copy_within(at..self.len, at + 1);
        self.children.copy_within(at..self.len, at + 1);
        (self.keys[at], self.children[at]) = (key, child);
        self.len += 1;
    }

    pub(super) fn close(&mut self, at: usize) {
        self.keys.copy_within(at + 1..self.len, at);
        self.children.copy_within(at + 1..self.len, at);
        self.len -= 1;
    }
}

/// How many of the first `len` entries come before the place sought: `slice::partition_point`
/// over the indices, without branches that depend on the keys and are hard to predict.
pub(super) fn position(len: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut base, mut size) = (0, len);
    while size > 1 {
        let half = size / 2;
        let middle = (base + half) % CAP;
        base = core::hint::select_unpredictable(is_before(middle), middle, base);
        size -= half;
    }
    base + usize::from(len > 0 && is_before(base))
}

/// Two different elements, both to be changed.
pub(super) fn pair<T>(all: &mut [T], a: u32, b: u32) -> (&mut T, &mut T) {
    let [a, b] =
        all.get_disjoint_mut([a as usize, b as usize]).expect("a node is never its own sibling");
    (a, b)
}

/// Moves entries between two neighbouring arrays so that both hold half, the right one the odd one.
pub(super) fn balance<T: Copy>(
    left: &mut [T; CAP],
    right: &mut [T; CAP],
    left_len: usize,
    right_len: usize,
) {
    let half = (left_len + right_len) / 2;
    if left_len < half {
        let moved = half - left_len;
        left[left_len..half].copy_from_slice(&right[..moved]);
        right.copy_within(moved..right_len, 0);
    } else {
        let moved = left_len - half;
        right.copy_within(..right_len, moved);
        right[..moved].copy_from_slice(&left[half..left_len]);
    }
}
