//! What a loop device says of itself that sysfs does not.
//!
//! Source: `linux/loop.h`.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};

const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// `struct loop_info64`, of which only the first two fields are read.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    _rest: [u64; 27],
}

/// The file that a loop device is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    /// Of the file system that it is on.
    pub(super) device: u64,
    /// Its number there.
    pub(super) inode: u64,
}

impl Backing {
    /// What `device` is attached to.
    ///
    /// # Errors
    /// `ENXIO` if to nothing; what the kernel says if this is no loop device.
    pub(super) fn of(device: impl AsFd) -> Result<Self, Errno> {
        const { assert!(size_of::<LoopInfo>() == 232) };
        // SAFETY: the kernel fills in exactly one `struct loop_info64`, which `LoopInfo` is as long
        // and as aligned as, and which is valid with whatever bits.
        let info = unsafe {
            let question = Getter::<LOOP_GET_STATUS64, LoopInfo>::new();
            ioctl(device, question)?
        };
        Ok(Self { device: info.device, inode: info.inode })
    }
}
