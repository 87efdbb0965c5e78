//! The posix store's unsafe edge: the io_uring and one `ioctl` that rustix does not name.
//!
//! What makes the ring sound: [`Ring`] owns every [`Work`] from the moment its entry is pushed
//! until its completion is popped, so the buffers, the vector of slices and the file that the
//! kernel uses meanwhile stay where they are and nobody else looks at them.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;
use rustix::ioctl;

use super::work::{Step, Work};
use crate::slab::Slab;

/// `FS_IOC_GETVERSION`. Its number is made with the size of a `long`, though file systems write an `int`.
const GET_VERSION: ioctl::Opcode = ioctl::opcode::read::<std::ffi::c_long>(b'v', 1);

/// The inode's generation; an error where the file system has none.
pub(super) fn inode_generation(file: impl AsFd) -> Result<u64, Errno> {
    let mut generation = [0u32; 2];
    // SAFETY: the call writes an `int`, or by its number at most a `long`; eight bytes hold either.
    unsafe { ioctl::ioctl(file, ioctl::Updater::<GET_VERSION, [u32; 2]>::new(&mut generation)) }?;
    Ok(u64::from(generation[0]))
}

/// `cachestat(2)`, since Linux 6.5; by its number, which is the same on all machines but Alpha.
const CACHESTAT: std::ffi::c_long = 451;

/// `struct cachestat` of `<linux/mman.h>`.
#[derive(Default)]
#[repr(C)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages of `range`, which is not empty, the page cache has, those included that are being read.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EPERM` for a file that this process could not write, `EOPNOTSUPP`.
pub(super) fn cached_pages(file: impl AsFd, range: &Range<u64>) -> Result<u64, Errno> {
    let descriptor = file.as_fd().as_raw_fd();
    let range = [range.start, range.end - range.start];
    let mut found = CacheStat::default();
    // SAFETY: the kernel reads two 64-bit numbers (`struct cachestat_range`) and writes the five of
    // `struct cachestat`; both are alive for the call.
    let result = unsafe { libc::syscall(CACHESTAT, descriptor, &range, &mut found, 0) };
    if result == 0 { Ok(found.cached) } else { Err(errno(std::io::Error::last_os_error())) }
}

/// `struct iovec`: a pointer and a length, in this order (POSIX `<sys/uio.h>`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Slice {
    base: *mut u8,
    length: usize,
}

/// A work whose step the kernel has.
#[derive(Debug)]
struct InFlight {
    work: Work,
    /// The buffers' pieces for this step: only kept, because the kernel reads them when it begins the step.
    _slices: Vec<Slice>,
}

// SAFETY: the pointers go to memory of `work`'s buffers, which may be used from any thread.
unsafe impl Send for InFlight {}

/// An io_uring and the works it has.
pub(super) struct Ring {
    ring: IoUring,
    in_flight: Slab<InFlight>,
    /// The most works in flight: as many as there are places for completions, so that none overflows.
    in_flight_max: usize,
    truncates: bool,
}

impl Ring {
    /// A ring with room for `entries` pushes between two submits.
    pub(super) fn new(entries: usize) -> Result<Self, Errno> {
        let entries = u32::try_from(entries).unwrap_or(u32::MAX).max(1);
        let mut ring = IoUring::builder().setup_clamp().build(entries).map_err(errno)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(errno)?;
        let has = |code| probe.is_supported(code);
        // Linux 5.6 has all of these; what is older is served by threads.
        let complete = has(opcode::Fallocate::CODE) && has(opcode::Fadvise::CODE);
        if !complete || !ring.params().is_feature_nodrop() || !ring.params().is_feature_rw_cur_pos()
        {
            return Err(Errno::OPNOTSUPP);
        }
        let truncates = has(opcode::Ftruncate::CODE);
        let in_flight_max = ring.completion().capacity();
        Ok(Self { ring, in_flight: Slab::default(), in_flight_max, truncates })
    }

    /// Whether this kernel's ring knows the call for `step`.
    pub(super) fn supports(&self, step: Step) -> bool {
        self.truncates || !matches!(step, Step::Truncate(_))
    }

    /// Whether [`push`](Self::push) has room; [`submit`](Self::submit) or [`pop`](Self::pop) may make some.
    pub(super) fn has_room(&mut self) -> bool {
        self.in_flight.len() < self.in_flight_max && !self.ring.submission().is_full()
    }

    /// Puts the next step of `work` into the ring.
    ///
    /// # Panics
    /// If there is no room.
    pub(super) fn push(&mut self, mut work: Work) {
        assert!(self.has_room(), "the ring is full");
        let slices: Vec<Slice> = work
            .pieces()
            .map(|piece| Slice { base: piece.as_mut_ptr(), length: piece.len() })
            .collect();
        let mut entry = entry_for(&work, &slices);
        if work.is_retry() {
            // A descriptor with O_NONBLOCK is answered EAGAIN where its file system cannot wait within
            // the ring; a worker of the kernel's can.
            entry = entry.flags(squeue::Flags::ASYNC);
        }
        let number = self.in_flight.insert(InFlight { work, _slices: slices });
        // SAFETY: the slices' vector and the buffers it points to are owned by `in_flight` until the
        // completion with this number is popped (moving their owner does not move them), and so is the file.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(u64::from(number))) };
        pushed.expect("room was seen above");
    }

    /// Passes on what was pushed. Whether the kernel took it all; if not (a signal, memory short), it
    /// stays for the next time.
    pub(super) fn submit(&mut self) -> bool {
        self.ring.submission().is_empty()
            || (self.ring.submit().is_ok() && self.ring.submission().is_empty())
    }

    /// A work whose step is finished, with the result of the step.
    pub(super) fn pop(&mut self) -> Option<(Work, Result<u64, Errno>)> {
        let completion = self.ring.completion().next()?;
        let in_flight = self.in_flight.remove(completion.user_data() as u32);
        let work = in_flight.expect("every completion is of an entry pushed once").work;
        let result = u64::try_from(completion.result());
        Some((work, result.map_err(|_| Errno::from_raw_os_error(-completion.result()))))
    }

    /// Readable while completions wait to be popped.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

fn entry_for(work: &Work, slices: &[Slice]) -> squeue::Entry {
    let file = Fd(work.file.as_fd().as_raw_fd());
    let (base, count) = (slices.as_ptr().cast(), slices.len() as u32);
    match work.step() {
        Step::Read(offset) => opcode::Readv::new(file, base, count).offset(offset).build(),
        Step::Write(offset) => opcode::Writev::new(file, base, count).offset(offset).build(),
        // Offset -1 is the descriptor's own position, which an appending write moves to the end.
        Step::Append => opcode::Writev::new(file, base, count).offset(u64::MAX).build(),
        Step::Sync => opcode::Fsync::new(file).build(),
        Step::DataSync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
        Step::Truncate(size) => opcode::Ftruncate::new(file, size).build(),
        Step::Allocate { mode, offset, length } => {
            opcode::Fallocate::new(file, length).offset(offset).mode(mode as i32).build()
        }
        Step::Advise { advice, offset, length } => {
            opcode::Fadvise::new(file, length as _, advice as i32).offset(offset).build()
        }
    }
}

fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

impl Drop for Ring {
    /// Waits for what the kernel still has: its buffers cannot be given back before.
    fn drop(&mut self) {
        while self.in_flight.len() > 0 {
            let waited = self.ring.submit_and_wait(1).map_err(errno);
            if waited.is_err_and(|errno| errno != Errno::INTR) {
                // Without a way to wait, losing the memory is the only sound way out.
                std::mem::forget(std::mem::take(&mut self.in_flight));
                return;
            }
            while self.pop().is_some() {}
        }
    }
}
