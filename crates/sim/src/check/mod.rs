//! Correctness by simulation: seeded runs of the scheduler against what it promises.
//!
//! ```text
//! Plan (policy, guard, seed) ─► Run: submits, dispatches, tears transfers, fails, cancels, switches
//!                                 ├─► content: what every read saw, against a plain byte array
//!                                 ├─► order:   who was in flight beside whom
//!                                 ├─► bounds:  how often a waiting request was passed over
//!                                 └─► fairness: what classes had, in proportion to their weights
//! ```
//!
//! A run is not the simulator's world but the scheduler alone, driven as unkindly as its contract
//! allows: several batches in flight, transfers torn in the middle, completions in any order,
//! failures, cancels of anything, policies switched under load, queues that overflow; in half of
//! the runs classes share it, with weights and limits, or with windows of time (TWINS).
//!
//! | guard | what is held against the bytes |
//! |---|---|
//! | `overlap`, `file` | all effects are those of the requests one after the other as they arrived |
//! | `client` | they are those of some order in which each client's conflicting requests keep theirs |
//! | `none` | a byte read is one that some write wrote, or was never written; syncs still wait |

mod bounds;
mod content;
mod draw;
mod fairness;
mod run;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use forebay_sched::{GuardMode, Policy, PolicyName, PolicySettings, PolicySource, build, source};

use self::run::Run;

/// Which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The policy, whose bound is checked.
    pub policy: PolicyName,
    /// The guard mode of the scheduler.
    pub guard: GuardMode,
    /// The guard mode whose promise is checked: `guard`, except to see a check fail.
    pub promise: GuardMode,
    /// Decides everything that is random.
    pub seed: u64,
}

/// What kind of promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A read saw, or a file ends with, other bytes than it should.
    Bytes,
    /// Conflicting requests were in flight together, or in the wrong order.
    Order,
    /// A batch is not one file, one direction, one class, without a gap, within its limits.
    Batch,
    /// The scheduler's counters do not add up, or it lost a request.
    Count,
    /// It waited too long, into the past, or with nothing to wait for.
    Wait,
    /// A request was passed over more often, or held for longer, than the policy's bound says.
    Bound,
    /// Classes did not share as their weights, or the windows of TWINS, say.
    Share,
}

/// A broken promise, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The run.
    pub plan: Plan,
    /// The promise.
    pub promise: Promise,
    /// What happened, with the numbers of the requests.
    pub text: String,
}

impl fmt::Display for Plan {
    /// The command that repeats the run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, guard, promise, seed } = self;
        write!(f, "forebay simulate --check --policy {policy} --guard {guard}")?;
        if promise != guard {
            write!(f, " --promise {promise}")?;
        }
        write!(f, " --seeds {seed}..{}", seed.saturating_add(1))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}; repeat it with: {}", self.promise, self.text, self.plan)
    }
}

/// How much a run has tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Requests that were submitted and accepted.
    pub requests: u64,
    /// Batches that were dispatched.
    pub batches: u64,
    /// Requests that left in a batch with others.
    pub merged: u64,
    /// Requests that had to wait for a conflicting one.
    pub blocked: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Requests that failed or ended early.
    pub failed: u64,
    /// Policy switches.
    pub switches: u64,
}

impl Checked {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.batches += other.batches;
        self.merged += other.merged;
        self.blocked += other.blocked;
        self.cancelled += other.cancelled;
        self.failed += other.failed;
        self.switches += other.switches;
    }
}

/// Makes the run that is planned.
///
/// # Errors
/// Every promise that it found broken, in the order in which they were found.
pub fn check(plan: &Plan) -> Result<Checked, Vec<Violation>> {
    run(plan, Make::Named(plan.policy))
}

/// As [`check`], with a policy of the caller's that is held to the bound of `plan.policy`.
///
/// # Errors
/// As [`check`].
pub fn check_policy(
    plan: &Plan,
    make: fn(&PolicySettings) -> Box<dyn Policy>,
) -> Result<Checked, Vec<Violation>> {
    run(plan, Make::Own(make))
}

fn run(plan: &Plan, make: Make) -> Result<Checked, Vec<Violation>> {
    let (checked, broken) = Run::new(plan, make).run();
    if broken.is_empty() {
        return Ok(checked);
    }
    let violation = |(promise, text)| Violation { plan: *plan, promise, text };
    Err(broken.into_iter().map(violation).collect())
}

/// Where policies come from.
#[derive(Clone, Copy)]
enum Make {
    Named(PolicyName),
    Own(fn(&PolicySettings) -> Box<dyn Policy>),
}

impl Make {
    fn policy(self, settings: &PolicySettings) -> Box<dyn Policy> {
        match self {
            Self::Named(name) => build(name, settings),
            Self::Own(make) => make(settings),
        }
    }

    /// One for each class.
    fn source(self, settings: &PolicySettings) -> PolicySource {
        match self {
            Self::Named(name) => source(name, settings),
            Self::Own(make) => {
                let settings = *settings;
                Box::new(move || make(&settings))
            }
        }
    }
}
