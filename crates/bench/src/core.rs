//! `core`: the scheduler alone. Nanoseconds, instructions and allocations a request, for
//! submit + next + complete, by policy, work and number of queued requests.
//!
//! Each case is a process, `forebay-bench-core`: once on the processor, for times and
//! allocations, and once under callgrind, for instructions. Times depend on the machine and on
//! its caches; instructions show how the cost grows.
//!
//! A further process for each policy passes the same requests with and without a trace, in turns.

use std::process::Command;

use forebay_sched::PolicyName;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Options;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::{Report, Row};
use crate::workload::Mix;

/// Counts instructions; part of valgrind.
const COUNTER: &str = "valgrind";

/// How much a case does.
#[derive(Clone, Copy, Debug)]
struct Extent {
    queued: [u64; 2],
    requests: u64,
    rounds: u64,
    /// Of one round under callgrind, which is some fifty times slower.
    requests_counted: u64,
}

const WHOLE: Extent =
    Extent { queued: [1_000, 1_000_000], requests: 400_000, rounds: 5, requests_counted: 100_000 };
const QUICK: Extent =
    Extent { queued: [1_000, 100_000], requests: 100_000, rounds: 3, requests_counted: 20_000 };

#[derive(Clone, Copy, Debug)]
struct Case {
    policy: PolicyName,
    mix: Mix,
    queued: u64,
}

/// What the program prints.
#[derive(Debug, Deserialize)]
struct Printed {
    ns: Vec<f64>,
    requests: u64,
    allocations: u64,
    recorded_ns: Vec<f64>,
    event_bytes: Option<f64>,
}

/// Runs the suite.
pub(crate) fn run(
    programs: &Programs,
    options: &Options,
    track: &mut Track<'_>,
) -> Result<Report, Error> {
    let mut extent = if options.quick { QUICK } else { WHOLE };
    extent.rounds = options.repetitions.map_or(extent.rounds, |rounds| rounds.max(1) as u64);
    let mut report = Report::new("core");
    report.set("requests_a_round", extent.requests);
    report.set("rounds", extent.rounds);
    report.set("time", "processor time of the process");
    let counter = Command::new(COUNTER)
        .arg("--version")
        .output()
        .ok()
        .filter(|output| output.status.success());
    match &counter {
        Some(output) => report.set("instructions", String::from_utf8_lossy(&output.stdout).trim()),
        None => {
            report.set("instructions", Value::Null);
            report
                .notes
                .push(format!("instructions are not available: {COUNTER} is not installed"));
        }
    }
    let cases = cases(&extent);
    let work = |case: &Case| (case.queued + extent.requests) as f64;
    let recorded = recorded_cases(&extent);
    track.expect(cases.len() + recorded.len(), cases.iter().chain(&recorded).map(work).sum());
    for case in &cases {
        let printed = time(programs, case, &extent, &[])?;
        let counted = counter.as_ref().map(|_| count(programs, case, &extent)).transpose()?;
        let rows = rows(case, &printed, counted);
        track.case(work(case), line(case, &rows));
        report.rows.extend(rows);
        report.raw.push(json!({
            "policy": case.policy.as_str(), "work": case.mix.name(), "queued": case.queued, "ns": printed.ns,
            "requests": printed.requests, "allocations": printed.allocations, "instructions": counted,
        }));
    }
    for case in &recorded {
        let printed = time(programs, case, &extent, &["record"])?;
        let rows = recorded_rows(case, &printed);
        track.case(work(case), line(case, &rows));
        report.rows.extend(rows);
        report.raw.push(json!({
            "policy": case.policy.as_str(), "work": case.mix.name(), "queued": case.queued, "ns": printed.ns,
            "recorded_ns": printed.recorded_ns, "event_bytes": printed.event_bytes,
        }));
    }
    ratios(&mut report, &extent);
    Ok(report)
}

fn cases(extent: &Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    for policy in PolicyName::ALL {
        for mix in Mix::ALL {
            cases.extend(extent.queued.map(|queued| Case { policy, mix, queued }));
        }
    }
    cases
}

/// Each policy with a short queue, where the scheduler itself takes least.
fn recorded_cases(extent: &Extent) -> Vec<Case> {
    let case = |policy| Case { policy, mix: Mix::Reads, queued: extent.queued[0] };
    PolicyName::ALL.map(case).into()
}

/// The arguments of one case. To be in its steady state, every queued request is replaced once.
fn arguments(case: &Case, warm_up: u64, requests: u64, rounds: u64) -> Vec<String> {
    let names = [case.policy.to_string(), case.mix.name().to_owned()];
    names
        .into_iter()
        .chain([case.queued, warm_up, requests, rounds].map(|number| number.to_string()))
        .collect()
}

fn time(
    programs: &Programs,
    case: &Case,
    extent: &Extent,
    words: &[&str],
) -> Result<Printed, Error> {
    let mut command = Command::new(programs.core()?);
    let warm_up = case.queued.max(extent.requests);
    command.args(arguments(case, warm_up, extent.requests, extent.rounds)).args(words);
    let (printed, _) = output(command)?;
    serde_json::from_str(&printed)
        .map_err(|error| Error::failed(format!("forebay-bench-core: {error}: {printed}")))
}

/// Instructions a request, by callgrind.
fn count(programs: &Programs, case: &Case, extent: &Extent) -> Result<f64, Error> {
    let mut command = Command::new(COUNTER);
    command.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*measured*",
    ]);
    command.arg(programs.core()?).args(arguments(
        case,
        extent.requests_counted,
        extent.requests_counted,
        1,
    ));
    let (printed, said) = output(command)?;
    let passed = serde_json::from_str::<Printed>(&printed).ok().map(|printed| printed.requests);
    let collected =
        said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<u64>().ok());
    match (collected, passed) {
        (Some(collected), Some(passed)) if collected > 0 => Ok(collected as f64 / passed as f64),
        _ => Err(Error::failed(format!("callgrind counted nothing: {said}"))),
    }
}

/// What a program says, on both channels.
fn output(mut command: Command) -> Result<(String, String), Error> {
    let output = command.output().map_err(Error::io(format!("{command:?}")))?;
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if !output.status.success() {
        return Err(Error::failed(format!(
            "{command:?} ended with {}: {}",
            output.status,
            err.trim()
        )));
    }
    Ok((out, err))
}

fn rows(case: &Case, printed: &Printed, counted: Option<f64>) -> Vec<Row> {
    let parameters = [
        ("policy", Value::from(case.policy.to_string().to_lowercase())),
        ("work", case.mix.name().into()),
        ("queued", case.queued.into()),
    ];
    let mut rows = vec![Row::median("time", "ns/request", &parameters, &printed.ns)];
    rows.extend(
        counted.map(|counted| Row::median("instructions", "1/request", &parameters, &[counted])),
    );
    rows.push(Row::median(
        "allocations",
        "in steady state",
        &parameters,
        &[printed.allocations as f64],
    ));
    rows
}

/// What recording costs: both times of one process.
fn recorded_rows(case: &Case, printed: &Printed) -> Vec<Row> {
    let parameters = [("policy", Value::from(case.policy.to_string().to_lowercase()))];
    let row = |name, unit, values: &[f64]| Row::median(name, unit, &parameters, values);
    let mut rows = vec![
        row("unrecorded", "ns/request", &printed.ns),
        row("recorded", "ns/request", &printed.recorded_ns),
    ];
    rows.extend(printed.event_bytes.map(|bytes| row("event", "bytes", &[bytes])));
    rows
}

fn line(case: &Case, rows: &[Row]) -> String {
    let values: Vec<String> =
        rows.iter().map(|row| format!("{:.0} {}", row.value, row.unit)).collect();
    format!(
        "{:6}  {}  {:>9} queued  {}",
        case.policy.to_string(),
        case.mix.name(),
        case.queued,
        values.join("  ")
    )
}

/// The worst of all, and how the cost grows against how log n does.
fn ratios(report: &mut Report, extent: &Extent) {
    let largest = |name: &str| {
        let rows = report.rows.iter().filter(|row| row.name == name);
        rows.map(|row| row.value).reduce(f64::max)
    };
    let (time, allocations) = (largest("time"), largest("allocations"));
    let instructions = largest("instructions");
    let event_bytes = largest("event");
    let added = PolicyName::ALL.iter().filter_map(|policy| {
        let policy = [("policy", Value::from(policy.to_string().to_lowercase()))];
        Some(report.value("recorded", &policy)? - report.value("unrecorded", &policy)?)
    });
    let added_ns = added.reduce(f64::max);
    let growths = ["time", "instructions"].map(|name| growth(report, name, extent));
    report.ratio("ns_a_request_max", time);
    report.ratio("instructions_a_request_max", instructions);
    report.ratio("allocations_max", allocations);
    report.ratio("recording_ns_a_request_max", added_ns);
    report.ratio("recording_bytes_an_event_max", event_bytes);
    for (name, growth) in ["time", "instructions"].into_iter().zip(growths) {
        report.ratio(format!("{name}_growth_over_log_max"), growth);
    }
}

/// The largest growth of a cost from the short queue to the long one, over that of log n.
fn growth(report: &Report, name: &str, extent: &Extent) -> Option<f64> {
    let [short, long] = extent.queued;
    let growth_of_log = (long as f64).ln() / (short as f64).ln();
    let rows = report.rows.iter().filter(|row| row.name == name && row.parameters[2].1 == long);
    let growths = rows.filter_map(|row| {
        let mut parameters = row.parameters.clone();
        parameters[2].1 = short.into();
        Some(row.value / report.value(name, &parameters)? / growth_of_log)
    });
    growths.reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_held_against_the_logarithm() {
        let mut report = Report::new("core");
        for (queued, ns) in [(1_000, 100.0), (1_000_000, 150.0)] {
            let case = Case { policy: PolicyName::Aioli, mix: Mix::Reads, queued };
            let (recorded_ns, event_bytes) = (Vec::new(), None);
            let ns = vec![ns];
            let printed =
                Printed { ns: ns.clone(), requests: 1, allocations: 0, recorded_ns, event_bytes };
            report.rows.extend(rows(&case, &printed, Some(ns[0] * 3.0)));
        }
        ratios(&mut report, &WHOLE);
        assert_eq!(report.ratios["ns_a_request_max"], 150.0);
        assert_eq!(report.ratios["instructions_a_request_max"], 450.0);
        assert_eq!(report.ratios["allocations_max"], 0.0);
        assert!((report.ratios["time_growth_over_log_max"] - 0.75).abs() < 1e-9);
    }

    #[test]
    fn recording_is_what_a_trace_adds_within_one_process() {
        let mut report = Report::new("core");
        for (policy, ns) in [(PolicyName::To, 100.0), (PolicyName::Aioli, 150.0)] {
            let case = Case { policy, mix: Mix::Reads, queued: 1_000 };
            let recorded_ns = vec![ns + 40.0, ns + 50.0, ns * 9.0];
            let (ns, event_bytes) = (vec![ns, ns, ns * 9.0], Some(8.0));
            let printed = Printed { ns, requests: 1, allocations: 0, recorded_ns, event_bytes };
            report.rows.extend(recorded_rows(&case, &printed));
        }
        ratios(&mut report, &WHOLE);
        assert_eq!(report.ratios["recording_ns_a_request_max"], 50.0);
        assert_eq!(report.ratios["recording_bytes_an_event_max"], 8.0);
    }

    #[test]
    fn every_policy_is_measured_short_and_long() {
        assert_eq!(cases(&WHOLE).len(), PolicyName::ALL.len() * 2 * 2);
    }
}
