//! What a forwarder says about itself: one value, sent as JSON to whoever asks and returned when it stops.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A snapshot. Counters count from the start of the forwarder; times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// How long it has been running.
    pub uptime_ns: u64,
    /// The scheduling policy.
    pub policy: String,
    /// The store, such as `posix(io_uring)`.
    pub store: String,
    /// The store's own counters, such as `seeks`.
    pub store_counters: BTreeMap<String, u64>,
    /// Connections and clients.
    pub clients: Clients,
    /// Memory for data.
    pub pool: Pool,
    /// Calls from clients and calls at the store.
    pub calls: Calls,
    /// What the scheduler did.
    pub scheduler: Scheduler,
    /// Calls on matching files that clients did *not* send here, by reason, as they reported on leaving.
    pub not_hooked: BTreeMap<String, u64>,
}

/// Who is and was there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// Connections open now.
    pub connections: u64,
    /// Connections ever accepted.
    pub connections_accepted: u64,
    /// Connections turned away: address not allowed, or too many.
    pub connections_refused: u64,
    /// Connections dropped for breaking the protocol.
    pub violations: u64,
    /// Connections dropped because the peer stalled.
    pub stalled: u64,
    /// Different client processes that said hello.
    pub processes: u64,
    /// Files open at the store now.
    pub open_files: u64,
}

/// Memory for data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// All of it.
    pub capacity_bytes: u64,
    /// In use now.
    pub used_bytes: u64,
    /// In use at most so far.
    pub peak_bytes: u64,
}

/// Calls from clients and calls at the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Calls accepted from clients.
    pub accepted: u64,
    /// Not answered yet.
    pub unanswered: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Answered with an error.
    pub errors: u64,
    /// Bytes read for clients.
    pub read_bytes: u64,
    /// Bytes written for clients.
    pub written_bytes: u64,
    /// Reads answered at once, without a device (page cache, memory).
    pub immediate: u64,
    /// Calls made at the store.
    pub store_calls: u64,
    /// Times a call waited for memory.
    pub memory_waits: u64,
}

/// What the scheduler did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduler {
    /// Requests submitted.
    pub submitted: u64,
    /// Sent on at once, because nothing was there to be ordered against.
    pub bypassed: u64,
    /// Ordered by arrival alone: large requests, appends, truncations, syncs.
    pub skipped: u64,
    /// Batches decided by the policy.
    pub batches: u64,
    /// Requests in those batches.
    pub batched_requests: u64,
    /// Bytes in those batches.
    pub batched_bytes: u64,
    /// Requests that had to wait for an earlier conflicting one.
    pub blocked: u64,
    /// Times the policy chose to wait for a better batch.
    pub waits: u64,
    /// Time spent in those waits.
    pub waited_ns: u64,
    /// Requests queued now.
    pub queued: u64,
    /// Requests in flight now.
    pub in_flight: u64,
}

impl Scheduler {
    /// Mean number of requests in a batch; 0 before the first.
    pub fn batch_requests_mean(&self) -> f64 {
        ratio(self.batched_requests, self.batches)
    }

    /// Mean number of bytes in a batch; 0 before the first.
    pub fn batch_bytes_mean(&self) -> f64 {
        ratio(self.batched_bytes, self.batches)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a mean for people to read")]
fn ratio(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}
