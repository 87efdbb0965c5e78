//! What stands on the daemon: a loop device, its queue, a file system; and how each is taken away.
//!
//! Everything is found by looking (mount table, sysfs), not by remembering, so that what a crash
//! left half done is found as well.

pub(crate) mod fuse_mount;
pub(crate) mod loop_device;
pub(crate) mod mount_table;
pub(crate) mod queue;
mod sys;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;

/// Debian puts some programs where only root looks, and root's PATH may come from a user.
const PATH_OF_ROOT: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// How often a condition is looked at that nobody tells of.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Runs a program and returns what it printed.
///
/// # Errors
/// If it is missing (with the package that has it), or failed (with what it said).
pub(crate) fn run(program: &str, package: &str, arguments: &[&str]) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", PATH_OF_ROOT).stdin(Stdio::null());
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => missing(program, package),
        _ => Error::io(program)(error),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let text = format!("{program} {}: {}: {}", arguments.join(" "), output.status, said.trim());
        return Err(Error::failed(text));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Says which programs are missing before anything is begun.
pub(crate) fn require_programs() -> Result<(), Error> {
    let wanted = [("losetup", "mount"), ("mkfs.ext4", "e2fsprogs")];
    let is_there = |program: &str| {
        PATH_OF_ROOT.split(':').any(|folder| std::path::Path::new(folder).join(program).exists())
    };
    match wanted.iter().find(|(program, _)| !is_there(program)) {
        Some((program, package)) => Err(missing(program, package)),
        None => Ok(()),
    }
}

fn missing(program: &str, package: &str) -> Error {
    Error::fix(format!("{program} is not installed; on Debian it is in the package {package}"))
}

/// Waits until `is_so`; whether it came to be within `limit`.
pub(crate) fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
