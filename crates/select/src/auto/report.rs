//! Why the policy of a part is what it is, for people.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_sched::PolicyName;
use forebay_units::Timestamp;

use super::part::PartState;
use super::{ArmReport, AutoOptions, Why};
use crate::bandit::leaf_at;
use crate::bandit::memory::{Memory, Place};
use crate::features::Features;
use crate::math::exp;
use crate::tree::{Leaf, Node, Tree};

pub(super) fn why(
    part: &PartState,
    pinned: Option<PolicyName>,
    options: &AutoOptions,
    memory: &Memory,
    now: Timestamp,
) -> Why {
    let leaf = part.bandit.leaf();
    let features = part.seen.map(|(_, features)| features);
    let nothing = Place::default();
    let arms = leaf.and_then(|index| Some((index, leaf_at(&options.tree, index)?)));
    let arms = arms.map(|(index, leaf)| arms_of(memory.find(index).unwrap_or(&nothing), leaf, now));
    Why {
        part: part.part,
        policy: part.bandit.policy,
        reason: part.bandit.reason,
        pinned,
        pattern: part.seen.map(|(pattern, _)| pattern),
        features,
        leaf: leaf.map(|index| (index, path(&options.tree, index, features.as_ref()))),
        arms: arms.unwrap_or_default(),
        switches: part.switches.clone(),
    }
}

fn arms_of(place: &Place, leaf: &Leaf, now: Timestamp) -> Vec<ArmReport> {
    let report = |(policy, belief): (PolicyName, crate::bandit::posterior::Belief)| {
        let arm = place.arm(policy);
        ArmReport {
            policy,
            speedup: exp(belief.mean),
            speedup_low: exp(belief.low),
            speedup_high: exp(belief.high),
            speedup_prior: exp(leaf.log_speedup(policy).unwrap_or_default()),
            blocks: arm.blocks,
            quarantined_until: arm.quarantined_until.filter(|until| now < *until),
        }
    };
    place.beliefs(leaf).map(report).collect()
}

/// The questions on the way to a leaf, each with its answer, and what was seen in brackets.
fn path(tree: &Tree, leaf: usize, features: Option<&Features>) -> Vec<String> {
    let nodes = tree.nodes();
    // From the leaf up: every node but the first has one above it.
    let above = |index: usize| {
        nodes.iter().enumerate().find_map(|(parent, node)| match node {
            Node::Split { feature, threshold, below, above }
                if [below, above].contains(&&index) =>
            {
                let word = if *below == index { "<" } else { ">=" };
                let seen = features.map(|features| format!(" ({:.6})", features.get(*feature)));
                let seen = seen.unwrap_or_default();
                Some((parent, format!("{} {word} {threshold}{seen}", feature.as_str())))
            }
            _ => None,
        })
    };
    let mut path: Vec<String> =
        core::iter::successors(above(leaf), |(parent, _)| above(*parent)).map(|it| it.1).collect();
    path.reverse();
    path
}
