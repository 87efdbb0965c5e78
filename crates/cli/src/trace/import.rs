//! `forebay trace import`: logs of other tools as a trace.

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use forebay_trace::Imported;

use super::read_file;
use crate::console::say;
use crate::failure::{FAILED, Failure, USAGE};

const HELP: &str = "\
Which kind of log it is shows in its first lines:
  fio        an I/O log of version 2 or 3 (write_iolog=FILE); several are several clients
  Darshan    the output of darshan-dxt-parser; each rank is a client

A fio log does not say when requests ended: durations are then left out of statistics, and a replay
in a closed loop keeps one request of each client under way.

Examples:
  forebay trace import job.0.log job.1.log -o job.trace
  darshan-dxt-parser run.darshan > run.txt && forebay trace import run.txt -o run.trace

Exit code: 0; 1 when a file cannot be read or written; 2 when a line is not understood.";

/// What `forebay trace import` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct ImportArgs {
    /// The logs, of one kind
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The trace; made anew
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let mut imported = Imported::default();
    for path in &args.logs {
        let bytes = read_file(path)?;
        let wrong = |text: String| Failure::new(USAGE, format!("{}: {text}", path.display()));
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
            wrong(format!("line {line}: not UTF-8; is it a text?"))
        })?;
        imported.add(text).map_err(|error| wrong(error.to_string()))?;
    }
    let failed =
        |error: io::Error| Failure::new(FAILED, format!("{}: {error}", args.output.display()));
    let mut output = BufWriter::new(std::fs::File::create(&args.output).map_err(failed)?);
    let mut outcome = Ok(());
    imported.write_trace(|piece| {
        if outcome.is_ok() {
            outcome = output.write_all(piece);
        }
    });
    outcome.and_then(|()| output.flush()).map_err(failed)?;
    say(format_args!(
        "forebay: {}: {} requests of {} clients on {} files; {} lines left out (no bytes, or shown twice)",
        imported.source,
        imported.requests.len(),
        imported.clients.len(),
        imported.files.len(),
        imported.left_out
    ));
    Ok(ExitCode::SUCCESS)
}
