//! `aioli06-fig1`: what elevators and the number of a server's threads do for 32 readers of one file.
//!
//! Last comes a drive that orders 32 requests by itself. Without: NFS with 8 to 512 threads. With: Forebay with 8 to 512 calls in progress at its store,
//! which is the same number there.

use forebay_units::{Bytes, Direction};
use serde_json::Value;

use super::aioli::{
    self, ELEVATOR, Part, Queue, TRANSFER_BYTES, Way, largest, line, paper_2006, smallest,
};
use super::cases::Case;
use super::{Figure, PaperValue, number, parameter};
use crate::chart::Chart;
use crate::error::Error;
use crate::peers::workload::{Job, Workload};
use crate::peers::{Caching, Forebay, Ganesha, Peer, Transport};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;
use crate::{Options, table};

pub(super) const FIGURE: Figure = Figure {
    name: "aioli06-fig1",
    summary: "elevators and number of server threads under 32 readers of one file, without and with",
    paper: paper_2006!("figure 1"),
    values: &[
        PaperValue { what: "one sequential reader", value: "around 50 MB/s of the disk's 57" },
        PaperValue {
            what: "NFS, 8 to 512 daemons",
            value: "more daemons do better; even 512 stay far below the sequential reader in most cases",
        },
        PaperValue {
            what: "elevators of Linux 2.6.15",
            value: "similar results whichever is used; the anticipatory one is shown",
        },
    ],
    sizes: |options| {
        let Extent { bytes, granularities_kib, .. } = Extent::of(options);
        let sizes: Vec<u64> = granularities_kib.iter().map(|kib| kib << 10).collect();
        let (bytes, sizes) = (table::bytes(bytes as f64), table::bytes_all(&sizes));
        format!("a file of {bytes} instead of 4 GB, reads of {sizes}")
    },
    differs: "today's elevators instead of those of 2006 with a queue of depth 4, and besides a drive that \
              orders 32 requests by itself, which the paper's disk had not; a user-space NFS server's \
              threads instead of kernel daemons, its client without cache, read-ahead or write-behind, and \
              calls in progress at Forebay's store instead of daemons.",
    ratios: &[],
    beside: |row| {
        let is_one = row.name == "throughput" && parameter(row, "peer") == "local";
        (is_one && number(row, "threads") == Some(1)).then_some(PAPER_SEQUENTIAL_MBPS)
    },
    run,
    charts,
};

/// "Around 50 MB/sec".
const PAPER_SEQUENTIAL_MBPS: f64 = 50.0;

const PROCESSES: u64 = 32;
const FILE: (&str, u64) = ("shared", 1);
const BYTES: u64 = 64 << 20;
const SEQUENTIAL_BLOCK: Bytes = Bytes::kib(128);

/// Under every elevator at this granularity.
const MIDDLE_KIB: u64 = 64;

/// Threads of a server, and the flag that gives Forebay's store so many calls.
const THREADS: [(u32, &str); 3] =
    [(8, "--store-depth=8"), (64, "--store-depth=64"), (512, "--store-depth=512")];

struct Extent {
    queues: Vec<Queue>,
    /// Under the usual elevator.
    granularities_kib: Vec<u64>,
    threads: Vec<(u32, &'static str)>,
    bytes: u64,
}

impl Extent {
    fn of(options: &Options) -> Self {
        if options.quick {
            Self {
                queues: vec![Queue::USUAL, Queue::under("none"), Queue::REORDERED],
                granularities_kib: vec![MIDDLE_KIB],
                threads: vec![THREADS[0], THREADS[2]],
                bytes: BYTES / 2,
            }
        } else {
            Self {
                queues: vec![
                    Queue::USUAL,
                    Queue::under("none"),
                    Queue::under("kyber"),
                    Queue::under("bfq"),
                    Queue::REORDERED,
                ],
                granularities_kib: vec![8, MIDDLE_KIB, 1024],
                threads: THREADS.into(),
                bytes: BYTES,
            }
        }
    }

    fn parts(&self, repetitions: usize) -> Vec<Part> {
        let part = |queue: &Queue| {
            let mut cases = Vec::new();
            let granularities =
                if *queue == Queue::USUAL { &self.granularities_kib[..] } else { &[MIDDLE_KIB] };
            for kib in granularities {
                cases.extend(self.cases(queue.name(), kib << 10));
            }
            if *queue == Queue::USUAL {
                cases.push(self.sequential());
            }
            Part { queue: *queue, repetitions, cases }
        };
        self.queues.iter().map(part).collect()
    }

    /// With every number of threads at the middle granularity, with the smallest at the others.
    fn cases(&self, elevator: &str, size: u64) -> Vec<Case> {
        let bytes = self.bytes;
        let is_middle = size == MIDDLE_KIB << 10;
        let threads = if is_middle { &self.threads[..] } else { &self.threads[..1] };
        let workload = move |_| {
            let (file, seed) = FILE;
            let block = Bytes(size);
            Workload::of(Job::strided("job", Direction::Read, file, seed, PROCESSES, block, bytes))
        };
        let mut cases =
            vec![Way::Local.case(parameters(elevator, size, PROCESSES as u32), workload)];
        for (threads, depth) in threads {
            let ganesha = Ganesha::new(TRANSFER_BYTES).with_threads(*threads);
            let forebay = Forebay::new(Transport::Unix, Caching::Buffered, &[depth]);
            let peers: [(Way, Box<dyn Peer>); 2] =
                [(Way::Ganesha, Box::new(ganesha)), (Way::Forebay, Box::new(forebay))];
            cases.extend(peers.map(|(way, peer)| {
                aioli::case(parameters(elevator, size, *threads), way.name(), peer, workload)
            }));
        }
        cases
    }

    /// What the others are compared with: one process, in order, without a server.
    fn sequential(&self) -> Case {
        let bytes = self.bytes;
        Way::Local.case(parameters(ELEVATOR, SEQUENTIAL_BLOCK.0, 1), move |_| {
            let (file, seed) = FILE;
            let block = SEQUENTIAL_BLOCK;
            Workload::of(Job::sequential("cat", Direction::Read, file, seed, block, bytes))
        })
    }
}

/// `threads` are the server's; on the local file system, the processes themselves.
fn parameters(elevator: &str, size: u64, threads: u32) -> Vec<(&'static str, Value)> {
    vec![
        ("elevator", elevator.into()),
        ("granularity_bytes", size.into()),
        ("threads", threads.into()),
    ]
}

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let extent = Extent::of(options);
    let files = [(FILE.0, FILE.1, extent.bytes)];
    let parts = extent.parts(aioli::repetitions(options));
    let (mut report, found) = aioli::run(programs, options, FIGURE.name, &files, parts, track)?;
    report.set("processes", PROCESSES);
    report.rows = found.iter().flat_map(|found| found.rows()).collect();
    findings(&mut report, &extent);
    Ok(report)
}

fn throughput(report: &Report, way: Way, elevator: &str, size: u64, threads: u32) -> Option<f64> {
    let mut parameters = parameters(elevator, size, threads);
    parameters.push(("peer", way.name().into()));
    report.value("throughput", &parameters)
}

fn sequential(report: &Report) -> Option<f64> {
    throughput(report, Way::Local, ELEVATOR, SEQUENTIAL_BLOCK.0, 1)
}

fn findings(report: &mut Report, extent: &Extent) {
    let middle = MIDDLE_KIB << 10;
    let threads: Vec<u32> = extent.threads.iter().map(|(threads, _)| *threads).collect();
    let (least, most) = (threads[0], threads[threads.len() - 1]);
    let at = |way, elevator: &str, threads| throughput(report, way, elevator, middle, threads);
    // A way under one elevator, with the number of threads that suits it best.
    let best =
        |way, elevator: &str| largest(threads.iter().map(|threads| at(way, elevator, *threads)));
    let over_all = |ratio: &dyn Fn(&str) -> Option<f64>| {
        smallest(extent.queues.iter().map(|queue| ratio(queue.name())))
    };
    let spread = |way| {
        let rates = || extent.queues.iter().map(|queue| best(way, queue.name()));
        Some(smallest(rates())? / largest(rates())?)
    };
    let over_ganesha =
        |elevator: &str| Some(at(Way::Forebay, elevator, least)? / best(Way::Ganesha, elevator)?);
    let over_sequential =
        |elevator: &str| Some(at(Way::Forebay, elevator, least)? / sequential(report)?);
    let gain = |way| Some(at(way, ELEVATOR, most)? / at(way, ELEVATOR, least)?);
    let ganesha_best = largest(extent.queues.iter().map(|queue| best(Way::Ganesha, queue.name())));
    let ganesha_best = ganesha_best.zip(sequential(report)).map(|(best, one)| best / one);
    let ratios = [
        ("forebay_over_ganesha_best_threads_min", over_all(&over_ganesha)),
        ("forebay_over_sequential_min", over_all(&over_sequential)),
        ("ganesha_best_over_sequential", ganesha_best),
        ("ganesha_512_over_8_threads", gain(Way::Ganesha)),
        ("forebay_512_over_8_calls", gain(Way::Forebay)),
        ("ganesha_worst_over_best_elevator", spread(Way::Ganesha)),
        ("forebay_worst_over_best_elevator", spread(Way::Forebay)),
    ];
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
}

/// The values of a parameter, each once.
fn distinct(report: &Report, wanted: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    let found = report.rows.iter().flat_map(|row| &row.parameters);
    for (_, value) in found.filter(|(name, _)| *name == wanted) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    let middle = MIDDLE_KIB << 10;
    let elevators = distinct(report, "elevator");
    let elevators: Vec<&str> = elevators.iter().filter_map(Value::as_str).collect();
    let flat = |value: Option<f64>| elevators.iter().map(move |_| value);
    let mut series = vec![
        line("one process, in order", true, flat(sequential(report))),
        line("paper: one process", true, flat(Some(PAPER_SEQUENTIAL_MBPS))),
    ];
    for (way, name, unit) in
        [(Way::Forebay, "Forebay", "calls"), (Way::Ganesha, "Ganesha", "threads")]
    {
        for (threads, _) in THREADS {
            let values =
                elevators.iter().map(|elevator| throughput(report, way, elevator, middle, threads));
            series.push(line(format!("{name}, {threads} {unit}"), false, values));
        }
    }
    let local = elevators
        .iter()
        .map(|elevator| throughput(report, Way::Local, elevator, middle, PROCESSES as u32));
    series.push(line(Way::Local.legend(), false, local));
    series.retain(|series| !series.points.is_empty());
    let chart = Chart {
        title: "32 processes read one file in interleaved strides, under each elevator".to_owned(),
        subtitle: format!(
            "throughput in MB/s (10^6 bytes) of reads of {}; emulated disk, depth 4 (the drive that orders: 32), read-ahead 128 KiB",
            table::bytes(middle as f64)
        ),
        x_labels: elevators.iter().map(|elevator| (*elevator).to_owned()).collect(),
        y_label: "MB/s".to_owned(),
        series,
    };
    vec![("", chart)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    #[test]
    fn nfs_is_compared_with_the_number_of_threads_that_suits_it() {
        let extent = Extent::of(&Options { quick: true, ..Options::default() });
        let mut report = Report::new(FIGURE.name);
        let mut add = |way: Way, elevator: &str, kib: u64, threads: u32, mbps: f64| {
            let mut parameters = parameters(elevator, kib << 10, threads);
            parameters.push(("peer", way.name().into()));
            report.rows.push(Row::median("throughput", "MB/s", &parameters, &[mbps]));
        };
        add(Way::Local, ELEVATOR, 128, 1, 50.0);
        let queues = [(ELEVATOR, 1.0), ("none", 0.5), (Queue::REORDERED.name(), 0.75)];
        for (elevator, factor) in queues {
            add(Way::Ganesha, elevator, 64, 8, 10.0 * factor);
            add(Way::Ganesha, elevator, 64, 512, 25.0 * factor);
            add(Way::Forebay, elevator, 64, 8, 40.0);
            add(Way::Forebay, elevator, 64, 512, 40.0);
        }
        findings(&mut report, &extent);
        assert_eq!(report.ratios["forebay_over_ganesha_best_threads_min"], 1.6);
        assert_eq!(report.ratios["ganesha_best_over_sequential"], 0.5);
        assert_eq!(report.ratios["ganesha_512_over_8_threads"], 2.5);
        assert_eq!(report.ratios["ganesha_worst_over_best_elevator"], 0.5);
        assert_eq!(report.ratios["forebay_over_sequential_min"], 0.8);
        assert_eq!(charts(&report)[0].1.series.len(), 6);
    }

    #[test]
    fn every_elevator_has_each_number_of_threads_without_and_with() {
        let extent = Extent::of(&Options::default());
        for part in extent.parts(1) {
            for (threads, _) in THREADS {
                for way in [Way::Ganesha, Way::Forebay] {
                    let mut wanted = parameters(part.queue.name(), MIDDLE_KIB << 10, threads);
                    wanted.push(("peer", way.name().into()));
                    assert!(part.cases.iter().any(|case| case.parameters == wanted), "{wanted:?}");
                }
            }
        }
    }
}
