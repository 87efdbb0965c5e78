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
//!   member  seq, arrival, next, run               request id leads to its run in O(1)
//! ```
//!
//! `R` is what a policy notes about a run, `Q` about a queue. Runs keep their index while they
//! grow; a policy that files runs by some key gets the old state of every run that changed.
//! Nothing is allocated below the high-water marks of requests, runs and queues.

mod index;
mod run_set;

use alloc::vec::Vec;

use forebay_units::{ByteRange, Bytes, ClassId, Direction, FileIndex, Offset, Timestamp};

use crate::ordered_map::OrderedMap;
use crate::policy::Limits;
use crate::request::{Accepted, Request, RequestId};

use self::index::Index;
pub use self::run_set::RunSet;

/// Names a run until it is taken, absorbed or emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunIndex(pub u32);

/// Names a queue until its file is retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueIndex(pub u32);

const NIL: u32 = u32::MAX;

/// Adjacent requests of one queue; never empty.
#[derive(Clone, Copy, Debug)]
pub struct Run<R> {
    /// Whose run it is.
    pub queue: QueueIndex,
    /// How many requests it has.
    pub count: u32,
    /// What all of them cover together.
    pub range: ByteRange,
    /// Arrival order of its oldest request.
    pub min_seq: u64,
    /// When its oldest request arrived.
    pub arrived: Timestamp,
    /// What the policy keeps about it.
    pub note: R,
    tie: u32,
    first: u32,
    last: u32,
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

/// A queued request, in the slot that its id names. What else is known about it stands in the
/// scheduler's table; a run needs only what tells its parts apart should it be split. Packed, since
/// at a million queued requests these are a quarter of all memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Member {
    seq: u64,
    arrived: Timestamp,
    /// The high half of the id.
    generation: u32,
    next: u32,
    /// `NIL`: nothing queued in this slot.
    run: u32,
}

impl Member {
    const EMPTY: Self = Self { seq: 0, arrived: Timestamp(0), generation: 0, next: NIL, run: NIL };

    fn id(self, slot: u32) -> RequestId {
        RequestId(u64::from(self.generation) << 32 | u64::from(slot))
    }
}

/// What [`Runs::join`] did.
#[derive(Clone, Copy, Debug)]
pub struct Joined<R> {
    /// Where the request is now.
    pub run: RunIndex,
    /// That run before, unless it is new.
    pub before: Option<Run<R>>,
    /// The run that became part of it, if the request closed a gap; its index is no longer valid.
    pub absorbed: Option<(RunIndex, Run<R>)>,
}

/// What [`Runs::remove`] left over; both parts inherit the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The run of the requests in front of the removed one; keeps the index.
    pub left: Option<RunIndex>,
    /// The run of the requests behind it; keeps the index if there is no left part.
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
pub struct Runs<R, Q = ()> {
    limits: Limits,
    members: Vec<Member>,
    runs: Vec<Run<R>>,
    /// Free runs, linked through `first`.
    run_free: u32,
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

fn slot(id: RequestId) -> usize {
    id.0 as u32 as usize
}

fn generation(id: RequestId) -> u32 {
    (id.0 >> 32) as u32
}

impl<R: Copy + Default, Q: Copy + Default> Runs<R, Q> {
    /// Nothing queued.
    pub fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            members: Vec::new(),
            runs: Vec::new(),
            run_free: NIL,
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

    /// A run's present state. `run` must be valid.
    pub fn run(&self, run: RunIndex) -> &Run<R> {
        &self.runs[run.0 as usize]
    }

    /// The policy's note about a run. `run` must be valid.
    pub fn note_mut(&mut self, run: RunIndex) -> &mut R {
        &mut self.runs[run.0 as usize].note
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

    /// The run with the lowest start at or after `from`, of one queue.
    pub fn first_from(&self, queue: QueueIndex, from: Offset) -> Option<RunIndex> {
        let (_, run) = self.index.at_or_after(place(queue, from, 0))?;
        Some(RunIndex(run))
    }

    /// The oldest run that starts exactly at `start`, of one queue.
    pub fn starting_at(&self, queue: QueueIndex, start: Offset) -> Option<RunIndex> {
        let run = self.first_from(queue, start)?;
        (self.run(run).range.start == start).then_some(run)
    }

    /// The runs of one queue by start offset, from `from` on.
    pub fn iter_from(&self, queue: QueueIndex, from: Offset) -> impl Iterator<Item = RunIndex> {
        self.index.iter_from(place(queue, from, 0)).map(|(_, run)| RunIndex(run))
    }

    /// The run a queued request is in; `None` if `id` is not queued here.
    pub fn find(&self, id: RequestId) -> Option<RunIndex> {
        let member = self.members.get(slot(id))?;
        (member.run != NIL && member.generation == generation(id)).then_some(RunIndex(member.run))
    }

    /// Adds a request: behind the run that ends where it starts, in front of the run that starts
    /// where it ends, between the two, or as a run of its own where the caps or a gap forbid that.
    pub fn join(&mut self, accepted: &Accepted) -> Joined<R> {
        let queue = self.open_queue(&accepted.request);
        let (before, after) = self.adjacent(queue, accepted.request.range);
        self.seat(accepted);
        self.queues[queue.0 as usize].bytes += accepted.request.range.length();
        self.queued_count += 1;
        match (before, after) {
            (None, None) => {
                Joined { run: self.start(queue, accepted), before: None, absorbed: None }
            }
            (Some(run), None) => self.append(run, accepted),
            (None, Some(run)) => self.prepend(run, accepted),
            (Some(run), Some(next)) => {
                let mut joined = self.append(run, accepted);
                joined.absorbed = Some((next, self.absorb(run, next)));
                joined
            }
        }
    }

    /// Takes a whole run out, its requests in offset order at the end of `batch`.
    pub fn take(&mut self, run: RunIndex, batch: &mut Vec<RequestId>) -> Run<R> {
        let taken = *self.run(run);
        self.index.remove(taken.place());
        let mut at = taken.first;
        while at != NIL {
            let member = &mut self.members[at as usize];
            batch.push(member.id(at));
            member.run = NIL;
            at = member.next;
        }
        let queue = &mut self.queues[taken.queue.0 as usize];
        queue.bytes -= taken.bytes();
        self.queued_count -= taken.count as usize;
        self.free(run);
        taken
    }

    /// Takes one request out of its run, which splits if that was in the middle. `request` is
    /// exactly what was joined.
    pub fn remove(&mut self, request: &Accepted) -> Option<Removed> {
        let (id, range) = (request.id, request.request.range);
        let run = self.find(id)?;
        let old = *self.run(run);
        let removed = self.members[slot(id)];
        self.members[slot(id)].run = NIL;
        self.queued_count -= 1;
        let queue = &mut self.queues[old.queue.0 as usize];
        queue.bytes -= range.length();
        self.index.remove(old.place());
        let left_last = self.previous(old.first, slot(id) as u32);
        let (has_left, has_right) = (left_last != NIL, removed.next != NIL);
        if has_left {
            self.members[left_last as usize].next = NIL;
        }
        let left = has_left.then(|| {
            self.relist(run, old.first, ByteRange { end: range.start, ..old.range });
            run
        });
        let right = match (has_left, has_right) {
            (_, false) => None,
            (false, true) => Some(run),
            (true, true) => Some(self.allocate(old)),
        };
        if let Some(right) = right {
            self.relist(right, removed.next, ByteRange { start: range.end, ..old.range });
        }
        if left.is_none() && right.is_none() {
            self.free(run);
        }
        Some(Removed { left, right })
    }

    /// Takes everything out, oldest first, at the end of `into`; queues and their notes stay.
    pub fn drain(&mut self, into: &mut Vec<RequestId>) {
        let start = into.len();
        for (slot, member) in self.members.iter_mut().enumerate() {
            if member.run != NIL {
                into.push(member.id(slot as u32));
                member.run = NIL;
            }
        }
        let members = &self.members;
        into[start..].sort_unstable_by_key(|id| members[slot(*id)].seq);
        self.index.clear();
        self.runs.clear();
        self.run_free = NIL;
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

    /// The runs that `range` can be joined to: one that ends at its start, one that starts at its end.
    fn adjacent(
        &self,
        queue: QueueIndex,
        range: ByteRange,
    ) -> (Option<RunIndex>, Option<RunIndex>) {
        let near = self.index.around(place(queue, range.start, 0));
        let fits = |bytes: Bytes, count: u32| {
            bytes <= self.limits.run_bytes_max && count <= self.limits.run_requests_max
        };
        let before = near.below.map(|(_, run)| RunIndex(run)).filter(|run| {
            let run = self.run(*run);
            run.range.end == range.start && fits(run.bytes() + range.length(), run.count + 1)
        });
        let after =
            match near.at_or_above.map(|(place, run)| (queue_and_start(place).1, RunIndex(run))) {
                Some((start, run)) if start == range.end => Some(run),
                // Reads may overlap: the neighbour starts inside, the wanted one may come later.
                Some((start, _)) if start < range.end => self.starting_at(queue, range.end),
                _ => None,
            };
        let (bytes, count) =
            before.map_or((Bytes::ZERO, 0), |run| (self.run(run).bytes(), self.run(run).count));
        let both = after.filter(|run| {
            let run = self.run(*run);
            fits(bytes + range.length() + run.bytes(), count + 1 + run.count)
        });
        (before, both)
    }

    fn seat(&mut self, accepted: &Accepted) {
        let at = slot(accepted.id);
        if at >= self.members.len() {
            self.members.resize(at + 1, Member::EMPTY);
        }
        let member = &mut self.members[at];
        assert!(member.run == NIL, "a request is added once");
        (member.seq, member.arrived) = (accepted.seq, accepted.arrived);
        member.generation = generation(accepted.id);
    }

    fn start(&mut self, queue: QueueIndex, accepted: &Accepted) -> RunIndex {
        let run = self.allocate(Run {
            queue,
            count: 0,
            range: accepted.request.range,
            min_seq: u64::MAX,
            arrived: accepted.arrived,
            note: R::default(),
            tie: 0,
            first: NIL,
            last: NIL,
        });
        self.members[slot(accepted.id)].next = NIL;
        self.relist(run, slot(accepted.id) as u32, accepted.request.range);
        run
    }

    fn append(&mut self, run: RunIndex, accepted: &Accepted) -> Joined<R> {
        let entry = &mut self.runs[run.0 as usize];
        let before = *entry;
        let at = slot(accepted.id) as u32;
        entry.range.end = accepted.request.range.end;
        entry.last = at;
        entry.admit(accepted.seq, accepted.arrived);
        let member = &mut self.members[at as usize];
        (member.run, member.next) = (run.0, NIL);
        self.members[before.last as usize].next = at;
        Joined { run, before: Some(before), absorbed: None }
    }

    fn prepend(&mut self, run: RunIndex, accepted: &Accepted) -> Joined<R> {
        let entry = &mut self.runs[run.0 as usize];
        let before = *entry;
        let at = slot(accepted.id) as u32;
        entry.range.start = accepted.request.range.start;
        entry.first = at;
        entry.admit(accepted.seq, accepted.arrived);
        let member = &mut self.members[at as usize];
        (member.run, member.next) = (run.0, before.first);
        self.index.remove(before.place());
        self.enter(run);
        Joined { run, before: Some(before), absorbed: None }
    }

    /// Appends the run `next` to `run` and returns what it was.
    fn absorb(&mut self, run: RunIndex, next: RunIndex) -> Run<R> {
        let absorbed = *self.run(next);
        self.index.remove(absorbed.place());
        let entry = &mut self.runs[run.0 as usize];
        self.members[entry.last as usize].next = absorbed.first;
        entry.last = absorbed.last;
        entry.range.end = absorbed.range.end;
        entry.count += absorbed.count;
        if absorbed.min_seq < entry.min_seq {
            (entry.min_seq, entry.arrived) = (absorbed.min_seq, absorbed.arrived);
        }
        let mut at = absorbed.first;
        while at != NIL {
            self.members[at as usize].run = run.0;
            at = self.members[at as usize].next;
        }
        self.free(next);
        absorbed
    }

    /// Makes `run` the list that begins at `first` and covers `range`, and enters it into the index.
    fn relist(&mut self, run: RunIndex, first: u32, range: ByteRange) {
        let entry = &mut self.runs[run.0 as usize];
        (entry.first, entry.count, entry.min_seq, entry.range) = (first, 0, u64::MAX, range);
        let mut at = first;
        while at != NIL {
            let member = &mut self.members[at as usize];
            member.run = run.0;
            entry.last = at;
            entry.admit(member.seq, member.arrived);
            at = member.next;
        }
        self.enter(run);
    }

    /// Enters a run into the index under its arrival, or the next free mark after 2^32 arrivals in between.
    fn enter(&mut self, run: RunIndex) {
        let entry = &mut self.runs[run.0 as usize];
        entry.tie = entry.min_seq as u32;
        while let Some(other) = self.index.insert(entry.place(), run.0) {
            self.index.insert(entry.place(), other);
            entry.tie = entry.tie.wrapping_add(1);
        }
    }

    /// The member in front of `at` in the list from `first`; `NIL` if it is the first.
    fn previous(&self, first: u32, at: u32) -> u32 {
        let mut previous = NIL;
        let mut here = first;
        while here != at {
            previous = here;
            here = self.members[here as usize].next;
        }
        previous
    }

    fn allocate(&mut self, run: Run<R>) -> RunIndex {
        self.queues[run.queue.0 as usize].run_count += 1;
        if self.run_free == NIL {
            self.runs.push(run);
            return RunIndex(self.runs.len() as u32 - 1);
        }
        let index = self.run_free;
        self.run_free = self.runs[index as usize].first;
        self.runs[index as usize] = run;
        RunIndex(index)
    }

    fn free(&mut self, run: RunIndex) {
        let entry = &mut self.runs[run.0 as usize];
        self.queues[entry.queue.0 as usize].run_count -= 1;
        entry.first = self.run_free;
        self.run_free = run.0;
    }
}

impl<R> Run<R> {
    /// Counts one member more.
    fn admit(&mut self, seq: u64, arrived: Timestamp) {
        self.count += 1;
        if seq < self.min_seq {
            (self.min_seq, self.arrived) = (seq, arrived);
        }
    }
}

fn queue_key(file: FileIndex, class: ClassId, direction: Direction) -> u128 {
    u128::from(file.0) << 64 | u128::from(class.0) << 1 | direction as u128
}

#[cfg(test)]
mod tests;
