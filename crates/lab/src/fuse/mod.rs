//! The kernel's side of a file system in user space, as far as three files need it.
//!
//! Source: `linux/fuse.h`, protocol 7.31; numbers are in the machine's byte order.
//!
//! ```text
//!   kernel ──message──► Request::decode ──► the server ──► reply::… ──► kernel
//! ```
//!
//! The protocol is spoken here and not through a library because the disk is one thread that must
//! be in the middle of several requests at once: the drive chooses among those that have arrived.

pub(crate) mod connection;
pub(crate) mod reply;
pub(crate) mod request;

/// Bytes of one read or write at most: 256 pages, the most that the kernel negotiates.
pub(crate) const TRANSFER_BYTES_MAX: usize = 1 << 20;

/// A message may be a write with its headers before it.
pub(crate) const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX + (64 << 10);

/// The root directory.
pub(crate) const ROOT: u64 = 1;
