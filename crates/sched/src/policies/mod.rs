//! The policies by name: the one place that knows them all.

pub mod to;

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use crate::policy::{Limits, Policy};

/// A policy's name, as configuration and tables write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// Time order: first come, first served.
    To,
    /// Time order with aggregation.
    ToAgg,
    /// Shortest job first: the file with the fewest bytes queued.
    Sjf,
    /// Multi-level feedback, as in AGIOS.
    Mlf,
    /// aIOLi: adaptive quanta in offset order, with waits for late processes.
    Aioli,
    /// Handle-based round robin, as in IOFSL.
    Hbrr,
}

impl PolicyName {
    /// Every policy, in the order of the tables.
    pub const ALL: [Self; 6] = [Self::To, Self::ToAgg, Self::Sjf, Self::Mlf, Self::Aioli, Self::Hbrr];

    /// The name as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::To => "TO",
            Self::ToAgg => "TO-agg",
            Self::Sjf => "SJF",
            Self::Mlf => "MLF",
            Self::Aioli => "aIOLi",
            Self::Hbrr => "HBRR",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown policy; one of")?;
        for (index, name) in PolicyName::ALL.iter().enumerate() {
            write!(f, "{} {name}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownPolicy {}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    /// Reads a name; upper and lower case are the same.
    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|name| name.as_str().eq_ignore_ascii_case(text)).ok_or(UnknownPolicy)
    }
}

/// A fresh policy of that name.
pub fn build(name: PolicyName, limits: &Limits) -> Box<dyn Policy> {
    let _ = limits;
    match name {
        PolicyName::To => Box::new(to::TimeOrder::new()),
        _ => Box::new(to::TimeOrder::new()),
    }
}
