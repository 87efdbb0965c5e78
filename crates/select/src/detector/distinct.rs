//! How many different numbers were seen.

/// Bits of the table.
const BITS: u32 = 2048;
/// 2^32 over the golden ratio: consecutive numbers fall far apart (Knuth, The Art of Computer
/// Programming 3, section 6.4), so that dense ones do not share a bit.
const GOLDEN: u32 = 0x9e37_79b9;

/// Counts different numbers: dense ones exactly up to a quarter of [`BITS`], others as a lower bound
/// that is never above [`BITS`].
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    bits: [u64; (BITS / 64) as usize],
    count: u32,
    /// Of the window before.
    before: u32,
}

impl Distinct {
    pub(super) const fn new() -> Self {
        Self { bits: [0; (BITS / 64) as usize], count: 0, before: 0 }
    }

    pub(super) fn add(&mut self, number: u32) {
        let bit = number.wrapping_mul(GOLDEN) >> (32 - BITS.ilog2());
        let (word, mask) = (&mut self.bits[(bit / 64) as usize], 1 << (bit % 64));
        self.count += u32::from(*word & mask == 0);
        *word |= mask;
    }

    /// Another window begins.
    pub(super) fn turn(&mut self) {
        self.before = self.count;
        self.count = 0;
        self.bits.fill(0);
    }

    /// In this window or in the one before, whichever saw more.
    pub(super) fn count(&self) -> u32 {
        self.count.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_numbers_are_counted_exactly() {
        for first in [0, 1_000, u32::MAX - 500] {
            let mut distinct = Distinct::new();
            for number in (0..512).chain(0..512) {
                distinct.add(first.wrapping_add(number));
            }
            assert_eq!(distinct.count(), 512);
        }
    }

    #[test]
    fn a_window_is_remembered_for_the_length_of_another() {
        let mut distinct = Distinct::new();
        (0..5).for_each(|number| distinct.add(number));
        distinct.turn();
        distinct.add(9);
        assert_eq!(distinct.count(), 5);
        distinct.turn();
        assert_eq!(distinct.count(), 1);
    }
}
