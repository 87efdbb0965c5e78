//! `forebay train`.

use std::process::ExitCode;

use clap::Args;

use crate::failure::{FAILED, Failure};

/// What `forebay train` is told.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {}

pub(crate) fn train(_: TrainArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "not built yet".to_owned()))
}
