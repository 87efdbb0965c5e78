//! The work of the aIOLi paper of 2005: one file read by 1, 2, 4 and 8 processes in turns.

use forebay_units::{Bytes, Direction};
use serde_json::Value;

use super::aioli::{self, Way, line};
use super::cases::Case;
use crate::chart::{Chart, Series};
use crate::error::Error;
use crate::peers::workload::{Job, Workload};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;
use crate::{Options, table};

/// Where the figures of this paper are from.
macro_rules! paper {
    ($what:literal) => {
        concat!("Lebre, Denneulin 2005, aIOLi: parallel I/O in SMP clusters (in French), ", $what)
    };
}
pub(super) use paper;

const FILE: (&str, u64) = ("shared", 1);

/// How much is read, by how many, in which pieces.
pub(super) struct Extent {
    pub(super) granularities: Vec<u64>,
    pub(super) processes: Vec<u64>,
    pub(super) bytes: u64,
}

impl Extent {
    pub(super) fn of(options: &Options) -> Self {
        let kib = |sizes: &[u64]| sizes.iter().map(|size| size << 10).collect();
        if options.quick {
            let granularities = kib(&[1, 16, 64]);
            Self { granularities, processes: vec![1, 2, 8], bytes: 16 << 20 }
        } else {
            let granularities = kib(&[1, 16, 64, 128, 512, 4096]);
            Self { granularities, processes: vec![1, 2, 4, 8], bytes: 64 << 20 }
        }
    }

    /// What of it is not as in the paper.
    pub(super) fn differs(&self) -> String {
        let bytes = table::bytes(self.bytes as f64);
        let sizes = table::bytes_all(&self.granularities);
        format!("a file of {bytes} instead of 1 GB, in reads of {sizes}")
    }

    pub(super) fn cases(&self, ways: impl Fn(u64) -> Vec<Way>) -> Vec<Case> {
        let bytes = self.bytes;
        let mut cases = Vec::new();
        for size in &self.granularities {
            for processes in &self.processes {
                for way in ways(*size) {
                    let (size, processes) = (*size, *processes);
                    cases.push(way.case(parameters(processes, size), move |_| {
                        let (file, seed) = FILE;
                        let block = Bytes(size);
                        let job = Job::strided(
                            "job",
                            Direction::Read,
                            file,
                            seed,
                            processes,
                            block,
                            bytes,
                        );
                        Workload::of(job)
                    }));
                }
            }
        }
        cases
    }

    /// Runs everything these ways.
    pub(super) fn run(
        &self,
        figure: &str,
        ways: impl Fn(u64) -> Vec<Way>,
        programs: &Programs,
        options: &Options,
        track: &mut Track<'_>,
    ) -> Result<Report, Error> {
        let files = [(FILE.0, FILE.1, self.bytes)];
        let parts = aioli::usual(options, self.cases(ways));
        let (mut report, found) = aioli::run(programs, options, figure, &files, parts, track)?;
        report.rows = found.iter().flat_map(|found| found.rows()).collect();
        Ok(report)
    }
}

fn parameters(processes: u64, size: u64) -> Vec<(&'static str, Value)> {
    vec![("processes", processes.into()), ("granularity_bytes", size.into())]
}

/// Throughput that was measured, in MB/s.
pub(super) fn throughput(report: &Report, way: Way, processes: u64, size: u64) -> Option<f64> {
    let mut parameters = parameters(processes, size);
    parameters.push(("peer", way.name().into()));
    report.value("throughput", &parameters)
}

/// One way over another: the smallest over these granularities.
pub(super) fn over_min(
    report: &Report,
    [way, other]: [Way; 2],
    processes: u64,
    sizes: impl IntoIterator<Item = u64>,
) -> Option<f64> {
    aioli::smallest(sizes.into_iter().map(|size| {
        let ours = throughput(report, way, processes, size)?;
        Some(ours / throughput(report, other, processes, size)?)
    }))
}

/// So many processes over one, the same way: the smallest over these granularities.
pub(super) fn over_one_min(
    report: &Report,
    way: Way,
    processes: u64,
    sizes: impl IntoIterator<Item = u64>,
) -> Option<f64> {
    aioli::smallest(sizes.into_iter().map(|size| {
        let many = throughput(report, way, processes, size)?;
        Some(many / throughput(report, way, 1, size)?)
    }))
}

/// Granularities and numbers of processes in a report, rising.
pub(super) fn measured(report: &Report) -> (Vec<u64>, Vec<u64>) {
    let of = |wanted: &str| {
        let rows = report.rows.iter();
        let found = rows.filter_map(|row| row.parameters.iter().find(|(name, _)| *name == wanted));
        let mut values: Vec<u64> = found.filter_map(|(_, value)| value.as_u64()).collect();
        values.sort_unstable();
        values.dedup();
        values
    };
    (of("granularity_bytes"), of("processes"))
}

/// A chart with a line for each number of processes, this way, and those of `reference` dashed.
pub(super) fn chart(report: &Report, way: Way, title: &str) -> Chart {
    let (sizes, processes) = measured(report);
    let of = |way, processes: u64, is_reference| -> Series {
        let unit = if processes == 1 { "process" } else { "processes" };
        let values = sizes.iter().map(|size| throughput(report, way, processes, *size));
        let who = if is_reference { format!("{}, ", way.legend()) } else { String::new() };
        line(format!("{who}{processes} {unit}"), is_reference, values)
    };
    let mut series = Vec::new();
    if way != Way::Local {
        series.push(of(Way::Local, 1, true));
    }
    series.extend(processes.iter().map(|processes| of(way, *processes, false)));
    Chart {
        title: title.to_owned(),
        subtitle: "throughput in MB/s (10^6 bytes) against the size of one read; emulated disk, \
                   mq-deadline, depth 4, read-ahead 128 KiB"
            .to_owned(),
        x_labels: sizes.iter().map(|size| table::bytes(*size as f64)).collect(),
        y_label: "MB/s".to_owned(),
        series,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::Row;

    /// A report with made-up throughputs: way, processes, KiB, MB/s.
    pub(in crate::figures) fn made_up(rows: &[(Way, u64, u64, f64)]) -> Report {
        let mut report = Report::new("made-up");
        for (way, processes, kib, mbps) in rows {
            let mut parameters = parameters(*processes, kib << 10);
            parameters.push(("peer", way.name().into()));
            report.rows.push(Row::median("throughput", "MB/s", &parameters, &[*mbps]));
        }
        report
    }

    #[test]
    fn the_smallest_ratio_counts_and_a_missing_value_leaves_none() {
        let report = made_up(&[
            (Way::Forebay, 2, 16, 30.0),
            (Way::Local, 2, 16, 20.0),
            (Way::Forebay, 2, 128, 20.0),
            (Way::Local, 2, 128, 40.0),
            (Way::Forebay, 1, 128, 50.0),
        ]);
        let both = [Way::Forebay, Way::Local];
        assert_eq!(over_min(&report, both, 2, [16 << 10, 128 << 10]), Some(0.5));
        assert_eq!(over_min(&report, both, 2, [16 << 10, 1 << 20]), None);
        assert_eq!(over_one_min(&report, Way::Forebay, 2, [128 << 10]), Some(0.4));
        assert_eq!(measured(&report), (vec![16 << 10, 128 << 10], vec![1, 2]));
    }

    #[test]
    fn every_process_has_something_to_read() {
        for quick in [true, false] {
            let extent = Extent::of(&Options { quick, ..Options::default() });
            for (size, processes) in extent
                .granularities
                .iter()
                .flat_map(|size| extent.processes.iter().map(move |processes| (size, processes)))
            {
                assert!(extent.bytes.is_multiple_of(size * processes), "{size} by {processes}");
            }
            let cases = extent.cases(|_| vec![Way::Local, Way::Forebay]);
            assert!(cases.iter().all(|case| (case.workload)(0).bytes() == extent.bytes));
        }
    }
}
