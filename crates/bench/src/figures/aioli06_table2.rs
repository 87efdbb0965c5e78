//! `aioli06-table2`: the ten applications of the paper at once, each on a file of its own.
//!
//! Four are parallel jobs in strides, six are sequential programs; sizes are the paper's over 8,
//! so their ratios are kept. The file system alone and NFS are *without*.

use forebay_units::{Bytes, Direction};
use serde_json::Value;

use super::aioli::{self, ALL, File, Way, line, paper_2006};
use super::cases::Case;
use super::{Figure, PaperValue, parameter};
use crate::Options;
use crate::chart::Chart;
use crate::error::Error;
use crate::peers::workload::{Job, Workload};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;

pub(super) const FIGURE: Figure = Figure {
    name: "aioli06-table2",
    summary: "the ten applications of the paper at once: each completion time, without and with",
    paper: paper_2006!("table 2"),
    values: &[
        PaperValue {
            what: "read, 2 GB over 32 nodes, 128 KB: NFS, with aIOLi",
            value: "490 s, 134 s",
        },
        PaperValue { what: "write, 2 GB over 32 nodes, 128 KB", value: "409 s, 107 s" },
        PaperValue { what: "read, 256 MB over 16 nodes, 8 KB", value: "595.5 s, 104 s" },
        PaperValue { what: "write, 128 MB over 8 nodes, 64 KB", value: "51 s, 14.5 s" },
        PaperValue { what: "sequential read, 32 MB, 4 KB", value: "531 s, 48.5 s" },
        PaperValue { what: "sequential write, 32 MB, 4 KB", value: "208 s, 47 s" },
        PaperValue { what: "sequential read, 4 MB, 32 KB", value: "57 s, 6 s" },
        PaperValue { what: "sequential write, 4 MB, 32 KB", value: "39 s, 19 s" },
        PaperValue { what: "sequential read, 1 GB, 2 MB", value: "558 s, 143.5 s" },
        PaperValue { what: "sequential write, 512 MB, 2 MB", value: "192 s, 84 s" },
        PaperValue { what: "all ten", value: "closed to 10 min, 2 min 23 s: 0.24 (POSIX calls)" },
    ],
    sizes: |options| format!("sizes are the paper's over {}", scale(options)),
    differs: "94 processes run on one machine instead of 96 nodes, and the NFS client has no cache, no \
              read-ahead and no write-behind, as a kernel's has, so that the small sequential programs wait \
              for the server at each call: slower_than_local_count and makespan_over_local say how far \
              Forebay is from a file system that has all three; every writer ends with a sync, which the \
              paper's asynchronous NFS put off, and what is written lies over blocks that the file has \
              already; the emulation says nothing of networks and of a server's processors, and with files \
              this small the seconds at the start and end, when not all ten run, weigh more.",
    ratios: &[("makespan_over_without", 143.0 / 600.0), ("slower_count", 0.0)],
    beside: |row| {
        if row.name != "time" {
            return None;
        }
        paper_seconds(parameter(row, "peer"), parameter(row, "job"))
    },
    run,
    charts,
};

/// An application of the table.
struct Application {
    /// What tables call it, and its job.
    name: &'static str,
    file: &'static str,
    direction: Direction,
    /// As in the paper.
    mib: u64,
    processes: u64,
    block: Bytes,
    /// The paper's seconds over NFS, without and with aIOLi.
    paper: [f64; 2],
}

const fn application(
    name: &'static str,
    file: &'static str,
    direction: Direction,
    mib: u64,
    (processes, block): (u64, Bytes),
    paper: [f64; 2],
) -> Application {
    Application { name, file, direction, mib, processes, block, paper }
}

/// In the paper's order.
const APPLICATIONS: [Application; 10] = {
    use Direction::{Read, Write};
    [
        application("read-2048m-32x128k", "a", Read, 2048, (32, Bytes::kib(128)), [490.0, 134.0]),
        application("write-2048m-32x128k", "b", Write, 2048, (32, Bytes::kib(128)), [409.0, 107.0]),
        application("read-256m-16x8k", "c", Read, 256, (16, Bytes::kib(8)), [595.5, 104.0]),
        application("write-128m-8x64k", "d", Write, 128, (8, Bytes::kib(64)), [51.0, 14.5]),
        application("read-32m-4k", "e", Read, 32, (1, Bytes::kib(4)), [531.0, 48.5]),
        application("write-32m-4k", "f", Write, 32, (1, Bytes::kib(4)), [208.0, 47.0]),
        application("read-4m-32k", "g", Read, 4, (1, Bytes::kib(32)), [57.0, 6.0]),
        application("write-4m-32k", "h", Write, 4, (1, Bytes::kib(32)), [39.0, 19.0]),
        application("read-1024m-2m", "i", Read, 1024, (1, Bytes::mib(2)), [558.0, 143.5]),
        application("write-512m-2m", "j", Write, 512, (1, Bytes::mib(2)), [192.0, 84.0]),
    ]
};

impl Application {
    fn bytes(&self, scale: u64) -> u64 {
        (self.mib << 20) / scale
    }

    /// What the file holds that it reads; writers write something else in every run.
    fn seed(&self) -> u64 {
        self.file.as_bytes()[0].into()
    }

    fn job(&self, scale: u64, seed: u64) -> Job {
        let seed = match self.direction {
            Direction::Read => self.seed(),
            Direction::Write => seed,
        };
        let Self { name, file, direction, processes, block, .. } = *self;
        Job::strided(name, direction, file, seed, processes, block, self.bytes(scale))
    }
}

/// All ten, without and with: "closed to 10 minutes", "less than 2 minutes and 23 seconds".
const PAPER_ALL: [f64; 2] = [600.0, 143.0];

/// The paper's time of a job, at the paper's size; its NFS is our NFS, its aIOLi is Forebay.
fn paper_seconds(peer: &str, job: &str) -> Option<f64> {
    let application = APPLICATIONS.iter().find(|application| application.name == job);
    let seconds = application.map(|application| application.paper);
    let [without, with] = seconds.or((job == ALL).then_some(PAPER_ALL))?;
    let of = [(Way::Ganesha.name(), without), (Way::Forebay.name(), with)];
    of.into_iter().find(|(name, _)| *name == peer).map(|(_, seconds)| seconds)
}

const WAYS: [Way; 4] = [Way::Local, Way::Ganesha, Way::Forebay, Way::Unshared];

/// The paper's sizes over ours.
fn scale(options: &Options) -> u64 {
    if options.quick { 64 } else { 8 }
}

fn cases(scale: u64) -> Vec<Case> {
    let workload = move |seed| Workload {
        jobs: APPLICATIONS.iter().map(|application| application.job(scale, seed)).collect(),
    };
    WAYS.map(|way| way.case(Vec::new(), workload)).into()
}

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let scale = scale(options);
    let files: Vec<File> = APPLICATIONS
        .iter()
        .map(|application| (application.file, application.seed(), application.bytes(scale)))
        .collect();
    let parts = aioli::usual(options, cases(scale));
    let (mut report, found) = aioli::run(programs, options, FIGURE.name, &files, parts, track)?;
    report.set("paper_size_over_ours", scale);
    report.rows = found.iter().flat_map(aioli::times).collect();
    report.rows.extend(found.iter().flat_map(aioli::disk_rows));
    findings(&mut report);
    Ok(report)
}

fn seconds(report: &Report, way: Way, job: &str) -> Option<f64> {
    let parameters: [(&str, Value); 2] = [("peer", way.name().into()), ("job", job.into())];
    report.value("time", &parameters)
}

/// The applications that `with` makes slower than `without`, with both times.
fn slower(report: &Report, with: Way, without: Way) -> Option<Vec<(&'static str, f64, f64)>> {
    let mut slower = Vec::new();
    for application in &APPLICATIONS {
        let name = application.name;
        let (with, without) = (seconds(report, with, name)?, seconds(report, without, name)?);
        if with > without {
            slower.push((name, with, without));
        }
    }
    Some(slower)
}

fn findings(report: &mut Report) {
    let over = |with, without| Some(seconds(report, with, ALL)? / seconds(report, without, ALL)?);
    let count = |with, without| Some(slower(report, with, without)?.len() as f64);
    let ratios = [
        ("slower_count", count(Way::Forebay, Way::Ganesha)),
        ("makespan_over_without", over(Way::Forebay, Way::Ganesha)),
        ("slower_than_local_count", count(Way::Forebay, Way::Local)),
        ("makespan_over_local", over(Way::Forebay, Way::Local)),
        ("unshared_slower_count", count(Way::Unshared, Way::Ganesha)),
        ("unshared_makespan_over_without", over(Way::Unshared, Way::Ganesha)),
    ];
    let mut notes = vec![
        "slower_count and makespan_over_without are against NFS-Ganesha with a client that has no cache, \
         read-ahead or write-behind; slower_than_local_count and makespan_over_local are against ext4, \
         which has them"
            .to_owned(),
        "the paper's times are of its own sizes".to_owned(),
    ];
    for without in [Way::Ganesha, Way::Local] {
        for (name, with, time) in slower(report, Way::Forebay, without).unwrap_or_default() {
            let other = without.name();
            notes.push(format!("{name}: Forebay {with:.2} s, {other} {time:.2} s"));
        }
    }
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
    report.notes.extend(notes);
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let jobs = || APPLICATIONS.iter().map(|application| application.name).chain([ALL]);
    let series = WAYS.map(|way| {
        line(way.legend(), way == Way::Ganesha, jobs().map(|job| seconds(report, way, job)))
    });
    let scale = report.settings.get("paper_size_over_ours").and_then(Value::as_f64);
    let papers = scale.into_iter().flat_map(|scale| {
        [("NFS", Way::Ganesha), ("aIOLi", Way::Forebay)].map(|(name, way)| {
            let values = jobs().map(|job| Some(paper_seconds(way.name(), job)? / scale));
            line(format!("paper: {name}, over {scale}"), false, values)
        })
    });
    let labels = (1..=APPLICATIONS.len()).map(|number| number.to_string());
    let chart = Chart {
        title: "ten applications at once".to_owned(),
        subtitle:
            "completion time in s of each, in the order of the paper's table, and of all; emulated \
                   disk, mq-deadline, depth 4, read-ahead 128 KiB"
                .to_owned(),
        x_labels: labels.chain([ALL.to_owned()]).collect(),
        y_label: "s".to_owned(),
        series: series.into_iter().chain(papers).collect(),
    };
    vec![("", chart)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    #[test]
    fn sizes_keep_their_ratios_and_every_application_moves_all_of_its_file() {
        let total: u64 = APPLICATIONS.iter().map(|application| application.mib).sum();
        assert_eq!(total, 6088, "the paper says 6 GB");
        for scale in [8, 64] {
            for application in &APPLICATIONS {
                let job = application.job(scale, 7);
                assert_eq!(job.bytes() * scale, application.mib << 20, "{}", application.name);
                assert_eq!(job.accesses.len() as u64, application.processes);
            }
        }
    }

    #[test]
    fn files_are_apart_and_readers_find_what_was_made() {
        for (idx, one) in APPLICATIONS.iter().enumerate() {
            let others = &APPLICATIONS[idx + 1..];
            assert!(others.iter().all(|other| other.file != one.file && other.name != one.name));
            let is_reader = one.direction == Direction::Read;
            assert_eq!(one.job(8, 7).accesses[0].seed == one.seed(), is_reader);
        }
    }

    #[test]
    fn the_papers_times_stand_beside_those_of_the_same_way() {
        assert_eq!(paper_seconds("ganesha", "read-4m-32k"), Some(57.0));
        assert_eq!(paper_seconds("forebay", "read-4m-32k"), Some(6.0));
        assert_eq!(paper_seconds("forebay", ALL), Some(143.0));
        assert_eq!((paper_seconds("local", ALL), paper_seconds("forebay", "x")), (None, None));
    }

    #[test]
    fn who_is_slower_is_counted_and_told() {
        let mut report = Report::new(FIGURE.name);
        for way in WAYS {
            for (idx, application) in APPLICATIONS.iter().enumerate() {
                let parameters = [("peer", way.name().into()), ("job", application.name.into())];
                let is_slower = way == Way::Forebay && idx < 3;
                let time = if is_slower { 2.5 } else { 1.0 };
                report.rows.push(Row::median("time", "s", &parameters, &[time]));
            }
            let parameters = [("peer", way.name().into()), ("job", ALL.into())];
            let time = if way == Way::Forebay { 5.0 } else { 10.0 };
            report.rows.push(Row::median("time", "s", &parameters, &[time]));
        }
        findings(&mut report);
        assert_eq!(report.ratios["slower_count"], 3.0);
        assert_eq!(report.ratios["makespan_over_without"], 0.5);
        assert_eq!(report.ratios["unshared_slower_count"], 0.0);
        assert!(
            report.notes.iter().any(|note| note.contains("write-2048m-32x128k: Forebay 2.50 s"))
        );
        assert_eq!(charts(&report)[0].1.series[2].points.len(), 11);
    }
}
