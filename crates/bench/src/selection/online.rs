//! The selector at work, in virtual time, on the device that no tree was learned from.
//!
//! Each case runs under every policy, and under `auto` with the compiled tree. What has been moved
//! is noted every second: `auto` is behind TO by the largest part that is missing at any of these
//! moments from the second one on, and has reached the best policy when what it moves from there
//! on is 95 % of what the best fixed policy moves in the same time.

use forebay_sched::PolicyName;
use forebay_sim::scenario::{FileUse, Job, Operation, Order, Scenario, Servers};
use forebay_sim::{Automatic, Choice, Simulation};
use forebay_train::{Device, situation};
use forebay_units::{Bytes, Nanos};
use serde_json::Value;

use crate::error::Error;
use crate::progress::Track;
use crate::report::{Report, Row};

/// The policies that are compared with.
const POLICIES: [PolicyName; 6] = forebay_train::table::POLICIES;
const SEED: u64 = 2019;
/// Events between two looks at the clock.
const EVENTS: u64 = 2_000;
/// So near to the best is as good.
const NEAR: f64 = 0.95;

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Case {
    name: &'static str,
    jobs: Vec<Job>,
    seconds: u64,
}

/// All of them.
pub(super) fn cases(is_quick: bool) -> Vec<Case> {
    let seconds = if is_quick { 12 } else { 60 };
    let job = |name: &str, request: u64, clients: u32| Job {
        name: name.to_owned(),
        clients,
        request: Bytes::kib(request),
        // More than anybody makes in the time.
        requests: 10_000_000,
        start_jitter: Nanos::millis(1),
        ..Job::default()
    };
    let strided = |request| job("strided", request, 16);
    let contiguous = |request| Job {
        order: Order::Contiguous,
        requests: 100_000,
        ..job("contiguous", request, 16)
    };
    let files = |request| Job {
        file: FileUse::PerProcess,
        order: Order::Contiguous,
        requests: 100_000,
        ..job("files", request, 16)
    };
    let writing = |job: Job| Job { operation: Operation::Write, ..job };
    // Phases: each job makes its requests and ends; the next one starts when it surely has.
    let phase = |number: u64, job: Job| Job {
        requests: 10_000_000,
        start: Nanos::secs(number * seconds / 3),
        name: format!("{}-{number}", job.name),
        ..job
    };
    let alone = |name, job| Case { name, jobs: vec![job], seconds };
    vec![
        alone("strided small reads", strided(16)),
        alone("strided large writes", writing(strided(256))),
        alone("contiguous small reads", contiguous(16)),
        alone("files, large reads", files(256)),
        Case {
            name: "mixed: strided small and streams",
            jobs: vec![strided(16), Job { clients: 4, ..files(256) }],
            seconds,
        },
        Case {
            name: "phases: another job joins, twice",
            jobs: vec![
                phase(0, strided(16)),
                phase(1, writing(strided(256))),
                phase(2, strided(256)),
            ],
            seconds,
        },
    ]
}

/// Bytes moved until the end of each second.
fn moved(case: &Case, choice: Choice) -> Result<Vec<f64>, Error> {
    let scenario = Scenario {
        name: case.name.to_owned(),
        servers: Servers {
            count: 4,
            stripe: situation::STRIPE,
            transfer: Some(situation::MESSAGE),
            device: Device::held_out()[0].profile,
            noise_percent: 5,
            ..Servers::default()
        },
        jobs: case.jobs.clone(),
        ..Scenario::default()
    };
    let mut simulation = Simulation::new(&scenario, choice, SEED)
        .map_err(|error| Error::failed(format!("{}: {error}", case.name)))?;
    let mut moved = Vec::new();
    while moved.len() < case.seconds as usize && simulation.advance(EVENTS) {
        let progress = simulation.progress();
        while progress.now_ns / 1_000_000_000 > moved.len() as u64
            && moved.len() < case.seconds as usize
        {
            moved.push(progress.bytes as f64);
        }
    }
    Ok(moved)
}

/// Runs all cases.
pub(super) fn report(
    report: &mut Report,
    cases: &[Case],
    track: &mut Track<'_>,
) -> Result<(), Error> {
    let (mut worst_loss, mut longest, mut least) = (f64::NEG_INFINITY, 0.0_f64, f64::INFINITY);
    for case in cases {
        let auto = Choice::Auto(Automatic::new(forebay_prior::default_tree()));
        let own = moved(case, auto)?;
        let fixed = POLICIES.iter().map(|policy| Ok((*policy, moved(case, (*policy).into())?)));
        let fixed = fixed.collect::<Result<Vec<_>, Error>>()?;
        let end = |values: &[f64]| values.last().copied().unwrap_or(0.0);
        let best = fixed.iter().max_by(|a, b| end(&a.1).total_cmp(&end(&b.1)));
        let (best, best_moved) = best.expect("there are policies");
        let to =
            &fixed.iter().find(|(policy, _)| *policy == PolicyName::To).expect("TO is there").1;
        let loss = loss(&own, to);
        let reached = reached(&own, best_moved);
        let over_best = end(&own) / end(best_moved);
        worst_loss = worst_loss.max(loss);
        longest = longest.max(reached.unwrap_or(case.seconds as f64));
        least = least.min(over_best);
        let parameters = [("case", Value::from(case.name)), ("best", Value::from(best.as_str()))];
        for (name, unit, value) in [
            ("auto_over_best", "ratio", over_best),
            ("auto_over_to", "ratio", end(&own) / end(to)),
            ("behind_to", "part", loss),
            ("reached_after", "s", reached.unwrap_or(f64::INFINITY)),
        ] {
            if value.is_finite() {
                report.rows.push(Row::median(name, unit, &parameters, &[value]));
            }
        }
        if reached.is_none() {
            let (name, seconds) = (case.name, case.seconds);
            report.notes.push(format!("{name}: auto has not reached {best} in {seconds} s"));
        }
        track.case(1.0, format!("{}  {over_best:.2} of {best}", case.name));
    }
    report.ratio("online_loss_against_to", Some(worst_loss.max(0.0)));
    report.ratio("online_seconds_to_95pct", Some(longest));
    report.ratio("online_over_best_min", Some(least));
    Ok(())
}

/// The largest part that is missing at the end of any second but the first.
fn loss(own: &[f64], to: &[f64]) -> f64 {
    let parts = own.iter().zip(to).skip(1).map(|(own, to)| 1.0 - own / to.max(1.0));
    parts.fold(f64::NEG_INFINITY, f64::max)
}

/// The first second after which all that is moved is near to the best; `None` if that is never.
fn reached(own: &[f64], best: &[f64]) -> Option<f64> {
    let end = own.len().min(best.len()).checked_sub(1)?;
    let from = |values: &[f64], start: usize| {
        values[end] - if start == 0 { 0.0 } else { values[start - 1] }
    };
    (0..=end).find(|start| from(own, *start) >= NEAR * from(best, *start)).map(|start| start as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_when_it_is_made_up() {
        let best = [10.0, 20.0, 30.0, 40.0];
        assert_eq!(reached(&best, &best), Some(0.0));
        // A slow first second, then as quick as the best.
        assert_eq!(reached(&[2.0, 12.0, 22.0, 32.0], &best), Some(1.0));
        assert_eq!(reached(&[2.0, 4.0, 6.0, 8.0], &best), None);
        assert!((loss(&[2.0, 15.0, 30.0], &[10.0, 20.0, 30.0]) - 0.25).abs() < 1e-12);
    }
}
