//! Changes to how a scheduler shares and orders, while it is recorded and when it is replayed.
//!
//! What is taken down and what is done to the scheduler come from the same value, so a replay does
//! the same. In a trace it is a setting: a key and words, as `docs/trace-format.md` lists them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};

use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::sharing::{ClassShare, GroupId, Share, SharingSettings};
use forebay_sched::{
    ClassError, Limits, Policy, PolicyName, PolicySettings, Scheduler, build, source,
};
use forebay_units::{Bytes, ClassId, Timestamp};

use crate::spelling;

/// A policy with those of its settings that a forwarder can be told; the others are at their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyChoice {
    /// The policy.
    pub policy: PolicyName,
    /// Limits and device facts.
    pub limits: Limits,
    /// HBRR's quantum: 1 to 1,024 ranges, or 4 KiB to 1 GiB.
    pub hbrr_quantum: HbrrQuantum,
}

impl PolicyChoice {
    /// A policy with these settings; `None` if one of them that is not kept here has another value
    /// than its default.
    pub fn of(policy: PolicyName, settings: &PolicySettings) -> Option<Self> {
        let PolicySettings { limits, hbrr, .. } = *settings;
        let choice = Self { policy, limits, hbrr_quantum: hbrr.quantum };
        (choice.settings() == *settings).then_some(choice)
    }

    /// What the policy is built with.
    pub fn settings(&self) -> PolicySettings {
        let mut settings = PolicySettings::from(self.limits);
        settings.hbrr.quantum = self.hbrr_quantum;
        settings
    }

    /// A fresh policy so made.
    pub fn build(&self) -> Box<dyn Policy> {
        build(self.policy, &self.settings())
    }

    /// Whether every number is in its range.
    pub(crate) fn is_possible(&self) -> bool {
        match self.hbrr_quantum {
            HbrrQuantum::Ranges(count) => (1..=1024).contains(&count),
            HbrrQuantum::Bytes(bytes) => (Bytes::kib(4)..=Bytes::mib(1024)).contains(&bytes),
        }
    }
}

/// A change to how a scheduler shares and orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjustment {
    /// A class gets its share; with `None` it is like any other that nobody mentioned.
    Class(ClassId, Option<ClassShare>),
    /// A group of classes gets its share, or loses it.
    Group(GroupId, Option<Share>),
    /// The discipline, what a batch costs, and the rest.
    Sharing(SharingSettings),
    /// A policy for all classes, those that come later included; for all requests without classes.
    Policy(PolicyChoice),
    /// A policy for one class.
    ClassPolicy(ClassId, PolicyChoice),
}

const SHARING: &str = "sharing";
const POLICY: &str = "policy";
const CLASS: &str = "class.";
const GROUP: &str = "group.";
/// What stands for no share.
const NONE: &str = "none";

impl Adjustment {
    /// What is changed, as a trace spells it.
    pub fn key(&self) -> String {
        match self {
            Self::Class(class, _) => format!("{CLASS}{}", class.0),
            Self::Group(group, _) => format!("{GROUP}{}", group.0),
            Self::Sharing(_) => SHARING.into(),
            Self::Policy(_) => POLICY.into(),
            Self::ClassPolicy(class, _) => format!("{CLASS}{}.{POLICY}", class.0),
        }
    }

    /// To what, as a trace spells it.
    pub fn value(&self) -> String {
        match self {
            Self::Class(_, Some(share)) => spelling::class_share(share),
            Self::Group(_, Some(share)) => spelling::share(share),
            Self::Class(_, None) | Self::Group(_, None) => NONE.to_string(),
            Self::Sharing(settings) => spelling::sharing(settings),
            Self::Policy(choice) | Self::ClassPolicy(_, choice) => spelling::policy(choice),
        }
    }

    /// Out of a trace; `None` if it is not understood or not possible. Shares may be out of their
    /// ranges: the scheduler refuses them.
    pub fn read(key: &str, value: &str) -> Option<Self> {
        if let Some(group) = key.strip_prefix(GROUP) {
            let group = GroupId(group.parse().ok()?);
            let share = read_or_none(value, spelling::read_share)?;
            return Some(Self::Group(group, share));
        }
        if let Some(class) = key.strip_prefix(CLASS) {
            return match class.split_once('.') {
                None => {
                    let share = read_or_none(value, spelling::read_class_share)?;
                    Some(Self::Class(ClassId(class.parse().ok()?), share))
                }
                Some((class, POLICY)) => {
                    let choice = spelling::read_policy(value)?;
                    Some(Self::ClassPolicy(ClassId(class.parse().ok()?), choice))
                }
                Some(_) => None,
            };
        }
        match key {
            SHARING => spelling::read_sharing(value).map(Self::Sharing),
            POLICY => spelling::read_policy(value).map(Self::Policy),
            _ => None,
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// As the scheduler says; nothing has changed then.
    ///
    /// # Panics
    /// If a number that is no share's is out of its range; those that were read are not.
    pub fn apply(&self, now: Timestamp, scheduler: &mut Scheduler) -> Result<(), ClassError> {
        match *self {
            Self::Class(class, Some(share)) => scheduler.configure_class(now, class, share),
            Self::Class(class, None) => scheduler.release_class(now, class).map(drop),
            Self::Group(group, Some(share)) => scheduler.configure_group(now, group, share),
            Self::Group(group, None) => scheduler.release_group(now, group).map(drop),
            Self::Sharing(settings) => scheduler.switch_sharing(now, settings),
            Self::Policy(choice) if scheduler.has_classes() => {
                scheduler.switch_policies(now, source(choice.policy, &choice.settings())).map(drop)
            }
            Self::Policy(choice) => {
                drop(scheduler.switch_policy(now, choice.build()));
                Ok(())
            }
            Self::ClassPolicy(class, choice) => {
                scheduler.switch_class_policy(now, class, choice.build()).map(drop)
            }
        }
    }
}

/// A share, or that there is none.
fn read_or_none<T>(text: &str, read: fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text == NONE { Some(None) } else { read(text).map(Some) }
}
