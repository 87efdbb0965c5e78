//! A small source of reproducible numbers.
//!
//! Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014 (SplitMix64, with the constants of its public-domain C version).

/// Numbers that follow from a seed alone.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of `seed`; any seed is as good as another.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, all equally likely to within `bound` / 2^64.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut numbers = SplitMix64::new(1_234_567);
        assert_eq!(numbers.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(numbers.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn a_bound_is_kept_and_every_number_below_it_comes_up() {
        let mut numbers = SplitMix64::new(7);
        let mut seen = [0; 10];
        (0..1000).for_each(|_| seen[numbers.below(10) as usize] += 1);
        assert!(seen.iter().all(|&count| (50..150).contains(&count)), "{seen:?}");
    }
}
