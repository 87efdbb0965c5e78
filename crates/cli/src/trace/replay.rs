//! `forebay trace replay`: the recorded requests once more, under other policies.
//!
//! ```text
//! trace ─► Workload ─┬─► forebay_sim::Simulation   virtual time: scheduler and device model
//!                    └─► live                      real time: a forwarder and files
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use forebay_device::Profile;
use forebay_sched::{GuardMode, PolicyName};
use forebay_sim::scenario::{Network, Scenario, Scheduling, Servers};
use forebay_sim::{Pace, Simulation};
use forebay_trace::{Header, Setup, Summary, Workload};
use forebay_units::{Bytes, Nanos};
use serde_json::json;

use super::table::{Run, table};
use super::{live, read_file, reader, tell_missing};
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

const HELP: &str = "\
In virtual time (without --against), the requests go through the real scheduler to the model of a
device, and nothing else costs time: the same trace, policies and seed give the same bytes. Limits
and guard are those of the recording where the trace has them.

In real time (--against), files of the same sizes are made, and each recorded client is a
connection to a forwarder: one in this process over a directory, or a running one. The recorded
files are never touched.

Pace:
  closed   each request so long after the end of the one that it followed as its client took to
           think: a faster store is asked sooner
  open     each request at its recorded time, whatever has become of the others
Which request one followed is concluded: it is the last of its client that had ended when it came.

Examples:
  forebay trace replay run.trace --policy all
  forebay trace replay run.trace --policy to,aioli --device ssd --pace open --json
  forebay trace replay run.trace --policy to,aioli --against /scratch
  forebay trace replay run.trace --against unix:/run/forebay.sock --files /data

Exit code: 0; 1 when it could not be replayed, or only in part; 2 when the command line is wrong.";

/// What `forebay trace replay` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct ReplayArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Policies, separated by commas, or all [default: the recorded one, or aioli]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// Which conflicting requests keep their order [default: as recorded, or overlap]
    #[arg(long, value_name = "MODE")]
    guard: Option<GuardMode>,
    /// The modelled device [default: hdd-57; with --against: none]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Batches that the device is given at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// When requests are made
    #[arg(long, value_name = "PACE", default_value = "closed")]
    pace: PaceName,
    /// The seed of the simulator
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Replay in real time against this: a directory, unix:/path or tcp:address:port
    #[arg(long, value_name = "WHERE")]
    against: Option<String>,
    /// With --against ENDPOINT: where the files are made [default: the current directory]
    #[arg(long, value_name = "DIR", requires = "against")]
    files: Option<PathBuf>,
    /// With --against tcp:…: the directory that the forwarder exports, as it is called here
    #[arg(long, value_name = "DIR", requires = "against")]
    export: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// When requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PaceName {
    /// After the request that each followed
    Closed,
    /// At their recorded times
    Open,
}

pub(super) fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let bytes = read_file(&args.trace)?;
    let reader = reader(&args.trace, &bytes)?;
    let header = reader.header().clone();
    let workload = Workload::read(reader.clone());
    let summary = Summary::read(reader, 0);
    if workload.requests.is_empty() {
        let text = format!("{}: no requests in it", args.trace.display());
        return Err(Failure::new(FAILED, text));
    }
    let setup = Setup::of(&header).ok();
    let policies = policies(&args.policy, setup.as_ref())?;
    let pace = match args.pace {
        PaceName::Closed => Pace::Closed,
        PaceName::Open => Pace::Open,
    };
    let guard = args.guard.or(setup.map(|setup| setup.options.guard)).unwrap_or_default();
    let mut runs = vec![Run::recorded(&workload, &summary)];
    match &args.against {
        None => runs.extend(simulate(args, &workload, setup.as_ref(), guard, pace, &policies)?),
        Some(against) => {
            let told = live::Told {
                against,
                files: args.files.as_deref(),
                export: args.export.as_deref(),
                device: args.device.as_deref(),
                depth: args.depth,
                guard,
                pace,
                policies: (!args.policy.is_empty()).then_some(&policies[..]),
                default_policy: policies[0],
            };
            runs.extend(live::replay(&workload, &told)?);
        }
    }
    match args.json {
        true => print(&format!("{:#}\n", describe(args, &header, guard, pace, &runs)))?,
        false => print(&table(&runs))?,
    }
    Ok(tell_missing(&args.trace, &workload.damages, workload.lost_events))
}

/// The policies that were named, or the recorded one.
fn policies(given: &[String], setup: Option<&Setup>) -> Result<Vec<PolicyName>, Failure> {
    match given {
        [] => Ok(vec![setup.map_or(PolicyName::Aioli, |setup| setup.policy)]),
        [word] if word == "all" => Ok(PolicyName::ALL.to_vec()),
        words => {
            let read = |word: &String| {
                let wrong = |error| Failure::new(USAGE, format!("{word}: {error}, or all"));
                word.parse().map_err(wrong)
            };
            words.iter().map(read).collect()
        }
    }
}

const DEVICE: &str = "hdd-57";

fn simulate(
    args: &ReplayArgs,
    workload: &Workload,
    setup: Option<&Setup>,
    guard: GuardMode,
    pace: Pace,
    policies: &[PolicyName],
) -> Result<Vec<Run>, Failure> {
    let device = Profile::by_name(args.device.as_deref().unwrap_or(DEVICE))
        .map_err(|error| Failure::new(USAGE, format!("--device: {error}")))?;
    let scenario = scenario(setup, device, args.depth, guard);
    let run = |policy: &PolicyName| {
        let simulation =
            Simulation::replay(&scenario, &workload.requests, pace, *policy, args.seed);
        let outcome = simulation
            .map_err(|error| Failure::new(FAILED, format!("{}: {error}", args.trace.display())))?
            .finish();
        say(format_args!("{policy}: {} events simulated", outcome.events));
        Ok(Run::simulated(&outcome))
    };
    policies.iter().map(run).collect()
}

/// One scheduler before one device, and neither network nor processor in between.
fn scenario(setup: Option<&Setup>, device: Profile, depth: u32, guard: GuardMode) -> Scenario {
    let mut scheduler = Scheduling { guard, cpu: Some(Nanos::ZERO), ..Scheduling::default() };
    if let Some(Setup { options, limits, .. }) = setup {
        scheduler.large = options.large_bytes.unwrap_or(Bytes::ZERO);
        scheduler.run_bytes = limits.run_bytes_max;
        scheduler.run_requests = limits.run_requests_max;
        scheduler.batch_bytes = limits.batch_bytes_max;
    }
    Scenario {
        name: "replay".into(),
        network: Network { delay: Nanos::ZERO, jitter: Nanos::ZERO, bandwidth: None },
        servers: Servers { device, depth, request_cpu: Nanos::ZERO, ..Servers::default() },
        scheduler,
        ..Scenario::default()
    }
}

fn describe(
    args: &ReplayArgs,
    header: &Header,
    guard: GuardMode,
    pace: Pace,
    runs: &[Run],
) -> serde_json::Value {
    let is_live = args.against.is_some();
    let device = args.device.as_deref().or((!is_live).then_some(DEVICE));
    json!({
        "trace": Path::new(&args.trace),
        "recorded_by": header.source,
        "time": if is_live { "real" } else { "virtual" },
        "against": args.against,
        "pace": if pace == Pace::Open { "open" } else { "closed" },
        "guard": guard.as_str(),
        "device": device,
        "depth": args.depth,
        "seed": (!is_live).then_some(args.seed),
        "runs": runs,
    })
}
