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
        Self {
            inner,
            faults,
            held: Held::default(),
            returned: Vec::new(),
            counts: Counts::default(),
        }
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

    fn reads_ahead(&self) -> bool {
        self.inner.reads_ahead()
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
        let mut counters =
            vec![("faults_failed", failed), ("faults_short", short), ("faults_delayed", delayed)];
        counters.extend(self.inner.counters());
        counters
    }
}

#[cfg(test)]
mod tests {
    use forebay_engine::store::Operation;
    use forebay_pool::{Pool, Share};
    use forebay_units::{Bytes, Nanos, Offset};

    use super::*;
    use crate::MemoryStore;

    struct Rig {
        store: Faulty<MemoryStore>,
        file: StoreFile,
        pool: Pool,
    }

    impl Rig {
        fn new(faults: &str) -> Self {
            let mut store = Faulty::new(MemoryStore::default(), faults.parse().unwrap());
            let file = open(&mut store).unwrap().file;
            Self { store, file, pool: Pool::new(Bytes::mib(2)).unwrap() }
        }

        fn start(&mut self, operation: Operation, lengths: &[usize], fill: u8) {
            let taken = lengths.iter().map(|&length| {
                let mut buffer = self.pool.try_take(Bytes(length as u64), Share::Dispatch).unwrap();
                buffer.fill(fill);
                buffer
            });
            let (files, buffers) = (vec![self.file], taken.collect());
            let io =
                Io { token: 77, files, operation, buffers, outcome: Ok(Bytes(0)), end: Offset(0) };
            self.store.start(Timestamp(1_000), io);
        }

        fn finished(&mut self, now: u64) -> Vec<Io> {
            let mut finished = Vec::new();
            self.store.take_finished(Timestamp(now), &mut finished);
            finished
        }

        fn run(&mut self, operation: Operation, lengths: &[usize], fill: u8) -> Io {
            self.start(operation, lengths, fill);
            let io = self.finished(1_000).pop().unwrap();
            assert_eq!((io.token, self.store.wake().deadline), (77, None));
            io
        }

        fn size(&mut self) -> u64 {
            self.store.attributes(self.file).unwrap().size.0
        }
    }

    fn open(store: &mut Faulty<MemoryStore>) -> Result<Opened, Errno> {
        store.open(OpenHow::Beneath { path: "a".into(), flags: 2 })
    }

    fn write() -> Operation {
        Operation::Write(Offset(0))
    }

    #[test]
    fn a_failed_call_never_reaches_the_store() {
        let mut rig = Rig::new("write:ENOSPC@1");
        assert_eq!(rig.run(write(), &[100], 1).outcome, Err(Errno::NOSPC));
        assert_eq!(rig.size(), 0);
        assert_eq!(rig.run(write(), &[100], 1).outcome, Ok(Bytes(100)));
        assert_eq!(rig.size(), 100);
        assert!(rig.store.counters().contains(&("faults_failed", 1)));
    }

    #[test]
    fn every_kind_of_call_can_fail() {
        let allocate = Operation::Allocate { mode: 0, offset: Offset(0), length: Bytes(1) };
        let advise = Operation::Advise { advice: 0, offset: Offset(0), length: Bytes(0) };
        for (name, operation) in [
            ("read", Operation::Read(Offset(0))),
            ("write", write()),
            ("append", Operation::Append),
            ("sync", Operation::Sync),
            ("data-sync", Operation::DataSync),
            ("truncate", Operation::Truncate(Bytes(0))),
            ("allocate", allocate),
            ("advise", advise),
        ] {
            let mut rig = Rig::new(&format!("{name}:EIO"));
            assert_eq!(rig.run(operation, &[10], 1).outcome, Err(Errno::IO), "{name}");
        }
        let mut rig = Rig::new("open:EMFILE@2,stat:EIO@1");
        assert_eq!(rig.store.attributes(rig.file), Err(Errno::IO));
        assert_eq!(open(&mut rig.store), Err(Errno::MFILE));
    }

    #[test]
    fn a_short_write_writes_what_it_reports_and_hands_all_buffers_back() {
        for seed in 0..50 {
            let mut rig = Rig::new(&format!("seed={seed},write:short"));
            let io = rig.run(write(), &[10, 20, 30], 1);
            let written = io.outcome.unwrap().0;
            assert!((1..60).contains(&written), "seed {seed}: {written}");
            assert_eq!(rig.size(), written);
            assert_eq!(
                io.buffers.iter().map(|buffer| buffer.len()).collect::<Vec<_>>(),
                [10, 20, 30]
            );
        }
    }

    #[test]
    fn a_short_read_fills_what_it_reports_and_no_more() {
        let mut rig = Rig::new("read:short,seed=3");
        rig.run(write(), &[60], 1);
        let io = rig.run(Operation::Read(Offset(0)), &[30, 30], 9);
        let bytes: Vec<u8> = io.buffers.iter().flat_map(|buffer| buffer.to_vec()).collect();
        let moved = io.outcome.unwrap().0 as usize;
        assert!((1..60).contains(&moved));
        assert!(bytes[..moved].iter().all(|&byte| byte == 1));
        assert!(bytes[moved..].iter().all(|&byte| byte == 9));
        // One byte cannot be made shorter without looking like the end of the file.
        assert_eq!(rig.run(Operation::Read(Offset(0)), &[1], 9).outcome, Ok(Bytes(1)));
    }

    #[test]
    fn a_delayed_call_is_kept_back_even_if_it_fails() {
        for (faults, outcome) in
            [("write:delay=5us", Ok(Bytes(10))), ("write:delay=5us,write:EIO", Err(Errno::IO))]
        {
            let mut rig = Rig::new(faults);
            rig.start(write(), &[10], 1);
            assert_eq!(rig.finished(1_000).len(), 0);
            assert_eq!(rig.store.wake().deadline, Some(Timestamp(1_000) + Nanos::micros(5)));
            assert_eq!(rig.finished(5_999).len(), 0);
            assert_eq!(rig.finished(6_000)[0].outcome, outcome);
        }
    }

    #[test]
    fn the_same_calls_have_the_same_faults() {
        let run = || {
            let mut rig = Rig::new("seed=11,write:EIO@20%,write:short@30%");
            (0..200).map(|_| rig.run(write(), &[500], 1).outcome).collect::<Vec<_>>()
        };
        let outcomes = run();
        assert_eq!(outcomes, run());
        assert!(outcomes.contains(&Err(Errno::IO)) && outcomes.contains(&Ok(Bytes(500))));
    }
}
