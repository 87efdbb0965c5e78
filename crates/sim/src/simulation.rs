//! A simulation from the outside: made from a scenario, run to its end, asked for its outcome.

use alloc::string::ToString as _;
use alloc::vec::Vec;

use forebay_sched::sharing::ClassShare;
use forebay_sched::{Access, PolicyName, Request};
use forebay_select::Auto;
use forebay_trace::{Adjustment, Recorded};
use forebay_units::{Bytes, ClassId, Timestamp};

use crate::outcome::Outcome;
use crate::replay::Pace;
use crate::scenario::{FILE_BYTES_MAX, Invalid, Scenario, Sharing, TIME_MAX};
use crate::selector::Choice;
use crate::workload::Workload;
use crate::world::World;

/// Most files of a record: their numbers are places in tables.
const NUMBERS_MAX: u32 = 1 << 24;

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Events that were simulated.
    pub events: u64,
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Requests in all, if nobody vanishes.
    pub requests_planned: u64,
    /// Virtual time since the beginning.
    pub now_ns: u64,
}

/// A scheduler accepted a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whose scheduler: a server's number, or one more than the last server's for the forwarder.
    pub node: usize,
    /// When.
    pub at: Timestamp,
    /// What.
    pub request: Request,
}

/// A request as its client made it, before it was striped or sent in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// When.
    pub at: Timestamp,
    /// What; the tag is its number in the order of being made, the class its application's.
    pub request: Request,
    /// What became of it; `None` if it has not ended, or its client has vanished.
    pub answer: Option<Answer>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When the client had the last of it.
    pub at: Timestamp,
    /// Bytes that it moved.
    pub moved: Bytes,
    /// Whether some of it failed.
    pub is_failed: bool,
}

/// An application, which is a class to schedulers that share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class<'a> {
    /// What its requests say.
    pub id: ClassId,
    /// The job's name, with a number if there are several applications; `class-N` in a record.
    pub name: &'a str,
    /// Its part as the job says it; for a record, before any [`Simulation::adjust`].
    pub share: ClassShare,
}

/// A simulation that runs.
pub struct Simulation {
    world: World,
    workload: Workload,
    policy: &'static str,
    seed: u64,
    is_over: bool,
}

impl Simulation {
    /// A scenario at its beginning, under a policy, with a seed.
    ///
    /// # Errors
    /// A value of the scenario that cannot be simulated, or a scenario without jobs.
    pub fn new(scenario: &Scenario, policy: impl Into<Choice>, seed: u64) -> Result<Self, Invalid> {
        scenario.validate()?;
        if scenario.jobs.is_empty() {
            return Err(Invalid {
                key: "job".to_string(),
                text: "there is none; add a [[job]] section".to_string(),
            });
        }
        let choice = policy.into();
        if scenario.scheduler.sharing != Sharing::None
            && matches!(choice, Choice::Fixed(PolicyName::Sw))
        {
            return Err(Invalid {
                key: "scheduler.policy".to_string(),
                text: "SW orders jobs, and here each has a policy of its own; set scheduler.sharing to sw, or to none"
                    .to_string(),
            });
        }
        let workload = Workload::from_jobs(&scenario.jobs);
        Ok(Self::over(scenario, workload, &choice, seed))
    }

    /// A record at its beginning: the scenario's jobs are not used, everything else of it is.
    ///
    /// # Errors
    /// A value of the scenario or of the record that cannot be simulated.
    pub fn replay(
        scenario: &Scenario,
        record: &[Recorded],
        pace: Pace,
        policy: impl Into<Choice>,
        seed: u64,
    ) -> Result<Self, Invalid> {
        scenario.validate()?;
        if scenario.faults.vanish_permille > 0 {
            return Err(Invalid {
                key: "faults.vanish_permille".to_string(),
                text: "clients of a record do not vanish; leave it out".to_string(),
            });
        }
        for (number, recorded) in record.iter().enumerate() {
            let request = &recorded.request;
            let key = alloc::format!("request {number} of the record");
            let has_data = matches!(request.access, Access::Read | Access::Write);
            if has_data {
                scenario.validate_length(&key, &key, request.range.length())?;
            }
            let text = if request.file.0 >= NUMBERS_MAX {
                alloc::format!("files are numbered from 0 to {}", NUMBERS_MAX - 1)
            } else if request.range.is_empty() && request.access != Access::Sync {
                "its range covers no byte".to_string()
            } else if recorded.after.is_some_and(|after| after as usize >= number) {
                "it follows one that comes later".to_string()
            } else if has_data && request.range.end.0 > FILE_BYTES_MAX {
                alloc::format!(
                    "it ends at byte {}; files have at most {FILE_BYTES_MAX}",
                    request.range.end.0
                )
            } else if recorded.at.0 > TIME_MAX.0 || recorded.think > TIME_MAX {
                alloc::format!("it comes after more than {} ns, the longest time", TIME_MAX.0)
            } else {
                continue;
            };
            return Err(Invalid { key, text });
        }
        Ok(Self::over(scenario, Workload::from_record(record, pace), &policy.into(), seed))
    }

    fn over(scenario: &Scenario, workload: Workload, choice: &Choice, seed: u64) -> Self {
        let world = World::new(scenario, workload.clone(), choice, seed);
        Self { world, workload, policy: choice.name(), seed, is_over: false }
    }

    /// Simulates up to `events` more; whether there are more to come.
    pub fn advance(&mut self, events: u64) -> bool {
        self.is_over = self.is_over || !self.world.advance(events);
        !self.is_over
    }

    /// Simulates everything that happens up to a moment; whether there is more to come.
    pub fn advance_until(&mut self, until: Timestamp) -> bool {
        self.is_over = self.is_over || !self.world.advance_until(until);
        !self.is_over
    }

    /// The selector of each node that has one, by the node's number.
    pub fn selectors(&self) -> impl Iterator<Item = (usize, &Auto)> {
        let nodes = self.world.nodes.iter().enumerate();
        nodes.filter_map(|(number, node)| Some((number, node.selector.auto()?)))
    }

    /// From now on keeps what schedulers accept, for [`take_arrivals`](Self::take_arrivals).
    pub fn watch_arrivals(&mut self) {
        self.world.arrivals.get_or_insert_default();
    }

    /// What schedulers accepted since this was asked last, in the order in which they did; empty
    /// unless it is being watched.
    pub fn take_arrivals(&mut self) -> Vec<Arrival> {
        self.world.arrivals.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// From now on keeps what clients ask for, some 100 bytes a request.
    pub fn watch_requests(&mut self) {
        self.world.made.get_or_insert_default();
    }

    /// What clients have asked for, in the order in which they did; empty unless it is being watched.
    pub fn requests(&self) -> &[Made] {
        self.world.made.as_deref().unwrap_or_default()
    }

    /// All applications, in the order of [`Outcome::applications`].
    pub fn classes(&self) -> impl Iterator<Item = Class<'_>> {
        self.workload.applications.iter().map(|application| Class {
            id: application.class,
            name: &application.name,
            share: application.share(),
        })
    }

    /// Changes how schedulers share, at a moment: what a record tells of its classes. It is for
    /// schedulers that share; the others, and one that has no place left for a class, refuse it,
    /// and nothing changes.
    pub fn adjust(&mut self, at: Timestamp, adjustment: Adjustment) {
        self.world.adjust(at, adjustment);
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress {
            events: self.world.events,
            requests: self.world.tally.requests(),
            bytes: self.world.tally.bytes(),
            requests_planned: self.world.tally.requests_planned,
            now_ns: self.world.now().0,
        }
    }

    /// Runs to the end.
    pub fn finish(mut self) -> Outcome {
        while self.advance(u64::MAX) {}
        Outcome::new(&self.world, &self.workload, self.policy, self.seed)
    }
}

/// Runs a scenario to its end.
///
/// # Errors
/// As [`Simulation::new`].
pub fn run(scenario: &Scenario, policy: impl Into<Choice>, seed: u64) -> Result<Outcome, Invalid> {
    Ok(Simulation::new(scenario, policy, seed)?.finish())
}
