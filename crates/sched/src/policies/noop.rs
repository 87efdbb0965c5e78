//! NOOP: no order at all, each ready request leaves alone and as soon as the store has room.
//!
//! Source:      AGIOS 2015 and its library (NOOP); the scheduler of that name in Linux 2.6.
//! Idea:        a list in the order in which requests became ready, nothing merged, nothing
//!              compared. With the usual bypass most requests never enter it.
//! Units:       no parameters.
//! Cost:        add, select and cancel O(1); 20 bytes a request.
//! Deviations:  AGIOS' NOOP looks at nothing; here conflicting requests still keep their order,
//!              because the guard stands in front of every policy.
//! Loses when:  the device gains from order or from size. Unlike TO it does not put a request back
//!              that was blocked: that one has waited already and waits again behind younger ones.

use alloc::vec::Vec;

use forebay_units::Timestamp;

use crate::policy::{Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::slot_list::{SlotList, SlotLists};

/// The policy without an order.
///
/// Bound: a request waits for exactly the requests that were ready before it.
#[derive(Clone, Debug)]
pub struct Noop {
    lists: SlotLists,
    queue: SlotList,
}

impl Default for Noop {
    fn default() -> Self {
        Self::new()
    }
}

impl Noop {
    /// Nothing queued.
    pub fn new() -> Self {
        Self { lists: SlotLists::default(), queue: SlotList::EMPTY }
    }
}

impl Policy for Noop {
    fn name(&self) -> &'static str {
        "NOOP"
    }

    fn add(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) {
        self.lists.push(&mut self.queue, request);
    }

    fn select(
        &mut self,
        _now: Timestamp,
        _: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let Some(first) = self.lists.pop(&mut self.queue) else { return Selection::Idle };
        batch.push(first);
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) -> bool {
        self.lists.remove(&mut self.queue, request.id)
    }

    fn drain(&mut self, _: &Requests<'_>, into: &mut Vec<RequestId>) {
        let start = into.len();
        self.lists.drain(into);
        into[start..].sort_unstable_by_key(|id| self.lists.seq(*id));
        self.queue = SlotList::EMPTY;
    }

    fn queued_count(&self) -> usize {
        self.lists.count()
    }
}
