//! TO-agg: time order over runs, so adjacent requests leave together with the oldest of them.
//!
//! Source:      AGIOS 2015, section 2.4 (TO-agg).
//! Idea:        requests join runs as they arrive; the run whose oldest request is the oldest of
//!              all goes next, whole. Shows what merging alone gains, without reordering.
//! Units:       no parameters of its own; the caps of a run in bytes and in requests.
//! Cost:        add O(log n), select O(log n); 28 bytes a request, and about 270 a run.
//! Deviations:  1. An ordered index finds the neighbours; the paper walks one list, O(n).
//!              2. Runs are capped in bytes too, which the bound below needs.
//!              3. AGIOS lets a later write pass an earlier conflicting read; here the guard
//!                 stands in front, and only requests that may go are seen.
//! Loses when:  the streams' requests are not adjacent in the queue: then it is TO at a higher price.

use alloc::vec::Vec;

use forebay_units::{FileIndex, Timestamp};

use crate::ordered_map::OrderedMap;
use crate::policy::{Limits, Policy, Selection};
use crate::request::{Accepted, RequestId};
use crate::runs::{Removed, RunIndex, Runs};

/// The policy TO-agg.
///
/// Bound: with k runs queued when a request arrives, at most k · `run_bytes_max` leave before it,
/// as each run in front can only fill up to its cap and every new run is younger. (A single
/// larger request counts with its own size.)
#[derive(Clone, Debug)]
pub struct ToAgg {
    runs: Runs<()>,
    /// Runs by the arrival of their oldest request.
    by_age: OrderedMap<u64, u32>,
}

impl ToAgg {
    /// Nothing queued.
    pub fn new(limits: &Limits) -> Self {
        Self { runs: Runs::new(limits), by_age: OrderedMap::new() }
    }

    fn file(&mut self, run: RunIndex) {
        self.by_age.insert(self.runs.run(run).min_seq, run.0);
    }
}

impl Policy for ToAgg {
    fn name(&self) -> &'static str {
        "TO-agg"
    }

    fn add(&mut self, _now: Timestamp, request: &Accepted) {
        let joined = self.runs.join(request);
        if let Some((_, absorbed)) = joined.absorbed {
            self.by_age.remove(absorbed.min_seq);
        }
        let min_seq = self.runs.run(joined.run).min_seq;
        match joined.before {
            Some(before) if before.min_seq == min_seq => {}
            Some(before) => {
                self.by_age.remove(before.min_seq);
                self.file(joined.run);
            }
            None => self.file(joined.run),
        }
    }

    fn select(&mut self, _now: Timestamp, batch: &mut Vec<RequestId>) -> Selection {
        let Some((_, run)) = self.by_age.pop_first() else { return Selection::Idle };
        self.runs.take(RunIndex(run), batch);
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, request: &Accepted) -> bool {
        let Some(run) = self.runs.find(request.id) else { return false };
        self.by_age.remove(self.runs.run(run).min_seq);
        for part in self.runs.remove(request).into_iter().flat_map(Removed::parts) {
            self.file(part);
        }
        true
    }

    fn drain(&mut self, into: &mut Vec<RequestId>) {
        self.runs.drain(into);
        self.by_age.clear();
    }

    fn retire(&mut self, file: FileIndex) {
        self.runs.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.runs.queued_count()
    }
}
