//! An open file of the posix store: how it is reached, what it is, and what its flags allow.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use forebay_engine::store::Operation;
use forebay_units::FileId;
use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, openat2,
};
use rustix::io::Errno;

use super::sys;

/// `O_DSYNC` of the generic kernel headers. rustix's `DSYNC` has both bits of `O_SYNC`, so it cannot tell them apart.
pub(super) const DSYNC: OFlags = OFlags::from_bits_retain(0o10000);

/// What of a client's `open(2)` flags means something to a file that exists already.
const FLAGS_KEPT: OFlags =
    OFlags::ACCMODE.union(OFlags::APPEND).union(OFlags::DIRECT).union(OFlags::SYNC).union(DSYNC);

/// How often a walk that raced with a rename or a signal is tried again before its error is believed.
const OPEN_TRIES_MAX: usize = 16;

/// A regular file, open.
#[derive(Debug)]
pub(super) struct OpenFile {
    descriptor: OwnedFd,
    /// The status flags (`OFlags`) as last seen.
    flags: AtomicU32,
    /// Set once the file system has said that it cannot try a read without waiting.
    always_waits: AtomicBool,
    /// The number of the sweep over the file.
    sweep: u32,
}

impl OpenFile {
    /// Takes over a descriptor that a client opened.
    ///
    /// # Errors
    /// `EBADF` for an `O_PATH` descriptor, `EINVAL` for anything but a regular file.
    pub(super) fn from_descriptor(descriptor: OwnedFd) -> Result<(Self, FileId), Errno> {
        let flags = fcntl_getfl(&descriptor)?;
        if flags.contains(OFlags::PATH) {
            return Err(Errno::BADF);
        }
        let id = regular_file_id(&descriptor)?;
        let flags = AtomicU32::new(flags.bits());
        Ok((Self { descriptor, flags, always_waits: AtomicBool::new(false), sweep: 0 }, id))
    }

    /// Opens `path` below `root`, following links as far as they stay there.
    ///
    /// # Errors
    /// `EXDEV` for a path that leaves the root, `ELOOP` for a magic link, `EINVAL` for anything but a
    /// regular file, else what `openat2(2)` says.
    pub(super) fn beneath(
        root: BorrowedFd<'_>,
        path: &Path,
        flags: i32,
    ) -> Result<(Self, FileId), Errno> {
        let flags = OFlags::from_bits_retain(flags as u32) & FLAGS_KEPT;
        // Looking before opening keeps devices and FIFOs from noticing. What is swapped in between is
        // still found out below, and O_NONBLOCK keeps a FIFO from holding the store up.
        regular_file_id(&walk(root, path, OFlags::PATH)?)?;
        let descriptor = walk(root, path, flags | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        let opened = Self::from_descriptor(descriptor)?;
        fcntl_setfl(&opened.0.descriptor, flags)?;
        opened.0.refresh()?;
        Ok(opened)
    }

    /// Sees the flags again: a client that shares the descriptor may have changed them with `fcntl(2)`.
    /// Whether they had changed.
    pub(super) fn refresh(&self) -> Result<bool, Errno> {
        let flags = fcntl_getfl(&self.descriptor)?.bits();
        Ok(self.flags.swap(flags, Ordering::Relaxed) != flags)
    }

    fn flags(&self) -> OFlags {
        OFlags::from_bits_retain(self.flags.load(Ordering::Relaxed))
    }

    /// What the kernel would say to `operation` on this descriptor because of its access mode.
    pub(super) fn check_rights(&self, operation: Operation) -> Result<(), Errno> {
        let access = self.flags() & OFlags::ACCMODE;
        let (readable, writable) = (access != OFlags::WRONLY, access != OFlags::RDONLY);
        match operation {
            Operation::Read(_) if !readable => Err(Errno::BADF),
            Operation::Write(_) | Operation::Append | Operation::Allocate { .. } if !writable => {
                Err(Errno::BADF)
            }
            Operation::Truncate(_) if !writable => Err(Errno::INVAL),
            _ => Ok(()),
        }
    }

    /// Whether a write on it goes to the end, wherever it was meant to go.
    pub(super) fn appends(&self) -> bool {
        self.flags().contains(OFlags::APPEND)
    }

    /// The number of the sweep over the file, which all its open files share.
    pub(super) fn sweep(&self) -> u32 {
        self.sweep
    }

    /// Gives it its number.
    pub(super) fn set_sweep(&mut self, number: u32) {
        self.sweep = number;
    }

    /// Whether it goes around the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.flags().contains(OFlags::DIRECT)
    }

    /// How much is on the device when a write returns: 0 nothing, 1 the data, 2 all that `fsync` would bring.
    pub(super) fn durability(&self) -> u8 {
        // O_SYNC holds the bit of O_DSYNC.
        u8::from(self.flags().contains(DSYNC)) + u8::from(self.flags().contains(OFlags::SYNC))
    }

    /// Whether the file system is known to have no way of trying a read without waiting.
    pub(super) fn always_waits(&self) -> bool {
        self.always_waits.load(Ordering::Relaxed)
    }

    /// Remembers that it has none.
    pub(super) fn set_always_waits(&self) {
        self.always_waits.store(true, Ordering::Relaxed);
    }

    /// `fstat(2)`.
    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        fstat(&self.descriptor)
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn walk(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut walked = Err(Errno::AGAIN);
    for _ in 0..OPEN_TRIES_MAX {
        walked = openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        if !matches!(walked, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    walked
}

fn regular_file_id(descriptor: &OwnedFd) -> Result<FileId, Errno> {
    let stat = fstat(descriptor)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    Ok(FileId {
        device: stat.st_dev,
        inode: stat.st_ino,
        generation: sys::inode_generation(descriptor).unwrap_or(0),
    })
}
