//! Sizes for people to read.

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
}
