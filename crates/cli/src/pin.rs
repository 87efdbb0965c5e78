//! `forebay pin`: has a running forwarder use one policy, or choose again.

use std::process::ExitCode;

use clap::Args;
use forebay_forwarder::settings::definition::NO_PIN;

use crate::asked::Asked;
use crate::console::print;
use crate::failure::{Failure, USAGE};

const HELP: &str = "\
A forwarder with policy auto chooses by itself; a pin overrides it until it is released or the
forwarder ends. What is seen meanwhile is still shown by forebay why. A pin of a class goes before
one of all. A class is named as forebay status shows it, USER/JOB, or JOB for that job of whatever
user; a name of which nothing is known yet is taken too. What is released is what was said under that
name: a pin of all, or of a less exact name (JOB, default), holds again. The settings select.pin and
classes.NAME.policy pin from the start.

Examples:
  forebay pin unix:/run/fb.sock sjf
  forebay pin unix:/run/fb.sock to --class climate
  forebay pin unix:/run/fb.sock --release --class climate
  forebay pin unix:/run/fb.sock --release

Only root and the user that runs the forwarder may, over its Unix socket; over TCP nobody may unless
listen.tcp_control = allow.

Exit code: 0 when it is pinned or released; 1 when the forwarder did not answer or refused; 2 when
there is no such policy, or the forwarder's policy is not auto.";

/// What `forebay pin` is told.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PinArgs {
    /// The forwarder: unix:/path or tcp:address:port
    #[arg(value_name = "ENDPOINT", env = "FOREBAY_ENDPOINT")]
    endpoint: String,
    /// The policy to use
    #[arg(value_name = "POLICY", required_unless_present = "release")]
    policy: Option<String>,
    /// Have it chosen again
    #[arg(long, conflicts_with = "policy")]
    release: bool,
    /// Only for the requests of this class
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
}

/// Tells a forwarder and prints what holds now.
pub(crate) fn pin(args: PinArgs) -> Result<ExitCode, Failure> {
    let PinArgs { endpoint, policy, class, .. } = args;
    let mut asked = Asked::connect(&endpoint, "forebay pin", "nothing was pinned at")?;
    let status = asked.status()?;
    if status.selection.is_none() {
        return Err(Failure::new(
            USAGE,
            format!(
                "nothing was pinned: the policy of {endpoint} is {}, not auto, so there is nothing to \
                 override; to change it: forebay set {endpoint} policy=NAME; to have it chosen: \
                 forebay set {endpoint} policy=auto",
                status.policy
            ),
        ));
    }
    let policy = policy.as_deref().unwrap_or(NO_PIN);
    let lines = match class {
        None => asked.tell(&[&format!("pin={policy}")])?,
        Some(class) => asked.tell(&["class", &class, &format!("policy={policy}")])?,
    };
    print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
