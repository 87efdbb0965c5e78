//! `forebay why`.

use std::process::ExitCode;

use clap::Args;

use crate::failure::{FAILED, Failure};

/// What `forebay why` is told.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {}

pub(crate) fn why(_: WhyArgs) -> Result<ExitCode, Failure> {
    Err(Failure::new(FAILED, "not built yet".to_owned()))
}
