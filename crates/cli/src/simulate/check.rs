//! `forebay simulate --check`: seeded runs until one breaks a promise.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use forebay_sched::{GuardMode, PolicyName};
use forebay_sim::check::{Checked, Plan, Violation, check as check_plan};
use serde_json::{Value, json};

use crate::console::{print, say};
use crate::failure::{FAILED, Failure};

/// Between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Which seeds are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seeds {
    first: u64,
    /// The one after the last; `None` for no end.
    end: Option<u64>,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self { first: 0, end: None });
        }
        let wrong = || format!("\"{text}\" is neither A..B with A below B, nor A.., nor forever");
        let (first, end) = text.split_once("..").ok_or_else(wrong)?;
        let first = first.parse().map_err(|_| wrong())?;
        let end = match end {
            "" => None,
            end => Some(end.parse().map_err(|_| wrong())?),
        };
        match end {
            Some(end) if end <= first => Err(wrong()),
            end => Ok(Self { first, end }),
        }
    }
}

/// Which runs are made.
pub(super) struct Plans {
    pub(super) policies: Vec<PolicyName>,
    pub(super) guards: Vec<GuardMode>,
    /// Whose promise is checked, if not the guard's own.
    pub(super) promise: Option<GuardMode>,
    pub(super) seeds: Seeds,
}

impl Plans {
    /// Seed by seed.
    fn all(&self) -> impl Iterator<Item = Plan> + '_ {
        let seeds = self.seeds.first..self.seeds.end.unwrap_or(u64::MAX);
        seeds.flat_map(move |seed| {
            self.policies.iter().flat_map(move |policy| {
                self.guards.iter().map(move |guard| {
                    let promise = self.promise.unwrap_or(*guard);
                    Plan { policy: *policy, guard: *guard, promise, seed }
                })
            })
        })
    }
}

/// Makes the runs of every policy and guard mode, seed by seed, until all are made or one fails.
pub(super) fn check(plans: &Plans, as_json: bool) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let (mut said, mut runs, mut tried) = (started, 0_u64, Checked::default());
    let mut broken = None;
    for plan in plans.all() {
        runs += 1;
        match check_plan(&plan) {
            Ok(checked) => tried.add(&checked),
            Err(violations) => {
                broken = Some((plan, violations));
                break;
            }
        }
        if said.elapsed() >= PROGRESS_EVERY {
            said = Instant::now();
            say(format_args!("seed {}: {runs} runs, {} requests", plan.seed, tried.requests));
        }
    }
    if as_json {
        print(&format!("{:#}\n", describe(runs, &tried, broken.as_ref())))?;
    } else if let Some((plan, violations)) = &broken {
        let texts = violations.iter().map(|one| format!("  {:?}: {}\n", one.promise, one.text));
        let texts: String = texts.collect();
        let Plan { policy, guard, seed, .. } = plan;
        let text = format!("{policy}, guard {guard}, seed {seed}:\n{texts}");
        print(&format!("{text}Repeat it with:\n  {plan}\n"))?;
    } else {
        print(&format!(
            "{runs} runs in {:.1} s kept every promise: {} requests, {} merged, {} blocked, {} cancelled, \
             {} failed or cut short, {} policy switches\n",
            started.elapsed().as_secs_f64(),
            tried.requests,
            tried.merged,
            tried.blocked,
            tried.cancelled,
            tried.failed,
            tried.switches
        ))?;
    }
    match broken {
        None => Ok(ExitCode::SUCCESS),
        Some(_) => Err(Failure::new(FAILED, "a promise is broken")),
    }
}

/// Nothing of the machine or its clock is in it: the same seeds give the same bytes.
fn describe(runs: u64, tried: &Checked, broken: Option<&(Plan, Vec<Violation>)>) -> Value {
    let broken = broken.map(|(plan, violations)| {
        let promises = violations
            .iter()
            .map(|one| json!({ "promise": format!("{:?}", one.promise), "text": one.text }));
        json!({
            "policy": plan.policy.as_str(),
            "guard": plan.guard.as_str(),
            "promise": plan.promise.as_str(),
            "seed": plan.seed,
            "violations": promises.collect::<Vec<_>>(),
            "repeat": plan.to_string(),
        })
    });
    json!({
        "runs": runs,
        "requests": tried.requests,
        "batches": tried.batches,
        "merged": tried.merged,
        "blocked": tried.blocked,
        "cancelled": tried.cancelled,
        "failed": tried.failed,
        "switches": tried.switches,
        "broken": broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_with_or_without_an_end() {
        assert_eq!("3..9".parse(), Ok(Seeds { first: 3, end: Some(9) }));
        assert_eq!("5..".parse(), Ok(Seeds { first: 5, end: None }));
        assert_eq!("forever".parse(), Ok(Seeds { first: 0, end: None }));
        for wrong in ["", "7", "9..9", "9..3", "a..b", "ever"] {
            assert!(wrong.parse::<Seeds>().is_err(), "{wrong}");
        }
    }
}
