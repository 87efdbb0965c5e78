//! What is kept about a run beside the scheduler's table: a seat for each request, and a record for
//! each run of several.

use forebay_units::{ByteRange, Timestamp};

use super::{NIL, QueueIndex, RunIndex, place};

/// A run that several requests have joined, or what is left of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<R> {
    pub(super) queue: QueueIndex,
    pub(super) count: u32,
    pub(super) range: ByteRange,
    pub(super) min_seq: u64,
    /// When its oldest request arrived.
    pub(super) arrived: Timestamp,
    pub(super) note: R,
    pub(super) filed: u64,
    pub(super) is_marked: bool,
    pub(super) tie: u32,
    /// Slots of its members; of a free record, the next free one.
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) links: Links,
}

impl<R> Record<R> {
    pub(super) fn place(&self) -> u128 {
        place(self.queue, self.range.start, self.tie)
    }

    /// Counts one member more.
    pub(super) fn admit(&mut self, seq: u64, arrived: Timestamp) {
        self.count += 1;
        if seq < self.min_seq {
            (self.min_seq, self.arrived) = (seq, arrived);
        }
    }
}

/// Highest bit of both halves of a seat: a run of its own, and its mark.
const FLAG: u32 = 1 << 31;
/// No run beyond it in the list; of 31 bits, as the names of runs.
const END: u32 = FLAG - 1;
/// In no list.
const UNLISTED: u32 = FLAG - 2;

/// The neighbours of a run in the list that it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    prev: u32,
    next: u32,
}

fn named(link: u32) -> Option<RunIndex> {
    (link < UNLISTED).then_some(RunIndex(link))
}

impl Links {
    pub(super) const NONE: Self = Self { prev: UNLISTED, next: END };

    pub(super) fn new(prev: Option<RunIndex>) -> Self {
        Self { prev: prev.map_or(END, |run| run.0), next: END }
    }

    pub(super) fn is_listed(self) -> bool {
        self.prev != UNLISTED
    }

    pub(super) fn prev(self) -> Option<RunIndex> {
        named(self.prev)
    }

    pub(super) fn next(self) -> Option<RunIndex> {
        named(self.next)
    }

    pub(super) fn set_prev(&mut self, run: Option<RunIndex>) {
        self.prev = run.map_or(END, |run| run.0);
    }

    pub(super) fn set_next(&mut self, run: Option<RunIndex>) {
        self.next = run.map_or(END, |run| run.0);
    }
}

/// Where the request in a slot is: nowhere, in a run of its own, or in a run with a record.
///
/// ```text
///             a                               b
///   nowhere   END
///   own run   FLAG | previous run in a list   mark | next run in it
///   record    its number                      slot of the next member, or NIL
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    a: u32,
    b: u32,
}

impl Seat {
    pub(super) const EMPTY: Self = Self { a: END, b: NIL };
    /// A run of its own, in no list.
    pub(super) const ONE: Self = Self { a: FLAG | UNLISTED, b: END };

    pub(super) fn member(record: usize, next: u32) -> Self {
        Self { a: record as u32, b: next }
    }

    pub(super) fn is_empty(self) -> bool {
        self.a == END
    }

    /// The run of the request in `slot`, which this is the seat of.
    pub(super) fn run(self, slot: u32) -> Option<RunIndex> {
        match self.a {
            END => None,
            own if own & FLAG != 0 => Some(RunIndex(slot)),
            record => Some(RunIndex(record | RunIndex::RECORD)),
        }
    }

    /// The next member of the record.
    pub(super) fn next(self) -> u32 {
        self.b
    }

    pub(super) fn set_next(&mut self, next: u32) {
        self.b = next;
    }

    pub(super) fn set_record(&mut self, record: usize) {
        self.a = record as u32;
    }

    pub(super) fn is_marked(self) -> bool {
        self.b & FLAG != 0
    }

    pub(super) fn mark(&mut self, is_marked: bool) {
        self.b = self.b & !FLAG | if is_marked { FLAG } else { 0 };
    }

    pub(super) fn links(self) -> Links {
        Links { prev: self.a & !FLAG, next: self.b & !FLAG }
    }

    pub(super) fn change_links(&mut self, change: impl FnOnce(&mut Links)) {
        let mut links = self.links();
        change(&mut links);
        (self.a, self.b) = (FLAG | links.prev, self.b & FLAG | links.next);
    }
}
