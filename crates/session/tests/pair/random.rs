//! SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.

pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for idx in (1..items.len()).rev() {
            items.swap(idx, self.below(idx + 1));
        }
    }

    /// Cuts `[0, length)` into parts of at most `max`, as (start, length), in any order.
    pub(crate) fn parts(&mut self, length: usize, max: usize) -> Vec<(usize, usize)> {
        let mut parts = Vec::new();
        let mut start = 0;
        while start < length {
            let longest = max.min(length - start);
            let part = if self.percent(50) { longest } else { self.between(1, longest) };
            parts.push((start, part));
            start += part;
        }
        self.shuffle(&mut parts);
        parts
    }
}
