//! The name that the kernel has for an open descriptor, through `/proc/self/fd`.
//!
//! Asking the kernel instead of comparing strings at `open` makes relative paths, symbolic links,
//! directory descriptors, inherited descriptors and renames all one case.

use core::fmt::Write;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::CWD;
use rustix::io::Errno;

use crate::text::Text;

/// Writes the name into `room` and says how long it is. A name as long as the room may be cut off.
pub(crate) fn read(descriptor: impl AsFd, room: &mut [u8]) -> Result<usize, Errno> {
    let mut link = Text::<40>::new();
    let _ = write!(link, "/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    let link = link.as_c_str().ok_or(Errno::NAMETOOLONG)?;
    rustix::fs::readlinkat_raw(CWD, link, room)
}
