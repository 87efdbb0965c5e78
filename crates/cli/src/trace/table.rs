//! Several replays of one trace side by side.

use forebay_sim::{Latency, Outcome};
use forebay_stats::Histogram;
use forebay_trace::{End, Event, Lives, Reader, Summary};
use forebay_units::{Nanos, Timestamp};
use serde::Serialize;

use crate::columns::Columns;
use crate::size::Length;

/// What one replay showed, or the recording itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Run {
    /// The policy, or `recorded`.
    pub(super) policy: String,
    /// From the first request to the last end.
    pub(super) makespan_ns: u64,
    /// Requests that ended.
    pub(super) requests: u64,
    /// Of these, those that failed.
    pub(super) failed: u64,
    /// Bytes that they moved.
    pub(super) bytes: u64,
    /// The same over the makespan.
    pub(super) bytes_per_second: f64,
    /// Requests that left over the pieces in which they left; `None` where nobody says.
    pub(super) merge_ratio: Option<f64>,
    /// From a request to its end; zero where the trace does not say.
    pub(super) latency: Latency,
    /// Times the modelled device had to position anew.
    pub(super) seeks: Option<u64>,
    /// Times the scheduler chose to wait for a better batch.
    pub(super) waits: Option<u64>,
    /// How late requests were asked at most, in real time.
    pub(super) late_ns_max: Option<u64>,
}

impl Run {
    /// What the recording showed; its summary is known.
    pub(super) fn recorded(reader: Reader<'_>, summary: &Summary) -> Self {
        let has_ends = reader.header().has_ends();
        let (mut lives, mut latencies) = (Lives::default(), Histogram::new());
        let (mut first, mut last_arrival, mut last_end) = (None, Timestamp(0), None);
        for found in reader {
            let Ok(record) = found else {
                lives.catalog.forget_indices();
                continue;
            };
            let has_come = match record.event {
                Event::Submit(submit) => submit.seq.is_some(),
                Event::Immediate { .. } => true,
                _ => false,
            };
            if has_come {
                first.get_or_insert(record.time);
                last_arrival = record.time;
            }
            lives.take(&record, |_, life| {
                if matches!(life.end, End::Completed | End::Immediate) && has_ends {
                    life.latency().into_iter().for_each(|latency| latencies.record(latency));
                    last_end = last_end.max(life.ended);
                }
            });
        }
        let makespan_ns = (last_end.unwrap_or(last_arrival) - first.unwrap_or_default()).0;
        let bytes = summary.bytes.read + summary.bytes.written;
        Self {
            policy: "recorded".into(),
            makespan_ns,
            requests: summary.requests.all - summary.requests.open - summary.requests.cancelled,
            failed: summary.requests.failed,
            bytes,
            bytes_per_second: per_second(bytes, makespan_ns),
            merge_ratio: (summary.decisions.batches > 0).then_some(summary.decisions.merge_ratio),
            latency: latency(&latencies),
            seeks: None,
            waits: (summary.decisions.batches > 0).then_some(summary.decisions.waits),
            late_ns_max: None,
        }
    }

    /// What a simulation showed whose first request came after `lead`.
    pub(super) fn simulated(outcome: &Outcome, lead: Nanos) -> Self {
        let makespan_ns = outcome.makespan_ns.saturating_sub(lead.0);
        Self {
            policy: outcome.policy.to_lowercase(),
            makespan_ns,
            requests: outcome.requests,
            failed: outcome.failed,
            bytes: outcome.bytes,
            bytes_per_second: per_second(outcome.bytes, makespan_ns),
            merge_ratio: Some(outcome.merge_ratio),
            latency: outcome.latency,
            seeks: Some(outcome.nodes.iter().map(|node| node.seeks).sum()),
            waits: Some(outcome.nodes.iter().map(|node| node.waits).sum()),
            late_ns_max: None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
pub(super) fn per_second(bytes: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { bytes as f64 * 1e9 / ns as f64 }
}

/// Mean and maximum; percentiles to within 1/16, as those of simulations.
pub(super) fn latency(latencies: &Histogram) -> Latency {
    Latency {
        mean_ns: latencies.mean().0,
        p50_ns: latencies.percentile(50.0).0,
        p95_ns: latencies.percentile(95.0).0,
        p99_ns: latencies.percentile(99.0).0,
        max_ns: latencies.max().0,
    }
}

/// A line for each.
pub(super) fn table(runs: &[Run]) -> String {
    let headings = [
        "policy", "makespan", "MB/s", "merged", "mean", "p50", "p99", "max", "seeks", "waits",
        "failed",
    ];
    let mut columns = Columns::new(&headings);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    for run in runs {
        let Latency { mean_ns, p50_ns, p99_ns, max_ns, .. } = run.latency;
        let [mean, p50, p99, max] =
            [mean_ns, p50_ns, p99_ns, max_ns].map(|ns| Length(ns).to_string());
        columns.push([
            run.policy.clone(),
            Length(run.makespan_ns).to_string(),
            format!("{:.1}", run.bytes_per_second / 1e6),
            or_dash(run.merge_ratio.map(|ratio| format!("{ratio:.2}"))),
            mean,
            p50,
            p99,
            max,
            or_dash(run.seeks.map(|count| count.to_string())),
            or_dash(run.waits.map(|count| count.to_string())),
            run.failed.to_string(),
        ]);
    }
    columns.to_string()
}
