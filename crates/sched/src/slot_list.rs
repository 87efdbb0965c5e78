//! Lists of queued requests, linked through one entry a slot: O(1) at both ends and in the middle.
//!
//! Many lists share one pool of entries, because a request is in at most one of them. An entry is
//! found by the slot half of a request's id, so there is nothing to search.

use alloc::vec::Vec;

use crate::request::{Accepted, RequestId};
use crate::table::NIL;

/// The `next` and `previous` of an entry that is in no list.
const OUT: u32 = NIL - 1;

#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
struct Entry {
    seq: u64,
    /// The high half of the id.
    generation: u32,
    previous: u32,
    next: u32,
}

/// The entries of all lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotLists {
    entries: Vec<Entry>,
    count: usize,
}

/// One list: its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotList {
    first: u32,
    last: u32,
}

impl SlotList {
    /// A list without entries.
    pub(crate) const EMPTY: Self = Self { first: NIL, last: NIL };

    pub(crate) const fn is_empty(self) -> bool {
        self.first == NIL
    }
}

fn halves(id: RequestId) -> (u32, u32) {
    (id.0 as u32, (id.0 >> 32) as u32)
}

impl SlotLists {
    /// Requests in all lists together.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Puts a request at the end of a list.
    pub(crate) fn push(&mut self, list: &mut SlotList, request: &Accepted) {
        let (slot, generation) = halves(request.id);
        if slot as usize >= self.entries.len() {
            let out = Entry { seq: 0, generation: 0, previous: OUT, next: OUT };
            self.entries.resize(slot as usize + 1, out);
        }
        debug_assert!({ self.entries[slot as usize].next } == OUT, "a request is added once");
        let entry = Entry { seq: request.seq, generation, previous: list.last, next: NIL };
        self.entries[slot as usize] = entry;
        match list.last {
            NIL => list.first = slot,
            last => self.entries[last as usize].next = slot,
        }
        list.last = slot;
        self.count += 1;
    }

    /// The first request of a list: its `seq` and its id.
    pub(crate) fn first(&self, list: SlotList) -> Option<(u64, RequestId)> {
        let entry = self.entries.get(list.first as usize)?;
        Some((entry.seq, id_of(list.first, entry)))
    }

    /// The `seq` of the last request of a list.
    pub(crate) fn last_seq(&self, list: SlotList) -> Option<u64> {
        Some(self.entries.get(list.last as usize)?.seq)
    }

    /// Takes the first request out of a list.
    pub(crate) fn pop(&mut self, list: &mut SlotList) -> Option<RequestId> {
        let (_, id) = self.first(*list)?;
        self.unlink(list, id.0 as u32);
        Some(id)
    }

    /// Whether a request is in a list.
    pub(crate) fn contains(&self, id: RequestId) -> bool {
        let (slot, generation) = halves(id);
        let entry = self.entries.get(slot as usize);
        entry.is_some_and(|entry| entry.next != OUT && entry.generation == generation)
    }

    /// Takes a request out of `list`, which must be the one that it is in; whether it is in one.
    pub(crate) fn remove(&mut self, list: &mut SlotList, id: RequestId) -> bool {
        let is_in = self.contains(id);
        if is_in {
            self.unlink(list, id.0 as u32);
        }
        is_in
    }

    /// Empties all lists into `into`, in no order.
    pub(crate) fn drain(&mut self, into: &mut Vec<RequestId>) {
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            if entry.next != OUT {
                into.push(id_of(slot as u32, entry));
                (entry.previous, entry.next) = (OUT, OUT);
            }
        }
        self.count = 0;
    }

    /// The `seq` that a request had when it was put in a list last.
    pub(crate) fn seq(&self, id: RequestId) -> u64 {
        self.entries[id.0 as u32 as usize].seq
    }

    fn unlink(&mut self, list: &mut SlotList, slot: u32) {
        let Entry { previous, next, .. } = self.entries[slot as usize];
        match previous {
            NIL => list.first = next,
            _ => self.entries[previous as usize].next = next,
        }
        match next {
            NIL => list.last = previous,
            _ => self.entries[next as usize].previous = previous,
        }
        let entry = &mut self.entries[slot as usize];
        (entry.previous, entry.next) = (OUT, OUT);
        self.count -= 1;
    }
}

fn id_of(slot: u32, entry: &Entry) -> RequestId {
    RequestId(u64::from(entry.generation) << 32 | u64::from(slot))
}
