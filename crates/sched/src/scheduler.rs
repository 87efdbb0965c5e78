//! The scheduler: guard, policy and lane behind one value.
//!
//! ```text
//!                       ┌ nothing queued, room free ─────────────── bypassed: in flight at once
//! submit ── guard ──────┼ plain and not large ── policy ──┐
//!             │         └ large, sync, append ── lane ────┴─ next ── in flight ── complete
//!             └ blocked until earlier conflicting requests have completed ◄─────────┘
//! ```
//!
//! # The order of calls
//!
//! `now` never goes back. After [`submit`](Scheduler::submit) and after
//! [`complete`](Scheduler::complete) ask [`next`](Scheduler::next) as long as the store has room
//! and the answer is [`Decision::Dispatch`]. Each member of a batch is completed on its own.
//!
//! # Who goes first, policy or lane
//!
//! Whoever has dispatched fewer bytes since both had something to do; the lane on a tie. While
//! both stay busy the lane is ahead by at most one lane request and behind by at most one batch,
//! so neither starves the other. A policy that waits loses what it was behind.

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{Bytes, FileIndex, Offset, Timestamp};

use crate::guard::Guard;
use crate::lane::{Lane, charge};
use crate::policy::{Policy, Selection};
use crate::request::{Accepted, Access, Request, RequestId};
use crate::table::{State, Table, slot_of};

pub use crate::answer::{Admission, Cancellation, Decision, FileBusy, Rejected, Room};
pub use crate::batch::Batch;
pub use crate::guard::{GuardMode, UnknownGuardMode};
pub use crate::options::{Bypass, SchedulerOptions};
pub use crate::stats::Stats;

/// Orders requests before one store.
pub struct Scheduler {
    options: SchedulerOptions,
    table: Table,
    guard: Guard,
    policy: Box<dyn Policy>,
    /// Tells requests that this policy selected from those of an earlier one.
    policy_epoch: u16,
    lane: Lane,
    next_seq: u64,
    counts: Counts,
    /// Bytes by which the lane is ahead of the policy since both had something to do.
    lane_lead_bytes: i64,
    /// Where the last dispatch of each file ended.
    file_ends: Vec<Offset>,
    /// The file dispatched last.
    last_file: FileIndex,
    waiting_since: Option<Timestamp>,
    ready: Vec<u32>,
    /// What the policy has just chosen.
    selected: Vec<RequestId>,
    stats: Stats,
}

/// How many requests are where.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    blocked: usize,
    in_policy: usize,
    in_flight: usize,
}

impl Scheduler {
    /// A scheduler with nothing queued.
    pub fn new(options: SchedulerOptions, policy: Box<dyn Policy>) -> Self {
        assert!(options.queue_requests_max > 0, "queue_requests_max is at least 1");
        Self {
            options,
            table: Table::new(),
            guard: Guard::new(options.guard),
            policy,
            policy_epoch: 0,
            lane: Lane::default(),
            next_seq: 0,
            counts: Counts::default(),
            lane_lead_bytes: 0,
            file_ends: Vec::new(),
            last_file: FileIndex(0),
            waiting_since: None,
            ready: Vec::new(),
            selected: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// Takes over a request. With `room` free and nothing queued it may be in flight on return.
    pub fn submit(
        &mut self,
        now: Timestamp,
        request: Request,
        room: Room,
    ) -> Result<Admission, Rejected> {
        let refusal = if request.range.is_empty() && request.access != Access::Sync {
            Some(Rejected::EmptyRange)
        } else if self.held_count() >= self.options.queue_requests_max {
            Some(Rejected::QueueFull)
        } else {
            None
        };
        if let Some(rejected) = refusal {
            self.stats.rejected += 1;
            return Err(rejected);
        }
        let slot = self.table.insert(self.next_seq, now, &request);
        self.next_seq += 1;
        self.stats.submitted += 1;
        self.stats.skipped += u64::from(self.skips_policy(&request));
        if !self.guard.admit(&mut self.table, slot) {
            self.counts.blocked += 1;
            self.stats.blocked += 1;
            return Ok(Admission::Blocked(self.table.id(slot)));
        }
        if self.is_idle() && room == Room::Free && self.options.bypass == Bypass::WhenIdle {
            self.stats.bypassed += 1;
            let accepted = self.table.accepted(slot);
            self.note_dispatch(&accepted.request, accepted.request.range.end);
            self.leave_skipped(now, &accepted);
            return Ok(Admission::Bypassed(accepted));
        }
        self.queue(now, slot);
        Ok(Admission::Queued(self.table.id(slot)))
    }

    /// Decides what goes next; `batch` is cleared first and filled on [`Decision::Dispatch`].
    pub fn next(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        self.decide(now, batch, self.lane.count())
    }

    /// As [`next`](Scheduler::next), leaving aside what skips the policy: for a store that is in
    /// the middle of a large request and has room for small ones beside it.
    pub fn next_from_policy(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        self.decide(now, batch, 0)
    }

    /// Decides with the first `lane` requests of the lane in view.
    fn decide(&mut self, now: Timestamp, batch: &mut Batch, lane: usize) -> Decision {
        batch.members.clear();
        if let Some(since) = self.waiting_since.take() {
            self.stats.waited += now - since;
        }
        let policy = self.counts.in_policy;
        if lane == 0 || policy == 0 {
            self.lane_lead_bytes = 0;
        }
        if lane > 0 && (policy == 0 || self.lane_lead_bytes <= 0) {
            return self.dispatch_from_lane(now, batch);
        }
        if policy == 0 {
            return Decision::Idle;
        }
        self.selected.clear();
        match self.policy.select(now, &mut self.selected) {
            Selection::Batch => self.dispatch_from_policy(now, batch),
            Selection::Wait { .. } if lane > 0 => {
                self.lane_lead_bytes = 0;
                self.dispatch_from_lane(now, batch)
            }
            Selection::Wait { until } => {
                debug_assert!(until > now, "a policy waits into the past");
                self.stats.waits += 1;
                self.waiting_since = Some(now);
                Decision::Wait { until }
            }
            Selection::Idle => unreachable!("{} is idle with requests queued", self.policy.name()),
        }
    }

    /// A dispatched request has ended well, after `moved` bytes. Unblocks what waited for it.
    /// Returns the request, or `None` if no request in flight has this id.
    pub fn complete(&mut self, now: Timestamp, id: RequestId, moved: Bytes) -> Option<Accepted> {
        let slot = self.table.find(id)?;
        let state = self.table.state(slot);
        if !matches!(state, State::InFlightByPolicy | State::InFlightSkipped) {
            return None;
        }
        let accepted = self.table.accepted(slot);
        if state == State::InFlightByPolicy && self.table.policy_epoch(slot) == self.policy_epoch {
            self.policy.complete(now, &accepted, moved);
        }
        if accepted.request.access == Access::Alone {
            // How much an append moves is known only now, so it is charged now.
            self.lead(moved, Side::Lane);
        }
        self.counts.in_flight -= 1;
        self.stats.completed += 1;
        self.release(now, slot);
        Some(accepted)
    }

    /// A dispatched request has failed. For the order of the others that is the same as success:
    /// the error is its sender's.
    pub fn fail(&mut self, now: Timestamp, id: RequestId) -> Option<Accepted> {
        self.complete(now, id, Bytes::ZERO)
    }

    /// Takes back a request that has not been dispatched.
    pub fn cancel(&mut self, now: Timestamp, id: RequestId) -> Cancellation {
        let Some(slot) = self.table.find(id) else { return Cancellation::Unknown };
        match self.table.state(slot) {
            State::InFlightByPolicy | State::InFlightSkipped => return Cancellation::InFlight,
            State::Blocked => {
                self.ready.clear();
                self.counts.blocked -= 1;
                self.cancel_blocked(slot);
            }
            State::InPolicy => {
                let was_queued = self.policy.cancel(now, &self.table.accepted(slot));
                assert!(was_queued, "{} has lost a request", self.policy.name());
                self.counts.in_policy -= 1;
                self.release(now, slot);
            }
            State::InLane => {
                self.lane.remove(&self.table.accepted(slot));
                self.release(now, slot);
            }
            State::Free | State::Tombstone => unreachable!("the table finds live requests only"),
        }
        self.stats.cancelled += 1;
        Cancellation::Cancelled
    }

    /// Hands back everything that waits, in arrival order; only requests in flight remain.
    pub fn drain(&mut self, into: &mut Vec<Accepted>) {
        let first = into.len();
        let mut slots = Vec::new();
        // Blocked ones first: as tombstones they cannot become ready when the others are released.
        for state in [State::Blocked, State::InPolicy, State::InLane] {
            slots.extend(self.table.slots_in(state));
        }
        into.extend(slots.iter().map(|slot| self.table.accepted(*slot)));
        self.policy.drain(&mut Vec::new());
        self.lane.clear();
        self.stats.drained += slots.len() as u64;
        for slot in slots {
            match self.table.state(slot) {
                State::Blocked => self.cancel_blocked(slot),
                _ => self.release_silently(slot),
            }
        }
        (self.counts.blocked, self.counts.in_policy) = (0, 0);
        self.ready.clear();
        into[first..].sort_unstable_by_key(|accepted| accepted.seq);
    }

    /// Puts another policy in charge and returns the old one, empty. What it held goes to the new
    /// one in arrival order with its old `seq`; requests in flight and conflicts are not touched.
    pub fn switch_policy(&mut self, now: Timestamp, policy: Box<dyn Policy>) -> Box<dyn Policy> {
        debug_assert_eq!(policy.queued_count(), 0, "the new policy starts empty");
        let mut old = core::mem::replace(&mut self.policy, policy);
        let mut queued = Vec::with_capacity(self.counts.in_policy);
        old.drain(&mut queued);
        debug_assert!(queued.is_sorted_by_key(|id| self.table.seq(slot_of(*id))));
        for id in queued {
            self.policy.add(now, &self.table.accepted(slot_of(id)));
        }
        self.policy_epoch = self.policy_epoch.wrapping_add(1);
        self.stats.switches += 1;
        old
    }

    /// Forgets what was learned about a file, so that its index may name another one.
    pub fn retire(&mut self, file: FileIndex) -> Result<(), FileBusy> {
        if self.guard.is_file_live(file) {
            return Err(FileBusy);
        }
        self.guard.retire(file);
        self.policy.retire(file);
        if let Some(end) = self.file_ends.get_mut(file.0 as usize) {
            *end = Offset(0);
        }
        Ok(())
    }

    /// Whether `request` would have to wait for an earlier one, if it were submitted now. A `false` is
    /// certain; in a file with many unfinished writes a `true` may be caution, so that the answer stays cheap.
    pub fn has_conflict(&self, request: &Request) -> bool {
        self.guard.may_conflict(&self.table, request)
    }

    /// The live request that has this id.
    pub fn find(&self, id: RequestId) -> Option<Accepted> {
        self.table.find(id).map(|slot| self.table.accepted(slot))
    }

    /// The requests that were blocked until the latest call of [`complete`](Scheduler::complete),
    /// [`fail`](Scheduler::fail) or [`cancel`](Scheduler::cancel) let them go; they may go on
    /// waiting in the policy. Valid until the next call that changes anything.
    pub fn made_ready(&self) -> impl Iterator<Item = Accepted> + '_ {
        self.ready.iter().map(|slot| self.table.accepted(*slot))
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        Stats { guard_cells: self.guard.cell_count() as u64, ..self.stats }
    }

    /// How many requests wait, ready or blocked.
    pub fn queued_count(&self) -> usize {
        self.counts.blocked + self.counts.in_policy + self.lane.count()
    }

    /// How many places of the queue are taken: by requests that wait, and by cancelled ones that
    /// others are still ordered behind.
    pub fn held_count(&self) -> usize {
        self.queued_count() + self.table.tombstone_count()
    }

    /// How many requests wait for earlier conflicting ones.
    pub fn blocked_count(&self) -> usize {
        self.counts.blocked
    }

    /// How many requests are dispatched or bypassed and not completed.
    pub fn in_flight_count(&self) -> usize {
        self.counts.in_flight
    }

    /// The name of the policy in charge.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// Whether nothing is ready.
    fn is_idle(&self) -> bool {
        self.counts.in_policy == 0 && self.lane.count() == 0
    }

    fn skips_policy(&self, request: &Request) -> bool {
        match request.access {
            Access::Alone | Access::Sync => true,
            Access::Read | Access::Write => {
                self.options.large_bytes.is_some_and(|large| request.range.length() > large)
            }
        }
    }

    /// Hands a ready request to the policy or to the lane.
    fn queue(&mut self, now: Timestamp, slot: u32) {
        let accepted = self.table.accepted(slot);
        if self.skips_policy(&accepted.request) {
            self.table.set_state(slot, State::InLane);
            self.lane.insert(&accepted);
        } else {
            self.table.set_state(slot, State::InPolicy);
            self.counts.in_policy += 1;
            self.policy.add(now, &accepted);
        }
    }

    /// Frees a request that has ended and queues what that made ready.
    fn release(&mut self, now: Timestamp, slot: u32) {
        self.ready.clear();
        self.release_silently(slot);
        let ready = core::mem::take(&mut self.ready);
        self.counts.blocked -= ready.len();
        for slot in &ready {
            self.queue(now, *slot);
        }
        self.ready = ready;
    }
}

/// Who dispatched.
enum Side {
    Lane,
    Policy,
}

impl Scheduler {
    fn dispatch_from_lane(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        let ends = &self.file_ends;
        let end_of = |file: FileIndex| ends.get(file.0 as usize).copied().unwrap_or_default();
        let accepted =
            self.lane.pop(&self.table, self.last_file, end_of).expect("the lane is not empty");
        self.lead(charge(&accepted), Side::Lane);
        self.note_dispatch(&accepted.request, accepted.request.range.end);
        self.stats.batches += 1;
        self.leave_skipped(now, &accepted);
        batch.members.push(accepted);
        Decision::Dispatch
    }

    fn dispatch_from_policy(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        let mut bytes = Bytes::ZERO;
        for id in &self.selected {
            let slot = slot_of(*id);
            self.table.set_in_flight_by_policy(slot, self.policy_epoch);
            let accepted = self.table.accepted(slot);
            self.stats.queued += now - accepted.arrived;
            bytes += accepted.request.range.length();
            batch.members.push(accepted);
        }
        let count = batch.members.len();
        self.counts.in_policy -= count;
        self.counts.in_flight += count;
        self.stats.batches += 1;
        self.stats.merged += if count > 1 { count as u64 } else { 0 };
        self.stats.policy_batches += 1;
        self.stats.batched_requests += count as u64;
        self.stats.batched_bytes += bytes;
        self.lead(bytes, Side::Policy);
        self.note_dispatch(&batch.members[0].request, batch.range().end);
        Decision::Dispatch
    }

    /// Puts a request that no policy selected in flight.
    fn leave_skipped(&mut self, now: Timestamp, accepted: &Accepted) {
        self.table.set_state(slot_of(accepted.id), State::InFlightSkipped);
        self.counts.in_flight += 1;
        self.stats.queued += now - accepted.arrived;
    }

    /// Remembers where the store's arm stands now. A sync moves nothing, and where an append or a
    /// truncation ends is not known.
    fn note_dispatch(&mut self, request: &Request, end: Offset) {
        if !matches!(request.access, Access::Read | Access::Write) {
            return;
        }
        let index = request.file.0 as usize;
        if index >= self.file_ends.len() {
            self.file_ends.resize(index + 1, Offset(0));
        }
        self.file_ends[index] = end;
        self.last_file = request.file;
    }

    fn lead(&mut self, bytes: Bytes, side: Side) {
        let bytes = i64::try_from(bytes.0).unwrap_or(i64::MAX);
        self.lane_lead_bytes = match side {
            Side::Lane => self.lane_lead_bytes.saturating_add(bytes),
            Side::Policy => self.lane_lead_bytes.saturating_sub(bytes),
        };
    }

    fn cancel_blocked(&mut self, slot: u32) {
        if !self.guard.cancel_blocked(&mut self.table, slot) {
            self.table.remove(slot);
        }
    }

    /// Frees a request that has ended; the slots that became ready land in `self.ready`.
    fn release_silently(&mut self, slot: u32) {
        self.guard.release(&mut self.table, slot, &mut self.ready);
        self.table.remove(slot);
    }
}
