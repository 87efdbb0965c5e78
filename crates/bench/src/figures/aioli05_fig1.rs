//! `aioli05-fig1`: one file read by 1, 2, 4 and 8 processes in turns, without Forebay.
//!
//! The local file system and NFS; `aioli05-fig4` has the same with Forebay.

use super::aioli::{Way, smallest};
use super::aioli05::{self, Extent, over_one_min, paper};
use super::{Figure, PaperValue};
use crate::Options;
use crate::chart::Chart;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;

pub(super) const FIGURE: Figure = Figure {
    name: "aioli05-fig1",
    summary: "one file decomposed by 1, 2, 4, 8 processes, 1 KiB to 4 MiB, without Forebay",
    paper: paper!("figure 1"),
    values: &[
        PaperValue {
            what: "throughput by number of processes",
            value: "depends closely on how many decompose the file (curves, no numbers)",
        },
        PaperValue {
            what: "from 128 KB on",
            value: "one client in random order is faster than 8 in parallel",
        },
        PaperValue {
            what: "seeks for 8 requests, at best and at worst",
            value: "1 and as many as there are requests and one more",
        },
    ],
    sizes: |options| Extent::of(options).differs(),
    differs: "a user-space NFS server and client on this host instead of Linux 2.4 on two, the client \
              without cache, read-ahead or write-behind, plain processes instead of MPI ones; the curve of \
              one client in random order is not repeated, and the emulation says nothing of the network's \
              part in the loss.",
    ratios: &[],
    beside: |_| None,
    run,
    charts,
};

const WAYS: [Way; 2] = [Way::Local, Way::Ganesha];

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let extent = Extent::of(options);
    let mut report = extent.run(FIGURE.name, |_| WAYS.into(), programs, options, track)?;
    findings(&mut report);
    Ok(report)
}

/// What is left of one process's throughput when several share the file.
fn findings(report: &mut Report) {
    let (sizes, processes) = aioli05::measured(report);
    let several: Vec<u64> = processes.into_iter().filter(|processes| *processes > 1).collect();
    for way in WAYS {
        for processes in &several {
            let ratio = over_one_min(report, way, *processes, sizes.iter().copied());
            report.ratio(format!("{}_{processes}_over_1_min", way.name()), ratio);
        }
        let least = smallest(
            several
                .iter()
                .map(|processes| over_one_min(report, way, *processes, sizes.iter().copied())),
        );
        report.ratio(format!("{}_several_over_1_min", way.name()), least);
    }
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let title = |way: Way| format!("one file read in turns, without Forebay: {}", way.legend());
    WAYS.map(|way| (way.name(), aioli05::chart(report, way, &title(way)))).into()
}

#[cfg(test)]
mod tests {
    use super::super::aioli05::tests::made_up;
    use super::*;

    #[test]
    fn what_several_lose_is_told_for_each_way() {
        let mut report = made_up(&[
            (Way::Local, 1, 16, 50.0),
            (Way::Local, 2, 16, 25.0),
            (Way::Local, 8, 16, 10.0),
            (Way::Ganesha, 1, 16, 40.0),
            (Way::Ganesha, 2, 16, 40.0),
            (Way::Ganesha, 8, 16, 20.0),
        ]);
        findings(&mut report);
        assert_eq!(report.ratios["local_2_over_1_min"], 0.5);
        assert_eq!(report.ratios["local_several_over_1_min"], 0.2);
        assert_eq!(report.ratios["ganesha_8_over_1_min"], 0.5);
        assert_eq!(charts(&report).len(), 2);
    }
}
