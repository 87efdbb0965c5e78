//! TO-agg: time order over runs, so adjacent requests leave together with the oldest of them.
//!
//! Source:      AGIOS 2015, section 2.4 (TO-agg).
//! Idea:        requests join runs as they arrive; the run whose oldest request is the oldest of
//!              all goes next, whole. Shows what merging alone gains, without reordering.
//! Units:       no parameters of its own; the caps of a run in bytes and in requests.
//! Cost:        add O(log n), select O(log n); 8 bytes a request, and 21 more a run of one request.
//! Deviations:  1. An ordered index finds the neighbours; the paper walks one list, O(n).
//!              2. Runs are capped in bytes too, which the bound below needs.
//!              3. AGIOS lets a later write pass an earlier conflicting read; here the guard
//!                 stands in front, and only requests that may go are seen.
//! Loses when:  the streams' requests are not adjacent in the queue: then it is TO at a higher price.

use alloc::vec::Vec;

use forebay_units::{FileIndex, Timestamp};

use crate::policy::{Limits, Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::runs::{QueueIndex, RunSet, Runs};

/// The policy TO-agg.
///
/// Bound: with k runs queued when a request arrives, at most k · `run_bytes_max` leave before it,
/// as each run in front can only fill up to its cap and every new run is younger. (A single
/// larger request counts with its own size.)
#[derive(Clone, Debug)]
pub struct ToAgg {
    runs: Runs<()>,
    ages: RunSet,
}

impl ToAgg {
    /// Nothing queued.
    pub fn new(limits: &Limits) -> Self {
        Self { runs: Runs::new(limits), ages: RunSet::of_all_queues() }
    }
}

impl Policy for ToAgg {
    fn name(&self) -> &'static str {
        "TO-agg"
    }

    fn add(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        let joined = self.runs.join(held, request);
        self.ages.refile(&mut self.runs, held, &joined);
    }

    fn select(
        &mut self,
        _now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let Some((age, oldest)) = self.ages.first(QueueIndex(0)) else { return Selection::Idle };
        let taken = self.runs.take(held, oldest, batch);
        self.ages.remove(&mut self.runs, &taken, age, |runs, run| runs.min_seq(held, run));
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        self.ages.cancel(&mut self.runs, held, request)
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.runs.drain(held, into);
        self.ages.clear();
    }

    fn retire(&mut self, file: FileIndex) {
        self.runs.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.runs.queued_count()
    }
}
