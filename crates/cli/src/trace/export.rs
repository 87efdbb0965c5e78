//! `forebay trace export`: requests as comma-separated values.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use forebay_trace::{CSV_COLUMNS, Catalog, Event, Life, Lives, csv_line};

use super::{read_file, reader, tell_missing};
use crate::failure::{FAILED, Failure};

const HELP: &str = "\
One line a request, in the order in which they ended; requests whose end is not in the trace come
last. Times are in nanoseconds since the start of the recording process. seq is the order in which
the scheduler accepted requests; without one, a request never came to it.

Examples:
  forebay trace export run.trace -o requests.csv
  forebay trace export run.trace | sort -t, -k1n | head

Exit code: 0; 1 when the trace could not be read, or only in part.";

/// What `forebay trace export` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct ExportArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Where to, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let bytes = read_file(&args.trace)?;
    let reader = reader(&args.trace, &bytes)?;
    let failed = |error: io::Error| match &args.output {
        Some(path) => Failure::new(FAILED, format!("{}: {error}", path.display())),
        None => Failure::new(FAILED, format!("cannot write to standard output: {error}")),
    };
    let output: Box<dyn Write> = match &args.output {
        Some(path) => Box::new(std::fs::File::create(path).map_err(failed)?),
        None => Box::new(io::stdout().lock()),
    };
    let mut output = BufWriter::new(output);
    let (mut lives, mut damages, mut lost_events) = (Lives::default(), Vec::new(), 0_u64);
    let mut outcome = writeln!(output, "{CSV_COLUMNS}");
    let mut write = |catalog: &Catalog, life: &Life| {
        if outcome.is_ok() {
            outcome = writeln!(output, "{}", csv_line(catalog, life));
        }
    };
    for found in reader {
        match found {
            Ok(record) => {
                if let Event::Lost { events, .. } = record.event {
                    lost_events = lost_events.saturating_add(events);
                }
                lives.take(&record, &mut write);
            }
            Err(damage) => {
                lives.catalog.forget_indices();
                damages.push(damage);
            }
        }
    }
    lives.open().for_each(|life| write(&lives.catalog, life));
    match outcome.and_then(|()| output.flush()) {
        // A reader that has gone (`| head`) has what it wanted.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(failed(error)),
        Ok(()) => Ok(tell_missing(&args.trace, &damages, lost_events)),
    }
}
