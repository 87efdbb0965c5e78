//! A rate of transfer, in bytes per second.

use forebay_units::{Bytes, Nanos};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Bytes per second; never zero, so that a time for bytes always exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// `n` bytes per second.
    ///
    /// # Panics
    /// If `n` is 0; in a constant the build fails.
    pub const fn bytes_per_second(n: u64) -> Self {
        assert!(n > 0, "a rate is more than nothing");
        Self(n)
    }

    /// `n` times 10^6 bytes per second.
    ///
    /// # Panics
    /// If `n` is 0.
    pub const fn megabytes_per_second(n: u64) -> Self {
        Self::bytes_per_second(n * 1_000_000)
    }

    /// In bytes per second.
    pub const fn per_second(self) -> u64 {
        self.0
    }

    /// How long `length` takes, rounded down to a nanosecond.
    pub fn time_for(self, length: Bytes) -> Nanos {
        let ns = u128::from(length.0) * NANOS_PER_SECOND / u128::from(self.0);
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_exact_to_a_nanosecond_and_saturates() {
        let rate = Rate::megabytes_per_second(57);
        assert_eq!(rate.time_for(Bytes(57_000_000)), Nanos::secs(1));
        assert_eq!(rate.time_for(Bytes::kib(8)), Nanos(143_719));
        assert_eq!(Rate::bytes_per_second(1).time_for(Bytes(u64::MAX)), Nanos(u64::MAX));
    }
}
