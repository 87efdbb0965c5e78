//! What a store is: something that carries out I/O and says when it is done.
//!
//! A store is driven by one thread, the engine's. It never blocks in [`Store::start`]; what
//! takes time finishes later and is fetched with [`Store::take_finished`] when [`Store::wake`] says so.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use forebay_pool::Buffer;
use forebay_units::{Bytes, FileId, Offset, Timestamp};
use rustix::io::Errno;

/// A file that a store has open; a small number that the store gives out and takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreFile(pub u32);

/// How a file is reached.
#[derive(Debug)]
pub enum OpenHow {
    /// A descriptor that the client opened itself: the kernel has checked its rights.
    Descriptor(OwnedFd),
    /// A path beneath the export, opened with `openat2(RESOLVE_BENEATH)`.
    Beneath {
        /// Relative to the export's root.
        path: PathBuf,
        /// The client's `open(2)` flags; the store keeps the access mode, `O_APPEND`, `O_DIRECT`
        /// and the sync flags and drops the rest (it never creates or truncates: the client has done so).
        flags: i32,
    },
}

/// What an open file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The store's name for this open file.
    pub file: StoreFile,
    /// The file's identity, the same for every way it was reached.
    pub id: FileId,
}

/// One call to the store.
#[derive(Debug)]
pub struct Io {
    /// The engine's mark, untouched.
    pub token: u64,
    /// The open files of the members, at least one. All are the same file; a store picks the one
    /// whose flags serve every member (a synchronous one if there is any, a buffered one before a direct one).
    pub files: Vec<StoreFile>,
    /// What to do.
    pub operation: Operation,
    /// For reads and writes: buffers in file order, back to back from the operation's offset.
    /// A read fills each buffer's length; a write carries out each buffer's length.
    pub buffers: Vec<Buffer>,
    /// Set by the store: bytes moved from the start of the range, or the error.
    pub outcome: Result<Bytes, Errno>,
    /// Set by the store for [`Operation::Append`]: the file position after the append.
    pub end: Offset,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Vectored read from an offset; fewer bytes than asked for means end of file.
    Read(Offset),
    /// Vectored write at an offset.
    Write(Offset),
    /// Vectored write at the end of the file, wherever that is then.
    Append,
    /// `fsync(2)`.
    Sync,
    /// `fdatasync(2)`.
    DataSync,
    /// `ftruncate(2)` to a size.
    Truncate(Bytes),
    /// `fallocate(2)`.
    Allocate {
        /// The call's mode bits.
        mode: u32,
        /// First byte.
        offset: Offset,
        /// How many bytes.
        length: Bytes,
    },
    /// `posix_fadvise(2)`; its result is ignored by programs, so it never waits.
    Advise {
        /// The call's advice number.
        advice: u32,
        /// First byte.
        offset: Offset,
        /// How many bytes; 0 means to the end.
        length: Bytes,
    },
}

/// What `fstat(2)` says, as far as clients ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Size in bytes.
    pub size: Bytes,
    /// Allocated 512-byte blocks.
    pub blocks_512: u64,
    /// Modification time in nanoseconds since the epoch.
    pub modified_ns: i64,
}

/// When the engine has to look at a store again.
#[derive(Debug)]
pub struct Wake<'a> {
    /// Becomes readable when something has finished.
    pub descriptor: Option<BorrowedFd<'a>>,
    /// Something finishes at this time, without any descriptor becoming readable.
    pub deadline: Option<Timestamp>,
}

/// Something that carries out I/O. See the module's text for the contract.
pub trait Store: Send {
    /// What it is, for `status`, such as `posix` or `modelled(hdd-57)`.
    fn name(&self) -> String;

    /// Opens a file, or says why not. May block for as long as an `open(2)` does.
    fn open(&mut self, how: OpenHow) -> Result<Opened, Errno>;

    /// Gives a file back. No I/O on it is in progress.
    fn close(&mut self, file: StoreFile);

    /// Size and times of an open file.
    fn attributes(&mut self, file: StoreFile) -> Result<Attributes, Errno>;

    /// Tries to carry out a call without waiting for a device (a read from the page cache);
    /// hands it back untouched when it would have to wait or when this store cannot tell.
    fn try_now(&mut self, io: Io) -> Result<Io, Io> {
        Err(io)
    }

    /// Whether [`try_now`](Store::try_now) is worth a try.
    fn tries_now(&self) -> bool {
        false
    }

    /// Takes a call on; it is finished later, in any order.
    fn start(&mut self, now: Timestamp, io: Io);

    /// Passes on what `start` has gathered, where a store gathers (one system call for many).
    fn flush(&mut self) {}

    /// Appends finished calls to `finished`; never waits.
    fn take_finished(&mut self, now: Timestamp, finished: &mut Vec<Io>);

    /// What to wait for until the next [`take_finished`](Store::take_finished).
    fn wake(&self) -> Wake<'_>;

    /// How many of the calls in progress only wait for bytes that are on their way from the device
    /// already, or that the store will have asked for in turn: they ask nothing of it, and take no
    /// place in its queue.
    fn arriving_count(&self) -> usize {
        0
    }

    /// Whether files that are open are read ahead of: what a call takes is not the device's time for
    /// it then, because its bytes are here or on their way, or others are before them.
    fn reads_ahead(&self) -> bool {
        false
    }

    /// How many calls make sense in progress at once.
    fn depth_default(&self) -> usize;

    /// Counters as (name, value), for reports: `seeks`, `sequential`, `busy_ns`, …
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn name(&self) -> String {
        (**self).name()
    }
    fn open(&mut self, how: OpenHow) -> Result<Opened, Errno> {
        (**self).open(how)
    }
    fn close(&mut self, file: StoreFile) {
        (**self).close(file);
    }
    fn attributes(&mut self, file: StoreFile) -> Result<Attributes, Errno> {
        (**self).attributes(file)
    }
    fn try_now(&mut self, io: Io) -> Result<Io, Io> {
        (**self).try_now(io)
    }
    fn tries_now(&self) -> bool {
        (**self).tries_now()
    }
    fn start(&mut self, now: Timestamp, io: Io) {
        (**self).start(now, io);
    }
    fn flush(&mut self) {
        (**self).flush();
    }
    fn take_finished(&mut self, now: Timestamp, finished: &mut Vec<Io>) {
        (**self).take_finished(now, finished);
    }
    fn wake(&self) -> Wake<'_> {
        (**self).wake()
    }
    fn arriving_count(&self) -> usize {
        (**self).arriving_count()
    }
    fn reads_ahead(&self) -> bool {
        (**self).reads_ahead()
    }
    fn depth_default(&self) -> usize {
        (**self).depth_default()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        (**self).counters()
    }
}
