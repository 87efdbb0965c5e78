//! What the figures of the two aIOLi papers have in common: the disk, the ways to it, the tables.

use forebay_device::SplitMix64;
use forebay_lab::Settings;
use serde_json::{Value, json};

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

/// The transfer size of NFS in the papers.
pub(super) const TRANSFER_BYTES: u64 = 32 << 10;

/// Of the order of runs.
const ORDER_SEED: u64 = 2006;

/// A way to the files, as the tables of these figures name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The file system itself: without, on the host of the disk.
    Local,
    /// NFS-Ganesha with transfers of 32 KiB: without, over the network.
    Ganesha,
    /// Forebay as it comes: every job is a class.
    Forebay,
    /// Forebay with `sharing.level = none`: all requests in one order, whoever they are from.
    Unshared,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ganesha => "ganesha",
            Self::Forebay => "forebay",
            Self::Unshared => "forebay-unshared",
        }
    }

    /// What the legend of a plot calls it, which has room for some 20 letters.
    pub(super) const fn legend(self) -> &'static str {
        match self {
            Self::Local => "ext4",
            Self::Ganesha => "NFS-Ganesha",
            Self::Forebay => "Forebay",
            Self::Unshared => "Forebay, unshared",
        }
    }

    pub(super) fn peer(self) -> Box<dyn Peer> {
        let unix = |flags: &[&str]| {
            let peer = Forebay::new(Transport::Unix, Caching::Buffered, flags);
            Box::new(peer) as Box<dyn Peer>
        };
        match self {
            Self::Local => Box::new(Local { caching: Caching::Buffered }),
            Self::Ganesha => Box::new(Ganesha::new(TRANSFER_BYTES)),
            Self::Forebay => unix(&[]),
            Self::Unshared => unix(&["--sharing-level=none"]),
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

/// Cases that run under one elevator.
pub(super) struct Part {
    pub(super) elevator: &'static str,
    pub(super) cases: Vec<Case>,
}

/// All cases under the usual elevator.
pub(super) fn usual(cases: Vec<Case>) -> Vec<Part> {
    vec![Part { elevator: ELEVATOR, cases }]
}

/// A file to make before the runs: name, seed, bytes.
pub(super) type File = (&'static str, u64, u64);

/// The disk of these figures.
pub(super) fn disk(figure: &str, bytes: u64) -> Settings {
    let (read_ahead_kib, elevator) = (READ_AHEAD_KIB, ELEVATOR.into());
    Settings { name: figure.into(), bytes, read_ahead_kib, elevator, ..Settings::default() }
}

/// How often everything is run, unless the user says otherwise.
pub(super) fn repetitions(options: &Options) -> usize {
    options.repetitions.unwrap_or(if options.quick { 1 } else { 3 }).max(1)
}

/// Sets the disk up with its files, runs all cases of each part in random order, and notes the settings.
pub(super) fn run(
    programs: &Programs,
    figure: &str,
    files: &[File],
    parts: Vec<Part>,
    repetitions: usize,
    track: &mut Track<'_>,
) -> Result<(Report, Vec<Found>), Error> {
    let stage = Stage::up(programs, &disk(figure, 2 << 30))?;
    for (file, seed, bytes) in files {
        stage.make_file(file, *seed, *bytes)?;
    }
    let mut report = Report::new(figure);
    report.set("repetitions", repetitions);
    report.set("order_seed", ORDER_SEED);
    let cases = || parts.iter().flat_map(|part| &part.cases);
    let named = cases().map(|case| (name(&case.parameters), case.peer.settings()));
    report.set("peers", named.collect::<serde_json::Map<String, Value>>());
    let sizes = files.iter().map(|(file, _, bytes)| ((*file).to_owned(), Value::from(*bytes)));
    report.set("file_bytes", sizes.collect::<serde_json::Map<String, Value>>());
    let seconds = parts.iter().map(|part| cases::expected_seconds(&part.cases, repetitions));
    track.expect(cases().count() * repetitions, seconds.sum());
    let mut random = SplitMix64::new(ORDER_SEED);
    let (mut found, mut disks) = (Vec::new(), Vec::new());
    for part in parts {
        stage.set_queue(READ_AHEAD_KIB, part.elevator)?;
        disks.push(json!(stage.read_back()?));
        found.extend(cases::run(&stage, part.cases, repetitions, &mut random, track)?);
    }
    stage.down()?;
    report.set("disk", if disks.len() == 1 { disks.remove(0) } else { disks.into() });
    report.raw = found.iter().flat_map(Found::raw).collect();
    Ok((report, found))
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
    fn what_is_not_shared_is_told_so_and_ways_have_names_of_their_own() {
        let ways = [Way::Local, Way::Ganesha, Way::Forebay, Way::Unshared];
        let mut names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
        let settings = Way::Unshared.peer().settings().to_string();
        assert!(settings.contains("--sharing-level=none"), "{settings}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ways.len());
    }
}
