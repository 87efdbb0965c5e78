//! Any store with faults: errors, short calls and delays, the same ones every time.
//!
//! A call that is to fail never reaches the wrapped store. A short one reaches it with fewer
//! bytes, so that what is reported as not written was not written. A delayed one is carried out
//! at once and kept back. Nothing is done without going through `start`: [`Store::try_now`]
//! declines, since a call that it hands back would be counted twice.

use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Store, StoreFile, Wake};
use forebay_pool::Buffer;
use forebay_units::Timestamp;
use rustix::io::Errno;

use crate::faults::{Faults, Kind, Mishap};
use crate::held::{Held, earlier};

/// A store with faults.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
    held: Held<Option<Cut>>,
    returned: Vec<Io>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    failed: u64,
    short: u64,
    delayed: u64,
}

/// What was taken off a call to make it short.
#[derive(Debug)]
struct Cut {
    /// Length of the last buffer that was left, before it was shortened.
    last_length: usize,
    /// The buffers after it.
    rest: Vec<Buffer>,
}

impl<S: Store> Faulty<S> {
    /// `inner` with `faults`.
    pub fn new(inner: S, faults: Faults) -> Self {
        Self { inner, faults, held: Held::default(), returned: Vec::new(), counts: Counts::default() }
    }

    fn next(&mut self, kind: Kind) -> Mishap {
        let mishap = self.faults.next(kind);
        self.counts.failed += u64::from(mishap.fail.is_some());
        self.counts.delayed += u64::from(mishap.delay.0 > 0);
        mishap
    }

    /// Fails with what the rules say, where they say so.
    fn check(&mut self, kind: Kind) -> Result<(), Errno> {
        self.next(kind).fail.map_or(Ok(()), Err)
    }
}

impl Cut {
    /// Shortens a call to some length from 1 byte to all but one; `None` if it has no such length.
    fn shorten(io: &mut Io, number: u64) -> Option<Self> {
        let length: usize = io.buffers.iter().map(|buffer| buffer.len()).sum();
        if length < 2 {
            return None;
        }
        let mut left = 1 + (number % (length as u64 - 1)) as usize;
        for (idx, buffer) in io.buffers.iter_mut().enumerate() {
            let last_length = buffer.len();
            if left <= last_length {
                buffer.set_len(left);
                return Some(Self { last_length, rest: io.buffers.split_off(idx + 1) });
            }
            left -= last_length;
        }
        None
    }

    fn undo(self, io: &mut Io) {
        if let Some(last) = io.buffers.last_mut() {
            last.set_len(self.last_length);
        }
        io.buffers.extend(self.rest);
    }
}

impl<S: Store> Store for Faulty<S> {
    fn name(&self) -> String {
        format!("faulty({})", self.inner.name())
    }

    fn open(&mut self, how: OpenHow) -> Result<Opened, Errno> {
        self.check(Kind::Open)?;
        self.inner.open(how)
    }

    fn close(&mut self, file: StoreFile) {
        self.inner.close(file);
    }

    fn attributes(&mut self, file: StoreFile) -> Result<Attributes, Errno> {
        self.check(Kind::Stat)?;
        self.inner.attributes(file)
    }

    fn start(&mut self, now: Timestamp, mut io: Io) {
        let mishap = self.next(Kind::from(io.operation));
        let due = now + mishap.delay;
        if let Some(errno) = mishap.fail {
            self.held.mark(&mut io, due, None);
            io.outcome = Err(errno);
            self.held.put_back(now, io);
            return;
        }
        let cut = mishap.short.and_then(|number| Cut::shorten(&mut io, number));
        self.counts.short += u64::from(cut.is_some());
        self.held.mark(&mut io, due, cut);
        self.inner.start(now, io);
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn take_finished(&mut self, now: Timestamp, finished: &mut Vec<Io>) {
        self.inner.take_finished(now, &mut self.returned);
        for io in self.returned.drain(..) {
            self.held.put_back(now, io);
        }
        while let Some(mut released) = self.held.release(now) {
            if let Some(cut) = released.kept {
                cut.undo(&mut released.io);
            }
            finished.push(released.io);
        }
    }

    fn wake(&self) -> Wake<'_> {
        let inner = self.inner.wake();
        Wake { deadline: earlier(inner.deadline, self.held.next_due()), ..inner }
    }

    fn depth_default(&self) -> usize {
        self.inner.depth_default()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counts { failed, short, delayed } = self.counts;
        let mut counters = vec![("faults_failed", failed), ("faults_short", short), ("faults_delayed", delayed)];
        counters.extend(self.inner.counters());
        counters
    }
}
