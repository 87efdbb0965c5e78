//! Sizes and times for people to read.

use std::fmt;

/// A number of bytes, shown with one decimal and a binary unit.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(shift, _)| self.0 >> shift > 0) {
            #[expect(clippy::cast_precision_loss, reason = "for people to read")]
            Some((shift, unit)) => {
                write!(f, "{:.1} {unit}", self.0 as f64 / f64::from(1_u32 << shift))
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A length of time in nanoseconds, shown with one decimal and the largest unit that fits.
pub(crate) struct Length(pub(crate) u64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        match units.iter().find(|(unit, _)| self.0 >= *unit) {
            Some((unit, name)) => {
                write!(f, "{}.{} {name}", self.0 / unit, self.0 % unit * 10 / unit)
            }
            None => write!(f, "{} ns", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_takes_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (4 << 20, "4.0 MiB"),
            (3 << 40, "3072.0 GiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_length_takes_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_550, "1.5 us"),
            (12_345_678, "12.3 ms"),
            (3_600_000_000_000, "3600.0 s"),
        ];
        for (ns, text) in cases {
            assert_eq!(Length(ns).to_string(), text);
        }
    }
}
