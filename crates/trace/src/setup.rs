//! What a scheduler was made with, as settings in a trace's header: with them a trace can be
//! played to a scheduler of the same kind, and has to lead to the same decisions.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::{
    Bypass, ClassOptions, GuardMode, Limits, PolicyName, PolicySettings, Scheduler,
    SchedulerOptions, build, source,
};
use forebay_units::{Bytes, Nanos};

use crate::adjust::PolicyChoice;
use crate::frame::Header;
use crate::spelling;

/// A policy, its scheduler's options, and how classes share. Of the policy's own settings only
/// those are kept that a forwarder can be told; the others are at their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The policy.
    pub policy: PolicyName,
    /// The scheduler's options.
    pub options: SchedulerOptions,
    /// Limits and device facts.
    pub limits: Limits,
    /// HBRR's quantum.
    pub hbrr_quantum: HbrrQuantum,
    /// How classes share, each with a policy of its own; `None` if nothing is shared.
    pub classes: Option<ClassOptions>,
}

/// A setting that a header lacks, or that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupError {
    key: &'static str,
    value: Option<String>,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => {
                write!(f, "the trace's header has {} = {value}, which is not possible", self.key)
            }
            None => write!(
                f,
                "the trace's header lacks {}: it was imported, or recorded by something else than a forwarder; \
                 name a policy to replay it under",
                self.key
            ),
        }
    }
}

impl core::error::Error for SetupError {}

pub(crate) const GUARD: &str = "recorded.guard";
const LARGE: &str = "recorded.large_bytes";
const BYPASS: &str = "recorded.bypass_when_idle";
const QUEUE: &str = "recorded.queue_requests_max";
const RUN_BYTES: &str = "recorded.run_bytes_max";
const RUN_REQUESTS: &str = "recorded.run_requests_max";
const BATCH_BYTES: &str = "recorded.batch_bytes_max";
const WAIT: &str = "recorded.wait_max_ns";
const HBRR_RANGES: &str = "recorded.hbrr_ranges";
const HBRR_BYTES: &str = "recorded.hbrr_bytes";
pub(crate) const SHARING: &str = "recorded.sharing";
/// What stands for no sharing.
const NONE: &str = "none";

impl Setup {
    /// The setting that names the policy.
    pub const POLICY: &str = "recorded.policy";

    /// As settings for a header.
    pub fn entries(&self) -> Vec<(String, String)> {
        let large = self.options.large_bytes.map_or(0, |bytes| bytes.0);
        let (hbrr, quantum) = match self.hbrr_quantum {
            HbrrQuantum::Ranges(count) => (HBRR_RANGES, u64::from(count)),
            HbrrQuantum::Bytes(bytes) => (HBRR_BYTES, bytes.0),
        };
        let limits = &self.limits;
        let sharing = self.classes.as_ref().map_or_else(|| NONE.into(), spelling::classes);
        [
            (Self::POLICY, self.policy.to_string()),
            (GUARD, self.options.guard.to_string()),
            (LARGE, large.to_string()),
            (BYPASS, (self.options.bypass == Bypass::WhenIdle).to_string()),
            (QUEUE, self.options.queue_requests_max.to_string()),
            (RUN_BYTES, limits.run_bytes_max.0.to_string()),
            (RUN_REQUESTS, limits.run_requests_max.to_string()),
            (BATCH_BYTES, limits.batch_bytes_max.0.to_string()),
            (WAIT, limits.wait_max.0.to_string()),
            (hbrr, quantum.to_string()),
            (SHARING, sharing),
        ]
        .into_iter()
        .map(|(key, value)| (key.into(), value))
        .collect()
    }

    /// Out of a header. One that does not say how classes shared is of an earlier version, and
    /// taken for one of a scheduler without classes; a trace of classes tells more of them later,
    /// in words of that version, which a [`Checker`](crate::Checker) refuses.
    ///
    /// # Errors
    /// The first setting that is missing or makes no sense.
    pub fn of(header: &Header) -> Result<Self, SetupError> {
        let large: u64 = take(header, LARGE)?;
        let hbrr_quantum = match header.setting(HBRR_BYTES) {
            Some(_) => HbrrQuantum::Bytes(Bytes(take(header, HBRR_BYTES)?)),
            None => HbrrQuantum::Ranges(take(header, HBRR_RANGES)?),
        };
        let classes = match header.setting(SHARING) {
            None | Some(NONE) => None,
            Some(text) => Some(
                spelling::read_classes(text)
                    .ok_or_else(|| SetupError { key: SHARING, value: Some(format!("'{text}'")) })?,
            ),
        };
        let setup = Self {
            classes,
            policy: take(header, Self::POLICY)?,
            options: SchedulerOptions {
                guard: take::<GuardMode>(header, GUARD)?,
                large_bytes: (large > 0).then_some(Bytes(large)),
                bypass: match take(header, BYPASS)? {
                    true => Bypass::WhenIdle,
                    false => Bypass::Never,
                },
                queue_requests_max: take::<core::num::NonZeroUsize>(header, QUEUE)?.get(),
            },
            limits: Limits {
                run_bytes_max: Bytes(take(header, RUN_BYTES)?),
                run_requests_max: take(header, RUN_REQUESTS)?,
                batch_bytes_max: Bytes(take(header, BATCH_BYTES)?),
                wait_max: Nanos(take(header, WAIT)?),
            },
            hbrr_quantum,
        };
        match setup.choice().is_possible() {
            true => Ok(setup),
            false => {
                let (key, value) = match hbrr_quantum {
                    HbrrQuantum::Bytes(bytes) => (HBRR_BYTES, bytes.0),
                    HbrrQuantum::Ranges(count) => (HBRR_RANGES, u64::from(count)),
                };
                Err(SetupError { key, value: Some(format!("'{value}'")) })
            }
        }
    }

    /// The policy.
    pub fn choice(&self) -> PolicyChoice {
        let Self { policy, limits, hbrr_quantum, .. } = *self;
        PolicyChoice { policy, limits, hbrr_quantum }
    }

    /// What the policy is built with.
    pub fn policy_settings(&self) -> PolicySettings {
        self.choice().settings()
    }

    /// A scheduler so made, with nothing queued.
    pub fn scheduler(&self) -> Scheduler {
        let settings = self.policy_settings();
        match self.classes {
            None => Scheduler::new(self.options, build(self.policy, &settings)),
            Some(classes) => {
                Scheduler::with_classes(self.options, classes, source(self.policy, &settings))
            }
        }
    }
}

fn take<T: FromStr>(header: &Header, key: &'static str) -> Result<T, SetupError> {
    let text = header.setting(key).ok_or(SetupError { key, value: None })?;
    text.parse().map_err(|_| SetupError { key, value: Some(format!("'{text}'")) })
}
