//! A scheduler driven by a real clock over the [`store::Store`] trait that this crate defines.
//!
//! The engine owns every request from its arrival to its answer, and all data in between:
//!
//! ```text
//!            submit            filled                        next              start
//!  session ─────────► arrival ────────► scheduler (queued) ───────► carry ─────────► store
//!     ▲   Pull/Resume    │ memory for the payload             chunks │                 │
//!     └──────────────────┴────────────── Data, Done ◄────────────────┴── taken back ◄──┘
//! ```
//!
//! - [`arrival`](self) turns a call into *parts* (what the scheduler orders: one for each range)
//!   and finds memory for their payload, first come, first served.
//! - `carry` turns dispatched parts into calls at the store: many small parts become one vectored
//!   call; a part longer than a chunk becomes a *stream* of chunks, a few in flight at a time, so
//!   that a request of any size passes through a fixed pool.
//!
//! One thread drives an engine; nothing in it blocks.

mod arrival;
mod call;
mod carry;
mod engine;
mod files;
mod selection;
pub mod store;
mod turns;

pub use arrival::Sink;
pub use call::{Action, CallKey, Event, Origin, PartKey, Ranges};
pub use engine::{Counters, Engine, Options, Order};
pub use files::FileKey;
