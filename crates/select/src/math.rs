//! The few functions of real numbers that `core` does not have.
//!
//! In software, so that they give the same bits on every machine. Exact to about 1e-15 of the
//! result where tested.

/// The natural logarithm of a positive number; of zero, negative or no numbers the smallest there is.
pub(crate) fn ln(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return f64::MIN;
    }
    if x == f64::INFINITY {
        return f64::MAX;
    }
    // x = m · 2^e with m in [sqrt(1/2), sqrt(2)).
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * TWO_54, 54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023 - shift;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    if m > core::f64::consts::SQRT_2 {
        (m, exponent) = (m / 2.0, exponent + 1);
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), and |s| < 0.172.
    let s = (m - 1.0) / (m + 1.0);
    let series = (0..12).rev().fold(0.0, |sum, k| sum * s * s + 1.0 / f64::from(2 * k + 1));
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * series
}

const TWO_54: f64 = (1_u64 << 54) as f64;

/// e to the power of `x`.
pub(crate) fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    let x = x.clamp(-800.0, 800.0);
    let exponent = {
        let scaled = x * core::f64::consts::LOG2_E;
        (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i64
    };
    let rest = x - exponent as f64 * core::f64::consts::LN_2;
    let series = (1..=16).rev().fold(1.0, |sum, k| 1.0 + sum * rest / f64::from(k));
    // In two steps, since 2^exponent alone may be no number where the product is one.
    let half = exponent / 2;
    series * power_of_two(half) * power_of_two(exponent - half)
}

/// Of an exponent between -1022 and 1023.
fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The square root; 0 of what is not positive.
pub(crate) fn sqrt(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return 0.0;
    }
    if x == f64::INFINITY {
        return x;
    }
    let (x, scale) =
        if x < f64::MIN_POSITIVE { (x * TWO_54, 1.0 / 134_217_728.0) } else { (x, 1.0) };
    // Halving the exponent gives a start within a few percent; Newton doubles the digits.
    let start = f64::from_bits((x.to_bits() >> 1) + (1023 << 51));
    scale * (0..5).fold(start, |root, _| 0.5 * (root + x / root))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_agree_with_the_standard_library(x in 1e-300_f64..1e300, y in -700.0..700.0_f64, exponent in -320..308) {
            let near = |a: f64, b: f64| (a - b).abs() <= 4e-15 * a.abs().max(b.abs()).max(1e-3);
            let z = x.sqrt() * 10_f64.powi(exponent / 2);
            prop_assert!(near(ln(x), x.ln()), "{} {}", ln(x), x.ln());
            prop_assert!(near(ln(1.0 + x.fract()), (1.0 + x.fract()).ln()));
            prop_assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "{} {}", exp(y), y.exp());
            prop_assert!((sqrt(z) / z.sqrt() - 1.0).abs() < 1e-15, "{z}");
        }
    }

    #[test]
    fn what_has_no_result_has_a_number_all_the_same() {
        assert_eq!((ln(0.0), ln(-1.0), ln(f64::NAN)), (f64::MIN, f64::MIN, f64::MIN));
        assert_eq!(ln(f64::INFINITY), f64::MAX);
        assert!((ln(5e-324) + 744.440_071_921_381_3).abs() < 1e-10);
        assert_eq!((exp(-1e9), exp(1e9)), (0.0, f64::INFINITY));
        assert_eq!((exp(0.0), ln(1.0)), (1.0, 0.0));
        assert_eq!(
            (sqrt(0.0), sqrt(-4.0), sqrt(4.0), sqrt(f64::INFINITY)),
            (0.0, 0.0, 2.0, f64::INFINITY)
        );
        assert!((sqrt(5e-324) / 5e-324_f64.sqrt() - 1.0).abs() < 1e-12);
    }
}
