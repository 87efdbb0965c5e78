//! `forebay bench`: runs a suite, shows how far it is, and prints its table.

use std::process::ExitCode;

use forebay_bench::{ErrorKind, Options};

use crate::args::BenchArgs;
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

/// Runs a suite: progress on standard error, the table on standard output, files where asked for.
pub(crate) fn bench(args: BenchArgs) -> Result<ExitCode, Failure> {
    let options = Options {
        quick: args.quick,
        repetitions: args.repetitions,
        json: args.json,
        output: args.output,
        archive: args.archive,
    };
    let report =
        forebay_bench::run(&args.suite, &options, &mut |progress| say(format_args!("{progress}")))
            .map_err(|error| {
                let code = if error.kind == ErrorKind::Fix { USAGE } else { FAILED };
                Failure::new(code, error.to_string())
            })?;
    print(&format!("{}\n", forebay_bench::table(&report)))?;
    Ok(ExitCode::SUCCESS)
}
