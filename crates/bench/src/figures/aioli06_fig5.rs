//! `aioli06-fig5`: 32 processes read and write one file in strides, beside one sequential process.
//!
//! The disk is emulated and its queue pinned: mq-deadline, depth 4, read-ahead 128 KiB. Then the
//! peers are given what helps them most: a read-ahead of 2 MiB, NFS also with transfers of 1 MiB,
//! under every elevator, and with a drive that orders 32 requests by itself. Last nobody has a
//! cache (`O_DIRECT`).

use forebay_units::{Bytes, Direction};
use serde_json::{Map, Value};

use super::aioli::{self, ELEVATOR, Part, Queue, READ_AHEAD_KIB, TRANSFER_BYTES, paper_2006};
use super::cases::{Case, Found};
use super::{Figure, PaperValue, size_key};
use crate::chart::{Chart, Series};
use crate::error::Error;
use crate::peers::workload::{Job, Workload};
use crate::peers::{Caching, Forebay, Ganesha, Local, Peer, Transport};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;
use crate::{Options, table};

pub(super) const FIGURE: Figure = Figure {
    name: "aioli06-fig5",
    summary: "32 readers and writers of one file in strides, 8 KiB to 4 MiB, beside one sequential process",
    paper: paper_2006!("figure 5"),
    values: &[
        PaperValue {
            what: "the disk's sustained bandwidth, an upper bound",
            value: "57 MB/s (hdparm)",
        },
        PaperValue {
            what: "reading, aIOLi against NFS with POSIX calls and with MPI-IO",
            value: "\"clearly better\" at every granularity (curves, no numbers)",
        },
        PaperValue {
            what: "reading, aIOLi against one sequential reader (Posix-Ref)",
            value: "better, except from 64 KB to 512 KB",
        },
        PaperValue {
            what: "writing, asynchronous, aIOLi against one sequential writer",
            value: "\"very close\"",
        },
    ],
    sizes: |options| {
        let extent = Extent::of(options);
        let reads = table::bytes_all(&extent.granularities);
        let writes = table::bytes_all(&extent.granularities_write);
        format!(
            "a file of {} (so much more that each process makes {TURNS_MIN} calls, {} at most; {} without a \
             cache) instead of 4 GB, reads of {reads} and writes of {writes}",
            table::bytes(extent.bytes as f64),
            table::bytes(extent.bytes_max() as f64),
            table::bytes(extent.bytes_direct as f64),
        )
    },
    differs: "32 processes on one machine instead of 32 nodes, an emulated disk, a user-space NFS server \
              and client on a current kernel, the client without cache, read-ahead or write-behind, and \
              Forebay in the place of a patched kernel server; the emulation says nothing of networks, of \
              several nodes' processors, or of zones and errors of a real disk.",
    ratios: &[],
    beside: |_| None,
    run,
    charts,
};

const PROCESSES: u64 = 32;

/// Transfers of NFS that suit it better than the paper's.
const TRANSFER_LARGE_BYTES: u64 = 1 << 20;

/// The file that is read, and what it holds.
const FILE: &str = "shared";
const SEED: u64 = 1;
/// The file that is written, over what is there: its blocks have their places on the disk already.
const FILE_WRITTEN: &str = "written";

/// One sequential process reads as `cat` does.
const SEQUENTIAL_BLOCK: Bytes = Bytes::kib(128);

const READ_AHEAD_LARGE_KIB: u32 = 2048;

/// With the large read-ahead, and how often of three: without an elevator no peer does best, and it
/// takes as long as all others together.
const QUEUES_AHEAD: [(Queue, usize); 5] = [
    (Queue::USUAL.ahead(READ_AHEAD_LARGE_KIB), 3),
    (Queue::under("kyber").ahead(READ_AHEAD_LARGE_KIB), 3),
    (Queue::under("bfq").ahead(READ_AHEAD_LARGE_KIB), 3),
    (Queue::under("none").ahead(READ_AHEAD_LARGE_KIB), 1),
    (Queue::REORDERED.ahead(READ_AHEAD_LARGE_KIB), 3),
];

/// Fewer calls of each process would measure its start and its end.
const TURNS_MIN: u64 = 4;

/// Forebay is reached over TCP as well at these granularities.
const TCP_READ: [u64; 3] = [8 << 10, 64 << 10, 1 << 20];
const TCP_WRITE: [u64; 1] = [64 << 10];

/// Peers that a site may run instead, as far as they are in a part.
const PEERS: [&str; 3] = ["local", "ganesha", "ganesha-1m"];

/// Bytes a second that a case may come to; only the progress depends on it.
const EXPECTED_RATE: f64 = 35e6;

/// The dashed line of the paper's figure, by hdparm.
const PAPER_DISK_MBPS: f64 = 57.0;

/// Where Forebay is that much slower than a peer, it has lost.
const LOSS: f64 = 0.9;

/// How much is done.
struct Extent {
    granularities: Vec<u64>,
    granularities_write: Vec<u64>,
    /// With the large read-ahead.
    granularities_ahead: Vec<u64>,
    bytes: u64,
    /// With the large read-ahead, where without an elevator every call is a seek.
    bytes_ahead: u64,
    /// Without a cache the smallest granularity gets little done in a second.
    bytes_direct: u64,
    queues_ahead: Vec<(Queue, usize)>,
}

impl Extent {
    fn of(options: &Options) -> Self {
        let kib = |sizes: &[u64]| sizes.iter().map(|size| size << 10).collect();
        if options.quick {
            let [first, .., last] = QUEUES_AHEAD;
            Self {
                granularities: kib(&[8, 64, 1024]),
                granularities_write: kib(&[8, 1024]),
                granularities_ahead: kib(&[64]),
                bytes: 64 << 20,
                bytes_ahead: 32 << 20,
                bytes_direct: 8 << 20,
                queues_ahead: vec![first, last],
            }
        } else {
            Self {
                granularities: kib(&[8, 32, 64, 128, 512, 1024, 4096]),
                granularities_write: kib(&[8, 64, 1024]),
                granularities_ahead: kib(&[8, 64, 1024]),
                bytes: 128 << 20,
                bytes_ahead: 64 << 20,
                bytes_direct: 32 << 20,
                queues_ahead: QUEUES_AHEAD.into(),
            }
        }
    }

    /// What is read or written at a granularity, by every peer alike.
    fn bytes_at(&self, size: u64) -> u64 {
        self.bytes.max(least_bytes(size))
    }

    fn bytes_ahead_at(&self, size: u64) -> u64 {
        self.bytes_ahead.max(least_bytes(size))
    }

    /// The largest of all.
    fn bytes_max(&self) -> u64 {
        self.granularities.iter().map(|size| self.bytes_at(*size)).max().unwrap_or(self.bytes)
    }
}

const fn least_bytes(size: u64) -> u64 {
    size * PROCESSES * TURNS_MIN
}

fn run(programs: &Programs, options: &Options, track: &mut Track<'_>) -> Result<Report, Error> {
    let extent = Extent::of(options);
    let files = [(FILE, SEED, extent.bytes_max()), (FILE_WRITTEN, SEED, extent.bytes_max())];
    let parts = parts(&extent, options);
    let often = parts.iter().map(|part| (part_name(part), Value::from(part.repetitions)));
    let often: Map<String, Value> = often.collect();
    let (mut report, found) = aioli::run(programs, options, FIGURE.name, &files, parts, track)?;
    let at = extent.granularities.iter();
    let at = at.map(|size| (size_key(*size), Value::from(extent.bytes_at(*size))));
    report.set("processes", PROCESSES);
    report.set("repetitions", often);
    report.set("bytes_at", at.collect::<Map<String, Value>>());
    report.set("bytes_read_ahead_2048", extent.bytes_ahead);
    report.set("bytes_direct", extent.bytes_direct);
    report.rows = found.iter().flat_map(Found::rows).collect();
    findings(&mut report);
    Ok(report)
}

/// As its rows begin.
fn part_name(part: &Part) -> String {
    let what = part.cases[0].parameters[0].1.as_str().unwrap_or_default();
    format!("{what} {}", part.queue.name())
}

/// In the order in which they run; the one with another drive is the last, for it needs a disk of its own.
fn parts(extent: &Extent, options: &Options) -> Vec<Part> {
    let all = aioli::repetitions(options);
    let some = |of_three: usize| options.repetitions.map_or(all.min(of_three), |_| all);
    let mut parts = Vec::new();
    for (direction, granularities, tcp) in [
        (Direction::Read, &extent.granularities, &TCP_READ[..]),
        (Direction::Write, &extent.granularities_write, &TCP_WRITE[..]),
    ] {
        let make = Make { direction, queue: Queue::USUAL };
        let mut cases = vec![
            make.sequential(Box::new(local(Caching::Buffered)), extent.bytes),
            make.sequential(Box::new(Ganesha::new(TRANSFER_BYTES)), extent.bytes),
        ];
        for size in granularities {
            let bytes = extent.bytes_at(*size);
            let mut peers = peers();
            if tcp.contains(size) {
                peers.push(forebay(Transport::Tcp));
            }
            cases.extend(peers.into_iter().map(|peer| make.strided(peer, *size, bytes)));
        }
        parts.push(Part { queue: Queue::USUAL, repetitions: all, cases });
    }
    let make = Make { direction: Direction::Read, queue: Queue::USUAL };
    let direct = [8 << 10, 64 << 10].into_iter().flat_map(|size| {
        let peers: [Box<dyn Peer>; 2] = [
            Box::new(local(Caching::Direct)),
            Box::new(Forebay::new(Transport::Unix, Caching::Direct, &[])),
        ];
        peers.into_iter().map(move |peer| make.strided(peer, size, extent.bytes_direct))
    });
    parts.push(Part { queue: Queue::USUAL, repetitions: all, cases: direct.collect() });
    for (queue, of_three) in &extent.queues_ahead {
        let make = Make { direction: Direction::Read, queue: *queue };
        let mut cases = Vec::new();
        for size in &extent.granularities_ahead {
            let bytes = extent.bytes_ahead_at(*size);
            let mut peers = peers();
            peers.push(Box::new(Ganesha::new(TRANSFER_LARGE_BYTES)));
            cases.extend(peers.into_iter().map(|peer| make.strided(peer, *size, bytes)));
        }
        parts.push(Part { queue: *queue, repetitions: some(*of_three), cases });
    }
    parts
}

fn local(caching: Caching) -> Local {
    Local { caching }
}

fn forebay(transport: Transport) -> Box<dyn Peer> {
    Box::new(Forebay::new(transport, Caching::Buffered, &[]))
}

fn peers() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(local(Caching::Buffered)),
        Box::new(Ganesha::new(TRANSFER_BYTES)),
        forebay(Transport::Unix),
    ]
}

/// Makes cases of one part.
#[derive(Clone, Copy)]
struct Make {
    direction: Direction,
    queue: Queue,
}

impl Make {
    fn strided(self, peer: Box<dyn Peer>, block: u64, bytes: u64) -> Case {
        self.case(peer, "strided", block, move |direction, file, seed| {
            Job::strided("job", direction, file, seed, PROCESSES, Bytes(block), bytes)
        })
    }

    fn sequential(self, peer: Box<dyn Peer>, bytes: u64) -> Case {
        self.case(peer, "sequential", SEQUENTIAL_BLOCK.0, move |direction, file, seed| {
            Job::sequential("cat", direction, file, seed, SEQUENTIAL_BLOCK, bytes)
        })
    }

    fn case(
        self,
        peer: Box<dyn Peer>,
        access: &'static str,
        block: u64,
        job: impl Fn(Direction, &'static str, u64) -> Job + 'static,
    ) -> Case {
        let Self { direction, queue } = self;
        let workload = move |seed| {
            Workload::of(match direction {
                Direction::Read => job(direction, FILE, SEED),
                Direction::Write => job(direction, FILE_WRITTEN, seed),
            })
        };
        let expected_seconds = workload(0).bytes() as f64 / EXPECTED_RATE;
        Case {
            parameters: vec![
                ("part", part(direction, queue.read_ahead_kib, peer.name()).into()),
                ("elevator", queue.name().into()),
                ("access", access.into()),
                ("granularity_bytes", block.into()),
                ("peer", peer.name().into()),
            ],
            peer,
            expected_seconds,
            workload: Box::new(workload),
        }
    }
}

/// What the first column says.
fn part(direction: Direction, read_ahead_kib: u32, peer: &str) -> &'static str {
    match direction {
        Direction::Read if peer.ends_with("-direct") => "read-direct",
        Direction::Read if read_ahead_kib == READ_AHEAD_LARGE_KIB => "read-ahead-2048",
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

/// Finds throughputs in a report.
struct Look<'r> {
    report: &'r Report,
    part: &'static str,
    elevator: &'static str,
}

impl Look<'_> {
    fn of(&self, access: &str, size: u64, peer: &str) -> Option<f64> {
        let parameters = [
            ("part", self.part.into()),
            ("elevator", self.elevator.into()),
            ("access", access.into()),
            ("granularity_bytes", size.into()),
            ("peer", peer.into()),
        ];
        self.report.value("throughput", &parameters)
    }

    fn strided(&self, size: u64, peer: &str) -> Option<f64> {
        self.of("strided", size, peer)
    }

    /// The faster of the sequential processes.
    fn sequential(&self) -> Option<f64> {
        let peers = PEERS.iter();
        peers.filter_map(|peer| self.of("sequential", SEQUENTIAL_BLOCK.0, peer)).reduce(f64::max)
    }

    /// The granularities in this part, rising.
    fn sizes(&self) -> Vec<u64> {
        let rows = self.report.rows.iter().filter(|row| {
            let is = |name: &str, value: &str| {
                row.parameters.iter().any(|(own, at)| *own == name && *at == value)
            };
            is("part", self.part) && is("elevator", self.elevator) && is("access", "strided")
        });
        let size = |row: &crate::report::Row| {
            let found = row.parameters.iter().find(|(name, _)| *name == "granularity_bytes");
            found.and_then(|(_, value)| value.as_u64())
        };
        let mut sizes: Vec<u64> = rows.filter_map(size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The slower of the ways through Forebay.
    fn forebay(&self, size: u64) -> Option<f64> {
        let unix = self.strided(size, "forebay-unix")?;
        Some(self.strided(size, "forebay-tcp").map_or(unix, |tcp| unix.min(tcp)))
    }

    fn best_peer(&self, size: u64) -> Option<f64> {
        let peers = PEERS.iter();
        peers.filter_map(|peer| self.strided(size, peer)).reduce(f64::max)
    }

    /// The smallest of a ratio over all granularities.
    fn least(&self, ratio: impl Fn(u64) -> Option<f64>) -> Option<f64> {
        let ratios: Option<Vec<f64>> = self.sizes().into_iter().map(ratio).collect();
        ratios?.into_iter().reduce(f64::min)
    }
}

fn findings(report: &mut Report) {
    let mut ratios = Vec::new();
    for (part, suffix) in [("read", ""), ("write", "_write")] {
        let look = Look { report, part, elevator: ELEVATOR };
        let over = |other: &dyn Fn(u64) -> Option<f64>| {
            look.least(|size| Some(look.forebay(size)? / other(size)?))
        };
        ratios.push((format!("forebay_over_sequential{suffix}_min"), over(&|_| look.sequential())));
        let ganesha = over(&|size| look.strided(size, "ganesha"));
        ratios.push((format!("forebay_over_ganesha{suffix}_min"), ganesha));
        let local = over(&|size| look.strided(size, "local"));
        ratios.push((format!("forebay_over_local{suffix}_min"), local));
    }
    ratios.push(("forebay_over_best_peer_min".into(), over_best_peer(report)));
    let look = Look { report, part: "read-direct", elevator: ELEVATOR };
    for size in look.sizes() {
        let direct = look.strided(size, "forebay-unix-direct");
        let local = look.strided(size, "local-direct");
        let ratio = direct.zip(local).map(|(direct, local)| direct / local);
        ratios.push((format!("direct_over_local_{}", size_key(size)), ratio));
    }
    let losses = losses(report);
    ratios.into_iter().for_each(|(name, ratio)| report.ratio(name, ratio));
    report.notes.extend(losses);
}

/// What was measured with the large read-ahead, by elevator or by the drive's own order.
fn ahead(report: &Report) -> Vec<Look<'_>> {
    let looks = QUEUES_AHEAD.iter().map(|(queue, _)| Look {
        report,
        part: "read-ahead-2048",
        elevator: queue.name(),
    });
    looks
        .filter(|look| look.sizes().into_iter().any(|size| look.best_peer(size).is_some()))
        .collect()
}

/// With the large read-ahead: at each granularity the elevator, or the drive's own order, under
/// which a peer does best, and Forebay over that peer under the same; the smallest.
fn over_best_peer(report: &Report) -> Option<f64> {
    let looks = ahead(report);
    let at = |size: u64| {
        let best = looks.iter().max_by(|a, b| {
            let [a, b] = [a, b].map(|look| look.best_peer(size).unwrap_or_default());
            a.total_cmp(&b)
        })?;
        Some(best.forebay(size)? / best.best_peer(size)?)
    };
    looks.first()?.least(at)
}

/// Where Forebay is slower than a peer.
fn losses(report: &Report) -> Vec<String> {
    let mut losses = Vec::new();
    let usual = ["read", "write"].map(|part| Look { report, part, elevator: ELEVATOR });
    for look in usual.into_iter().chain(ahead(report)) {
        let Look { part, elevator, .. } = look;
        for size in look.sizes() {
            let Some((ours, best)) = look.forebay(size).zip(look.best_peer(size)) else { continue };
            if ours < best * LOSS {
                let size = table::bytes(size as f64);
                losses.push(format!(
                    "{part}, {elevator}, {size}: Forebay {ours:.1} MB/s, the best peer {best:.1}"
                ));
            }
        }
    }
    if losses.is_empty() {
        losses.push("Forebay is nowhere more than 10 % slower than a peer".to_owned());
    }
    losses
}

fn charts(report: &Report) -> Vec<(&'static str, Chart)> {
    ["read", "write"].into_iter().map(|part| (part, chart(report, part))).collect()
}

fn chart(report: &Report, part: &'static str) -> Chart {
    let look = Look { report, part, elevator: ELEVATOR };
    let sizes = look.sizes();
    let line = |name: &str, is_reference, value: &dyn Fn(u64) -> Option<f64>| {
        let points = sizes.iter().enumerate();
        let points = points.filter_map(|(idx, size)| Some((idx as f64, value(*size)?))).collect();
        Series { name: name.to_owned(), points, is_reference }
    };
    let names = [
        ("forebay-unix", "Forebay, Unix"),
        ("forebay-tcp", "Forebay, TCP"),
        ("ganesha", "NFS-Ganesha, 32 KiB"),
        ("local", "ext4"),
    ];
    let mut series = vec![
        line("one process, in order", true, &|_| look.sequential()),
        line("paper: disk, 57 MB/s", true, &|_| Some(PAPER_DISK_MBPS)),
    ];
    series.extend(names.map(|(peer, name)| line(name, false, &|size| look.strided(size, peer))));
    Chart {
        title: format!("32 processes {part} one file in interleaved strides"),
        subtitle: format!(
            "throughput in MB/s (10^6 bytes) against the size of one {part}; emulated disk, {ELEVATOR}, \
             depth 4, read-ahead {READ_AHEAD_KIB} KiB"
        ),
        x_labels: sizes.iter().map(|size| table::bytes(*size as f64)).collect(),
        y_label: "MB/s".to_owned(),
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    /// A report with made-up throughputs: part, elevator, access, KiB, peer, MB/s.
    fn made_up(rows: &[(&str, &str, &str, u64, &str, f64)]) -> Report {
        let mut report = Report::new(FIGURE.name);
        for (part, elevator, access, kib, peer, mbps) in rows {
            let parameters = [
                ("part", Value::from(*part)),
                ("elevator", Value::from(*elevator)),
                ("access", Value::from(*access)),
                ("granularity_bytes", Value::from(kib << 10)),
                ("peer", Value::from(*peer)),
            ];
            report.rows.push(Row::median("throughput", "MB/s", &parameters, &[*mbps]));
        }
        report
    }

    #[test]
    fn the_best_peer_is_that_of_the_best_elevator() {
        let row = |elevator, peer, mbps| ("read-ahead-2048", elevator, "strided", 8, peer, mbps);
        let report = made_up(&[
            row("mq-deadline", "local", 40.0),
            row("mq-deadline", "ganesha", 20.0),
            row("mq-deadline", "forebay-unix", 50.0),
            row("bfq", "local", 55.0),
            row("bfq", "forebay-unix", 54.0),
            row("bfq", "forebay-tcp", 44.0),
            row("none", "local", 10.0),
        ]);
        assert!((over_best_peer(&report).unwrap() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn the_slower_way_through_forebay_counts_and_losses_are_told() {
        let row = |access, kib, peer, mbps| ("read", ELEVATOR, access, kib, peer, mbps);
        let report = made_up(&[
            row("sequential", 128, "local", 56.0),
            row("sequential", 128, "ganesha", 57.0),
            row("strided", 8, "forebay-unix", 57.0),
            row("strided", 8, "forebay-tcp", 28.5),
            row("strided", 8, "ganesha", 30.0),
            row("strided", 8, "local", 40.0),
        ]);
        let look = Look { report: &report, part: "read", elevator: ELEVATOR };
        assert_eq!(look.least(|size| Some(look.forebay(size)? / look.sequential()?)), Some(0.5));
        assert_eq!(
            losses(&report),
            ["read, mq-deadline, 8 KiB: Forebay 28.5 MB/s, the best peer 40.0"]
        );
        assert_eq!(charts(&report)[0].1.series.len(), 6);
    }

    #[test]
    fn every_part_measures_forebay_and_somebody_else() {
        for quick in [true, false] {
            let options = Options { quick, ..Options::default() };
            let extent = Extent::of(&options);
            for part in parts(&extent, &options) {
                let names: Vec<&str> = part.cases.iter().map(|case| case.peer.name()).collect();
                assert!(names.iter().any(|name| name.starts_with("forebay")), "{names:?}");
                assert!(names.iter().any(|name| name.starts_with("local")), "{names:?}");
                assert!(part.repetitions >= 1);
            }
        }
    }

    #[test]
    fn no_process_makes_fewer_calls_than_four_and_all_peers_move_the_same() {
        let options = Options::default();
        let extent = Extent::of(&options);
        for part in parts(&extent, &options) {
            let is_strided = |case: &&Case| case.parameters[2].1 == "strided";
            for case in part.cases.iter().filter(is_strided) {
                let workload = (case.workload)(0);
                let job = &workload.jobs[0];
                assert!(job.accesses.iter().all(|access| access.count >= TURNS_MIN));
                let same = part.cases.iter().filter(|other| {
                    other.parameters[0] == case.parameters[0]
                        && other.parameters[2..4] == case.parameters[2..4]
                });
                assert!(same.map(|other| (other.workload)(0).bytes()).all(|b| b == job.bytes()));
                assert!(job.bytes() <= extent.bytes_max());
            }
        }
    }

    #[test]
    fn the_best_peers_are_looked_for_under_every_elevator_and_with_a_drive_that_orders() {
        let parts = parts(&Extent::of(&Options::default()), &Options::default());
        for name in ["mq-deadline", "kyber", "bfq", "none", "drive c-look:32"] {
            let found = parts.iter().filter(|part| part.queue.read_ahead_kib == 2048);
            let mut found = found.filter(|part| part.queue.name() == name);
            let peers = found.next().expect("it is run").cases.iter().map(|case| case.peer.name());
            let peers: Vec<&str> = peers.collect();
            assert!(PEERS.iter().all(|peer| peers.contains(peer)), "{name}: {peers:?}");
        }
    }
}
