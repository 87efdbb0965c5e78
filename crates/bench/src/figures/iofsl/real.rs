//! What the real halves have in common: writers under the preload library, a forwarder with the
//! posix store, the emulated disk.
//!
//! The writers use `O_DIRECT`. Written through the page cache there is nothing to see: the cache
//! takes every message at once and writes all of them back later, in order, whoever scheduled
//! them. `O_SYNC` would charge each message a journal's commit besides. Files are written over,
//! so that their blocks have their places already.

use std::path::Path;
use std::time::Duration;

use forebay_device::SplitMix64;
use forebay_lab::Settings;
use forebay_units::{Bytes, Direction};
use serde_json::{Value, json};

use crate::Options;
use crate::error::Error;
use crate::figures::cases::{self, Case, Found};
use crate::peers::workload::{Access, Job, Workload};
use crate::peers::{Caching, Forebay, Stage, Transport};
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;

/// In the column of where a row comes from.
pub(super) const VIRTUAL: (&str, &str) = ("time", "virtual");
pub(super) const REAL: (&str, &str) = ("time", "real");

/// The disk whose share of positioning the model in virtual time has, too.
const DISK: &str = "graphene";
const DISK_BYTES: u64 = 1 << 30;

const FILE: &str = "shared";
const FILE_SEED: u64 = 1;

/// Bytes a second that a case may come to; only the progress depends on it.
const EXPECTED_RATE: f64 = 25e6;
/// What is around each run: starting processes and comparing what was written.
const EXPECTED_AROUND_SECONDS: f64 = 0.7;

/// What is run, on a disk of its own.
pub(super) struct Plan {
    pub(super) figure: &'static str,
    pub(super) cases: Vec<Case>,
    pub(super) repetitions: usize,
}

/// Why there can be no real half here.
pub(super) fn obstacle() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("an emulated disk needs root");
    }
    let has_fuse = Path::new("/dev/fuse").exists();
    (!has_fuse).then_some("/dev/fuse is missing: load the kernel's module fuse")
}

impl Plan {
    /// Nothing, and a note that says why, where it cannot be run.
    pub(super) fn unless_hindered(self, hindered: Option<&str>, report: &mut Report) -> Self {
        let Some(reason) = hindered else { return self };
        report.notes.push(format!("The real half was skipped: {reason}."));
        report.set("real_skipped", reason);
        Self { cases: Vec::new(), ..self }
    }

    /// How many runs it has, and how many seconds they may take.
    pub(super) fn expected(&self) -> (usize, f64) {
        let seconds = cases::expected_seconds(&self.cases, self.repetitions);
        (self.cases.len() * self.repetitions, seconds)
    }

    /// Runs all cases, in random order; notes what they ran on.
    pub(super) fn run(
        self,
        programs: &Programs,
        options: &Options,
        report: &mut Report,
        track: &mut Track<'_>,
    ) -> Result<Vec<Found>, Error> {
        let Self { figure, cases, repetitions } = self;
        if cases.is_empty() {
            return Ok(Vec::new());
        }
        let settings = Settings {
            name: figure.into(),
            profile: DISK.into(),
            bytes: DISK_BYTES,
            ..Settings::default()
        };
        let mut peers = Vec::new();
        for case in &cases {
            let settings = case.peer.settings(programs)?;
            peers.push(json!({ "case": named(&case.parameters), "peer": settings }));
        }
        let file_bytes = cases.iter().map(|case| (case.workload)(0).bytes()).max();
        let stage = Stage::up(programs, &settings)?;
        stage.make_file(FILE, FILE_SEED, file_bytes.unwrap_or_default())?;
        report.set("real_disk", json!(stage.read_back()?));
        report.set("real_cases", peers);
        report.set("real_repetitions", repetitions);
        report.set("order_seed", options.order_seed());
        let mut random = SplitMix64::new(options.order_seed());
        let found = cases::run(&stage, cases, repetitions, &mut random, track)?;
        stage.down()?;
        report.raw.extend(found.iter().flat_map(Found::raw));
        report.notes.push(cases::disturbance(found.iter().flat_map(Found::others)));
        Ok(found)
    }
}

fn named(parameters: &[(&'static str, Value)]) -> Value {
    parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// A case: `parameters` tell it from the others, `flags` are the forwarder's.
pub(super) fn case(
    parameters: &[(&'static str, Value)],
    flags: &[String],
    workload: impl Fn(u64) -> Workload + 'static,
) -> Case {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let marked = [(REAL.0, Value::from(REAL.1))].into_iter().chain(parameters.iter().cloned());
    Case {
        parameters: marked.collect(),
        peer: Box::new(Forebay::new(Transport::Unix, Caching::Direct, &flags)),
        expected_seconds: workload(0).bytes() as f64 / EXPECTED_RATE + EXPECTED_AROUND_SECONDS,
        workload: Box::new(workload),
    }
}

/// Processes that take the messages of the file in turns, one job.
pub(super) fn strided(seed: u64, processes: u64, message: Bytes, amount: Bytes) -> Workload {
    let bytes = amount.0 * processes;
    Workload::of(Job::strided("ior", Direction::Write, FILE, seed, processes, message, bytes))
}

/// What each of `processes` writes when each has a segment of the file, one message after the other.
fn segments(seed: u64, processes: u64, message: Bytes, amount: Bytes) -> Vec<Access> {
    let count = (amount.0 / message.0).max(1);
    let access = |process| Access {
        direction: Direction::Write,
        file: FILE,
        seed,
        block: message,
        first: process * count,
        every: 1,
        count,
    };
    (0..processes).map(access).collect()
}

/// Processes that have a segment each, one job.
pub(super) fn segmented(seed: u64, processes: u64, message: Bytes, amount: Bytes) -> Workload {
    let accesses = segments(seed, processes, message, amount);
    Workload::of(Job { name: "ior", start_after: Duration::ZERO, accesses })
}

/// The same, each process timed by itself.
pub(super) fn segmented_apart(
    seed: u64,
    processes: u64,
    message: Bytes,
    amount: Bytes,
) -> Workload {
    let alone = |access| Job { name: "ior", start_after: Duration::ZERO, accesses: vec![access] };
    let accesses = segments(seed, processes, message, amount);
    Workload { jobs: accesses.into_iter().map(alone).collect() }
}

/// What the forwarder counted, by its place in the status; no number if it has not.
pub(super) fn counted(counters: &Value, place: &str) -> f64 {
    counters.pointer(place).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_cover_the_file_once() {
        for workload in [segmented, segmented_apart] {
            let workload = workload(7, 4, Bytes::kib(32), Bytes::kib(128));
            let accesses = workload.jobs.iter().flat_map(|job| &job.accesses);
            let blocks = accesses.flat_map(|access| access.first..access.first + access.count);
            assert!(blocks.eq(0..16));
        }
        assert_eq!(segmented_apart(7, 4, Bytes::kib(32), Bytes::kib(128)).jobs.len(), 4);
    }

    #[test]
    fn where_it_cannot_be_run_a_note_says_why() {
        let mut report = Report::new("x");
        let workload = |seed| strided(seed, 2, Bytes::kib(4), Bytes::kib(8));
        let plan = || Plan { figure: "x", cases: vec![case(&[], &[], workload)], repetitions: 2 };
        assert_eq!(plan().unless_hindered(None, &mut report).expected().0, 2);
        assert!(report.notes.is_empty());
        assert_eq!(plan().unless_hindered(Some("no disk"), &mut report).expected().0, 0);
        assert_eq!(report.notes, ["The real half was skipped: no disk."]);
    }
}
