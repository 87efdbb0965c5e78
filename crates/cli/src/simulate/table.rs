//! What simulations showed, as tables for people.

use forebay_bench::{Report, Row, table};
use forebay_sim::{Latency, Outcome};
use serde_json::Value;

/// A line for each policy, and one for each application under it.
pub(super) fn tables(outcomes: &[Outcome]) -> String {
    let (mut whole, mut parts) = (Report::new("simulate"), Report::new("simulate"));
    for outcome in outcomes {
        let policy = [("policy", Value::from(outcome.policy.to_lowercase()))];
        let row = |name, unit, value| Row::median(name, unit, &policy, &[value]);
        whole.rows.extend([
            row("makespan", "s", seconds(outcome.makespan_ns)),
            row("rate", "MB/s", outcome.bytes_per_second / 1e6),
            row("mean", "ms", millis(outcome.latency.mean_ns)),
            row("p50", "ms", millis(outcome.latency.p50_ns)),
            row("p99", "ms", millis(outcome.latency.p99_ns)),
            row("max", "ms", millis(outcome.latency.max_ns)),
            row("merged", "a batch", outcome.merge_ratio),
            row("fairness", "clients", outcome.fairness_clients),
            row("busy", "device", outcome.device_utilisation),
            row("seeks", "", count(outcome.nodes.iter().map(|node| node.seeks).sum())),
        ]);
        if outcome.policy == "auto" {
            whole.rows.push(row("switches", "", count(outcome.switches)));
        }
        let troubles =
            [("failed", outcome.failed), ("short", outcome.short), ("vanished", outcome.vanished)];
        let troubles = troubles.into_iter().filter(|(_, number)| *number > 0);
        whole.rows.extend(troubles.map(|(name, number)| row(name, "", count(number))));
        for application in &outcome.applications {
            let whose = [policy[0].clone(), ("application", application.name.clone().into())];
            let row = |name, unit, value| Row::median(name, unit, &whose, &[value]);
            let Latency { mean_ns, p99_ns, .. } = application.latency;
            parts.rows.extend([
                row("completion", "s", seconds(application.completion_ns)),
                row("spread", "s", seconds(application.completion_spread_ns)),
                row("rate", "MB/s", application.bytes_per_second / 1e6),
                row("requests", "", count(application.requests)),
                row("mean", "ms", millis(mean_ns)),
                row("p99", "ms", millis(p99_ns)),
            ]);
        }
    }
    format!("{}\n{}\n", table(&whole), table(&parts))
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn millis(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn count(number: u64) -> f64 {
    number as f64
}
