//! The settings that can be changed while a controller works, by key and value.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_controller::{Selection, Storage};
use forebay_sched::policies::aioli::SynchronousWait;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::policies::mlf::MlfGrowth;
use forebay_sched::sharing::SharingSettings;
use forebay_sched::{
    Checked, CheckedSettings, ClassError, ClassOptions, Policy, PolicyName, PolicySettings,
    PolicySource, SchedulerOptions, build,
};
use forebay_trace::{Adjustment, PolicyChoice, Setup};
use forebay_units::{Bytes, ClassId, Nanos};

use crate::failure::Failure;
use crate::options::SECOND;
use crate::outside::Outside;
use crate::sharing::{self, Sharing};

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

/// Which policy, with which parameters, and how classes share.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) choice: Choice,
    /// What is behind the service, for policy `auto` and for cost `time`.
    pub(crate) device: Storage,
    pub(crate) parameters: PolicySettings,
    /// `None` without classes.
    pub(crate) sharing: Option<Sharing>,
    /// Classes with a policy of their own.
    pub(crate) classes: BTreeMap<u32, Choice>,
}

/// What a setting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The policy of every class that has none of its own.
    Policies,
    /// That of one class.
    Class(u32),
    /// How classes share.
    Sharing,
    /// Whether a class without a policy of its own keeps its place.
    Place(u32),
    /// Nothing that is not so already.
    Nothing,
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

/// A parameter: key, smallest and largest value, and where it goes.
pub(crate) struct Parameter<T>(
    pub(crate) &'static str,
    pub(crate) u64,
    pub(crate) u64,
    pub(crate) fn(&mut T, u64),
);

impl<T> Parameter<T> {
    pub(crate) fn set(&self, to: &mut T, value: &str) -> Result<(), Failure> {
        let Self(key, least, most, set) = self;
        set(to, number(key, value, *least, *most)?);
        Ok(())
    }
}

/// The class whose policy a key is of: `class.7.policy`.
pub(crate) fn class_of(key: &str) -> Result<Option<u32>, Failure> {
    let Some(class) = key.strip_prefix("class.").and_then(|rest| rest.strip_suffix(".policy"))
    else {
        return Ok(None);
    };
    class.parse().map(Some).map_err(|_| {
        Failure::invalid(format_args!("{key}: not a class's number, as in class.7.policy"))
    })
}

/// A policy of a class's own is taken back by this name.
pub(crate) const COMMON: &str = "common";

const PARAMETERS: &[Parameter<PolicySettings>] = &[
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
    /// The same with one setting changed, and what that is of.
    pub(crate) fn with(&self, key: &str, value: &str) -> Result<(Self, Subject), Failure> {
        let mut changed = self.clone();
        let subject = changed.set(key, value)?;
        changed.check()?;
        Ok((changed, subject))
    }

    /// Changes one setting, whether or not it goes together with the others.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<Subject, Failure> {
        if let Some(class) = class_of(key)? {
            self.sharing.ok_or_else(not_shared)?;
            if value != COMMON {
                self.classes.insert(class, Choice::read(value)?);
            } else if self.classes.remove(&class).is_none() {
                return Ok(Subject::Nothing);
            }
            return Ok(Subject::Class(class));
        }
        if sharing::keys().any(|known| known == key) {
            let sharing = self.sharing.as_mut().ok_or_else(not_shared)?;
            sharing.set(key, value, self.device)?;
            return Ok(Subject::Sharing);
        }
        match key {
            "policy" => self.choice = Choice::read(value)?,
            "device" => {
                self.device = storage(value)?;
                // Policies that are not chosen do not ask for it.
                if self.sharing.is_some() && !matches!(self.choice, Choice::Auto) {
                    return Ok(Subject::Sharing);
                }
            }
            _ => {
                let known = PARAMETERS.iter().find(|parameter| parameter.0 == key);
                known.ok_or_else(|| unknown(key))?.set(&mut self.parameters, value)?;
            }
        }
        Ok(Subject::Policies)
    }

    /// Holds them against each other.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let (is_auto, own) = (matches!(self.choice, Choice::Auto), self.classes.iter().next());
        if let (true, Some((class, _))) = (is_auto, own) {
            return Err(Failure::invalid(format_args!(
                "policy = auto is of all classes together; have class.{class}.policy = {COMMON} first"
            )));
        }
        if self.classes.values().any(|choice| matches!(choice, Choice::Auto)) {
            return Err(Failure::invalid(
                "auto is of all classes together; say policy = auto, or one of the others for a class",
            ));
        }
        let (limits, aioli) = (&self.parameters.limits, &self.parameters.aioli);
        let pairs = [
            ("run_bytes_max", limits.run_bytes_max, "batch_bytes_max", limits.batch_bytes_max),
            // A quantum beyond the largest run means the same as that run.
            (
                "aioli.quantum_bytes_min",
                aioli.quantum_bytes_min,
                "aioli.quantum_bytes",
                aioli.quantum_bytes,
            ),
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
    pub(crate) fn spelled(&self, subject: Subject, key: &str, value: &str) -> (String, String) {
        let told = match subject {
            // There are no words for that some classes keep theirs.
            Subject::Policies if !self.classes.is_empty() => None,
            Subject::Policies => self.told(&self.choice).map(Adjustment::Policy),
            Subject::Class(class) => self.told_of(class, self.choice_of(class)),
            Subject::Sharing => self.sharing().map(Adjustment::Sharing),
            Subject::Place(class) => Some(Adjustment::Class(ClassId(class), None)),
            Subject::Nothing => None,
        };
        match told {
            Some(adjustment) => (adjustment.key(), adjustment.value()),
            None => (key.to_owned(), value.to_owned()),
        }
    }

    /// The policies of classes' own, in the words of a trace; `None` if there are not words for all
    /// of what is in charge.
    pub(crate) fn told_classes(&self) -> Option<Vec<Adjustment>> {
        self.told(&self.choice)?;
        self.classes.iter().map(|(class, choice)| self.told_of(*class, choice)).collect()
    }

    fn told_of(&self, class: u32, choice: &Choice) -> Option<Adjustment> {
        Some(Adjustment::ClassPolicy(ClassId(class), self.told(choice)?))
    }

    fn told(&self, choice: &Choice) -> Option<PolicyChoice> {
        let name = match choice {
            Choice::Known(name) => *name,
            Choice::Auto => Selection::new(self.device, self.parameters).start(),
            Choice::Outside(_) => return None,
        };
        PolicyChoice::of(name, &self.parameters)
    }

    /// What a class is ordered by.
    pub(crate) fn choice_of(&self, class: u32) -> &Choice {
        self.classes.get(&class).unwrap_or(&self.choice)
    }

    /// How classes share, if there are any.
    pub(crate) fn sharing(&self) -> Option<SharingSettings> {
        self.sharing.map(|sharing| sharing.settings(self.device))
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
        let sharing = self.sharing();
        let classes = classes.map(|made_with| ClassOptions {
            sharing: sharing.unwrap_or(made_with.sharing),
            ..made_with
        });
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
        self.policy_of(&self.choice)
    }

    /// That of a class.
    pub(crate) fn class_policy(&self, class: u32) -> Result<Box<dyn Policy>, Failure> {
        self.policy_of(self.choice_of(class))
    }

    fn policy_of(&self, choice: &Choice) -> Result<Box<dyn Policy>, Failure> {
        match choice {
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
    let parameters = PARAMETERS.iter().map(|parameter| parameter.0);
    let keys: Vec<&str> = parameters.chain(sharing::keys()).collect();
    Failure::invalid(format_args!(
        "{key}: no such setting; one of policy, device, depth, class.NUMBER.policy, {}",
        keys.join(", ")
    ))
}

fn not_shared() -> Failure {
    Failure::invalid(ClassError::NoSharing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::{Turns, Windows};

    fn settings() -> Settings {
        let choice = Choice::Known(PolicyName::To);
        let (device, parameters) = (Storage::Disk, PolicySettings::default());
        Settings { choice, device, parameters, sharing: None, classes: BTreeMap::new() }
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
        let unknown = message("depht", "1");
        assert!(unknown.contains("depht: no such setting; one of policy, device, depth"));
        assert!(unknown.contains("class.NUMBER.policy") && unknown.contains("sharing.quantum"));
        assert!(message("wait_ns", "-1").contains("wait_ns = -1: not a whole number from 0 to"));
        assert!(message("policy", "fifo").contains("policy = fifo: unknown policy; one of TO"));
        assert!(message("policy", "fifo").contains("or auto, or the path"));
        assert!(message("device", "tape").contains("device = tape: not disk or flash"));
        assert!(message("run_bytes_max", "8388608").contains("change batch_bytes_max first"));
        assert!(message("sharing.cost", "time").contains("does not share"));
        assert!(message("class.7.policy", "SJF").contains("does not share"));
        assert!(message("class.x.policy", "SJF").contains("class.x.policy: not a class's number"));
    }

    #[test]
    fn auto_is_of_all_classes_together() {
        let shared =
            Settings { sharing: Some(Sharing::new(Turns::Drr, Windows::Strict)), ..settings() };
        let message = |settings: &Settings, key, value| {
            format!("{:?}", settings.with(key, value).err().unwrap())
        };
        assert!(message(&shared, "class.7.policy", "auto").contains("say policy = auto"));
        let (own, subject) = shared.with("class.7.policy", "SJF").unwrap();
        assert_eq!(subject, Subject::Class(7));
        assert!(message(&own, "policy", "auto").contains("class.7.policy = common first"));
        let (none, subject) = own.with("class.7.policy", "common").unwrap();
        assert_eq!(subject, Subject::Class(7));
        assert!(none.with("policy", "auto").is_ok());
        assert_eq!(none.with("class.7.policy", "common").unwrap().1, Subject::Nothing);
    }
}
