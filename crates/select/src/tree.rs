//! A decision tree as a value: what the training found, asked one feature at a time.
//!
//! Source: AGIOS 2015, section 4 (trees from which the policy follows); the predictions at the
//! leaves are those of a regression tree, in logarithms, so that speedups of several situations
//! average to their geometric mean. Asking costs a comparison for each node on the way.

use alloc::vec;
use alloc::vec::Vec;

use forebay_sched::PolicyName;

use crate::features::{Feature, Features};

/// One question, or an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Goes to `below` if the feature is less than the threshold, else to `above`.
    Split {
        /// What is asked.
        feature: Feature,
        /// Against what; a finite number.
        threshold: f64,
        /// Index of the node for smaller values.
        below: usize,
        /// Index of the node for the others.
        above: usize,
    },
    /// What to do.
    Leaf(Leaf),
}

/// What the training situations of a leaf have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The policy to begin with.
    pub policy: PolicyName,
    /// Each policy's natural logarithm of its speed over TO's, the mean of the leaf's situations;
    /// at most [`Tree::LOG_SPEEDUP_MAX`] either way, and no policy twice.
    pub log_speedups: Vec<(PolicyName, f64)>,
    /// Training situations.
    pub support: u32,
}

impl Leaf {
    /// What the training found of a policy; `None` if it was not measured.
    pub fn log_speedup(&self, policy: PolicyName) -> Option<f64> {
        self.log_speedups.iter().find(|(name, _)| *name == policy).map(|(_, value)| *value)
    }
}

/// Questions, the first of them at index 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// Most nodes of a tree.
    pub const NODES_MAX: usize = 4096;
    /// Most questions on the way to a leaf.
    pub const DEPTH_MAX: usize = 64;
    /// The most that is believed of a policy, either way: a speedup of some hundred millions. What is
    /// made of it is finite too.
    pub const LOG_SPEEDUP_MAX: f64 = 20.0;

    /// Of nodes; `None` unless every path from the first one ends at a leaf after at most
    /// [`DEPTH_MAX`](Self::DEPTH_MAX) questions, each node is reached exactly once, there are at
    /// most [`NODES_MAX`](Self::NODES_MAX), all thresholds are finite, and all logarithms of speedups
    /// at most [`LOG_SPEEDUP_MAX`](Self::LOG_SPEEDUP_MAX) either way.
    pub fn new(nodes: Vec<Node>) -> Option<Self> {
        if nodes.len() > Self::NODES_MAX || !nodes.iter().all(Node::is_sound) {
            return None;
        }
        let mut is_reached = vec![false; nodes.len()];
        // Nodes to visit, each with the questions before it. No node is visited twice, so this ends.
        let mut ahead = vec![(0, 0)];
        while let Some((index, depth)) = ahead.pop() {
            let is_known = is_reached.get_mut(index)?;
            if core::mem::replace(is_known, true) || depth > Self::DEPTH_MAX {
                return None;
            }
            if let Node::Split { below, above, .. } = nodes[index] {
                ahead.extend([(below, depth + 1), (above, depth + 1)]);
            }
        }
        is_reached.iter().all(|is| *is).then_some(Self { nodes })
    }

    /// The index of the leaf that fits, and the leaf.
    pub fn leaf(&self, features: &Features) -> (usize, &Leaf) {
        let mut index = 0;
        loop {
            match &self.nodes[index] {
                Node::Split { feature, threshold, below, above } => {
                    index = if features.get(*feature) < *threshold { *below } else { *above };
                }
                Node::Leaf(leaf) => return (index, leaf),
            }
        }
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}

impl Node {
    /// Whether its numbers are in bounds and no policy is there twice.
    fn is_sound(&self) -> bool {
        match self {
            Self::Split { threshold, .. } => threshold.is_finite(),
            Self::Leaf(leaf) => {
                leaf.log_speedups.iter().enumerate().all(|(index, (name, value))| {
                    let is_new = leaf.log_speedups[..index].iter().all(|(other, _)| other != name);
                    value.abs() <= Tree::LOG_SPEEDUP_MAX && is_new
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{SizeClass, Spatiality};
    use forebay_units::{Bytes, Direction};
    use proptest::prelude::*;

    fn leaf(policy: PolicyName) -> Node {
        Node::Leaf(Leaf { policy, log_speedups: vec![(policy, 0.5)], support: 1 })
    }

    fn split(below: usize, above: usize) -> Node {
        Node::Split { feature: Feature::Files, threshold: 4.0, below, above }
    }

    fn features(files: u32) -> Features {
        Features::known(
            Direction::Read,
            files,
            Bytes::mib(1),
            Spatiality::Strided,
            SizeClass::Small,
            Bytes::kib(8),
            3.0,
        )
    }

    #[test]
    fn a_value_below_the_threshold_goes_below_and_one_at_it_above() {
        let tree =
            Tree::new(vec![split(2, 1), leaf(PolicyName::Sjf), leaf(PolicyName::Mlf)]).unwrap();
        let at = |files| (tree.leaf(&features(files)).0, tree.leaf(&features(files)).1.policy);
        assert_eq!(at(3), (2, PolicyName::Mlf));
        assert_eq!(at(4), (1, PolicyName::Sjf));
        let found = tree.leaf(&features(4)).1;
        assert_eq!(found.log_speedup(PolicyName::Sjf), Some(0.5));
        assert_eq!(found.log_speedup(PolicyName::To), None);
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let to = || leaf(PolicyName::To);
        assert_eq!(Tree::new(vec![]), None);
        assert_eq!(Tree::new(vec![split(0, 1), to()]), None, "a question that leads to itself");
        assert_eq!(Tree::new(vec![split(1, 1), to()]), None, "a node reached twice");
        assert_eq!(Tree::new(vec![split(1, 3), to(), to()]), None, "a node that does not exist");
        assert_eq!(Tree::new(vec![split(1, 2), to(), to(), to()]), None, "a node never reached");
        let infinite =
            Node::Split { feature: Feature::Files, threshold: f64::NAN, below: 1, above: 2 };
        assert_eq!(Tree::new(vec![infinite, to(), to()]), None);
        let twice = vec![(PolicyName::To, 0.0), (PolicyName::To, 0.0)];
        let twice = Leaf { policy: PolicyName::To, log_speedups: twice, support: 1 };
        assert_eq!(Tree::new(vec![Node::Leaf(twice)]), None);
        for value in [1000.0, -1000.0, 20.1, f64::NAN, f64::INFINITY] {
            let log_speedups = vec![(PolicyName::Sjf, value)];
            let vast = Leaf { policy: PolicyName::Sjf, log_speedups, support: 1 };
            assert_eq!(Tree::new(vec![Node::Leaf(vast)]), None, "{value}");
        }
    }

    /// A chain of so many questions.
    fn chain(questions: usize) -> Vec<Node> {
        let mut nodes: Vec<Node> =
            (0..questions).map(|index| split(questions + 1 + index, index + 1)).collect();
        nodes.extend((0..=questions).map(|_| leaf(PolicyName::To)));
        nodes
    }

    #[test]
    fn depth_and_size_are_bounded() {
        assert!(Tree::new(chain(Tree::DEPTH_MAX)).is_some());
        assert_eq!(Tree::new(chain(Tree::DEPTH_MAX + 1)), None);
        // A complete tree of 4,095 nodes is one; twice as many nodes are too many.
        let complete = |nodes: usize| -> Vec<Node> {
            let inner = nodes / 2;
            let splits = (0..inner).map(|index| split(2 * index + 1, 2 * index + 2));
            splits.chain((inner..nodes).map(|_| leaf(PolicyName::To))).collect()
        };
        assert!(Tree::new(complete(4095)).is_some());
        assert_eq!(Tree::new(complete(8191)), None);
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_answers_everything(
            links in proptest::collection::vec((0usize..12, 0usize..12, any::<bool>()), 0..12),
            files in any::<u32>(),
        ) {
            let nodes = links.iter().map(|(below, above, is_leaf)| match is_leaf {
                true => leaf(PolicyName::Hbrr),
                false => split(*below, *above),
            });
            if let Some(tree) = Tree::new(nodes.collect()) {
                let (index, found) = tree.leaf(&features(files));
                prop_assert_eq!(&tree.nodes()[index], &Node::Leaf(found.clone()));
            }
        }
    }
}
