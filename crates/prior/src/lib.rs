//! What is known before anything is seen: the trained tree, and what earlier runs learned.
#![forbid(unsafe_code)]

use std::sync::Arc;

use forebay_sched::PolicyName;
use forebay_select::{Leaf, Node, Tree};

/// The tree that the training found, compiled in.
pub fn default_tree() -> Arc<Tree> {
    let leaf = Leaf { policy: PolicyName::To, log_speedups: Vec::new(), support: 0 };
    Arc::new(Tree::new(vec![Node::Leaf(leaf)]).expect("one leaf is a tree"))
}
