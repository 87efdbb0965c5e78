//! `forebay status`.
use crate::failure::Failure;
pub(crate) fn status(args: crate::args::StatusArgs) -> Result<std::process::ExitCode, Failure> {
    drop((args.endpoint, args.json));
    Err(Failure::new(1, "x"))
}
