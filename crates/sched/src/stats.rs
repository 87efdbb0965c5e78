//! What the scheduler has counted since it was made.

use forebay_units::{Bytes, Nanos};

/// Counters of one scheduler; all of them only grow, except where gauges are named.
///
/// After every call `submitted = completed + cancelled + drained` + the requests still queued or in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests accepted.
    pub submitted: u64,
    /// Requests refused.
    pub rejected: u64,
    /// Of the accepted, those that went at once because nothing else was queued.
    pub bypassed: u64,
    /// Of the accepted, those that skipped the policy: large ones, syncs, appends, truncations.
    pub skipped: u64,
    /// Of the accepted, those that first had to wait for an earlier conflicting request.
    pub blocked: u64,
    /// Batches dispatched, bypassed requests not counted.
    pub batches: u64,
    /// Requests that left in a batch together with others.
    pub merged: u64,
    /// Batches that the policy decided, lane and bypass not counted.
    pub policy_batches: u64,
    /// Requests in those batches.
    pub batched_requests: u64,
    /// Bytes in those batches.
    pub batched_bytes: Bytes,
    /// Decisions to wait.
    pub waits: u64,
    /// Time between a decision to wait and the next question.
    pub waited: Nanos,
    /// Time that dispatched requests had been queued or blocked, summed over requests.
    pub queued: Nanos,
    /// Requests completed or failed.
    pub completed: u64,
    /// Requests cancelled.
    pub cancelled: u64,
    /// Requests handed back by `drain`.
    pub drained: u64,
    /// Policy switches.
    pub switches: u64,
    /// Gauge: cells in the guard's region maps; at most `2n − 1` for `n` live requests, twice that in mode `client`.
    pub guard_cells: u64,
}
