//! What stands beside the table: what statistics and traces add, and what a queued request takes.

use serde::Deserialize;
use serde_json::json;

use super::Extent;
use super::cell::{COLUMNS, Column, Row as Policy, work_arguments};
use super::driver::Drivers;
use crate::error::Error;
use crate::progress::Track;
use crate::report::{Report, Row, median};

/// Column of the overheads: one producer, so that nothing but the library's own work is timed.
const OVERHEAD_COLUMN: usize = 1;

#[derive(Clone, Copy, Debug)]
pub(super) enum Case {
    /// What accounts by class and file add, and what a trace does.
    Overhead(Policy),
    /// Bytes a queued request: of requests that merge, or with gaps between any two.
    Memory(Policy, Gaps),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    None,
    Everywhere,
}

#[derive(Debug, Deserialize)]
struct Overhead {
    plain_ns: Vec<f64>,
    accounts_ns: Vec<f64>,
    trace_ns: Vec<f64>,
    events: u64,
    lost: u64,
}

#[derive(Debug, Deserialize)]
struct Memory {
    queued_bytes: u64,
}

pub(super) fn cases() -> Vec<Case> {
    let overheads = Policy::ALL.map(Case::Overhead);
    let memory = Policy::ALL
        .into_iter()
        .flat_map(|policy| [Gaps::None, Gaps::Everywhere].map(|gaps| Case::Memory(policy, gaps)));
    overheads.into_iter().chain(memory).collect()
}

pub(super) fn run(
    drivers: &Drivers,
    cases: &[Case],
    extent: &Extent,
    report: &mut Report,
    track: &mut Track<'_>,
) -> Result<(), Error> {
    for case in cases {
        let rows = match *case {
            Case::Overhead(policy) => overhead(drivers, policy, extent, report)?,
            Case::Memory(policy, gaps) => memory(drivers, policy, gaps, extent)?,
        };
        let said: Vec<String> =
            rows.iter().map(|row| format!("{} {:.1} {}", row.name, row.value, row.unit)).collect();
        track.case(1.0, format!("{case:?}  {}", said.join("  ")));
        report.rows.extend(rows);
    }
    let largest = |name: &str| {
        let rows = report.rows.iter().filter(|row| row.name == name);
        rows.map(|row| row.value).reduce(f64::max)
    };
    let found = ["accounts_overhead", "trace_overhead", "queued"].map(largest);
    report.ratio("accounts_overhead_percent_max", found[0]);
    report.ratio("trace_overhead_percent_max", found[1]);
    report.ratio("bytes_a_queued_request_max", found[2]);
    Ok(())
}

fn overhead(
    drivers: &Drivers,
    policy: Policy,
    extent: &Extent,
    report: &mut Report,
) -> Result<Vec<Row>, Error> {
    let mut arguments = work_arguments(policy, &COLUMNS[OVERHEAD_COLUMN], extent.requests / 2);
    arguments.extend(["mode=overhead".to_owned(), format!("rounds={}", extent.rounds)]);
    let printed: Overhead = drivers.forebay(&arguments)?;
    let parameters = [("policy", json!(policy.as_str()))];
    let row = |name, with: &[f64]| {
        let added: Vec<f64> = with
            .iter()
            .zip(&printed.plain_ns)
            .map(|(with, plain)| (with / plain - 1.0) * 100.0)
            .collect();
        Row::median(name, "%", &parameters, &added)
    };
    let rows = vec![
        row("accounts_overhead", &printed.accounts_ns),
        row("trace_overhead", &printed.trace_ns),
    ];
    if printed.lost > 0 {
        report.notes.push(format!(
            "the trace under {} lost {} of {} events: the disk was too slow",
            policy.as_str(),
            printed.lost,
            printed.events + printed.lost
        ));
    }
    report.raw.push(json!({
        "policy": policy.as_str(), "plain_ns": printed.plain_ns, "accounts_ns": printed.accounts_ns,
        "trace_ns": printed.trace_ns, "plain_median_ns": median(&printed.plain_ns),
        "events": printed.events, "lost": printed.lost,
    }));
    Ok(rows)
}

fn memory(
    drivers: &Drivers,
    policy: Policy,
    gaps: Gaps,
    extent: &Extent,
) -> Result<Vec<Row>, Error> {
    let work = Column { files: 32, producers: 1, window: extent.requests, pieces: None };
    let mut arguments = work_arguments(policy, &work, extent.requests);
    let (between, pattern) = match gaps {
        Gaps::None => (0, "contiguous"),
        Gaps::Everywhere => (1, "with gaps"),
    };
    arguments.extend(["mode=memory".to_owned(), format!("gaps={between}")]);
    let printed: Memory = drivers.forebay(&arguments)?;
    let parameters = [
        ("policy", json!(policy.as_str())),
        ("files", json!(work.files)),
        ("pattern", json!(pattern)),
        ("queued", json!(extent.requests)),
    ];
    let each = printed.queued_bytes as f64 / extent.requests as f64;
    Ok(vec![Row::median("queued", "bytes/request", &parameters, &[each])])
}
