//! `forebay trace`.

use std::process::ExitCode;

use crate::failure::{FAILED, Failure};

/// What `forebay trace` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {}

/// Record, read, convert and replay traces.
pub(crate) fn trace(_args: TraceArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "forebay trace is not built yet"))
}
