//! How long a disk's arm takes to move over a distance.
//!
//! Source: the lab page's disk model. `seek(x) = t_min + (t_max - t_min)(w sqrt(x) + (1 - w) x)`,
//! where `x` in `[0, 1]` is the distance as a fraction of the full stroke. The square root is the
//! arm that accelerates and brakes, the linear part is the arm at full speed; `w` says how much
//! of each, and follows from the three times that every data sheet gives.
//!
//! Units: times in nanoseconds, fractions as integers over 2^30.

use forebay_units::{Bytes, Nanos};

/// 1 as a fraction: 30 bits, so that a product of two fractions fits a `u64`.
const ONE: u64 = 1 << 30;

/// A seek time for every distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekCurve {
    min: Nanos,
    max: Nanos,
    /// Weight of the square root, over 2^30.
    weight: u64,
    stroke: Bytes,
}

impl SeekCurve {
    /// The curve through a data sheet's three times: to the next track, on average over random
    /// pairs of places, and over the whole `stroke` (all the disk's bytes); see [`Self::through`].
    ///
    /// # Panics
    /// If there is none; in a constant the build fails.
    pub const fn fitted(min: Nanos, average: Nanos, max: Nanos, stroke: Bytes) -> Self {
        match Self::through(min, average, max, stroke) {
            Some(curve) => curve,
            None => panic!("no curve of this form has these seek times"),
        }
    }

    /// The same, or none: if no `w` in `[0, 1]` gives that average, which is between `min` + 1/3
    /// and `min` + 8/15 of `max - min`, or if the stroke is empty.
    pub const fn through(min: Nanos, average: Nanos, max: Nanos, stroke: Bytes) -> Option<Self> {
        if min.0 >= max.0 || average.0 <= min.0 || average.0 >= max.0 || stroke.0 == 0 {
            return None;
        }
        // Over random pairs the mean of x is 1/3 and that of sqrt(x) is 8/15, hence
        // average = min + (max - min)(1/3 + w/5).
        let average_share =
            (((average.0 - min.0) as u128 * ONE as u128) / (max.0 - min.0) as u128) as u64;
        if average_share < ONE / 3 || (average_share - ONE / 3) * 5 > ONE {
            return None;
        }
        Some(Self { min, max, weight: (average_share - ONE / 3) * 5, stroke })
    }

    /// All the disk's bytes, as a distance.
    pub const fn stroke(&self) -> Bytes {
        self.stroke
    }

    /// The time to move over `distance`; as over the whole stroke when it is longer.
    pub fn time(&self, distance: Bytes) -> Nanos {
        let x = self.fraction(distance);
        self.at(square_root(x), x)
    }

    /// The mean time to move between two random places of the same `span`.
    pub fn mean_time(&self, span: Bytes) -> Nanos {
        let x = self.fraction(span);
        self.at(square_root(x) * 8 / 15, x / 3)
    }

    /// `distance` over the stroke, at most 1.
    fn fraction(&self, distance: Bytes) -> u64 {
        let distance = u128::from(distance.0.min(self.stroke.0));
        (distance * u128::from(ONE) / u128::from(self.stroke.0)) as u64
    }

    fn at(&self, sqrt_x: u64, x: u64) -> Nanos {
        let share = (self.weight * sqrt_x + (ONE - self.weight) * x) / ONE;
        let above_min = u128::from(self.max.0 - self.min.0) * u128::from(share) / u128::from(ONE);
        self.min + Nanos(above_min as u64)
    }
}

/// The square root of a fraction in `[0, 1]`.
fn square_root(x: u64) -> u64 {
    (x * ONE).isqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STROKE: Bytes = Bytes(80_000_000_000);

    fn curve() -> SeekCurve {
        SeekCurve::fitted(Nanos::millis(1), Nanos::micros(8_500), Nanos::millis(17), STROKE)
    }

    #[test]
    fn the_ends_are_the_shortest_and_the_longest_seek() {
        assert_eq!(curve().time(Bytes(0)), Nanos::millis(1));
        assert_eq!(curve().time(STROKE), Nanos::millis(17));
        assert_eq!(curve().time(Bytes(u64::MAX)), Nanos::millis(17));
    }

    #[test]
    fn the_mean_over_the_whole_stroke_is_the_data_sheets() {
        let mean = curve().mean_time(STROKE).0;
        assert!(mean.abs_diff(8_500_000) < 1_000, "{mean}");
        // The same by adding up: pairs at distance x have the density 2(1 - x).
        let (mut sum, mut pairs) = (0, 0);
        for step in 0..1000 {
            sum += curve().time(Bytes(STROKE.0 / 1000 * step)).0 * (1000 - step);
            pairs += 1000 - step;
        }
        assert!((sum / pairs).abs_diff(8_500_000) < 20_000, "{}", sum / pairs);
    }

    #[test]
    fn an_average_that_no_curve_has_is_none() {
        let through = |average| {
            SeekCurve::through(Nanos::millis(1), Nanos(average), Nanos::millis(16), STROKE)
        };
        assert!(through(6_000_001).is_some() && through(8_999_999).is_some());
        assert!(through(5_999_000).is_none() && through(9_001_000).is_none());
        let through = |min, max, stroke| {
            SeekCurve::through(Nanos::millis(min), Nanos::millis(8), Nanos::millis(max), stroke)
        };
        assert!(through(9, 17, STROKE).is_none() && through(1, 7, STROKE).is_none());
        assert!(through(1, 17, Bytes(0)).is_none());
    }

    #[test]
    fn a_longer_way_never_takes_less_time() {
        let times = (0..200).map(|step| curve().time(Bytes(STROKE.0 / 200 * step)));
        assert!(times.is_sorted());
    }
}
