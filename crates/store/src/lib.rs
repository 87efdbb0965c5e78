//! Back ends: the stores that an engine can drive.
//!
//! [`PosixStore`] is the real one: files through the kernel, by io_uring or threads.
//! [`MemoryStore`] keeps files in memory and measures everything but the storage.

mod memory;
mod posix;
mod slab;

pub use memory::{MemoryOptions, MemoryStore};
pub use posix::{PosixEngine, PosixOptions, PosixStore};
