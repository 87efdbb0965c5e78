//! A decision tree as a value: what the training found, asked one feature at a time.

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
        /// Against what.
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
    /// The policy that was best.
    pub policy: PolicyName,
    /// Each policy's logarithm of its speed over TO's, the mean of the leaf's situations.
    pub log_speedups: Vec<(PolicyName, f64)>,
    /// Training situations.
    pub support: u32,
}

/// Questions, the first of them at index 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// Of nodes; `None` unless every path from the first one ends at a leaf and each node is
    /// reached once.
    pub fn new(nodes: Vec<Node>) -> Option<Self> {
        (!nodes.is_empty()).then_some(Self { nodes })
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
