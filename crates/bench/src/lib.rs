//! Benchmarks: real processes, real sockets, and figures that are ratios taken in one run.
//!
//! ```text
//! run(suite, options) ─► strided ─┐  processes with the preload library ─► forebay serve ─► modelled disk
//!                        forwarding│  this process ─► forebay serve, and ─► a raw socket, in turns
//!                        core      │  forebay-bench-core, also under callgrind
//!                        selection │  nothing is started: tables, trees and virtual time
//!                        library   │  C programs, compiled and linked with libforebay and libagios
//!                                  └─► Report ─► table, JSON, plot, archive
//! ```
//!
//! Whatever is measured runs in a process of its own, started afresh for every case, so that a
//! case finds no counters, caches or threads of another's.

mod archive;
pub mod chart;
mod core;
mod crew;
mod error;
mod figures;
mod forwarding;
mod library;
mod lines;
mod machine;
mod peers;
mod processors;
mod programs;
mod progress;
mod report;
mod selection;
mod server;
mod stop;
mod strided;
mod sys;
mod table;
pub mod workload;

use std::path::PathBuf;

pub use error::{Error, ErrorKind};
pub use progress::Progress;
pub use report::{Report, Row};
pub use stop::stop;
pub use table::table;

use forebay_units::Direction;
use programs::Programs;
use progress::Track;

/// A suite, as lists of suites show it.
#[derive(Clone, Copy, Debug)]
pub struct SuiteInfo {
    /// What it is called.
    pub name: &'static str,
    /// What it measures.
    pub summary: &'static str,
    run: fn(&Programs, &Options, &mut Track<'_>) -> Result<Report, Error>,
}

const SUITES: &[SuiteInfo] = &[
    SuiteInfo {
        name: "strided-read",
        summary: "32 processes read one file in interleaved strides from a modelled disk, under each policy",
        run: |programs, options, track| strided::run(Direction::Read, programs, options, track),
    },
    SuiteInfo {
        name: "strided-write",
        summary: "the same, writing; what was written is compared afterwards",
        run: |programs, options, track| strided::run(Direction::Write, programs, options, track),
    },
    SuiteInfo {
        name: "forwarding",
        summary: "streams and round trips through the forwarder, over raw sockets of the same kind",
        run: forwarding::run,
    },
    SuiteInfo {
        name: "core",
        summary: "the scheduler alone: time, instructions and allocations a request, by policy and queue length",
        run: core::run,
    },
    SuiteInfo {
        name: "library",
        summary: "libforebay through its C interface, by policy and work, beside what AGIOS v2 did",
        run: library::run,
    },
    SuiteInfo {
        name: "selection",
        summary: "how well policies are chosen: the trained tree, the detector, the selector in virtual time",
        run: selection::run,
    },
];

/// How a suite is run, and where its results go besides the returned report.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Smaller sizes and fewer repetitions: for a look, not for figures.
    pub quick: bool,
    /// How often everything is run; the report has medians. `None` leaves it to the suite.
    pub repetitions: Option<usize>,
    /// Of the order in which runs are shuffled; `None` takes one from the clock. The report names it.
    pub seed: Option<u64>,
    /// Where the report goes as JSON.
    pub json: Option<PathBuf>,
    /// A directory for the report, the table and, where there is one, the plot as PNG and SVG.
    pub output: Option<PathBuf>,
    /// A directory of archived runs, in which this one gets its own, with raw data and its circumstances.
    pub archive: Option<PathBuf>,
}

impl Options {
    /// The same, with a seed in any case.
    fn seeded(&self) -> Self {
        let seed = self.seed.unwrap_or_else(machine::seed_of_now);
        Self { seed: Some(seed), ..self.clone() }
    }

    /// Of the order in which runs are shuffled.
    fn order_seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }
}

/// All suites.
pub fn suites() -> &'static [SuiteInfo] {
    SUITES
}

/// Runs a suite, telling `listener` after each case, and writes what the options ask for.
///
/// # Errors
/// An unknown suite (the error names the known ones), a missing program, a case that failed,
/// wrong data, or a result that cannot be written.
pub fn run(
    suite: &str,
    options: &Options,
    listener: &mut dyn FnMut(&Progress),
) -> Result<Report, Error> {
    let found = SUITES.iter().find(|info| info.name == suite).ok_or_else(|| {
        let known: Vec<&str> = SUITES.iter().map(|info| info.name).collect();
        Error::fix(format!("no suite is called \"{suite}\"; known: {}", known.join(", ")))
    })?;
    let options = &options.seeded();
    measure(options, |programs| (found.run)(programs, options, &mut Track::new(listener)))
}

/// All figures, by name, with what each shows.
pub fn figures() -> impl Iterator<Item = (&'static str, &'static str)> {
    figures::FIGURES.iter().map(|figure| (figure.name, figure.summary))
}

/// Runs a paper's figure again, as [`run`] runs a suite.
///
/// # Errors
/// As [`run`]; a figure on the emulated disk also needs root, and says so.
pub fn run_figure(
    name: &str,
    options: &Options,
    listener: &mut dyn FnMut(&Progress),
) -> Result<Report, Error> {
    let figure = figures::find(name)?;
    let options = &options.seeded();
    measure(options, |programs| figure.report(programs, options, &mut Track::new(listener)))
}

/// Measures, notes the circumstances, and writes what the options ask for.
fn measure(
    options: &Options,
    run: impl FnOnce(&Programs) -> Result<Report, Error>,
) -> Result<Report, Error> {
    let programs = Programs::beside_this()?;
    let load = machine::load();
    let mut report = run(&programs)?;
    report.set("quick", options.quick);
    report.set("load_before", load);
    machine::describe(&mut report);
    let written = archive::write(&report, options)?;
    report.notes.extend(written.iter().map(|place| format!("written to {}", place.display())));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_suite_is_refused_with_the_known_ones() {
        let error = run("striped-read", &Options::default(), &mut |_| {}).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Fix);
        assert!(
            error.to_string().contains("strided-read, strided-write, forwarding, core"),
            "{error}"
        );
    }
}
