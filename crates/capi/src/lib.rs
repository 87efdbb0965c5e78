//! The C library, `libforebay`: `forebay.h` over the controller.
//!
//! ```text
//!   abi.rs        the types of forebay.h
//!   sys.rs        its functions: pointers become values, panics and errors become numbers
//!   handle.rs     what they do
//!   options.rs    what it is made with, and shares
//!   settings.rs   what can be set while a controller works
//!   sharing.rs    of that, how classes share
//!   outside.rs    policies from outside
//! ```
//!
//! The header is generated from `abi.rs` and `sys.rs`: what stands above an item here stands above
//! it there.

pub mod abi;
mod defaults;
mod delivery;
mod failure;
mod handle;
mod options;
mod outside;
mod pointer;
mod settings;
mod sharing;
mod statistics;
pub mod sys;

pub use handle::forebay;
