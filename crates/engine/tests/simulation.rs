//! The engine by seed: clients that behave and clients that vanish, a store that finishes in any
//! order, comes up short and fails, and a pool much smaller than what is asked for.
//!
//! What must hold, whatever the seed: every call of a client that stays is answered exactly once;
//! what a client reads is what was written (its own region byte by byte, the shared region never
//! torn); at the end nothing is in flight and every byte of the pool is back. Each run is recorded,
//! and its trace leads a fresh scheduler to the same decisions. With every third seed the policy is
//! chosen, and pinned to others all the time.
//!
//! `FOREBAY_SEED=n cargo test -p forebay-engine` replays one seed; `FOREBAY_SEEDS=n` runs n of them.

use std::collections::HashMap;

use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Operation, Store, StoreFile, Wake};
use forebay_engine::{
    Action, CallKey, Engine, Event, FileKey, Options, Order, Origin, Ranges, Sink,
};
use forebay_pool::{Pool, PoolOptions};
use forebay_sched::policies::PolicyName;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::policy::Limits;
use forebay_sched::scheduler::SchedulerOptions;
use forebay_select::{Auto, AutoOptions, DeviceProfile, Leaf, Node, Part, Tree};
use forebay_trace::{Checker, Header, PolicyChoice, Reader, Recorder, RecorderOptions, Setup};
use forebay_units::{
    ByteRange, Bytes, ClassId, ClientId, Direction, FileId, Nanos, Offset, Timestamp,
};
use rustix::io::Errno;

const CLIENTS: usize = 6;
/// Each client has a region of its own; one more is shared by all, and in the last one the
/// clients' blocks are interleaved, so that batches span clients.
const REGION_BYTES: u64 = 3 << 20;
const BLOCK_BYTES: u64 = 24 << 10;
const BLOCKS: u64 = 8;

#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A file in memory that misbehaves where the contract allows it.
struct Chaos {
    random: Random,
    content: Vec<u8>,
    started: Vec<Io>,
    /// One call in so many fails, and one in so many moves less than asked; 0 for never.
    trouble: u64,
}

impl Store for Chaos {
    fn name(&self) -> String {
        "chaos".into()
    }
    fn open(&mut self, _how: OpenHow) -> Result<Opened, Errno> {
        Ok(Opened { file: StoreFile(0), id: FileId { device: 1, inode: 1, generation: 0 } })
    }
    fn close(&mut self, _file: StoreFile) {
        assert!(self.started.is_empty() || self.trouble < u64::MAX);
    }
    fn attributes(&mut self, _file: StoreFile) -> Result<Attributes, Errno> {
        Ok(Attributes { size: Bytes(self.content.len() as u64), ..Attributes::default() })
    }
    fn start(&mut self, _now: Timestamp, io: Io) {
        self.started.push(io);
    }
    fn take_finished(&mut self, _now: Timestamp, finished: &mut Vec<Io>) {
        while !self.started.is_empty() && !self.random.one_in(3) {
            let idx = self.random.below(self.started.len() as u64) as usize;
            let mut io = self.started.swap_remove(idx);
            self.carry_out(&mut io);
            finished.push(io);
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake { descriptor: None, deadline: None }
    }
    fn depth_default(&self) -> usize {
        3
    }
}

impl Chaos {
    fn carry_out(&mut self, io: &mut Io) {
        let has_trouble = self.trouble > 0 && self.random.one_in(self.trouble);
        if has_trouble && self.random.one_in(2) {
            io.outcome = Err(Errno::IO);
            return;
        }
        let asked: u64 = io.buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let mut left = if has_trouble && asked > 0 { self.random.below(asked) } else { asked };
        let mut at = match io.operation {
            Operation::Read(at) | Operation::Write(at) => at.0 as usize,
            Operation::Append => self.content.len(),
            _ => 0,
        };
        let mut moved = 0;
        for buffer in &mut io.buffers {
            let is_read = matches!(io.operation, Operation::Read(_));
            let room = if is_read { self.content.len().saturating_sub(at) } else { usize::MAX };
            let count = buffer.len().min(left as usize).min(room);
            if is_read {
                buffer[..count].copy_from_slice(&self.content[at..at + count]);
            } else {
                self.content.resize(self.content.len().max(at + count), 0);
                self.content[at..at + count].copy_from_slice(&buffer[..count]);
            }
            (at, moved, left) = (at + count, moved + count as u64, left - count as u64);
        }
        io.outcome = Ok(Bytes(moved));
        io.end = Offset(self.content.len() as u64);
    }
}

/// What a client has asked for and not been told.
struct Asked {
    client: usize,
    call: CallKey,
    action: Action,
    ranges: Vec<ByteRange>,
    /// What it wrote, or what it has been sent.
    bytes: Vec<u8>,
    place: Place,
    /// Payload that is on its way: where the next byte goes, and how many are left.
    payload: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Own,
    Shared,
    /// Which of the client's own interleaved blocks.
    Strided(u64),
}

impl Asked {
    /// What to take off a file offset to come to the place in what the client knows: its own
    /// region first, its interleaved blocks behind it.
    fn known_base(&self) -> u64 {
        match self.place {
            Place::Strided(block) => self.ranges[0].start.0 - REGION_BYTES - block * BLOCK_BYTES,
            _ => self.client as u64 * REGION_BYTES,
        }
    }
}

struct World {
    random: Random,
    engine: Engine,
    pool: Pool,
    /// What the scheduler was made with.
    setup: Setup,
    file: FileKey,
    asked: HashMap<u64, Asked>,
    /// What each client knows its region to hold; `None` where an error left it open.
    known: Vec<Vec<Option<u8>>>,
    next_tag: u64,
    now: Timestamp,
    trouble: u64,
    /// A client vanished in the middle of a write to the shared region.
    may_be_torn: bool,
    /// Whether policies are chosen, and pinned at random.
    is_auto: bool,
}

/// A selector that knows nothing.
fn auto() -> Auto {
    let leaf = Leaf { policy: PolicyName::To, log_speedups: Vec::new(), support: 0 };
    let device = DeviceProfile::of_model(|_, _, _| Nanos::millis(1));
    let tree = Tree::new(vec![Node::Leaf(leaf)]).expect("one leaf is a tree").into();
    let (stripe, wait_max) = (Bytes::kib(32), Nanos::ZERO);
    Auto::new(AutoOptions { device, tree, stripe, by_class: false, wait_max })
}

fn world(seed: u64, policy: PolicyName, trouble: u64) -> World {
    let mut random = Random(seed);
    let is_auto = seed % 3 == 2;
    let policy = if is_auto { auto().start() } else { policy };
    let content = vec![0; (CLIENTS as u64 + 2) as usize * REGION_BYTES as usize];
    let store = Chaos { random: Random(seed ^ 0xabcd), content, started: Vec::new(), trouble };
    let capacity = Bytes::kib(768 + random.below(2048));
    let options = PoolOptions { reserve: Some(Bytes::kib(256)), ..PoolOptions::new(capacity) };
    let pool = Pool::with_options(options).expect("a small pool");
    let options = SchedulerOptions {
        queue_requests_max: 4 + random.below(60) as usize,
        ..SchedulerOptions::default()
    };
    let hbrr_quantum = HbrrQuantum::Ranges(8);
    let setup = Setup { policy, options, limits: Limits::default(), hbrr_quantum, classes: None };
    let scheduler = setup.scheduler();
    let options = Options {
        depth: 1 + random.below(4) as usize,
        chunk_bytes: Bytes::kib(128),
        ..Options::default()
    };
    let mut engine = Engine::new(options, scheduler, Box::new(store), pool.clone());
    engine.record(Recorder::new(RecorderOptions::default(), 0));
    if is_auto {
        engine.select(auto(), setup.choice());
        let device = DeviceProfile::of_model(|_, _, _| Nanos::millis(1));
        engine.refine(&device, &[Direction::Read, Direction::Write]);
    }
    let (file, _) = engine.open(OpenHow::Beneath { path: "f".into(), flags: 0 }).expect("opens");
    let known = vec![vec![Some(0); (REGION_BYTES + BLOCKS * BLOCK_BYTES) as usize]; CLIENTS];
    let (asked, next_tag, now) = (HashMap::new(), 1, Timestamp(0));
    let may_be_torn = false;
    World {
        random,
        engine,
        pool,
        setup,
        file,
        asked,
        known,
        next_tag,
        now,
        trouble,
        may_be_torn,
        is_auto,
    }
}

impl World {
    fn ask(&mut self, client: usize, events: &mut Vec<Event>) {
        let place = match self.random.below(8) {
            0 | 1 => Place::Shared,
            2..=4 => Place::Strided(self.now.0 / 2_000_000 % BLOCKS),
            _ => Place::Own,
        };
        let is_shared = place == Place::Shared;
        let region = if is_shared { CLIENTS } else { client } as u64 * REGION_BYTES;
        let count =
            if self.random.one_in(5) && !is_shared { 1 + self.random.below(100) } else { 1 };
        let longest = if count > 1 {
            20_000
        } else {
            [4096, 100_000, 1_500_000][self.random.below(3) as usize]
        };
        let mut ranges = Vec::new();
        let mut at = 0;
        for _ in 0..count {
            let length = 1 + self.random.below(longest);
            let start = if count > 1 { at } else { self.random.below(REGION_BYTES - length) };
            at = start + length + self.random.below(5000);
            ranges.push(ByteRange::new(Offset(region + start), Bytes(length)));
        }
        if is_shared {
            // The whole shared region at once, so that a torn write shows.
            ranges = vec![ByteRange::new(Offset(region), Bytes(REGION_BYTES / 2))];
        }
        if let Place::Strided(block) = place {
            let start = (CLIENTS as u64 + 1) * REGION_BYTES
                + (block * CLIENTS as u64 + client as u64) * BLOCK_BYTES;
            ranges = vec![ByteRange::new(Offset(start), Bytes(BLOCK_BYTES))];
        }
        let action = match self.random.below(12) {
            0 => Action::Sync,
            1..=5 => Action::Read,
            _ => Action::Write,
        };
        if action == Action::Sync {
            ranges = vec![ByteRange::default()];
        }
        let total: u64 = ranges.iter().map(|range| range.length().0).sum();
        let eager = action == Action::Write && total <= 65_536 && self.random.one_in(2);
        let bytes = match action {
            Action::Write if is_shared => vec![self.random.next() as u8; total as usize],
            Action::Write => (0..total)
                .map(|i| (self.next_tag as u8).wrapping_mul(31).wrapping_add(i as u8))
                .collect(),
            _ => vec![0; total as usize],
        };
        let tag = self.next_tag;
        self.next_tag += 1;
        let order = Order {
            origin: Origin { connection: client as u64, tag },
            client: ClientId(client as u32),
            class: ClassId(0),
            file: self.file,
            action,
            ranges: if ranges.len() == 1 {
                Ranges::One(ranges[0])
            } else {
                Ranges::Many(ranges.clone())
            },
            eager,
        };
        let call = self.engine.submit(self.now, order, events).expect("the file is open");
        let payload = if eager { vec![(0, total)] } else { Vec::new() };
        self.asked.insert(tag, Asked { client, call, action, ranges, bytes, place, payload });
    }

    /// Moves some payload of some call on its way.
    fn send_payload(&mut self, events: &mut Vec<Event>) {
        let mut tags: Vec<_> =
            self.asked.iter().filter(|(_, a)| !a.payload.is_empty()).map(|(tag, _)| *tag).collect();
        tags.sort_unstable();
        for tag in tags {
            let asked = self.asked.get_mut(&tag).expect("just seen");
            let idx = self.random.below(asked.payload.len() as u64) as usize;
            let (at, left) = asked.payload[idx];
            let Sink::Into(room) = self.engine.sink(asked.call, at) else { continue };
            let count = room.len().min(left as usize).min(1 + self.random.below(200_000) as usize);
            room[..count].copy_from_slice(&asked.bytes[at as usize..at as usize + count]);
            self.engine.filled(self.now, asked.call, at, count, events);
            match left - count as u64 {
                0 => drop(asked.payload.swap_remove(idx)),
                left => asked.payload[idx] = (at + count as u64, left),
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Pull { origin, offset, length, .. } => {
                if let Some(asked) = self.asked.get_mut(&origin.tag) {
                    asked.payload.push((offset, length));
                }
            }
            Event::Resume { .. } => {}
            Event::Data { origin, part, offset, buffer } => {
                let asked = self.asked.get_mut(&origin.tag).expect("data only for those who wait");
                asked.bytes[offset as usize..][..buffer.len()].copy_from_slice(&buffer);
                drop(buffer);
                self.engine.sent(part);
            }
            Event::Done { origin, outcome, .. } => {
                let asked = self.asked.remove(&origin.tag).expect("answered once");
                assert!(asked.payload.is_empty(), "answered with payload on its way");
                self.check(asked, outcome);
            }
        }
    }

    fn check(&mut self, asked: Asked, outcome: Result<Bytes, Errno>) {
        if self.trouble == 0 {
            assert_eq!(outcome, Ok(Bytes(asked.bytes.len() as u64)));
        }
        let moved = outcome.map_or(0, |bytes| bytes.0 as usize);
        if asked.action == Action::Sync {
            return;
        }
        if asked.place == Place::Shared {
            if asked.action == Action::Read && self.trouble == 0 && !self.may_be_torn {
                let torn = asked.bytes.iter().position(|byte| *byte != asked.bytes[0]);
                assert_eq!(torn, None, "a read saw two writes");
            }
            return;
        }
        let base = asked.known_base();
        let mut at = 0;
        for range in &asked.ranges {
            for offset in range.start.0..range.end.0 {
                let known = &mut self.known[asked.client][(offset - base) as usize];
                match asked.action {
                    Action::Write => *known = (at < moved).then(|| asked.bytes[at]),
                    Action::Read if at < moved => {
                        assert!(
                            known.is_none_or(|byte| byte == asked.bytes[at]),
                            "client {}: byte {offset} ({at} of {moved} of {outcome:?} of {:?}) is {:?} and not {known:?}",
                            asked.client,
                            asked.ranges,
                            asked.bytes[at],
                        );
                    }
                    _ => {}
                }
                at += 1;
            }
        }
    }

    fn vanish(&mut self, client: usize, events: &mut Vec<Event>) {
        let mut tags: Vec<_> =
            self.asked.iter().filter(|(_, a)| a.client == client).map(|(tag, _)| *tag).collect();
        tags.sort_unstable();
        for tag in tags {
            let asked = self.asked.remove(&tag).expect("just seen");
            self.may_be_torn |= asked.action == Action::Write && asked.place == Place::Shared;
            if asked.action == Action::Write && asked.place != Place::Shared {
                // Whether it was written is open.
                for range in &asked.ranges {
                    let base = asked.known_base();
                    self.known[client]
                        [(range.start.0 - base) as usize..(range.end.0 - base) as usize]
                        .fill(None);
                }
            }
            self.engine.abandon(self.now, asked.call, events);
        }
        events.retain(|event| !matches!(event, Event::Data { origin, .. } | Event::Done { origin, .. } | Event::Pull { origin, .. } if origin.connection == client as u64));
    }

    fn step(&mut self, may_ask: bool) {
        let mut events = Vec::new();
        self.now = self.now + forebay_units::Nanos::micros(1 + self.random.below(300));
        for client in 0..CLIENTS {
            let is_quiet = !self.asked.values().any(|asked| asked.client == client);
            if may_ask && is_quiet && self.random.one_in(2) {
                self.ask(client, &mut events);
            }
        }
        self.send_payload(&mut events);
        if self.random.one_in(60) {
            let client = self.random.below(CLIENTS as u64) as usize;
            self.vanish(client, &mut events);
        }
        if self.is_auto && self.random.one_in(8) {
            let policy = PolicyName::ALL[self.random.below(8) as usize];
            let choice = PolicyChoice { policy, ..self.setup.choice() };
            self.engine.pin(Part::All, (!self.random.one_in(4)).then_some(choice));
        }
        self.engine.turn(self.now, &mut events);
        for event in events {
            self.take(event);
        }
    }

    fn is_quiet(&self) -> bool {
        self.asked.is_empty() && self.engine.calls_count() == 0
    }
}

fn run(seed: u64, trouble: u64) {
    let policy = PolicyName::ALL[seed as usize % PolicyName::ALL.len()];
    let mut world = world(seed, policy, trouble);
    for _ in 0..150 {
        world.step(true);
    }
    let mut left = 200_000;
    while !world.is_quiet() {
        world.step(false);
        left -= 1;
        assert!(left > 0, "{} calls hang under {policy}", world.engine.calls_count());
    }
    assert_eq!(world.pool.used_bytes(), Bytes::ZERO, "memory is lost");
    assert_eq!(world.engine.queued_and_in_flight(), (0, 0));
    let mut events = Vec::new();
    world.engine.close(world.file, None, &mut events);
    assert_eq!(world.engine.open_files_count(), 0);
    let scheduled = world.engine.scheduler_stats();
    assert_eq!(world.is_auto, scheduled.switches > 0, "{} switches", scheduled.switches);
    let decided = check_trace(&mut world);
    assert!(decided >= scheduled.submitted + scheduled.batches, "{decided} of {scheduled:?}");
}

/// Plays the recording to a fresh scheduler; how many decisions were the same.
fn check_trace(world: &mut World) -> u64 {
    let (blocks, totals) = world.engine.end_record().expect("it is recorded").finish();
    assert_eq!(totals.lost_events, 0);
    let mut trace = Header::default().to_bytes();
    blocks.for_each(|mut block| trace.extend(block.seal()));
    trace.extend(totals.to_bytes());
    let mut checker = Checker::new(world.setup.scheduler(), world.setup.policy_settings());
    for record in Reader::new(&trace).expect("it was just written") {
        let record = record.expect("it is whole");
        checker.check(&record).unwrap_or_else(|difference| panic!("{difference}"));
    }
    checker.decisions_count()
}

fn seeds() -> Box<dyn Iterator<Item = u64>> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("FOREBAY_SEED") {
        Some(seed) => Box::new(seed..seed + 1),
        None => Box::new(0..number("FOREBAY_SEEDS").unwrap_or(18)),
    }
}

fn for_each_seed(trouble: u64) {
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| run(seed, trouble));
        assert!(outcome.is_ok(), "replay with FOREBAY_SEED={seed} cargo test -p forebay-engine");
    }
}

#[test]
fn every_call_is_answered_and_every_byte_is_right() {
    for_each_seed(0);
}

#[test]
fn a_failing_store_hurts_only_those_whose_bytes_it_lost() {
    for_each_seed(5);
}
