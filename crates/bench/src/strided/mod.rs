//! `strided-read` and `strided-write`: 32 plain processes share one file on a modelled disk.
//!
//! Process *i* takes the blocks *i*, *i* + 32, …, one after another, so that the file is covered
//! once, and the disk sees 32 interleaved streams. The reference is one process that takes all
//! blocks in order, through the same path (its forwarder has policy `to`; there is nothing to order).
//! The same on a device of flash says what policy `auto` is worth where order matters otherwise.
//!
//! For every case: a forwarder of its own, the processes with the preload library, the clock from
//! the opening of the gate to the last process's end, then the forwarder's counters. Connecting
//! to the forwarder is within the time, starting the processes is not. Readers compare all data
//! with what was written; what writers wrote is compared afterwards, natively.

use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_device::Profile;
use forebay_forwarder::status::Status;
use forebay_units::Direction;
use serde_json::{Value, json};

use crate::crew::Crew;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Track;
use crate::report::Report;
use crate::server::Server;
use crate::{Options, machine, table};

mod findings;
mod plan;

use plan::{Case, DISK, Extent, FLASH, PROCESSES};

pub(crate) use findings::chart;
pub(crate) use plan::order_of_start;

/// What every file is first filled with; writers use other seeds.
const SEED: u64 = 1;

/// What one run of a case showed.
#[derive(Debug)]
struct Measured {
    case: Case,
    seconds: f64,
    status: Status,
}

/// One suite while it runs.
struct Suite<'s> {
    programs: &'s Programs,
    direction: Direction,
    folder: &'s Path,
    /// Counts up, so that no writer writes what is there already.
    seed: u64,
}

/// Runs the suite.
pub(crate) fn run(
    direction: Direction,
    programs: &Programs,
    options: &Options,
    track: &mut Track<'_>,
) -> Result<Report, Error> {
    let summary = |device| {
        let profile = Profile::by_name(device).map_err(|error| Error::fix(error.to_string()))?;
        Ok(profile.summary)
    };
    let extent = if options.quick { Extent::quick() } else { Extent::whole() };
    let repetitions = options.repetitions.unwrap_or(1).max(1);
    let cases = plan::cases(&extent, direction);
    let file_bytes = cases.iter().map(Case::bytes).max().unwrap_or_default();
    let folder = machine::scratch(file_bytes)?;
    let mut suite = Suite { programs, direction, folder: folder.path(), seed: SEED };
    suite.prepare(file_bytes)?;

    let seconds_of = |case: &Case| case.seconds(direction);
    let seconds: f64 = cases.iter().map(seconds_of).sum();
    track.expect(cases.len() * repetitions, seconds * repetitions as f64);
    let mut measured = Vec::new();
    for _ in 0..repetitions {
        for case in &cases {
            let result = suite.measure(*case)?;
            track.case(seconds_of(case), result.line());
            measured.push(result);
        }
    }
    let mut report = Report::new(match direction {
        Direction::Read => "strided-read",
        Direction::Write => "strided-write",
    });
    report.set("processes", PROCESSES);
    report.set("store", format!("modelled:{DISK}"));
    report.set("device", summary(DISK)?);
    report.set("ssd_store", format!("modelled:{FLASH}"));
    report.set("ssd_device", summary(FLASH)?);
    report.set("beneath_the_model", machine::file_system(folder.path()));
    report.set("file_bytes", file_bytes);
    report.set("repetitions", repetitions);
    report.set("forwarder", suite.settings()?);
    findings::report(&mut report, &cases, &measured);
    Ok(report)
}

impl Suite<'_> {
    fn file(&self) -> PathBuf {
        self.folder.join("shared")
    }

    /// Makes the file, natively.
    fn prepare(&self, bytes: u64) -> Result<(), Error> {
        let whole = Case {
            device: DISK,
            policy: plan::SEQUENTIAL,
            granularity: forebay_units::Bytes::mib(1),
            rounds: 1,
        };
        let command = self.program("write", SEED, &whole, 0, 1, bytes / whole.granularity.0)?;
        Crew::assemble(vec![command])?.run().map(drop)
    }

    fn measure(&mut self, case: Case) -> Result<Measured, Error> {
        let mode = match self.direction {
            Direction::Read => "read",
            Direction::Write => {
                self.seed += 1;
                "write"
            }
        };
        let mut server = Server::start(self.programs, &self.flags(&case))?;
        let mut members = Vec::new();
        let (processes, count) = if case.is_sequential() {
            (1, case.rounds * PROCESSES)
        } else {
            (PROCESSES, case.rounds)
        };
        for first in plan::order_of_start(processes) {
            let mut command = self.program(mode, self.seed, &case, first, processes, count)?;
            command
                .env("LD_PRELOAD", self.programs.preload()?)
                .env("FOREBAY_ENDPOINT", server.endpoint())
                .env("FOREBAY_PATHS", self.folder)
                .env("FOREBAY_ON_FAILURE", "fail");
            members.push(command);
        }
        let seconds = Crew::assemble(members)?.run()?.as_secs_f64();
        let status = server.status()?;
        server.stop()?;
        let moved = match self.direction {
            Direction::Read => status.calls.read_bytes,
            Direction::Write => status.calls.written_bytes,
        };
        if moved != case.bytes() {
            let text = format!("{moved} of {} bytes went through the forwarder", case.bytes());
            return Err(Error::failed(format!("{}: {text}; the rest bypassed it", case.policy)));
        }
        if self.direction == Direction::Write {
            let written = self.program("read", self.seed, &case, 0, 1, case.rounds * PROCESSES)?;
            Crew::assemble(vec![written])?.run()?;
        }
        Ok(Measured { case, seconds, status })
    }

    fn program(
        &self,
        mode: &str,
        seed: u64,
        case: &Case,
        first: u64,
        every: u64,
        count: u64,
    ) -> Result<Command, Error> {
        let mut command = self.programs.strides()?;
        command.arg(mode).arg(self.file());
        command
            .args([seed, case.granularity.0, first, every, count].map(|number| number.to_string()));
        Ok(command)
    }

    fn flags(&self, case: &Case) -> Vec<String> {
        let policy = if case.is_sequential() { "to" } else { case.policy };
        let socket = self.folder.join("socket");
        vec![
            format!("--listen-unix={}", socket.display()),
            format!("--store-kind=modelled:{}", case.device),
            format!("--scheduler-policy={policy}"),
        ]
    }

    /// All settings of the forwarders; the policy is the cases'.
    fn settings(&self) -> Result<Value, Error> {
        Server::settings(self.programs, &[format!("--store-kind=modelled:{DISK}")])
    }
}

impl Measured {
    /// Millions of bytes a second.
    fn throughput(&self) -> f64 {
        self.case.bytes() as f64 / self.seconds / 1e6
    }

    /// How often something left the scheduler: in batches, or alone past the policy.
    fn dispatches(&self) -> f64 {
        let scheduler = &self.status.scheduler;
        let requests = self.case.bytes() / self.case.granularity.0;
        (scheduler.batches + requests.saturating_sub(scheduler.batched_requests)) as f64
    }

    fn counter(&self, name: &str) -> f64 {
        self.status.store_counters.get(name).copied().unwrap_or_default() as f64
    }

    fn line(&self) -> String {
        let size = table::bytes(self.case.granularity.0 as f64);
        let Case { device, policy, .. } = self.case;
        format!("{device:6}  {size:>7}  {policy:10}  {:5.1} MB/s", self.throughput())
    }

    fn raw(&self) -> Value {
        let Self { case, seconds, status } = self;
        json!({
            "device": case.device,
            "policy": case.policy,
            "granularity_bytes": case.granularity.0,
            "bytes": case.bytes(),
            "seconds": seconds,
            "status": status,
        })
    }
}
