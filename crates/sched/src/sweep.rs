//! The sweep: how a policy goes through one queue, and why nothing in it is passed over for ever.
//!
//! A queue is served in rising offset order from where the last batch ended, and from the lowest
//! offset again when nothing is left above (C-LOOK). Alone that starves: a stream that keeps
//! growing in front of the sweep is followed for ever. So at least every `passes_max + 1`-th
//! batch of a queue is its oldest run. A run with k older runs in its queue is therefore passed
//! over by at most `(k + 1) · (passes_max + 1)` batches of the queue.
//!
//! (Counting per run instead, "passed over `passes_max` times, then at once", degenerates to time
//! order as soon as a queue is longer than `passes_max` runs, because then all are overdue.)

use forebay_units::{ByteRange, Offset};

/// How many runs a sweep looks at for one that may go.
pub(crate) const SCAN_MAX: usize = 32;

/// Where the sweep of one queue stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    /// Where the last batch ended.
    pub(crate) position: Offset,
    /// Batches since the oldest run was served.
    passes: u32,
}

impl Sweep {
    /// Whether the next batch must be the oldest run.
    pub(crate) fn is_oldest_due(&self, passes_max: u32) -> bool {
        self.passes >= passes_max
    }

    /// Moves behind a batch.
    pub(crate) fn advance(&mut self, batch: ByteRange, was_oldest: bool) {
        self.position = batch.end;
        self.passes = if was_oldest { 0 } else { self.passes.saturating_add(1) };
    }
}
