//! How long a request takes, by its length: lines from knot to knot.
//!
//! Between two knots and beyond the outer ones, `t(length) = a + b · length` with the line through
//! the two nearest. Errors follow from the knots' by the same weights, so that they grow with the
//! distance beyond what was measured.

use forebay_units::{Bytes, Nanos};

use super::knot::Knot;
use crate::math::sqrt;

/// The most lengths that a curve is made of.
pub const KNOTS_MAX: usize = 8;

/// The largest time of a knot, some twelve days: times of times still fit.
pub(super) const TIME_NS_MAX: f64 = 1e15;

/// The largest error of a knot: that nothing is known.
pub(super) const ERROR_MAX: f64 = 1e3;

/// Where a curve that is one line has its two knots.
const LINE_LENGTHS: [Bytes; 2] = [Bytes::kib(4), Bytes::mib(8)];

/// `t(length) = a + b · length`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Of a request of no length, in nanoseconds.
    pub fixed_ns: f64,
    /// Of each byte, in nanoseconds.
    pub byte_ns: f64,
}

/// Times by length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    knots: [Knot; KNOTS_MAX],
    count: u8,
}

impl Curve {
    /// Through knots with ascending lengths.
    ///
    /// `None` for none or more than [`KNOTS_MAX`], for lengths that do not ascend from 1 byte on,
    /// for a time that is not positive or longer than 10^15 ns, for an error that is not
    /// between 0 and 1,000.
    pub fn through(knots: &[Knot]) -> Option<Self> {
        let is_whole = |knot: &Knot| {
            knot.length > Bytes::ZERO
                && knot.time_ns > 0.0
                && knot.time_ns <= TIME_NS_MAX
                && (0.0..=ERROR_MAX).contains(&knot.error)
        };
        let ascend = knots.is_sorted_by(|a, b| a.length < b.length);
        let first = *knots.first()?;
        if knots.len() > KNOTS_MAX || !ascend || !knots.iter().all(is_whole) {
            return None;
        }
        let mut all = [first; KNOTS_MAX];
        all[..knots.len()].copy_from_slice(knots);
        Some(Self { knots: all, count: knots.len() as u8 })
    }

    /// Of a device whose times are a line; without error. A time is never below a nanosecond.
    pub fn line(fixed_ns: f64, byte_ns: f64) -> Self {
        let line = Line { fixed_ns, byte_ns };
        let knots = LINE_LENGTHS.map(|length| Knot {
            length,
            time_ns: line.time_ns(length).clamp(1.0, TIME_NS_MAX),
            error: 0.0,
        });
        Self::through(&knots).expect("two lengths that ascend, times within their bounds")
    }

    /// What it is made of, in ascending order of length.
    pub fn knots(&self) -> &[Knot] {
        &self.knots[..usize::from(self.count)]
    }

    /// The same times, with every error at least this.
    pub fn with_error(mut self, error: f64) -> Self {
        self.knots.iter_mut().for_each(|knot| knot.error = knot.error.max(error));
        self
    }

    /// The time of a request.
    pub fn time(&self, length: Bytes) -> Nanos {
        Nanos(self.time_ns(length) as u64)
    }

    /// The same, in fractions of a nanosecond.
    pub(super) fn time_ns(&self, length: Bytes) -> f64 {
        match self.knots() {
            // Of a single length it is not known what is fixed: all of it, for the time is then the
            // right one at least for what was measured.
            [one] => one.time_ns,
            knots => Segment::around(knots, length).time_ns(),
        }
    }

    /// The time of a request and how sure it is.
    pub fn at(&self, length: Bytes) -> Knot {
        match self.knots() {
            [one] => Knot { length, ..*one },
            knots => Segment::around(knots, length).knot(),
        }
    }

    /// The line nearest to the knots: least squares of the relative errors (weights `1/t²`), since
    /// times differ by a factor of a thousand and the short ones matter as much. Neither part of it
    /// is negative.
    pub fn fitted(&self) -> Line {
        let mut sums = Sums::default();
        for knot in self.knots() {
            sums.add(1.0 / knot.time_ns, knot.length.0 as f64 / knot.time_ns, 1.0, 1.0);
        }
        sums.solve()
    }

    /// The largest part by which the fitted line misses a knot.
    pub fn misfit(&self) -> f64 {
        let line = self.fitted();
        let miss = |knot: &Knot| (line.time_ns(knot.length) / knot.time_ns - 1.0).abs();
        self.knots().iter().map(miss).fold(0.0, f64::max)
    }
}

impl Line {
    /// The time of a request, in nanoseconds.
    pub fn time_ns(&self, length: Bytes) -> f64 {
        self.fixed_ns + self.byte_ns * length.0 as f64
    }
}

/// A place on the line through the two knots next to it, between or beyond them.
struct Segment<'a> {
    lower: &'a Knot,
    upper: &'a Knot,
    length: Bytes,
    /// Of the way from the lower to the upper one.
    share: f64,
}

impl<'a> Segment<'a> {
    /// Of at least two knots.
    fn around(knots: &'a [Knot], length: Bytes) -> Self {
        let upper = knots[1..knots.len() - 1].iter().take_while(|knot| knot.length < length);
        let lower_idx = upper.count();
        let (lower, upper) = (&knots[lower_idx], &knots[lower_idx + 1]);
        let span = (upper.length.0 - lower.length.0) as f64;
        let share = (length.0 as f64 - lower.length.0 as f64) / span;
        Self { lower, upper, length, share }
    }

    fn time_ns(&self) -> f64 {
        let Self { lower, upper, length, share } = *self;
        let on_line = lower.time_ns * (1.0 - share) + upper.time_ns * share;
        // Outside, noise could turn a line downwards: a shorter request takes at least its bytes'
        // part of the shortest one, a longer one at least the longest one's time.
        let floor = if share < 0.0 {
            lower.time_ns * length.0 as f64 / lower.length.0 as f64
        } else if share > 1.0 {
            upper.time_ns
        } else {
            0.0
        };
        on_line.max(floor).min(TIME_NS_MAX)
    }

    fn knot(&self) -> Knot {
        let Self { lower, upper, length, share } = *self;
        let time_ns = self.time_ns();
        let low = lower.error * lower.time_ns * (1.0 - share);
        let high = upper.error * upper.time_ns * share;
        let error = if time_ns > 0.0 { sqrt(low * low + high * high) / time_ns } else { 0.0 };
        Knot { length, time_ns, error }
    }
}

/// What least squares of `y = a · u + b · v` need of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) uu: f64,
    pub(super) uv: f64,
    pub(super) vv: f64,
    uy: f64,
    vy: f64,
}

impl Sums {
    pub(super) fn add(&mut self, u: f64, v: f64, y: f64, weight: f64) {
        self.uu += weight * u * u;
        self.uv += weight * u * v;
        self.vv += weight * v * v;
        self.uy += weight * u * y;
        self.vy += weight * v * y;
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            uu: self.uu + other.uu,
            uv: self.uv + other.uv,
            vv: self.vv + other.vv,
            uy: self.uy + other.uy,
            vy: self.vy + other.vy,
        }
    }

    /// Lets older samples count less.
    pub(super) fn fade(&mut self, factor: f64) {
        for sum in [&mut self.uu, &mut self.uv, &mut self.vv, &mut self.uy, &mut self.vy] {
            *sum *= factor;
        }
    }

    /// Whether the samples tell the two parts apart, to a rounding error.
    pub(super) fn determinant(&self) -> f64 {
        let determinant = self.uu * self.vv - self.uv * self.uv;
        if determinant > 1e-12 * self.uu * self.vv { determinant } else { 0.0 }
    }

    /// The best line without a negative part; samples of one length are all fixed time.
    pub(super) fn solve(&self) -> Line {
        let determinant = self.determinant();
        if determinant > 0.0 {
            let fixed_ns = (self.vv * self.uy - self.uv * self.vy) / determinant;
            let byte_ns = (self.uu * self.vy - self.uv * self.uy) / determinant;
            if fixed_ns >= 0.0 && byte_ns >= 0.0 {
                return Line { fixed_ns, byte_ns };
            }
            if fixed_ns < 0.0 {
                return Line { fixed_ns: 0.0, byte_ns: (self.vy / self.vv).max(0.0) };
            }
        }
        let fixed_ns = if self.uu > 0.0 { (self.uy / self.uu).max(0.0) } else { 0.0 };
        Line { fixed_ns, byte_ns: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn knot(length: u64, time_ns: f64, error: f64) -> Knot {
        Knot { length: Bytes(length), time_ns, error }
    }

    #[test]
    fn a_line_is_itself_at_every_length() {
        let curve = Curve::line(1_000.0, 0.5);
        for length in [0, 1, 4096, 8192, 100_000, 8 << 20, 64 << 20] {
            let expected = 1_000 + length / 2;
            assert!(curve.time(Bytes(length)).0.abs_diff(expected) <= 1, "{length}");
        }
        let line = curve.fitted();
        assert!((line.fixed_ns - 1_000.0).abs() < 1e-6 && (line.byte_ns - 0.5).abs() < 1e-12);
        assert!(curve.misfit() < 1e-9);
    }

    #[test]
    fn a_bend_is_followed_and_the_fitted_line_says_by_how_much_it_misses() {
        let knots = [knot(10, 100.0, 0.0), knot(20, 100.0, 0.0), knot(40, 200.0, 0.0)];
        let curve = Curve::through(&knots).unwrap();
        assert_eq!(curve.time(Bytes(15)), Nanos(100));
        assert_eq!(curve.time(Bytes(30)), Nanos(150));
        assert_eq!(curve.time(Bytes(60)), Nanos(300));
        assert!(curve.misfit() > 0.05 && curve.misfit() < 0.5, "{}", curve.misfit());
    }

    #[test]
    fn errors_shrink_between_knots_and_grow_beyond_them() {
        let curve = Curve::through(&[knot(10, 100.0, 0.1), knot(20, 100.0, 0.1)]).unwrap();
        let error = |length| curve.at(Bytes(length)).error;
        assert!((error(10) - 0.1).abs() < 1e-12);
        assert!((error(15) - 0.1 / 2.0_f64.sqrt()).abs() < 1e-12);
        assert!(error(40) > 0.3 && error(80) > error(40));
    }

    #[test]
    fn noise_never_makes_a_time_negative_or_a_longer_request_free() {
        let curve = Curve::through(&[knot(10, 10.0, 0.1), knot(20, 30.0, 0.1)]).unwrap();
        assert_eq!(curve.time(Bytes(2)), Nanos(2));
        let curve = Curve::through(&[knot(10, 30.0, 0.1), knot(20, 10.0, 0.1)]).unwrap();
        assert_eq!(curve.time(Bytes(1_000)), Nanos(10));
    }

    #[test]
    fn one_knot_is_taken_for_every_length() {
        let curve = Curve::through(&[knot(10, 10.0, 0.1)]).unwrap();
        assert_eq!(curve.at(Bytes(99)), knot(99, 10.0, 0.1));
        let line = curve.fitted();
        assert!((line.fixed_ns - 10.0).abs() < 1e-9 && line.byte_ns == 0.0, "{line:?}");
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        let fine = knot(10, 10.0, 0.1);
        assert!(Curve::through(&[]).is_none());
        assert!(Curve::through(&[fine, fine]).is_none());
        assert!(Curve::through(&[knot(0, 10.0, 0.1)]).is_none());
        assert!(Curve::through(&[knot(10, 0.0, 0.1)]).is_none());
        assert!(Curve::through(&[knot(10, f64::NAN, 0.1)]).is_none());
        assert!(Curve::through(&[knot(10, 1e16, 0.1)]).is_none());
        assert!(Curve::through(&[knot(10, 10.0, -0.1)]).is_none());
        assert!(Curve::through(&[knot(10, 10.0, f64::INFINITY)]).is_none());
        let many: [Knot; 9] = core::array::from_fn(|idx| knot(idx as u64 + 1, 1.0, 0.0));
        assert!(Curve::through(&many).is_none());
    }

    proptest! {
        #[test]
        fn every_time_and_error_is_a_number(
            times in prop::collection::vec((1.0..1e15, 0.0..10.0), 1..=KNOTS_MAX),
            length in any::<u64>(),
        ) {
            let knots: Vec<Knot> = times
                .iter()
                .enumerate()
                .map(|(idx, (time, error))| knot(1 << (3 * idx), *time, *error))
                .collect();
            let curve = Curve::through(&knots).unwrap();
            let at = curve.at(Bytes(length));
            prop_assert!(at.time_ns >= 0.0 && at.time_ns.is_finite());
            prop_assert!(at.error >= 0.0 && at.error.is_finite());
            let line = curve.fitted();
            prop_assert!(line.fixed_ns >= 0.0 && line.byte_ns >= 0.0);
            for knot in &knots {
                let there = curve.at(knot.length);
                prop_assert!((there.time_ns / knot.time_ns - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn a_noisy_line_is_found_again(
            fixed in 1_000.0..10_000_000.0,
            byte in 0.01..50.0,
            noise in prop::collection::vec(-0.02..0.02, 6),
        ) {
            let line = Line { fixed_ns: fixed, byte_ns: byte };
            let lengths = [4_u64, 16, 64, 256, 1024, 8192].map(|kib| Bytes(kib << 10));
            let knots: Vec<Knot> = lengths
                .iter()
                .zip(&noise)
                .map(|(length, noise)| {
                    knot(length.0, line.time_ns(*length) * (1.0 + noise), 0.02)
                })
                .collect();
            let found = Curve::through(&knots).unwrap().fitted();
            for length in lengths {
                let ratio = found.time_ns(length) / line.time_ns(length);
                prop_assert!((ratio - 1.0).abs() < 0.06, "{length:?}: {ratio}");
            }
        }
    }
}
