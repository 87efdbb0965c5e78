//! How much real time a device's own time takes.

use core::error::Error;
use core::fmt;

use forebay_units::Timestamp;

const MILLION: u64 = 1_000_000;

/// How much real time a nanosecond of the device takes: 1, or less to have a test finish sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeScale {
    millionths: u64,
}

impl TimeScale {
    /// The device's own time.
    pub const ONE: Self = Self { millionths: MILLION };
    /// Below a tenth, timers are not exact enough for the times of a disk.
    pub const MIN: f64 = 0.1;
    /// Enough for a device that is slow enough to watch.
    pub const MAX: f64 = 100.0;

    /// A scale of `factor`, to a millionth.
    ///
    /// # Errors
    /// If it is not between [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
    pub fn new(factor: f64) -> Result<Self, TimeScaleError> {
        if !(Self::MIN..=Self::MAX).contains(&factor) {
            return Err(TimeScaleError { factor });
        }
        // Half a millionth more, cut off: rounded.
        Ok(Self { millionths: (factor * MILLION as f64 + 0.5) as u64 })
    }

    /// The device's time at a real one, to a nanosecond below.
    pub fn to_virtual(self, real: Timestamp) -> Timestamp {
        Timestamp(multiply_divide(real.0, MILLION, self.millionths))
    }

    /// The real time at one of the device's, to a nanosecond below.
    pub fn to_real(self, virtual_time: Timestamp) -> Timestamp {
        Timestamp(multiply_divide(virtual_time.0, self.millionths, MILLION))
    }
}

fn multiply_divide(value: u64, by: u64, divisor: u64) -> u64 {
    let result = u128::from(value) * u128::from(by) / u128::from(divisor);
    u64::try_from(result).unwrap_or(u64::MAX)
}

/// A time scale that is out of range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScaleError {
    factor: f64,
}

impl fmt::Display for TimeScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (TimeScale::MIN, TimeScale::MAX);
        write!(f, "time scale {} is out of range: {min} to {max}", self.factor)
    }
}

impl Error for TimeScaleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_out_of_range_is_refused_with_the_range() {
        let error = TimeScale::new(0.05).unwrap_err();
        assert_eq!(format(error), "time scale 0.05 is out of range: 0.1 to 100");
        assert!(TimeScale::new(f64::NAN).is_err());
        assert_eq!(TimeScale::new(1.0), Ok(TimeScale::ONE));
    }

    #[test]
    fn a_time_goes_there_and_back() {
        let scale = TimeScale::new(0.25).unwrap();
        assert_eq!(scale.to_virtual(Timestamp(1_000)), Timestamp(4_000));
        assert_eq!(scale.to_real(Timestamp(4_000)), Timestamp(1_000));
        assert_eq!(scale.to_virtual(Timestamp(u64::MAX)), Timestamp(u64::MAX));
    }

    fn format(error: TimeScaleError) -> alloc::string::String {
        alloc::format!("{error}")
    }
}
