//! A posix store with a pool and a directory of its own, and calls that wait for their end.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_engine::store::{Io, OpenHow, Opened, Operation, Store, StoreFile};
use forebay_pool::{Buffer, Pool, Share};
use forebay_store::{PosixEngine, PosixOptions, PosixStore};
use forebay_units::{Bytes, Offset, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// No call of a test takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Rig {
    pub(crate) store: PosixStore,
    pub(crate) pool: Pool,
    pub(crate) directory: tempfile::TempDir,
}

/// Says why something was not tested, past the harness that hides what passing tests print.
pub(crate) fn say_not_tested(what: &str) {
    let line = format!("NOT TESTED HERE: {what}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
}

impl Rig {
    /// `None`, said visibly, where the kernel forbids this engine.
    pub(crate) fn new(engine: PosixEngine) -> Option<Self> {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = PosixOptions {
            export: Some(directory.path().into()),
            engine,
            depth: 4,
            ..PosixOptions::default()
        };
        match PosixStore::new(options) {
            Ok(store) => Some(Self { store, pool: Pool::new(Bytes::mib(16)).unwrap(), directory }),
            Err(errno) if engine == PosixEngine::IoUring => {
                say_not_tested(&format!("io_uring ({errno})"));
                None
            }
            Err(errno) => panic!("{engine:?}: {errno}"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens (and makes) a file as a client would.
    pub(crate) fn client_open(&self, name: &str, flags: OFlags) -> std::io::Result<File> {
        let access = flags & OFlags::ACCMODE;
        let mut options = OpenOptions::new();
        options.read(access != OFlags::WRONLY).write(access != OFlags::RDONLY);
        options
            .create(access != OFlags::RDONLY)
            .custom_flags((flags - OFlags::ACCMODE).bits() as i32);
        options.open(self.path(name))
    }

    pub(crate) fn open(&mut self, name: &str, flags: OFlags) -> StoreFile {
        let file = self.client_open(name, flags).unwrap();
        self.open_descriptor(file).unwrap().file
    }

    pub(crate) fn open_descriptor(
        &mut self,
        descriptor: impl Into<OwnedFd>,
    ) -> Result<Opened, Errno> {
        self.store.open(OpenHow::Descriptor(descriptor.into()))
    }

    pub(crate) fn open_beneath(&mut self, path: &str, flags: OFlags) -> Result<Opened, Errno> {
        self.store.open(OpenHow::Beneath { path: path.into(), flags: flags.bits() as i32 })
    }

    pub(crate) fn buffers(&self, lengths: impl IntoIterator<Item = usize>) -> Vec<Buffer> {
        let take = |length| {
            self.pool.try_take(Bytes(length as u64), Share::Dispatch).expect("room in the pool")
        };
        lengths.into_iter().map(take).collect()
    }

    pub(crate) fn start(
        &mut self,
        token: u64,
        files: &[StoreFile],
        operation: Operation,
        buffers: Vec<Buffer>,
    ) {
        let io = Io {
            token,
            files: files.to_vec(),
            operation,
            buffers,
            outcome: Ok(Bytes::ZERO),
            end: Offset(0),
        };
        self.store.start(Timestamp(0), io);
    }

    /// Waits, as an engine does, until `count` calls are over.
    pub(crate) fn wait(&mut self, count: usize) -> Vec<Io> {
        let (mut finished, begin) = (Vec::new(), Instant::now());
        self.store.flush();
        loop {
            self.store.take_finished(Timestamp(0), &mut finished);
            if finished.len() >= count {
                return finished;
            }
            assert!(begin.elapsed() < PATIENCE, "{} of {count} calls finished", finished.len());
            let wake = self.store.wake();
            let descriptor = wake.descriptor.expect("a posix store has something to wait for");
            let tv_sec = if wake.deadline.is_some() { 0 } else { PATIENCE.as_secs() as i64 };
            let timeout = Timespec { tv_sec, tv_nsec: 0 };
            match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&timeout)) {
                Ok(0) if tv_sec > 0 => {
                    panic!("nothing woke us: {} of {count} calls finished", finished.len())
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => panic!("poll: {errno}"),
            }
        }
    }

    pub(crate) fn run_io(
        &mut self,
        files: &[StoreFile],
        operation: Operation,
        buffers: Vec<Buffer>,
    ) -> Io {
        self.start(1, files, operation, buffers);
        self.wait(1).pop().unwrap()
    }

    pub(crate) fn run(&mut self, file: StoreFile, operation: Operation) -> Result<Bytes, Errno> {
        self.run_io(&[file], operation, Vec::new()).outcome
    }

    /// Buffers of these lengths that hold `data`.
    pub(crate) fn filled(&self, data: &[u8], piece: usize) -> Vec<Buffer> {
        let mut buffers = self.buffers(data.chunks(piece).map(<[u8]>::len));
        buffers
            .iter_mut()
            .zip(data.chunks(piece))
            .for_each(|(buffer, part)| buffer.copy_from_slice(part));
        buffers
    }

    pub(crate) fn write(
        &mut self,
        files: &[StoreFile],
        operation: Operation,
        data: &[u8],
    ) -> Result<Bytes, Errno> {
        let buffers = self.filled(data, 50_000);
        self.run_io(files, operation, buffers).outcome
    }

    /// Reads up to `length` bytes; what was there.
    pub(crate) fn read(
        &mut self,
        file: StoreFile,
        offset: u64,
        length: usize,
    ) -> Result<Vec<u8>, Errno> {
        let pieces = (0..length).step_by(30_000).map(|start| (length - start).min(30_000));
        let buffers = self.buffers(pieces);
        let io = self.run_io(&[file], Operation::Read(Offset(offset)), buffers);
        io.outcome.map(|count| contents(&io, count))
    }
}

/// The first `count` bytes of a call's buffers.
pub(crate) fn contents(io: &Io, count: Bytes) -> Vec<u8> {
    let mut data: Vec<u8> = io.buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
    data.truncate(count.0 as usize);
    data
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64)
        .map(|i| ((i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

/// Makes one test for each engine from each function of a rig.
#[macro_export]
macro_rules! on_both_engines {
    ($($name:ident),* $(,)?) => {
        mod io_uring {
            $(#[test] fn $name() {
                if let Some(mut rig) = $crate::rig::Rig::new(forebay_store::PosixEngine::IoUring) { super::$name(&mut rig) }
            })*
        }
        mod threads {
            $(#[test] fn $name() {
                if let Some(mut rig) = $crate::rig::Rig::new(forebay_store::PosixEngine::Threads) { super::$name(&mut rig) }
            })*
        }
    };
}
