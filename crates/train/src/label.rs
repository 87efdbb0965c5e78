//! Which policy a situation wants, as far as the measurement can tell.
//!
//! Values are logarithms of speed: with paired seeds, the difference of two arms is one number for
//! each seed, and their mean and its confidence interval say which arm is quicker and how surely.

use forebay_sched::PolicyName;

use crate::table::{Arm, Makespans, POLICIES};

/// Student's t for a two-sided interval of 90 %, by degrees of freedom from 1 on.
const STUDENT_90: [f64; 31] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
    1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706,
    1.703, 1.701, 1.699, 1.697, 1.696,
];

/// The mean, and half the width of its 90 % confidence interval; without end for fewer than two.
pub fn half_width(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, f64::INFINITY);
    }
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let student = STUDENT_90[(values.len() - 2).min(STUDENT_90.len() - 1)];
    (mean, student * (squares / (count - 1.0) / count).sqrt())
}

/// How much quicker `arm` is than `other`: the mean of the logarithms of the ratio over all seeds,
/// and half the width of the interval.
///
/// # Panics
/// If one of them was not measured.
pub fn log_speedup(makespans: &Makespans, arm: Arm, other: Arm) -> (f64, f64) {
    let logarithms = |arm: Arm| makespans[&arm].iter().map(|value| (*value as f64).ln());
    let differences: Vec<f64> =
        logarithms(other).zip(logarithms(arm)).map(|(other, own)| other - own).collect();
    half_width(&differences)
}

/// The mean makespan, in microseconds.
///
/// # Panics
/// If the arm was not measured.
pub fn mean(makespans: &Makespans, arm: Arm) -> f64 {
    let values = &makespans[&arm];
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

/// The policy with the least mean makespan: the oracle.
pub fn quickest(makespans: &Makespans) -> PolicyName {
    let least = POLICIES.into_iter().min_by(|a, b| {
        mean(makespans, Arm::Policy(*a)).total_cmp(&mean(makespans, Arm::Policy(*b)))
    });
    least.expect("there are policies")
}

/// The policies that are as good as the quickest: slower by at most `margin` of its makespan, or
/// by less than is certain.
pub fn as_good(makespans: &Makespans, margin: f64) -> Vec<PolicyName> {
    let best = Arm::Policy(quickest(makespans));
    let is_as_good = |policy: &PolicyName| {
        let (loss, half) = log_speedup(makespans, best, Arm::Policy(*policy));
        loss <= margin.ln_1p() || loss - half <= 0.0
    };
    POLICIES.into_iter().filter(is_as_good).collect()
}

/// What each group of situations wants: one policy that is as good as the best in it.
///
/// Where several are, it is the one that is so in most groups, so that situations that are alike
/// want the same: TO where TO is among them; else the policy that is among them in most of the
/// other groups; of the rest, again. The order of the policies that comes of this.
pub fn cover(groups: &[Vec<PolicyName>]) -> Vec<PolicyName> {
    let mut order = vec![PolicyName::To];
    while order.len() < POLICIES.len() {
        let is_open = |group: &&Vec<PolicyName>| !group.iter().any(|one| order.contains(one));
        let open: Vec<&Vec<PolicyName>> = groups.iter().filter(is_open).collect();
        let count =
            |policy: PolicyName| open.iter().filter(|group| group.contains(&policy)).count();
        let left = POLICIES.into_iter().filter(|one| !order.contains(one));
        // The last of equals is taken: so from the end, for the first in the tables' order.
        let next = left.rev().max_by_key(|policy| count(*policy));
        order.extend(next);
    }
    order
}

/// The first in `order` that is as good as the best.
pub fn first_of(order: &[PolicyName], as_good: &[PolicyName]) -> PolicyName {
    let found = order.iter().find(|policy| as_good.contains(policy));
    *found.expect("the quickest is as good as itself, and all are in the order")
}
