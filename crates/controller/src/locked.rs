//! What the lock protects: the scheduler, the files it knows by number, and the free slots.

use std::collections::VecDeque;

use forebay_sched::{
    Accepted, Access, Admission, Batch, Cancellation, Decision, Request, RequestId, Room,
};
use forebay_trace::{Hinted, Traced};
use forebay_units::{Bytes, ClassId, FileId, FileIndex, Timestamp};

use crate::active::Active;
use crate::clock::Ticks;
use crate::error::Error;
use crate::files::Files;
use crate::operation::{FileKey, Notice, Submission, Ticket, Turn};
use crate::ring::{ENTRIES, Ended, Operation};
use crate::selection::Selection;
use crate::shared::Shared;
use crate::slots::{FreeSlots, Name, Stage};
use crate::statistics::Detail;
use crate::tape::{Changed, Tape};

/// See the module's head.
pub(crate) struct Locked {
    pub(crate) scheduler: Traced,
    pub(crate) files: Files,
    pub(crate) free: FreeSlots,
    /// A batch leaves while fewer requests than this are in flight.
    pub(crate) depth: usize,
    /// Most requests that wait, and most of one class; the scheduler's own bounds are wider.
    bounds: Bounds,
    /// How many were refused here, of which the scheduler does not know.
    pub(crate) refused: u64,
    /// Nothing leaves before, because more is about to follow.
    pub(crate) hold_until: Option<Timestamp>,
    /// `poll` has said that nothing may go, and nothing has changed since.
    pub(crate) has_answered: bool,
    /// Somebody has left word that the statistics are wanted.
    pub(crate) wanted: Option<Detail>,
    /// Mean time of a request in the loop, call-back included, in nanoseconds.
    pub(crate) turn_ns: u64,
    /// Others want the lock: they have left something, or had it between two turns of the loop.
    pub(crate) is_sought: bool,
    /// What a trace that begins has to tell beside its header.
    pub(crate) changed: Changed,
    /// There is a trace, or one is about to begin.
    pub(crate) is_recorded: bool,
    /// Where the trace goes, if there is one.
    pub(crate) tape: Option<Tape>,
    /// What chooses the policy, if anything does.
    pub(crate) selection: Option<Box<Selection>>,
    ticks: Ticks,
    batch: Batch,
    /// Dispatched, but too long for one answer of `poll`.
    rest: Option<(Kind, VecDeque<Turn>)>,
}

/// Most requests that wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) queue: usize,
    /// Of one class; without classes, any number.
    pub(crate) class: usize,
}

impl Bounds {
    /// With fewer waiting than this, one more is never refused, whatever its class.
    pub(crate) fn least(&self) -> usize {
        self.queue.min(self.class)
    }
}

/// What the requests of a batch have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) file: FileKey,
    pub(crate) access: Access,
}

/// What is to be done after the lock is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// Carry out what is in [`Active::turns`], and wake who waits in [`Active::woken`].
    Dispatch,
    /// Ask again then, or when something has changed.
    Wait(Timestamp),
    /// Ask again when something has changed.
    Nothing,
}

impl Locked {
    pub(crate) fn new(scheduler: Traced, files: Files, depth: usize, bounds: Bounds) -> Self {
        Self {
            scheduler,
            files,
            free: FreeSlots::default(),
            depth,
            bounds,
            refused: 0,
            hold_until: None,
            has_answered: false,
            wanted: None,
            turn_ns: 0,
            is_sought: false,
            changed: Changed::default(),
            is_recorded: false,
            tape: None,
            selection: None,
            ticks: Ticks::default(),
            batch: Batch::new(),
            rest: None,
        }
    }

    pub(crate) fn now(&mut self, shared: &Shared) -> Timestamp {
        self.ticks.now(&shared.clock)
    }

    /// Whether times can be told by the processor's ticks.
    #[cfg(test)]
    pub(crate) fn knows_ticks(&self) -> bool {
        self.ticks.are_known()
    }

    /// Whether somebody has had the lock after the time that [`now`](Self::now) last told the caller.
    pub(crate) fn was_held_after(&self, told: Timestamp) -> bool {
        self.ticks.latest() > told
    }

    /// Does what threads have left, at most one round of each ring; how much others have submitted.
    pub(crate) fn take_along(&mut self, shared: &Shared, now: Timestamp) -> usize {
        self.end_left(shared);
        let count = self.admit_left(shared, now);
        self.is_sought = count > 0;
        if self.wanted.is_some() {
            // What was completed before the statistics were asked for is in them.
            self.end_left(shared);
        }
        count
    }

    /// Ends what threads have said is over.
    fn end_left(&mut self, shared: &Shared) {
        for _ in 0..ENTRIES {
            let Some((operation, name)) = shared.ends.first() else { break };
            if let Operation::End(slot, ended, ticks) = operation {
                let then = self.ticks.then(ticks);
                self.end(shared, then, slot, ended);
            }
            shared.ends.free_first(name);
        }
    }

    /// Admits what others have submitted; how much it was.
    fn admit_left(&mut self, shared: &Shared, now: Timestamp) -> usize {
        for count in 0..ENTRIES {
            let Some((operation, name)) = shared.ring.first() else { return count };
            let spare = match operation {
                Operation::Submit(asked) => {
                    let admitted = self.admit(shared, now, &asked, name.slot(), Room::Full);
                    // The ring is closed in time, see `note_change`.
                    admitted.expect("what the ring holds fits into the queue");
                    let slot = shared.slots.take(&mut self.free);
                    shared.slots.name(slot.expect("slots outnumber what may be queued"))
                }
                Operation::Publish(detail) => {
                    self.wanted = self.wanted.max(Some(detail));
                    name
                }
                Operation::End(..) | Operation::Nothing => name,
            };
            self.note_change(shared);
            shared.ring.free_first(spare);
        }
        ENTRIES
    }

    /// Closes the ring for submissions while they might not fit, since a request in the ring cannot
    /// be refused; and the answer that `poll` gave last no longer holds.
    pub(crate) fn note_change(&mut self, shared: &Shared) {
        self.has_answered = false;
        let is_crowded = self.scheduler.held_count() + ENTRIES >= self.bounds.least();
        shared.set_crowded(is_crowded);
    }

    /// Tells those who end requests whether that can wait for the next call: nothing depends on it,
    /// and the time at which it was can still be told then.
    pub(crate) fn note_urgency(&self, shared: &Shared) {
        shared.set_urgent(self.scheduler.queued_count() > 0 || !self.ticks.are_known());
    }

    /// Whether the queue takes no more of this class.
    fn is_full(&self, class: ClassId) -> bool {
        self.scheduler.held_count() >= self.bounds.queue
            || self.scheduler.queued_count_of(class) >= self.bounds.class
    }

    /// Whether the depth allows one more batch.
    fn has_room(&self) -> bool {
        self.scheduler.in_flight_count() < self.depth
    }

    /// Whether something may leave now as far as depth and holds go.
    pub(crate) fn may_dispatch(&self, now: Timestamp) -> bool {
        self.has_room() && self.hold_until.is_none_or(|until| until <= now)
    }

    /// From when on something might go beside what is in flight, as far as depth and holds tell; not
    /// before `now`.
    pub(crate) fn more_at(&self, now: Timestamp) -> Option<Timestamp> {
        let may_go = self.has_ready() && self.has_room();
        may_go.then(|| self.hold_until.map_or(now, |until| until.max(now)))
    }

    /// Admits a request that comes straight from its submitter. With `active`, it may be dispatched at once.
    pub(crate) fn submit(
        &mut self,
        shared: &Shared,
        now: Timestamp,
        submission: &Submission,
        active: Option<&mut Active>,
    ) -> Result<(Ticket, Decided), Error> {
        if self.is_full(submission.class) {
            return Err(self.refuse(now, submission));
        }
        let Some(slot) = shared.slots.take(&mut self.free) else {
            return Err(self.refuse(now, submission));
        };
        let ticket = shared.slots.ticket(shared.slots.name(slot));
        let room = match active.is_some() && self.may_dispatch(now) {
            true => Room::Free,
            false => Room::Full,
        };
        let admission = match self.admit(shared, now, submission, slot, room) {
            Ok(admission) => admission,
            Err(error) => {
                shared.slots.free(&mut self.free, slot);
                return Err(error);
            }
        };
        self.note_change(shared);
        let (Admission::Bypassed(accepted), Some(active)) = (admission, active) else {
            return Ok((ticket, Decided::Nothing));
        };
        self.give_turn(shared, &accepted, active);
        active.end_batch(Kind { file: submission.file, access: submission.access });
        Ok((ticket, Decided::Dispatch))
    }

    /// Notes that the queue takes no more, of which the scheduler does not know.
    #[cold]
    fn refuse(&mut self, now: Timestamp, asked: &Submission) -> Error {
        self.refused += 1;
        if self.scheduler.is_recorded() {
            let file = self.enter_file(asked.file);
            self.scheduler.note_refused(now, request(asked, file, 0));
            self.leave_file(file);
        }
        Error::QueueFull
    }

    fn admit(
        &mut self,
        shared: &Shared,
        now: Timestamp,
        asked: &Submission,
        slot: u32,
        room: Room,
    ) -> Result<Admission, Error> {
        let file = self.enter_file(asked.file);
        let request = request(asked, file, slot);
        match self.scheduler.submit(now, request, room) {
            Ok(admission) => {
                if let Some(selection) = &mut self.selection {
                    let is_bypassed = matches!(admission, Admission::Bypassed(_));
                    selection.submitted(now, &request, is_bypassed);
                }
                let cell = shared.slots.slot(slot);
                cell.set_request(admission.id().0);
                cell.begin(asked.id, Stage::Queued, asked.notice == Notice::Wait);
                Ok(admission)
            }
            Err(_) => {
                self.leave_file(file);
                Err(Error::QueueFull)
            }
        }
    }

    /// Decides what goes next, and puts it into `active`.
    pub(crate) fn decide(
        &mut self,
        shared: &Shared,
        now: Timestamp,
        active: &mut Active,
    ) -> Decided {
        if let Some(until) = self.hold_until {
            if until > now {
                return Decided::Wait(until);
            }
            self.hold_until = None;
        }
        if let Some(selection) = &mut self.selection {
            selection.choose(now, &mut self.scheduler);
        }
        if !self.has_ready() || !self.has_room() {
            return Decided::Nothing;
        }
        let mut batch = core::mem::take(&mut self.batch);
        let decided = match self.scheduler.next(now, &mut batch) {
            Decision::Wait { until } => Decided::Wait(until),
            Decision::Idle => Decided::Nothing,
            Decision::Dispatch => {
                if let Some(selection) = &mut self.selection {
                    selection.dispatched(now, batch.members());
                }
                for accepted in batch.members() {
                    self.give_turn(shared, accepted, active);
                }
                active
                    .end_batch(Kind { file: self.files.key(batch.file()), access: batch.access() });
                Decided::Dispatch
            }
        };
        self.batch = batch;
        decided
    }

    /// Whether something waits that no earlier request holds up.
    pub(crate) fn has_ready(&self) -> bool {
        self.scheduler.queued_count() > self.scheduler.blocked_count()
    }

    fn give_turn(&self, shared: &Shared, accepted: &Accepted, active: &mut Active) {
        let slot = accepted.request.tag as u32;
        let cell = shared.slots.slot(slot);
        let word = cell.advance(Stage::InFlight);
        match word.is_waited_for() {
            true => active.woken.push(slot),
            false => active.turns.push(turn(shared, accepted)),
        }
    }

    /// As [`decide`](Self::decide), for at most `most` requests at a time.
    pub(crate) fn decide_some(
        &mut self,
        shared: &Shared,
        now: Timestamp,
        most: usize,
        active: &mut Active,
    ) -> Decided {
        let (kind, mut rest) = match self.rest.take() {
            Some(rest) => rest,
            None => match self.decide(shared, now, active) {
                Decided::Dispatch if active.turns.len() > most => {
                    let rest = active.turns.drain(most..).collect();
                    let (kind, _) = active.batches.pop().expect("it has just been decided");
                    (kind, rest)
                }
                decided => return decided,
            },
        };
        let wanted = most.saturating_sub(active.turns.len()).min(rest.len());
        active.turns.extend(rest.drain(..wanted));
        active.end_batch(kind);
        self.rest = (!rest.is_empty()).then_some((kind, rest));
        Decided::Dispatch
    }

    /// Whether `poll` would find something at once, as far as is known.
    pub(crate) fn has_something_to_poll(&self, now: Timestamp) -> bool {
        self.rest.is_some() || (!self.has_answered && self.has_ready() && self.may_dispatch(now))
    }

    /// Ends the request in a slot, which is in flight.
    pub(crate) fn end(&mut self, shared: &Shared, now: Timestamp, slot: u32, ended: Ended) {
        let request = RequestId(shared.slots.slot(slot).request());
        let moved = ended.moved;
        let ended = self.scheduler.complete(now, request, moved, ended.errno);
        if let (Some(selection), Some(accepted)) = (&mut self.selection, &ended) {
            let moved = accepted.request.moved_at_most(moved);
            selection.ended(now, &accepted.request, moved, true);
        }
        debug_assert!(ended.is_some(), "only what is in flight is ended");
        shared.slots.free(&mut self.free, slot);
        if let Some(accepted) = ended {
            self.leave_file(accepted.request.file);
        }
        self.note_change(shared);
    }

    /// Takes back a request that the scheduler has; its slot, if somebody waits for it.
    pub(crate) fn cancel(
        &mut self,
        shared: &Shared,
        now: Timestamp,
        ticket: Ticket,
    ) -> Result<Option<u32>, Error> {
        let (slot, cell, word) = shared.slots.live(ticket).ok_or(Error::UnknownTicket)?;
        let request = RequestId(cell.request());
        let accepted = self.scheduler.find(request).ok_or(Error::UnknownTicket)?;
        match self.scheduler.cancel(now, request) {
            Cancellation::Cancelled => {}
            Cancellation::InFlight => return Err(Error::Dispatched),
            Cancellation::Unknown => return Err(Error::UnknownTicket),
        }
        if let Some(selection) = &mut self.selection {
            selection.ended(now, &accepted.request, Bytes::ZERO, false);
        }
        shared.slots.free(&mut self.free, slot);
        self.leave_file(accepted.request.file);
        self.note_change(shared);
        Ok(word.is_waited_for().then_some(slot))
    }

    /// Takes back everything that waits, in arrival order.
    pub(crate) fn take_back(&mut self, shared: &Shared, now: Timestamp) -> Vec<Turn> {
        let mut waiting = Vec::new();
        self.scheduler.drain(now, &mut waiting);
        let turns: Vec<Turn> = waiting.iter().map(|accepted| turn(shared, accepted)).collect();
        for accepted in &waiting {
            if let Some(selection) = &mut self.selection {
                selection.ended(now, &accepted.request, Bytes::ZERO, false);
            }
            shared.slots.free(&mut self.free, accepted.request.tag as u32);
            self.leave_file(accepted.request.file);
        }
        self.note_change(shared);
        turns
    }

    fn enter_file(&mut self, key: FileKey) -> FileIndex {
        let known = self.files.count();
        let file = self.files.enter(key);
        if self.files.count() > known {
            self.name_file(file, key);
        }
        file
    }

    /// Tells ledger and trace which file an index stands for.
    fn name_file(&mut self, file: FileIndex, key: FileKey) {
        let id = FileId { device: key.high, inode: key.low, generation: 0 };
        self.scheduler.note_file(file, id);
    }

    /// Tells them of all files that are known.
    pub(crate) fn name_files(&mut self) {
        let known: Vec<(FileIndex, FileKey)> = self.files.iter().collect();
        known.into_iter().for_each(|(file, key)| self.name_file(file, key));
    }

    /// Changes how many requests may be in flight.
    pub(crate) fn set_depth(&mut self, now: Timestamp, depth: usize) {
        self.depth = depth;
        self.note_depth(now);
    }

    pub(crate) fn note_depth(&mut self, now: Timestamp) {
        self.scheduler.note_depth(now, self.depth as u32);
    }

    /// Holds back what waits until some time; with `None`, no longer.
    pub(crate) fn hold(&mut self, now: Timestamp, until: Option<Timestamp>) {
        let hint = until.map_or(Hinted::NoMore, |until| Hinted::MoreFollows { until });
        self.hold_until = until;
        self.scheduler.note_hint(now, hint);
    }

    /// Forgets a file as soon as it has no live request.
    pub(crate) fn close_file(&mut self, now: Timestamp, key: FileKey) {
        if let Some(file) = self.files.find(key) {
            self.scheduler.note_hint(now, Hinted::Forget { file });
        }
        if let Some(file) = self.files.close(key) {
            self.forget(file);
        }
    }

    fn leave_file(&mut self, file: FileIndex) {
        if let Some(idle) = self.files.leave(file) {
            self.forget(idle);
        }
    }

    fn forget(&mut self, file: FileIndex) {
        // Busy only while cancelled requests keep their place among the conflicts: it stays idle then,
        // and its turn to be forgotten comes again.
        if self.scheduler.retire(file).is_ok() {
            self.files.forget(file);
        }
    }
}

fn request(asked: &Submission, file: FileIndex, slot: u32) -> Request {
    Request {
        tag: u64::from(slot),
        file,
        access: asked.access,
        range: asked.range,
        client: asked.client,
        class: asked.class,
    }
}

fn turn(shared: &Shared, accepted: &Accepted) -> Turn {
    let slot = accepted.request.tag as u32;
    let cell = shared.slots.slot(slot);
    let range = accepted.request.range;
    let is_open = range.end.0 == u64::MAX;
    Turn {
        ticket: shared.slots.ticket(Name::of(slot, cell.word())),
        id: cell.id(),
        offset: range.start,
        length: if is_open { Bytes::ZERO } else { range.length() },
        client: accepted.request.client,
        class: accepted.request.class,
    }
}
