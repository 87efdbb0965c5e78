//! The situations of AGIOS 2015 and of forwarders in virtual time, and the tree that is learned from
//! them.
//!
//! ```text
//! Situation x arm x seed ─► measure ─► Table (CSV) ─► examples ─► learn ─► Tree (JSON)
//! traces ─────────────────► site ─────────────────────────┘ │
//!                                                           └─► validate, evaluate ─► figures
//! ```
//!
//! [`reproduce`] is all of it, from nothing to the files in `data/` and the tree that is compiled
//! into `forebay-prior`; `docs/training.md` says what was decided and why.
#![forbid(unsafe_code)]

pub mod detected;
pub mod detection;
pub mod device;
pub mod evaluate;
pub mod examples;
pub mod label;
pub mod learn;
pub mod measure;
pub mod protocol;
pub mod reproduce;
pub mod site;
pub mod situation;
pub mod table;
pub mod validate;

pub use device::Device;
pub use measure::{Measured, measure};
pub use situation::{Layer, Layout, Pattern, Situation};
pub use table::{Arm, Table};
