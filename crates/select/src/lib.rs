//! Which policy: from the access pattern, the device, and what was seen to work.
//!
//! ```text
//! submitted ─► detector ─► Pattern ─┐
//!                                   ├─► Features ─► Tree ─► leaf ─► Bandit ─► Switch
//! DeviceProfile ─► ratio(op, len) ──┘                               ▲
//! completed ─► epoch: bytes over busy time ─────────────────────────┘
//! ```
//!
//! [`Auto`] is all of it, as a value beside a scheduler: it is told what the scheduler is told, and
//! now and then says that another policy should have its turn. Nothing here reads a clock or
//! changes a scheduler.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod auto;
mod bandit;
pub mod detector;
mod features;
mod math;
mod pattern;
pub mod profile;
mod tree;

pub use auto::{ArmReport, Auto, AutoOptions, Learned, Part, Switch, SwitchReason, Why};
pub use features::{FEATURES, Feature, Features};
pub use pattern::{Pattern, SizeClass, Spatiality};
pub use profile::{Curve, DeviceProfile, Order};
pub use tree::{Leaf, Node, Tree};
