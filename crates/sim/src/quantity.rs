//! Quantities as scenarios write them: `"32 KiB"`, `"900 us"`, `"1250 MB/s"`.
//!
//! A whole number and a unit. Sizes may be plain numbers of bytes; times and rates always have a
//! unit. Decimal megabytes exist for rates only, because that is how links are sold.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;

use forebay_device::Rate;
use forebay_units::{Bytes, Nanos};
use serde::de::{self, Deserializer, Visitor};

/// What can be written as a number with a unit.
pub(crate) trait Quantity: Sized {
    /// What is expected, for errors.
    const EXPECTED: &'static str;

    /// The quantity, or nothing if the unit is not one of its own or the number is out of range.
    fn from_parts(number: u64, unit: &str) -> Option<Self>;
}

impl Quantity for Bytes {
    const EXPECTED: &'static str = "a size such as 4096 or \"32 KiB\" (B, KiB, MiB, GiB)";

    fn from_parts(number: u64, unit: &str) -> Option<Self> {
        let shift = match unit {
            "" | "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => return None,
        };
        number.checked_mul(1 << shift).map(Self)
    }
}

impl Quantity for Nanos {
    const EXPECTED: &'static str = "a time such as \"900 us\" (ns, us, ms, s)";

    fn from_parts(number: u64, unit: &str) -> Option<Self> {
        let factor = match unit {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            _ => return None,
        };
        number.checked_mul(factor).map(Self)
    }
}

impl Quantity for Rate {
    const EXPECTED: &'static str = "a rate above 0 such as \"1250 MB/s\" or \"1 GiB/s\"";

    fn from_parts(number: u64, unit: &str) -> Option<Self> {
        let factor = match unit {
            "KiB/s" => 1 << 10,
            "MiB/s" => 1 << 20,
            "GiB/s" => 1 << 30,
            "MB/s" => 1_000_000,
            _ => return None,
        };
        number.checked_mul(factor).filter(|rate| *rate > 0).map(Self::bytes_per_second)
    }
}

/// Reads a number and a unit.
pub(crate) fn parse<Q: Quantity>(text: &str) -> Option<Q> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Q::from_parts(number.parse().ok()?, unit.trim_start())
}

struct QuantityVisitor<Q>(PhantomData<Q>);

impl<Q: Quantity> Visitor<'_> for QuantityVisitor<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Q, E> {
        parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Q, E> {
        Q::from_parts(number, "")
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Q, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
        }
    }
}

/// For `#[serde(deserialize_with)]`.
pub(crate) fn quantity<'de, Q: Quantity, D: Deserializer<'de>>(from: D) -> Result<Q, D::Error> {
    from.deserialize_any(QuantityVisitor(PhantomData))
}

/// As [`quantity`], for a key that may be absent.
pub(crate) fn optional<'de, Q: Quantity, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Q>, D::Error> {
    quantity(from).map(Some)
}

/// A name that some type reads from text, such as a policy's.
pub(crate) fn word<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: core::str::FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    let text: String = serde::Deserialize::deserialize(from)?;
    text.parse().map_err(|error: T::Err| de::Error::custom(format!("\"{text}\": {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_make_a_quantity() {
        assert_eq!(parse::<Bytes>("32 KiB"), Some(Bytes::kib(32)));
        assert_eq!(parse::<Bytes>("4096"), Some(Bytes(4096)));
        assert_eq!(parse::<Nanos>(" 900us "), Some(Nanos::micros(900)));
        assert_eq!(parse::<Rate>("1250 MB/s"), Some(Rate::megabytes_per_second(1250)));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused() {
        for text in ["", "KiB", "32 kb", "-1 KiB", "1.5 MiB", "99999999999 GiB"] {
            assert_eq!(parse::<Bytes>(text), None, "{text}");
        }
        assert_eq!(parse::<Nanos>("5"), None, "a time has a unit");
        assert_eq!(parse::<Rate>("0 MB/s"), None, "a rate is above 0");
    }
}
