//! `aioli05-fig4`: one file read by 1, 2, 4 and 8 processes in turns, with Forebay.
//!
//! Asked is what a process pays that is alone, and what becomes of the paper's weak spot: two
//! processes at 16 KiB to 512 KiB, where its queue never held more than one request.

use super::aioli::Way;
use super::aioli05::{self, Extent, over_min, over_one_min, paper};
use super::{Figure, PaperValue};
use crate::Options;
use crate::chart::Chart;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;

pub(super) const FIGURE: Figure = Figure {
    name: "aioli05-fig4",
    summary: "one file decomposed by 1, 2, 4, 8 processes, 1 KiB to 4 MiB, with Forebay and without",
    paper: paper!("figure 4"),
    values: &[
        PaperValue { what: "overhead of one process at 1 KB", value: "30 %: 0.77 of native" },
        PaperValue { what: "overhead of one process from 16 KB on", value: "none to be seen" },
        PaperValue {
            what: "2 processes, 16 KB to 512 KB",
            value: "few requests aggregated or reordered; none at 128 KB",
        },
        PaperValue {
            what: "more processes",
            value: "the more there are, the closer to the file system's best",
        },
    ],
    sizes: |options| Extent::of(options).differs(),
    differs: "native is the local file system instead of a kernel's NFS client, and the forwarder is behind \
              a socket instead of in shared memory; the emulation says nothing of a network between client \
              and disk, which would hide more of the overhead.",
    ratios: &[("one_process_1k", 0.77), ("one_process_16k_min", 1.0)],
    beside: |_| None,
    run,
    charts,
};

const WAYS: [Way; 2] = [Way::Local, Way::Forebay];
const SMALLEST: u64 = 1 << 10;
const TCP_AT: u64 = 64 << 10;
/// From here on the paper saw no overhead.
const NO_OVERHEAD: u64 = 16 << 10;
const WEAK_SPOT: std::ops::RangeInclusive<u64> = 16 << 10..=512 << 10;

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let extent = Extent::of(options);
    let mut report = extent.run(FIGURE.name, ways, programs, options, track)?;
    findings(&mut report);
    Ok(report)
}

/// Over TCP at one granularity.
fn ways(size: u64) -> Vec<Way> {
    let tcp = (size == TCP_AT).then_some(Way::ForebayTcp);
    WAYS.into_iter().chain(tcp).collect()
}

fn findings(report: &mut Report) {
    let (sizes, processes) = aioli05::measured(report);
    let native = [Way::Forebay, Way::Local];
    let from = sizes.iter().copied().filter(|size| *size >= NO_OVERHEAD);
    let weak = || sizes.iter().copied().filter(|size| WEAK_SPOT.contains(size));
    let mut ratios = vec![
        ("one_process_1k".to_owned(), over_min(report, native, 1, [SMALLEST])),
        ("one_process_16k_min".to_owned(), over_min(report, native, 1, from)),
        ("two_processes_over_local_16k_512k_min".to_owned(), over_min(report, native, 2, weak())),
        (
            "two_processes_over_one_16k_512k_min".to_owned(),
            over_one_min(report, Way::Forebay, 2, weak()),
        ),
    ];
    for processes in &processes {
        let over = over_min(report, [Way::ForebayTcp, Way::Local], *processes, [TCP_AT]);
        ratios.push((format!("tcp_over_local_64k_{processes}"), over));
    }
    for processes in processes.into_iter().filter(|processes| *processes > 1) {
        for way in WAYS {
            let ratio = over_one_min(report, way, processes, sizes.iter().copied());
            ratios.push((format!("{}_{processes}_over_1_min", way.name()), ratio));
        }
    }
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let with = aioli05::chart(report, Way::Forebay, "one file read in turns, with Forebay");
    let without = aioli05::chart(report, Way::Local, "one file read in turns, without Forebay");
    vec![("with", with), ("without", without)]
}

#[cfg(test)]
mod tests {
    use super::super::aioli05::tests::made_up;
    use super::*;

    #[test]
    fn one_process_is_compared_with_native_and_two_with_one() {
        let mut report = made_up(&[
            (Way::Local, 1, 1, 50.0),
            (Way::Forebay, 1, 1, 40.0),
            (Way::Local, 1, 16, 50.0),
            (Way::Forebay, 1, 16, 49.0),
            (Way::Local, 1, 4096, 50.0),
            (Way::Forebay, 1, 4096, 50.0),
            (Way::Local, 2, 16, 28.0),
            (Way::Forebay, 2, 16, 24.5),
        ]);
        findings(&mut report);
        assert_eq!(report.ratios["one_process_1k"], 0.8);
        assert_eq!(report.ratios["one_process_16k_min"], 0.98);
        assert_eq!(report.ratios["two_processes_over_local_16k_512k_min"], 0.875);
        assert_eq!(report.ratios["two_processes_over_one_16k_512k_min"], 0.5);
        assert!(!report.ratios.contains_key("forebay_2_over_1_min"), "not measured at every size");
        assert_eq!(charts(&report).len(), 2);
    }
}
