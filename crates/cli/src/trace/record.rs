//! `forebay trace record`: `forebay run` with a trace.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::args::RunArgs;
use crate::failure::{Failure, USAGE};
use crate::run;

/// What `forebay trace record` is told.
#[derive(Debug, clap::Args)]
pub(super) struct RecordArgs {
    /// The trace; made anew
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn record(mut args: RecordArgs) -> Result<ExitCode, Failure> {
    let path = args.output.to_str().ok_or_else(|| {
        Failure::new(USAGE, format!("--output {}: not UTF-8", args.output.display()))
    })?;
    args.run.settings.set("trace.file", path);
    run::run(args.run)
}
