//! `forebay set`.

use std::process::ExitCode;

use crate::failure::{FAILED, Failure};

/// What `forebay set` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {}

/// Change weights, limits and policies of a running forwarder.
pub(crate) fn set(_args: SetArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "forebay set is not built yet"))
}
