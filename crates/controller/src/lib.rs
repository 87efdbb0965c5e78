//! The controller: one scheduler shared by threads, in front of call-backs.
//!
//! A service submits requests from any thread; the controller says when each may go, alone or in
//! a batch, and is told when it is over. It moves no data and opens no file.
//!
//! ```text
//!   submit ──┬─ the lock is free ──► scheduler ──► call-back, on this thread
//!            └─ somebody has it ───► ring ──┐
//!   complete ── the same ───────────────────┴──► whoever has the lock takes it along
//! ```
//!
//! # Who dispatches
//!
//! Whoever finds something to do: the thread that submits or completes decides under the lock and
//! calls back after letting go of it. There is no thread of our own, but for one that sleeps until
//! a policy's wait is over, or until a call-back has taken so long that somebody else must look at
//! what was left; it is made when it is first needed, and more while it is held up (`alarm.rs`). So an
//! idle controller dispatches on the caller's thread, and costs nothing while nothing happens.
//!
//! What a call-back asks of its own controller takes effect, and what follows from it is
//! dispatched by the loop that called back, after it returns: the stack never grows.
//!
//! # Why nothing is forgotten
//!
//! A thread that finds the lock taken leaves its operation in the ring and goes. That is sound
//! because whoever lets go of the lock looks into the ring afterwards, before it calls back (`pump.rs`).

mod active;
mod alarm;
mod clock;
mod controller;
mod error;
mod files;
mod fork;
mod lock;
mod locked;
mod operation;
mod options;
mod pump;
mod ring;
mod round;
mod selection;
mod shared;
mod slots;
mod statistics;
mod sys;
mod tape;
mod waiting;

pub use controller::Controller;
pub use error::Error;
pub use operation::{
    Batch, Deliver, Delivery, FileKey, Hint, Notice, Outcome, Submission, Ticket, Turn,
};
pub use options::Options;
pub use round::{Next, Round};
pub use selection::{Selection, Storage};
pub use statistics::{Detail, Snapshot};
