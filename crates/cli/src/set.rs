//! `forebay set`: changes weights, limits and policies of a running forwarder.

use std::process::ExitCode;

use clap::Args;

use crate::asked::Asked;
use crate::console::print;
use crate::failure::Failure;

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
    let mut asked = Asked::connect(&args.endpoint, "forebay set", "nothing was set at")?;
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let lines = asked.tell(&words)?;
    print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
