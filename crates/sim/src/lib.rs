//! The simulator: clients, network, servers and devices in virtual time around the real scheduler.
//!
//! ```text
//! Scenario ─┐                       ┌─► World: clients, messages, nodes, calendar of events
//! record ───┤                       │      each node: forebay_sched::Scheduler
//! Choice ───┴─► Simulation::finish ─┤                 forebay_select::Auto, if it is to choose
//!                                   │                 forebay_device::Device, noise, stalls
//!                                   └─► Outcome: makespan, rates, latencies, fairness
//!
//! check: seeded runs of the scheduler against a byte array and against the stated bounds
//! ```
//!
//! Everything is integers and drawn from one seed: the same scenario, policy and seed give the
//! same outcome on every machine. A small scenario takes well under a millisecond to set up, so
//! thousands of them can be run one after the other, or side by side: a [`Simulation`] shares
//! nothing with another.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod check;
mod drive;
mod event;
mod layout;
mod node;
mod noise;
mod outcome;
mod quantity;
mod replay;
pub mod scenario;
mod selector;
mod simulation;
mod slab;
mod tally;
mod workload;
mod world;

pub use outcome::{Application, Latency, NodeOutcome, Outcome};
pub use replay::Pace;
pub use scenario::{Invalid, Scenario};
pub use selector::{Automatic, Choice, device_profile};
pub use simulation::{Answer, Arrival, Class, Made, Progress, Simulation, run};
