//! The way through an ordered map.

use super::OrderedMap;

/// Entries in key order; see [`OrderedMap::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a, K, V> {
    pub(super) map: &'a OrderedMap<K, V>,
    pub(super) leaf: u32,
    pub(super) at: usize,
}

impl<K: Ord + Copy, V: Copy> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let leaf = self.map.leaves.get(self.leaf as usize)?;
        let entry = (leaf.keys[self.at], leaf.values[self.at]);
        self.at += 1;
        if self.at == leaf.len {
            (self.leaf, self.at) = (leaf.next, 0);
        }
        Some(entry)
    }
}
