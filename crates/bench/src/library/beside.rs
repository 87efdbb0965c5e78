//! What stands beside the table: what statistics and traces add, and what a queued request takes.
//!
//! What they add is a few tens of nanoseconds a request, far less than a machine's speed changes from
//! one second to the next. So the work is done in slices of some milliseconds, in turns with and
//! without, there and back again, in one process, and each round gives one ratio. Where things lie in
//! memory changes a process's ratios by as much again, so there are several processes. What is told is
//! the median of their medians, and between which of them it lies with a probability of 95 in 100.
//! Beside it stand the instructions that are added, which no neighbour disturbs.

use serde::Deserialize;
use serde_json::{Value, json};

use super::cell::{COLUMNS, Column, Row as Policy, work_arguments};
use super::driver::Drivers;
use super::{COUNTER, Extent};
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

impl Overhead {
    /// What a way adds in this process, in percent.
    fn added(&self, way: usize) -> f64 {
        let with = [&self.plain_ns, &self.accounts_ns, &self.trace_ns][way];
        let ratios = with.iter().zip(&self.plain_ns).map(|(with, plain)| with / plain);
        (median(&ratios.collect::<Vec<_>>()) - 1.0) * 100.0
    }
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
    let values = |name: &str| -> Vec<f64> {
        report.rows.iter().filter(|row| row.name == name).map(|row| row.value).collect()
    };
    let largest = |values: Vec<f64>| values.into_iter().reduce(f64::max);
    let [accounts, trace] = WAYS.map(values);
    let queued = largest(values("queued"));
    report.ratio("accounts_overhead_percent_median", Some(median(&accounts)));
    report.ratio("trace_overhead_percent_median", Some(median(&trace)));
    report.ratio("accounts_overhead_percent_max", largest(accounts));
    report.ratio("trace_overhead_percent_max", largest(trace));
    report.ratio("bytes_a_queued_request_max", queued);
    Ok(())
}

/// By the driver's numbers.
const PLAIN: usize = 0;
const WAYS: [&str; 2] = ["accounts_overhead", "trace_overhead"];

fn overhead(
    drivers: &Drivers,
    policy: Policy,
    extent: &Extent,
    report: &mut Report,
) -> Result<Vec<Row>, Error> {
    let work = |requests| work_arguments(policy, &COLUMNS[OVERHEAD_COLUMN], requests);
    let mut processes = Vec::new();
    for process in 0..extent.processes {
        let mut arguments = work(extent.slice);
        let first = process % (1 + WAYS.len());
        arguments.extend(["mode=overhead".to_owned(), format!("way={first}")]);
        arguments.push(format!("rounds={}", extent.rounds));
        processes.push(drivers.forebay::<Overhead>(&arguments)?);
    }
    let count = |way: usize| {
        let mut arguments = work(extent.requests_counted);
        arguments.extend(["mode=count".to_owned(), format!("way={way}")]);
        drivers.count(&arguments).map(|count| count / extent.requests_counted as f64)
    };
    let is_counted = report.settings.get(COUNTER).is_some_and(Value::is_string);
    let plain = is_counted.then(|| count(PLAIN)).transpose()?;
    let mut rows = Vec::new();
    for (way, name) in (PLAIN + 1..).zip(WAYS) {
        let added: Vec<f64> = processes.iter().map(|process| process.added(way)).collect();
        let (low, high) = interval(&added);
        let mut row =
            Row::median(name, "%", &[("policy", json!(policy.as_str()))], &[median(&added)]);
        row.beside.extend([("median_from", json!(low)), ("median_to", json!(high))]);
        if let Some(plain) = plain {
            let added = count(way)? - plain;
            row.beside
                .extend([("instructions", json!(plain)), ("instructions_added", json!(added))]);
        }
        rows.push(row);
    }
    for printed in &processes {
        if printed.lost > 0 {
            report.notes.push(format!(
                "the trace under {} lost {} of {} events: the disk was too slow",
                policy.as_str(),
                printed.lost,
                printed.events + printed.lost
            ));
        }
        report.raw.push(json!({
            "policy": policy.as_str(), "plain_ns": printed.plain_ns,
            "accounts_ns": printed.accounts_ns, "trace_ns": printed.trace_ns,
            "events": printed.events, "lost": printed.lost,
        }));
    }
    Ok(rows)
}

/// Between which results the median lies in 95 of 100 cases, whatever the distribution: the order
/// statistics at n/2 ∓ 0.98 √n.
fn interval(results: &[f64]) -> (f64, f64) {
    let mut sorted = results.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (middle, half) = (sorted.len() as f64 / 2.0, 0.98 * (sorted.len() as f64).sqrt());
    let low = (middle - half).floor().max(0.0) as usize;
    let high = ((middle + half).ceil() as usize).min(sorted.len() - 1);
    (sorted[low], sorted[high])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_leaves_out_what_is_far_from_the_middle() {
        let mut results: Vec<f64> = (0..100).map(f64::from).collect();
        results[99] = 1e9;
        assert_eq!(interval(&results), (40.0, 60.0));
        assert_eq!(interval(&[3.0, 1.0, 2.0]), (1.0, 3.0), "few results, and all of them");
    }
}
