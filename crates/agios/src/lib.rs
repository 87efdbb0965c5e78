//! The drop-in for AGIOS: its headers, its configuration file, its symbols, over the controller.
//!
//! ```text
//!  sys          the C symbols and the program's pointers
//!  door         whether the library runs, what arguments mean
//!  library      who touches what: additions, releases, start and end
//!  intake       what was added        queue    what waits for its turn
//!  caller       the library's thread  passing  NOOP, which queues nothing
//!  name, by_name  what AGIOS names requests with, and how they are found by it
//!  arrangement  which policy and which sharing an algorithm is
//!  config       the configuration file
//!  metrics, trace_file, quick_hash
//! ```
//!
//! `include/agios.h` is for programs, `docs/agios.md` for those who switch one over.

mod arrangement;
mod by_name;
mod caller;
mod config;
mod door;
mod intake;
mod library;
mod metrics;
mod name;
mod passing;
mod queue;
mod quick_hash;
mod sys;
mod trace_file;
