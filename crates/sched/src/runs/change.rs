//! How runs begin, grow, join and split.

use forebay_units::{ByteRange, Bytes};

use super::record::{Links, Record, Seat};
use super::{
    Joined, NIL, Note, QueueIndex, Run, RunIndex, Runs, place, queue_and_start, record_name, slot,
};
use crate::policy::Requests;
use crate::request::Accepted;

impl<R: Note, Q: Copy + Default> Runs<R, Q> {
    /// The runs that `range` can be joined to: one that ends at its start, one that starts at its end.
    pub(super) fn adjacent(
        &self,
        held: &Requests<'_>,
        queue: QueueIndex,
        range: ByteRange,
    ) -> (Option<RunIndex>, Option<RunIndex>) {
        let near = self.index.around(place(queue, range.start, 0));
        let fits = |bytes: Bytes, count: u32| {
            bytes <= self.limits.run_bytes_max && count <= self.limits.run_requests_max
        };
        let size = |run: RunIndex| (self.range(held, run).length(), self.count(run));
        let before = near.below.map(|(_, run)| RunIndex(run)).filter(|run| {
            let covered = self.range(held, *run);
            covered.end == range.start
                && fits(covered.length() + range.length(), self.count(*run) + 1)
        });
        let after =
            match near.at_or_above.map(|(place, run)| (queue_and_start(place).1, RunIndex(run))) {
                Some((start, run)) if start == range.end => Some(run),
                // Reads may overlap: the neighbour starts inside, the wanted one may come later.
                Some((start, _)) if start < range.end => self.starting_at(queue, range.end),
                _ => None,
            };
        let (bytes, count) = before.map_or((Bytes::ZERO, 0), size);
        let both = after.filter(|run| {
            let (more_bytes, more) = size(*run);
            fits(bytes + range.length() + more_bytes, count + 1 + more)
        });
        (before, both)
    }

    pub(super) fn count(&self, run: RunIndex) -> u32 {
        run.record().map_or(1, |record| self.records[record].count)
    }

    pub(super) fn start(&mut self, queue: QueueIndex, accepted: &Accepted) -> RunIndex {
        self.queues[queue.0 as usize].run_count += 1;
        let (at, range) = (slot(accepted.id), accepted.request.range);
        let place = place(queue, range.start, accepted.seq as u32);
        self.notes[at as usize] = R::One::default();
        let Some(other) = self.index.insert(place, at) else {
            self.seats[at as usize] = Seat::ONE;
            return RunIndex(at);
        };
        // There were 2^32 arrivals in between: it needs a tie-breaker that is not its own number.
        self.index.insert(place, other);
        let record = self.allocate(Record {
            queue,
            count: 1,
            range,
            min_seq: accepted.seq,
            arrived: accepted.arrived,
            note: R::default(),
            filed: 0,
            is_marked: false,
            tie: 0,
            first: at,
            last: at,
            links: Links::NONE,
        });
        self.seats[at as usize] = Seat::member(record, NIL);
        self.enter(record);
        record_name(record)
    }

    pub(super) fn append(
        &mut self,
        held: &Requests<'_>,
        run: RunIndex,
        accepted: &Accepted,
    ) -> Joined<R> {
        let before = self.run(held, run);
        let record = self.record_of(held, &before);
        let name = record_name(record);
        if name != run {
            self.index.insert(before.place(), name.0);
        }
        let at = slot(accepted.id);
        let entry = &mut self.records[record];
        entry.range.end = accepted.request.range.end;
        let last = core::mem::replace(&mut entry.last, at);
        entry.admit(accepted.seq, accepted.arrived);
        self.seats[last as usize].set_next(at);
        self.seats[at as usize] = Seat::member(record, NIL);
        Joined { run: name, before: Some(before), absorbed: None }
    }

    pub(super) fn prepend(
        &mut self,
        held: &Requests<'_>,
        run: RunIndex,
        accepted: &Accepted,
    ) -> Joined<R> {
        let before = self.run(held, run);
        self.index.remove(before.place());
        let record = self.record_of(held, &before);
        let at = slot(accepted.id);
        let entry = &mut self.records[record];
        entry.range.start = accepted.request.range.start;
        self.seats[at as usize] = Seat::member(record, entry.first);
        entry.first = at;
        entry.admit(accepted.seq, accepted.arrived);
        self.enter(record);
        Joined { run: record_name(record), before: Some(before), absorbed: None }
    }

    /// Appends the run `next` to `run`, which has a record, and returns what it was.
    pub(super) fn absorb(&mut self, held: &Requests<'_>, run: RunIndex, next: RunIndex) -> Run<R> {
        let absorbed = self.run(held, next);
        let arrived = self.arrived(held, next);
        let record = run.record().expect("something has just joined it");
        self.index.remove(absorbed.place());
        let (first, last) = match next.record() {
            Some(record) => (self.records[record].first, self.records[record].last),
            None => {
                self.seats[next.0 as usize] = Seat::member(record, NIL);
                (next.0, next.0)
            }
        };
        let entry = &mut self.records[record];
        self.seats[entry.last as usize].set_next(first);
        entry.last = last;
        entry.range.end = absorbed.range.end;
        entry.count += absorbed.count;
        if absorbed.min_seq < entry.min_seq {
            (entry.min_seq, entry.arrived) = (absorbed.min_seq, arrived);
        }
        let mut at = first;
        while at != NIL {
            self.seats[at as usize].set_record(record);
            at = self.seats[at as usize].next();
        }
        self.free(absorbed.queue, next);
        absorbed
    }

    /// Makes the run of a record the list that begins at `first` and covers `range`, and enters it into the index.
    pub(super) fn relist(
        &mut self,
        held: &Requests<'_>,
        record: usize,
        first: u32,
        range: ByteRange,
    ) {
        let entry = &mut self.records[record];
        (entry.first, entry.count, entry.min_seq, entry.range) = (first, 0, u64::MAX, range);
        let mut at = first;
        while at != NIL {
            self.seats[at as usize].set_record(record);
            entry.last = at;
            entry.admit(held.seq(at), held.arrived(at));
            at = self.seats[at as usize].next();
        }
        self.enter(record);
    }

    /// Enters a run into the index under its arrival, or the next free mark after 2^32 arrivals in between.
    pub(super) fn enter(&mut self, record: usize) {
        let (entry, name) = (&mut self.records[record], record_name(record).0);
        entry.tie = entry.min_seq as u32;
        while let Some(other) = self.index.insert(entry.place(), name) {
            self.index.insert(entry.place(), other);
            entry.tie = entry.tie.wrapping_add(1);
        }
    }

    /// The member in front of `at` in the list from `first`; `NIL` if it is the first.
    pub(super) fn previous(&self, first: u32, at: u32) -> u32 {
        let mut previous = NIL;
        let mut here = first;
        while here != at {
            previous = here;
            // The seat of what is being removed is empty, those in front of it are not.
            here = self.seats[here as usize].next();
        }
        previous
    }

    /// The record of a run; it gets one, and with it another name, if it has none.
    pub(super) fn record_of(&mut self, held: &Requests<'_>, run: &Run<R>) -> usize {
        if let Some(record) = run.index.record() {
            return record;
        }
        let at = run.index.0;
        let record = self.allocate(Record {
            queue: run.queue,
            count: 1,
            range: run.range,
            min_seq: run.min_seq,
            arrived: held.arrived(at),
            note: run.note,
            filed: 0,
            is_marked: run.is_marked,
            tie: run.tie,
            first: at,
            last: at,
            links: run.links,
        });
        self.seats[at as usize] = Seat::member(record, NIL);
        if let Some(prev) = run.links.prev() {
            self.links_mut(prev, |links| links.set_next(Some(record_name(record))));
        }
        if let Some(next) = run.links.next() {
            self.links_mut(next, |links| links.set_prev(Some(record_name(record))));
        }
        record
    }

    pub(super) fn links_mut(&mut self, run: RunIndex, change: impl FnOnce(&mut Links)) {
        match run.record() {
            Some(record) => change(&mut self.records[record].links),
            None => self.seats[run.0 as usize].change_links(change),
        }
    }

    pub(super) fn allocate(&mut self, record: Record<R>) -> usize {
        if self.record_free == NIL {
            self.records.push(record);
            return self.records.len() - 1;
        }
        let index = self.record_free as usize;
        self.record_free = self.records[index].first;
        self.records[index] = record;
        index
    }

    pub(super) fn free(&mut self, queue: QueueIndex, run: RunIndex) {
        self.queues[queue.0 as usize].run_count -= 1;
        if let Some(record) = run.record() {
            self.records[record].first = self.record_free;
            self.record_free = record as u32;
        }
    }
}
