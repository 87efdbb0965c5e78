//! Adds up what a trace tells, event by event and request by request, into its summary.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use forebay_sched::Access;
use forebay_stats::Histogram;
use forebay_units::{ByteRange, ClassId, ClientId, FileIndex, Nanos, Timestamp};

use crate::adjust::Adjustment;
use crate::catalog::Catalog;
use crate::event::{Event, Record};
use crate::lives::{End, Life, Lives};
use crate::pattern::View;
use crate::summary::{Change, Orders, Row, Rows, SizeRow, Spread, Summary, Times};
use crate::timeline::Timeline;

/// What one file, client or class has had.
#[derive(Clone, Copy, Default)]
struct Sum {
    requests: u64,
    bytes: u64,
    latency: Nanos,
    ended: u64,
    longest: Nanos,
}

/// What is known while a trace is being read.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) summary: Summary,
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
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        let now = record.time;
        self.first.get_or_insert(now);
        self.last = now;
        self.summary.events += 1;
        let decisions = &mut self.summary.decisions;
        if matches!(record.event, Event::Dispatch { .. } | Event::Wait { .. } | Event::Idle { .. })
            && let Some(since) = self.waiting_since.take()
        {
            decisions.waited_ns = decisions.waited_ns.saturating_add((now - since).0);
        }
        match record.event {
            Event::Lost { events, .. } => {
                let lost = &mut self.summary.lost_events;
                *lost = lost.saturating_add(events);
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
            Event::Depth { depth } if self.summary.depth.is_none() => {
                self.summary.depth = Some(depth);
            }
            Event::Depth { depth } => self.change(now, "depth", &depth.to_string()),
            Event::Hint(_) => self.summary.hints += 1,
            _ => {}
        }
    }

    fn change(&mut self, now: Timestamp, key: &str, value: &str) {
        let change = Change { time_ns: now.0, key: key.into(), class: None, value: value.into() };
        self.summary.changes.push(change);
    }

    /// Notes where what leaves for the store begins and ends, and what comes in which order.
    pub(crate) fn see_batch(&mut self, record: &Record<'_>, lives: &Lives) {
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
    pub(crate) fn end(&mut self, life: &Life) {
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
        *direction = direction.saturating_add(life.moved.0);
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
            sum.bytes = sum.bytes.saturating_add(life.moved.0);
            if let Some(latency) = latency {
                sum.ended += 1;
                sum.latency += latency;
                sum.longest = sum.longest.max(latency);
            }
        }
    }

    pub(crate) fn finish(self, catalog: &Catalog, rows_max: usize) -> Summary {
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
        for change in &mut summary.changes {
            if let Some(Adjustment::Class(class, _) | Adjustment::ClassPolicy(class, _)) =
                Adjustment::read(&change.key, &change.value)
            {
                change.class = catalog.classes.get(&class).cloned();
            }
        }
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
