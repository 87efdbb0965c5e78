//! `forebay probe`.

use std::process::ExitCode;

use clap::Args;

use crate::failure::{FAILED, Failure};

/// What `forebay probe` is told.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {}

pub(crate) fn probe(_: ProbeArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "not built yet".to_owned()))
}
