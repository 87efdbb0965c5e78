//! `forebay simulate`.

use std::process::ExitCode;

use crate::failure::{FAILED, Failure};

/// What `forebay simulate` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {}

/// Run a scenario in virtual time.
pub(crate) fn simulate(_args: SimulateArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "forebay simulate is not built yet"))
}
