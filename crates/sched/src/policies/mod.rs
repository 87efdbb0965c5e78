//! The policies by name: the one place that knows them all.

pub mod aioli;
pub mod checked;
pub mod hbrr;
pub mod mlf;
pub mod noop;
pub mod sjf;
pub mod sw;
pub mod to;
pub mod to_agg;

use alloc::boxed::Box;
use core::fmt;
use core::str::FromStr;

use crate::classes::PolicySource;
use crate::policies::aioli::{Aioli, AioliSettings};
use crate::policies::hbrr::{Hbrr, HbrrSettings};
use crate::policies::mlf::{Mlf, MlfSettings};
use crate::policies::noop::Noop;
use crate::policies::sjf::{Sjf, SjfSettings};
use crate::policies::sw::{Sw, SwSettings};
use crate::policies::to::TimeOrder;
use crate::policies::to_agg::ToAgg;
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
    /// Server-side windows: by window of arrival, then by class.
    Sw,
    /// No order at all.
    Noop,
}

impl PolicyName {
    /// Every policy, in the order of the tables.
    pub const ALL: [Self; 8] = [
        Self::To,
        Self::ToAgg,
        Self::Sjf,
        Self::Mlf,
        Self::Aioli,
        Self::Hbrr,
        Self::Sw,
        Self::Noop,
    ];

    /// The name as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::To => "TO",
            Self::ToAgg => "TO-agg",
            Self::Sjf => "SJF",
            Self::Mlf => "MLF",
            Self::Aioli => "aIOLi",
            Self::Hbrr => "HBRR",
            Self::Sw => "SW",
            Self::Noop => "NOOP",
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
        Self::ALL
            .into_iter()
            .find(|name| name.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownPolicy)
    }
}

/// What every policy is built with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicySettings {
    /// Limits that all of them share.
    pub limits: Limits,
    /// SJF's own.
    pub sjf: SjfSettings,
    /// MLF's own.
    pub mlf: MlfSettings,
    /// aIOLi's own.
    pub aioli: AioliSettings,
    /// HBRR's own.
    pub hbrr: HbrrSettings,
    /// SW's own.
    pub sw: SwSettings,
}

impl From<Limits> for PolicySettings {
    fn from(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }
}

/// A policy of that name for every class.
pub fn source(name: PolicyName, settings: &PolicySettings) -> PolicySource {
    let settings = *settings;
    Box::new(move || build(name, &settings))
}

/// A fresh policy of that name.
pub fn build(name: PolicyName, settings: &PolicySettings) -> Box<dyn Policy> {
    let limits = &settings.limits;
    match name {
        PolicyName::To => Box::new(TimeOrder::new()),
        PolicyName::ToAgg => Box::new(ToAgg::new(limits)),
        PolicyName::Sjf => Box::new(Sjf::new(limits, settings.sjf)),
        PolicyName::Mlf => Box::new(Mlf::new(limits, settings.mlf)),
        PolicyName::Aioli => Box::new(Aioli::new(limits, settings.aioli)),
        PolicyName::Hbrr => Box::new(Hbrr::new(limits, settings.hbrr)),
        PolicyName::Sw => Box::new(Sw::new(settings.sw)),
        PolicyName::Noop => Box::new(Noop::new()),
    }
}
