//! Statistics of a trace: who asked for what, in which order, what became of it, how long it took.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use forebay_sched::Access;
use forebay_stats::Histogram;
use forebay_units::{ByteRange, ClassId, ClientId, FileIndex, Nanos, Timestamp};
use serde::Serialize;

use crate::catalog::Catalog;
use crate::event::{Event, Record};
use crate::lives::{End, Life, Lives};
use crate::pattern::{Pattern, View};
use crate::reader::Reader;
use crate::timeline::{Moment, Timeline};

/// Everything that a trace shows in numbers. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// What recorded it.
    pub source: String,
    /// The policy at the beginning, if the header says so.
    pub policy: Option<String>,
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
    /// Times it had nothing to give.
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
        builder.summary.policy = header.setting("recorded.policy").map(Into::into);
        let has_ends = header.has_ends();
        let mut lives = Lives::default();
        for found in reader {
            match found {
                Ok(record) => {
                    builder.take(&record);
                    lives.take(&record, |_, life| builder.end(life));
                    builder.see_batch(&record, &lives);
                }
                Err(damage) => builder.summary.damages.push(damage.to_string()),
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

#[derive(Clone, Copy, Default)]
struct Sum {
    requests: u64,
    bytes: u64,
    latency: Nanos,
    ended: u64,
    longest: Nanos,
}

#[derive(Default)]
struct Builder {
    summary: Summary,
    first: Option<Timestamp>,
    last: Timestamp,
    waiting_since: Option<Timestamp>,
    batch_requests: u64,
    latency: Histogram,
    queue: Histogram,
    device: Histogram,
    blocked: Histogram,
    sizes: BTreeMap<u64, u64>,
    by_client: View<(ClientId, FileIndex)>,
    by_arrival: View<FileIndex>,
    by_dispatch: View<FileIndex>,
    files: BTreeMap<FileIndex, Sum>,
    clients: BTreeMap<ClientId, Sum>,
    classes: BTreeMap<ClassId, Sum>,
    timeline: Timeline,
}

impl Builder {
    fn take(&mut self, record: &Record<'_>) {
        let now = record.time;
        self.first.get_or_insert(now);
        self.last = now;
        self.summary.events += 1;
        let decisions = &mut self.summary.decisions;
        if matches!(record.event, Event::Dispatch { .. } | Event::Wait { .. } | Event::Idle { .. })
            && let Some(since) = self.waiting_since.take()
        {
            decisions.waited_ns += (now - since).0;
        }
        match record.event {
            Event::Lost { events, .. } => {
                self.summary.lost_events += events;
                self.summary.events -= 1;
            }
            Event::Dispatch { members, continues, .. } => {
                self.batch_requests += members.count() as u64;
                if !continues {
                    decisions.batches += 1;
                    decisions.batched_requests += self.batch_requests;
                    decisions.largest_batch_requests =
                        decisions.largest_batch_requests.max(self.batch_requests);
                    self.batch_requests = 0;
                }
            }
            Event::Wait { .. } => {
                decisions.waits += 1;
                self.waiting_since = Some(now);
            }
            Event::Idle { .. } => decisions.idle += 1,
            Event::Switch { policy } => self.change(now, "policy", policy),
            Event::Setting { key, value } => self.change(now, key, value),
            _ => {}
        }
    }

    fn change(&mut self, now: Timestamp, key: &str, value: &str) {
        let change = Change { time_ns: now.0, key: key.into(), value: value.into() };
        self.summary.changes.push(change);
    }

    /// Notes where what leaves for the store begins and ends, and what comes in which order.
    fn see_batch(&mut self, record: &Record<'_>, lives: &Lives) {
        let mut leave = |seqs: &mut dyn Iterator<Item = u64>| {
            let first = seqs.next().and_then(|seq| lives.find(seq));
            let Some(first) = first.filter(|life| is_data(life)) else { return };
            let last = seqs.last().and_then(|seq| lives.find(seq)).unwrap_or(first);
            let range = ByteRange { start: first.request.range.start, end: last.request.range.end };
            self.by_dispatch.see(first.request.file, range);
        };
        match record.event {
            Event::Dispatch { members, .. } => leave(&mut members.iter()),
            Event::Submit(submit) if submit.fate == crate::Fate::Bypassed => {
                leave(&mut submit.seq.into_iter());
            }
            _ => {}
        }
        if let Event::Submit(submit) = record.event
            && let Some(life) = submit.seq.and_then(|seq| lives.find(seq))
        {
            self.arrive(life);
        }
    }

    fn arrive(&mut self, life: &Life) {
        self.timeline.arrive(life.arrived);
        if is_data(life) {
            let (file, range) = (life.request.file, life.request.range);
            self.by_client.see((life.request.client, file), range);
            self.by_arrival.see(file, range);
        }
    }

    /// A request has ended, or the trace has.
    fn end(&mut self, life: &Life) {
        let requests = &mut self.summary.requests;
        if life.end == End::Refused {
            requests.refused += 1;
            return;
        }
        requests.all += 1;
        let kind = match life.request.access {
            Access::Read => &mut requests.reads,
            Access::Write => &mut requests.writes,
            Access::Alone => &mut requests.alone,
            Access::Sync => &mut requests.syncs,
        };
        *kind += 1;
        let is_data = is_data(life);
        let length = if is_data { life.request.range.length().0 } else { 0 };
        requests.blocked += u64::from(life.was_blocked);
        requests.failed += u64::from(life.errno != 0);
        match life.end {
            End::Immediate => requests.immediate += 1,
            End::Cancelled | End::Drained => requests.cancelled += 1,
            End::Open => requests.open += 1,
            End::Completed | End::Refused => {}
        }
        let has_ended = matches!(life.end, End::Completed | End::Immediate);
        let is_short = has_ended && life.errno == 0 && life.moved.0 < length;
        requests.short += u64::from(is_short);
        let went_alone = life.batch.is_none() && life.dispatched.is_some();
        requests.bypassed += u64::from(went_alone && life.end != End::Immediate);
        if life.end == End::Immediate {
            self.arrive(life);
        }
        let bytes = &mut self.summary.bytes;
        let direction =
            if life.request.access == Access::Read { &mut bytes.read } else { &mut bytes.written };
        *direction += life.moved.0;
        let floor = if length == 0 { 0 } else { 1 << length.ilog2() };
        *self.sizes.entry(floor).or_default() += 1;
        let latency = life.latency().filter(|_| has_ended);
        for (histogram, time) in [
            (&mut self.latency, latency),
            (&mut self.queue, life.queue_time().filter(|_| has_ended)),
            (&mut self.device, life.device_time().filter(|_| has_ended)),
            (&mut self.blocked, life.blocked_time()),
        ] {
            time.into_iter().for_each(|time| histogram.record(time));
        }
        if let Some(ended) = life.ended {
            self.timeline.end(life.arrived, ended, life.moved);
        }
        let (file, client, class) = (life.request.file, life.request.client, life.request.class);
        for sum in [
            self.files.entry(file).or_default(),
            self.clients.entry(client).or_default(),
            self.classes.entry(class).or_default(),
        ] {
            sum.requests += 1;
            sum.bytes += life.moved.0;
            if let Some(latency) = latency {
                sum.ended += 1;
                sum.latency += latency;
                sum.longest = sum.longest.max(latency);
            }
        }
    }

    fn finish(self, catalog: &Catalog, rows_max: usize) -> Summary {
        let mut summary = self.summary;
        summary.duration_ns = (self.last - self.first.unwrap_or_default()).0;
        let decisions = &mut summary.decisions;
        let alone = summary.requests.bypassed;
        let pieces = decisions.batches + alone;
        decisions.merge_ratio = match pieces {
            0 => 0.0,
            _ => (decisions.batched_requests + alone) as f64 / pieces as f64,
        };
        summary.times = Times {
            latency: spread(&self.latency),
            queue: spread(&self.queue),
            device: spread(&self.device),
            blocked: spread(&self.blocked),
        };
        let row = |(from_bytes, requests)| SizeRow { from_bytes, requests };
        summary.sizes = self.sizes.into_iter().map(row).collect();
        summary.order = Orders {
            by_client: self.by_client.pattern,
            by_arrival: self.by_arrival.pattern,
            by_dispatch: self.by_dispatch.pattern,
        };
        summary.files = rows(self.files, rows_max, |file| catalog.file_name(file));
        summary.clients = rows(self.clients, rows_max, |client| catalog.client_name(client));
        summary.classes = rows(self.classes, rows_max, |class| catalog.class_name(class));
        summary.timeline = self.timeline.moments();
        summary
    }
}

/// Whether a request's range says which bytes it moves.
fn is_data(life: &Life) -> bool {
    matches!(life.request.access, Access::Read | Access::Write)
}

fn spread(histogram: &Histogram) -> Spread {
    Spread {
        count: histogram.count(),
        mean_ns: histogram.mean().0,
        p50_ns: histogram.percentile(50.0).0,
        p90_ns: histogram.percentile(90.0).0,
        p99_ns: histogram.percentile(99.0).0,
        max_ns: histogram.max().0,
    }
}

fn rows<K: Ord + Copy>(
    sums: BTreeMap<K, Sum>,
    rows_max: usize,
    name: impl Fn(K) -> String,
) -> Rows {
    let mut order: Vec<(K, Sum)> = sums.into_iter().collect();
    let count = order.len() as u64;
    order.sort_by_key(|(key, sum)| (core::cmp::Reverse((sum.bytes, sum.requests)), *key));
    let heaviest = order.into_iter().take(rows_max).map(|(key, sum)| Row {
        name: name(key),
        requests: sum.requests,
        bytes: sum.bytes,
        latency_mean_ns: sum.latency.0.checked_div(sum.ended).unwrap_or(0),
        latency_max_ns: sum.longest.0,
    });
    Rows { count, heaviest: heaviest.collect() }
}
