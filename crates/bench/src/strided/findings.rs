//! What the runs of a strided suite come to: rows, ratios, notes, and the plot's lines.

use serde_json::Value;

use super::Measured;
use super::plan::{AUTO, Case, FLASH, POLICIES, SEQUENTIAL};
use crate::chart::{Chart, Series};
use crate::report::{Report, Row, median};
use crate::table;

/// Below this share of what the disk gives without scheduling, a policy has lost.
const LOSS: f64 = 0.9;

/// Calls for which the store beneath the model may be the slower one, as a share of all.
const LATE_MAX: f64 = 0.02;

/// Adds everything to the report.
pub(super) fn report(report: &mut Report, cases: &[Case], measured: &[Measured]) {
    report.rows = cases.iter().flat_map(|case| rows(case, measured)).collect();
    report.raw = measured.iter().map(Measured::raw).collect();
    let sizes = sizes(report);
    let best = sequential(report, &sizes).reduce(f64::max);
    for policy in POLICIES {
        let key = policy.replace('-', "_");
        let least = |other| least_over(report, &sizes, policy, other).map(|(over, _)| over);
        let (over_sequential, over_to) = (least(SEQUENTIAL), least("to"));
        report.ratio(format!("{key}_over_sequential_min"), over_sequential);
        let over_best =
            least_of(report, &sizes, policy).zip(best).map(|(least, best)| least / best);
        report.ratio(format!("{key}_over_best_sequential_min"), over_best);
        if policy != "to" {
            report.ratio(format!("{key}_over_to_min"), over_to);
            let at_8k = throughput_over(report, 8192, policy, "to");
            report.ratio(format!("{key}_over_to_8k"), at_8k);
        }
    }
    let choosing =
        DEVICE_PREFIXES.iter().filter_map(|prefix| auto_over_best(report, &sizes, prefix));
    let choosing: Vec<Choosing> = choosing.collect();
    let over = |prefix: &str| {
        let own = choosing.iter().filter(|found| found.prefix == prefix);
        own.map(|found| found.over).reduce(f64::min)
    };
    let (least, disk, flash) =
        (choosing.iter().map(|found| found.over).reduce(f64::min), over(""), over(SSD));
    report.ratio("auto_over_best_fixed_min", least);
    report.ratio("auto_over_best_fixed_min_hdd", disk);
    report.ratio("auto_over_best_fixed_min_ssd", flash);
    report.notes = losses(report, &sizes);
    report.notes.extend(choosing.iter().map(Choosing::note));
    report.notes.extend(slow_reference(report, &sizes));
    report.notes.extend(lateness(measured));
}

/// The rows of one case: the medians over its repetitions.
fn rows(case: &Case, measured: &[Measured]) -> Vec<Row> {
    let parameters = [
        ("granularity_bytes", Value::from(case.granularity.0)),
        ("policy", Value::from(case.policy)),
    ];
    let of = |policy, value: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        let own = |result: &&Measured| {
            let Case { device, policy: run, granularity, .. } = result.case;
            run == policy && granularity == case.granularity && device == case.device
        };
        measured.iter().filter(own).map(value).collect()
    };
    let row = |name, unit, value: &dyn Fn(&Measured) -> f64| {
        Row::median(name, unit, &parameters, &of(case.policy, value))
    };
    let requests = (case.bytes() / case.granularity.0) as f64;
    if case.device == FLASH {
        return vec![
            row("ssd_throughput", "MB/s", &Measured::throughput),
            row("ssd_batch_requests", "requests", &|result| requests / result.dispatches()),
            row("ssd_elapsed", "s", &|result| result.seconds),
        ];
    }
    let mut rows = vec![row("throughput", "MB/s", &Measured::throughput)];
    let reference = of(SEQUENTIAL, &Measured::throughput);
    if !reference.is_empty() {
        let over = median(&of(case.policy, &Measured::throughput)) / median(&reference);
        rows.push(Row::median("over_sequential", "ratio", &parameters, &[over]));
    }
    rows.extend([
        row("batch_requests", "requests", &|result| requests / result.dispatches()),
        row("batch_bytes", "B", &|result| case.bytes() as f64 / result.dispatches()),
        row("store_calls", "calls", &|result| result.status.calls.store_calls as f64),
        row("seeks", "seeks", &|result| result.counter("seeks")),
        row("elapsed", "s", &|result| result.seconds),
    ]);
    rows
}

/// What the names of rows of the device of flash begin with.
const SSD: &str = "ssd_";
/// Of every device.
const DEVICE_PREFIXES: [&str; 2] = ["", SSD];

/// Where policy `auto` was farthest behind the best of the others on a device.
struct Choosing {
    prefix: &'static str,
    over: f64,
    size: u64,
    best: &'static str,
}

impl Choosing {
    fn note(&self) -> String {
        let Self { prefix, over, size, best } = self;
        let device = if *prefix == SSD { "flash" } else { "the disk" };
        let size = table::bytes(*size as f64);
        format!("auto on {device}: {over:.2} of the best fixed policy at worst, at {size} ({best})")
    }
}

fn auto_over_best(report: &Report, sizes: &[u64], prefix: &'static str) -> Option<Choosing> {
    let throughput = |size: u64, policy: &str| {
        let parameters = [("granularity_bytes", size.into()), ("policy", policy.into())];
        report.value(&format!("{prefix}throughput"), &parameters)
    };
    let at = |size: &u64| {
        let fixed = POLICIES.into_iter().filter(|policy| *policy != AUTO);
        let fixed = fixed.filter_map(|policy| Some((policy, throughput(*size, policy)?)));
        let (best, most) = fixed.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Choosing { prefix, over: throughput(*size, AUTO)? / most, size: *size, best })
    };
    sizes.iter().filter_map(at).min_by(|a, b| a.over.total_cmp(&b.over))
}

/// The granularities in the report, rising.
fn sizes(report: &Report) -> Vec<u64> {
    let mut sizes: Vec<u64> =
        report.rows.iter().filter_map(|row| row.parameters.first()?.1.as_u64()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn throughput(report: &Report, size: u64, policy: &str) -> Option<f64> {
    report.value("throughput", &[("granularity_bytes", size.into()), ("policy", policy.into())])
}

fn throughput_over(report: &Report, size: u64, policy: &str, other: &str) -> Option<f64> {
    Some(throughput(report, size, policy)? / throughput(report, size, other)?)
}

/// The smallest ratio over all granularities, and at which.
fn least_over(report: &Report, sizes: &[u64], policy: &str, other: &str) -> Option<(f64, u64)> {
    let ratios =
        sizes.iter().map(|size| Some((throughput_over(report, *size, policy, other)?, *size)));
    ratios.collect::<Option<Vec<_>>>()?.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The reference at every granularity.
fn sequential(report: &Report, sizes: &[u64]) -> impl Iterator<Item = f64> {
    sizes.iter().filter_map(|size| throughput(report, *size, SEQUENTIAL))
}

/// The smallest throughput of a policy.
fn least_of(report: &Report, sizes: &[u64], policy: &str) -> Option<f64> {
    sizes.iter().filter_map(|size| throughput(report, *size, policy)).reduce(f64::min)
}

/// A reference that is slow itself flatters whoever is compared with it.
fn slow_reference(report: &Report, sizes: &[u64]) -> Option<String> {
    let best = sequential(report, sizes).reduce(f64::max)?;
    let least = sequential(report, sizes).reduce(f64::min)?;
    (least < best * LOSS).then(|| {
        format!(
            "one sequential process came to {least:.1} MB/s at worst, {best:.1} at best: \
             *_over_best_sequential_min compares with the latter"
        )
    })
}

/// Who is worse than no scheduling, and where.
fn losses(report: &Report, sizes: &[u64]) -> Vec<String> {
    let mut losses = Vec::new();
    for policy in POLICIES {
        for size in sizes {
            let over = throughput_over(report, *size, policy, "to").unwrap_or(1.0);
            if over < LOSS {
                let (percent, size) = ((1.0 - over) * 100.0, table::bytes(*size as f64));
                losses.push(format!("{policy} loses {percent:.0} % to no scheduling at {size}"));
            }
        }
    }
    if losses.is_empty() {
        losses.push(
            "no policy loses more than 10 % to no scheduling (to) at any granularity".to_owned(),
        );
    }
    losses
}

/// Whether the machine kept up with the disk that it played. A lone reader whose data the drive has
/// read ahead is served faster than any store could, and waits for nothing else.
fn lateness(measured: &[Measured]) -> Option<String> {
    let crowds = || measured.iter().filter(|result| !result.case.is_sequential());
    let sum = |name| crowds().map(|result| result.counter(name)).sum::<f64>();
    let (late, calls) = (sum("store_late"), sum("device_requests"));
    (late > calls * LATE_MAX).then(|| {
        format!("the machine was slower than the modelled disk for {late} of {calls} calls: it was busy otherwise")
    })
}

/// Throughput against granularity, a line for each policy.
pub(crate) fn chart(report: &Report) -> Option<Chart> {
    let (verb, noun) = match report.suite.as_str() {
        "strided-read" => ("read", "reader"),
        "strided-write" => ("write", "writer"),
        _ => return None,
    };
    let sizes = sizes(report);
    let line = |policy: &str, name: &str, is_reference| {
        let points = sizes.iter().enumerate();
        let points =
            points.filter_map(|(idx, size)| Some((idx as f64, throughput(report, *size, policy)?)));
        Series { name: name.to_owned(), points: points.collect(), is_reference }
    };
    let mut series = vec![line(SEQUENTIAL, &format!("one sequential {noun}"), true)];
    let best_first = [AUTO, "aioli", "hbrr", "mlf", "sjf", "to-agg", "to"];
    series.extend(best_first.iter().map(|policy| line(policy, name(policy), false)));
    Some(Chart {
        title: format!("32 processes {verb} one file in interleaved strides"),
        subtitle: format!(
            "throughput in MB/s (10^6 bytes) against the size of one {verb}; modelled {}",
            report.settings.get("device").and_then(Value::as_str).unwrap_or("disk")
        ),
        x_labels: sizes.iter().map(|size| table::bytes(*size as f64)).collect(),
        y_label: "MB/s".to_owned(),
        series,
    })
}

/// A policy as the papers write it.
fn name(policy: &str) -> &str {
    match policy {
        "to" => "TO (no scheduling)",
        "to-agg" => "TO-agg",
        "sjf" => "SJF",
        "mlf" => "MLF",
        "aioli" => "aIOLi",
        "hbrr" => "HBRR",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strided::plan::DISK;
    use forebay_units::Bytes;

    /// A made-up run at `mbps`.
    fn measured(policy: &'static str, kib: u64, mbps: f64) -> Measured {
        measured_on(DISK, policy, kib, mbps)
    }

    fn measured_on(device: &'static str, policy: &'static str, kib: u64, mbps: f64) -> Measured {
        let case = Case { device, policy, granularity: Bytes::kib(kib), rounds: 4 };
        let mut status = forebay_forwarder::status::Status::default();
        // 128 requests, of which 8 went past the policy.
        (status.scheduler.batches, status.scheduler.batched_requests) = (8, 120);
        status.store_counters.insert("seeks".into(), 3);
        Measured { case, seconds: case.bytes() as f64 / mbps / 1e6, status }
    }

    fn made_up() -> Report {
        let mut results = Vec::new();
        for kib in [8, 64] {
            results.push(measured(SEQUENTIAL, kib, 50.0));
            results.extend(
                POLICIES
                    .map(|policy| measured(policy, kib, if policy == "to" { 2.0 } else { 45.0 })),
            );
        }
        let aioli = results.iter_mut().rfind(|result| result.case.policy == "aioli");
        *aioli.unwrap() = measured("aioli", 64, 1.5);
        let cases: Vec<Case> = results.iter().map(|result| result.case).collect();
        let mut made_up = Report::new("strided-read");
        report(&mut made_up, &cases, &results);
        made_up
    }

    #[test]
    fn ratios_are_the_worst_over_all_granularities() {
        let report = made_up();
        let near = |name: &str, expected: f64| (report.ratios[name] - expected).abs() < 1e-9;
        assert!(near("aioli_over_sequential_min", 0.03), "{:?}", report.ratios);
        assert!(near("aioli_over_to_8k", 22.5) && near("aioli_over_to_min", 0.75));
        assert!(near("to_agg_over_to_min", 22.5) && near("to_over_sequential_min", 0.04));
    }

    #[test]
    fn a_slow_reference_is_told_and_cannot_flatter() {
        let results = [
            measured(SEQUENTIAL, 8, 20.0),
            measured("aioli", 8, 40.0),
            measured(SEQUENTIAL, 64, 50.0),
            measured("aioli", 64, 50.0),
        ];
        let cases = results.each_ref().map(|result| result.case);
        let mut made_up = Report::new("strided-read");
        report(&mut made_up, &cases, &results);
        assert_eq!(made_up.ratios["aioli_over_sequential_min"], 1.0);
        assert!((made_up.ratios["aioli_over_best_sequential_min"] - 0.8).abs() < 1e-9);
        assert!(
            made_up.notes[1].contains("20.0 MB/s at worst, 50.0 at best"),
            "{:?}",
            made_up.notes
        );
    }

    #[test]
    fn a_loser_is_named_with_its_place() {
        let notes = made_up().notes;
        assert_eq!(notes[0], "aioli loses 25 % to no scheduling at 64 KiB");
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn the_choice_is_compared_with_the_best_at_each_place_of_each_device() {
        let on = |device, policy, kib, mbps| measured_on(device, policy, kib, mbps);
        let results = [
            on(DISK, "to", 8, 10.0),
            on(DISK, "sjf", 8, 40.0),
            on(DISK, AUTO, 8, 39.0),
            on(DISK, "to", 64, 50.0),
            on(DISK, "sjf", 64, 40.0),
            on(DISK, AUTO, 64, 55.0),
            on(FLASH, "to", 64, 200.0),
            on(FLASH, "sjf", 64, 150.0),
            on(FLASH, AUTO, 64, 180.0),
        ];
        let cases = results.each_ref().map(|result| result.case);
        let mut made_up = Report::new("strided-write");
        report(&mut made_up, &cases, &results);
        let near = |name: &str, value: f64| (made_up.ratios[name] - value).abs() < 1e-9;
        assert!(near("auto_over_best_fixed_min_hdd", 39.0 / 40.0), "{:?}", made_up.ratios);
        assert!(near("auto_over_best_fixed_min_ssd", 0.9));
        assert!(near("auto_over_best_fixed_min", 0.9));
        let notes = made_up.notes.join("\n");
        assert!(notes.contains("auto on flash: 0.90 of the best fixed policy"), "{notes}");
        assert!(notes.contains("at 64 KiB (to)"), "{notes}");
    }

    #[test]
    fn a_row_tells_batches_seeks_and_the_ratio() {
        let report = made_up();
        let of = |name| {
            report.value(name, &[("granularity_bytes", 8192.into()), ("policy", "sjf".into())])
        };
        assert_eq!((of("batch_requests"), of("batch_bytes")), (Some(8.0), Some(65536.0)));
        assert_eq!((of("seeks"), of("over_sequential")), (Some(3.0), Some(0.9)));
    }

    #[test]
    fn the_plot_has_a_line_for_each_policy_and_the_reference() {
        let chart = chart(&made_up()).unwrap();
        assert_eq!(chart.series.len(), 1 + POLICIES.len());
        assert!(chart.series.iter().all(|series| series.points.len() == 2));
        assert_eq!(chart.x_labels, ["8 KiB", "64 KiB"]);
    }
}
