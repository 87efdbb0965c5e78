//! `forebay trace replay`: the recorded requests once more, under other policies.
//!
//! ```text
//! trace ─► Workload ─┬─► forebay_sim::Simulation   virtual time: scheduler and device model
//!                    └─► live                      real time: a forwarder and files
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use forebay_device::Profile;
use forebay_sched::sharing::Discipline;
use forebay_sched::{GuardMode, PolicyName};
use forebay_sim::scenario::{Network, Scenario, Scheduling, Servers, Sharing};
use forebay_sim::{Choice, Pace};
use forebay_trace::{Header, Setup, Summary};
use forebay_units::{Bytes, Nanos};
use serde_json::json;

use super::recording::{PaceName, Recording, pace_word};
use super::table::{Run, table};
use super::{live, read_file, reader, tell_missing};
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};
use crate::simulate::choice;

const HELP: &str = "\
In virtual time (without --against), the requests go through the real scheduler to the model of a
device, and nothing else costs time: the same trace, policies and seed give the same bytes. Limits,
guard, the longest wait, and how classes shared, are those of the recording where the trace has
them; what is not is said. forebay simulate SCENARIO --requests FILE has them in a whole scenario.

In real time (--against), files of the same sizes are made, and each recorded client is a
connection to a forwarder: one in this process over a directory, with the recorded limits, weights
and sharing, or a running one, which has its own. The recorded files are never touched. The trace is
read as it is played, a bounded way ahead: a client that lags behind all others by as many requests
makes them wait, which shows as late_ns_max. SW is no policy of a forwarder but a way in which its
jobs share (sharing.discipline): all leaves it out here, and a trace of it wants another --policy.

Pace:
  closed   each request so long after the end of the one that it followed as its client took to
           think: a faster store is asked sooner
  open     each request at its recorded time, whatever has become of the others
Which request one followed is concluded: it is the last of its client that had ended when it came.

Examples:
  forebay trace replay run.trace --policy all,auto
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
    /// Policies, separated by commas; all for each of them, auto for a selector [default: the
    /// recorded one, or aioli]
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

pub(super) fn replay(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let bytes = read_file(&args.trace)?;
    let reader = reader(&args.trace, &bytes)?;
    let summary = Summary::read(reader.clone(), 0);
    let recorded = Run::recorded(reader.clone(), &summary);
    let is_live = args.against.is_some();
    let recording = match is_live {
        true => Recording::about(reader.clone()),
        false => Recording::read(&args.trace, reader.clone())?,
    };
    let Recording { header, workload, setup, .. } = &recording;
    let policies = policies(&args.policy, setup.as_ref(), is_live)?;
    let pace = Pace::from(args.pace);
    let guard = args.guard.or(setup.map(|setup| setup.options.guard)).unwrap_or_default();
    let mut runs = vec![recorded];
    let (finished, damages, lost_events) = match &args.against {
        None => {
            let finished = simulate(args, &recording, guard, pace, &policies)?;
            (finished, workload.damages.clone(), workload.lost_events)
        }
        Some(against) => {
            let told = live::Told {
                recording: &recording,
                against,
                files: args.files.as_deref(),
                export: args.export.as_deref(),
                device: args.device.as_deref(),
                depth: args.depth,
                guard,
                pace,
                policies: (!args.policy.is_empty()).then_some(&policies[..]),
                default_policy: &policies[0],
            };
            let survey = live::Survey::of(&args.trace, reader.clone())?;
            let finished = live::replay(&survey, &reader, &told)?;
            (finished, survey.damages, survey.lost_events)
        }
    };
    let Finished { runs: finished, failure } = finished;
    runs.extend(finished);
    match args.json {
        true => print(&format!("{:#}\n", describe(args, header, guard, pace, &runs)))?,
        false => print(&table(&runs))?,
    }
    let code = tell_missing(&args.trace, &damages, lost_events);
    failure.map_or(Ok(code), Err)
}

/// Replays, up to the first that failed.
pub(super) struct Finished<T = Run> {
    pub(super) runs: Vec<T>,
    /// Why there are no more of them.
    pub(super) failure: Option<Failure>,
}

impl<T> FromIterator<Result<T, Failure>> for Finished<T> {
    fn from_iter<I: IntoIterator<Item = Result<T, Failure>>>(results: I) -> Self {
        let mut failure = None;
        let mut results = results.into_iter();
        let finished = || results.next()?.map_err(|error| failure = Some(error)).ok();
        let runs = std::iter::from_fn(finished).collect();
        Self { runs, failure }
    }
}

/// The policies that were named, or the recorded one; for `all` over a forwarder, those it has.
fn policies(
    given: &[String],
    setup: Option<&Setup>,
    is_live: bool,
) -> Result<Vec<Choice>, Failure> {
    if given.is_empty() {
        return Ok(vec![setup.map_or(PolicyName::Aioli, |setup| setup.policy).into()]);
    }
    let mut choices = Vec::new();
    for word in given {
        let mut meant = choice(word)?;
        if is_live && meant.len() > 1 {
            meant.retain(|choice| !live::is_sw(choice));
        }
        choices.extend(meant);
    }
    Ok(choices)
}

const DEVICE: &str = "hdd-57";

fn simulate(
    args: &ReplayArgs,
    recording: &Recording,
    guard: GuardMode,
    pace: Pace,
    policies: &[Choice],
) -> Result<Finished, Failure> {
    let device = Profile::by_name(args.device.as_deref().unwrap_or(DEVICE))
        .map_err(|error| Failure::new(USAGE, format!("--device: {error}")))?;
    let scenario = scenario(recording, device, args.depth, guard);
    tell_left_out(recording);
    let lead = recording.lead();
    let run = |choice: &Choice| {
        let simulation = recording.simulation(&scenario, pace, choice, args.seed, true);
        let outcome = simulation
            .map_err(|error| Failure::new(FAILED, format!("{}: {error}", args.trace.display())))?
            .finish();
        say(format_args!("{}: {} events simulated", choice.name(), outcome.events));
        Ok(Run::simulated(&outcome, lead))
    };
    Ok(policies.iter().map(run).collect())
}

/// One scheduler before one device, and neither network nor processor in between.
fn scenario(recording: &Recording, device: Profile, depth: u32, guard: GuardMode) -> Scenario {
    let mut scheduler = Scheduling { guard, cpu: Some(Nanos::ZERO), ..Scheduling::default() };
    scheduler.wait = recording.wait_max().unwrap_or(scheduler.wait);
    if let Some(Setup { options, limits, hbrr_quantum, classes, .. }) = &recording.setup {
        scheduler.hbrr_quantum = Some(*hbrr_quantum);
        scheduler.large = options.large_bytes.unwrap_or(Bytes::ZERO);
        scheduler.run_bytes = limits.run_bytes_max;
        scheduler.run_requests = limits.run_requests_max;
        scheduler.batch_bytes = limits.batch_bytes_max;
        let most = u32::try_from(options.queue_requests_max).unwrap_or(u32::MAX);
        scheduler.queue_requests = most.min(scheduler.queue_requests);
        scheduler.sharing = match classes.map(|classes| classes.sharing.discipline) {
            None => Sharing::None,
            Some(Discipline::Drr) => Sharing::Drr,
            // Windows replace it as soon as the simulation begins.
            Some(Discipline::Sfq | Discipline::Twins(_) | Discipline::Sw(_)) => Sharing::Sfq,
        };
    }
    Scenario {
        name: "replay".into(),
        network: Network { delay: Nanos::ZERO, jitter: Nanos::ZERO, bandwidth: None },
        servers: Servers { device, depth, request_cpu: Nanos::ZERO, ..Servers::default() },
        scheduler,
        ..Scenario::default()
    }
}

/// Says what of the recorded scheduler is not replayed in virtual time.
fn tell_left_out(recording: &Recording) {
    if recording.policy_changes > 0 {
        say(format_args!(
            "forebay: {} changes of policies while it was recorded are not replayed; each replay has its own policy",
            recording.policy_changes
        ));
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
        "pace": pace_word(pace),
        "guard": guard.as_str(),
        "device": device,
        "depth": args.depth,
        "seed": (!is_live).then_some(args.seed),
        "runs": runs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_finished_is_kept_when_the_next_one_fails_and_nothing_is_begun_after_that() {
        let mut begun = 0;
        let play = |number: u32| {
            begun += 1;
            if number == 2 { Err(Failure::new(FAILED, "no room")) } else { Ok(number) }
        };
        let Finished { runs, failure } = (0..5).map(play).collect();
        assert_eq!((runs, begun), (vec![0, 1], 3));
        assert_eq!(failure.unwrap().to_string(), "no room");
        let Finished { runs, failure } = (0..2).map(Ok).collect();
        assert!(runs == [0, 1] && failure.is_none());
    }
}
