//! `aioli06-fig7`: two jobs at once, each of 32 processes that read a file of their own in strides.
//!
//! Asked is whether the jobs end together (the gap of their completion times over the mean), and
//! what running them at once costs against one after the other. It is asked of Forebay as it comes;
//! beside it, at one granularity, are the file system alone, NFS, and Forebay with sharing off.

use forebay_units::{Bytes, Direction};
use serde_json::Value;

use super::aioli::{self, ALL, Way, largest, line, paper_2006};
use super::cases::Case;
use super::{Figure, PaperValue, number, parameter, size_key};
use crate::chart::Chart;
use crate::error::Error;
use crate::peers::workload::{Job, Workload};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;
use crate::{Options, table};

pub(super) const FIGURE: Figure = Figure {
    name: "aioli06-fig7",
    summary: "two jobs of 32 readers at once, a file each: completion times and their gap",
    paper: paper_2006!("figure 7"),
    values: &[
        PaperValue {
            what: "both jobs at the smallest granularity (8 KB), NFS with POSIX calls",
            value: "more than 1 h 30 min",
        },
        PaperValue { what: "the same, NFS with MPI-IO", value: "11 min 30 s" },
        PaperValue { what: "the same, aIOLi with POSIX calls", value: "2 min 35 s" },
        PaperValue {
            what: "gap of the two completion times with aIOLi, at worst",
            value: "8.5 s, at 8 KB (0.055 of 2 min 35 s)",
        },
    ],
    sizes: |options| {
        let Extent { granularities_kib, job_bytes } = Extent::of(options);
        let sizes: Vec<u64> = granularities_kib.iter().map(|kib| kib << 10).collect();
        let (bytes, sizes) = (table::bytes(job_bytes as f64), table::bytes_all(&sizes));
        format!("2 x {bytes} instead of 2 x 4 GB, in reads of {sizes}")
    },
    differs: "64 processes on one machine instead of 32 nodes; the job that runs alone stands for either; \
              the NFS client has no cache, read-ahead or write-behind; the emulation says nothing of \
              networks, and the gap is that of one turn of 10 MiB at the disk, whatever the files hold, so \
              that larger files have a smaller one and those of a quick run a larger one.",
    ratios: &[("gap", PAPER_GAP)],
    beside: |row| {
        let is_it = parameter(row, "run") == BOTH && parameter(row, "job") == ALL;
        let is_it = is_it && parameter(row, "peer") == Way::Forebay.name();
        match (row.name, number(row, "granularity_bytes") == Some(8 << 10) && is_it) {
            ("time", true) => Some(PAPER_BOTH_SECONDS),
            ("gap", true) => Some(PAPER_GAP),
            _ => None,
        }
    },
    run,
    charts,
};

/// With aIOLi and POSIX calls at 8 KB: both jobs, of 8 GB together, and their gap of 8.5 s over that.
const PAPER_BOTH_SECONDS: f64 = 155.0;
const PAPER_GAP: f64 = 8.5 / PAPER_BOTH_SECONDS;
const PAPER_JOB_BYTES: u64 = 4 << 30;

const PROCESSES: u64 = 32;

/// The jobs, their files and what those hold.
const JOBS: [(&str, &str, u64); 2] = [("first", "one", 1), ("second", "two", 2)];
const BOTH: &str = "both";

/// What runs.
const ALONE: &str = "alone";

/// The other ways, at this granularity only.
const MIDDLE_KIB: u64 = 64;

struct Extent {
    granularities_kib: Vec<u64>,
    job_bytes: u64,
}

impl Extent {
    fn of(options: &Options) -> Self {
        if options.quick {
            Self { granularities_kib: vec![64], job_bytes: 32 << 20 }
        } else {
            Self { granularities_kib: vec![8, 64, 1024], job_bytes: 256 << 20 }
        }
    }

    fn ways(kib: u64) -> &'static [Way] {
        match kib {
            MIDDLE_KIB => &[Way::Local, Way::Ganesha, Way::Forebay, Way::Unshared],
            _ => &[Way::Forebay],
        }
    }

    fn cases(&self) -> Vec<Case> {
        let bytes = self.job_bytes;
        let job = move |idx: usize, kib| {
            let (name, file, seed) = JOBS[idx];
            Job::strided(name, Direction::Read, file, seed, PROCESSES, Bytes::kib(kib), bytes)
        };
        let mut cases = Vec::new();
        for kib in &self.granularities_kib {
            let kib = *kib;
            for way in Extent::ways(kib) {
                cases.push(way.case(parameters(BOTH, kib << 10), move |_| Workload {
                    jobs: vec![job(0, kib), job(1, kib)],
                }));
                let alone = move |_| Workload::of(job(0, kib));
                cases.push(way.case(parameters(ALONE, kib << 10), alone));
            }
        }
        cases
    }
}

/// `run` is [`ALONE`] or [`BOTH`].
fn parameters(run: &str, granularity: u64) -> Vec<(&'static str, Value)> {
    vec![("run", run.into()), ("granularity_bytes", granularity.into())]
}

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let extent = Extent::of(options);
    let files = JOBS.map(|(_, file, seed)| (file, seed, extent.job_bytes));
    let (mut report, found) = aioli::run(
        programs,
        options,
        FIGURE.name,
        &files,
        aioli::usual(options, extent.cases()),
        track,
    )?;
    report.set("processes_of_a_job", PROCESSES);
    report.set("paper_size_over_ours", PAPER_JOB_BYTES / extent.job_bytes);
    report.rows = found.iter().flat_map(aioli::times).collect();
    report.rows.extend(found.iter().flat_map(aioli::disk_rows));
    // The gap is of one run: the medians of two times may be of two runs.
    for both in found.iter().filter(|found| found.parameters[0].1 == BOTH) {
        let mut row = both.row("gap", "", |run| gap(run.jobs[0].seconds, run.jobs[1].seconds));
        row.parameters.push(("job", ALL.into()));
        report.rows.push(row);
    }
    let sizes: Vec<u64> = extent.granularities_kib.iter().map(|kib| kib << 10).collect();
    findings(&mut report, &sizes);
    Ok(report)
}

/// How far apart two completion times are, over their mean.
fn gap(first: f64, second: f64) -> f64 {
    (first - second).abs() / ((first + second) / 2.0)
}

fn value(report: &Report, what: &str, run: &str, size: u64, way: Way, job: &str) -> Option<f64> {
    let mut parameters = parameters(run, size);
    parameters.extend([("peer", way.name().into()), ("job", job.into())]);
    report.value(what, &parameters)
}

/// Both at once over one after the other, each as one is alone.
fn over_serial(report: &Report, size: u64, way: Way) -> Option<f64> {
    let alone = value(report, "time", ALONE, size, way, ALL)?;
    Some(value(report, "time", BOTH, size, way, ALL)? / (2.0 * alone))
}

fn findings(report: &mut Report, sizes: &[u64]) {
    let gap = |way, size: &u64| value(report, "gap", BOTH, *size, way, ALL);
    let all = |way| sizes.iter().map(move |size| gap(way, size));
    let serial = |way| largest(sizes.iter().map(|size| over_serial(report, *size, way)));
    let makespan = |way, size: u64| value(report, "time", BOTH, size, way, ALL);
    let mut ratios = vec![
        ("gap".to_owned(), largest(all(Way::Forebay))),
        ("makespan_over_serial".to_owned(), serial(Way::Forebay)),
    ];
    let middle = MIDDLE_KIB << 10;
    for way in [Way::Local, Way::Ganesha, Way::Unshared] {
        let (way_key, size) = (way.name().replace('-', "_"), size_key(middle));
        ratios.push((format!("{way_key}_gap_{size}"), gap(way, &middle)));
        let serial = over_serial(report, middle, way);
        ratios.push((format!("{way_key}_makespan_over_serial_{size}"), serial));
    }
    for other in [Way::Local, Way::Ganesha] {
        let over = makespan(Way::Forebay, middle).zip(makespan(other, middle));
        let key = format!("makespan_over_{}_{}", other.name(), size_key(middle));
        ratios.push((key, over.map(|(ours, theirs)| ours / theirs)));
    }
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let mut sizes: Vec<u64> = report
        .rows
        .iter()
        .filter_map(|row| row.parameters.iter().find(|(name, _)| *name == "granularity_bytes"))
        .filter_map(|(_, value)| value.as_u64())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let serial = sizes
        .iter()
        .map(|size| Some(2.0 * value(report, "time", ALONE, *size, Way::Forebay, ALL)?));
    let mut series = vec![line("one after the other", true, serial)];
    if let Some(scale) = report.settings.get("paper_size_over_ours").and_then(Value::as_f64) {
        let paper = |size: &u64| (*size == 8 << 10).then_some(PAPER_BOTH_SECONDS / scale);
        let name = format!("paper: aIOLi, over {scale}");
        series.push(line(name, false, sizes.iter().map(paper)));
    }
    for way in [Way::Forebay, Way::Local, Way::Ganesha] {
        for (number, (job, ..)) in (1..).zip(JOBS) {
            let times = sizes.iter().map(|size| value(report, "time", BOTH, *size, way, job));
            series.push(line(format!("{}: {number}", way.legend()), false, times));
        }
    }
    let chart = Chart {
        title: "two jobs of 32 readers at once".to_owned(),
        subtitle: "completion time in s of job 1 and of job 2 against the size of one read; emulated disk, \
                   mq-deadline, depth 4, read-ahead 128 KiB"
            .to_owned(),
        x_labels: sizes.iter().map(|size| table::bytes(*size as f64)).collect(),
        y_label: "s".to_owned(),
        series,
    };
    vec![("", chart)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    fn made_up(rows: &[(&'static str, &str, u64, Way, &str, f64)]) -> Report {
        let mut report = Report::new(FIGURE.name);
        for (what, run, kib, way, job, number) in rows {
            let mut parameters = parameters(run, kib << 10);
            parameters.extend([("peer", way.name().into()), ("job", (*job).into())]);
            report.rows.push(Row::median(what, "", &parameters, &[*number]));
        }
        report
    }

    #[test]
    fn the_gap_is_over_the_mean_whoever_is_first() {
        assert_eq!(gap(9.0, 11.0), 0.2);
        assert_eq!(gap(11.0, 9.0), 0.2);
        assert_eq!(gap(3.0, 3.0), 0.0);
    }

    #[test]
    fn both_at_once_are_compared_with_one_after_the_other() {
        let mut report = made_up(&[
            ("time", ALONE, 64, Way::Forebay, ALL, 2.5),
            ("time", BOTH, 64, Way::Forebay, ALL, 6.0),
            ("gap", BOTH, 64, Way::Forebay, ALL, 0.01),
            ("time", BOTH, 64, Way::Local, ALL, 12.0),
        ]);
        findings(&mut report, &[64 << 10]);
        assert_eq!(report.ratios["makespan_over_serial"], 1.2);
        assert_eq!(report.ratios["gap"], 0.01);
        assert_eq!(report.ratios["makespan_over_local_64k"], 0.5);
        assert!(!report.ratios.contains_key("local_makespan_over_serial_64k"));
    }

    #[test]
    fn one_job_is_run_alone_wherever_both_are() {
        let cases = Extent::of(&Options::default()).cases();
        for both in cases.iter().filter(|case| case.parameters[0].1 == BOTH) {
            let alone = cases.iter().any(|case| {
                case.parameters[0].1 == ALONE && case.parameters[1..] == both.parameters[1..]
            });
            assert!(alone, "{:?}", both.parameters);
            let workload = (both.workload)(0);
            assert_eq!(workload.jobs.len(), 2);
            assert_ne!(workload.jobs[0].accesses[0].file, workload.jobs[1].accesses[0].file);
        }
    }
}
