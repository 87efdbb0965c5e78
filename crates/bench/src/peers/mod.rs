//! Ways from processes to the same file on the same emulated disk, one beside the other.
//!
//! ```text
//!   crew of processes ──┬─ local            the file system itself, buffered or O_DIRECT
//!                       ├─ ganesha ─ NFSv3  a user-space server and client on this host
//!                       └─ forebay          preload library, Unix socket or TCP, posix store
//!                                 └──────► ext4 on the emulated disk (forebay-lab)
//! ```
//!
//! A [`Peer`] starts what it needs, says how a process reaches a file its way, and ends what it
//! started. A [`Stage`] is the disk with its files; it runs a [`Workload`](workload::Workload)
//! through a peer, from a cold cache, and brings back times and the disk's own counters.

mod forebay;
mod ganesha;
mod local;
mod stage;
#[cfg(test)]
mod tests;
pub(crate) mod workload;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub(crate) use forebay::{Forebay, Transport};
pub(crate) use ganesha::Ganesha;
pub(crate) use local::Local;
pub(crate) use stage::{Least, Measured, Stage, Watched};

use crate::error::Error;
use crate::programs::Programs;
use workload::Access;

/// Whether files are opened with `O_DIRECT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Through the page cache.
    Buffered,
    /// Around it.
    Direct,
}

/// A way from processes to files.
pub(crate) trait Peer {
    /// What tables and plots call it.
    fn name(&self) -> &'static str;

    /// What of it would change a figure.
    fn settings(&self, programs: &Programs) -> Result<Value, Error>;

    /// Starts what stands between the processes and the files below `root`, and waits until it can be reached.
    fn start(&mut self, programs: &Programs, root: &Path) -> Result<(), Error>;

    /// A process that does what `access` says, this way; it waits at a crew's gate.
    fn command(&self, programs: &Programs, root: &Path, access: &Access) -> Result<Command, Error>;

    /// Ends what was started, after `bytes` were moved; what it has counted.
    fn stop(&mut self, bytes: u64) -> Result<Value, Error>;
}
