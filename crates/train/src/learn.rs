//! From measured situations to a tree.
//!
//! Source: AGIOS 2015, section 4 (which attributes a tree may ask); classification and regression
//! trees, with a loss for each wrong choice in place of right and wrong, because most situations
//! have several policies that are as good as the best.
//!
//! The questions come from the regression trees of `smartcore`, one question at a time: for each
//! policy, the question that best explains where it loses. Of these the one is taken after which
//! one policy for each side loses least. `docs/adr/0017-training.md` says why it is not a whole
//! tree of the library's.
//!
//! A leaf says the mean of each policy's logarithm of speed, and which policy to begin with: the
//! one that loses least in the leaf's situations, of those that hurt none of them ([`HURT`]); TO
//! if all do.

use forebay_sched::PolicyName;
use forebay_select::{Feature, Features, Leaf, Node, Tree};
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::tree::decision_tree_regressor::{
    DecisionTreeRegressor, DecisionTreeRegressorParameters,
};

use crate::table::POLICIES;

/// A policy is not begun with where one of the leaf's situations would take longer than without
/// scheduling by more than this: half of what counts as hurt.
pub const HURT: f64 = 0.05;
/// A number for each policy, in the order of [`POLICIES`].
pub type Each = [f64; POLICIES.len()];

/// A situation as the learner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// What a tree may ask.
    pub features: Features,
    /// What each policy loses against the best one; nothing if it is as good.
    pub losses: Each,
    /// The logarithm of each policy's speed over TO's.
    pub over_to: Each,
    /// The same over no scheduling at all.
    pub over_none: Each,
}

/// How far a tree may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Most questions on the way to a leaf.
    pub depth: usize,
    /// Fewest situations of a leaf; at least 1.
    pub least: usize,
}

/// Where a policy stands in [`POLICIES`].
///
/// # Panics
/// If it is none of these.
pub fn place(policy: PolicyName) -> usize {
    POLICIES.iter().position(|one| *one == policy).expect("trees choose among these")
}

/// Grows a tree that asks for these features only.
///
/// # Panics
/// If `least` is 0, or `depth` is more than a tree may have.
pub fn grow(examples: &[&Example], asked: &[Feature], shape: Shape) -> Tree {
    assert!(shape.least > 0 && shape.depth <= Tree::DEPTH_MAX, "{shape:?}");
    let mut nodes = Vec::new();
    grow_below(&mut nodes, examples, asked, shape);
    Tree::new(nodes).expect("grown as a tree")
}

/// Adds a node for the examples and all below it; where it is.
fn grow_below(
    nodes: &mut Vec<Node>,
    examples: &[&Example],
    asked: &[Feature],
    shape: Shape,
) -> usize {
    let index = nodes.len();
    nodes.push(Node::Leaf(leaf(examples)));
    let Some(depth) = shape.depth.checked_sub(1) else { return index };
    let Some((feature, threshold)) = best_question(examples, asked, shape.least) else {
        return index;
    };
    let (yes, no): (Vec<&Example>, Vec<&Example>) =
        examples.iter().partition(|example| example.features.get(feature) < threshold);
    let shape = Shape { depth, ..shape };
    let below = grow_below(nodes, &yes, asked, shape);
    let above = grow_below(nodes, &no, asked, shape);
    // A question whose answers lead to the same choice has helped nobody.
    if let (Node::Leaf(yes), Node::Leaf(no)) = (&nodes[below], &nodes[above])
        && yes.policy == no.policy
    {
        nodes.truncate(index + 1);
        return index;
    }
    nodes[index] = Node::Split { feature, threshold, below, above };
    index
}

/// Of the library's proposals, one for each policy, the one that leaves the least to lose.
fn best_question(examples: &[&Example], asked: &[Feature], least: usize) -> Option<(Feature, f64)> {
    if examples.len() < 2 * least || left_over(examples.iter().copied()) == 0.0 {
        return None;
    }
    let mut best: Option<(f64, Feature, f64)> = None;
    for policy in POLICIES {
        let Some((feature, threshold)) = proposal(examples, asked, policy, least) else { continue };
        let is_below = |one: &&Example| one.features.get(feature) < threshold;
        let below = left_over(examples.iter().copied().filter(|one| is_below(one)));
        let above = left_over(examples.iter().copied().filter(|one| !is_below(one)));
        // Sums in another order differ in their last digits: equal is what is nearly equal.
        if best.is_none_or(|(least, ..)| below + above < least - 1e-9) {
            best = Some((below + above, feature, threshold));
        }
    }
    best.map(|(_, feature, threshold)| (feature, threshold))
}

/// What one policy for all examples loses, and how different they are: the variances of all
/// losses, without which no question is found whose use shows only after the next one.
fn left_over<'e>(examples: impl Iterator<Item = &'e Example>) -> f64 {
    let (mut count, mut sums, mut squares) = (0.0, [0.0; POLICIES.len()], 0.0);
    for example in examples {
        count += 1.0;
        for (sum, loss) in sums.iter_mut().zip(example.losses) {
            *sum += loss;
            squares += loss * loss;
        }
    }
    if count == 0.0 {
        return 0.0;
    }
    let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
    if least == 0.0 {
        return 0.0;
    }
    least + squares - sums.iter().map(|sum| sum * sum).sum::<f64>() / count
}

/// The question that best explains where `policy` loses.
fn proposal(
    examples: &[&Example],
    asked: &[Feature],
    policy: PolicyName,
    least: usize,
) -> Option<(Feature, f64)> {
    let row = |example: &&Example| asked.iter().map(|one| example.features.get(*one)).collect();
    let rows: Vec<Vec<f64>> = examples.iter().map(row).collect();
    let losses: Vec<f64> = examples.iter().map(|one| one.losses[place(policy)]).collect();
    if losses.iter().all(|loss| *loss == losses[0]) {
        return None;
    }
    let matrix = DenseMatrix::from_2d_vec(&rows).ok()?;
    // The library counts levels of nodes: two of them are one question.
    let parameters = DecisionTreeRegressorParameters::default()
        .with_max_depth(2)
        .with_min_samples_leaf(least)
        .with_min_samples_split(2 * least);
    let stump = DecisionTreeRegressor::fit(&matrix, &losses, parameters).ok()?;
    let importances = stump.compute_feature_importances(false).ok()?;
    let column = importances.iter().position(|value| *value > 0.0)?;
    // Which side an example is on shows in what is predicted for it.
    let predicted: Vec<f64> = stump.predict(&matrix).ok()?;
    let nothing = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut one, mut other) = (nothing, nothing);
    for (row, value) in rows.iter().zip(&predicted) {
        let side = if *value == predicted[0] { &mut one } else { &mut other };
        *side = (side.0.min(row[column]), side.1.max(row[column]));
    }
    let (low, high) = if one.0 < other.0 { (one.1, other.0) } else { (other.1, one.0) };
    (low < high && high.is_finite()).then(|| (asked[column], between(low, high)))
}

/// A round number above `low` and at most `high`: their geometric mean, because ratios and counts
/// are compared as ratios, and the mean where there is none.
fn between(low: f64, high: f64) -> f64 {
    let middle = if low > 0.0 { (low * high).sqrt() } else { (low + high) / 2.0 };
    let round = (middle * 1000.0).round() / 1000.0;
    if low < round && round <= high { round } else { high }
}

/// What the examples of a leaf have in common.
fn leaf(examples: &[&Example]) -> Leaf {
    let count = examples.len().max(1) as f64;
    let sum = |of: &dyn Fn(&Example) -> f64| examples.iter().map(|one| of(one)).sum::<f64>();
    let round = |value: f64| (value * 1e6).round() / 1e6;
    let speedup = |place: usize| round(sum(&|one| one.over_to[place]) / count);
    let loss = |place: usize| round(sum(&|one| one.losses[place]) / count);
    let hurts = |place: usize| examples.iter().any(|one| one.over_none[place] < -HURT.ln_1p());
    // The last of equals is taken: so from the end, and TO in doubt.
    let safe = (0..POLICIES.len()).rev().filter(|place| !hurts(*place));
    let best =
        safe.max_by(|a, b| loss(*b).total_cmp(&loss(*a)).then(speedup(*a).total_cmp(&speedup(*b))));
    Leaf {
        policy: best.map_or(PolicyName::To, |place| POLICIES[place]),
        log_speedups: POLICIES.map(|policy| (policy, speedup(place(policy)))).to_vec(),
        support: examples.len() as u32,
    }
}
