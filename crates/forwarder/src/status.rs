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
    /// The scheduling policy; `auto` with those in force.
    pub policy: String,
    /// Why; `None` unless the policy is `auto`.
    pub selection: Option<Selection>,
    /// The store, such as `posix(io_uring)`.
    pub store: String,
    /// The store's own counters, such as `seeks`.
    pub store_counters: BTreeMap<String, u64>,
    /// How classes share the store, such as `sfq by bytes`.
    pub sharing: String,
    /// Users and jobs, the heaviest first; `other` are those for whom there was no
    /// place, `forgotten`, the last, those that were too light to keep a row.
    pub classes: Vec<Class>,
    /// Files, the heaviest first; the last may be `other`.
    pub files: Vec<File>,
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

/// How policy `auto` chooses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Selection {
    /// The device in front of which it chooses, and how that is known.
    pub device: String,
    /// Where what was learned is kept.
    pub state: Option<String>,
    /// What is in force: for each class, or for all.
    pub choices: Vec<Choice>,
}

/// The policy of a class, or of all, and why it is that one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The class; `None` for all.
    pub class: Option<String>,
    /// The policy.
    pub policy: String,
    /// Why: `start`, `prior`, `explore`, `exploit`, `kill`, `light-load`, `pinned` or
    /// `unwatched`.
    pub reason: String,
    /// What somebody said is to be used.
    pub pinned: Option<String>,
    /// What is seen of the requests.
    pub pattern: Option<Pattern>,
    /// What the tree was asked, by name.
    pub features: BTreeMap<String, f64>,
    /// The leaf of the tree.
    pub leaf: Option<u64>,
    /// The questions on the way to it.
    pub path: Vec<String>,
    /// What is known of each policy that may be chosen.
    pub arms: Vec<Arm>,
    /// The last switches, the newest last.
    pub switches: Vec<Switch>,
}

/// What requests have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// `contiguous`, `strided` or `random`.
    pub spatiality: String,
    /// `small` or `large`, as the application asks.
    pub size_class: String,
    /// What most of them do, `read` or `write`.
    pub direction: String,
    /// Reads of a thousand.
    pub reads_permille: u64,
    /// Files in use.
    pub files: u64,
    /// Clients in use.
    pub clients: u64,
    /// Sequential streams in use.
    pub streams: u64,
    /// Mean length of a request.
    pub request_bytes: u64,
    /// Median length of what the application asks for at once.
    pub application_request_bytes: u64,
    /// Bytes of a file, the mean.
    pub file_bytes: u64,
    /// Of a thousand requests, those that continued a stream.
    pub hit_permille: u64,
    /// Of a thousand requests sorted by offset, those that end where the next begins.
    pub adjacent_permille: u64,
}

/// What is known of a policy; speeds are in relation to policy TO.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// The policy.
    pub policy: String,
    /// What is believed.
    pub speedup: f64,
    /// Its lower bound.
    pub speedup_low: f64,
    /// Its upper bound.
    pub speedup_high: f64,
    /// What the training found.
    pub speedup_prior: f64,
    /// Blocks of paired epochs in which it was tried here.
    pub blocks: u64,
    /// For how long it is not tried any more; 0 if it may be.
    pub quarantine_left_ns: u64,
}

/// A change of policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// How long ago.
    pub ago_ns: u64,
    /// To which policy.
    pub policy: String,
    /// Why, as for [`Choice`].
    pub reason: String,
}

/// A user or a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// `USER/JOB` or `user:USER`; the user is a number.
    pub name: String,
    /// Its connections now.
    pub connections: u64,
    /// Its weight, and the limits that are set, as they would be set.
    pub settings: BTreeMap<String, String>,
    /// What is alive of it.
    #[serde(flatten)]
    pub alive: Alive,
    /// For whom its requests had to wait because they concern the same bytes, the worst first.
    pub blocked_by: Vec<Blocker>,
    /// What it has had.
    #[serde(flatten)]
    pub account: Account,
}

/// Requests of a class or a file that have not ended, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// Requests that wait.
    pub waiting: u64,
    /// How long the oldest of them has been waiting.
    pub oldest_waiting_ns: u64,
    /// Of those that wait, those that wait for an earlier one of the same bytes.
    pub blocked_now: u64,
    /// How long these have been waiting, summed; `blocked_ns` has them once they need not any more.
    pub blocked_now_ns: u64,
    /// For whom, the worst first.
    pub blocked_now_by: Vec<Blocker>,
    /// Requests at the store.
    pub in_flight: u64,
}

/// A class that others have to wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// Its name.
    pub class: String,
    /// Requests that wait for it, or did.
    pub requests: u64,
    /// How long, all of them together.
    pub time_ns: u64,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its path when it was opened, or what else is known of it.
    pub name: String,
    /// What is alive of it.
    #[serde(flatten)]
    pub alive: Alive,
    /// What it has had.
    #[serde(flatten)]
    pub account: Account,
}

/// What a class or a file has had of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Requests completed; a call with several ranges is several.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Of the requests, reads.
    pub read_requests: u64,
    /// Of the bytes, those read.
    pub read_bytes: u64,
    /// Of the requests, those that went at once because nothing was queued.
    pub bypassed: u64,
    /// Batches of which the first request has completed.
    pub batches: u64,
    /// Requests in them.
    pub batched_requests: u64,
    /// Times its requests waited for a better batch.
    pub waits: u64,
    /// Time of that.
    pub waited_ns: u64,
    /// Times a limit kept it back.
    pub throttled: u64,
    /// Time of that.
    pub throttled_ns: u64,
    /// Requests that waited for an earlier one of the same bytes and need not any more.
    pub blocked: u64,
    /// Time of that, summed over requests.
    pub blocked_ns: u64,
    /// From arrival to dispatch.
    pub queue_time: Times,
    /// From dispatch to completion.
    pub device_time: Times,
}

/// How long something took. Percentiles are within a sixteenth, the rest is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// All together.
    pub sum_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// What 99 of 100 do not exceed.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Selection {
    /// `auto`, and the policies in force.
    pub fn in_force(&self) -> String {
        let mut policies: Vec<&str> =
            self.choices.iter().map(|choice| choice.policy.as_str()).collect();
        policies.sort_unstable();
        policies.dedup();
        match policies[..] {
            [] => "auto".to_owned(),
            _ => format!("auto → {}", policies.join(", ")),
        }
    }
}

impl Account {
    /// Mean number of requests in a batch; 0 before the first.
    pub fn merge_ratio(&self) -> f64 {
        ratio(self.batched_requests, self.batches)
    }
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
