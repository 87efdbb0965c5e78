//! A hash for keys that hold a file's key, which is a good hash already; seeded, so that offsets
//! chosen by a program's clients cannot aim at one bucket.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map with this hash.
pub(crate) type QuickMap<K, V> = HashMap<K, V, QuickState>;

/// The seed.
#[derive(Clone, Debug)]
pub(crate) struct QuickState(u64);

impl Default for QuickState {
    fn default() -> Self {
        // A hash of nothing under the process's random keys.
        Self(RandomState::new().build_hasher().finish())
    }
}

/// Folds each word in by a multiplication to 128 bits.
#[derive(Debug)]
pub(crate) struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write_u64(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_isize(&mut self, discriminant: isize) {
        self.write_u64(discriminant as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BuildHasher for QuickState {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn neighbours_do_not_share_hashes() {
        let state = QuickState::default();
        let hashes: HashSet<u64> = (0..100_000_u64)
            .map(|number| state.hash_one((number % 3, 8192 * (number / 3))))
            .collect();
        // Of 100,000 random hashes of 64 bits none would meet; of 24 bits, 300 would.
        assert!(hashes.len() > 99_990, "{}", hashes.len());
        let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0xffff).collect();
        assert!(low.len() > 40_000, "{}", low.len());
    }
}
