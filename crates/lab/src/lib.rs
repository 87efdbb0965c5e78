//! The emulated disk: a device model as a block device, with a file system on it.
//!
//! ```text
//!   programs, servers
//!        │ files
//!      ext4 ─ page cache, read-ahead, block allocation           the kernel's own
//!        │
//!   loop device ─ elevator, a queue of a few requests            the kernel's own, set and read back
//!        │ direct I/O
//!   FUSE file ─► forebay-lab-disk: one thread, a drive, a device model, contents in memory
//! ```
//!
//! Everything above the platter is real; only how long the platter takes is modelled, in virtual
//! time with absolute deadlines, so that a machine that wakes a process late does not have a
//! slower disk. What is measured on it depends on read-ahead, queue depth, elevator and the
//! drive's own order at least as much as on the disk: [`Settings`] pins them all, and
//! [`Disk::settings_read_back`] says what the kernel has.
//!
//! Root is needed, `/dev/fuse`, loop devices, `losetup` and `mkfs.ext4`.

mod check;
mod clock;
mod contents;
mod control;
mod daemon;
mod disk;
mod drive;
mod error;
mod fuse;
mod lock;
mod model;
mod owner;
mod places;
mod server;
mod settings;
mod stack;
mod state;
mod statistics;
mod teardown;

pub use check::{Checked, Fault, Probe, check};
pub use daemon::serve;
pub use disk::{Disk, ReadBack};
pub use error::{Error, ErrorKind};
pub use model::Changes;
pub use owner::Owner;
pub use settings::{Reorder, Settings, UnknownReorder};
pub use stack::queue::Queue;
pub use state::{State, names, require_root, state};
pub use statistics::Statistics;
pub use teardown::{take_down, take_down_by_force};
