//! `forebay status`: who uses the storage, and what else a running forwarder says of itself.

mod table;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::asked::Asked;
use crate::console::print;
use crate::failure::Failure;

const STATUS_HELP: &str = "\
First comes who uses the storage most: users and jobs, the heaviest first, then files. Shares are of
the bytes moved since the forwarder started; with --watch, since the line before.

Examples:
  forebay status unix:/run/forebay.sock
  forebay status --watch unix:/run/forebay.sock
  forebay status --watch=10 unix:/run/forebay.sock >> storage.log
  forebay status --json tcp:127.0.0.1:7070 | jq '.classes[0]'

Exit code: 0 when the forwarder answered, 1 when it did not.";

/// What `forebay status` is told.
#[derive(Debug, Args)]
#[command(after_help = STATUS_HELP)]
pub(crate) struct StatusArgs {
    /// The forwarder: unix:/path or tcp:address:port
    #[arg(value_name = "ENDPOINT", env = "FOREBAY_ENDPOINT")]
    pub(crate) endpoint: String,
    /// Print the forwarder's answer as it is; with --watch, one a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask again every so many seconds: redrawn in place on a terminal, else a line each time
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) watch: Option<u32>,
}

/// Asks a forwarder and prints its answer.
pub(crate) fn status(args: StatusArgs) -> Result<ExitCode, Failure> {
    let mut asked = Asked::connect(&args.endpoint, "forebay status", "no status from")?;
    if let Some(seconds) = args.watch {
        watch::watch(&mut asked, Duration::from_secs(u64::from(seconds)), args.json)?;
    } else if args.json {
        print(&(asked.text()? + "\n"))?;
    } else {
        print(&table::table(&asked.endpoint.to_string(), &asked.status()?, None))?;
    }
    Ok(ExitCode::SUCCESS)
}
