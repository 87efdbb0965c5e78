//! The scheduler core: what leaves for the store next, in what order, merged with what.
//!
//! The core is a value. Time is an argument, decisions are return values, and nothing here
//! reads a clock, takes a lock or touches a file, so the same code runs in the forwarder, in
//! the C library and in virtual time.
//!
//! The way of a request through this crate:
//!
//! ```text
//! submit ── guard ──(ready)── bypass? ── policy ── next ── (in flight) ── complete
//!             └─ blocked behind an earlier conflicting request, until that completes
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod answer;
pub mod batch;
pub mod guard;
pub mod options;
pub mod ordered_map;
pub mod policies;
pub mod policy;
pub mod request;
pub mod scheduler;
pub mod stats;
mod lane;
mod pool;
mod seq_queue;
mod table;

pub use answer::{Admission, Cancel, Decision, FileBusy, Rejected, Room};
pub use batch::Batch;
pub use guard::GuardMode;
pub use options::{Bypass, SchedulerOptions};
pub use policies::{PolicyName, build};
pub use policy::{Limits, Policy, Selection};
pub use request::{Accepted, Access, Request, RequestId};
pub use scheduler::Scheduler;
pub use stats::Stats;
