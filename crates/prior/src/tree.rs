//! The text of a tree: one node on each line, in the order of a walk that goes below first.
//!
//! ```json
//! {"format": "forebay-tree", "version": 1, "nodes": [
//! {"node": 0, "question": "device_ratio", "less_than": 3.5, "yes": 1, "no": 2},
//! {"node": 1, "policy": "TO", "support": 24, "log_speedups": {"TO": 0.0, "SJF": -0.01}},
//! {"node": 2, "policy": "SJF", "support": 72, "log_speedups": {"TO": 0.0, "SJF": 0.31}}
//! ]}
//! ```
//!
//! A number is the shortest text that gives it back exactly.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use forebay_sched::PolicyName;
use forebay_select::{FEATURES, Feature, Leaf, Node, Tree};
use serde::Deserialize;

use crate::error::Error;
use crate::file;

const FORMAT: &str = "forebay-tree";
const VERSION: u32 = 1;
/// Most bytes of a tree's text: far more than its most nodes take.
pub const TREE_BYTES_MAX: usize = 4 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeText {
    format: String,
    version: u32,
    nodes: Vec<NodeText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeText {
    node: usize,
    question: Option<String>,
    less_than: Option<f64>,
    yes: Option<usize>,
    no: Option<usize>,
    policy: Option<String>,
    support: Option<u32>,
    log_speedups: Option<BTreeMap<String, f64>>,
}

/// A tree in a regular file.
///
/// # Errors
/// A file that cannot be read, or is no tree; with its path.
pub fn load_tree(path: &Path) -> Result<Tree, Error> {
    let bytes = file::read(path, TREE_BYTES_MAX as u64).map_err(Error::file(path))?;
    let text = String::from_utf8(bytes).map_err(|_| Error::text("not UTF-8, as JSON is"));
    text.and_then(|text| read_tree(&text)).map_err(|error| error.within(path))
}

/// Reads what [`write_tree`] writes.
///
/// # Errors
/// Text that is no tree: which node is wrong, and what would be right.
pub fn read_tree(text: &str) -> Result<Tree, Error> {
    if text.len() > TREE_BYTES_MAX {
        return Err(Error::text(format!(
            "a tree of {} bytes; at most {TREE_BYTES_MAX}",
            text.len()
        )));
    }
    let read: TreeText = serde_json::from_str(text)
        .map_err(|error| Error::text(format!("not the JSON of a tree: {error}")))?;
    if read.format != FORMAT || read.version != VERSION {
        return Err(Error::text(format!(
            "format \"{}\" version {}; this program reads \"{FORMAT}\" version {VERSION}: train again",
            read.format, read.version
        )));
    }
    let nodes: Result<Vec<Node>, Error> = read.nodes.into_iter().enumerate().map(node).collect();
    Tree::new(nodes?).ok_or_else(|| {
        Error::text(format!(
            "not a tree: from node 0 every node has to be reached exactly once, after at most {} questions, \
             of at most {} nodes",
            Tree::DEPTH_MAX,
            Tree::NODES_MAX
        ))
    })
}

fn node((index, text): (usize, NodeText)) -> Result<Node, Error> {
    let wrong = |what: String| Error::text(format!("node {index}: {what}"));
    let NodeText { node, question, less_than, yes, no, policy, support, log_speedups } = text;
    if node != index {
        return Err(wrong(format!("it says \"node\": {node}; nodes are numbered from 0 in order")));
    }
    match (question, less_than, yes, no, policy, support, log_speedups) {
        (Some(question), Some(threshold), Some(below), Some(above), None, None, None) => {
            let feature = feature(&question).ok_or_else(|| {
                let known = FEATURES.map(Feature::as_str).join(", ");
                wrong(format!("no question is called \"{question}\"; known: {known}"))
            })?;
            Ok(Node::Split { feature, threshold, below, above })
        }
        (None, None, None, None, Some(policy), Some(support), Some(speedups)) => {
            let named = |name: &str| -> Result<PolicyName, Error> {
                name.parse().map_err(|error| wrong(format!("\"{name}\": {error}")))
            };
            let mut log_speedups = Vec::new();
            for (name, value) in &speedups {
                let policy = named(name)?;
                if log_speedups.iter().any(|(other, _)| *other == policy) {
                    return Err(wrong(format!("\"log_speedups\" has {policy} twice")));
                }
                if value.abs() > Tree::LOG_SPEEDUP_MAX {
                    return Err(wrong(format!(
                        "\"log_speedups\" has {value} for {policy}; at most {} either way",
                        Tree::LOG_SPEEDUP_MAX
                    )));
                }
                log_speedups.push((policy, *value));
            }
            log_speedups.sort_by_key(|(policy, _)| *policy);
            Ok(Node::Leaf(Leaf { policy: named(&policy)?, log_speedups, support }))
        }
        _ => Err(wrong(
            "it has either question, less_than, yes and no, or policy, support and log_speedups"
                .to_owned(),
        )),
    }
}

fn feature(name: &str) -> Option<Feature> {
    FEATURES.into_iter().find(|feature| feature.as_str() == name)
}

/// A tree as text. What [`read_tree`] makes of it is the same tree.
pub fn write_tree(tree: &Tree) -> String {
    let mut text = format!("{{\"format\": \"{FORMAT}\", \"version\": {VERSION}, \"nodes\": [\n");
    for (index, node) in tree.nodes().iter().enumerate() {
        let line = match node {
            Node::Split { feature, threshold, below, above } => format!(
                "\"question\": \"{}\", \"less_than\": {}, \"yes\": {below}, \"no\": {above}",
                feature.as_str(),
                number(*threshold)
            ),
            Node::Leaf(Leaf { policy, log_speedups, support }) => {
                let mut speedups = log_speedups.clone();
                speedups.sort_by_key(|(policy, _)| *policy);
                let speedups: Vec<String> = speedups
                    .iter()
                    .map(|(policy, value)| format!("\"{policy}\": {}", number(*value)))
                    .collect();
                format!(
                    "\"policy\": \"{policy}\", \"support\": {support}, \"log_speedups\": {{{}}}",
                    speedups.join(", ")
                )
            }
        };
        let comma = if index + 1 == tree.nodes().len() { "" } else { "," };
        writeln!(text, "{{\"node\": {index}, {line}}}{comma}").expect("text takes all");
    }
    text.push_str("]}\n");
    text
}

/// A finite number as JSON, so that it comes back exactly.
pub(crate) fn number(value: f64) -> String {
    serde_json::Number::from_f64(value)
        .map_or_else(|| "0.0".to_owned(), |number| number.to_string())
}

/// What distinguishes one tree from another: 16 hexadecimal digits, FNV-1a of its text.
pub fn tree_key(tree: &Tree) -> String {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", write_tree(tree).bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// The tree that the training found, compiled in; read at the first use.
pub fn default_tree() -> Arc<Tree> {
    static TREE: LazyLock<Arc<Tree>> = LazyLock::new(|| {
        let tree = read_tree(include_str!("../data/tree.json"));
        Arc::new(tree.expect("the tree that is compiled in is one; a test reads it"))
    });
    TREE.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_tree_is_its_own_text() {
        assert_eq!(write_tree(&default_tree()), include_str!("../data/tree.json"));
        assert_eq!(tree_key(&default_tree()).len(), 16);
    }
}
