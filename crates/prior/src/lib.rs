//! What is known before anything is seen: the trained tree, and what earlier runs learned.
//!
//! ```text
//! data/tree.json ──► default_tree() ──► Arc<Tree>          compiled in
//! a site's file  ──► load_tree()    ──► Tree               `forebay train` writes it
//! state file     ──► load_state()   ──► Vec<Learned>       of one device and one tree
//!                ◄── save_state()
//! ```
//!
//! Both are JSON with one node, or one arm of a leaf, on each line: to be read, and compared with
//! `diff`, by people. Both are decoders of outside input: sizes are bounded, and every message
//! names what is wrong and what would be right.
#![forbid(unsafe_code)]

mod error;
mod file;
mod state;
mod tree;

pub use error::Error;
pub use state::{STATE_BYTES_MAX, check_place, load_state, save_state, set_aside};
pub use tree::{TREE_BYTES_MAX, default_tree, load_tree, read_tree, tree_key, write_tree};
