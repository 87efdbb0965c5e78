//! Statistics of a trace: who asked for what, in which order, what became of it, how long it took.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::Serialize;

use crate::lives::Lives;
use crate::pattern::Pattern;
use crate::reader::Reader;
use crate::setup;
use crate::tally::Builder;
use crate::timeline::Moment;

/// Everything that a trace shows in numbers. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// What recorded it.
    pub source: String,
    /// The policy at the beginning, if the header says so.
    pub policy: Option<String>,
    /// How classes shared at the beginning, if the header says so.
    pub sharing: Option<String>,
    /// How many requests might be in flight at the beginning, if the trace says so; changes of it
    /// are among the changes.
    pub depth: Option<u32>,
    /// The wall clock at time 0, in nanoseconds since 1970; 0 if not known.
    pub clock_base_ns: u64,
    /// From the first event to the last.
    pub duration_ns: u64,
    /// Events read.
    pub events: u64,
    /// Events that the trace says it lost.
    pub lost_events: u64,
    /// Places that could not be read, in words.
    pub damages: Vec<String>,
    /// Requests that came, refused ones left out.
    pub requests: Requests,
    /// What they moved.
    pub bytes: Moved,
    /// What the scheduler made of them.
    pub decisions: Decisions,
    /// How long they took.
    pub times: Times,
    /// How many requests had which size, by powers of two.
    pub sizes: Vec<SizeRow>,
    /// How sequential they were.
    pub order: Orders,
    /// The files with the most bytes, and how many there are.
    pub files: Rows,
    /// The same of clients.
    pub clients: Rows,
    /// The same of classes.
    pub classes: Rows,
    /// Policies that took over and settings that were changed, with their times.
    pub changes: Vec<Change>,
    /// Things that were said ahead of time: holds of what waits, files that will not be asked for.
    pub hints: u64,
    /// What happened when.
    pub timeline: Vec<Moment>,
}

/// How many requests there were of what kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// All of them, refused ones left out.
    pub all: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Appends, truncations, allocations.
    pub alone: u64,
    /// Syncs.
    pub syncs: u64,
    /// Of all, those answered at once, without the scheduler.
    pub immediate: u64,
    /// Of all, those that went at once because nothing was queued.
    pub bypassed: u64,
    /// Of all, those that first had to wait for an earlier conflicting one.
    pub blocked: u64,
    /// Of all, those that failed.
    pub failed: u64,
    /// Of all, those that moved less than was asked.
    pub short: u64,
    /// Of all, those that were taken back, and those that were handed back.
    pub cancelled: u64,
    /// Of all, those whose end is not in the trace.
    pub open: u64,
    /// Besides, requests that were refused, each time they were.
    pub refused: u64,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

/// What the scheduler decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Decisions {
    /// Batches; what went at once on its own is not one.
    pub batches: u64,
    /// Requests in them.
    pub batched_requests: u64,
    /// Requests that left over the pieces in which they left: 1 where nothing was merged.
    pub merge_ratio: f64,
    /// The most requests in one batch.
    pub largest_batch_requests: u64,
    /// Times it chose to wait.
    pub waits: u64,
    /// Time between such a choice and the next question.
    pub waited_ns: u64,
    /// Times it had nothing to give; without classes, only the first of several in a row counts.
    pub idle: u64,
}

/// How long some steps took; all of it zero for a log that does not say when requests ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// From arrival to end.
    pub latency: Spread,
    /// From arrival to dispatch.
    pub queue: Spread,
    /// From dispatch to end.
    pub device: Spread,
    /// From arrival until no earlier conflicting request was left; of blocked requests only.
    pub blocked: Spread,
}

/// How durations are spread, each to within 1/16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// On average.
    pub mean_ns: u64,
    /// Half of them take no longer.
    pub p50_ns: u64,
    /// Nine in ten take no longer.
    pub p90_ns: u64,
    /// Ninety-nine in a hundred take no longer.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// Requests of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeRow {
    /// From this on, and below twice as much; 0 for requests without a size.
    pub from_bytes: u64,
    /// How many.
    pub requests: u64,
}

/// How sequential the accesses were, for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Orders {
    /// For each client within each file, as it asked.
    pub by_client: Pattern,
    /// For each file, as all clients' requests came.
    pub by_arrival: Pattern,
    /// For each file, as batches left for the store.
    pub by_dispatch: Pattern,
}

/// The heaviest of something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rows {
    /// How many there are.
    pub count: u64,
    /// The first by bytes.
    pub heaviest: Vec<Row>,
}

/// One file, client or class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Mean time from arrival to end.
    pub latency_mean_ns: u64,
    /// The longest time from arrival to end.
    pub latency_max_ns: u64,
}

/// Something that was changed while recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// When.
    pub time_ns: u64,
    /// `policy`, or the setting's key.
    pub key: String,
    /// The name of the class, if it is one's and it has a name.
    pub class: Option<String>,
    /// To what.
    pub value: String,
}

impl Summary {
    /// Reads a trace to its end. The tables of files, clients and classes have `rows_max` rows each.
    pub fn read(reader: Reader<'_>, rows_max: usize) -> Self {
        let header = reader.header();
        let mut builder = Builder::default();
        builder.summary.source.clone_from(&header.source);
        builder.summary.clock_base_ns = header.clock_base_ns;
        builder.summary.policy = header.setting(setup::Setup::POLICY).map(Into::into);
        builder.summary.sharing = header.setting(setup::SHARING).map(Into::into);
        let has_ends = header.has_ends();
        let mut lives = Lives::default();
        for found in reader {
            match found {
                Ok(record) => {
                    builder.take(&record);
                    lives.take(&record, |_, life| builder.end(life));
                    builder.see_batch(&record, &lives);
                }
                Err(damage) => {
                    lives.catalog.forget_indices();
                    builder.summary.damages.push(damage.to_string());
                }
            }
        }
        lives.open().for_each(|life| builder.end(life));
        let mut summary = builder.finish(&lives.catalog, rows_max);
        if !has_ends {
            summary.forget_durations();
        }
        summary
    }

    /// Takes out what means nothing in a log that does not say when requests ended.
    fn forget_durations(&mut self) {
        self.times = Times::default();
        for rows in [&mut self.files, &mut self.clients, &mut self.classes] {
            for row in &mut rows.heaviest {
                (row.latency_mean_ns, row.latency_max_ns) = (0, 0);
            }
        }
    }
}
