//! `aioli06-fig6`: a `cat` of 16 MiB beside 32 processes that read one file in strides.
//!
//! Each is also run alone, each way, so that what one does to the other is a ratio of the same run
//! of the bench. What is asked of Forebay is asked of it as it comes; beside it, at one granularity,
//! are the file system alone, NFS, and Forebay with sharing off.

use std::time::Duration;

use forebay_units::{Bytes, Direction};
use serde_json::Value;

use super::aioli::{self, Way, largest, line, paper_2006, smallest};
use super::cases::{Case, Found};
use super::{Figure, PaperValue, parameter, size_key};
use crate::chart::Chart;
use crate::error::Error;
use crate::peers::workload::{Job, Workload};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;
use crate::{Options, table};

pub(super) const FIGURE: Figure = Figure {
    name: "aioli06-fig6",
    summary: "a cat of 16 MiB beside 32 readers of one file: both completion times",
    paper: paper_2006!("figure 6"),
    values: &[
        PaperValue { what: "the cat alone, 16 MB in reads of 32 KB", value: "about 2 s" },
        PaperValue {
            what: "with aIOLi, both programs against NFS, POSIX calls",
            value: "both faster (curves on a log scale, no numbers)",
        },
        PaperValue {
            what: "at small granularities",
            value: "the parallel program gains more than the cat",
        },
    ],
    sizes: |options| {
        let Extent { job_bytes, granularities_kib } = Extent::of(options);
        let sizes: Vec<u64> = granularities_kib.iter().map(|kib| kib << 10).collect();
        let (bytes, sizes) = (table::bytes(job_bytes as f64), table::bytes_all(&sizes));
        format!(
            "the job reads {bytes} in pieces of {sizes} from one machine instead of 4 GB from 32"
        )
    },
    differs: "the cat starts after 1 s instead of 15 s; where it starts in the job's sweep is chance, the NFS \
              client has no cache, read-ahead or write-behind, and with one disk, one machine and no \
              network the emulation says nothing of what a server's processors or links would add to \
              either.",
    ratios: &[],
    beside: |row| {
        let is_cat = row.name == "time" && parameter(row, "run") == CAT;
        (is_cat && parameter(row, "job") == CAT).then_some(PAPER_CAT_SECONDS)
    },
    run,
    charts,
};

/// "Alone, it completes in roughly 2s".
const PAPER_CAT_SECONDS: f64 = 2.0;

const PROCESSES: u64 = 32;
const JOB: &str = "job";
const CAT: &str = "cat";
const JOB_FILE: (&str, u64) = ("shared", 1);
const CAT_FILE: (&str, u64) = ("small", 2);
const CAT_BYTES: u64 = 16 << 20;
const CAT_BLOCK: Bytes = Bytes::kib(32);
const CAT_AFTER: Duration = Duration::from_secs(1);

/// What runs together.
const ALONE: &str = "alone";
const BESIDE: &str = "beside";

/// The other ways, at this granularity only.
const MIDDLE_KIB: u64 = 64;

struct Extent {
    granularities_kib: Vec<u64>,
    job_bytes: u64,
}

impl Extent {
    fn of(options: &Options) -> Self {
        // The cat is 16 MiB in any case: beside a job of less than 9 times as much, a job that
        // lost nothing but the cat's bytes would already be a tenth slower.
        let granularities_kib = if options.quick { vec![64] } else { vec![8, 64, 1024] };
        Self { granularities_kib, job_bytes: 192 << 20 }
    }

    fn ways(kib: u64) -> &'static [Way] {
        match kib {
            MIDDLE_KIB => &[Way::Local, Way::Ganesha, Way::Forebay, Way::ForebayTcp, Way::Unshared],
            _ => &[Way::Forebay],
        }
    }

    fn cases(&self) -> Vec<Case> {
        let job_bytes = self.job_bytes;
        let job = move |kib| {
            let (file, seed) = JOB_FILE;
            let block = Bytes::kib(kib);
            Job::strided(JOB, Direction::Read, file, seed, PROCESSES, block, job_bytes)
        };
        let cat = || {
            let (file, seed) = CAT_FILE;
            Job::sequential(CAT, Direction::Read, file, seed, CAT_BLOCK, CAT_BYTES)
        };
        let mut cases: Vec<Case> = Extent::ways(MIDDLE_KIB)
            .iter()
            .map(|way| way.case(parameters(CAT, CAT_BLOCK.0), move |_| Workload::of(cat())))
            .collect();
        for kib in &self.granularities_kib {
            let kib = *kib;
            for way in Extent::ways(kib) {
                cases.push(way.case(parameters(ALONE, kib << 10), move |_| Workload::of(job(kib))));
                cases.push(way.case(parameters(BESIDE, kib << 10), move |_| Workload {
                    jobs: vec![job(kib), cat().after(CAT_AFTER)],
                }));
            }
        }
        cases
    }
}

fn parameters(run: &str, granularity: u64) -> Vec<(&'static str, Value)> {
    vec![("run", run.into()), ("granularity_bytes", granularity.into())]
}

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let extent = Extent::of(options);
    let files = [(JOB_FILE.0, JOB_FILE.1, extent.job_bytes), (CAT_FILE.0, CAT_FILE.1, CAT_BYTES)];
    let (mut report, found) = aioli::run(
        programs,
        options,
        FIGURE.name,
        &files,
        aioli::usual(options, extent.cases()),
        track,
    )?;
    report.set("processes", PROCESSES);
    report.set("cat_block_bytes", CAT_BLOCK.0);
    report.set("cat_after_seconds", CAT_AFTER.as_secs_f64());
    report.rows = found.iter().flat_map(aioli::times).collect();
    report.rows.extend(found.iter().flat_map(aioli::disk_rows));
    findings(&mut report, &sizes(&found));
    Ok(report)
}

fn sizes(found: &[Found]) -> Vec<u64> {
    let beside = found.iter().filter(|found| found.parameters[0].1 == BESIDE);
    let mut sizes: Vec<u64> = beside.filter_map(|found| found.parameters[1].1.as_u64()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn seconds(report: &Report, run: &str, size: u64, way: Way, job: &str) -> Option<f64> {
    let mut parameters = parameters(run, size);
    parameters.extend([("peer", way.name().into()), ("job", job.into())]);
    report.value("time", &parameters)
}

/// How many times as long the cat takes beside the job.
fn cat_ratio(report: &Report, size: u64, way: Way) -> Option<f64> {
    let alone = seconds(report, CAT, CAT_BLOCK.0, way, CAT)?;
    Some(seconds(report, BESIDE, size, way, CAT)? / alone)
}

/// The job's throughput beside the cat over that without it.
fn job_ratio(report: &Report, size: u64, way: Way) -> Option<f64> {
    let alone = seconds(report, ALONE, size, way, JOB)?;
    Some(alone / seconds(report, BESIDE, size, way, JOB)?)
}

fn findings(report: &mut Report, sizes: &[u64]) {
    let over = |ratio: fn(&Report, u64, Way) -> Option<f64>, way| {
        sizes.iter().map(|size| ratio(report, *size, way)).collect::<Vec<_>>()
    };
    let mut ratios = vec![
        ("cat_beside_over_alone".to_owned(), largest(over(cat_ratio, Way::Forebay))),
        ("job_beside_over_alone".to_owned(), smallest(over(job_ratio, Way::Forebay))),
    ];
    let middle = MIDDLE_KIB << 10;
    for way in [Way::Local, Way::Ganesha, Way::ForebayTcp, Way::Unshared] {
        let (way_key, size) = (way.name().replace('-', "_"), size_key(middle));
        let key = |job| format!("{way_key}_{job}_beside_over_alone_{size}");
        ratios.push((key(CAT), cat_ratio(report, middle, way)));
        ratios.push((key(JOB), job_ratio(report, middle, way)));
    }
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
    let sentence = "job_beside_over_alone is of throughputs: beside the cat, which moves a twelfth of the \
                    job's bytes, 0.92 is the most that a full disk leaves";
    report.notes.push(sentence.to_owned());
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let mut sizes: Vec<u64> = report
        .rows
        .iter()
        .filter(|row| row.parameters.iter().any(|(name, value)| *name == "run" && *value == BESIDE))
        .filter_map(|row| row.parameters.iter().find(|(name, _)| *name == "granularity_bytes"))
        .filter_map(|(_, value)| value.as_u64())
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let chart = |job: &'static str, title: &str| {
        let ways = [Way::Forebay, Way::ForebayTcp, Way::Local, Way::Ganesha, Way::Unshared];
        let beside = ways.map(|way| {
            let values = sizes.iter().map(|size| seconds(report, BESIDE, *size, way, job));
            line(way.legend(), false, values)
        });
        let alone = sizes.iter().map(|size| match job {
            CAT => seconds(report, CAT, CAT_BLOCK.0, Way::Forebay, CAT),
            _ => seconds(report, ALONE, *size, Way::Forebay, job),
        });
        let mut series = vec![line("Forebay, alone", true, alone)];
        if job == CAT {
            let paper = sizes.iter().map(|_| Some(PAPER_CAT_SECONDS));
            series.push(line("paper: NFS, alone", true, paper));
        }
        series.extend(beside);
        let chart = Chart {
            title: title.to_owned(),
            subtitle: "completion time in s against the size of the job's reads; emulated disk, \
                       mq-deadline, depth 4, read-ahead 128 KiB"
                .to_owned(),
            x_labels: sizes.iter().map(|size| table::bytes(*size as f64)).collect(),
            y_label: "s".to_owned(),
            series,
        };
        (job, chart)
    };
    vec![
        chart(CAT, "a cat of 16 MiB beside 32 readers of one file: the cat"),
        chart(JOB, "a cat of 16 MiB beside 32 readers of one file: the readers"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    fn made_up(rows: &[(&str, u64, Way, &str, f64)]) -> Report {
        let mut report = Report::new(FIGURE.name);
        for (run, kib, way, job, seconds) in rows {
            let mut parameters = parameters(run, kib << 10);
            parameters.extend([("peer", way.name().into()), ("job", (*job).into())]);
            report.rows.push(Row::median("time", "s", &parameters, &[*seconds]));
        }
        report
    }

    #[test]
    fn the_worst_granularity_counts_for_the_cat_and_for_the_job() {
        let mut report = made_up(&[
            (CAT, 32, Way::Forebay, CAT, 0.5),
            (ALONE, 8, Way::Forebay, JOB, 4.0),
            (BESIDE, 8, Way::Forebay, JOB, 5.0),
            (BESIDE, 8, Way::Forebay, CAT, 0.75),
            (ALONE, 64, Way::Forebay, JOB, 4.0),
            (BESIDE, 64, Way::Forebay, JOB, 4.0),
            (BESIDE, 64, Way::Forebay, CAT, 1.0),
        ]);
        findings(&mut report, &[8 << 10, 64 << 10]);
        assert_eq!(report.ratios["cat_beside_over_alone"], 2.0);
        assert_eq!(report.ratios["job_beside_over_alone"], 0.8);
        assert!(!report.ratios.contains_key("local_cat_beside_over_alone_64k"));
        assert_eq!(charts(&report).len(), 2);
    }

    #[test]
    fn the_job_is_large_enough_for_what_is_asked_of_it() {
        for quick in [true, false] {
            let extent = Extent::of(&Options { quick, ..Options::default() });
            let most = extent.job_bytes as f64 / (extent.job_bytes + CAT_BYTES) as f64;
            assert!(most > 0.9, "{most}");
            assert!(extent.granularities_kib.contains(&MIDDLE_KIB));
        }
    }

    #[test]
    fn whoever_is_run_beside_is_also_run_alone() {
        let cases = Extent::of(&Options::default()).cases();
        for beside in cases.iter().filter(|case| case.parameters[0].1 == BESIDE) {
            let alone = cases.iter().any(|case| {
                case.parameters[0].1 == ALONE && case.parameters[1..] == beside.parameters[1..]
            });
            assert!(alone, "{:?}", beside.parameters);
        }
    }
}
