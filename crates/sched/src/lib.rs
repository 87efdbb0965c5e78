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
//!
//! With classes, which are optional, there is a policy for each, and [`sharing`] says at every
//! `next` whose turn it is. A policy from outside goes in through [`Checked`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod arm;
mod batch;
mod book;
mod class_queue;
mod classes;
mod continuation;
mod guard;
mod lane;
mod options;
pub mod ordered_map;
pub mod policies;
pub mod policy;
mod pool;
mod recent;
pub mod request;
pub mod runs;
pub mod scheduler;
mod seq_queue;
pub mod sharing;
mod slot_list;
mod stats;
mod sweep;
mod table;

pub use classes::{
    CLASSES_MAX, ClassCounts, ClassError, ClassOptions, ClassStats, OTHER_CLASS, PolicySource,
};
pub use policies::checked::{Checked, CheckedSettings, Fault};
pub use policies::{PolicyName, PolicySettings, build, source};
pub use policy::{Kept, Limits, Policy, Requests, Selection};
pub use request::{Accepted, Access, Request, RequestId};
pub use scheduler::{
    Admission, Batch, Bypass, Cancellation, Decision, FileBusy, GuardMode, Rejected, Room,
    Scheduler, SchedulerOptions, Stats,
};
