//! One fixed pool of I/O buffers: all the memory that data may ever occupy.
//!
//! INTERFACE SKETCH, to be filled in.

use forebay_units::Bytes;

/// On whose account a buffer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Payload of a request that is still queued. May use all but the reserve.
    Arrival,
    /// Data of a dispatch. May use everything, so that what was dispatched can always finish.
    Dispatch,
}

/// The pool; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Pool;

/// A piece of the pool, page-aligned, given back when dropped.
#[derive(Debug)]
pub struct Buffer;

impl Pool {
    /// Tries to take a buffer of `length` bytes (1 B … 1 MiB); `None` when this share has no room now.
    pub fn try_take(&self, length: Bytes, share: Share) -> Option<Buffer> {
        let _ = (length, share);
        None
    }
}
