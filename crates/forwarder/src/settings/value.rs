//! Values of settings: how they are spelled, which are allowed, and which field type they fill.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_device::{PROFILES, Profile};
use forebay_store::Faults;
use forebay_units::{Bytes, Nanos};

use super::class::Ceiling;
use super::definition::DEFAULT_POLICY;
use super::{
    Bypass, Cost, Discipline, Level, Network, StoreEngine, StoreKind, TcpControl, Windows,
};

/// Which values a setting takes. Its text form ([`fmt::Display`]) is the allowed range, for errors and reference texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A size: a number with `k`, `m`, `g` or `KiB`, `MiB`, `GiB`, or plain bytes.
    Bytes {
        /// Smallest allowed.
        min: Bytes,
        /// Largest allowed.
        max: Bytes,
        /// The value must be a multiple of this.
        multiple_of: Bytes,
    },
    /// A whole number.
    Count {
        /// Smallest allowed.
        min: u32,
        /// Largest allowed.
        max: u32,
    },
    /// A decimal number.
    Factor {
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// A length of time with its unit: `ns`, `us`, `ms` or `s`.
    Duration {
        /// Shortest allowed.
        min: Nanos,
        /// Longest allowed.
        max: Nanos,
    },
    /// A size a second, or `none`.
    ByteRate {
        /// Largest allowed; the smallest is 1.
        max: u64,
    },
    /// A number of requests a second, or `none`.
    OperationRate {
        /// Largest allowed; the smallest is 1.
        max: u64,
    },
    /// One of some words; upper and lower case are the same.
    Choice(&'static [&'static str]),
    /// A path, or empty for none.
    Path,
    /// An address with a port, or empty for none.
    Address,
    /// Networks, separated by commas.
    Networks,
    /// `posix`, `memory` or `modelled:PROFILE`.
    Store,
    /// Rules of a [`Faults`], or empty for none.
    Faults,
}

/// A value of some [`Kind`]. Its text form is one that [`Kind::parse`] reads back.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A size.
    Bytes(Bytes),
    /// A whole number.
    Count(u32),
    /// A decimal number.
    Factor(f64),
    /// A length of time.
    Duration(Nanos),
    /// A size a second.
    ByteRate(Ceiling),
    /// A number of requests a second.
    OperationRate(Ceiling),
    /// A word, or rules for faults; empty for none.
    Text(String),
    /// A path; none when empty.
    Path(Option<PathBuf>),
    /// An address; none when empty.
    Address(Option<SocketAddr>),
    /// Networks.
    Networks(Vec<Network>),
    /// A store.
    Store(StoreKind),
}

impl Kind {
    /// Reads a value; `None` when the text is not one of this kind's values.
    pub fn parse(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        match *self {
            Self::Bytes { min, max, multiple_of } => parse_bytes(text)
                .filter(|b| (min..=max).contains(b) && b.0.is_multiple_of(multiple_of.0))
                .map(Value::Bytes),
            Self::Count { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(Value::Count)
            }
            Self::Factor { min, max } => {
                text.parse().ok().filter(|n| (min..=max).contains(n)).map(Value::Factor)
            }
            Self::Duration { min, max } => {
                parse_duration(text).filter(|d| (min..=max).contains(d)).map(Value::Duration)
            }
            Self::ByteRate { max } => {
                parse_rate(text, max, |text| Some(parse_bytes(text)?.0)).map(Value::ByteRate)
            }
            Self::OperationRate { max } => {
                parse_rate(text, max, |text| text.parse().ok()).map(Value::OperationRate)
            }
            Self::Choice(words) => {
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(text))?;
                Some(Value::Text((*word).to_owned()))
            }
            Self::Path => Some(Value::Path(some_unless_empty(text).map(PathBuf::from))),
            Self::Address if text.is_empty() => Some(Value::Address(None)),
            Self::Address => text.parse().ok().map(|a| Value::Address(Some(a))),
            Self::Networks => parse_networks(text).map(Value::Networks),
            Self::Store => parse_store(text).map(Value::Store),
            Self::Faults => (text.is_empty() || text.parse::<Faults>().is_ok())
                .then(|| Value::Text(text.to_owned())),
        }
    }
}

fn some_unless_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// The number in front of a unit, and the unit; decimal points are not numbers here.
fn split_unit(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Binary units only: whether `MB` is 10^6 or 2^20 is a question that a setting should not raise.
impl Kind {
    /// What would have been right in place of `text`.
    pub(super) fn allowed(&self, text: &str) -> String {
        let is_policy = matches!(self, Self::Choice(words) if words.contains(&DEFAULT_POLICY));
        match is_policy && text.trim().eq_ignore_ascii_case("sw") {
            true => format!(
                "{self}; sw orders jobs, and each has a policy of its own: set sharing.discipline = sw"
            ),
            false => self.to_string(),
        }
    }
}

fn parse_bytes(text: &str) -> Option<Bytes> {
    let (number, unit) = split_unit(text)?;
    let shift = match unit {
        "" | "B" => 0,
        "k" | "K" | "KiB" => 10,
        "m" | "M" | "MiB" => 20,
        "g" | "G" | "GiB" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift).map(Bytes)
}

fn parse_duration(text: &str) -> Option<Nanos> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(factor).map(Nanos)
}

fn parse_rate(text: &str, max: u64, number: fn(&str) -> Option<u64>) -> Option<Ceiling> {
    if text == "none" {
        return Some(Ceiling::None);
    }
    let rate = number(text.strip_suffix("/s").unwrap_or(text).trim_end())?;
    (1..=max).contains(&rate).then_some(Ceiling::PerSecond(rate))
}

fn parse_networks(text: &str) -> Option<Vec<Network>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|network| network.trim().parse().ok()).collect()
}

fn parse_store(text: &str) -> Option<StoreKind> {
    match text.split_once(':') {
        None if text == "posix" => Some(StoreKind::Posix),
        None if text == "memory" => Some(StoreKind::Memory),
        Some(("modelled", name)) => {
            Profile::by_name(name).ok().map(|profile| StoreKind::Modelled(profile.name.to_owned()))
        }
        _ => None,
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes { min, max, multiple_of } => {
                write!(f, "a size from {} to {}", Value::Bytes(min), Value::Bytes(max))?;
                if multiple_of > Bytes(1) {
                    write!(f, ", a multiple of {}", Value::Bytes(multiple_of))?;
                }
                Ok(())
            }
            Self::Count { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Factor { min, max } => write!(f, "a number from {min} to {max}"),
            Self::Duration { min, max } => {
                write!(
                    f,
                    "a time from {} to {}, with ns, us, ms or s",
                    Value::Duration(min),
                    Value::Duration(max)
                )
            }
            Self::ByteRate { max } => {
                write!(f, "a size a second such as 100MiB/s, at most {max}, or none")
            }
            Self::OperationRate { max } => {
                write!(f, "requests a second such as 500/s, at most {max}, or none")
            }
            Self::Choice(words) => write!(f, "{}", words.join(", ")),
            Self::Path => write!(f, "a path, or empty for none"),
            Self::Address => write!(f, "ADDRESS:PORT, or empty for none"),
            Self::Networks => {
                write!(f, "networks such as 10.0.0.0/8 or ::1/128, separated by commas")
            }
            Self::Store => {
                let profiles: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
                write!(f, "posix, memory, modelled:PROFILE with profile {}", profiles.join(", "))
            }
            Self::Faults => {
                write!(f, "rules such as write:ENOSPC@3,read:short@10%, or empty for none")
            }
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => {
                let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
                match units
                    .iter()
                    .find(|(shift, _)| bytes.0 > 0 && bytes.0.trailing_zeros() >= *shift)
                {
                    Some((shift, unit)) => write!(f, "{}{unit}", bytes.0 >> shift),
                    None => write!(f, "{}", bytes.0),
                }
            }
            Self::Count(n) => write!(f, "{n}"),
            Self::Factor(n) => write!(f, "{n}"),
            Self::Duration(time) => {
                let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
                let (factor, unit) = units
                    .into_iter()
                    .find(|(factor, _)| time.0.is_multiple_of(*factor))
                    .expect("every number is a multiple of 1");
                write!(f, "{}{unit}", time.0 / factor)
            }
            Self::ByteRate(Ceiling::None) | Self::OperationRate(Ceiling::None) => {
                f.write_str("none")
            }
            Self::ByteRate(Ceiling::PerSecond(rate)) => {
                write!(f, "{}/s", Self::Bytes(Bytes(*rate)))
            }
            Self::OperationRate(Ceiling::PerSecond(rate)) => write!(f, "{rate}/s"),
            Self::Text(text) => f.write_str(text),
            Self::Path(path) => match path {
                Some(path) => write!(f, "{}", path.display()),
                None => Ok(()),
            },
            Self::Address(address) => match address {
                Some(address) => write!(f, "{address}"),
                None => Ok(()),
            },
            Self::Networks(networks) => {
                let texts: Vec<String> = networks.iter().map(Network::to_string).collect();
                f.write_str(&texts.join(","))
            }
            Self::Store(StoreKind::Posix) => f.write_str("posix"),
            Self::Store(StoreKind::Memory) => f.write_str("memory"),
            Self::Store(StoreKind::Modelled(profile)) => write!(f, "modelled:{profile}"),
        }
    }
}

/// A field type of [`Settings`](super::Settings) that can be filled from a [`Value`] and turned back into one.
///
/// `from_value` panics on a value of another kind: that is a row of the table whose kind does
/// not fit its field, and resolving the defaults, which every test does, finds it at once.
pub(super) trait Field {
    /// The field's value from a value of the fitting kind.
    fn from_value(value: Value) -> Self;
    /// The value to print.
    fn to_value(&self) -> Value;
}

/// [`Field`] for a type that is the content of one kind of value.
macro_rules! field {
    ($type:ty, $variant:ident) => {
        impl Field for $type {
            fn from_value(value: Value) -> Self {
                match value {
                    Value::$variant(content) => content,
                    other => {
                        panic!("bug: a setting of kind {} holds {other:?}", stringify!($variant))
                    }
                }
            }
            fn to_value(&self) -> Value {
                Value::$variant(self.clone())
            }
        }
    };
}

field!(Bytes, Bytes);
field!(u32, Count);
field!(f64, Factor);
field!(Nanos, Duration);
field!(String, Text);
field!(Option<PathBuf>, Path);
field!(Option<SocketAddr>, Address);
field!(Vec<Network>, Networks);
field!(StoreKind, Store);
field!(Ceiling, ByteRate);

impl Field for Option<String> {
    fn from_value(value: Value) -> Self {
        Some(String::from_value(value)).filter(|text| !text.is_empty())
    }
    fn to_value(&self) -> Value {
        Value::Text(self.clone().unwrap_or_default())
    }
}

/// [`Field`] for an enum whose variants are spelled by words of a [`Kind::Choice`].
macro_rules! choice_field {
    ($type:ident { $($word:literal => $variant:ident),+ }) => {
        impl Field for $type {
            fn from_value(value: Value) -> Self {
                match String::from_value(value).as_str() {
                    $($word => Self::$variant,)+
                    other => panic!("bug: {other} is not a {}", stringify!($type)),
                }
            }
            fn to_value(&self) -> Value {
                Value::Text(match self { $(Self::$variant => $word,)+ }.to_owned())
            }
        }
    };
}

choice_field!(StoreEngine { "auto" => Auto, "io_uring" => IoUring, "threads" => Threads });
choice_field!(Discipline { "sfq" => Sfq, "drr" => Drr, "twins" => Twins, "sw" => Sw });
choice_field!(Windows { "work-conserving" => WorkConserving, "strict" => Strict });
choice_field!(Cost { "bytes" => Bytes, "requests" => Requests, "time" => Time });
choice_field!(Level { "none" => None, "user" => User, "job" => Job, "target" => Target });
choice_field!(TcpControl { "refuse" => Refuse, "allow" => Allow });
choice_field!(Bypass { "when-idle" => WhenIdle, "never" => Never });
