//! A call on its way: what is done of it, and what a system call's result makes of it.
//!
//! One call may take several system calls: more than [`SLICES_MAX`] buffers, a short count in
//! the middle, an interruption. Whoever carries it out makes the system call for the next
//! [`Step`], reports the result to [`Work::advance`], and goes on until it says [`Next::Finished`].

use std::ops::Range;
use std::sync::Arc;

use forebay_engine::store::{Io, Operation};
use forebay_units::{Bytes, Offset};
use rustix::fs::tell;
use rustix::io::Errno;

use super::open_file::OpenFile;

/// The most buffers that one system call takes (`IOV_MAX`, `UIO_MAXIOV` in the kernel).
pub(super) const SLICES_MAX: usize = 1024;

/// How often `EINTR` and `EAGAIN` are not believed. A regular file gives them in passing only,
/// but a file system that answers `EAGAIN` for ever must not keep a call for ever.
const RETRIES_MAX: u32 = 64;

/// A call, the file it goes to, and how far it has come.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) io: Io,
    pub(super) file: Arc<OpenFile>,
    done_bytes: u64,
    total_bytes: u64,
    retries: u32,
}

/// What has to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The system call for [`Work::step`].
    Step,
    /// Nothing: `io.outcome` holds.
    Finished,
}

/// One system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `preadv` at an offset.
    Read(u64),
    /// `pwritev` at an offset.
    Write(u64),
    /// `writev` on a descriptor that appends.
    Append,
    /// `fsync`.
    Sync,
    /// `fdatasync`.
    DataSync,
    /// `ftruncate` to a size.
    Truncate(u64),
    /// `fallocate`.
    Allocate { mode: u32, offset: u64, length: u64 },
    /// `posix_fadvise`.
    Advise { advice: u32, offset: u64, length: u64 },
}

impl Work {
    /// `io` on `file`, nothing done.
    pub(super) fn new(io: Io, file: Arc<OpenFile>) -> Self {
        let total_bytes = io.buffers.iter().map(|buffer| buffer.len() as u64).sum();
        Self { io, file, done_bytes: 0, total_bytes, retries: 0 }
    }

    /// Where a read or write is in the file; nothing for other calls.
    pub(super) fn range(&self) -> Range<u64> {
        match self.io.operation {
            Operation::Read(offset) | Operation::Write(offset) => {
                offset.0..offset.0.saturating_add(self.total_bytes)
            }
            _ => 0..0,
        }
    }

    /// What to do first: a call that moves no bytes is over before any system call.
    pub(super) fn begin(&mut self) -> Next {
        let moves_data = matches!(
            self.io.operation,
            Operation::Read(_) | Operation::Write(_) | Operation::Append
        );
        if moves_data && self.total_bytes == 0 { self.finish(Ok(Bytes::ZERO)) } else { Next::Step }
    }

    /// The next system call.
    pub(super) fn step(&self) -> Step {
        match self.io.operation {
            Operation::Read(offset) => Step::Read(offset.0 + self.done_bytes),
            Operation::Write(offset) => Step::Write(offset.0 + self.done_bytes),
            Operation::Append => Step::Append,
            Operation::Sync => Step::Sync,
            Operation::DataSync => Step::DataSync,
            Operation::Truncate(size) => Step::Truncate(size.0),
            Operation::Allocate { mode, offset, length } => {
                Step::Allocate { mode, offset: offset.0, length: length.0 }
            }
            Operation::Advise { advice, offset, length } => {
                Step::Advise { advice, offset: offset.0, length: length.0 }
            }
        }
    }

    /// What is left of the buffers, as many pieces as one system call takes.
    pub(super) fn pieces(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let mut skip = self.done_bytes as usize;
        let rest = self.io.buffers.iter_mut().filter_map(move |buffer| {
            let skipped = skip.min(buffer.len());
            skip -= skipped;
            let piece = &mut buffer[skipped..];
            (!piece.is_empty()).then_some(piece)
        });
        rest.take(SLICES_MAX)
    }

    /// Whether the last system call was not believed: the next one should really wait.
    pub(super) fn is_retry(&self) -> bool {
        self.retries > 0
    }

    /// Takes the result of the system call for [`step`](Self::step).
    ///
    /// A read that stops short before the end of the file goes on; so does a write. An error after some
    /// bytes were written leaves their count as the outcome, as `write(2)` does: who asks again for the
    /// rest learns the error. A read has no such way, because its short count means the end of the
    /// file, so an error anywhere in it is its outcome.
    pub(super) fn advance(&mut self, result: Result<u64, Errno>) -> Next {
        let is_read = matches!(self.io.operation, Operation::Read(_));
        match result {
            Err(Errno::INTR | Errno::AGAIN) if self.retries < RETRIES_MAX => {
                self.retries += 1;
                Next::Step
            }
            Err(_) if !is_read && self.done_bytes > 0 => self.finish(Ok(Bytes(self.done_bytes))),
            Err(errno) => self.finish(Err(errno)),
            Ok(count) => {
                self.done_bytes += count;
                self.retries = 0;
                let is_over = self.done_bytes >= self.total_bytes || count == 0;
                if is_over || (is_read && self.is_at_end()) {
                    self.finish(Ok(Bytes(self.done_bytes)))
                } else {
                    Next::Step
                }
            }
        }
    }

    /// Whether a short read stopped at the end of the file. Asking for the size rather than reading
    /// again spares a direct read an offset that is not aligned, which would be refused.
    fn is_at_end(&self) -> bool {
        let Step::Read(reached) = self.step() else { return false };
        self.file.stat().is_ok_and(|stat| reached >= stat.st_size as u64)
    }

    fn finish(&mut self, outcome: Result<Bytes, Errno>) -> Next {
        self.io.outcome = outcome;
        if self.io.operation == Operation::Append {
            match tell(&self.file) {
                Ok(position) => self.io.end = Offset(position),
                Err(errno) => self.io.outcome = self.io.outcome.and(Err(errno)),
            }
        }
        Next::Finished
    }
}

#[cfg(test)]
mod tests {
    use forebay_pool::{Pool, Share};

    use super::*;

    /// A call of two 4 KiB buffers on a file of 8 KiB.
    fn work(operation: Operation) -> Work {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let pool = Pool::new(Bytes::mib(1)).unwrap();
        let buffers =
            (0..2).map(|_| pool.try_take(Bytes(4096), Share::Dispatch).unwrap()).collect();
        let io = Io {
            token: 0,
            files: Vec::new(),
            operation,
            buffers,
            outcome: Ok(Bytes(1)),
            end: Offset(0),
        };
        Work::new(io, Arc::new(OpenFile::from_descriptor(file.into()).unwrap().0))
    }

    #[test]
    fn a_read_that_stops_short_in_the_middle_goes_on_from_there() {
        let mut work = work(Operation::Read(Offset(0)));
        assert_eq!((work.begin(), work.step()), (Next::Step, Step::Read(0)));
        assert_eq!(work.advance(Ok(5000)), Next::Step);
        assert_eq!(work.step(), Step::Read(5000));
        assert_eq!(work.pieces().map(|piece| piece.len()).collect::<Vec<_>>(), [3192]);
        assert_eq!(work.advance(Ok(3192)), Next::Finished);
        assert_eq!(work.io.outcome, Ok(Bytes(8192)));
    }

    #[test]
    fn a_read_that_stops_at_the_end_of_the_file_is_over() {
        let mut work = work(Operation::Read(Offset(5000)));
        assert_eq!(work.advance(Ok(3192)), Next::Finished);
        assert_eq!(work.io.outcome, Ok(Bytes(3192)));
    }

    #[test]
    fn an_error_after_some_bytes_is_the_outcome_of_a_read_and_a_short_count_of_a_write() {
        let mut read = work(Operation::Read(Offset(0)));
        assert_eq!(read.advance(Ok(4096)), Next::Step);
        assert_eq!(read.advance(Err(Errno::IO)), Next::Finished);
        assert_eq!(read.io.outcome, Err(Errno::IO));
        for operation in [Operation::Write(Offset(0)), Operation::Append] {
            let mut write = work(operation);
            assert_eq!(write.advance(Ok(4096)), Next::Step);
            assert_eq!(write.advance(Err(Errno::NOSPC)), Next::Finished);
            assert_eq!(write.io.outcome, Ok(Bytes(4096)));
        }
    }

    #[test]
    fn a_write_that_moves_nothing_is_not_tried_for_ever() {
        let mut work = work(Operation::Write(Offset(0)));
        assert_eq!(work.advance(Ok(0)), Next::Finished);
        assert_eq!(work.io.outcome, Ok(Bytes(0)));
    }

    #[test]
    fn interruptions_are_tried_again_but_not_for_ever() {
        let mut work = work(Operation::Sync);
        for _ in 0..RETRIES_MAX {
            assert_eq!(work.advance(Err(Errno::AGAIN)), Next::Step);
            assert!(work.is_retry());
        }
        assert_eq!(work.advance(Err(Errno::AGAIN)), Next::Finished);
        assert_eq!(work.io.outcome, Err(Errno::AGAIN));
    }
}
