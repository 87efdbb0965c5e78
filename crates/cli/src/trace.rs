//! `forebay trace`: records, reads, checks, converts and replays what a scheduler was told and decided.

mod check;
mod export;
mod feed;
mod import;
mod live;
mod player;
mod record;
pub(crate) mod recording;
mod replay;
mod shares;
mod stat;
mod sys;
mod table;

use std::path::Path;
use std::process::ExitCode;

use clap::Subcommand;
use forebay_trace::{Damage, Reader};

use crate::console::say;
use crate::failure::{FAILED, Failure};

const HELP: &str = "\
A trace has every request, decision and completion of a scheduler; docs/trace-format.md describes it.
forebay serve and forebay run record one with --trace-file FILE, too.

Examples:
  forebay trace record -o run.trace -- tar cf backup.tar src
  forebay trace stat run.trace
  forebay trace check run.trace
  forebay trace export run.trace > requests.csv
  forebay trace import darshan-dxt.txt -o job.trace
  forebay trace replay run.trace --policy to,aioli,hbrr --device hdd-57";

/// What `forebay trace` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Run a program through a private forwarder, as forebay run does, and record a trace
    Record(record::RecordArgs),
    /// Say what is in a trace: sizes, order, decisions, times, and who did how much
    Stat(stat::StatArgs),
    /// Hold traces against the laws that every trace obeys, and against what is decided today
    Check(check::CheckArgs),
    /// Write the requests of a trace as comma-separated values
    Export(export::ExportArgs),
    /// Make a trace of fio I/O logs or of the output of darshan-dxt-parser
    Import(import::ImportArgs),
    /// Ask for the same again: of a model in virtual time, or of a store in real time
    Replay(replay::ReplayArgs),
}

/// Record, read, check, convert and replay traces.
pub(crate) fn trace(args: TraceArgs) -> Result<ExitCode, Failure> {
    match args.command {
        TraceCommand::Record(args) => record::record(args),
        TraceCommand::Stat(args) => stat::stat(&args),
        TraceCommand::Check(args) => check::check(&args),
        TraceCommand::Export(args) => export::export(&args),
        TraceCommand::Import(args) => import::import(&args),
        TraceCommand::Replay(args) => replay::replay(&args),
    }
}

/// All of a file, without memory of its own.
pub(crate) fn read_file(path: &Path) -> Result<sys::FileBytes, Failure> {
    sys::FileBytes::open(path)
        .map_err(|error| Failure::new(FAILED, format!("{}: {error}", path.display())))
}

/// Begins to read a trace.
pub(crate) fn reader<'a>(path: &Path, bytes: &'a [u8]) -> Result<Reader<'a>, Failure> {
    Reader::new(bytes).map_err(|error| Failure::new(FAILED, format!("{}: {error}", path.display())))
}

/// Damaged places that are told one by one.
const DAMAGES_TOLD: usize = 10;

/// Says what of a trace is missing; the exit code for it.
pub(crate) fn tell_missing(path: &Path, damages: &[Damage], lost_events: u64) -> ExitCode {
    let path = path.display();
    for damage in damages.iter().take(DAMAGES_TOLD) {
        say(format_args!("forebay: {path}: {damage}"));
    }
    if damages.len() > DAMAGES_TOLD {
        say(format_args!("forebay: {path}: and {} more such places", damages.len() - DAMAGES_TOLD));
    }
    if lost_events > 0 {
        say(format_args!(
            "forebay: {path}: {lost_events} events were lost while recording; trace.buffer_bytes is the memory for them"
        ));
    }
    match damages.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    }
}
