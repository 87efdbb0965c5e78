//! `forebay simulate`: runs a scenario in virtual time, or checks the scheduler by simulation.
//!
//! ```text
//! SCENARIO ─┐             ┌─► tables, JSON
//!           ├─► Simulation┤
//! --requests ┘            └─► --trace
//! ```

mod check;
mod record;
mod scenario;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use forebay_sched::{GuardMode, PolicyName};
use forebay_sim::scenario::Sharing;
use forebay_sim::{Automatic, Choice, Class, Outcome, Simulation};
use serde_json::json;

use self::check::{Plans, Seeds};
use self::scenario::ScenarioFile;
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};
use crate::trace::recording::{PaceName, Recording, pace_word};
use crate::trace::{read_file, reader, tell_missing};

/// Events between two looks at the clock.
const EVENTS_A_LOOK: u64 = 1 << 18;

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

const HELP: &str = "\
A scenario says who asks for what, over which network, of which servers; docs/simulator.md has all
its keys, scenarios/ has some to begin with. The same scenario, policy and seed give the same bytes.

Examples:
  forebay simulate scenarios/strided.toml
  forebay simulate scenarios/two-jobs.toml --policy all --seed 7
  forebay simulate scenarios/phases.toml --policy all,auto
  forebay simulate scenarios/agios.toml --policy to,aioli --json | jq '.runs[].makespan_ns'
  forebay simulate scenarios/two-jobs.toml --trace jobs.trace
  forebay simulate scenarios/forwarded.toml --requests jobs.trace --policy hbrr
  forebay simulate --check --seeds 0..1000
  forebay simulate --check --seeds forever --policy hbrr --guard overlap

With --requests, the scenario's jobs are left out, and clients make the recorded requests: how a
site's own load would fare on other servers, with another network or with faults. Where the
scenario's schedulers share, classes have their recorded weights and limits.

--check runs the scheduler in virtual time with cancels, failures, policy switches and random order
of completion, holds what every read saw against a plain byte array, and how often a request was
passed over against the policy's stated bound. A seed that fails is printed as a command that
repeats it.

Exit code: 0 when everything ran, and every check held; 1 when one did not; 2 when the scenario or
the command line is wrong.";

/// What `forebay simulate` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct SimulateArgs {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO", required_unless_present = "check")]
    scenario: Option<PathBuf>,
    /// Policies, separated by commas; all for each of them, auto for a selector beside every
    /// scheduler [default: the scenario's own; with --check: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<String>,
    /// The seed of everything that is random
    #[arg(long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "check")]
    seed: u64,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Write what clients asked for as a trace, for forebay trace and --requests; one policy only
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    trace: Option<PathBuf>,
    /// Let clients make the requests of a trace instead of those of the scenario's jobs
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    requests: Option<PathBuf>,
    /// With --requests: when they are made
    #[arg(long, value_name = "PACE", requires = "requests", default_value = "closed")]
    pace: PaceName,
    /// Check the scheduler instead of running a scenario
    #[arg(long, conflicts_with = "scenario")]
    check: bool,
    /// With --check: which seeds, as A..B (B not among them) or forever
    #[arg(long, value_name = "A..B", requires = "check", default_value = "0..100")]
    seeds: Seeds,
    /// With --check: guard modes, separated by commas, or all [default: all]
    #[arg(long, value_name = "MODE", requires = "check", value_delimiter = ',')]
    guard: Vec<String>,
    /// With --check: hold runs to what another guard mode promises, to see the check fail
    #[arg(long, value_name = "MODE", requires = "check")]
    promise: Option<String>,
}

/// Runs a scenario under each policy, or the checks.
pub(crate) fn simulate(args: SimulateArgs) -> Result<ExitCode, Failure> {
    if args.check {
        let policies = names(&args.policy, &PolicyName::ALL, &PolicyName::ALL)?;
        let guards = names(&args.guard, &GuardMode::ALL, &GuardMode::ALL)?;
        let promise = args.promise.map(|name| name.parse().map_err(usage)).transpose()?;
        let plans = Plans { policies, guards, promise, seeds: args.seeds };
        return check::check(&plans, args.json);
    }
    let path = args.scenario.as_ref().expect("it is required without --check");
    let file = ScenarioFile::read(path)?;
    let choices = choices(&args.policy, &file)?;
    if args.trace.is_some() && choices.len() > 1 {
        return Err(usage("--trace: every policy would write it; name one with --policy"));
    }
    let bytes = args.requests.as_deref().map(read_file).transpose()?;
    let recording = match (&args.requests, &bytes) {
        (Some(path), Some(bytes)) => Some(Recording::read(path, reader(path, bytes)?)?),
        _ => None,
    };
    let load = Load { file: &file, args: &args, recording: recording.as_ref() };
    let outcomes: Vec<Outcome> =
        choices.iter().map(|choice| load.run(choice)).collect::<Result<_, _>>()?;
    if args.json {
        let scenario = &file.scenario;
        let mut json = json!({
            "scenario": scenario.name,
            "seed": args.seed,
            "settings": scenario,
            "runs": outcomes,
        });
        if let Some(requests) = &args.requests {
            json["requests"] = json!({ "trace": requests, "pace": pace_word(args.pace.into()) });
        }
        print(&format!("{json:#}\n"))?;
    } else {
        print(&format!("{}\n{}", load.heading(), table::tables(&outcomes)))?;
    }
    match (&args.requests, &recording) {
        (Some(path), Some(Recording { workload, .. })) => {
            Ok(tell_missing(path, &workload.damages, workload.lost_events))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn usage(error: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, error.to_string())
}

/// The names that were given, or `default`; `all` stands for all of them.
fn names<T: Copy + std::str::FromStr<Err: std::fmt::Display>>(
    given: &[String],
    default: &[T],
    all: &[T],
) -> Result<Vec<T>, Failure> {
    match given {
        [] => Ok(default.to_vec()),
        [word] if word == "all" => Ok(all.to_vec()),
        words => {
            let read = |word: &String| {
                word.parse().map_err(|error| usage(format!("{word}: {error}, or all")))
            };
            words.iter().map(read).collect()
        }
    }
}

/// The policies that were given, or the scenario's.
fn choices(given: &[String], file: &ScenarioFile) -> Result<Vec<Choice>, Failure> {
    if given.is_empty() {
        return Ok(vec![file.scenario.scheduler.policy.into()]);
    }
    let choices: Vec<Vec<Choice>> =
        given.iter().map(|word| choice(word)).collect::<Result<_, _>>()?;
    let mut choices = choices.concat();
    if file.scenario.scheduler.sharing != Sharing::None && given.iter().any(|word| word == "all") {
        // Where jobs share, it orders none: that is what sharing by SW is for.
        choices.retain(|choice| !matches!(choice, Choice::Fixed(PolicyName::Sw)));
    }
    Ok(choices)
}

/// What a word stands for: a policy, `all` of them, or a selector beside every scheduler.
pub(crate) fn choice(word: &str) -> Result<Vec<Choice>, Failure> {
    match word.to_lowercase().as_str() {
        "all" => Ok(PolicyName::ALL.map(Choice::Fixed).to_vec()),
        "auto" => Ok(vec![Choice::Auto(Automatic::new(forebay_prior::default_tree()))]),
        "twins" => Err(usage(
            "twins: it orders data servers and not requests; set scheduler.sharing = \"twins\" in the scenario",
        )),
        _ => match word.parse() {
            Ok(policy) => Ok(vec![Choice::Fixed(policy)]),
            Err(error) => Err(usage(format!("{word}: {error}, or all, or auto"))),
        },
    }
}

/// Who asks for what, of whom.
struct Load<'a> {
    file: &'a ScenarioFile,
    args: &'a SimulateArgs,
    /// Requests in place of those of the scenario's jobs.
    recording: Option<&'a Recording>,
}

impl Load<'_> {
    /// Runs the scenario to its end and says now and then how far it is.
    fn run(&self, choice: &Choice) -> Result<Outcome, Failure> {
        let (scenario, seed) = (&self.file.scenario, self.args.seed);
        let policy = choice.name();
        let started = Instant::now();
        let simulation = match self.recording {
            None => Simulation::new(scenario, choice.clone(), seed),
            Some(recording) => {
                let pace = self.args.pace.into();
                recording.simulation(scenario, pace, choice, seed, false)
            }
        };
        let mut simulation = simulation.map_err(|invalid| match &self.args.requests {
            Some(path) if invalid.key.starts_with("request ") => {
                usage(format!("{}: {invalid}", path.display()))
            }
            _ => self.file.refused(&invalid),
        })?;
        if self.args.trace.is_some() {
            simulation.watch_requests();
        }
        let mut said = started;
        while simulation.advance(EVENTS_A_LOOK) {
            if said.elapsed() < PROGRESS_EVERY {
                continue;
            }
            said = Instant::now();
            let progress = simulation.progress();
            say(format_args!(
                "{policy}: {} of {} requests, {:.1} s simulated, {:.2} million events a second",
                progress.requests,
                progress.requests_planned,
                progress.now_ns as f64 / 1e9,
                rate(progress.events, started) / 1e6
            ));
        }
        let names = self.names(&simulation);
        if let Some(path) = &self.args.trace {
            let header = record::header(&scenario.name, policy, seed);
            let is_shared = scenario.scheduler.sharing != Sharing::None;
            record::write(path, &header, &simulation, &names, is_shared)?;
        }
        let mut outcome = simulation.finish();
        say(format_args!(
            "{policy}: {} events in {:.2} s, {:.2} million a second",
            outcome.events,
            started.elapsed().as_secs_f64(),
            rate(outcome.events, started) / 1e6
        ));
        if outcome.requests == 0 {
            return Err(Failure::new(FAILED, "every client vanished before its first answer"));
        }
        for (application, name) in outcome.applications.iter_mut().zip(names) {
            application.name = name;
        }
        Ok(outcome)
    }

    /// What the simulation's applications are called: recorded classes as they were.
    fn names(&self, simulation: &Simulation) -> Vec<String> {
        let name = |class: Class<'_>| match self.recording {
            None => class.name.to_owned(),
            Some(recording) => recording.workload.catalog.class_name(class.id),
        };
        simulation.classes().map(name).collect()
    }

    /// What was simulated, for people: the seed, where requests come from, and every key.
    fn heading(&self) -> String {
        let seed = format!("seed {}", self.args.seed);
        let requests = self.args.requests.iter().zip(self.recording).map(|(path, recording)| {
            let count = recording.workload.requests.len();
            let pace = pace_word(self.args.pace.into());
            format!(", {count} requests of {}, pace {pace}", path.display())
        });
        let jobs = self.recording.is_none();
        table::settings(
            &self.file.scenario,
            &format!("{seed}{}", requests.collect::<String>()),
            jobs,
        )
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn rate(events: u64, since: Instant) -> f64 {
    events as f64 / since.elapsed().as_secs_f64().max(1e-9)
}
