//! `forebay train`: measures the situations, learns the tree, and writes or checks the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use forebay_device::Profile;
use forebay_prior::write_tree;
use forebay_trace::{Reader, Workload};
use forebay_train::reproduce::{Data, TABLES, TREE, learn, lists, reproduce};
use forebay_train::{Measured, Situation, measure, site};

use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

const HELP: &str = "\
Runs the situations of AGIOS 2015 in virtual time, under every policy and with fixed seeds, on all
processors, and learns from them which policy fits which pattern and device. The results are the
same bytes on every machine: what the command writes is what is published in crates/train/data
and crates/prior/data and compiled in. docs/training.md explains the files.

With traces, nothing is measured anew: the tree is learned from the published situations and from
the traces, each replayed under every policy in front of the device. Give the tree that is written
to a forwarder with select.tree.

Examples:
  forebay train --output /tmp/training
  forebay train --check
  forebay train --check --quick
  forebay train --output site --device ssd monday.trace tuesday.trace

Exit code: 0; 1 when something failed or, with --check, differs; 2 when the command line is wrong.";

/// What `forebay train` is told.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct TrainArgs {
    /// The folder for tables and tree, or, with traces, for the tree
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// Compare with what is compiled in, instead of writing
    #[arg(long, conflicts_with = "traces")]
    check: bool,
    /// With --check: every 37th situation only, and the tree from the published tables
    #[arg(long, requires = "check", conflicts_with = "output")]
    quick: bool,
    /// The device before which traces are replayed
    #[arg(long, value_name = "NAME", default_value = "hdd-57", requires = "traces")]
    device: String,
    /// Traces of a site, which are learned from as well
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
}

pub(crate) fn train(args: TrainArgs) -> Result<ExitCode, Failure> {
    match (&args.output, args.traces.is_empty()) {
        (Some(folder), false) => with_traces(&args, folder),
        _ if args.quick => check_sample(),
        (output, _) => whole(output.as_deref(), args.check),
    }
}

/// A line now and then.
fn tell(measured: &Measured) {
    let Measured { situation, done, total } = measured;
    if done % 16 == 0 || done == total {
        say(format_args!("{done:4}/{total}  {situation}"));
    }
}

fn failed(text: impl Into<String>) -> Failure {
    Failure::new(FAILED, text)
}

/// Measures all, and writes or compares every file.
fn whole(output: Option<&Path>, is_check: bool) -> Result<ExitCode, Failure> {
    let files = reproduce(&mut tell);
    if let Some(folder) = output {
        files.iter().try_for_each(|(name, text)| put(folder, name, text))?;
    }
    if !is_check {
        return Ok(ExitCode::SUCCESS);
    }
    let published = TABLES.iter().chain([&TREE]);
    let differing: Vec<&str> = files
        .iter()
        .zip(published)
        .filter(|((_, text), published)| text != published.text)
        .map(|((name, _), _)| *name)
        .collect();
    verdict(&differing)
}

fn verdict(differing: &[&str]) -> Result<ExitCode, Failure> {
    if differing.is_empty() {
        print("the same bytes as published\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    Err(failed(format!(
        "{} differ from what is published; `forebay train --output DIR` writes them anew",
        differing.join(", ")
    )))
}

/// Some situations anew, and the tree from the published tables.
fn check_sample() -> Result<ExitCode, Failure> {
    let published = TABLES.map(|table| forebay_train::Table::read_csv(table.text).map_err(failed));
    let mut differing = Vec::new();
    for ((list, table), file) in lists().iter().zip(published).zip(&TABLES) {
        let (table, sample) = (table?, list.iter().step_by(37).copied());
        let sample: Vec<Situation> = sample.collect();
        let anew = measure(&sample, &mut tell);
        if anew.rows.iter().any(|row| !table.rows.contains(row)) {
            differing.push(file.name);
        }
    }
    let data = Data::published().map_err(failed)?;
    if write_tree(&learn(&data, &[]).0) != TREE.text {
        differing.push(TREE.name);
    }
    verdict(&differing)
}

/// Learns from the published tables and a site's traces.
fn with_traces(args: &TrainArgs, folder: &Path) -> Result<ExitCode, Failure> {
    let device = Profile::by_name(&args.device)
        .map_err(|error| Failure::new(USAGE, format!("--device: {error}")))?;
    let data = Data::published().map_err(failed)?;
    let mut further = Vec::new();
    for path in &args.traces {
        let wrong = |error: &dyn std::fmt::Display| failed(format!("{}: {error}", path.display()));
        let bytes = fs::read(path).map_err(|error| wrong(&error))?;
        let reader = Reader::new(&bytes).map_err(|error| wrong(&error))?;
        let workload = Workload::read(reader);
        if let Some(damage) = workload.damages.first() {
            return Err(wrong(damage));
        }
        let example = site::situation(&workload, &device).map_err(|error| wrong(&error))?;
        say(format_args!("{}: {} requests", path.display(), workload.requests.len()));
        further.push(example);
    }
    let (tree, _) = learn(&data, &further);
    put(folder, TREE.name, &write_tree(&tree))?;
    Ok(ExitCode::SUCCESS)
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
    written.map_err(|error| failed(format!("{}: {error}", path.display())))?;
    print(&format!("{}\n", path.display()))
}
