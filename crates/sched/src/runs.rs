//! Runs: adjacent requests of one queue, kept together from arrival so that they leave together.
//!
//! A *queue* is one (file, class, direction). A *run* is a list of its requests without gap or
//! overlap, `next.start == previous.end`, within the caps of [`Limits`]; it leaves as a batch or
//! a part of one. Requests that overlap or repeat each other (only reads can, the guard sees to
//! that) are in different runs; runs that start at the same offset are ordered by arrival.
//!
//! ```text
//!   index   (queue, start, arrival) ─► run        one for all queues: an idle file costs next to nothing
//!   run     first ─► member ─► … ─► last          member = slot of the request table, so a
//!   seat    run, next                             request id leads to its run in O(1)
//! ```
//!
//! `R` is what a policy notes about a run, `Q` about a queue. Nothing is allocated below the
//! high-water marks of requests, of runs of several, of runs that came out of order, and of queues.
//!
//! # Bytes a queued request
//!
//! Where nothing merges, every request is a run. Such a run has no record: it is named by its slot,
//! and what there is to know about it stands in the scheduler's table, which each call is given. A
//! run gets a record, and with it another name, when a second request joins it.
//!
//! | with gaps everywhere | bytes |
//! |---|---|
//! | the scheduler's table and the guard's list | 64 + 4 |
//! | a seat: in which run, and its neighbours in a [`RunSet`] | 8 |
//! | an entry of the index, in leaves that are nearly full | 21 |
//! | the policy's note, of MLF and aIOLi | 8 |
//!
//! Less than that would take an index without offsets, and so a miss of the cache for each comparison.

mod change;
mod index;
mod record;
mod run_set;

use alloc::vec::Vec;

use forebay_units::{ByteRange, Bytes, ClassId, Direction, FileIndex, Offset, Timestamp};

use crate::ordered_map::OrderedMap;
use crate::policy::{Limits, Requests};
use crate::request::{Accepted, Request, RequestId};

use self::index::Index;
use self::record::{Links, Record, Seat};
pub use self::run_set::RunSet;

/// Names a run until it is taken, absorbed, emptied, or given another name by [`Runs::join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunIndex(u32);

/// Names a queue until its file is retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueIndex(pub u32);

const NIL: u32 = u32::MAX;

/// What a policy notes about a run.
pub trait Note: Copy + Default {
    /// What it notes about a run of one request that nothing has joined: kept for each such request.
    type One: Copy + Default;

    /// The whole of it.
    fn of_one(one: Self::One) -> Self;

    /// What is kept of it.
    fn one(self) -> Self::One;
}

/// No note.
impl Note for () {
    type One = ();

    fn of_one((): ()) {}

    fn one(self) {}
}

impl RunIndex {
    /// Beside it the number of a record; without it the slot of the run's only request.
    const RECORD: u32 = 1 << 30;

    const fn record(self) -> Option<usize> {
        if self.0 & Self::RECORD == 0 { None } else { Some((self.0 & !Self::RECORD) as usize) }
    }
}

/// Adjacent requests of one queue, as they are at one moment; never empty.
#[derive(Clone, Copy, Debug)]
pub struct Run<R> {
    /// Its name at that moment.
    pub index: RunIndex,
    /// Whose run it is.
    pub queue: QueueIndex,
    /// How many requests it has.
    pub count: u32,
    /// What all of them cover together.
    pub range: ByteRange,
    /// Arrival order of its oldest request.
    pub min_seq: u64,
    /// What the policy keeps about it.
    pub note: R,
    /// The policy's mark.
    pub is_marked: bool,
    /// The key under which the policy has filed it; `None` for a run of one request that nothing has
    /// joined, whose key follows from its note.
    pub filed: Option<u64>,
    tie: u32,
    links: Links,
}

impl<R> Run<R> {
    /// How much it moves.
    pub fn bytes(&self) -> Bytes {
        self.range.length()
    }

    fn place(&self) -> u128 {
        place(self.queue, self.range.start, self.tie)
    }
}

/// The requests of one file, class and direction.
#[derive(Clone, Copy, Debug)]
pub struct Queue<Q> {
    /// What is read or written.
    pub file: FileIndex,
    /// For whom.
    pub class: ClassId,
    /// Which way.
    pub direction: Direction,
    /// How much is queued.
    pub bytes: Bytes,
    /// How many runs are queued.
    pub run_count: u32,
    /// What the policy keeps about it, also while it is empty.
    pub note: Q,
}

/// What [`Runs::join`] did.
#[derive(Clone, Copy, Debug)]
pub struct Joined<R> {
    /// Where the request is now.
    pub run: RunIndex,
    /// That run before, unless it is new; it may have had another name.
    pub before: Option<Run<R>>,
    /// The run that became part of it, if the request closed a gap; its name is no longer valid.
    pub absorbed: Option<Run<R>>,
}

/// What [`Runs::remove`] left over; both parts inherit note and mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The run of the requests in front of the removed one; keeps the name.
    pub left: Option<RunIndex>,
    /// The run of the requests behind it; keeps the name if there is no left part.
    pub right: Option<RunIndex>,
}

impl Removed {
    /// The parts, in offset order.
    pub fn parts(self) -> impl Iterator<Item = RunIndex> {
        self.left.into_iter().chain(self.right)
    }
}

/// All queued requests of a policy as runs; see the module's head.
#[derive(Clone, Debug)]
pub struct Runs<R: Note, Q = ()> {
    limits: Limits,
    seats: Vec<Seat>,
    /// By slot: the notes of runs without a record.
    notes: Vec<R::One>,
    records: Vec<Record<R>>,
    /// Free records, linked through `first`.
    record_free: u32,
    index: Index,
    queues: Vec<Queue<Q>>,
    queue_free: Vec<u32>,
    queue_of: OrderedMap<u128, u32>,
    /// By file and direction: the queue asked for last, to be looked at first.
    recent: Vec<[u32; 2]>,
    queued_count: usize,
}

/// Sort key of a run: queue, start offset, then arrival (its low half: a tie-breaker that need only differ).
fn place(queue: QueueIndex, start: Offset, tie: u32) -> u128 {
    u128::from(queue.0) << 96 | u128::from(start.0) << 32 | u128::from(tie)
}

fn queue_and_start(place: u128) -> (QueueIndex, Offset) {
    (QueueIndex((place >> 96) as u32), Offset((place >> 32) as u64))
}

fn slot(id: RequestId) -> u32 {
    id.0 as u32
}

impl<R: Note, Q: Copy + Default> Runs<R, Q> {
    /// Nothing queued.
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            seats: Vec::new(),
            notes: Vec::new(),
            records: Vec::new(),
            record_free: NIL,
            index: Index::default(),
            queues: Vec::new(),
            queue_free: Vec::new(),
            queue_of: OrderedMap::new(),
            recent: Vec::new(),
            queued_count: 0,
        }
    }

    /// How many requests are queued.
    pub fn queued_count(&self) -> usize {
        self.queued_count
    }

    /// A run's present state. `run` must be valid, as in all that follows.
    pub fn run(&self, held: &Requests<'_>, run: RunIndex) -> Run<R> {
        let Some(record) = run.record() else {
            let seat = self.seats[run.0 as usize];
            let seq = held.seq(run.0);
            return Run {
                index: run,
                queue: self.queue_of_one(held, run.0),
                count: 1,
                range: held.range(run.0),
                min_seq: seq,
                note: R::of_one(self.notes[run.0 as usize]),
                is_marked: seat.is_marked(),
                filed: None,
                tie: seq as u32,
                links: seat.links(),
            };
        };
        let record = &self.records[record];
        Run {
            index: run,
            queue: record.queue,
            count: record.count,
            range: record.range,
            min_seq: record.min_seq,
            note: record.note,
            is_marked: record.is_marked,
            filed: Some(record.filed),
            tie: record.tie,
            links: record.links,
        }
    }

    /// What a run covers.
    pub fn range(&self, held: &Requests<'_>, run: RunIndex) -> ByteRange {
        run.record().map_or_else(|| held.range(run.0), |record| self.records[record].range)
    }

    /// Whose run it is.
    pub fn queue_of_run(&self, held: &Requests<'_>, run: RunIndex) -> QueueIndex {
        match run.record() {
            Some(record) => self.records[record].queue,
            None => self.queue_of_one(held, run.0),
        }
    }

    /// Arrival order of a run's oldest request.
    pub fn min_seq(&self, held: &Requests<'_>, run: RunIndex) -> u64 {
        run.record().map_or_else(|| held.seq(run.0), |record| self.records[record].min_seq)
    }

    /// When a run's oldest request arrived.
    pub fn arrived(&self, held: &Requests<'_>, run: RunIndex) -> Timestamp {
        run.record().map_or_else(|| held.arrived(run.0), |record| self.records[record].arrived)
    }

    /// The policy's note about a run.
    pub fn note(&self, run: RunIndex) -> R {
        match run.record() {
            Some(record) => self.records[record].note,
            None => R::of_one(self.notes[run.0 as usize]),
        }
    }

    /// Changes the policy's note about a run.
    pub fn set_note(&mut self, run: RunIndex, note: R) {
        match run.record() {
            Some(record) => self.records[record].note = note,
            None => self.notes[run.0 as usize] = note.one(),
        }
    }

    /// The key under which the policy has filed a run, if that was noted.
    pub fn filed(&self, run: RunIndex) -> Option<u64> {
        run.record().map(|record| self.records[record].filed)
    }

    /// Whether the policy has marked a run.
    pub fn is_marked(&self, run: RunIndex) -> bool {
        match run.record() {
            Some(record) => self.records[record].is_marked,
            None => self.seats[run.0 as usize].is_marked(),
        }
    }

    /// Marks a run, or takes the mark away. A new run has none.
    pub fn mark(&mut self, run: RunIndex, is_marked: bool) {
        match run.record() {
            Some(record) => self.records[record].is_marked = is_marked,
            None => self.seats[run.0 as usize].mark(is_marked),
        }
    }

    /// Notes the key under which the policy has filed a run. A run of one request that nothing has
    /// joined does not keep it: it must follow from the note.
    pub fn set_filed(&mut self, run: RunIndex, key: u64) {
        if let Some(record) = run.record() {
            self.records[record].filed = key;
        }
    }

    /// A queue's present state.
    pub fn queue(&self, queue: QueueIndex) -> &Queue<Q> {
        &self.queues[queue.0 as usize]
    }

    /// The policy's note about a queue.
    pub fn queue_note_mut(&mut self, queue: QueueIndex) -> &mut Q {
        &mut self.queues[queue.0 as usize].note
    }

    /// Changes the notes of all queues.
    pub fn each_queue_note(&mut self, mut change: impl FnMut(&mut Q)) {
        self.queues.iter_mut().for_each(|queue| change(&mut queue.note));
    }

    /// The queue a request belongs to, if there was ever one.
    pub fn queue_of(&mut self, request: &Request) -> Option<QueueIndex> {
        let (file, class, direction) = (request.file, request.class, request.access.direction());
        let at = file.0 as usize;
        if at >= self.recent.len() {
            self.recent.resize(at + 1, [NIL; 2]);
        }
        let recent = &mut self.recent[at][direction as usize];
        if self.queues.get(*recent as usize).is_none_or(|queue| queue.class != class) {
            *recent = self.queue_of.get(queue_key(file, class, direction)).unwrap_or(NIL);
        }
        (*recent != NIL).then_some(QueueIndex(*recent))
    }

    /// The queue of a request that is in one.
    fn queue_of_one(&self, held: &Requests<'_>, slot: u32) -> QueueIndex {
        let (file, class, direction) = held.queue_of(slot);
        let recent = self.recent[file.0 as usize][direction as usize];
        let is_it = self.queues.get(recent as usize).is_some_and(|queue| queue.class == class);
        let queue =
            if is_it { Some(recent) } else { self.queue_of.get(queue_key(file, class, direction)) };
        QueueIndex(queue.expect("what is queued has a queue"))
    }

    /// The run with the lowest start at or after `from`, of one queue.
    pub fn first_from(&self, queue: QueueIndex, from: Offset) -> Option<RunIndex> {
        let (_, run) = self.index.at_or_after(place(queue, from, 0))?;
        Some(RunIndex(run))
    }

    /// The oldest run that starts exactly at `start`, of one queue.
    pub fn starting_at(&self, queue: QueueIndex, start: Offset) -> Option<RunIndex> {
        let (place, run) = self.index.at_or_after(place(queue, start, 0))?;
        (queue_and_start(place).1 == start).then_some(RunIndex(run))
    }

    /// The runs of one queue by start offset, from `from` on.
    pub fn iter_from(&self, queue: QueueIndex, from: Offset) -> impl Iterator<Item = RunIndex> {
        self.index.iter_from(place(queue, from, 0)).map(|(_, run)| RunIndex(run))
    }

    /// The run a queued request is in; `None` if `id` is not queued here.
    pub fn find(&self, held: &Requests<'_>, id: RequestId) -> Option<RunIndex> {
        let run = self.seats.get(slot(id) as usize)?.run(slot(id))?;
        (held.id(slot(id)) == id).then_some(run)
    }

    /// Adds a request: behind the run that ends where it starts, in front of the run that starts
    /// where it ends, between the two, or as a run of its own where the caps or a gap forbid that.
    pub fn join(&mut self, held: &Requests<'_>, accepted: &Accepted) -> Joined<R> {
        let queue = self.open_queue(&accepted.request);
        let (before, after) = self.adjacent(held, queue, accepted.request.range);
        let at = slot(accepted.id) as usize;
        if at >= self.seats.len() {
            self.seats.resize(at + 1, Seat::EMPTY);
            self.notes.resize(at + 1, R::One::default());
        }
        assert!(self.seats[at].is_empty(), "a request is added once");
        self.queues[queue.0 as usize].bytes += accepted.request.range.length();
        self.queued_count += 1;
        match (before, after) {
            (None, None) => {
                Joined { run: self.start(queue, accepted), before: None, absorbed: None }
            }
            (Some(run), None) => self.append(held, run, accepted),
            (None, Some(run)) => self.prepend(held, run, accepted),
            (Some(run), Some(next)) => {
                let mut joined = self.append(held, run, accepted);
                joined.absorbed = Some(self.absorb(held, joined.run, next));
                joined
            }
        }
    }

    /// Takes a whole run out, its requests in offset order at the end of `batch`.
    pub fn take(
        &mut self,
        held: &Requests<'_>,
        run: RunIndex,
        batch: &mut Vec<RequestId>,
    ) -> Run<R> {
        let taken = self.run(held, run);
        self.index.remove(taken.place());
        let mut at = run.record().map_or(run.0, |record| self.records[record].first);
        for _ in 0..taken.count {
            batch.push(held.id(at));
            at = core::mem::replace(&mut self.seats[at as usize], Seat::EMPTY).next();
        }
        self.queues[taken.queue.0 as usize].bytes -= taken.bytes();
        self.queued_count -= taken.count as usize;
        self.free(taken.queue, run);
        taken
    }

    /// Takes one request out of its run, which splits if that was in the middle. `request` is
    /// exactly what was joined.
    pub fn remove(&mut self, held: &Requests<'_>, request: &Accepted) -> Option<Removed> {
        let (id, range) = (request.id, request.request.range);
        let run = self.find(held, id)?;
        let old = self.run(held, run);
        let removed = core::mem::replace(&mut self.seats[slot(id) as usize], Seat::EMPTY);
        self.queued_count -= 1;
        self.queues[old.queue.0 as usize].bytes -= range.length();
        self.index.remove(old.place());
        let Some(record) = run.record() else {
            self.free(old.queue, run);
            return Some(Removed { left: None, right: None });
        };
        let first = self.records[record].first;
        let left_last = self.previous(first, slot(id));
        let (has_left, has_right) = (left_last != NIL, removed.next() != NIL);
        if has_left {
            self.seats[left_last as usize].set_next(NIL);
        }
        let left = has_left.then(|| {
            self.relist(held, record, first, ByteRange { end: range.start, ..old.range });
            run
        });
        let right = match (has_left, has_right) {
            (_, false) => None,
            (false, true) => Some(record),
            (true, true) => {
                self.queues[old.queue.0 as usize].run_count += 1;
                Some(self.allocate(self.records[record]))
            }
        };
        if let Some(right) = right {
            let range = ByteRange { start: range.end, ..old.range };
            self.relist(held, right, removed.next(), range);
        }
        if left.is_none() && right.is_none() {
            self.free(old.queue, run);
        }
        Some(Removed { left, right: right.map(record_name) })
    }

    /// Takes everything out, oldest first, at the end of `into`; queues and their notes stay.
    pub fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        let start = into.len();
        for (slot, seat) in self.seats.iter_mut().enumerate() {
            if !seat.is_empty() {
                into.push(held.id(slot as u32));
                *seat = Seat::EMPTY;
            }
        }
        into[start..].sort_unstable_by_key(|id| held.seq(slot(*id)));
        self.index.clear();
        self.records.clear();
        self.record_free = NIL;
        self.queued_count = 0;
        for queue in &mut self.queues {
            (queue.bytes, queue.run_count) = (Bytes::ZERO, 0);
        }
    }

    /// Forgets the queues of a file, which has nothing queued.
    pub fn retire(&mut self, file: FileIndex) {
        if let Some(recent) = self.recent.get_mut(file.0 as usize) {
            *recent = [NIL; 2];
        }
        let from = queue_key(file, ClassId(0), Direction::Read);
        let last = queue_key(file, ClassId(u32::MAX), Direction::Write);
        while let Some((key, queue)) =
            self.queue_of.at_or_after(from).filter(|(key, _)| *key <= last)
        {
            let entry = &self.queues[queue as usize];
            assert!(entry.run_count == 0, "a retired file has nothing queued");
            self.queue_of.remove(key);
            self.queue_free.push(queue);
        }
    }

    fn open_queue(&mut self, request: &Request) -> QueueIndex {
        if let Some(queue) = self.queue_of(request) {
            return queue;
        }
        let (file, class, direction) = (request.file, request.class, request.access.direction());
        let queue =
            Queue { file, class, direction, bytes: Bytes::ZERO, run_count: 0, note: Q::default() };
        let index = match self.queue_free.pop() {
            Some(free) => {
                self.queues[free as usize] = queue;
                free
            }
            None => {
                self.queues.push(queue);
                self.queue_free.reserve(self.queues.len());
                self.queues.len() as u32 - 1
            }
        };
        self.queue_of.insert(queue_key(file, class, direction), index);
        QueueIndex(index)
    }
}

fn record_name(record: usize) -> RunIndex {
    RunIndex(record as u32 | RunIndex::RECORD)
}

fn queue_key(file: FileIndex, class: ClassId, direction: Direction) -> u128 {
    u128::from(file.0) << 64 | u128::from(class.0) << 1 | direction as u128
}

#[cfg(test)]
mod tests;
