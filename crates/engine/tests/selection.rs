//! A selector beside the engine: when it is asked, and what it costs an engine that is idle.

use forebay_engine::store::{Attributes, Io, OpenHow, Opened, Store, StoreFile, Wake};
use forebay_engine::{Action, Engine, FileKey, Options, Order, Origin, Ranges};
use forebay_pool::Pool;
use forebay_sched::PolicyName;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::policy::Limits;
use forebay_sched::scheduler::SchedulerOptions;
use forebay_select::{Auto, AutoOptions, DeviceProfile, Leaf, Node, Part, Tree};
use forebay_trace::{PolicyChoice, Setup};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileId, Nanos, Offset, Timestamp};
use rustix::io::Errno;

/// Finishes what it has once `until` has come.
struct Slow {
    until: Timestamp,
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
    fn start(&mut self, _now: Timestamp, io: Io) {
        self.started.push(io);
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
    let leaf = Leaf { policy: PolicyName::To, log_speedups: Vec::new(), support: 0 };
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
    let store = Box::new(Slow { until: SECOND, started: Vec::new() });
    let pool = Pool::new(Bytes::mib(4)).expect("a pool");
    let options = Options { depth: 1, ..Options::default() };
    let mut engine = Engine::new(options, setup.scheduler(), store, pool);
    if is_auto {
        engine.select(auto, setup.choice());
    }
    let (file, _) = engine.open(OpenHow::Beneath { path: "f".into(), flags: 0 }).expect("opens");
    (engine, file, setup.choice())
}

fn read(engine: &mut Engine, file: FileKey, tag: u64) {
    let order = Order {
        origin: Origin { connection: 0, tag },
        client: ClientId(0),
        class: ClassId(0),
        file,
        action: Action::Read,
        ranges: Ranges::One(ByteRange::new(Offset(tag * 8192), Bytes(8192))),
        eager: false,
    };
    engine.submit(Timestamp(0), order, &mut Vec::new()).expect("the file is open");
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
