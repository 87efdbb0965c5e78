//! What simulations showed, as tables for people.

use forebay_bench::{Report, Row, table};
use forebay_sim::{Latency, Outcome, Scenario};
use serde_json::{Map, Value};

/// Every key of a scenario with its value, a line for each section; `run` is what else is known of
/// the run. Jobs are left out where others make the requests.
pub(super) fn settings(scenario: &Scenario, run: &str, with_jobs: bool) -> String {
    let mut text = format!("{}, {run}\n", scenario.name);
    if !scenario.about.is_empty() {
        text += &format!("  {}\n", scenario.about);
    }
    let Ok(Value::Object(sections)) = serde_json::to_value(scenario) else {
        unreachable!("a scenario is a table")
    };
    for (name, section) in &sections {
        match section {
            Value::Object(keys) => text += &line("  ", name, keys),
            Value::Null => text += &format!("  {name}: none\n"),
            Value::Array(jobs) if with_jobs => {
                for job in jobs.iter().filter_map(Value::as_object) {
                    text += &line("  ", name, job);
                    let phases = job.get("phase").and_then(Value::as_array).into_iter().flatten();
                    text.extend(
                        phases.filter_map(Value::as_object).map(|it| line("    ", "phase", it)),
                    );
                }
            }
            // The name and what it is about stand above.
            _ => {}
        }
    }
    text
}

/// `section: key value, key value`.
fn line(indent: &str, section: &str, keys: &Map<String, Value>) -> String {
    let absent = match section {
        "scheduler" => "as measured",
        "phase" => "as the job",
        _ => "none",
    };
    let word = |(key, value): (&String, &Value)| match value {
        Value::Null => Some(format!("{key} {absent}")),
        Value::String(text) => Some(format!("{key} {text}")),
        Value::Array(_) | Value::Object(_) => None,
        value => Some(format!("{key} {value}")),
    };
    let words: Vec<String> = keys.iter().filter_map(word).collect();
    format!("{indent}{section}: {}\n", words.join(", "))
}

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
