//! What choices come to, against the best, against none, and against one policy for all.
//!
//! As in AGIOS 2015, section 5: makespans, a change of more than 10 % counts.

use forebay_sched::PolicyName;

use crate::label::{mean, quickest};
use crate::table::{Arm, Makespans, Table};

/// A change that counts (AGIOS 2015, section 5).
const SIGNIFICANT: f64 = 0.1;
/// So close to the oracle is as good.
const CLOSE: f64 = 0.05;

/// What a choice for every row of a table comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Situations.
    pub situations: usize,
    /// Of these, within 5 % of the quickest policy's makespan.
    pub close: usize,
    /// Makespan at least 10 % longer than without scheduling.
    pub hurt: usize,
    /// The largest part by which a makespan is longer than without scheduling; negative if all
    /// are shorter.
    pub worst: f64,
    /// Makespan at least 10 % shorter.
    pub improved: usize,
    /// The mean over the situations of the part by which a makespan is longer than the quickest.
    pub regret_mean: f64,
    /// Of 100 situations, 95 have no more.
    pub regret_p95: f64,
    /// The geometric mean of makespans without scheduling over those with it.
    pub speedup: f64,
}

/// What choices come to.
pub fn outcome(table: &Table, choices: &[PolicyName]) -> Outcome {
    let rows: Vec<(&Makespans, PolicyName)> =
        table.rows.iter().map(|(_, makespans)| makespans).zip(choices.iter().copied()).collect();
    let own =
        |(makespans, choice): &(&Makespans, PolicyName)| mean(makespans, Arm::Policy(*choice));
    let longer = |row: &(&Makespans, PolicyName)| own(row) / mean(row.0, Arm::Without) - 1.0;
    let regret =
        |row: &(&Makespans, PolicyName)| own(row) / mean(row.0, Arm::Policy(quickest(row.0))) - 1.0;
    let count =
        |is: &dyn Fn(&(&Makespans, PolicyName)) -> bool| rows.iter().filter(|row| is(row)).count();
    let mut regrets: Vec<f64> = rows.iter().map(regret).collect();
    regrets.sort_by(f64::total_cmp);
    let situations = rows.len();
    let per_situation = |sum: f64| sum / situations.max(1) as f64;
    let logarithms = rows.iter().map(|row| -longer(row).ln_1p()).sum();
    Outcome {
        situations,
        close: count(&|row| regret(row) <= CLOSE),
        hurt: count(&|row| longer(row) > SIGNIFICANT),
        worst: rows.iter().map(longer).fold(f64::NEG_INFINITY, f64::max),
        improved: count(&|row| longer(row) < -SIGNIFICANT),
        regret_mean: per_situation(regrets.iter().sum()),
        regret_p95: regrets
            .get((situations * 95).div_ceil(100).saturating_sub(1))
            .copied()
            .unwrap_or(0.0),
        speedup: per_situation(logarithms).exp(),
    }
}

/// The quickest policy of every row: what no choice can beat.
pub fn oracle(table: &Table) -> Vec<PolicyName> {
    table.rows.iter().map(|(_, makespans)| quickest(makespans)).collect()
}

/// Over one policy for all: the largest part of a makespan that choices save, and the geometric
/// mean of its makespans over theirs.
pub fn gain_over(table: &Table, choices: &[PolicyName], one: PolicyName) -> (f64, f64) {
    let ratios = table.rows.iter().zip(choices).map(|((_, makespans), choice)| {
        mean(makespans, Arm::Policy(one)) / mean(makespans, Arm::Policy(*choice))
    });
    let (mut most, mut sum) = (f64::NEG_INFINITY, 0.0);
    for ratio in ratios {
        most = most.max(1.0 - 1.0 / ratio);
        sum += ratio.ln();
    }
    (most, (sum / choices.len().max(1) as f64).exp())
}
