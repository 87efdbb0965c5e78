//! A real file behind a disk model, driven as an engine drives it: by descriptor and deadline.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use forebay_device::Profile;
use forebay_engine::store::{Io, OpenHow, Operation, Store, StoreFile};
use forebay_pool::{Pool, Share};
use forebay_store::{Modelled, PosixOptions, PosixStore, TimeScale};
use forebay_units::{Bytes, Offset, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

const LENGTH: u64 = 8192;
const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    store: Modelled<PosixStore>,
    file: StoreFile,
    pool: Pool,
    began: Instant,
}

impl Rig {
    fn new(content: &[u8], factor: f64) -> Self {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::write(file.path(), content).unwrap();
        let inner = PosixStore::new(PosixOptions::default()).unwrap();
        let scale = TimeScale::new(factor).unwrap();
        let mut store = Modelled::new(inner, Profile::by_name("hdd-57").unwrap(), scale);
        let file = store.open(OpenHow::Descriptor(OwnedFd::from(file.into_file()))).unwrap().file;
        Self { store, file, pool: Pool::new(Bytes::mib(4)).unwrap(), began: Instant::now() }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.began.elapsed().as_nanos() as u64)
    }

    /// Reads at the offset and waits for it, through all the store's wakes.
    fn read(&mut self, offset: u64) -> Io {
        let buffers = vec![self.pool.try_take(Bytes(LENGTH), Share::Dispatch).unwrap()];
        let (files, operation) = (vec![self.file], Operation::Read(Offset(offset)));
        let io = Io {
            token: offset,
            files,
            operation,
            buffers,
            outcome: Err(Errno::IO),
            end: Offset(0),
        };
        self.store.start(self.now(), io);
        self.store.flush();
        let mut finished = Vec::new();
        while finished.is_empty() {
            assert!(self.began.elapsed() < PATIENCE, "still waiting for the read at {offset}");
            self.wait();
            self.store.take_finished(self.now(), &mut finished);
        }
        finished.pop().unwrap()
    }

    fn wait(&self) {
        let wake = self.store.wake();
        let until = wake.deadline.map_or(Duration::from_secs(1), |deadline| {
            Duration::from_nanos((deadline - self.now()).0)
        });
        let timeout = Timespec::try_from(until).unwrap();
        let descriptor = wake.descriptor.expect("a posix store has one");
        poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&timeout)).unwrap();
    }

    fn counter(&self, name: &str) -> u64 {
        self.store.counters().into_iter().find(|(known, _)| *known == name).unwrap().1
    }
}

#[test]
fn the_bytes_are_the_files_and_the_time_is_the_disks() {
    let content: Vec<u8> = (0..512 * LENGTH).map(|at| (at / LENGTH) as u8).collect();
    let mut rig = Rig::new(&content, 0.1);
    // Forward, then backward: only the first way is sequential.
    let sequential = (0..256).map(|idx| idx * LENGTH);
    let backwards = (256..288).rev().map(|idx| idx * LENGTH);
    let start = rig.now();
    for offset in sequential.chain(backwards) {
        let io = rig.read(offset);
        assert_eq!((io.token, io.outcome), (offset, Ok(Bytes(LENGTH))));
        assert!(io.buffers[0].iter().all(|&byte| byte == (offset / LENGTH) as u8));
    }
    let took = (rig.now() - start).0;
    assert_eq!((rig.counter("seeks"), rig.counter("sequential")), (33, 255));
    assert!(took >= rig.counter("busy_ns") / 10, "{took} ns");
}
