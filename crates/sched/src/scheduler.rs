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
//! Policy and lane take turns as `class_queue.rs` says. With classes there is a policy and a lane
//! for each, and `scheduler/shared.rs` decides whose turn it is.

mod accounts;
mod class_api;
mod shared;

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{ByteRange, Bytes, ClassId, FileIndex, Offset, Timestamp};

use crate::arm::Arm;
use crate::book::Book;
use crate::class_queue::{ClassQueue, LaneView, Names, Turn};
use crate::classes::{Classes, Outcome};
use crate::guard::Guard;
use crate::policies::checked::Fault;
use crate::policy::Policy;
use crate::request::{Accepted, Access, Request, RequestId};
use crate::table::{State, Table};

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
    /// What is ready, by class index; without sharing there is one.
    queues: Vec<ClassQueue>,
    classes: Option<Box<Classes>>,
    book: Option<Box<Book>>,
    arm: Arm,
    next_seq: u64,
    counts: Counts,
    /// What the latest end of a request made ready.
    made_ready: Vec<u32>,
    /// For searches among blocked requests: slots, with their depth; and who holds one up.
    chain: Vec<(u32, u32)>,
    blockers: Vec<u32>,
    stats: Stats,
}

/// How many requests are where.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    blocked: usize,
    ready: usize,
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
            queues: alloc::vec![ClassQueue::new(policy, Names::Same)],
            classes: None,
            book: None,
            arm: Arm::default(),
            next_seq: 0,
            counts: Counts::default(),
            made_ready: Vec::new(),
            chain: Vec::new(),
            blockers: Vec::new(),
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
        let index = match &mut self.classes {
            Some(classes) => classes.place_of(now, request.class, &mut self.queues),
            None => 0,
        };
        let refusal = if request.range.is_empty() && request.access != Access::Sync {
            Some(Rejected::EmptyRange)
        } else if self.held_count() >= self.options.queue_requests_max || self.is_class_full(index)
        {
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
        self.stats.skipped += u64::from(self.skips_policy(request.access, request.range));
        if let Some(classes) = &mut self.classes {
            self.table.set_class_index(slot, index);
            classes.accept(now, index);
        }
        if !self.guard.admit(&mut self.table, slot) {
            self.counts.blocked += 1;
            self.stats.blocked += 1;
            self.note_waiter(index, self.table.id(slot));
            return Ok(Admission::Blocked(self.table.id(slot)));
        }
        if self.counts.ready == 0
            && room == Room::Free
            && self.options.bypass == Bypass::WhenIdle
            && self.classes.as_deref().is_none_or(|classes| classes.admits(now, index))
        {
            return Ok(Admission::Bypassed(self.bypass(now, slot)));
        }
        self.queue(now, slot);
        Ok(Admission::Queued(self.table.id(slot)))
    }

    /// Decides what goes next; `batch` is cleared first and filled on [`Decision::Dispatch`].
    pub fn next(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        self.decide(now, batch, LaneView::Open)
    }

    /// As [`next`](Scheduler::next), leaving aside what skips the policy: for a store that is in
    /// the middle of a large request and has room for small ones beside it.
    pub fn next_from_policy(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        self.decide(now, batch, LaneView::Closed)
    }

    fn decide(&mut self, now: Timestamp, batch: &mut Batch, lane: LaneView) -> Decision {
        batch.members.clear();
        if self.classes.is_some() {
            return self.decide_shared(now, batch, lane);
        }
        match self.select(now, 0, lane, batch) {
            Turn::Wait { until } => Decision::Wait { until },
            Turn::Idle => Decision::Idle,
            Turn::Lane | Turn::Policy => Decision::Dispatch,
        }
    }

    /// Lets one queue decide, and notes what it dispatched.
    fn select(&mut self, now: Timestamp, index: u16, lane: LaneView, batch: &mut Batch) -> Turn {
        let queue = &mut self.queues[usize::from(index)];
        if let Some(waited) = queue.end_wait(now) {
            self.stats.waited += waited;
            self.note_wait(index, waited);
        }
        let queue = &mut self.queues[usize::from(index)];
        let turn = queue.select(now, &mut self.table, lane, &self.arm, &mut batch.members);
        match turn {
            Turn::Wait { .. } => self.stats.waits += 1,
            Turn::Idle => {}
            Turn::Lane | Turn::Policy => self.note_batch(now, turn, batch),
        }
        turn
    }

    /// A dispatched request has ended well, after `moved` bytes; more than it asked for counts as
    /// what it asked for ([`Request::moved_at_most`](crate::Request::moved_at_most)). Unblocks what
    /// waited for it. With classes, its class is charged what it moved, or 4 KiB of what it asked
    /// for if that is more. Returns the request, or `None` if no request in flight has this id.
    pub fn complete(&mut self, now: Timestamp, id: RequestId, moved: Bytes) -> Option<Accepted> {
        self.end(now, id, moved, Outcome::Done)
    }

    /// Takes back a request in flight.
    fn end(
        &mut self,
        now: Timestamp,
        id: RequestId,
        moved: Bytes,
        outcome: Outcome,
    ) -> Option<Accepted> {
        let slot = self.table.find(id)?;
        let state = self.table.state(slot);
        if !state.is_in_flight() {
            return None;
        }
        let accepted = self.table.accepted(slot);
        let moved = accepted.request.moved_at_most(moved);
        let index = self.table.class_index(slot);
        self.queues[usize::from(index)].complete(now, &self.table, &accepted, state, moved);
        self.counts.in_flight -= 1;
        self.stats.completed += 1;
        if let Some(book) = &mut self.book {
            book.end(now, &accepted, state, moved);
        }
        if let Some(classes) = &mut self.classes {
            classes.complete(now, index, &accepted, moved, outcome);
            classes.let_go(now, index);
            self.settle(now, index);
        }
        self.release(now, slot, index, accepted.request.class);
        Some(accepted)
    }

    /// A dispatched request has failed, after `moved` bytes. For the order of the others that is the
    /// same as success: the error is its sender's. Its class stays charged with all it asked for.
    pub fn fail(&mut self, now: Timestamp, id: RequestId, moved: Bytes) -> Option<Accepted> {
        self.end(now, id, moved, Outcome::Failed)
    }

    /// Takes back a request that has not been dispatched.
    pub fn cancel(&mut self, now: Timestamp, id: RequestId) -> Cancellation {
        let Some(slot) = self.table.find(id) else { return Cancellation::Unknown };
        let state = self.table.state(slot);
        if state.is_in_flight() {
            return Cancellation::InFlight;
        }
        let index = self.table.class_index(slot);
        if state == State::Blocked {
            self.made_ready.clear();
            self.counts.blocked -= 1;
            self.note_given_up(now, slot);
            self.note_taken_back(now, index, state);
            // It may have been given a turn for this request's sake alone.
            self.settle(now, index);
            self.cancel_blocked(slot);
        } else {
            self.queues[usize::from(index)].remove(now, &mut self.table, slot);
            self.counts.ready -= 1;
            self.note_taken_back(now, index, state);
            self.settle(now, index);
            let class = self.table.class(slot);
            self.release(now, slot, index, class);
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
        self.queues.iter_mut().for_each(|queue| queue.clear(&mut self.table));
        let now = self.classes.as_deref().map_or(Timestamp(0), |classes| classes.latest);
        for index in 0..self.queues.len() as u16 {
            self.settle(now, index);
        }
        self.stats.drained += slots.len() as u64;
        for slot in slots {
            self.note_taken_back(now, self.table.class_index(slot), self.table.state(slot));
            match self.table.state(slot) {
                State::Blocked => self.cancel_blocked(slot),
                _ => self.release_silently(slot),
            }
        }
        (self.counts.blocked, self.counts.ready) = (0, 0);
        self.made_ready.clear();
        into[first..].sort_unstable_by_key(|accepted| accepted.seq);
    }

    /// Puts another policy in charge and returns the old one, empty. What it held goes to the new
    /// one in arrival order with its old `seq`; requests in flight and conflicts are not touched.
    ///
    /// # Panics
    /// If it shares among classes: each has a policy of its own.
    pub fn switch_policy(&mut self, now: Timestamp, policy: Box<dyn Policy>) -> Box<dyn Policy> {
        assert!(self.classes.is_none(), "with classes, switch_policies or switch_class_policy");
        self.stats.switches += 1;
        self.switch(now, 0, policy)
    }

    fn switch(&mut self, now: Timestamp, index: u16, policy: Box<dyn Policy>) -> Box<dyn Policy> {
        let old = self.queues[usize::from(index)].switch(now, &self.table, policy);
        self.disown(|of| of == index);
        old
    }

    /// Some classes' policies have been switched: the new ones are not told how requests ended that
    /// they never had. Walks the whole table.
    fn disown(&mut self, is_switched: impl Fn(u16) -> bool) {
        for slot in self.table.slots() {
            let index = self.table.class_index(slot);
            if self.table.state(slot) == State::InFlightByPolicy && is_switched(index) {
                self.queues[usize::from(index)].disown(&mut self.table, slot);
            }
        }
    }

    /// Forgets what was learned about a file, so that its index may name another one.
    pub fn retire(&mut self, file: FileIndex) -> Result<(), FileBusy> {
        if self.guard.is_file_live(file) {
            return Err(FileBusy);
        }
        self.guard.retire(file);
        match &mut self.classes {
            Some(classes) => classes.retire(file, &mut self.queues),
            None => self.queues[0].retire(file),
        }
        self.arm.retire(file);
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
        self.made_ready.iter().map(|slot| self.table.accepted(*slot))
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        Stats { guard_cells: self.guard.cell_count() as u64, ..self.stats }
    }

    /// How many requests wait, ready or blocked.
    pub fn queued_count(&self) -> usize {
        self.counts.blocked + self.counts.ready
    }

    /// How many places of the queue are taken: by requests that wait, and by cancelled ones that
    /// others are still ordered behind.
    pub fn held_count(&self) -> usize {
        self.queued_count() + self.table.tombstone_count()
    }

    /// How many places of the queue are free.
    pub fn free_count(&self) -> usize {
        self.options.queue_requests_max.saturating_sub(self.held_count())
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
    /// With classes: of the policy of [`OTHER_CLASS`](crate::OTHER_CLASS).
    pub fn policy_name(&self) -> &'static str {
        self.queues[0].policy_name()
    }

    /// What a checked policy did wrong; TO has taken its place then. With classes: what the first
    /// did that is found, and [`classes`](Scheduler::classes) says it of each. Looks at every class.
    pub fn policy_fault(&self) -> Option<Fault> {
        self.queues.iter().find_map(ClassQueue::policy_fault)
    }

    fn skips_policy(&self, access: Access, range: ByteRange) -> bool {
        match access {
            Access::Alone | Access::Sync => true,
            Access::Read | Access::Write => {
                self.options.large_bytes.is_some_and(|large| range.length() > large)
            }
        }
    }

    /// Hands a ready request to the policy or to the lane of its class.
    fn queue(&mut self, now: Timestamp, slot: u32) {
        let skips = self.skips_policy(self.table.access(slot), self.table.range(slot));
        let index = self.table.class_index(slot);
        let queue = &mut self.queues[usize::from(index)];
        self.counts.ready += 1;
        match skips {
            true => queue.add_to_lane(now, &mut self.table, slot),
            false => queue.add(now, &mut self.table, slot),
        }
        if let Some(classes) = &mut self.classes {
            classes.note_file(index, self.table.file(slot));
            classes.wake(now, index);
            classes.note_front(index, self.queues[usize::from(index)].front());
        }
    }

    /// Frees a request, of class `by`, that has ended, and queues what that made ready.
    fn release(&mut self, now: Timestamp, slot: u32, by: u16, by_class: ClassId) {
        self.made_ready.clear();
        self.release_silently(slot);
        if self.made_ready.is_empty() {
            return;
        }
        let ready = core::mem::take(&mut self.made_ready);
        self.counts.blocked -= ready.len();
        for slot in &ready {
            self.note_unblocked(now, *slot, by, by_class);
            self.queue(now, *slot);
        }
        self.made_ready = ready;
    }

    /// Puts a request in flight that has just come.
    fn bypass(&mut self, now: Timestamp, slot: u32) -> Accepted {
        let accepted = self.table.accepted(slot);
        self.table.set_state(slot, State::InFlightBypassed);
        self.counts.in_flight += 1;
        self.stats.bypassed += 1;
        self.stats.queued += now - accepted.arrived;
        self.arm.note(&accepted.request, accepted.request.range.end);
        if let Some(classes) = &mut self.classes {
            let index = self.table.class_index(slot);
            classes.charge(now, index, &[accepted]);
            classes.of_mut(index).counts.bypassed += 1;
        }
        accepted
    }

    /// Counts what a queue has just put in flight.
    fn note_batch(&mut self, now: Timestamp, turn: Turn, batch: &Batch) {
        let count = batch.members.len();
        self.counts.ready -= count;
        self.counts.in_flight += count;
        self.stats.batches += 1;
        self.stats.merged += if count > 1 { count as u64 } else { 0 };
        let (mut bytes, mut end) = (Bytes::ZERO, Offset(0));
        for member in &batch.members {
            self.stats.queued += now - member.arrived;
            bytes += member.request.range.length();
            end = end.max(member.request.range.end);
        }
        if turn == Turn::Policy {
            self.stats.policy_batches += 1;
            self.stats.batched_requests += count as u64;
            self.stats.batched_bytes += bytes;
        }
        self.arm.note(&batch.members[0].request, end);
        if let Some(book) = &mut self.book {
            book.note_batch(now, &batch.members);
        }
    }

    fn cancel_blocked(&mut self, slot: u32) {
        if !self.guard.cancel_blocked(&mut self.table, slot) {
            self.table.remove(slot);
        }
    }

    /// Frees a request that has ended; the slots that became ready land in `made_ready`.
    fn release_silently(&mut self, slot: u32) {
        self.guard.release(&mut self.table, slot, &mut self.made_ready);
        self.table.remove(slot);
    }
}
