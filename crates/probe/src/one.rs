//! One call at a time at a store.

use forebay_device::SplitMix64;
use forebay_engine::store::{Io, Operation, Store, StoreFile};
use forebay_pool::{BLOCK_BYTES_MAX, Buffer, Pool, Share};
use forebay_units::{Bytes, Offset, Timestamp};
use rustix::io::Errno;

use crate::clock::Clock;
use crate::error::Error;

/// The longest request.
pub(crate) const LENGTH_MAX: Bytes = Bytes::mib(8);

/// Every so many bytes of what is written are unlike all others, so that a device that keeps equal
/// pages once cannot.
const STAMP_EVERY: usize = 4096;

/// A store with one call in progress.
pub(crate) struct One<'a> {
    store: &'a mut dyn Store,
    clock: &'a mut dyn Clock,
    buffers: Vec<Buffer>,
    finished: Vec<Io>,
    stamp: u64,
}

impl<'a> One<'a> {
    pub(crate) fn new(
        store: &'a mut dyn Store,
        clock: &'a mut dyn Clock,
        seed: u64,
    ) -> Result<Self, Error> {
        let pool = Pool::new(LENGTH_MAX)
            .map_err(|errno| Error::failed(format!("no memory for requests: {errno}")))?;
        let block = Bytes(BLOCK_BYTES_MAX);
        let mut buffers: Vec<Buffer> =
            std::iter::from_fn(|| pool.try_take(block, Share::Dispatch)).collect();
        // What compresses is not what a device is bought for.
        let mut random = SplitMix64::new(seed);
        for word in buffers.iter_mut().flat_map(|buffer| buffer.chunks_exact_mut(8)) {
            word.copy_from_slice(&random.below(u64::MAX).to_le_bytes());
        }
        Ok(Self { store, clock, buffers, finished: Vec::new(), stamp: seed })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn store(&mut self) -> &mut dyn Store {
        self.store
    }

    /// Reads all of a range.
    pub(crate) fn read(&mut self, file: StoreFile, at: u64, length: Bytes) -> Result<(), Error> {
        self.transfer(file, Operation::Read(Offset(at)), length)
    }

    /// Writes all of a range, with what was never written before.
    pub(crate) fn write(&mut self, file: StoreFile, at: u64, length: Bytes) -> Result<(), Error> {
        self.transfer(file, Operation::Write(Offset(at)), length)
    }

    /// Carries out a call that moves no data.
    pub(crate) fn call(&mut self, file: StoreFile, operation: Operation) -> Result<(), Error> {
        self.try_call(file, operation)?.map_err(|errno| refused(operation, errno))
    }

    /// The same, with what the store says if it does not do it.
    pub(crate) fn try_call(
        &mut self,
        file: StoreFile,
        operation: Operation,
    ) -> Result<Result<(), Errno>, Error> {
        let io = self.run(file, operation, Vec::new())?;
        Ok(io.outcome.map(|_| ()))
    }

    fn transfer(
        &mut self,
        file: StoreFile,
        operation: Operation,
        length: Bytes,
    ) -> Result<(), Error> {
        let blocks = length.0.div_ceil(BLOCK_BYTES_MAX) as usize;
        let kept = self.buffers.len().checked_sub(blocks).expect("lengths have a maximum");
        let mut buffers = self.buffers.split_off(kept);
        let mut left = length.0;
        for buffer in &mut buffers {
            let part = left.min(BLOCK_BYTES_MAX);
            buffer.set_len(part as usize);
            left -= part;
        }
        if matches!(operation, Operation::Write(_)) {
            self.stamp(&mut buffers);
        }
        let io = self.run(file, operation, buffers)?;
        let outcome = io.outcome;
        self.buffers.extend(io.buffers);
        match outcome {
            Ok(moved) if moved == length => Ok(()),
            Ok(moved) => Err(Error::failed(format!(
                "{operation:?} moved {} of {} bytes: does somebody else change the file?",
                moved.0, length.0
            ))),
            Err(errno) => Err(refused(operation, errno)),
        }
    }

    fn stamp(&mut self, buffers: &mut [Buffer]) {
        for page in buffers.iter_mut().flat_map(|buffer| buffer.chunks_mut(STAMP_EVERY)) {
            self.stamp = self.stamp.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let bytes = self.stamp.to_le_bytes();
            let count = bytes.len().min(page.len());
            page[..count].copy_from_slice(&bytes[..count]);
        }
    }

    fn run(
        &mut self,
        file: StoreFile,
        operation: Operation,
        buffers: Vec<Buffer>,
    ) -> Result<Io, Error> {
        let files = vec![file];
        let outcome = Err(Errno::IO);
        let io = Io { token: 0, files, operation, buffers, outcome, end: Offset(0) };
        self.store.start(self.clock.now(), io);
        self.store.flush();
        loop {
            self.store.take_finished(self.clock.now(), &mut self.finished);
            if let Some(io) = self.finished.pop() {
                return Ok(io);
            }
            let waited = self.clock.wait(self.store.wake());
            waited.map_err(|errno| Error::failed(format!("cannot wait for the store: {errno}")))?;
        }
    }
}

/// What a store's refusal means to the user.
pub(crate) fn refused(operation: Operation, errno: Errno) -> Error {
    if errno == Errno::NOSPC || errno == Errno::DQUOT {
        let text = format!("no space for the test file ({errno}); --size makes it smaller");
        return Error::fix(text);
    }
    Error::failed(format!("{operation:?}: {errno}"))
}
