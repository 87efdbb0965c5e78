//! `forebay run`: one program, and all that it starts, through a private forwarder.
//!
//! ```text
//! settings ─► Forwarder on a thread ◄─socket─ CMD with LD_PRELOAD and FOREBAY_… set
//!                    │                          ▲ signals passed on
//!                    └─ status at the end ─► Report; exit code is CMD's
//! ```

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use forebay_forwarder::Forwarder;
use forebay_forwarder::settings::Settings;

use crate::args::{OnFailure, RunArgs};
use crate::check;
use crate::console::say;
use crate::failure::{Failure, NOT_EXECUTABLE, NOT_FOUND, RUN_FAILED};
use crate::library;

mod home;
mod report;
mod service;
mod signals;

use home::Home;
use report::Report;
use service::Service;
use signals::Signals;

/// Runs a program with its I/O going through a forwarder of its own.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let library = library::find()?;
    let program = check::find_command(&args.command[0]).ok_or_else(|| {
        Failure::new(
            NOT_FOUND,
            format!("{}: no such program", Path::new(&args.command[0]).display()),
        )
    })?;
    if let Some(obstacle) = check::obstacle(&args.command[0], &library) {
        say(format_args!("forebay: warning: its I/O will not be scheduled: {obstacle}"));
    }
    let prefixes = prefixes(&args.paths)?;
    let home = Home::create()?;
    let settings = args.settings.resolve(&decided(&args, &home, &prefixes))?;

    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(RUN_FAILED, format!("cannot start the forwarder: {error}"))
    };
    let forwarder = Forwarder::bind(&settings).map_err(|error| failed(&error))?;
    let environment =
        environment(&args, &library, &forwarder.endpoints()[0].to_string(), &prefixes, &settings)?;
    let mut signals = Signals::catch().map_err(|error| failed(&error))?;
    let service = Service::start(forwarder).map_err(|error| failed(&error))?;

    let mut command = Command::new(&program);
    command.args(&args.command[1..]).envs(environment);
    let outcome = run_to_end(&mut command, &program, &mut signals);
    let status = service.end(&mut signals)?;
    let code = exit_code(outcome?);
    Report { command: &args.command, exit_code: code, paths: &prefixes, status: &status }
        .write(&args)?;
    Ok(ExitCode::from(code))
}

/// Starts a program, passes signals on to it, and waits for its end.
fn run_to_end(
    command: &mut Command,
    program: &Path,
    signals: &mut Signals,
) -> Result<ExitStatus, Failure> {
    let mut child = command.spawn().map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
        Failure::new(code, format!("cannot execute {}: {error}", program.display()))
    })?;
    // Not before: the program keeps the limits that it was started with.
    forebay_forwarder::raise_limits();
    signals.pass_on_until_exit(&mut child).map_err(|error| {
        Failure::new(RUN_FAILED, format!("cannot watch {}: {error}", program.display()))
    })
}

/// As shells report it: the code, or 128 and the signal's number.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(RUN_FAILED)
}

/// The prefixes, absolute and without symbolic links as far as they exist.
fn prefixes(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let here = [PathBuf::from(".")];
    let paths = if paths.is_empty() { &here } else { paths };
    let settle = |path: &PathBuf| match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path),
        settled => settled,
    };
    let prefixes = paths.iter().map(|path| {
        let prefix = settle(path).map_err(|error| {
            Failure::new(RUN_FAILED, format!("--path {}: {error}", path.display()))
        })?;
        match prefix.as_os_str().as_encoded_bytes().contains(&b':') {
            true => Err(Failure::new(
                RUN_FAILED,
                format!(
                    "--path {}: a colon separates prefixes; name a directory above",
                    prefix.display()
                ),
            )),
            false => Ok(prefix),
        }
    });
    prefixes.collect()
}

/// The settings that are not the user's to make: this forwarder serves this program only.
fn decided(args: &RunArgs, home: &Home, prefixes: &[PathBuf]) -> [(&'static str, String); 4] {
    let (unix, tcp, root) = match args.tcp {
        false => (home.socket().display().to_string(), String::new(), String::new()),
        true => (
            String::new(),
            "127.0.0.1:0".to_owned(),
            common_ancestor(prefixes).display().to_string(),
        ),
    };
    [
        ("listen.unix", unix),
        ("listen.tcp", tcp),
        ("listen.tcp_allow", "127.0.0.0/8,::1/128".to_owned()),
        ("export.root", root),
    ]
}

/// The deepest directory above all prefixes, or the one prefix itself when it is a directory.
fn common_ancestor(prefixes: &[PathBuf]) -> PathBuf {
    let mut ancestor = prefixes[0].clone();
    while !(ancestor.is_dir() && prefixes.iter().all(|prefix| prefix.starts_with(&ancestor)))
        && ancestor.pop()
    {}
    ancestor
}

/// What the program finds in its environment, for the preload library to read.
fn environment(
    args: &RunArgs,
    library: &Path,
    endpoint: &str,
    prefixes: &[PathBuf],
    settings: &Settings,
) -> Result<Vec<(&'static str, OsString)>, Failure> {
    let paths: Vec<&OsStr> = prefixes.iter().map(|prefix| prefix.as_os_str()).collect();
    let on_failure = match args.on_failure {
        OnFailure::Fail => "fail",
        OnFailure::Direct => "direct",
    };
    let job = args.job.clone().unwrap_or_else(|| format!("run-{}", std::process::id()));
    let mut variables = vec![
        ("LD_PRELOAD", preload(std::env::var_os("LD_PRELOAD"), library)?),
        ("FOREBAY_ENDPOINT", endpoint.into()),
        ("FOREBAY_PATHS", paths.join(OsStr::new(":"))),
        ("FOREBAY_ON_FAILURE", on_failure.into()),
        ("FOREBAY_JOB", job.into()),
    ];
    if let Some(root) = &settings.export.root {
        variables.push(("FOREBAY_EXPORT", root.clone().into_os_string()));
    }
    Ok(variables)
}

/// The value of `LD_PRELOAD`: what was there, then our library, unless it was there already.
fn preload(existing: Option<OsString>, library: &Path) -> Result<OsString, Failure> {
    let is_separator = |byte: &u8| matches!(byte, b':' | b' ');
    let ours = library.as_os_str();
    if ours.as_encoded_bytes().iter().any(is_separator) {
        return Err(Failure::new(
            RUN_FAILED,
            format!(
                "{}: the loader takes no library with a space or colon in its path; move it",
                library.display()
            ),
        ));
    }
    let Some(existing) = existing.filter(|list| !list.is_empty()) else {
        return Ok(ours.to_owned());
    };
    if existing.as_encoded_bytes().split(is_separator).any(|name| name == ours.as_encoded_bytes()) {
        return Ok(existing);
    }
    Ok([existing.as_os_str(), ours].join(OsStr::new(":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_preload_list_is_kept_in_front() {
        let ours = Path::new("/lib/ours.so");
        let with = |existing: &str| preload(Some(existing.into()), ours).unwrap();
        assert_eq!(preload(None, ours).unwrap(), "/lib/ours.so");
        assert_eq!(with(""), "/lib/ours.so");
        assert_eq!(with("a.so b.so"), "a.so b.so:/lib/ours.so");
        assert_eq!(with("a.so:/lib/ours.so"), "a.so:/lib/ours.so");
        assert!(preload(None, Path::new("/my lib/ours.so")).is_err());
    }

    #[test]
    fn the_export_is_the_deepest_directory_above_every_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::create_dir(&a).unwrap();
        assert_eq!(common_ancestor(std::slice::from_ref(&a)), a);
        assert_eq!(common_ancestor(&[a.clone(), a.join("x")]), a);
        assert_eq!(common_ancestor(&[a, b]), folder.path());
    }

    #[test]
    fn a_prefix_is_absolute_even_before_it_exists() {
        let prefixes = prefixes(&[PathBuf::from("not-there-yet")]).unwrap();
        assert!(prefixes[0].is_absolute(), "{prefixes:?}");
    }

    #[test]
    fn a_signal_ends_in_its_number_and_128() {
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
    }
}
