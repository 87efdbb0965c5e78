//! `forebay simulate --check`: seeded runs until one breaks a promise.

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use forebay_sched::{GuardMode, PolicyName};
use forebay_sim::check::{Checked, Plan, check as check_plan};

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

/// Makes the runs of every policy and guard mode, seed by seed, until all are made or one fails.
pub(super) fn check(
    policies: &[PolicyName],
    guards: &[GuardMode],
    promise: Option<GuardMode>,
    seeds: &Seeds,
) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let (mut said, mut runs, mut tried) = (started, 0_u64, Checked::default());
    for seed in seeds.first..seeds.end.unwrap_or(u64::MAX) {
        for policy in policies {
            for guard in guards {
                let promise = promise.unwrap_or(*guard);
                let plan = Plan { policy: *policy, guard: *guard, promise, seed };
                match check_plan(&plan) {
                    Ok(checked) => tried.add(&checked),
                    Err(violations) => {
                        let texts = violations.iter().map(|violation| {
                            format!("  {:?}: {}\n", violation.promise, violation.text)
                        });
                        let texts: String = texts.collect();
                        let text = format!("{policy}, guard {guard}, seed {seed}:\n{texts}");
                        print(&format!("{text}Repeat it with:\n  {plan}\n"))?;
                        return Err(Failure::new(FAILED, "a promise is broken"));
                    }
                }
                runs += 1;
            }
        }
        if said.elapsed() >= PROGRESS_EVERY {
            said = Instant::now();
            say(format_args!("seed {seed}: {runs} runs, {} requests", tried.requests));
        }
    }
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
    Ok(ExitCode::SUCCESS)
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
