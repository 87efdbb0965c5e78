//! Checked: any policy from outside, held to the contract at run time.
//!
//! Source:      the laws of this crate's own tests; nothing published.
//! Idea:        beside the policy stands a list of what it holds. Every answer is compared with
//!              the list before anybody acts on it. The first answer that breaks the contract is
//!              dropped, the policy with it, and TO goes on with everything that has not left: so
//!              nothing is lost, and nothing leaves twice.
//! Units:       `wait_max` in nanoseconds, the caps of a batch in bytes.
//! Cost:        O(1) a request and call beside the policy's own; 72 bytes a request.
//! Deviations:  none, there is no model. A policy that never returns, or writes where it should
//!              not, cannot be checked from inside its own process.
//! Loses when:  the policy is right: the comparison is then for nothing.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use forebay_units::{Bytes, FileIndex, Nanos, Offset, Timestamp};

use crate::policies::to::TimeOrder;
use crate::policy::{Limits, Policy, Requests, Selection};
use crate::request::{Accepted, Access, RequestId};

/// What a policy did that none may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It chose, or handed back, a request that it does not hold: never added, or gone already.
    NotHeld(RequestId),
    /// It chose or handed back one request twice.
    Twice(RequestId),
    /// It says that it holds so many, and that is wrong.
    Count {
        /// What it says.
        said: usize,
        /// What it was given and has not given back.
        held: usize,
    },
    /// It no longer knows a request that it holds, when asked for it.
    Lost(RequestId),
    /// It decided for a batch without a request.
    EmptyBatch,
    /// The request does not go with those before it in the batch: another file, class or
    /// direction, a gap, not in offset order, or beyond the largest batch.
    Shape(RequestId),
    /// It chose requests although it waits or is idle.
    BatchWithoutDecision,
    /// It waits until a moment that is not later than now.
    WaitNotLater,
    /// It has waited longer than it may without dispatching anything, or means to.
    WaitTooLong,
    /// It waits or dispatches with nothing queued, or is idle with something queued.
    WrongIdle,
    /// It did not hand back everything, oldest first.
    Drain,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld(id) => write!(f, "chose request {:#x}, which it does not hold", id.0),
            Self::Twice(id) => write!(f, "chose request {:#x} twice", id.0),
            Self::Count { said, held } => {
                write!(f, "says that it holds {said} requests, not {held}")
            }
            Self::Lost(id) => write!(f, "has lost request {:#x}", id.0),
            Self::EmptyBatch => f.write_str("decided for an empty batch"),
            Self::Shape(id) => write!(f, "request {:#x} does not fit into its batch", id.0),
            Self::BatchWithoutDecision => f.write_str("chose requests without dispatching them"),
            Self::WaitNotLater => f.write_str("waits for a moment that is not later than now"),
            Self::WaitTooLong => f.write_str("waits longer than it may"),
            Self::WrongIdle => f.write_str("is idle with requests queued, or not without"),
            Self::Drain => f.write_str("did not hand back what it held, oldest first"),
        }
    }
}

/// What is asked of a checked policy beside the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedSettings {
    /// Largest batch of more than one request.
    pub batch_bytes_max: Bytes,
    /// Longest time for which it may wait, all waits between two dispatches together.
    pub wait_max: Nanos,
}

impl From<Limits> for CheckedSettings {
    /// The limits' largest batch, and a wait of 10 s.
    fn from(limits: Limits) -> Self {
        Self { batch_bytes_max: limits.batch_bytes_max, wait_max: Nanos::secs(10) }
    }
}

/// A policy under check; see the module's head.
pub struct Checked {
    settings: CheckedSettings,
    /// The policy, or the one that has replaced it.
    policy: Box<dyn Policy>,
    fault: Option<Fault>,
    /// By slot: what the policy holds.
    held: Vec<Option<Accepted>>,
    held_count: usize,
    /// The wait that is on: from when, and until when.
    wait: Option<(Timestamp, Timestamp)>,
    /// How long it has waited since it dispatched last, without the wait that is on.
    waited: Nanos,
    /// What is being taken out, until all of it is found right.
    taken: Vec<Accepted>,
}

fn slot(id: RequestId) -> usize {
    id.0 as u32 as usize
}

impl Checked {
    /// Puts a policy that holds nothing under check.
    pub fn new(policy: Box<dyn Policy>, settings: CheckedSettings) -> Self {
        Self {
            settings,
            policy,
            fault: None,
            held: Vec::new(),
            held_count: 0,
            wait: None,
            waited: Nanos::ZERO,
            taken: Vec::new(),
        }
    }

    fn is_trusted(&self) -> bool {
        self.fault.is_none()
    }

    /// Takes a request off the list.
    fn take(&mut self, id: RequestId) -> Option<Accepted> {
        let place = self.held.get_mut(slot(id))?;
        let accepted = place.take_if(|listed| listed.id == id)?;
        self.held_count -= 1;
        Some(accepted)
    }

    fn put_back_taken(&mut self) {
        for accepted in self.taken.drain(..) {
            self.held[slot(accepted.id)] = Some(accepted);
            self.held_count += 1;
        }
    }

    /// Everything on the list, oldest first.
    fn listed(&self) -> Vec<Accepted> {
        let mut all: Vec<Accepted> = self.held.iter().copied().flatten().collect();
        all.sort_unstable_by_key(|accepted| accepted.seq);
        all
    }

    /// Replaces the policy by TO, which gets everything on the list.
    fn replace(&mut self, now: Timestamp, held: &Requests<'_>, fault: Fault) {
        self.fault = Some(fault);
        let mut order = TimeOrder::new();
        self.listed().iter().for_each(|accepted| order.add(now, held, accepted));
        self.policy = Box::new(order);
    }

    /// Takes what the policy chose off the list; the first thing that is wrong with it.
    fn check_batch(&mut self, batch: &[RequestId]) -> Result<(), Fault> {
        let (mut bytes, mut end_max) = (Bytes::ZERO, Offset(0));
        for &id in batch {
            let Some(accepted) = self.take(id) else {
                let is_twice = self.taken.iter().any(|taken| taken.id == id);
                return Err(if is_twice { Fault::Twice(id) } else { Fault::NotHeld(id) });
            };
            let request = &accepted.request;
            bytes += request.range.length();
            let fits = self.taken.last().is_none_or(|before| {
                let before = &before.request;
                let (start, end) = (request.range.start, end_max);
                let overlaps = request.access == Access::Read && start < end;
                (before.file, before.class, before.access)
                    == (request.file, request.class, request.access)
                    && before.range.start <= start
                    && (start == end || overlaps)
                    && bytes <= self.settings.batch_bytes_max
            });
            end_max = end_max.max(request.range.end);
            self.taken.push(accepted);
            if !fits {
                return Err(Fault::Shape(id));
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        now: Timestamp,
        selection: Selection,
        batch: &[RequestId],
    ) -> Result<(), Fault> {
        let had_any = self.held_count > 0;
        // Time in which nobody asked, because the store was full, is not the policy's.
        if let Some((since, until)) = self.wait.take() {
            self.waited += now.min(until) - since;
        }
        match selection {
            Selection::Batch if batch.is_empty() => return Err(Fault::EmptyBatch),
            Selection::Batch => self.check_batch(batch)?,
            _ if !batch.is_empty() => return Err(Fault::BatchWithoutDecision),
            Selection::Wait { until } if until <= now => return Err(Fault::WaitNotLater),
            Selection::Wait { until } => {
                self.wait = Some((now, until));
                if self.waited + (until - now) > self.settings.wait_max {
                    return Err(Fault::WaitTooLong);
                }
            }
            Selection::Idle => {}
        }
        if had_any == (selection == Selection::Idle) {
            return Err(Fault::WrongIdle);
        }
        self.check_count()
    }

    fn check_count(&self) -> Result<(), Fault> {
        let said = self.policy.queued_count();
        let held = self.held_count;
        if said == held { Ok(()) } else { Err(Fault::Count { said, held }) }
    }
}

impl Policy for Checked {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn add(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        let at = slot(request.id);
        if at >= self.held.len() {
            self.held.resize(at + 1, None);
        }
        debug_assert!(self.held[at].is_none(), "a request is added once");
        self.held[at] = Some(*request);
        self.held_count += 1;
        self.policy.add(now, held, request);
        if self.is_trusted()
            && let Err(fault) = self.check_count()
        {
            self.replace(now, held, fault);
        }
    }

    fn select(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        if self.is_trusted() {
            let selection = self.policy.select(now, held, batch);
            match self.check(now, selection, batch) {
                Ok(()) => {
                    self.taken.clear();
                    if selection == Selection::Batch {
                        self.waited = Nanos::ZERO;
                    }
                    return selection;
                }
                Err(fault) => {
                    batch.clear();
                    self.put_back_taken();
                    self.replace(now, held, fault);
                }
            }
        }
        let selection = self.policy.select(now, held, batch);
        for id in batch {
            self.take(*id);
        }
        selection
    }

    fn complete(&mut self, now: Timestamp, request: &Accepted, moved: Bytes) {
        self.policy.complete(now, request, moved);
    }

    fn cancel(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        if self.take(request.id).is_none() {
            return false;
        }
        let was_queued = self.policy.cancel(now, held, request);
        if self.is_trusted() {
            let checked =
                if was_queued { self.check_count() } else { Err(Fault::Lost(request.id)) };
            if let Err(fault) = checked {
                self.replace(now, held, fault);
            }
        }
        true
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        let start = into.len();
        self.policy.drain(held, into);
        let listed = self.listed();
        let is_right = into[start..].iter().eq(listed.iter().map(|accepted| &accepted.id));
        if !is_right {
            into.truncate(start);
            into.extend(listed.iter().map(|accepted| accepted.id));
        }
        self.held.iter_mut().for_each(|listed| *listed = None);
        self.held_count = 0;
        (self.wait, self.waited) = (None, Nanos::ZERO);
        if self.is_trusted() && (!is_right || self.policy.queued_count() > 0) {
            self.replace(Timestamp(0), held, Fault::Drain);
        }
    }

    fn retire(&mut self, file: FileIndex) {
        self.policy.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.held_count
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }
}
