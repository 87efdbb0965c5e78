//! `forebay lab`: the emulated disk, set up, looked at and taken down.

mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use forebay_device::PROFILES;
use forebay_forwarder::settings::{Kind, Value};
use forebay_lab::{Disk, ErrorKind, Probe, Reorder, Settings, check, names, state, take_down};
use forebay_units::Bytes;
use rustix::process::geteuid;

use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

fn help() -> String {
    let profiles = PROFILES.iter();
    let profiles: String =
        profiles.map(|profile| format!("  {:<9} {}\n", profile.name, profile.summary)).collect();
    format!(
        "\
A disk is a file of a daemon that takes the time of a device model, a loop device on it and an ext4
file system: /run/forebay/lab/NAME/mnt. Its contents are in memory and gone with it. Page cache,
read-ahead, elevator and block allocation are the kernel's own; only the platter is modelled.

Profiles:
{profiles}
Examples:
  forebay lab disk up
  forebay lab disk up slow --profile pastel --size 4GiB --read-ahead 2MiB --elevator bfq
  forebay lab disk status --json | jq .statistics
  forebay lab disk check
  forebay lab disk down

Exit code: 0 when it is done; 1 when it is not; 2 when a flag is wrong, something is missing, or this
is not root."
    )
}

/// What `forebay lab` is told.
#[derive(Debug, Args)]
#[command(after_help = help())]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The emulated disk
    #[command(subcommand)]
    Disk(DiskCommand),
}

#[derive(Debug, Subcommand)]
enum DiskCommand {
    /// Set up a disk, mounted and empty
    Up(UpArgs),
    /// Take a disk down, or what a crash has left of it
    Down(NameArgs),
    /// Say what disks there are, what each is, and what it has done
    Status(StatusArgs),
    /// Read from an otherwise idle disk and hold what that takes against its model
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct NameArgs {
    /// The disk's name
    #[arg(default_value = "disk")]
    name: String,
}

#[derive(Debug, Args)]
struct UpArgs {
    #[command(flatten)]
    disk: NameArgs,
    /// Device model
    #[arg(long, value_name = "NAME", default_value = "hdd-57")]
    profile: String,
    /// Size; memory is used as far as the disk is written
    #[arg(long, default_value = "2GiB", value_parser = size)]
    size: Bytes,
    /// Real time over the device's own: 0.1 is ten times as fast. Publish figures at 1
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    time_scale: f64,
    /// The block device's read-ahead
    #[arg(long, value_name = "SIZE", default_value = "128KiB", value_parser = read_ahead)]
    read_ahead: Bytes,
    /// Requests that the block device hands to the drive at once, 4 to 128
    #[arg(long, value_name = "NUMBER", default_value_t = 4)]
    queue_depth: u32,
    /// The block device's elevator: none, mq-deadline, bfq, kyber, as the kernel has them
    #[arg(long, value_name = "NAME", default_value = "mq-deadline")]
    elevator: String,
    /// The drive's own order: fifo, sstf:N (the nearest of N), c-look:N (the next ahead of N)
    #[arg(long, value_name = "ORDER", default_value = "fifo")]
    reorder: Reorder,
    /// Print what it is as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// The disk's name [default: all of them]
    name: Option<String>,
    /// Print it as JSON: one object for a disk that was named, else a list
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    disk: NameArgs,
    /// Read so many times as much; 1 takes two seconds of the device's time
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    times: u64,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) fn lab(args: LabArgs) -> Result<ExitCode, Failure> {
    let What::Disk(command) = args.what;
    match command {
        DiskCommand::Up(args) => up(args),
        DiskCommand::Down(args) => {
            take_down(&args.name).map_err(failure)?;
            say(format_args!("forebay: disk {} is down", args.name));
            Ok(ExitCode::SUCCESS)
        }
        DiskCommand::Status(args) => status(&args),
        DiskCommand::Check(args) => check_disk(&args),
    }
}

fn up(args: UpArgs) -> Result<ExitCode, Failure> {
    let settings = Settings {
        name: args.disk.name,
        profile: args.profile,
        bytes: args.size.0,
        time_scale: args.time_scale,
        read_ahead_kib: u32::try_from(args.read_ahead.0 >> 10).unwrap_or(u32::MAX),
        queue_depth: args.queue_depth,
        elevator: args.elevator,
        reorder: args.reorder,
    };
    let disk = Disk::up(&settings).map_err(failure)?;
    let read_back = disk.settings_read_back().map_err(failure)?;
    if args.json {
        print(&show::json(&read_back)?)?;
    } else {
        print(&show::settings(&read_back))?;
    }
    disk.keep().map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let wanted = match &args.name {
        Some(name) => vec![name.clone()],
        None => names().map_err(failure)?,
    };
    let found: Result<Vec<_>, _> = wanted.iter().map(|name| look(name)).collect();
    let found = found?;
    match (args.json, args.name.is_some(), &found[..]) {
        (true, true, [one]) => print(&show::json(one)?)?,
        (true, ..) => print(&show::json(&found)?)?,
        (false, _, []) => say(format_args!("forebay: no disk; `forebay lab disk up` sets one up")),
        (false, ..) => found.iter().try_for_each(|one| print(&show::status(one)))?,
    }
    let all_whole = found.iter().all(|one| one.state.is_whole());
    Ok(if all_whole { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// What there is of a disk; what it is and has done only if it is whole: asking a daemon that has
/// died fails.
fn look(name: &str) -> Result<show::Status, Failure> {
    let state = state(name).map_err(failure)?;
    if !state.is_whole() || !geteuid().is_root() {
        return Ok(show::Status { state, is: None, statistics: None });
    }
    let disk = Disk::find(name).map_err(failure)?;
    let is = Some(disk.settings_read_back().map_err(failure)?);
    let statistics = Some(disk.statistics().map_err(failure)?);
    Ok(show::Status { state, is, statistics })
}

fn check_disk(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let disk = Disk::find(&args.disk.name).map_err(failure)?;
    let time_scale = disk.settings_read_back().map_err(failure)?.settings.time_scale;
    let probes = Probe::all(args.times);
    let mut found = Vec::new();
    for probe in &probes {
        let checked = check(&disk, *probe).map_err(failure)?;
        say(format_args!(
            "{}/{} {}",
            found.len() + 1,
            probes.len(),
            show::line(&checked, time_scale)
        ));
        found.push(checked);
    }
    if args.json {
        print(&show::json(&show::checks(&found, time_scale))?)?;
    } else {
        print(&show::check_table(&found, time_scale))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn size(text: &str) -> Result<Bytes, String> {
    bytes(text, Bytes::mib(64), Bytes::mib(1 << 20), Bytes::mib(1))
}

fn read_ahead(text: &str) -> Result<Bytes, String> {
    bytes(text, Bytes::ZERO, Bytes::mib(64), Bytes::kib(4))
}

fn bytes(text: &str, min: Bytes, max: Bytes, multiple_of: Bytes) -> Result<Bytes, String> {
    let kind = Kind::Bytes { min, max, multiple_of };
    match kind.parse(text) {
        Some(Value::Bytes(bytes)) => Ok(bytes),
        _ => Err(format!("not {kind}")),
    }
}

fn failure(error: forebay_lab::Error) -> Failure {
    let code = if error.kind == ErrorKind::Fix { USAGE } else { FAILED };
    Failure::new(code, error.to_string())
}
