//! Real files through the kernel: the store that a forwarder in production uses.
//!
//! ```text
//!   Io ──► choose (which member's descriptor) ──► Work (how far the call has come)
//!             │                                      │ one Step = one system call
//!             ▼                                      ▼
//!          OpenFile                    Carrier: RingCarrier | Threads
//! ```
//!
//! Nothing is kept here that the kernel does not have: no cache, no dirty data, so programs that
//! reach the same file another way see the same bytes.

mod blocking;
mod carrier;
mod choose;
mod device;
mod open_file;
mod read_ahead;
mod ring;
mod sweeps;
mod sys;
mod threads;
mod turns;
mod work;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Operation, Store, StoreFile, Wake};
use forebay_units::{Bytes, Timestamp};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, ReadWriteFlags};

use self::carrier::Carrier;
use self::open_file::OpenFile;
use self::ring::RingCarrier;
use self::sweeps::Sweeps;
use self::threads::Threads;
use self::work::{Next, Work};
use crate::slab::Slab;

/// Calls in progress that keep a disk busy without taking the choice of order away from the scheduler.
const DEPTH_DEFAULT: usize = 8;

/// Room in a ring for reads that wait for what is on its way, beside those that take a place at the device.
const RING_DEPTH_MIN: usize = 64;

/// What a fast disk reads in the time in which a busy host may leave the store without a turn.
const READ_AHEAD_DEFAULT: Bytes = Bytes::mib(8);

/// How calls are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PosixEngine {
    /// io_uring if the kernel lets us, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    IoUring,
    /// Threads that make blocking calls.
    Threads,
}

/// How a posix store is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixOptions {
    /// The directory that paths are opened beneath; without it, only descriptors are.
    pub export: Option<PathBuf>,
    /// How calls are carried out.
    pub engine: PosixEngine,
    /// How many calls make sense in progress at once, and how many threads there are if there are any.
    pub depth: usize,
    /// How much of a file is read ahead of all its readers together, through the page cache; 0 for nothing.
    pub read_ahead: Bytes,
}

impl Default for PosixOptions {
    fn default() -> Self {
        Self {
            export: None,
            engine: PosixEngine::Auto,
            depth: DEPTH_DEFAULT,
            read_ahead: READ_AHEAD_DEFAULT,
        }
    }
}

/// Real files.
#[derive(Debug)]
pub struct PosixStore {
    export: Option<OwnedFd>,
    depth: usize,
    files: Slab<Arc<OpenFile>>,
    carrier: Box<dyn Carrier>,
    /// Calls that were refused before anything was done.
    refused: Vec<Io>,
    sweeps: Sweeps,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reads: u64,
    writes: u64,
    others: u64,
    bytes_read: u64,
    bytes_written: u64,
    cache_hits: u64,
    cache_misses: u64,
}

impl PosixStore {
    /// A store with no files open.
    ///
    /// # Errors
    /// What opening the export says; with [`PosixEngine::IoUring`] what the kernel says to io_uring;
    /// `EINVAL` for a depth of 0.
    pub fn new(options: PosixOptions) -> Result<Self, Errno> {
        if options.depth == 0 {
            return Err(Errno::INVAL);
        }
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let export =
            options.export.map(|path| openat(CWD, path, directory, Mode::empty())).transpose()?;
        let ring_depth = options.depth.max(RING_DEPTH_MIN);
        let carrier: Box<dyn Carrier> = match options.engine {
            PosixEngine::IoUring => Box::new(RingCarrier::new(ring_depth)?),
            PosixEngine::Threads => Box::new(Threads::new(options.depth)?),
            PosixEngine::Auto => match RingCarrier::new(ring_depth) {
                Ok(ring) => Box::new(ring),
                Err(_) => Box::new(Threads::new(options.depth)?),
            },
        };
        Ok(Self {
            export,
            depth: options.depth,
            files: Slab::default(),
            carrier,
            refused: Vec::new(),
            sweeps: Sweeps::new(options.read_ahead)?,
            counts: Counts::default(),
        })
    }

    fn count(&mut self, io: &Io) {
        let bytes = io.outcome.map_or(0, |moved| moved.0);
        match io.operation {
            Operation::Read(_) => {
                self.counts.reads += 1;
                self.counts.bytes_read += bytes;
            }
            Operation::Write(_) | Operation::Append => {
                self.counts.writes += 1;
                self.counts.bytes_written += bytes;
            }
            _ => self.counts.others += 1,
        }
    }
}

impl Store for PosixStore {
    fn name(&self) -> String {
        format!("posix({})", self.carrier.name())
    }

    /// # Errors
    /// For a descriptor `EBADF` if it is `O_PATH`. For a path `EXDEV` when it leaves the export, `ELOOP` for a
    /// magic link, `EACCES` when nothing is exported. For both `EINVAL` for anything but a regular file.
    fn open(&mut self, how: OpenHow) -> Result<Opened, Errno> {
        let (mut file, id) = match how {
            OpenHow::Descriptor(descriptor) => OpenFile::from_descriptor(descriptor)?,
            OpenHow::Beneath { path, flags } => {
                let export = self.export.as_ref().ok_or(Errno::ACCESS)?;
                OpenFile::beneath(export.as_fd(), &path, flags)?
            }
        };
        file.set_sweep(self.sweeps.open(id));
        Ok(Opened { file: StoreFile(self.files.insert(Arc::new(file))), id })
    }

    fn close(&mut self, file: StoreFile) {
        let was_open = self.files.remove(file.0);
        debug_assert!(was_open.is_some(), "{file:?} is not open");
        if let Some(file) = was_open {
            self.sweeps.close(&file);
        }
    }

    fn attributes(&mut self, file: StoreFile) -> Result<Attributes, Errno> {
        let stat = self.files.get(file.0).ok_or(Errno::BADF)?.stat()?;
        let modified_ns =
            stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64);
        Ok(Attributes {
            size: Bytes(stat.st_size as u64),
            blocks_512: stat.st_blocks as u64,
            modified_ns,
        })
    }

    /// Serves a read whose bytes are all in the page cache; everything else would have to wait.
    fn try_now(&mut self, io: Io) -> Result<Io, Io> {
        if !matches!(io.operation, Operation::Read(_)) {
            return Err(io);
        }
        let Ok(file) = choose::file_for(&self.files, &io.files, io.operation) else {
            return Err(io);
        };
        // A direct read always goes to the device.
        if file.is_direct() || file.always_waits() {
            return Err(io);
        }
        let mut work = Work::new(io, file);
        let range = work.range();
        if !self.sweeps.may_try(&work.file, &range) {
            self.counts.cache_misses += 1;
            return Err(work.io);
        }
        let mut next = work.begin();
        while next == Next::Step {
            match blocking::make_call(&mut work, ReadWriteFlags::NOWAIT) {
                Ok(count) => next = work.advance(Ok(count)),
                Err(errno) => {
                    if errno == Errno::OPNOTSUPP {
                        work.file.set_always_waits();
                    }
                    self.counts.cache_misses += 1;
                    self.sweeps.missed(&work.file);
                    return Err(work.io);
                }
            }
        }
        self.counts.cache_hits += 1;
        self.count(&work.io);
        // A sweep whose pages are all there already would otherwise run into the end of them.
        self.sweeps.hit(&work.file, &range, |work| self.carrier.start(work));
        Ok(work.io)
    }

    fn tries_now(&self) -> bool {
        true
    }

    fn start(&mut self, _now: Timestamp, mut io: Io) {
        match choose::file_for(&self.files, &io.files, io.operation) {
            Ok(file) => {
                let work = Work::new(io, file);
                let mut start = |work| self.carrier.start(work);
                match work.io.operation {
                    Operation::Read(_) if work.file.is_direct() => {
                        self.sweeps.read_elsewhere(work, start);
                    }
                    Operation::Read(_) => {
                        let range = work.range();
                        self.sweeps.read(work, &range, start);
                    }
                    _ => start(work),
                }
            }
            Err(errno) => {
                io.outcome = Err(errno);
                self.refused.push(io);
            }
        }
    }

    fn flush(&mut self) {
        self.carrier.flush();
    }

    fn take_finished(&mut self, _now: Timestamp, finished: &mut Vec<Io>) {
        let first = finished.len();
        finished.append(&mut self.refused);
        self.carrier.take_finished(finished);
        let mut has_started = false;
        let mut start = |work| {
            has_started = true;
            self.carrier.start(work);
        };
        finished.retain(|io| !self.sweeps.is_own(io, &mut start));
        if has_started {
            self.carrier.flush();
        }
        for io in &finished[first..] {
            self.count(io);
        }
    }

    fn wake(&self) -> Wake<'_> {
        let is_ready = !self.refused.is_empty() || self.carrier.is_ready();
        Wake {
            descriptor: Some(self.carrier.descriptor()),
            deadline: is_ready.then_some(Timestamp(0)),
        }
    }

    fn arriving_count(&self) -> usize {
        self.sweeps.arriving_count()
    }

    fn reads_ahead(&self) -> bool {
        self.sweeps.reads_ahead()
    }

    fn depth_default(&self) -> usize {
        self.depth
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        vec![
            ("reads", counts.reads),
            ("writes", counts.writes),
            ("others", counts.others),
            ("bytes_read", counts.bytes_read),
            ("bytes_written", counts.bytes_written),
            ("cache_hits", counts.cache_hits),
            ("cache_misses", counts.cache_misses),
            ("ahead_bytes", self.sweeps.counts().ahead_bytes),
            ("ahead_held", self.sweeps.counts().held),
        ]
    }
}
