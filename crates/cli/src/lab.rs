//! `forebay lab`: the emulated disk, set up, looked at and taken down.

mod show;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use forebay_device::PROFILES;
use forebay_forwarder::settings::class::Ceiling;
use forebay_forwarder::settings::{Kind, Value};
use forebay_lab::{
    Changes, Disk, ErrorKind, Owner, Probe, Reorder, Settings, check, names, require_root, state,
    take_down, take_down_by_force,
};
use forebay_units::{Bytes, Nanos};

use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

/// Home, and erase to the end of the screen (ECMA-48: CUP, ED).
const REDRAW: &str = "\x1b[H\x1b[J";

fn help() -> String {
    let profiles = PROFILES.iter();
    let profiles: String =
        profiles.map(|profile| format!("  {:<9} {}\n", profile.name, profile.summary)).collect();
    format!(
        "\
A disk is a file of a daemon that takes the time of a device model, a loop device on it and an ext4
file system: /run/forebay/lab/NAME/mnt. Its contents are in memory and gone with it. Page cache,
read-ahead, elevator and block allocation are the kernel's own; only the platter is modelled.
docs/lab.md says what decides a result on it.

Profiles:
{profiles}
Examples:
  forebay lab disk up
  forebay lab disk up slow --profile pastel --size 4GiB --read-ahead 2MiB --elevator bfq
  forebay lab disk up quick --rate 200MiB/s --seek 500us,4ms,9ms --rpm 10000
  forebay lab disk status --json | jq '.[].statistics'
  forebay lab disk status --watch=1
  forebay lab disk check
  forebay lab disk down --all

Exit code: 0 when it is done; 1 when it is not, a disk is not whole or not its model; 2 when a flag is wrong, something is missing, or this
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
    Up(Box<UpArgs>),
    /// Take a disk down, or what a crash has left of it
    Down(DownArgs),
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
struct DownArgs {
    #[command(flatten)]
    disk: NameArgs,
    /// All disks that there are; those whose owner lives stay
    #[arg(long, conflicts_with = "name")]
    all: bool,
    /// Even if its owner, such as a running figure, lives; that fails then
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct UpArgs {
    #[command(flatten)]
    disk: NameArgs,
    /// Device model
    #[arg(long, value_name = "NAME", default_value = "hdd-57")]
    profile: String,
    #[command(flatten)]
    model: ModelArgs,
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

/// What of the profile's disk is different. The library knows the ranges.
#[derive(Debug, Args)]
#[command(next_help_heading = "Instead of the profile's own")]
struct ModelArgs {
    /// Transfer of the platter, such as 100MiB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<u64>,
    /// Seek times: to the next track, on average, over the whole disk, such as 1ms,8500us,17ms
    #[arg(long, value_name = "MIN,AVERAGE,MAX", value_parser = seek)]
    seek: Option<Seek>,
    /// Turns of the platter a minute
    #[arg(long, value_name = "NUMBER")]
    rpm: Option<u64>,
    /// Time to accept a request that is not sequential
    #[arg(long, value_name = "TIME", value_parser = time)]
    overhead: Option<Nanos>,
    /// The drive's cache: the most that it reads ahead while it is idle
    #[arg(long, value_name = "SIZE", value_parser = any_size)]
    drive_cache: Option<Bytes>,
    /// The largest step forward that still is sequential
    #[arg(long, value_name = "SIZE", value_parser = any_size)]
    gap: Option<Bytes>,
    /// What a write pays of a seek, in thousandths
    #[arg(long, value_name = "PERMILLE")]
    write_share: Option<u64>,
}

/// Three times, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Seek([u64; 3]);

impl ModelArgs {
    fn changes(&self) -> Changes {
        Changes {
            rate: self.rate,
            seek_ns: self.seek.map(|Seek(times)| times),
            turns_per_minute: self.rpm,
            overhead_ns: self.overhead.map(|time| time.0),
            cache: self.drive_cache.map(|bytes| bytes.0),
            gap: self.gap.map(|bytes| bytes.0),
            write_share_permille: self.write_share,
        }
    }
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// The disk's name [default: all of them]
    name: Option<String>,
    /// Print it as JSON: one object for a disk that was named, else a list; with --watch, one a line
    #[arg(long)]
    json: bool,
    /// Look again every so many seconds: redrawn in place on a terminal
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
}

#[derive(Debug, Args)]
struct CheckArgs {
    #[command(flatten)]
    disk: NameArgs,
    /// Read so many times as much; 1 takes six seconds of the device's time
    #[arg(long, value_name = "TIMES", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    times: u64,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) fn lab(args: LabArgs) -> Result<ExitCode, Failure> {
    let What::Disk(command) = args.what;
    match command {
        DiskCommand::Up(args) => up(*args),
        DiskCommand::Down(args) => down(&args),
        DiskCommand::Status(args) => status(&args),
        DiskCommand::Check(args) => check_disk(&args),
    }
}

fn up(args: UpArgs) -> Result<ExitCode, Failure> {
    let settings = Settings {
        name: args.disk.name,
        profile: args.profile,
        changes: args.model.changes(),
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
        print(&show::json(&read_back, false)?)?;
    } else {
        print(&show::settings(&read_back))?;
    }
    disk.keep().map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

fn down(args: &DownArgs) -> Result<ExitCode, Failure> {
    let wanted = match args.all {
        true => names().map_err(failure)?,
        false => vec![args.disk.name.clone()],
    };
    // One that cannot be taken down does not keep the others.
    let outcomes = wanted.iter().map(|name| down_one(name, args.force));
    let failures: Vec<Failure> = outcomes.filter_map(Result::err).collect();
    let (last, before) = match failures.split_last() {
        Some(found) => found,
        None => return Ok(ExitCode::SUCCESS),
    };
    before.iter().for_each(|failure| say(format_args!("forebay: {failure}")));
    Err(Failure::new(last.code, last.to_string()))
}

fn down_one(name: &str, is_forced: bool) -> Result<(), Failure> {
    let found = state(name).map_err(failure)?;
    // Its log goes with it.
    if !found.is_whole() {
        say(format_args!("forebay: disk {name} is not whole: {}", found.fault()));
        found.daemon_said.iter().for_each(|line| say(format_args!("  its daemon said: {line}")));
    }
    let outcome = if is_forced { take_down_by_force(name) } else { take_down(name) };
    outcome.map_err(failure)?;
    say(format_args!("forebay: disk {name} is down"));
    Ok(())
}

fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    require_root().map_err(failure)?;
    let Some(seconds) = args.watch else { return status_once(args, "") };
    let redraw = if io::stdout().is_terminal() && !args.json { REDRAW } else { "" };
    loop {
        status_once(args, redraw)?;
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    }
}

/// Says what there is, behind `before`.
fn status_once(args: &StatusArgs, before: &str) -> Result<ExitCode, Failure> {
    let wanted = match &args.name {
        Some(name) => vec![name.clone()],
        None => names().map_err(failure)?,
    };
    let (mut found, mut is_all) = (Vec::new(), true);
    for name in &wanted {
        match look(name) {
            Ok(one) => found.push(one),
            Err(failure) if args.name.is_some() => return Err(failure),
            // Of all disks, one that is just taken down is none; the others are shown in any case.
            Err(failure) if names().map_err(self::failure)?.contains(name) => {
                say(format_args!("forebay: {failure}"));
                is_all = false;
            }
            Err(_) => {}
        }
    }
    let is_line = args.watch.is_some();
    match (args.json, args.name.is_some(), &found[..]) {
        (true, true, [one]) => print(&show::json(one, is_line)?)?,
        (true, ..) => print(&show::json(&found, is_line)?)?,
        (false, _, []) => say(format_args!("forebay: no disk; `forebay lab disk up` sets one up")),
        (false, ..) => {
            let texts: String = found.iter().map(show::status).collect();
            print(&format!("{before}{texts}"))?;
        }
    }
    let is_well =
        |one: &show::Status| one.state.is_whole() && !matches!(one.state.owner, Owner::Gone(_));
    Ok(if is_all && found.iter().all(is_well) { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// What there is of a disk; what it is and has done only if it is whole: a daemon that has died or
/// hangs says nothing.
fn look(name: &str) -> Result<show::Status, Failure> {
    let state = state(name).map_err(failure)?;
    if !state.is_whole() {
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
        print(&show::json(&show::checks(&found, time_scale), false)?)?;
    } else {
        print(&show::check_table(&found, time_scale))?;
    }
    let is_model = found.iter().all(|checked| checked.verdict(time_scale).is_ok());
    Ok(if is_model { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
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

fn any_size(text: &str) -> Result<Bytes, String> {
    bytes(text, Bytes::ZERO, Bytes(u64::MAX), Bytes(1))
        .map_err(|_| "not a size such as 2MiB".into())
}

fn rate(text: &str) -> Result<u64, String> {
    match (Kind::ByteRate { max: u64::MAX }).parse(text) {
        Some(Value::ByteRate(Ceiling::PerSecond(rate))) => Ok(rate),
        _ => Err("not a rate such as 100MiB/s".into()),
    }
}

fn time(text: &str) -> Result<Nanos, String> {
    match (Kind::Duration { min: Nanos::ZERO, max: Nanos(u64::MAX) }).parse(text) {
        Some(Value::Duration(time)) => Ok(time),
        _ => Err("not a time such as 100us".into()),
    }
}

fn seek(text: &str) -> Result<Seek, String> {
    let times: Result<Vec<u64>, String> =
        text.split(',').map(|text| time(text).map(|time| time.0)).collect();
    let times = times.ok().and_then(|times| times.try_into().ok());
    times.map(Seek).ok_or_else(|| "not three times such as 1ms,8500us,17ms".into())
}

fn failure(error: forebay_lab::Error) -> Failure {
    let code = if error.kind == ErrorKind::Fix { USAGE } else { FAILED };
    Failure::new(code, error.to_string())
}
