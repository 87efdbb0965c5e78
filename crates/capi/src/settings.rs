//! The settings that can be changed while a controller works, by key and value.

use std::sync::Arc;

use forebay_controller::{Selection, Storage};
use forebay_sched::policies::aioli::SynchronousWait;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::policies::mlf::MlfGrowth;
use forebay_sched::{
    Checked, CheckedSettings, ClassOptions, Policy, PolicyName, PolicySettings, PolicySource,
    SchedulerOptions, build,
};
use forebay_trace::{Adjustment, PolicyChoice, Setup};
use forebay_units::{Bytes, Nanos};

use crate::failure::Failure;
use crate::outside::Outside;

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000_000_000;

/// Which policy, with which parameters.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) choice: Choice,
    /// What is behind the service, for policy `auto`.
    pub(crate) device: Storage,
    pub(crate) parameters: PolicySettings,
}

/// Which policy.
#[derive(Clone)]
pub(crate) enum Choice {
    /// What fits the requests.
    Auto,
    Known(PolicyName),
    Outside(Arc<Outside>),
}

impl Choice {
    /// A policy by its name, or by the path of a library that has one.
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        if text.contains('/') {
            return Ok(Self::Outside(Arc::new(Outside::load(text)?)));
        }
        if text.eq_ignore_ascii_case(AUTO) {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Known).map_err(|unknown| {
            Failure::invalid(format_args!(
                "policy = {text}: {unknown}, or auto, or the path of a library, with a slash"
            ))
        })
    }
}

const AUTO: &str = "auto";
const DISK: &str = "disk";
const FLASH: &str = "flash";

/// The storage of that name.
fn storage(text: &str) -> Result<Storage, Failure> {
    match text {
        DISK => Ok(Storage::Disk),
        FLASH => Ok(Storage::Flash),
        _ => Err(Failure::invalid(format_args!("device = {text}: not disk or flash"))),
    }
}

type Set = fn(&mut PolicySettings, u64);

/// A parameter: key, smallest and largest value, and where it goes.
struct Parameter(&'static str, u64, u64, Set);

const PARAMETERS: &[Parameter] = &[
    Parameter("run_bytes_max", 4 * KIB, GIB, |to, value| to.limits.run_bytes_max = Bytes(value)),
    Parameter("run_requests_max", 1, 65_536, |to, value| to.limits.run_requests_max = value as u32),
    Parameter("batch_bytes_max", 4 * KIB, 4 * GIB, |to, value| {
        to.limits.batch_bytes_max = Bytes(value);
    }),
    Parameter("wait_ns", 0, SECOND, |to, value| to.limits.wait_max = Nanos(value)),
    Parameter("sjf.age_ns", 1_000_000, 60 * SECOND, |to, value| to.sjf.age_max = Nanos(value)),
    Parameter("mlf.quantum_bytes_add", 4 * KIB, GIB, |to, value| {
        to.mlf.growth = MlfGrowth::Add(Bytes(value));
    }),
    Parameter("mlf.quantum_bytes_double", 4 * KIB, GIB, |to, value| {
        to.mlf.growth = MlfGrowth::Double(Bytes(value));
    }),
    Parameter("mlf.passes_max", 1, 1_024, |to, value| to.mlf.passes_max = value as u32),
    Parameter("aioli.quantum_bytes", 512, GIB, |to, value| to.aioli.quantum_bytes = Bytes(value)),
    Parameter("aioli.quantum_bytes_min", 512, GIB, |to, value| {
        to.aioli.quantum_bytes_min = Bytes(value);
    }),
    Parameter("aioli.passes_max", 1, 1_024, |to, value| to.aioli.passes_max = value as u32),
    Parameter("aioli.hold_ns", 0, SECOND, |to, value| to.aioli.hold_max = Nanos(value)),
    Parameter("aioli.synchronous_wait", 0, 1, |to, value| {
        to.aioli.synchronous_wait =
            if value == 1 { SynchronousWait::On } else { SynchronousWait::Off };
    }),
    Parameter("hbrr.quantum_ranges", 1, 1_024, |to, value| {
        to.hbrr.quantum = HbrrQuantum::Ranges(value as u32);
    }),
    Parameter("hbrr.quantum_bytes", 4 * KIB, GIB, |to, value| {
        to.hbrr.quantum = HbrrQuantum::Bytes(Bytes(value));
    }),
    Parameter("hbrr.passes_max", 1, 1_024, |to, value| to.hbrr.passes_max = value as u32),
    Parameter("sw.window_ns", 1_000, 60 * SECOND, |to, value| to.sw.window = Nanos(value)),
];

impl Settings {
    /// The same with one setting changed.
    pub(crate) fn with(&self, key: &str, value: &str) -> Result<Self, Failure> {
        let mut changed = self.clone();
        if key == "policy" {
            changed.choice = Choice::read(value)?;
        } else if key == "device" {
            changed.device = storage(value)?;
        } else {
            let known = PARAMETERS.iter().find(|parameter| parameter.0 == key);
            let Parameter(_, least, most, set) = known.ok_or_else(|| unknown(key))?;
            let number = number(key, value, *least, *most)?;
            set(&mut changed.parameters, number);
        }
        changed.check()?;
        Ok(changed)
    }

    /// Holds the parameters against each other.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let (limits, aioli) = (&self.parameters.limits, &self.parameters.aioli);
        let pairs = [
            ("run_bytes_max", limits.run_bytes_max, "batch_bytes_max", limits.batch_bytes_max),
            (
                "aioli.quantum_bytes_min",
                aioli.quantum_bytes_min,
                "aioli.quantum_bytes",
                aioli.quantum_bytes,
            ),
            ("aioli.quantum_bytes", aioli.quantum_bytes, "run_bytes_max", limits.run_bytes_max),
        ];
        let wrong = pairs.iter().find(|(_, smaller, _, larger)| smaller > larger);
        wrong.map_or(Ok(()), |(small, smaller, large, larger)| {
            Err(Failure::invalid(format_args!(
                "{small} = {} is above {large} = {}; change {large} first",
                smaller.0, larger.0
            )))
        })
    }

    /// How a trace spells that these are put in charge, because of a change of `key` to `value`: so
    /// that it can be done again, if there are words for all of it, and else as it was asked for.
    pub(crate) fn spelled(&self, key: &str, value: &str) -> (String, String) {
        match self.told().map(Adjustment::Policy) {
            Some(adjustment) => (adjustment.key(), adjustment.value()),
            None => (key.to_owned(), value.to_owned()),
        }
    }

    /// Whether there are words for all of it in a trace.
    pub(crate) fn can_be_told(&self) -> bool {
        self.told().is_some()
    }

    fn told(&self) -> Option<PolicyChoice> {
        let name = match &self.choice {
            Choice::Known(name) => *name,
            Choice::Auto => Selection::new(self.device, self.parameters).start(),
            Choice::Outside(_) => return None,
        };
        PolicyChoice::of(name, &self.parameters)
    }

    /// What a trace's header says, while the policy of this name is in charge of a scheduler made
    /// with these options.
    pub(crate) fn entries(
        &self,
        policy: &str,
        options: SchedulerOptions,
        classes: Option<ClassOptions>,
    ) -> Vec<(String, String)> {
        let PolicySettings { limits, hbrr, .. } = self.parameters;
        let known = policy.parse();
        let setup = Setup {
            policy: known.unwrap_or(PolicyName::To),
            options,
            limits,
            hbrr_quantum: hbrr.quantum,
            classes,
        };
        let mut entries = setup.entries();
        if known.is_err() {
            // A program's own: nobody else has it, so this part is for people only.
            let named = entries.iter_mut().find(|(key, _)| key == Setup::POLICY);
            named.into_iter().for_each(|(_, value)| value.replace_range(.., policy));
        }
        let chosen = match &self.choice {
            Choice::Auto => AUTO.to_owned(),
            Choice::Known(_) | Choice::Outside(_) => policy.to_owned(),
        };
        let device = if self.device == Storage::Disk { DISK } else { FLASH };
        entries.push(("policy".to_owned(), chosen));
        entries.push(("device".to_owned(), device.to_owned()));
        entries
    }

    /// What chooses the policy, if it is to be chosen.
    pub(crate) fn selection(&self) -> Option<Selection> {
        let is_chosen = matches!(self.choice, Choice::Auto);
        is_chosen.then(|| Selection::new(self.device, self.parameters))
    }

    /// A policy so made, with nothing queued.
    pub(crate) fn policy(&self) -> Result<Box<dyn Policy>, Failure> {
        match &self.choice {
            Choice::Auto => {
                let start = Selection::new(self.device, self.parameters).start();
                Ok(build(start, &self.parameters))
            }
            Choice::Known(name) => Ok(build(*name, &self.parameters)),
            Choice::Outside(outside) => Ok(self.checked(outside.policy()?)),
        }
    }

    /// One for each class. The first is made here, so that a failure is told; where a later one
    /// fails, TO stands in.
    pub(crate) fn source(&self) -> Result<PolicySource, Failure> {
        let mut first = Some(self.policy()?);
        let settings = self.clone();
        Ok(Box::new(move || {
            let made = first.take().map_or_else(|| settings.policy(), Ok);
            made.unwrap_or_else(|_| build(PolicyName::To, &settings.parameters))
        }))
    }

    fn checked(&self, policy: Box<dyn Policy>) -> Box<dyn Policy> {
        Box::new(Checked::new(policy, CheckedSettings::from(self.parameters.limits)))
    }
}

/// A whole number in a range.
pub(crate) fn number(key: &str, value: &str, least: u64, most: u64) -> Result<u64, Failure> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        Failure::invalid(format_args!("{key} = {value}: not a whole number from {least} to {most}"))
    })
}

fn unknown(key: &str) -> Failure {
    let keys: Vec<&str> = PARAMETERS.iter().map(|parameter| parameter.0).collect();
    Failure::invalid(format_args!(
        "{key}: no such setting; one of policy, device, depth, {}",
        keys.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let choice = Choice::Known(PolicyName::To);
        Settings { choice, device: Storage::Disk, parameters: PolicySettings::default() }
    }

    #[test]
    fn every_parameter_is_possible_at_both_ends_on_its_own() {
        for Parameter(key, least, most, _) in PARAMETERS {
            for value in [least, most] {
                let mut wide = settings();
                wide.parameters.limits.batch_bytes_max = Bytes(4 * GIB);
                wide.parameters.limits.run_bytes_max = Bytes(GIB);
                wide.parameters.aioli.quantum_bytes_min = Bytes(512);
                if *key == "aioli.quantum_bytes_min" {
                    wide.parameters.aioli.quantum_bytes = Bytes(GIB);
                }
                let set = wide.with(key, &value.to_string());
                if let Err(failure) = set {
                    assert!(
                        *key == "run_bytes_max" || *key == "batch_bytes_max",
                        "{key} {failure:?}"
                    );
                }
            }
            for value in [(*least).wrapping_sub(1), most + 1] {
                assert!(settings().with(key, &value.to_string()).is_err(), "{key} = {value}");
            }
        }
    }

    #[test]
    fn a_failure_names_key_value_and_remedy() {
        let message = |key, value| format!("{:?}", settings().with(key, value).err().unwrap());
        assert!(
            message("depht", "1").contains("depht: no such setting; one of policy, device, depth")
        );
        assert!(message("wait_ns", "-1").contains("wait_ns = -1: not a whole number from 0 to"));
        assert!(message("policy", "fifo").contains("policy = fifo: unknown policy; one of TO"));
        assert!(message("policy", "fifo").contains("or auto, or the path"));
        assert!(message("device", "tape").contains("device = tape: not disk or flash"));
        assert!(message("run_bytes_max", "8388608").contains("change batch_bytes_max first"));
    }
}
