//! A selector beside the engine: when it is asked, and what it costs an engine that is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Store, StoreFile, Wake};
use forebay_engine::{Action, Engine, FileKey, Options, Order, Origin, Ranges};
use forebay_pool::Pool;
use forebay_sched::PolicyName;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::policy::Limits;
use forebay_sched::scheduler::SchedulerOptions;
use forebay_select::{Auto, AutoOptions, DeviceProfile, Feature, Leaf, Node, Part, Tree};
use forebay_trace::{Header, PolicyChoice, Reader, Recorder, RecorderOptions, Setup, Summary};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, Direction, FileId};
use forebay_units::{Nanos, Offset, Timestamp};
use rustix::io::Errno;

/// Finishes what it has once `until` has come, and `service` after it was started.
struct Slow {
    until: Timestamp,
    service: Nanos,
    reads_ahead: Arc<AtomicBool>,
    started: Vec<Io>,
}

impl Store for Slow {
    fn name(&self) -> String {
        "slow".into()
    }
    fn open(&mut self, _how: OpenHow) -> Result<Opened, Errno> {
        Ok(Opened { file: StoreFile(0), id: FileId::default() })
    }
    fn close(&mut self, _file: StoreFile) {}
    fn attributes(&mut self, _file: StoreFile) -> Result<Attributes, Errno> {
        Ok(Attributes::default())
    }
    fn start(&mut self, now: Timestamp, mut io: Io) {
        io.outcome = Ok(Bytes(8192));
        self.until = self.until.max(now + self.service);
        self.started.push(io);
    }
    fn reads_ahead(&self) -> bool {
        self.reads_ahead.load(Ordering::Relaxed)
    }
    fn take_finished(&mut self, now: Timestamp, finished: &mut Vec<Io>) {
        if now >= self.until {
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

const SECOND: Timestamp = Timestamp(1_000_000_000);

/// An engine whose store finishes nothing before a second has passed, and an open file.
fn engine(is_auto: bool) -> (Engine, FileKey, PolicyChoice) {
    let store = Slow {
        until: SECOND,
        service: Nanos::ZERO,
        reads_ahead: Arc::default(),
        started: Vec::new(),
    };
    engine_before(store, PolicyName::To, is_auto)
}

/// The tree knows of one policy.
fn engine_before(
    store: Slow,
    policy: PolicyName,
    is_auto: bool,
) -> (Engine, FileKey, PolicyChoice) {
    let leaf = Leaf { policy, log_speedups: vec![(policy, 0.5)], support: 9 };
    let auto = Auto::new(AutoOptions {
        device: DeviceProfile::of_model(|_, _, _| Nanos::millis(1)),
        tree: Tree::new(vec![Node::Leaf(leaf)]).expect("one leaf is a tree").into(),
        stripe: Bytes::kib(32),
        by_class: false,
        wait_max: Nanos::ZERO,
    });
    let setup = Setup {
        policy: auto.start(),
        options: SchedulerOptions::default(),
        limits: Limits::default(),
        hbrr_quantum: HbrrQuantum::Ranges(8),
        classes: None,
    };
    let pool = Pool::new(Bytes::mib(4)).expect("a pool");
    let options = Options { depth: 1, ..Options::default() };
    let mut engine = Engine::new(options, setup.scheduler(), Box::new(store), pool);
    if is_auto {
        engine.select(auto, setup.choice());
    }
    let (file, _) = engine.open(OpenHow::Beneath { path: "f".into(), flags: 0 }).expect("opens");
    (engine, file, setup.choice())
}

fn read(engine: &mut Engine, file: FileKey, tag: u64) {
    read_at(engine, Timestamp(0), file, tag, tag * 8192);
}

fn read_at(engine: &mut Engine, now: Timestamp, file: FileKey, tag: u64, offset: u64) {
    let order = Order {
        origin: Origin { connection: 0, tag },
        client: ClientId(0),
        class: ClassId(0),
        file,
        action: Action::Read,
        ranges: Ranges::One(ByteRange::new(Offset(offset), Bytes(8192))),
        eager: false,
    };
    engine.submit(now, order, &mut Vec::new()).expect("the file is open");
}

#[test]
fn it_is_asked_ten_times_a_second_while_there_is_something_to_do_and_then_no_more() {
    let (mut engine, file, _) = engine(true);
    engine.turn(Timestamp(0), &mut Vec::new());
    assert_eq!(engine.wake().deadline, None, "an idle engine sleeps");
    read(&mut engine, file, 0);
    let (mut now, mut looks) = (Timestamp(0), 0);
    loop {
        engine.turn(now, &mut Vec::new());
        let Some(deadline) = engine.wake().deadline else { break };
        assert!(deadline > now, "it would spin");
        (now, looks) = (deadline, looks + 1);
    }
    assert!((10..=12).contains(&looks), "{looks} in the second that the store took");
    assert!(now >= SECOND && engine.calls_count() == 0);
}

#[test]
fn a_policy_that_was_set_needs_no_looks() {
    let (mut engine, file, choice) = engine(false);
    read(&mut engine, file, 0);
    engine.turn(Timestamp(0), &mut Vec::new());
    assert_eq!(engine.wake().deadline, None);
    engine.pin(Part::All, Some(PolicyChoice { policy: PolicyName::Sjf, ..choice }));
    engine.turn(Timestamp(1), &mut Vec::new());
    assert_eq!(engine.policy_name(), "TO", "nothing chooses, so nothing is pinned");
    assert!(engine.selector().is_none());
}

#[test]
fn a_pin_takes_what_waits_along_and_goes_with_the_next_turn() {
    let (mut engine, file, choice) = engine(true);
    for tag in 0..20 {
        read(&mut engine, file, tag);
    }
    engine.turn(Timestamp(0), &mut Vec::new());
    let before = engine.queued_and_in_flight();
    engine.pin(Part::All, Some(PolicyChoice { policy: PolicyName::Hbrr, ..choice }));
    assert_eq!(engine.policy_name(), "TO");
    engine.turn(Timestamp(1), &mut Vec::new());
    assert_eq!((engine.policy_name(), engine.queued_and_in_flight()), ("HBRR", before));
    let mut events = Vec::new();
    let mut now = SECOND;
    while engine.calls_count() > 0 {
        engine.turn(now, &mut events);
        now = now + Nanos::millis(1);
    }
    let auto = engine.end_selection().expect("it chose");
    assert!(auto.why(now)[0].pinned == Some(PolicyName::Hbrr));
    assert!(engine.selector().is_none());
}

/// The policies that the scheduler was given, as a recording spells them.
fn given(engine: &mut Engine) -> Vec<String> {
    let (blocks, totals) = engine.end_record().expect("it is recorded").finish();
    let mut trace = Header::default().to_bytes();
    blocks.for_each(|mut block| trace.extend(block.seal()));
    trace.extend(totals.to_bytes());
    let summary = Summary::read(Reader::new(&trace).expect("it was just written"), 0);
    summary.changes.into_iter().map(|change| change.value).collect()
}

#[test]
fn a_pin_of_the_policy_in_force_with_another_quantum_is_carried_out() {
    let store = Slow {
        until: SECOND,
        service: Nanos::ZERO,
        reads_ahead: Arc::default(),
        started: Vec::new(),
    };
    let (mut engine, file, choice) = engine_before(store, PolicyName::Hbrr, true);
    engine.record(Recorder::new(RecorderOptions::default(), 0));
    read(&mut engine, file, 0);
    engine.turn(Timestamp(0), &mut Vec::new());
    assert_eq!(engine.policy_name(), "HBRR");
    let bytes = HbrrQuantum::Bytes(Bytes::mib(1));
    for at in 1..4 {
        // The same words again change nothing.
        engine.pin(Part::All, Some(PolicyChoice { hbrr_quantum: bytes, ..choice }));
        engine.turn(Timestamp(at), &mut Vec::new());
    }
    engine.pin(Part::All, Some(choice));
    engine.turn(Timestamp(4), &mut Vec::new());
    let given = given(&mut engine);
    assert_eq!(given.len(), 2, "{given:?}");
    assert!(given[0].contains("hbrr_bytes") && given[1].contains("hbrr_ranges"), "{given:?}");
}

#[test]
fn policies_that_are_built_otherwise_are_given_again_and_nothing_is_forgotten() {
    let (mut engine, file, choice) = engine(true);
    read(&mut engine, file, 0);
    engine.turn(Timestamp(0), &mut Vec::new());
    engine.pin(Part::All, Some(PolicyChoice { policy: PolicyName::Mlf, ..choice }));
    engine.turn(Timestamp(1), &mut Vec::new());
    let before = engine.selector().expect("it chooses").why(Timestamp(1)).remove(0);
    assert_eq!(before.switches.len(), 1);
    engine.record(Recorder::new(RecorderOptions::default(), 0));
    let limits = Limits { run_requests_max: 3, ..choice.limits };
    let base = PolicyChoice { limits, ..choice };
    engine.rebuild(Timestamp(2), base, Nanos::millis(1)).expect("there are no classes");
    engine.turn(Timestamp(3), &mut Vec::new());
    let after = engine.selector().expect("it still does").why(Timestamp(3)).remove(0);
    assert_eq!((engine.policy_name(), after.switches[0]), ("MLF", before.switches[0]));
    let given = given(&mut engine);
    assert!(given.len() == 2 && given[1].contains("MLF"), "{given:?}");
}

/// What a selector takes the device for after 700 reads anywhere that took 20 ms each.
fn ratio_after_reads(reads_ahead: bool) -> f64 {
    let service = Nanos::millis(20);
    let until = Timestamp(0);
    let reads_ahead = Arc::new(AtomicBool::new(reads_ahead));
    let store = Slow { until, service, reads_ahead, started: Vec::new() };
    let (mut engine, file, _) = engine_before(store, PolicyName::To, true);
    engine.refine(&DeviceProfile::of_model(|_, _, _| Nanos::millis(1)), &[Direction::Read]);
    let mut now = Timestamp(0);
    for tag in 0..700 {
        read_at(&mut engine, now, file, tag, (tag * 7919 % 1009) << 20);
        while engine.calls_count() > 0 {
            engine.turn(now, &mut Vec::new());
            now = now + service;
        }
    }
    let why = engine.selector().expect("it chooses").why(now).remove(0);
    why.features.expect("a pattern was seen").get(Feature::DeviceRatio)
}

#[test]
fn the_profile_follows_what_reads_take_but_not_while_the_store_reads_ahead() {
    let (ahead, alone) = (ratio_after_reads(true), ratio_after_reads(false));
    assert!((ahead - 1.0).abs() < 1e-6 && alone > 3.0, "{ahead}, {alone}");
}
