//! iofsl-large, the real half: large messages through a forwarder to the emulated disk.
//!
//! A forwarder receives a message of up to `session.chunk_bytes_max` whole before it schedules and
//! writes it. A longer one it schedules when it arrives, and writes each chunk as it comes. So a
//! message of 1 MiB is sent whole or in chunks by that setting; longer messages always in chunks,
//! whose size, and the pool they pass through, are what can be varied.

use forebay_units::Bytes;
use serde_json::Value;

use super::real::{self, Plan, counted};
use crate::figures::cases::Found;
use crate::peers::Measured;
use crate::report::{Report, Row};
use crate::{Options, table};

const PROCESSES: u64 = 8;

const POOL: Bytes = Bytes::mib(128);
const POOL_SMALL: Bytes = Bytes::mib(8);

const SHORT: Bytes = Bytes::mib(1);
const LONG: Bytes = Bytes::mib(16);

/// Message, chunk, pool.
const CASES: [(Bytes, Bytes, Bytes); 6] = [
    (SHORT, Bytes::mib(1), POOL),
    (SHORT, Bytes::kib(256), POOL),
    (SHORT, Bytes::kib(64), POOL),
    (LONG, Bytes::mib(1), POOL),
    (LONG, Bytes::kib(256), POOL),
    (LONG, Bytes::mib(1), POOL_SMALL),
];

/// What is run; a quick look has the short message, whole and in chunks.
pub(super) fn plan(options: &Options) -> Plan {
    let mut cases = Vec::new();
    for processes in [1, PROCESSES] {
        for (message, chunk, pool) in CASES {
            if options.quick && (message != SHORT || chunk < Bytes::kib(256)) {
                continue;
            }
            let amount = match (options.quick, processes, message) {
                (true, ..) => Bytes::mib(4),
                (false, PROCESSES, SHORT) => Bytes::mib(8),
                (false, ..) => Bytes::mib(16),
            };
            let parameters = parameters(processes, message, chunk, pool);
            let flags = [
                "--scheduler-policy=to".to_owned(),
                format!("--session-chunk-bytes-max={}", chunk.0),
                format!("--pool-bytes={}", pool.0),
            ];
            cases.push(real::case(&parameters, &flags, move |seed| {
                real::segmented_apart(seed, processes, message, amount)
            }));
        }
    }
    let repetitions = options.repetitions.unwrap_or(if options.quick { 1 } else { 3 }).max(1);
    Plan { figure: super::LARGE.name, cases, repetitions }
}

fn parameters(
    processes: u64,
    message: Bytes,
    chunk: Bytes,
    pool: Bytes,
) -> [(&'static str, Value); 4] {
    let transfer = if message <= chunk {
        "whole".to_owned()
    } else {
        format!("chunks of {}", table::bytes(chunk.0 as f64))
    };
    [
        ("processes", processes.into()),
        ("message_bytes", message.0.into()),
        ("transfer", transfer.into()),
        ("pool_bytes", pool.0.into()),
    ]
}

/// Adds rows and ratios.
pub(super) fn findings(report: &mut Report, found: &[Found]) {
    report.set("real_processes", PROCESSES);
    report.rows.extend(found.iter().flat_map(rows));
    let value = |name, processes, (message, chunk, pool)| {
        let mut wanted = vec![(real::REAL.0, Value::from(real::REAL.1))];
        wanted.extend(parameters(processes, message, chunk, pool));
        report.value(name, &wanted)
    };
    let [whole, chunked, _, long, _, long_small_pool] = CASES;
    let over = |name, processes, one, other| {
        Some(value(name, processes, one)? / value(name, processes, other)?)
    };
    let all = PROCESSES;
    let ratios = [
        ("chunked_over_whole_1m_real", over("rate", all, chunked, whole)),
        ("chunked_over_whole_1m_one_real", over("rate", 1, chunked, whole)),
        (
            "forward_latency_chunked_over_whole_1m_one_real",
            over("forward latency", 1, chunked, whole),
        ),
        (
            "completion_spread_chunked_over_whole_1m_real",
            over("completion spread", all, chunked, whole),
        ),
        ("small_pool_over_pool_16m_real", over("rate", all, long_small_pool, long)),
        ("resident_small_pool_over_pool_16m_real", over("resident", all, long_small_pool, long)),
    ];
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
}

fn rows(found: &Found) -> Vec<Row> {
    let mut rows = vec![
        found.row("rate", "MB/s", Measured::throughput),
        found.row("latency", "ms", |run| latency_ms(&times(run), &run.counters)),
        found.row("completion spread", "s", |run| spread(&times(run))),
        found.row("memory", "B", |run| counted(&run.counters, "/pool/peak_bytes")),
        found.row("resident", "B", |run| counted(&run.counters, "/resident_peak_bytes")),
    ];
    if found.parameters.contains(&("processes", 1.into())) {
        rows.insert(1, found.row("forward latency", "ms", idle_ms));
    }
    rows
}

/// Of each process, in seconds.
fn times(run: &Measured) -> Vec<f64> {
    run.jobs.iter().map(|job| job.seconds).collect()
}

/// Of a message, as its process sees it, on average; the sync at the end is shared by all of them.
fn latency_ms(times: &[f64], counters: &Value) -> f64 {
    times.iter().sum::<f64>() * 1e3 / counted(counters, "/calls/writes")
}

/// What the disk is idle for, a message: with one process, the time from a message's sending until
/// the disk works on it, and the pauses between its chunks.
fn idle_ms(run: &Measured) -> f64 {
    let busy = run.disk.busy_share((run.seconds * 1e9) as u64);
    run.seconds * (1.0 - busy) * 1e3 / counted(&run.counters, "/calls/writes")
}

/// Between the first process's end and the last one's.
fn spread(times: &[f64]) -> f64 {
    let (first, last) =
        (times.iter().copied().reduce(f64::min), times.iter().copied().reduce(f64::max));
    last.zip(first).map_or(0.0, |(last, first)| last - first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_message_that_fits_a_chunk_is_sent_whole() {
        let transfer = |(message, chunk, pool)| parameters(1, message, chunk, pool)[2].1.clone();
        assert_eq!(
            CASES.map(transfer)[..3],
            ["whole", "chunks of 256 KiB", "chunks of 64 KiB"].map(Value::from)
        );
    }

    #[test]
    fn a_message_takes_what_its_process_takes_for_it() {
        let times = [1.0, 3.0];
        assert_eq!(latency_ms(&times, &json!({ "calls": { "writes": 4 } })), 1000.0);
        assert_eq!((spread(&times), spread(&[2.0])), (2.0, 0.0));
    }

    #[test]
    fn ratios_are_of_the_same_processes() {
        let mut report = Report::new("x");
        for (processes, mbps) in [(1, [40.0, 10.0]), (PROCESSES, [30.0, 15.0])] {
            for ((message, chunk, pool), mbps) in CASES.into_iter().zip(mbps) {
                let mut circumstances = vec![(real::REAL.0, Value::from(real::REAL.1))];
                circumstances.extend(parameters(processes, message, chunk, pool));
                report.rows.push(Row::median("rate", "MB/s", &circumstances, &[mbps]));
            }
        }
        findings(&mut report, &[]);
        assert_eq!(report.ratios["chunked_over_whole_1m_one_real"], 0.25);
        assert_eq!(report.ratios["chunked_over_whole_1m_real"], 0.5);
        assert_eq!(report.ratios.len(), 2);
    }
}
