//! TO: time order, the requests leave in the order in which they arrived.
//!
//! Source:      AGIOS 2015, section 2.2 (TO); the baseline of aIOLi 2006, section 4.
//! Idea:        one queue in arrival order, nothing merged. A request that the guard released
//!              late goes back to the place that its `seq` gives it.
//! Units:       no parameters.
//! Cost:        add O(1), or O(log n) for a request released late; select O(1) amortised;
//!              16 bytes a request.
//! Deviations:  none known.
//! Loses when:  the device gains from order or from size: interleaved streams on a disk that
//!              seeks. It is the baseline there, and the safe choice everywhere else.

use alloc::vec::Vec;

use forebay_units::Timestamp;

use crate::policy::{Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::seq_queue::SeqQueue;

/// The time-order policy.
///
/// Bound: a request waits for exactly the ready requests that arrived before it.
#[derive(Debug, Default)]
pub struct TimeOrder {
    queue: SeqQueue,
}

impl TimeOrder {
    /// An empty queue.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Policy for TimeOrder {
    fn name(&self) -> &'static str {
        "TO"
    }

    fn add(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) {
        self.queue.insert(request.seq, request.id);
    }

    fn select(
        &mut self,
        _now: Timestamp,
        _: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        match self.queue.pop_first() {
            Some(first) => {
                batch.push(first);
                Selection::Batch
            }
            None => Selection::Idle,
        }
    }

    fn cancel(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) -> bool {
        self.queue.remove(request.seq)
    }

    fn drain(&mut self, _: &Requests<'_>, into: &mut Vec<RequestId>) {
        while let Some(first) = self.queue.pop_first() {
            into.push(first);
        }
    }

    fn queued_count(&self) -> usize {
        self.queue.count()
    }
}
