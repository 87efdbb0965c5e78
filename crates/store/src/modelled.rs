//! Any store as if it were on another device: its calls finish when a device model says so.
//!
//! A call goes to the wrapped store at once. What it would have taken on the device is computed
//! in virtual time ([`Device`]), and the finished call is kept until then. The time is absolute:
//! it follows from the end of the call before, so a timer that is late does not make the device
//! slower, and a device that is kept busy delivers exactly what its model says. This holds as
//! long as the wrapped store is the faster one; the counter `store_late` says how often it was not.
//!
//! The model stands for the bare device, with no cache of the operating system in front of it:
//! every byte read or written is charged, and there is nothing to be had without waiting
//! ([`Store::try_now`] declines). A sync waits until the device is idle; what only changes
//! metadata is not charged.

use forebay_device::{Device, Profile, TimeScale};
use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Operation, Store, StoreFile, Wake};
use forebay_units::{Bytes, Direction, Offset, Timestamp};
use rustix::io::Errno;

use crate::held::{Held, earlier};
use crate::placement::Placement;

/// A store behind a device model, in real time.
#[derive(Debug)]
pub struct Modelled<S> {
    inner: S,
    device: Device,
    time_scale: TimeScale,
    placement: Placement,
    /// With the device's own time of completion, for calls that it takes time for.
    held: Held<Option<Timestamp>>,
    returned: Vec<Io>,
    /// Real time by which calls were released after they were due.
    oversleep_ns: u64,
    /// Calls for which the wrapped store took longer than the device would have.
    store_late: u64,
}

impl<S: Store> Modelled<S> {
    /// `inner` as if on a device of `profile`.
    pub fn new(inner: S, profile: Profile, time_scale: TimeScale) -> Self {
        Self {
            inner,
            device: Device::new(profile),
            time_scale,
            placement: Placement::default(),
            held: Held::default(),
            returned: Vec::new(),
            oversleep_ns: 0,
            store_late: 0,
        }
    }

    /// When the call is finished on the device, in real time.
    fn completion(&mut self, now: Timestamp, io: &Io) -> Timestamp {
        let arrival = self.time_scale.to_virtual(now);
        let file = io.files[0];
        let length = Bytes(io.buffers.iter().map(|buffer| buffer.len() as u64).sum());
        let done = match io.operation {
            Operation::Read(offset) => {
                // What lies behind the end of the file is not on the device.
                let length = self
                    .size(file)
                    .map_or(length, |size| length.min(Bytes(size.0) - Bytes(offset.0)));
                self.transfer(arrival, Direction::Read, file, offset, length)
            }
            Operation::Write(offset) => {
                self.transfer(arrival, Direction::Write, file, offset, length)
            }
            Operation::Append => {
                let end = Offset(self.size(file).unwrap_or_default().0);
                self.transfer(arrival, Direction::Write, file, end, length)
            }
            Operation::Sync | Operation::DataSync => arrival.max(self.device.busy_until()),
            Operation::Truncate(_) | Operation::Allocate { .. } | Operation::Advise { .. } => {
                arrival
            }
        };
        self.time_scale.to_real(done)
    }

    fn transfer(
        &mut self,
        arrival: Timestamp,
        direction: Direction,
        file: StoreFile,
        offset: Offset,
        length: Bytes,
    ) -> Timestamp {
        let position = self.placement.start_of(file).wrapping_add(offset.0);
        self.device.serve(arrival, direction, position, length)
    }

    fn size(&mut self, file: StoreFile) -> Option<Bytes> {
        self.inner.attributes(file).ok().map(|attributes| attributes.size)
    }
}

impl<S: Store> Store for Modelled<S> {
    fn name(&self) -> String {
        format!("modelled({})", self.device.profile().name)
    }

    fn open(&mut self, how: OpenHow) -> Result<Opened, Errno> {
        let opened = self.inner.open(how)?;
        let inner = &mut self.inner;
        self.placement.open(opened, || inner.attributes(opened.file).unwrap_or_default().size);
        Ok(opened)
    }

    fn close(&mut self, file: StoreFile) {
        self.placement.close(file);
        self.inner.close(file);
    }

    fn attributes(&mut self, file: StoreFile) -> Result<Attributes, Errno> {
        self.inner.attributes(file)
    }

    fn start(&mut self, now: Timestamp, mut io: Io) {
        let due = self.completion(now, &io);
        self.held.mark(&mut io, due, (due > now).then_some(due));
        // What the wrapped store has at hand needs no detour: only the model shall take time.
        match self.inner.try_now(io) {
            Ok(io) => self.held.put_back(now, io),
            Err(io) => self.inner.start(now, io),
        }
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn take_finished(&mut self, now: Timestamp, finished: &mut Vec<Io>) {
        self.inner.take_finished(now, &mut self.returned);
        for io in self.returned.drain(..) {
            self.held.put_back(now, io);
        }
        while let Some(released) = self.held.release(now) {
            self.oversleep_ns += (now - released.due).0;
            self.store_late += u64::from(released.kept.is_some_and(|due| due < released.due));
            finished.push(released.io);
        }
    }

    fn wake(&self) -> Wake<'_> {
        let inner = self.inner.wake();
        Wake { deadline: earlier(inner.deadline, self.held.next_due()), ..inner }
    }

    /// One call for each disk or channel: a single disk serves in the order of arrival, so a
    /// second call in progress would only take it out of the scheduler's hands.
    fn depth_default(&self) -> usize {
        self.device.profile().members as usize
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let statistics = self.device.statistics();
        let mut counters = vec![
            ("device_requests", statistics.requests),
            ("device_bytes", statistics.bytes),
            ("seeks", statistics.seeks),
            ("sequential", statistics.sequential),
            ("busy_ns", statistics.busy_ns),
            ("oversleep_ns", self.oversleep_ns),
            ("store_late", self.store_late),
        ];
        counters.extend(self.inner.counters());
        counters
    }
}

#[cfg(test)]
mod tests {
    use forebay_pool::{Pool, Share};
    use forebay_units::Nanos;

    use super::*;
    use crate::{MemoryOptions, MemoryStore};

    const KIB_8: u64 = 8192;

    /// A modelled disk with one open file, and a clock that is moved by hand.
    struct Rig {
        store: Modelled<MemoryStore>,
        file: StoreFile,
        pool: Pool,
        now: Timestamp,
    }

    impl Rig {
        fn new(factor: f64) -> Self {
            let options = MemoryOptions { file_length: Bytes::mib(8), ..MemoryOptions::default() };
            let profile = Profile::by_name("hdd-57").unwrap();
            let mut store =
                Modelled::new(MemoryStore::new(options), profile, TimeScale::new(factor).unwrap());
            let file = open(&mut store, "a");
            Self { store, file, pool: Pool::new(Bytes::mib(4)).unwrap(), now: Timestamp(1_000) }
        }

        fn start(&mut self, token: u64, operation: Operation, length: u64) {
            let buffer = self.pool.try_take(Bytes(length.max(1)), Share::Dispatch).unwrap();
            let buffers = if length == 0 { vec![] } else { vec![buffer] };
            let files = vec![self.file];
            let io =
                Io { token, files, operation, buffers, outcome: Err(Errno::IO), end: Offset(0) };
            self.store.start(self.now, io);
        }

        /// What is finished now.
        fn finished(&mut self) -> Vec<Io> {
            let mut finished = Vec::new();
            self.store.take_finished(self.now, &mut finished);
            finished
        }

        /// Moves the clock to the next completion; how long that takes and the call's token.
        fn next(&mut self) -> (Nanos, u64) {
            assert_eq!(self.finished().len(), 0);
            let due = self.store.wake().deadline.unwrap();
            let took = due - self.now;
            self.now = Timestamp(due.0 - 1);
            assert_eq!(self.finished().len(), 0, "nothing is early");
            self.now = due;
            let finished = self.finished();
            assert_eq!(finished.len(), 1);
            (took, finished[0].token)
        }

        fn run(&mut self, operation: Operation, length: u64) -> Nanos {
            self.start(9, operation, length);
            let (took, token) = self.next();
            assert_eq!(token, 9);
            took
        }

        fn counter(&self, name: &str) -> u64 {
            self.store.counters().into_iter().find(|(known, _)| *known == name).unwrap().1
        }
    }

    fn open(store: &mut Modelled<MemoryStore>, name: &str) -> StoreFile {
        store.open(OpenHow::Beneath { path: name.into(), flags: 2 }).unwrap().file
    }

    fn read(offset: u64) -> Operation {
        Operation::Read(Offset(offset))
    }

    #[test]
    fn a_call_is_finished_when_the_device_would_be() {
        let mut rig = Rig::new(1.0);
        let seek = rig.run(read(4 << 20), KIB_8);
        assert!(seek > Nanos::millis(5) && seek < Nanos::millis(6), "{seek:?}");
        assert_eq!(rig.run(read((4 << 20) + KIB_8), KIB_8), Nanos(143_719));
        assert_eq!((rig.counter("seeks"), rig.counter("sequential")), (1, 1));
        assert_eq!(rig.counter("busy_ns"), seek.0 + 143_719);
        assert_eq!(rig.store.name(), "modelled(hdd-57)");
    }

    #[test]
    fn oversleep_is_counted_and_makes_nothing_slower() {
        let mut rig = Rig::new(1.0);
        rig.run(read(0), KIB_8);
        (1..=3).for_each(|idx| rig.start(idx, read(idx * KIB_8), KIB_8));
        let start = rig.now;
        assert_eq!(rig.next().1, 1);
        rig.now = rig.now + Nanos(50_000);
        rig.next();
        rig.next();
        assert_eq!(rig.now - start, Nanos(3 * 143_719));
        rig.start(4, read(4 * KIB_8), KIB_8);
        assert_eq!(rig.finished().len(), 0);
        rig.now = rig.store.wake().deadline.unwrap() + Nanos(700);
        assert_eq!(rig.finished().len(), 1);
        assert_eq!((rig.counter("oversleep_ns"), rig.counter("store_late")), (700, 0));
    }

    #[test]
    fn time_can_be_scaled() {
        let (mut one, mut tenth) = (Rig::new(1.0), Rig::new(0.1));
        let (slow, fast) = (one.run(read(1 << 20), KIB_8), tenth.run(read(1 << 20), KIB_8));
        assert!(fast.0.abs_diff(slow.0 / 10) < 10, "{slow:?} {fast:?}");
        assert_eq!(tenth.counter("busy_ns"), one.counter("busy_ns"));
    }

    #[test]
    fn a_sync_waits_for_the_device_and_metadata_for_nothing() {
        let mut rig = Rig::new(1.0);
        rig.start(1, Operation::Write(Offset(0)), KIB_8);
        rig.start(2, Operation::Sync, 0);
        rig.start(3, Operation::Truncate(Bytes(100)), 0);
        assert_eq!(rig.finished().iter().map(|io| io.token).collect::<Vec<_>>(), [3]);
        rig.now = rig.store.wake().deadline.unwrap();
        assert_eq!(rig.finished().len(), 2);
        rig.start(4, Operation::DataSync, 0);
        assert_eq!(rig.finished().len(), 1, "an idle device has nothing to flush");
        assert_eq!(rig.counter("store_late"), 0);
    }

    #[test]
    fn only_what_is_in_the_file_is_charged() {
        let mut rig = Rig::new(1.0);
        rig.start(1, read(8 << 20), KIB_8);
        assert_eq!(rig.finished()[0].outcome, Ok(Bytes(0)));
        rig.run(read((8 << 20) - 100), KIB_8);
        assert_eq!(rig.counter("device_bytes"), 100);
    }

    #[test]
    fn an_append_goes_on_where_the_file_ends() {
        let mut rig = Rig::new(1.0);
        rig.run(Operation::Write(Offset((8 << 20) - KIB_8)), KIB_8);
        assert_eq!(rig.run(Operation::Append, KIB_8), Nanos(143_719));
    }

    #[test]
    fn two_files_are_in_two_places() {
        let mut rig = Rig::new(1.0);
        let (first, second) = (rig.file, open(&mut rig.store, "b"));
        rig.run(read(0), KIB_8);
        rig.file = second;
        rig.run(read(KIB_8), KIB_8);
        rig.file = first;
        rig.run(read(KIB_8), KIB_8);
        assert_eq!(rig.counter("seeks"), 3);
    }
}
