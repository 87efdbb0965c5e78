//! Back ends: the stores that an engine can drive.
//!
//! [`PosixStore`] is the real one: files through the kernel, by io_uring or threads.
//! [`MemoryStore`] keeps files in memory and measures everything but the storage.
//! [`Modelled`] and [`Faulty`] go around any of them: one is as slow as the device that it
//! stands for, the other as bad as its rules say.

mod faults;
mod faulty;
mod held;
mod memory;
mod modelled;
mod placement;
mod posix;
mod slab;

pub use forebay_device::{TimeScale, TimeScaleError};

pub use faults::{Faults, FaultsError};
pub use faulty::Faulty;
pub use memory::{MemoryOptions, MemoryStore};
pub use modelled::Modelled;
pub use posix::{PosixEngine, PosixOptions, PosixStore};
