//! What the figures of the two aIOLi papers have in common: the disk, the ways to it, the tables.

use forebay_device::SplitMix64;
use forebay_lab::{Reorder, Settings};
use serde_json::{Map, Value, json};

use super::cases::{self, Case, Found};
use crate::Options;
use crate::chart::Series;
use crate::error::Error;
use crate::peers::workload::Workload;
use crate::peers::{Caching, Forebay, Ganesha, Local, Measured, Peer, Stage, Transport};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::{Report, Row};

/// The paper of 2006, for a figure's source.
macro_rules! paper_2006 {
    ($what:literal) => {
        concat!(
            "Lebre, Huard, Denneulin, Sowa 2006, I/O scheduling service for multi-application clusters, ",
            $what
        )
    };
}
pub(super) use paper_2006;

/// What the emulated disk is set to, unless a figure says otherwise.
pub(super) const ELEVATOR: &str = "mq-deadline";
pub(super) const READ_AHEAD_KIB: u32 = 128;

/// Requests among which a reordering drive chooses; as many then reach it.
const REORDER_WINDOW: usize = 32;

/// The transfer size of NFS in the papers.
pub(super) const TRANSFER_BYTES: u64 = 32 << 10;

/// A way to the files, as the tables of these figures name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The file system itself: without, on the host of the disk.
    Local,
    /// NFS-Ganesha with transfers of 32 KiB: without, over the network.
    Ganesha,
    /// Forebay as it comes, over a Unix socket: every job is a class.
    Forebay,
    /// The same, over TCP.
    ForebayTcp,
    /// Forebay with `sharing.level = none`: all requests in one order, whoever they are from.
    Unshared,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ganesha => "ganesha",
            Self::Forebay => "forebay",
            Self::ForebayTcp => "forebay-tcp",
            Self::Unshared => "forebay-unshared",
        }
    }

    /// What the legend of a plot calls it, which has room for some 20 letters.
    pub(super) const fn legend(self) -> &'static str {
        match self {
            Self::Local => "ext4",
            Self::Ganesha => "NFS-Ganesha",
            Self::Forebay => "Forebay",
            Self::ForebayTcp => "Forebay, TCP",
            Self::Unshared => "Forebay, unshared",
        }
    }

    pub(super) fn peer(self) -> Box<dyn Peer> {
        let forebay = |transport, flags: &[&str]| {
            let peer = Forebay::new(transport, Caching::Buffered, flags);
            Box::new(peer) as Box<dyn Peer>
        };
        match self {
            Self::Local => Box::new(Local { caching: Caching::Buffered }),
            Self::Ganesha => Box::new(Ganesha::new(TRANSFER_BYTES)),
            Self::Forebay => forebay(Transport::Unix, &[]),
            Self::ForebayTcp => forebay(Transport::Tcp, &[]),
            Self::Unshared => forebay(Transport::Unix, &["--sharing-level=none"]),
        }
    }

    /// A case of this way: `parameters` and the way are what tells it from others.
    pub(super) fn case(
        self,
        parameters: Vec<(&'static str, Value)>,
        workload: impl Fn(u64) -> Workload + 'static,
    ) -> Case {
        case(parameters, self.name(), self.peer(), workload)
    }
}

/// A case of any peer; `parameters` and the name are what tells it from others.
pub(super) fn case(
    mut parameters: Vec<(&'static str, Value)>,
    name: &'static str,
    peer: Box<dyn Peer>,
    workload: impl Fn(u64) -> Workload + 'static,
) -> Case {
    parameters.push(("peer", name.into()));
    // A guess from the bytes: half of the disk's rate, and a second around each run.
    let expected_seconds = workload(0).bytes() as f64 / 28e6 + 1.0;
    Case { parameters, peer, expected_seconds, workload: Box::new(workload) }
}

/// What orders the requests on their way to the platter, and how far is read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) elevator: &'static str,
    pub(super) read_ahead_kib: u32,
    /// Whether the drive has an order of its own, C-LOOK, and a queue as deep as that needs.
    pub(super) is_reordered: bool,
}

impl Queue {
    pub(super) const USUAL: Self =
        Self { elevator: ELEVATOR, read_ahead_kib: READ_AHEAD_KIB, is_reordered: false };

    /// No elevator: the drive orders what reaches it.
    pub(super) const REORDERED: Self = Self { elevator: "none", is_reordered: true, ..Self::USUAL };

    /// The usual one, with another elevator.
    pub(super) const fn under(elevator: &'static str) -> Self {
        Self { elevator, ..Self::USUAL }
    }

    /// The same, with another read-ahead.
    pub(super) const fn ahead(self, read_ahead_kib: u32) -> Self {
        Self { read_ahead_kib, ..self }
    }

    /// In the column of elevators.
    pub(super) const fn name(self) -> &'static str {
        if self.is_reordered { "drive c-look:32" } else { self.elevator }
    }

    /// The disk that has it, of a figure.
    fn disk(self, figure: &str, bytes: u64) -> Settings {
        let plain = Settings {
            name: figure.into(),
            bytes,
            read_ahead_kib: self.read_ahead_kib,
            elevator: self.elevator.into(),
            ..Settings::default()
        };
        if !self.is_reordered {
            return plain;
        }
        let reorder = Reorder::CLook { window: REORDER_WINDOW };
        Settings { reorder, queue_depth: REORDER_WINDOW as u32, ..plain }
    }
}

/// Cases that run under one queue.
pub(super) struct Part {
    pub(super) queue: Queue,
    pub(super) repetitions: usize,
    pub(super) cases: Vec<Case>,
}

/// All cases under the usual queue.
pub(super) fn usual(options: &Options, cases: Vec<Case>) -> Vec<Part> {
    vec![Part { queue: Queue::USUAL, repetitions: repetitions(options), cases }]
}

/// A file to make before the runs: name, seed, bytes.
pub(super) type File = (&'static str, u64, u64);

/// The usual disk of these figures.
pub(super) fn disk(figure: &str, bytes: u64) -> Settings {
    Queue::USUAL.disk(figure, bytes)
}

/// How often everything is run, unless the user says otherwise.
pub(super) fn repetitions(options: &Options) -> usize {
    options.repetitions.unwrap_or(if options.quick { 1 } else { 3 }).max(1)
}

/// Sets disks up with their files, runs all cases of each part in random order, and notes the settings.
pub(super) fn run(
    programs: &Programs,
    options: &Options,
    figure: &str,
    files: &[File],
    parts: Vec<Part>,
    track: &mut Track<'_>,
) -> Result<(Report, Vec<Found>), Error> {
    let mut report = Report::new(figure);
    report.set("repetitions", parts.iter().map(|part| part.repetitions).max());
    report.set("order_seed", options.order_seed());
    let cases = parts.iter().flat_map(|part| &part.cases);
    report.set("peers", peers(programs, cases)?);
    let sizes = files.iter().map(|(file, _, bytes)| ((*file).to_owned(), Value::from(*bytes)));
    report.set("file_bytes", sizes.collect::<Map<String, Value>>());
    let runs = parts.iter().map(|part| part.cases.len() * part.repetitions);
    let seconds = parts.iter().map(|part| cases::expected_seconds(&part.cases, part.repetitions));
    track.expect(runs.sum(), seconds.sum());
    let mut random = SplitMix64::new(options.order_seed());
    let (mut found, mut disks) = (Vec::new(), Vec::new());
    let mut standing: Option<(bool, Stage<'_>)> = None;
    for part in parts {
        let Part { queue, repetitions, cases } = part;
        let stage = match standing.take() {
            Some((is_reordered, stage)) if is_reordered == queue.is_reordered => stage,
            other => {
                // The next disk has this one's name.
                other.map_or(Ok(()), |(_, stage)| stage.down())?;
                stage_with(programs, &queue.disk(figure, 2 << 30), files)?
            }
        };
        stage.set_queue(queue.read_ahead_kib, queue.elevator)?;
        disks.push(json!(stage.read_back()?));
        found.extend(cases::run(&stage, cases, repetitions, &mut random, track)?);
        standing = Some((queue.is_reordered, stage));
    }
    standing.map_or(Ok(()), |(_, stage)| stage.down())?;
    report.set("disk", one_or_all(disks));
    report.raw = found.iter().flat_map(Found::raw).collect();
    report.notes.push(cases::disturbance(found.iter().flat_map(Found::others)));
    Ok((report, found))
}

fn stage_with<'p>(
    programs: &'p Programs,
    settings: &Settings,
    files: &[File],
) -> Result<Stage<'p>, Error> {
    let stage = Stage::up(programs, settings)?;
    for (file, seed, bytes) in files {
        stage.make_file(file, *seed, *bytes)?;
    }
    Ok(stage)
}

/// What the peers of all cases are set to, by name.
fn peers<'c>(
    programs: &Programs,
    cases: impl Iterator<Item = &'c Case>,
) -> Result<Map<String, Value>, Error> {
    let mut peers: Vec<(String, Vec<Value>)> = Vec::new();
    for case in cases {
        let (name, settings) = (name(&case.parameters), case.peer.settings(programs)?);
        match peers.iter_mut().find(|(own, _)| *own == name) {
            Some((_, known)) => known.push(settings),
            None => peers.push((name, vec![settings])),
        }
    }
    Ok(peers.into_iter().map(|(name, settings)| (name, one_or_all(settings))).collect())
}

/// The value, if all are the same; otherwise each that differs from the one before.
fn one_or_all(values: impl IntoIterator<Item = Value>) -> Value {
    let mut values: Vec<Value> = values.into_iter().collect();
    values.dedup();
    if values.len() == 1 { values.remove(0) } else { values.into() }
}

/// The way's name among a case's parameters.
fn name(parameters: &[(&'static str, Value)]) -> String {
    let found = parameters.iter().find(|(name, _)| *name == "peer");
    found.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()
}

/// A row with the completion time of each job of a case, and one with the whole.
pub(super) fn times(found: &Found) -> Vec<Row> {
    let row = |job: &str, seconds: &dyn Fn(&Measured) -> f64| {
        let mut parameters = found.parameters.clone();
        parameters.push(("job", job.into()));
        let runs: Vec<f64> = found.runs.iter().map(seconds).collect();
        Row::median("time", "s", &parameters, &runs)
    };
    let jobs = found.runs[0].jobs.iter().enumerate();
    let each = jobs.map(|(idx, job)| row(job.name, &|run| run.jobs[idx].seconds));
    let all = row(ALL, &|run| run.seconds);
    each.chain([all]).collect()
}

/// In the column of jobs: from the start of the first to the end of the last.
pub(super) const ALL: &str = "all";

/// Rows with throughput and what the disk did, beside the times of `all`.
pub(super) fn disk_rows(found: &Found) -> Vec<Row> {
    let mut rows = found.rows();
    rows.iter_mut().for_each(|row| row.parameters.push(("job", ALL.into())));
    rows
}

/// A line through values at places 0, 1, …; places without a value are left out.
pub(super) fn line(
    name: impl Into<String>,
    is_reference: bool,
    values: impl IntoIterator<Item = Option<f64>>,
) -> Series {
    let places = values.into_iter().enumerate();
    let points = places.filter_map(|(idx, value)| Some((idx as f64, value?))).collect();
    Series { name: name.into(), points, is_reference }
}

/// The largest of some ratios; nothing if one of them is missing.
pub(super) fn largest(ratios: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let ratios: Option<Vec<f64>> = ratios.into_iter().collect();
    ratios?.into_iter().reduce(f64::max)
}

/// The smallest of some ratios; nothing if one of them is missing.
pub(super) fn smallest(ratios: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let ratios: Option<Vec<f64>> = ratios.into_iter().collect();
    ratios?.into_iter().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_over_everything_needs_everything() {
        assert_eq!(largest([Some(1.0), Some(3.0), Some(2.0)]), Some(3.0));
        assert_eq!(smallest([Some(1.0), Some(3.0)]), Some(1.0));
        assert_eq!((largest([Some(1.0), None]), smallest([])), (None, None));
    }

    #[test]
    fn a_place_without_a_value_stays_empty() {
        let line = line("x", false, [Some(1.0), None, Some(2.0)]);
        assert_eq!(line.points, [(0.0, 1.0), (2.0, 2.0)]);
    }

    #[test]
    fn a_drive_that_orders_gets_as_many_requests_as_it_chooses_among() {
        let usual = Queue::USUAL.disk("x", 1 << 30);
        assert_eq!((usual.queue_depth, usual.reorder), (4, Reorder::Fifo));
        let ahead = Queue::REORDERED.ahead(2048).disk("x", 1 << 30);
        assert_eq!((ahead.queue_depth, ahead.reorder), (32, Reorder::CLook { window: 32 }));
        assert_eq!((ahead.read_ahead_kib, &ahead.elevator[..]), (2048, "none"));
        assert!(usual.check().and(ahead.check()).is_ok());
    }

    #[test]
    fn what_differs_is_kept_and_what_does_not_is_said_once() {
        assert_eq!(one_or_all([json!(3), json!(3)]), json!(3));
        assert_eq!(one_or_all([json!(3), json!(2), json!(2)]), json!([3, 2]));
    }

    #[test]
    fn ways_have_names_of_their_own() {
        let ways = [Way::Local, Way::Ganesha, Way::Forebay, Way::ForebayTcp, Way::Unshared];
        let mut names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ways.len());
    }
}
