//! Several replays of one trace side by side.

use forebay_sim::{Latency, Outcome};
use forebay_trace::{Summary, Workload};
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
    /// What the recording showed.
    pub(super) fn recorded(workload: &Workload, summary: &Summary) -> Self {
        let ends = workload.requests.iter().filter_map(|r| Some(r.at.0 + r.latency?.0));
        let last_arrival = workload.requests.iter().map(|recorded| recorded.at.0).max();
        let makespan_ns = ends.max().or(last_arrival).unwrap_or(0);
        let bytes = summary.bytes.read + summary.bytes.written;
        let mut latencies: Vec<u64> =
            workload.requests.iter().filter_map(|r| Some(r.latency?.0)).collect();
        Self {
            policy: "recorded".into(),
            makespan_ns,
            requests: summary.requests.all - summary.requests.open - summary.requests.cancelled,
            failed: summary.requests.failed,
            bytes,
            bytes_per_second: per_second(bytes, makespan_ns),
            merge_ratio: (summary.decisions.batches > 0).then_some(summary.decisions.merge_ratio),
            latency: spread(&mut latencies),
            seeks: None,
            waits: (summary.decisions.batches > 0).then_some(summary.decisions.waits),
            late_ns_max: None,
        }
    }

    /// What a simulation showed.
    pub(super) fn simulated(outcome: &Outcome) -> Self {
        Self {
            policy: outcome.policy.to_lowercase(),
            makespan_ns: outcome.makespan_ns,
            requests: outcome.requests,
            failed: outcome.failed,
            bytes: outcome.bytes,
            bytes_per_second: outcome.bytes_per_second,
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

/// Exact mean, percentiles (nearest rank) and maximum.
pub(super) fn spread(latencies: &mut [u64]) -> Latency {
    latencies.sort_unstable();
    let Some(max_ns) = latencies.last().copied() else { return Latency::default() };
    let rank = |percent: usize| latencies[(latencies.len() * percent).div_ceil(100).max(1) - 1];
    let sum: u128 = latencies.iter().map(|ns| u128::from(*ns)).sum();
    Latency {
        mean_ns: u64::try_from(sum / latencies.len() as u128).unwrap_or(u64::MAX),
        p50_ns: rank(50),
        p95_ns: rank(95),
        p99_ns: rank(99),
        max_ns,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut latencies: Vec<u64> = (1..=200).rev().collect();
        let Latency { mean_ns, p50_ns, p95_ns, p99_ns, max_ns } = spread(&mut latencies);
        assert_eq!((mean_ns, p50_ns, p95_ns, p99_ns, max_ns), (100, 100, 190, 198, 200));
        assert_eq!(spread(&mut []), Latency::default());
        assert_eq!(spread(&mut [7]).p50_ns, 7);
    }
}
