//! Traces: what a scheduler was told, asked and decided, in a compact format.
//!
//! ```text
//!  engine, controller ─► Traced (a scheduler) ─► Recorder ─ blocks ─► a file      docs/trace-format.md
//!                                                                       │
//!  fio iolog, Darshan DXT ─► import ─► Recorder ─ blocks ─► a file ─────┤
//!                                                                       ▼
//!  Laws · Checker (same decisions?) · Workload (requests to replay) ◄─ Reader ─► Summary · CSV
//! ```
//!
//! Nothing here reads a clock, opens a file or starts a thread: the embedder hands in times and
//! bytes, and writes out the blocks that it is given.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod adjust;
mod catalog;
mod checker;
mod code;
mod csv;
mod event;
mod frame;
mod import;
mod laws;
mod lives;
mod pattern;
mod reader;
mod recorder;
mod setup;
mod spelling;
mod sum;
mod summary;
mod tally;
mod timeline;
mod traced;
mod varint;
mod words;
mod workload;

pub use adjust::{Adjustment, PolicyChoice};
pub use catalog::{Catalog, TracedFile};
pub use checker::{Checker, Divergence};
pub use csv::{CSV_COLUMNS, csv_line};
pub use event::{Asked, Event, Fate, Hinted, Members, Named, Record, Submit, TEXT_BYTES_MAX};
pub use frame::{Header, MAGIC, Totals, VERSION};
pub use import::{ENDS, ImportError, Imported, ImportedRequest};
pub use laws::{Breach, Laws};
pub use lives::{End, Life, Lives};
pub use pattern::Pattern;
pub use reader::{Damage, DamageKind, Error, Reader};
pub use recorder::{Block, Recorder, RecorderOptions};
pub use setup::{Setup, SetupError};
pub use summary::{
    Change, Decisions, Moved, Orders, Requests, Row, Rows, SizeRow, Spread, Summary, Times,
};
pub use timeline::Moment;
pub use traced::Traced;
pub use workload::{Recorded, Step, Steps, Workload};
