//! Back ends: the stores that an engine can drive.
//!
//! [`MemoryStore`] keeps files in memory and measures everything but the storage.

mod memory;
mod slab;

pub use memory::{MemoryOptions, MemoryStore};
