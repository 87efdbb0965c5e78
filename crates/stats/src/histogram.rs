//! A histogram of durations: log-linear buckets, fixed memory, a stated error.
//!
//! Source:      the bucket scheme of G. Tene's HdrHistogram, without its configuration: every power of two is cut
//!              into eight equal buckets, and what is below the first is counted in steps of 64 ns.
//! Units:       nanoseconds.
//! Cost:        `record` is two shifts, a count of leading zeros and two additions; 2 KiB a histogram.
//! Error:       a percentile differs from the true one by at most 32 ns or 1/16 of it, whichever is more, up to
//!              [`Histogram::COUNTED_MAX`]; count, sum and maximum are exact.

use forebay_units::Nanos;

/// Durations are counted in steps of 2^6 ns below the first octave.
const UNIT_BITS: u32 = 6;
/// Each octave has 2^3 buckets.
const SUB_BITS: u32 = 3;
const SUB_COUNT: usize = 1 << SUB_BITS;
/// Octaves above the linear part.
const OCTAVES: usize = 31;
const BUCKETS: usize = SUB_COUNT * (OCTAVES + 1);

/// How often which duration was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    sum: Nanos,
    max: Nanos,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: Nanos::ZERO, max: Nanos::ZERO }
    }
}

/// A duration's bucket, for those who record one duration in several histograms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    duration: Nanos,
    bucket: u8,
}

impl Sample {
    #[inline]
    pub(crate) fn new(duration: Nanos) -> Self {
        Self { duration, bucket: bucket_of(duration) }
    }
}

#[inline]
fn bucket_of(duration: Nanos) -> u8 {
    let units = duration.0 >> UNIT_BITS;
    // In the linear part and in the first octave a bucket is a unit, then two, then four.
    let shift = (units | SUB_COUNT as u64).ilog2() - SUB_BITS;
    (u64::from(shift) * SUB_COUNT as u64 + (units >> shift)).min(BUCKETS as u64 - 1) as u8
}

/// The first duration of a bucket; the bucket after the last gives the end of the last.
fn start_of(bucket: usize) -> u64 {
    let (octave, sub) = (bucket / SUB_COUNT, (bucket % SUB_COUNT) as u64);
    let units = match octave {
        0 => sub,
        _ => (SUB_COUNT as u64 + sub) << (octave - 1),
    };
    units << UNIT_BITS
}

impl Histogram {
    /// Durations from here on (about 18 minutes) share one bucket; percentiles among them are the maximum.
    pub const COUNTED_MAX: Nanos = Nanos(((2 * SUB_COUNT as u64) << (OCTAVES - 1)) << UNIT_BITS);

    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one duration.
    #[inline]
    pub fn record(&mut self, duration: Nanos) {
        self.add(Sample::new(duration));
    }

    #[inline]
    pub(crate) fn add(&mut self, Sample { duration, bucket }: Sample) {
        self.buckets[usize::from(bucket)] += 1;
        self.sum += duration;
        self.max = self.max.max(duration);
    }

    /// Counts a duration of zero.
    #[inline]
    pub(crate) const fn add_zero(&mut self) {
        self.buckets[0] += 1;
    }

    /// Adds everything that another histogram has seen.
    pub fn merge(&mut self, other: &Self) {
        let used = ..=usize::from(bucket_of(other.max));
        for (mine, theirs) in self.buckets[used].iter_mut().zip(&other.buckets[used]) {
            *mine += theirs;
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        let used = ..=usize::from(bucket_of(self.max));
        self.buckets[used].fill(0);
        (self.sum, self.max) = (Nanos::ZERO, Nanos::ZERO);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// All durations together.
    pub const fn sum(&self) -> Nanos {
        self.sum
    }

    /// The longest; zero when nothing was counted.
    pub const fn max(&self) -> Nanos {
        self.max
    }

    /// The mean; zero when nothing was counted.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.0.checked_div(self.count()).unwrap_or(0))
    }

    /// The duration that `percent` of all do not exceed (nearest rank), within the stated error;
    /// zero when nothing was counted. 50 is the median, 100 the exact maximum.
    pub fn percentile(&self, percent: f64) -> Nanos {
        let count = self.count();
        #[expect(clippy::cast_precision_loss, reason = "a rank is off by one at 2^53 samples")]
        let exact = count as f64 * (percent / 100.0).clamp(0.0, 1.0);
        // Without the standard library there is no `ceil`.
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let rank = exact as u64 + u64::from(exact as u64 as f64 != exact);
        if rank >= count {
            return self.max;
        }
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|n| {
            seen += n;
            seen >= rank.max(1)
        });
        match bucket {
            Some(bucket) if bucket < BUCKETS - 1 => {
                let middle = start_of(bucket).midpoint(start_of(bucket + 1));
                Nanos(middle).min(self.max)
            }
            _ => self.max,
        }
    }

    /// What was counted, as (first duration of the bucket, how many), empty buckets left out.
    pub fn buckets(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let all = self.buckets.iter().enumerate();
        all.filter(|(_, n)| **n > 0).map(|(bucket, n)| (Nanos(start_of(bucket)), *n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_hold_what_they_start_with() {
        for bucket in 0..BUCKETS {
            let (start, end) = (start_of(bucket), start_of(bucket + 1));
            assert!(start < end, "{bucket}");
            assert_eq!(usize::from(bucket_of(Nanos(start))), bucket);
            assert_eq!(usize::from(bucket_of(Nanos(end - 1))), bucket);
        }
        assert_eq!(Nanos(start_of(BUCKETS)), Histogram::COUNTED_MAX);
        assert_eq!(usize::from(bucket_of(Nanos(u64::MAX))), BUCKETS - 1);
    }

    #[test]
    fn an_empty_histogram_answers_zero() {
        let empty = Histogram::new();
        assert_eq!((empty.count(), empty.mean(), empty.max()), (0, Nanos(0), Nanos(0)));
        assert_eq!(empty.percentile(50.0), Nanos(0));
    }

    #[test]
    fn the_hundredth_percentile_is_the_exact_maximum() {
        let mut histogram = Histogram::new();
        [5, 1_000_003, u64::MAX].into_iter().for_each(|n| histogram.record(Nanos(n)));
        assert_eq!(histogram.percentile(100.0), Nanos(u64::MAX));
        histogram.clear();
        assert_eq!(histogram, Histogram::new());
    }
}
