//! What happened, counted in bounded memory: histograms, the heaviest of many, a ledger by class and file.
//!
//! ```text
//!  completed, blocked, …                   snapshot
//!  ───────────────────────────► Ledger ───────────────► Snapshot (plain value: rows, heaviest first, and "other")
//!                                 │
//!                                 ├─ Top: which rows are kept (Space-Saving)
//!                                 └─ Histogram: how long things took, within a stated error
//! ```
//!
//! Everything here is a value with a fixed largest size. Nothing reads a clock or takes a lock;
//! who shares a ledger between threads hands out snapshots.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod gauges;
mod histogram;
mod ledger;
mod shared;
mod top;

pub use account::{Account, ClassAccount, Flow};
pub use gauges::{Gauges, Live, Stage};
pub use histogram::Histogram;
pub use ledger::{Ledger, LedgerOptions, REQUEST_WEIGHT, Reading, Route, Served, Snapshot};
pub use shared::Shared;
pub use top::{Ranked, Ranking, Row, Top};
