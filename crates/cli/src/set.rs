//! `forebay set`: changes weights, limits and policies of a running forwarder.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use forebay_client::{Connection, Endpoint, Error, Limits, Who};
use forebay_forwarder::control::Answer;
use rustix::io::Errno;

use crate::console::print;
use crate::failure::{FAILED, Failure, USAGE};

/// A forwarder that does not answer within this is not well: its loop never waits for anything.
const PATIENCE: Duration = Duration::from_secs(5);

fn help() -> String {
    format!(
        "\
What can be set:
{}
A class is named as `forebay status` shows it: USER/JOB, or JOB for that job of whatever user;
user:USER is all of a user's jobs together, default every class. All changes of one command are made,
or none. They hold until the forwarder ends; the settings file keeps them (section [classes.NAME]).

Examples:
  forebay set unix:/run/fb.sock class climate weight=3
  forebay set unix:/run/fb.sock class 1000/climate limit=100MiB/s limit=500op/s at_limit=wait
  forebay set unix:/run/fb.sock class climate limit=none
  forebay set unix:/run/fb.sock policy=sjf

Only root and the user that runs the forwarder may, over its Unix socket; over TCP nobody may unless
listen.tcp_control = allow.

Exit code: 0 when it is set; 1 when the forwarder did not answer or refused; 2 when a word is wrong.",
        forebay_forwarder::control::reference()
    )
}

/// What `forebay set` is told.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct SetArgs {
    /// The forwarder: unix:/path or tcp:address:port
    #[arg(value_name = "ENDPOINT")]
    endpoint: String,
    /// KEY=VALUE …, or class NAME KEY=VALUE …
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
}

/// Tells a forwarder and prints what holds now.
pub(crate) fn set(args: SetArgs) -> Result<ExitCode, Failure> {
    let endpoint: Endpoint =
        args.endpoint.parse().map_err(|error| Failure::new(USAGE, format!("{error}")))?;
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(FAILED, format!("nothing was set at {endpoint}: {error}"))
    };
    let who = Who { job: b"", program: b"forebay set" };
    let limits = Limits { connect: PATIENCE, progress: PATIENCE };
    let mut connection =
        Connection::connect(&endpoint, &who, limits).map_err(|error| failed(&error))?;
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let answer = match connection.control(&words) {
        Ok(answer) => answer,
        Err(Error::Errno(Errno::PERM)) => {
            return Err(failed(
                &"only root and the user that runs the forwarder may change it, over its Unix socket; \
                 to let clients on TCP do so, set listen.tcp_control = allow",
            ));
        }
        Err(error) => return Err(failed(&error)),
    };
    match serde_json::from_str(&answer).map_err(|error| failed(&error))? {
        Answer::Set(lines) => {
            print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
            Ok(ExitCode::SUCCESS)
        }
        Answer::Wrong(text) => Err(Failure::new(USAGE, format!("nothing was set: {text}"))),
    }
}
