//! What is learned from: a table's situations with what each policy loses there.

use forebay_sched::PolicyName;
use forebay_select::Features;

use crate::label::{as_good, cover, first_of, log_speedup, quickest};
use crate::learn::{Each, Example};
use crate::table::{Arm, Makespans, POLICIES, Table};

/// Policies whose makespans differ by no more than this part are equally good, and so are those
/// whose difference is not certain.
pub const MARGIN: f64 = 0.03;
/// What a loss is counted as, in logarithms: at least the margin, and at most that of a policy half
/// as fast. One that is ten times slower may no more be chosen than that one; but to lose a fifth
/// in three situations is better than to lose half in two.
const LOSS: [f64; 2] = [MARGIN, 0.7];

/// A situation with what was measured of it.
pub fn example(features: Features, makespans: &Makespans) -> Example {
    let best = Arm::Policy(quickest(makespans));
    let good = as_good(makespans, MARGIN);
    let loss = |policy: PolicyName| match good.contains(&policy) {
        true => 0.0,
        false => log_speedup(makespans, best, Arm::Policy(policy)).0.clamp(LOSS[0], LOSS[1]),
    };
    Example {
        features,
        losses: POLICIES.map(loss),
        over_to: over(makespans, Arm::Policy(PolicyName::To)),
        over_none: over(makespans, Arm::Without),
    }
}

/// Of every row of a table, in its order: losses as they were measured.
pub fn measured(table: &Table) -> Vec<Example> {
    table.rows.iter().map(|(situation, one)| example(situation.features(), one)).collect()
}

/// Of every row of a table, whose rows are pairs of the same pattern on the same device, as in
/// AGIOS 2015: one label for each pair, and every other choice is equally wrong.
pub fn labelled(table: &Table) -> (Vec<Example>, Vec<PolicyName>) {
    let pairs: Vec<Vec<PolicyName>> = table.rows.chunks(2).map(as_good_for_all).collect();
    let order = cover(&pairs);
    let labels: Vec<PolicyName> =
        pairs.iter().flat_map(|pair| [first_of(&order, pair); 2]).collect();
    let mut examples = measured(table);
    for (example, label) in examples.iter_mut().zip(&labels) {
        example.losses = POLICIES.map(|policy| f64::from(u8::from(policy != *label)));
    }
    (examples, labels)
}

/// The logarithm of each policy's speed over that of `arm`.
fn over(makespans: &Makespans, arm: Arm) -> Each {
    POLICIES.map(|policy| log_speedup(makespans, Arm::Policy(policy), arm).0)
}

/// The policies that are as good as the best on the average of several situations.
fn as_good_for_all(rows: &[(crate::Situation, Makespans)]) -> Vec<PolicyName> {
    let count = rows.len() as f64;
    let mean = |policy: PolicyName| {
        let to = Arm::Policy(PolicyName::To);
        rows.iter().map(|(_, one)| log_speedup(one, Arm::Policy(policy), to).0).sum::<f64>()
    };
    let best = POLICIES.into_iter().max_by(|a, b| mean(*a).total_cmp(&mean(*b)));
    let best = Arm::Policy(best.expect("there are policies"));
    let is_as_good = |policy: &PolicyName| {
        let each = rows.iter().map(|(_, one)| log_speedup(one, best, Arm::Policy(*policy)));
        // Independent errors add as squares.
        let (sum, squares) = each
            .fold((0.0, 0.0), |(sum, squares), (loss, half)| (sum + loss, squares + half * half));
        sum / count <= MARGIN.ln_1p() || sum <= squares.sqrt()
    };
    POLICIES.into_iter().filter(is_as_good).collect()
}
