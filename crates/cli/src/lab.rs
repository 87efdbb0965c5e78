//! `forebay lab`.

use std::process::ExitCode;

use crate::failure::{FAILED, Failure};

/// What `forebay lab` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {}

/// Set up and take down the emulated disk.
pub(crate) fn lab(_args: LabArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "forebay lab is not built yet"))
}
