//! The drop-in for AGIOS: its headers, its configuration file, its symbols, over the controller.
//!
//! ```text
//!  sys          the C symbols and the program's pointers
//!  door         which library runs, what arguments mean
//!  library      requests, call-backs, the library's thread
//!  arrangement  which policy and which sharing an algorithm is
//!  outstanding  requests by what AGIOS names them with
//!  config       the configuration file
//!  metrics, trace_file, quick_hash
//! ```
//!
//! `include/agios.h` is for programs, `docs/agios.md` for those who switch one over.

mod arrangement;
mod config;
mod door;
mod library;
mod metrics;
mod outstanding;
mod quick_hash;
mod sys;
mod trace_file;
