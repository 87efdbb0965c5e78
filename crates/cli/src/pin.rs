//! `forebay pin`.

use std::process::ExitCode;

use clap::Args;

use crate::failure::{FAILED, Failure};

/// What `forebay pin` is told.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {}

pub(crate) fn pin(_: PinArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "not built yet".to_owned()))
}
