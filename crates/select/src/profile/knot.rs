//! What requests of one length took.

use forebay_units::Bytes;

use crate::math::sqrt;

/// A length that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knot {
    /// Of the requests.
    pub length: Bytes,
    /// Of one request, in nanoseconds; more than 0.
    pub time_ns: f64,
    /// How sure that is, as a relative standard error: 0.1 is a tenth.
    pub error: f64,
}

/// From the median distance to the median to the standard deviation, for what is normally distributed.
const DEVIATION_OF_MEDIAN_DISTANCE: f64 = 1.4826;

/// The median's standard error over the mean's, for what is normally distributed: the price of
/// not minding a few runs that something else disturbed.
const MEDIAN_OVER_MEAN: f64 = 1.2533;

impl Knot {
    /// From some runs of requests of this length, each with its mean time of a request in
    /// nanoseconds: their median. A mean within each run, since what is to be predicted is
    /// throughput; the median of the runs, since some of them are disturbed by others' work.
    /// `times_ns` is left in another order.
    ///
    /// `None` without a run, or if the median is not a positive number.
    pub fn of_runs(length: Bytes, times_ns: &mut [f64]) -> Option<Self> {
        let time_ns = median(times_ns)?;
        if !(time_ns > 0.0 && time_ns.is_finite()) {
            return None;
        }
        let runs = times_ns.len() as f64;
        times_ns.iter_mut().for_each(|time| *time = (*time - time_ns).abs());
        let distance = median(times_ns)?;
        // Few runs say little of their spread: about what Student's distribution has over the
        // normal one, at 95 %.
        let doubt = if runs > 1.0 { 1.0 + 2.0 / (runs - 1.0) } else { f64::INFINITY };
        let deviation = DEVIATION_OF_MEDIAN_DISTANCE * distance * doubt;
        let error = MEDIAN_OVER_MEAN * deviation / sqrt(runs) / time_ns;
        // A single run's spread is 0 and its doubt is endless.
        let error = if error.is_finite() { error } else { 1.0 };
        Some(Self { length, time_ns, error })
    }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Bytes = Bytes::kib(8);

    #[test]
    fn a_disturbed_run_does_not_move_the_time() {
        let knot = Knot::of_runs(LENGTH, &mut [100.0, 102.0, 98.0, 101.0, 9_000.0]).unwrap();
        assert_eq!(knot.time_ns, 101.0);
        assert!(knot.error > 0.0 && knot.error < 0.06, "{}", knot.error);
    }

    #[test]
    fn equal_runs_leave_no_doubt_and_a_single_run_leaves_all() {
        assert_eq!(Knot::of_runs(LENGTH, &mut [7.0; 5]).unwrap().error, 0.0);
        assert_eq!(Knot::of_runs(LENGTH, &mut [7.0]).unwrap().error, 1.0);
    }

    #[test]
    fn no_run_and_no_time_are_no_knot() {
        assert_eq!(Knot::of_runs(LENGTH, &mut []), None);
        assert_eq!(Knot::of_runs(LENGTH, &mut [0.0; 3]), None);
        assert_eq!(Knot::of_runs(LENGTH, &mut [f64::NAN; 3]), None);
        assert_eq!(Knot::of_runs(LENGTH, &mut [f64::INFINITY; 3]), None);
    }

    #[test]
    fn more_runs_are_surer() {
        let times = |n: usize| (0..n).map(|idx| 100.0 + (idx % 7) as f64);
        let error = |n| {
            let mut values = [0.0; 70];
            times(n).zip(&mut values).for_each(|(time, place)| *place = time);
            Knot::of_runs(LENGTH, &mut values[..n]).unwrap().error
        };
        assert!(error(70) < error(7) / 2.0, "{} {}", error(70), error(7));
    }
}
