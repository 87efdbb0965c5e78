//! A histogram of durations: log-linear buckets, fixed memory, a stated error.
//!
//! Source:      the bucket scheme of G. Tene's HdrHistogram, without its configuration: every power of two is cut
//!              into eight equal buckets, and what is below the first is counted in steps of 64 ns.
//! Units:       nanoseconds.
//! Cost:        `record` is a shift, a count of leading zeros and two additions; 2 KiB a histogram.
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
    /// In which octaves something was counted: the others need not be looked at.
    octaves: u32,
    sum: Nanos,
    max: Nanos,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], octaves: 0, sum: Nanos::ZERO, max: Nanos::ZERO }
    }
}

/// A duration's bucket, for those who record one duration in several histograms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    duration: Nanos,
    bucket: usize,
    /// The bit of the bucket's octave.
    octave: u32,
}

impl Sample {
    #[inline]
    pub(crate) fn new(duration: Nanos) -> Self {
        let bucket = bucket_of(duration);
        Self { duration, bucket, octave: 1 << (bucket / SUB_COUNT) }
    }
}

#[inline]
fn bucket_of(duration: Nanos) -> usize {
    let units = duration.0 >> UNIT_BITS;
    // The octave is 0 in the linear part, where a bucket is a unit.
    let octave = (u64::BITS - SUB_BITS).saturating_sub((units | 1).leading_zeros());
    let shift = octave.saturating_sub(1);
    let sub = (units >> shift) as usize & (SUB_COUNT - 1);
    (octave as usize * SUB_COUNT + sub).min(BUCKETS - 1)
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
    pub(crate) fn add(&mut self, sample: Sample) {
        self.buckets[sample.bucket] += 1;
        self.octaves |= sample.octave;
        self.sum += sample.duration;
        self.max = self.max.max(sample.duration);
    }

    /// Adds everything that another histogram has seen.
    pub fn merge(&mut self, other: &Self) {
        for octave in other.octaves() {
            let theirs = &other.buckets[octave..][..SUB_COUNT];
            for (mine, theirs) in self.buckets[octave..].iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
        self.octaves |= other.octaves;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        for octave in self.octaves() {
            self.buckets[octave..][..SUB_COUNT].fill(0);
        }
        (self.octaves, self.sum, self.max) = (0, Nanos::ZERO, Nanos::ZERO);
    }

    /// The first buckets of the octaves in which something was counted.
    fn octaves(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.octaves;
        core::iter::from_fn(move || {
            let octave = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (octave < u32::BITS).then_some(octave as usize * SUB_COUNT)
        })
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
            assert_eq!(bucket_of(Nanos(start)), bucket);
            assert_eq!(bucket_of(Nanos(end - 1)), bucket);
        }
        assert_eq!(Nanos(start_of(BUCKETS)), Histogram::COUNTED_MAX);
        assert_eq!(bucket_of(Nanos(u64::MAX)), BUCKETS - 1);
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
