//! Values as scenarios write them: `"32 KiB"`, `"900 us"`, `"1250 MB/s"`, names, numbers in a range.
//!
//! A quantity is a whole number and a unit. Sizes may be plain numbers of bytes; times and rates
//! always have a unit. Decimal megabytes exist for rates only, because that is how links are sold.
//! What is written is read as the same.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::marker::PhantomData;

use forebay_device::Rate;
use forebay_units::{Bytes, Nanos};
use serde::de::{self, Deserializer, Visitor};
use serde::ser::Serializer;

/// What can be written as a number with a unit.
pub(crate) trait Quantity: Sized {
    /// What is expected, for errors.
    const EXPECTED: &'static str;

    /// Its units, the largest first, and how many of the smallest each is.
    const UNITS: &'static [(&'static str, u64)];

    /// How many of the smallest unit it is.
    fn count(&self) -> u64;

    /// So many of the smallest unit, if that is in range.
    fn from_count(count: u64) -> Option<Self>;

    /// The unit of a plain number, if one may be plain.
    const PLAIN: Option<&'static str> = None;
}

impl Quantity for Bytes {
    const EXPECTED: &'static str = "a size such as 4096 or \"32 KiB\" (B, KiB, MiB, GiB)";
    const UNITS: &'static [(&'static str, u64)] =
        &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
    const PLAIN: Option<&'static str> = Some("B");

    fn count(&self) -> u64 {
        self.0
    }

    fn from_count(count: u64) -> Option<Self> {
        Some(Self(count))
    }
}

impl Quantity for Nanos {
    const EXPECTED: &'static str = "a time such as \"900 us\" (ns, us, ms, s)";
    const UNITS: &'static [(&'static str, u64)] =
        &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

    fn count(&self) -> u64 {
        self.0
    }

    fn from_count(count: u64) -> Option<Self> {
        Some(Self(count))
    }
}

impl Quantity for Rate {
    const EXPECTED: &'static str =
        "a rate above 0 such as \"1250 MB/s\" or \"1 GiB/s\" (B/s, KiB/s, MiB/s, GiB/s, MB/s)";
    const UNITS: &'static [(&'static str, u64)] = &[
        ("MB/s", 1_000_000),
        ("GiB/s", 1 << 30),
        ("MiB/s", 1 << 20),
        ("KiB/s", 1 << 10),
        ("B/s", 1),
    ];

    fn count(&self) -> u64 {
        self.per_second()
    }

    fn from_count(count: u64) -> Option<Self> {
        (count > 0).then(|| Self::bytes_per_second(count))
    }
}

/// Reads a number and a unit.
pub(crate) fn parse<Q: Quantity>(text: &str) -> Option<Q> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    from_parts(number.parse().ok()?, unit.trim_start())
}

/// The quantity, or nothing if the unit is not one of its own or the number is out of range.
fn from_parts<Q: Quantity>(number: u64, unit: &str) -> Option<Q> {
    let unit = if unit.is_empty() { Q::PLAIN? } else { unit };
    let (_, factor) = Q::UNITS.iter().find(|(name, _)| *name == unit)?;
    Q::from_count(number.checked_mul(*factor)?)
}

/// Writes a number with the largest unit of which it is a multiple; nothing is so many of the smallest.
struct Written<'a, Q>(&'a Q);

impl<Q: Quantity> fmt::Display for Written<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.count();
        let fits = |(_, factor): &&(&str, u64)| count >= *factor && count.is_multiple_of(*factor);
        let (unit, factor) = Q::UNITS.iter().find(fits).or(Q::UNITS.last()).unwrap_or(&("", 1));
        write!(f, "{} {unit}", count / factor)
    }
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
        from_parts(number, "")
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Q, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
        }
    }
}

/// For `#[serde(with)]`: a quantity whose key is there, or has a default.
pub(crate) mod required {
    use super::{Deserializer, PhantomData, Quantity, QuantityVisitor, Serializer, Written};

    pub(crate) fn deserialize<'de, Q: Quantity, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Q, D::Error> {
        from.deserialize_any(QuantityVisitor(PhantomData))
    }

    pub(crate) fn serialize<Q: Quantity, S: Serializer>(it: &Q, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&Written(it))
    }
}

/// For `#[serde(with)]`: a quantity whose key may be absent.
pub(crate) mod optional {
    use super::{Deserializer, Quantity, Serializer, Written, required};

    pub(crate) fn deserialize<'de, Q: Quantity, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Q>, D::Error> {
        required::deserialize(from).map(Some)
    }

    pub(crate) fn serialize<Q: Quantity, S: Serializer>(
        it: &Option<Q>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match it {
            Some(it) => to.serialize_some(&format_args!("{}", Written(it))),
            None => to.serialize_none(),
        }
    }
}

/// For `#[serde(with)]`: a name that some type reads from text, such as a policy's.
pub(crate) mod word {
    use core::fmt::Display;
    use core::str::FromStr;

    use super::{Deserializer, Serializer, String, de, format};

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        let text: String = serde::Deserialize::deserialize(from)?;
        text.parse().map_err(|error| {
            let hint = match text.as_str() {
                "auto" => "; a selector is no scenario's own: say --policy auto",
                _ => "",
            };
            de::Error::custom(format!("\"{text}\": {error}{hint}"))
        })
    }

    pub(crate) fn serialize<T: Display, S: Serializer>(it: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(it)
    }
}

struct NumberVisitor<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> Visitor<'_> for NumberVisitor<LEAST, MOST> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {LEAST} to {MOST}")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u32, E> {
        let is_right = (LEAST..=MOST).contains(&number);
        let number_or_none = u32::try_from(number).ok().filter(|_| is_right);
        number_or_none.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u32, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
        }
    }
}

/// For `#[serde(deserialize_with)]`: a whole number in a range, which errors name.
pub(crate) fn number<'de, D: Deserializer<'de>, const LEAST: u64, const MOST: u64>(
    from: D,
) -> Result<u32, D::Error> {
    from.deserialize_any(NumberVisitor::<LEAST, MOST>)
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

    #[test]
    fn what_is_written_is_read_as_the_same() {
        fn there_and_back<Q: Quantity + PartialEq + core::fmt::Debug>(count: u64) -> String {
            let it = Q::from_count(count).expect("it is in range");
            let text = format!("{}", Written(&it));
            assert_eq!(parse(&text), Some(it), "{text}");
            text
        }
        assert_eq!(there_and_back::<Bytes>(3 << 20), "3 MiB");
        assert_eq!(there_and_back::<Bytes>(0), "0 B");
        assert_eq!(there_and_back::<Nanos>(1_500_000), "1500 us");
        assert_eq!(there_and_back::<Rate>(1_250_000_000), "1250 MB/s");
        for count in [1, 999, 1023, 4097, 65_536_000, u64::MAX] {
            there_and_back::<Bytes>(count);
            there_and_back::<Nanos>(count);
            there_and_back::<Rate>(count);
        }
    }
}
