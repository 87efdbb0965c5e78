//! What a selector says of itself, for the status.

use forebay_select::{ArmReport, Auto, FEATURES, Part, Pattern, SizeClass, Spatiality};
use forebay_select::{Switch, Why};
use forebay_units::{Direction, Timestamp};

use super::Selection;
use crate::status;

impl Selection {
    /// Of every part: which policy, and why. `name` is that of a class.
    pub(crate) fn report(
        &self,
        auto: &Auto,
        now: Timestamp,
        name: impl Fn(u64) -> String,
    ) -> status::Selection {
        let part = |why: &Why| status::Choice {
            class: match why.part {
                Part::All => None,
                Part::Class(class) => Some(name(u64::from(class.0))),
            },
            policy: why.policy.to_string(),
            reason: why.reason.as_str().to_owned(),
            pinned: why.pinned.map(|policy| policy.to_string()),
            pattern: why.pattern.as_ref().map(pattern),
            features: why.features.map_or_else(Default::default, |features| {
                FEATURES.iter().map(|one| (one.as_str().to_owned(), features.get(*one))).collect()
            }),
            leaf: why.leaf.as_ref().map(|(index, _)| *index as u64),
            path: why.leaf.as_ref().map_or_else(Vec::new, |(_, path)| path.clone()),
            arms: why.arms.iter().map(|one| arm(one, now)).collect(),
            switches: why.switches.iter().map(|(at, switch)| noted(*at, switch, now)).collect(),
        };
        status::Selection {
            device: self.device.about.clone(),
            state: self.state.as_ref().map(|path| path.display().to_string()),
            choices: auto.why(now).iter().map(part).collect(),
        }
    }
}

fn pattern(of: &Pattern) -> status::Pattern {
    status::Pattern {
        spatiality: match of.spatiality {
            Spatiality::Contiguous => "contiguous",
            Spatiality::Strided => "strided",
            Spatiality::Random => "random",
        }
        .to_owned(),
        size_class: match of.size_class {
            SizeClass::Small => "small",
            SizeClass::Large => "large",
        }
        .to_owned(),
        direction: match of.direction {
            Direction::Read => "read",
            Direction::Write => "write",
        }
        .to_owned(),
        reads_permille: u64::from(of.reads_permille),
        files: u64::from(of.files),
        clients: u64::from(of.clients),
        streams: u64::from(of.streams),
        request_bytes: of.request.0,
        application_request_bytes: of.application_request.0,
        file_bytes: of.file_bytes.0,
        hit_permille: u64::from(of.hit_permille),
        adjacent_permille: u64::from(of.adjacent_permille),
    }
}

fn arm(of: &ArmReport, now: Timestamp) -> status::Arm {
    status::Arm {
        policy: of.policy.to_string(),
        speedup: of.speedup,
        speedup_low: of.speedup_low,
        speedup_high: of.speedup_high,
        speedup_prior: of.speedup_prior,
        blocks: u64::from(of.blocks),
        quarantine_left_ns: of.quarantined_until.map_or(0, |until| until.0.saturating_sub(now.0)),
    }
}

fn noted(at: Timestamp, switch: &Switch, now: Timestamp) -> status::Switch {
    status::Switch {
        ago_ns: now.0.saturating_sub(at.0),
        policy: switch.policy.to_string(),
        reason: switch.reason.as_str().to_owned(),
    }
}
