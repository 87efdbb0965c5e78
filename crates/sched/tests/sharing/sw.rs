//! SW: by window of arrival, then by class, whatever the classes' policies do.

use std::collections::{BTreeMap, BTreeSet};

use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, Pick, Rate, Share, Shares, SharingSettings, SwSettings,
};
use forebay_sched::{
    Access, Batch, Bypass, Cancellation, ClassOptions, Decision, Limits, PolicyName,
    PolicySettings, Request, RequestId, Room, Scheduler, SchedulerOptions, source,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};
use proptest::prelude::*;

use crate::bed::{Random, read};
use crate::sfq::settings;

const WINDOW: Nanos = Nanos(100_000);
const START: Timestamp = Timestamp(30_000);
const WORK_CONSERVING: SwSettings = SwSettings { window: WINDOW, start: START, is_strict: false };
const STRICT: SwSettings = SwSettings { is_strict: true, ..WORK_CONSERVING };

/// Where a request stands: its window, its class.
type Key = (u64, u32);

/// What left: when, and where it stood.
type Log = Vec<(Timestamp, Key, u64)>;

/// Random requests of several classes before a scheduler, and what must hold of each decision.
struct World {
    scheduler: Scheduler,
    windows: Option<SwSettings>,
    random: Random,
    /// Whether some write, so that others have to wait for them.
    has_conflicts: bool,
    now: Timestamp,
    sent: u64,
    /// What may go: where it stands, by what it was numbered.
    waiting: BTreeMap<u64, (Key, RequestId)>,
    blocked: usize,
    flying: Vec<(RequestId, Bytes)>,
    log: Log,
}

fn scheduler(policy: PolicyName, discipline: Discipline) -> Scheduler {
    let limits = Limits { wait_max: Nanos::ZERO, ..Limits::default() };
    let options = SchedulerOptions {
        large_bytes: Some(Bytes::kib(24)),
        bypass: Bypass::WhenIdle,
        ..SchedulerOptions::default()
    };
    let sharing = SharingSettings { discipline, ..SharingSettings::default() };
    let classes = ClassOptions { sharing, ..ClassOptions::default() };
    Scheduler::with_classes(options, classes, source(policy, &PolicySettings::from(limits)))
}

impl World {
    fn new(policy: PolicyName, windows: SwSettings, seed: u64) -> Self {
        Self {
            scheduler: scheduler(policy, Discipline::Sw(windows)),
            windows: Some(windows),
            random: Random(seed),
            has_conflicts: false,
            now: Timestamp(0),
            sent: 0,
            waiting: BTreeMap::new(),
            blocked: 0,
            flying: Vec::new(),
            log: Vec::new(),
        }
    }

    fn key(&self, arrived: Timestamp, class: ClassId) -> Key {
        (WORK_CONSERVING.window_of(arrived), class.0)
    }

    fn submit(&mut self) {
        let blocks = [1, 1, 2, 4, 8][self.random.between(0, 4) as usize];
        let class = ClassId(self.random.between(0, 3) as u32 * 5);
        let start = self.random.between(0, 60);
        let request = Request {
            tag: self.sent,
            file: FileIndex(self.random.between(0, 2) as u32),
            access: match self.random.between(0, 15) {
                0 => Access::Sync,
                1..8 if self.has_conflicts => Access::Write,
                _ => Access::Read,
            },
            range: ByteRange::new(Offset(start * 4096), Bytes(blocks * 4096)),
            client: ClientId(0),
            class,
        };
        let room = if self.flying.len() < 3 { Room::Free } else { Room::Full };
        let admission = self.scheduler.submit(self.now, request, room).expect("there is room");
        let key = self.key(self.now, class);
        match admission {
            forebay_sched::Admission::Queued(id) => _ = self.waiting.insert(self.sent, (key, id)),
            forebay_sched::Admission::Bypassed(accepted) => {
                let waits = self.windows.is_some_and(|windows| windows.is_strict);
                assert!(!waits, "the window that it came in is on");
                assert!(self.waiting.is_empty());
                self.flying.push((accepted.id, request.range.length()));
            }
            forebay_sched::Admission::Blocked(_) => {
                assert!(self.has_conflicts, "reads do not conflict");
                self.blocked += 1;
            }
        }
        self.sent += 1;
    }

    fn ask(&mut self) -> Decision {
        let mut batch = Batch::new();
        let decision = self.scheduler.next(self.now, &mut batch);
        let first = self.waiting.values().map(|(key, _)| *key).min();
        match decision {
            Decision::Idle => assert!(self.waiting.is_empty(), "idle with {:?}", self.waiting),
            Decision::Wait { until } => {
                let windows = self.windows.expect("nothing else waits");
                assert!(windows.is_strict, "whatever is there goes");
                let (window, _) = first.expect("something waits");
                assert_eq!(until, windows.end_of(window), "the end of the earliest window");
                assert!(until > self.now);
            }
            Decision::Dispatch => {
                for member in batch.members() {
                    let key = self.key(member.arrived, member.request.class);
                    if let Some(windows) = self.windows {
                        assert_eq!(Some(key), first, "not its turn at {:?}", self.now);
                        let end = windows.end_of(key.0);
                        assert!(!windows.is_strict || self.now >= end, "{key:?} is not over");
                    }
                    let waited = self.waiting.remove(&member.request.tag);
                    assert_eq!(waited.map(|(_, id)| id), Some(member.id), "it leaves once");
                    self.flying.push((member.id, member.request.range.length()));
                    self.log.push((self.now, key, member.request.tag));
                }
            }
        }
        decision
    }

    fn step(&mut self) {
        match self.random.between(0, 9) {
            0..4 => self.submit(),
            4..6 => self.now = self.now + Nanos(self.random.between(0, 60_000)),
            6 if !self.waiting.is_empty() => {
                let nth = self.random.between(0, self.waiting.len() as u64 - 1) as usize;
                let (tag, (_, id)) = self.waiting.iter().nth(nth).map(|(t, w)| (*t, *w)).unwrap();
                assert_eq!(self.scheduler.cancel(self.now, id), Cancellation::Cancelled);
                self.waiting.remove(&tag);
                self.note_ready();
            }
            7 => self.complete(),
            _ => _ = self.ask(),
        }
        let queued = self.waiting.len() + self.blocked;
        assert_eq!(self.scheduler.queued_count(), queued, "nothing is lost");
    }

    fn note_ready(&mut self) {
        for accepted in self.scheduler.made_ready() {
            let key = self.key(accepted.arrived, accepted.request.class);
            self.waiting.insert(accepted.request.tag, (key, accepted.id));
            self.blocked -= 1;
        }
    }

    fn complete(&mut self) {
        if let Some((id, bytes)) = self.flying.pop() {
            assert!(self.scheduler.complete(self.now, id, bytes).is_some());
            self.note_ready();
        }
    }

    /// Serves all that waits; a wait is never for the same moment twice.
    fn run_dry(&mut self) {
        let mut waits = BTreeSet::new();
        loop {
            match self.ask() {
                Decision::Dispatch => {}
                Decision::Wait { until } => {
                    assert!(waits.insert(until), "twice until {until:?}");
                    self.now = until;
                }
                Decision::Idle if self.flying.is_empty() => break,
                Decision::Idle => {}
            }
            self.complete();
        }
        assert_eq!(self.scheduler.queued_count(), 0);
    }
}

fn policies() -> impl Strategy<Value = PolicyName> {
    prop::sample::select(PolicyName::ALL.to_vec())
}

fn run(policy: PolicyName, windows: SwSettings, has_conflicts: bool, seed: u64) -> Log {
    let mut world = World { has_conflicts, ..World::new(policy, windows, seed) };
    (0..300).for_each(|_| world.step());
    world.run_dry();
    world.log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn what_is_there_leaves_at_once_by_window_and_class(
        policy in policies(), has_conflicts: bool, seed: u64,
    ) {
        run(policy, WORK_CONSERVING, has_conflicts, seed);
    }

    #[test]
    fn strict_windows_hold_also_for_what_a_conflict_has_held_back(
        policy in policies(), seed: u64,
    ) {
        run(policy, STRICT, true, seed);
    }

    #[test]
    fn strict_nothing_leaves_in_its_window_and_no_two_in_the_wrong_order(
        policy in policies(), seed: u64,
    ) {
        let log = run(policy, STRICT, false, seed);
        // Nothing comes that goes before what has left: over all time they are in order. So a
        // request waits only for those that came before the end of its own window.
        prop_assert!(log.is_sorted_by_key(|(_, key, _)| *key), "{log:?}");
    }

    #[test]
    fn the_same_calls_are_answered_the_same(policy in policies(), seed: u64, is_strict: bool) {
        let windows = SwSettings { is_strict, ..WORK_CONSERVING };
        prop_assert_eq!(run(policy, windows, true, seed), run(policy, windows, true, seed));
    }

    #[test]
    fn two_servers_serve_what_both_have_in_the_same_order(seed: u64, policy in policies()) {
        // The same requests reach both, each at its own pace, within the same windows.
        let order = |delay: u64| {
            let mut scheduler = scheduler(policy, Discipline::Sw(STRICT));
            let mut random = Random(seed);
            let mut comes: Vec<(u64, u32)> = (0..60)
                .map(|_| {
                    let window = random.between(0, 3) * WINDOW.0 + START.0;
                    let jitter = (random.between(0, WINDOW.0 - 1) * delay) % WINDOW.0;
                    (window + jitter, random.between(0, 4) as u32)
                })
                .collect();
            comes.sort_unstable();
            for (number, (at, class)) in comes.iter().enumerate() {
                let request = Request {
                    tag: number as u64,
                    file: FileIndex(*class),
                    access: Access::Read,
                    range: ByteRange::new(Offset(number as u64 * 8192), Bytes(4096)),
                    client: ClientId(0),
                    class: ClassId(*class),
                };
                scheduler.submit(Timestamp(*at), request, Room::Free).expect("there is room");
            }
            let (mut batch, mut served) = (Batch::new(), Vec::new());
            let mut now = Timestamp(comes.last().map_or(0, |(at, _)| *at));
            while scheduler.queued_count() > 0 {
                match scheduler.next(now, &mut batch) {
                    Decision::Dispatch => {
                        served.extend(batch.members().iter().map(|member| {
                            (STRICT.window_of(member.arrived), member.request.class.0)
                        }));
                    }
                    Decision::Wait { until } => now = until,
                    Decision::Idle => break,
                }
            }
            served
        };
        prop_assert_eq!(order(1), order(7));
    }

    #[test]
    fn a_switch_of_the_windows_loses_nothing(policy in policies(), seed: u64) {
        let mut world = World { has_conflicts: true, ..World::new(policy, STRICT, seed) };
        for _ in 0..8 {
            (0..40).for_each(|_| world.step());
            let all = [None, Some(WORK_CONSERVING), Some(STRICT)];
            world.windows = all[world.random.between(0, 2) as usize];
            let discipline = world.windows.map_or(Discipline::Drr, Discipline::Sw);
            world.scheduler.switch_sharing(world.now, settings(discipline)).expect("it shares");
        }
        world.run_dry();
    }
}

fn limited(per_second: u64, at_limit: AtLimit) -> ClassShare {
    let ops = Some(Rate { per_second, burst: 0 });
    ClassShare { share: Share { ops, at_limit, ..Share::default() }, ..ClassShare::default() }
}

/// Two classes that came in the window before, class 0 behind a limit of 1,000 requests a second.
fn behind_a_limit(windows: SwSettings, at_limit: AtLimit) -> (Shares, Timestamp) {
    let mut shares = Shares::new(settings(Discipline::Sw(windows)));
    shares.configure(START, ClassId(0), limited(1_000, at_limit)).expect("it is in range");
    [0, 1].into_iter().for_each(|class| shares.ready(START, ClassId(class)));
    let now = windows.end_of(0);
    assert_eq!(shares.pick(now), Pick::Class(ClassId(0)));
    shares.charge(now, ClassId(0), read(4096));
    assert_eq!(shares.pick(now), Pick::Class(ClassId(1)), "a limit lets the next class go");
    shares.charge(now, ClassId(1), read(4096));
    shares.empty(now, ClassId(1));
    (shares, now)
}

#[test]
fn a_limit_holds_and_lends_only_where_windows_are_not_strict() {
    for (windows, at_limit, goes) in [
        (WORK_CONSERVING, AtLimit::Borrow, true),
        (WORK_CONSERVING, AtLimit::Wait, false),
        (STRICT, AtLimit::Borrow, false),
        (STRICT, AtLimit::Wait, false),
    ] {
        let (mut shares, now) = behind_a_limit(windows, at_limit);
        let free = now + Nanos::millis(1);
        assert_eq!(shares.pick(now), Pick::Wait { until: free }, "two are in flight");
        [0, 1].into_iter().for_each(|class| shares.complete(now, ClassId(class), 1));
        let expected = if goes { Pick::Class(ClassId(0)) } else { Pick::Wait { until: free } };
        assert_eq!(shares.pick(now), expected, "{windows:?} {at_limit:?}");
        assert_eq!(shares.pick(free), Pick::Class(ClassId(0)));
    }
}

#[test]
fn weights_groups_and_reservations_are_not_looked_at() {
    use forebay_sched::sharing::GroupId;
    let mut shares = Shares::new(settings(Discipline::Sw(WORK_CONSERVING)));
    let hard =
        Share { ops: Some(Rate { per_second: 1, burst: 0 }), ..limited(1, AtLimit::Wait).share };
    shares.configure_group(START, GroupId(1), hard).expect("it is in range");
    let heavy = ClassShare {
        share: Share { weight: 100, ..Share::default() },
        reservation: 1 << 30,
        group: Some(GroupId(1)),
    };
    shares.configure(START, ClassId(7), heavy).expect("it is in range");
    [7, 3].into_iter().for_each(|class| shares.ready(START, ClassId(class)));
    for _ in 0..5 {
        assert_eq!(shares.pick(START), Pick::Class(ClassId(3)));
        shares.charge(START, ClassId(3), read(1 << 20));
    }
    shares.empty(START, ClassId(3));
    for _ in 0..5 {
        assert_eq!(shares.pick(START), Pick::Class(ClassId(7)));
        shares.charge(START, ClassId(7), read(1 << 20));
    }
}

#[test]
fn the_wait_ends_with_the_window_and_nothing_steps_around_it() {
    let mut shares = Shares::new(settings(Discipline::Sw(STRICT)));
    assert!(!shares.admits(START, ClassId(3)), "the window that is on is not over");
    shares.ready(START, ClassId(3));
    assert_eq!(shares.pick(START), Pick::Wait { until: START + WINDOW });
    shares.ready(START + WINDOW, ClassId(2));
    assert_eq!(shares.pick(START + WINDOW), Pick::Class(ClassId(3)), "it came a window earlier");
    // Its oldest has left: the next came just now.
    shares.front(ClassId(3), START + WINDOW);
    let end = START + Nanos(2 * WINDOW.0);
    assert_eq!(shares.pick(START + WINDOW), Pick::Wait { until: end });
    assert_eq!(shares.pick(end), Pick::Class(ClassId(2)));
}

#[test]
fn a_name_is_read_as_it_is_written() {
    for discipline in Discipline::ALL {
        let text = discipline.to_string();
        assert_eq!(text.parse(), Ok(discipline));
        assert_eq!(text.to_uppercase().parse(), Ok(discipline));
    }
    let error = "lifo".parse::<Discipline>().unwrap_err().to_string();
    assert_eq!(error, "unknown discipline; one of sfq, drr, twins, sw");
}
