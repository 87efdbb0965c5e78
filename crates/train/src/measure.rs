//! Every situation under every arm with paired seeds, on all processors.
//!
//! Source: AGIOS 2015, section 3 ("at least eight executions, with 90 % confidence and 10 % maximum
//! relative error"), with the same seeds for all arms of a situation: what the seed draws (noise,
//! jitter) is then the same for all of them, and differences are much surer than single values.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use forebay_sched::PolicyName;
use forebay_sim::{Scenario, run};

use crate::label::half_width;
use crate::situation::Situation;
use crate::table::{Arm, Makespans, Table};

/// Fewest and most seeds of a situation.
pub const SEEDS: [u64; 2] = [8, 32];
/// The 90 % confidence interval of each arm's mean is at most this to each side, as a part of the
/// mean; else there are more seeds, up to the most.
const RELATIVE_ERROR: f64 = 0.1;
/// The first seed is the one after this. Chosen before anything was measured.
const SEED: u64 = 20_150_000;

/// A situation that was measured, and how far the measurement is.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub situation: Situation,
    /// Situations done.
    pub done: usize,
    /// Situations in all.
    pub total: usize,
}

/// The makespan of a scenario under an arm, in microseconds.
pub(crate) fn makespan(scenario: &Scenario, arm: Arm, seed: u64) -> u64 {
    let policy = match arm {
        Arm::Without => PolicyName::Noop,
        Arm::Policy(policy) => policy,
    };
    let outcome = run(scenario, policy, seed).expect("situations can be simulated");
    (outcome.makespan_ns / 1000).max(1)
}

/// One situation under all arms.
pub fn one(situation: &Situation) -> Makespans {
    let with = situation.scenario(true);
    let without = situation.scenario(false);
    let mut makespans: Makespans = Arm::all().map(|arm| (arm, Vec::new())).collect();
    for number in 1..=SEEDS[1] {
        for (arm, values) in &mut makespans {
            let scenario = if *arm == Arm::Without { &without } else { &with };
            values.push(makespan(scenario, *arm, SEED + number));
        }
        let is_sure = |values: &Vec<u64>| {
            let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            let (mean, half) = half_width(&values);
            half <= RELATIVE_ERROR * mean
        };
        if number >= SEEDS[0] && makespans.values().all(is_sure) {
            break;
        }
    }
    makespans
}

/// All of them, side by side; the table does not depend on which was done first. `listener` is
/// told of each as it is done.
pub fn measure(situations: &[Situation], listener: &mut dyn FnMut(&Measured)) -> Table {
    let total = situations.len();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Makespans>>> = Mutex::new(vec![None; total]);
    let workers = thread::available_parallelism().map_or(1, usize::from).min(total.max(1));
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, results) = (sender.clone(), &next, &results);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(situation) = situations.get(number) else { break };
                    let makespans = one(situation);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[number] =
                        Some(makespans);
                    // Nobody listens any more only if the listener itself has ended this.
                    let _ = sender.send(number);
                }
            });
        }
        drop(sender);
        for (done, number) in (1..).zip(&finished) {
            listener(&Measured { situation: situations[number], done, total });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let rows = situations.iter().copied().zip(results.into_iter().flatten());
    Table { rows: rows.collect() }
}
