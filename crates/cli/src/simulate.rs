//! `forebay simulate`: runs a scenario in virtual time, or checks the scheduler by simulation.

mod check;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use forebay_sched::{GuardMode, PolicyName};
use forebay_sim::{Automatic, Choice, Outcome, Scenario, Simulation};
use serde_json::json;

use self::check::Seeds;
use crate::console::{print, say};
use crate::failure::{FAILED, Failure, USAGE};

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
  forebay simulate --check --seeds 0..1000
  forebay simulate --check --seeds forever --policy hbrr --guard overlap

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
    #[arg(long, conflicts_with = "check")]
    json: bool,
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
        return check::check(&policies, &guards, promise, &args.seeds);
    }
    let path = args.scenario.expect("it is required without --check");
    let scenario = read(&path)?;
    let outcomes: Vec<Outcome> = choices(&args.policy, &scenario)?
        .iter()
        .map(|choice| run(&path, &scenario, choice, args.seed))
        .collect::<Result<_, _>>()?;
    if args.json {
        let json = json!({ "scenario": scenario.name, "seed": args.seed, "runs": outcomes });
        print(&format!("{json:#}\n"))?;
    } else {
        print(&table::tables(&outcomes))?;
    }
    Ok(ExitCode::SUCCESS)
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
fn choices(given: &[String], scenario: &Scenario) -> Result<Vec<Choice>, Failure> {
    if given.is_empty() {
        return Ok(vec![scenario.scheduler.policy.into()]);
    }
    let read = |word: &String| match word.to_lowercase().as_str() {
        "all" => Ok(PolicyName::ALL.map(Choice::Fixed).to_vec()),
        "auto" => Ok(vec![Choice::Auto(Automatic::new(forebay_prior::default_tree()))]),
        _ => match word.parse() {
            Ok(policy) => Ok(vec![Choice::Fixed(policy)]),
            Err(error) => Err(usage(format!("{word}: {error}, or all, or auto"))),
        },
    };
    let choices: Vec<Vec<Choice>> = given.iter().map(read).collect::<Result<_, _>>()?;
    Ok(choices.concat())
}

fn read(path: &Path) -> Result<Scenario, Failure> {
    let wrong = |text: String| usage(format!("{}: {text}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))
}

/// Runs a scenario to its end and says now and then how far it is.
fn run(path: &Path, scenario: &Scenario, choice: &Choice, seed: u64) -> Result<Outcome, Failure> {
    let policy = choice.name();
    let started = Instant::now();
    let mut simulation = Simulation::new(scenario, choice.clone(), seed)
        .map_err(|error| usage(format!("{}: {error}", path.display())))?;
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
    let outcome = simulation.finish();
    say(format_args!(
        "{policy}: {} events in {:.2} s, {:.2} million a second",
        outcome.events,
        started.elapsed().as_secs_f64(),
        rate(outcome.events, started) / 1e6
    ));
    if outcome.requests == 0 {
        return Err(Failure::new(FAILED, "every client vanished before its first answer"));
    }
    Ok(outcome)
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn rate(events: u64, since: Instant) -> f64 {
    events as f64 / since.elapsed().as_secs_f64().max(1e-9)
}
