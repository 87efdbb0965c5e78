//! Long writes beside each other: whatever way their chunks come in, the store gets one request
//! after the other.

use std::sync::{Arc, Mutex};

use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Operation, Store, StoreFile, Wake};
use forebay_engine::{Action, Engine, Event, Options, Order, Origin, Ranges, Sink};
use forebay_pool::Pool;
use forebay_sched::policies::{self, PolicyName, PolicySettings};
use forebay_sched::scheduler::{Scheduler, SchedulerOptions};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileId, Offset, Timestamp};
use rustix::io::Errno;

const CHUNK: u64 = 1 << 20;
const CHUNKS: u64 = 4;

/// Writes down where each call begins, and finishes one call a turn.
struct Recorder {
    started: Vec<Io>,
    offsets: Arc<Mutex<Vec<u64>>>,
}

impl Store for Recorder {
    fn name(&self) -> String {
        "recorder".into()
    }
    fn open(&mut self, _how: OpenHow) -> Result<Opened, Errno> {
        Ok(Opened { file: StoreFile(0), id: FileId::default() })
    }
    fn close(&mut self, _file: StoreFile) {}
    fn attributes(&mut self, _file: StoreFile) -> Result<Attributes, Errno> {
        Ok(Attributes::default())
    }
    fn start(&mut self, _now: Timestamp, mut io: Io) {
        let Operation::Write(offset) = io.operation else { panic!("only writes were asked for") };
        self.offsets.lock().expect("one thread").push(offset.0);
        io.outcome = Ok(Bytes(io.buffers.iter().map(|buffer| buffer.len() as u64).sum()));
        self.started.push(io);
    }
    fn take_finished(&mut self, now: Timestamp, finished: &mut Vec<Io>) {
        // Nothing is finished at the start of time, so that everything can arrive first.
        if now > Timestamp(0) {
            finished.append(&mut self.started);
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake { descriptor: None, deadline: None }
    }
    fn depth_default(&self) -> usize {
        1
    }
}

#[test]
fn chunks_of_several_writes_reach_the_store_request_by_request() {
    let offsets = Arc::new(Mutex::new(Vec::new()));
    let store = Recorder { started: Vec::new(), offsets: Arc::clone(&offsets) };
    let policy = policies::build(PolicyName::To, &PolicySettings::default());
    let scheduler = Scheduler::new(SchedulerOptions::default(), policy);
    let options = Options { depth: 1, ..Options::default() };
    let pool = Pool::new(Bytes::mib(64)).expect("a pool");
    let mut engine = Engine::new(options, scheduler, Box::new(store), pool);
    let (file, _) = engine.open(OpenHow::Beneath { path: "f".into(), flags: 0 }).expect("it opens");

    let mut events = Vec::new();
    for tag in 0..6 {
        let range = ByteRange::new(Offset(tag * CHUNKS * CHUNK), Bytes(CHUNKS * CHUNK));
        let order = Order {
            origin: Origin { connection: tag, tag },
            client: ClientId(tag as u32),
            class: ClassId(0),
            file,
            action: Action::Write,
            ranges: Ranges::One(range),
            eager: false,
        };
        engine.submit(Timestamp(0), order, &mut events).expect("the file is open");
    }
    engine.turn(Timestamp(0), &mut events);
    // The last chunks asked for come first.
    let mut pulls = std::mem::take(&mut events);
    assert_eq!(pulls.len() as u64, 6 * CHUNKS, "all that fit into memory are asked for at once");
    pulls.reverse();
    for event in pulls {
        let Event::Pull { call, offset, length, .. } = event else { panic!("{event:?}") };
        let Sink::Into(room) = engine.sink(call, offset) else { panic!("there is memory") };
        assert_eq!(room.len() as u64, length);
        engine.filled(Timestamp(0), call, offset, length as usize, &mut events);
    }
    let mut answered = 0;
    for now in 1..1000 {
        engine.turn(Timestamp(now), &mut events);
        for event in std::mem::take(&mut events) {
            match event {
                Event::Done { outcome, .. } => {
                    assert_eq!(outcome, Ok(Bytes(CHUNKS * CHUNK)));
                    answered += 1;
                }
                Event::Pull { call, offset, length, .. } => {
                    assert!(matches!(engine.sink(call, offset), Sink::Into(_)));
                    engine.filled(Timestamp(now), call, offset, length as usize, &mut events);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(answered, 6);
    let offsets = offsets.lock().expect("one thread");
    assert_eq!(offsets.len() as u64, 6 * CHUNKS);
    let jumps = offsets.windows(2).filter(|two| two[0] + CHUNK != two[1]).count();
    assert!(jumps < 6, "{jumps} jumps in {offsets:?}");
}
