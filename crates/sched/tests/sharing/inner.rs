//! The outer level around real policies: how large aIOLi lets its batches grow, and over how many
//! files a class spreads, changes nothing in who gets what.

use std::collections::{BTreeMap, VecDeque};

use forebay_sched::policies::aioli::{AioliSettings, SynchronousWait};
use forebay_sched::sharing::{ClassShare, CostModel, Discipline, Share, SharingSettings, Tariff};
use forebay_sched::{
    Access, Batch, Bypass, ClassOptions, Decision, Limits, PolicyName, PolicySettings, Request,
    RequestId, Room, Scheduler, SchedulerOptions, build, source,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

use crate::bed::{Event, Random, Service, What, bytes_of, one_batch_each, unfairness};
use crate::sfq::settings;

/// What one class asks for: so many requests of that size wait at all times.
#[derive(Clone, Copy)]
struct Demand {
    requests: u64,
    bytes: u64,
    files: u64,
    access: Order,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Sequential,
    Random,
}

/// When it ends, whose it is, and its requests with what they move.
type Flying = (u64, usize, Vec<(RequestId, Bytes)>);

/// A closed loop around a scheduler: what ends is replaced by another request of its class.
struct Loop {
    scheduler: Scheduler,
    demands: Vec<Demand>,
    sent: Vec<u64>,
    random: Random,
    depth: usize,
    /// Nanoseconds to get to a batch that does not follow on the last.
    seek: u64,
    /// Time of the disk that each class has had.
    busy: Vec<u64>,
    /// A class whose completions claim to have moved more than was asked.
    boasts: Option<usize>,
}

impl Loop {
    fn new(scheduler: Scheduler, demands: Vec<Demand>, depth: usize) -> Self {
        let nothing = vec![0; demands.len()];
        Self {
            scheduler,
            sent: nothing.clone(),
            demands,
            random: Random(1),
            depth,
            seek: 0,
            busy: nothing,
            boasts: None,
        }
    }

    fn submit(&mut self, now: Timestamp, class: usize) {
        let Demand { bytes, files, access, .. } = self.demands[class];
        let number = self.sent[class];
        self.sent[class] += 1;
        let index = match access {
            Order::Sequential => number / files,
            Order::Random => self.random.between(0, 1 << 20) * 3,
        };
        let request = Request {
            tag: class as u64,
            file: FileIndex((class as u64 * 2_000 + number % files) as u32),
            access: Access::Read,
            range: ByteRange::new(Offset(index * bytes), Bytes(bytes)),
            client: ClientId(class as u32),
            class: ClassId(class as u32),
        };
        self.scheduler.submit(now, request, Room::Full).expect("the queue is long enough");
    }

    /// Dispatches `count` batches; a disk carries 57 MB/s.
    fn run(&mut self, count: usize) -> Vec<Event> {
        for class in 0..self.demands.len() {
            (0..self.demands[class].requests).for_each(|_| self.submit(Timestamp(0), class));
        }
        let start = (0..self.demands.len()).map(|class| Event { at: 0, class, what: What::Ready });
        let mut log: Vec<Event> = start.collect();
        let mut flying: VecDeque<Flying> = VecDeque::new();
        let (mut now, mut device_free) = (0u64, 0u64);
        let mut head = (FileIndex(u32::MAX), Offset(0));
        let mut batch = Batch::new();
        while log.len() < count {
            let mut ask_at = u64::MAX;
            while flying.len() < self.depth {
                match self.scheduler.next(Timestamp(now), &mut batch) {
                    Decision::Dispatch => {}
                    Decision::Wait { until } => {
                        ask_at = until.0;
                        break;
                    }
                    Decision::Idle => break,
                }
                let class = batch.members()[0].request.class.0 as usize;
                assert!(
                    batch.members().iter().all(|member| member.request.class.0 as usize == class)
                );
                let size = batch.range().length().0;
                log.push(Event { at: now, class, what: What::Dispatched(size) });
                let range = batch.range();
                let follows = core::mem::replace(&mut head, (batch.file(), range.end))
                    == (batch.file(), range.start);
                let time = if follows { 0 } else { self.seek } + size * 1_000 / 57;
                self.busy[class] += time;
                device_free = device_free.max(now) + time;
                let members =
                    batch.members().iter().map(|member| (member.id, member.request.range.length()));
                flying.push_back((device_free, class, members.collect()));
            }
            now = flying.front().map_or(ask_at, |(end, ..)| ask_at.min(*end));
            while flying.front().is_some_and(|(end, ..)| *end <= now) {
                let (_, class, members) = flying.pop_front().expect("just seen");
                for (id, length) in members {
                    let moved = if self.boasts == Some(class) { Bytes(1 << 62) } else { length };
                    self.scheduler.complete(Timestamp(now), id, moved).expect("it is in flight");
                    self.submit(Timestamp(now), class);
                }
            }
        }
        log
    }
}

fn options() -> SchedulerOptions {
    SchedulerOptions { bypass: Bypass::Never, large_bytes: None, ..SchedulerOptions::default() }
}

fn aioli(run_bytes_max: u64, waits: bool) -> PolicySettings {
    let limits = Limits {
        run_bytes_max: Bytes(run_bytes_max),
        run_requests_max: 1_024,
        batch_bytes_max: Bytes(4 * run_bytes_max),
        wait_max: if waits { Nanos::micros(900) } else { Nanos::ZERO },
    };
    let mut settings = PolicySettings::from(limits);
    if !waits {
        let synchronous_wait = SynchronousWait::Off;
        settings.aioli =
            AioliSettings { hold_max: Nanos::ZERO, synchronous_wait, ..AioliSettings::default() };
    }
    settings
}

fn shared(sharing: SharingSettings, weights: &[u64], policy: &PolicySettings) -> Scheduler {
    let classes = ClassOptions { sharing, ..ClassOptions::default() };
    let mut scheduler =
        Scheduler::with_classes(options(), classes, source(PolicyName::Aioli, policy));
    for (class, weight) in weights.iter().enumerate() {
        let share = Share { weight: *weight as u32, ..Share::default() };
        let share = ClassShare { share, ..ClassShare::default() };
        scheduler.configure_class(Timestamp(0), ClassId(class as u32), share).expect("in range");
    }
    scheduler
}

/// The largest batch of a class that left.
fn largest(log: &[Event], class: usize) -> u64 {
    let of_class = log.iter().filter(|event| event.class == class);
    of_class.map(|event| bytes_of(&[*event], class)).max().expect("something left")
}

const SEEK: u64 = 7_000_000;

const MERGING: Demand =
    Demand { requests: 1_024, bytes: 8_192, files: 2, access: Order::Sequential };
const SMALL: Demand = Demand { requests: 64, bytes: 4_096, files: 1, access: Order::Random };

#[test]
fn a_completion_that_claims_too_much_starves_nobody() {
    for discipline in [Discipline::Sfq, Discipline::Drr] {
        let scheduler = shared(settings(discipline), &[1, 1], &aioli(1 << 20, false));
        let mut closed = Loop::new(scheduler, vec![SMALL, SMALL], 4);
        closed.boasts = Some(1);
        let log = closed.run(1_000);
        let [honest, boasting] = [0, 1].map(|class| bytes_of(&log, class));
        assert!(honest.abs_diff(boasting) * 10 <= honest, "{discipline:?}: {honest} {boasting}");
    }
}

#[test]
fn how_far_a_quantum_grows_does_not_matter() {
    let mut sizes = BTreeMap::new();
    for discipline in [Discipline::Sfq, Discipline::Drr] {
        for run_bytes_max in [32 << 10, 256 << 10, 2 << 20] {
            for weights in [[3, 1], [1, 3]] {
                let sharing = settings(discipline);
                let scheduler = shared(sharing, &weights, &aioli(run_bytes_max, false));
                let log = Loop::new(scheduler, vec![MERGING, SMALL], 4).run(1_500);
                let max = [largest(&log, 0), largest(&log, 1)];
                let turn = match discipline {
                    Discipline::Drr => i128::from(sharing.quantum * weights[0] * weights[1]),
                    _ => 1,
                };
                let bound = one_batch_each(max, weights) + turn;
                let worst = unfairness(&log, [0, 1], weights, Service::Dispatched);
                assert!(worst <= bound, "{discipline:?} {run_bytes_max}: {worst} of {bound}");
                sizes.insert(run_bytes_max, max[0]);
            }
        }
    }
    let sizes: Vec<u64> = sizes.into_values().collect();
    assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2], "the batches do grow: {sizes:?}");
}

/// Seconds of the disk's time that each class had, and megabytes in all, when `count` batches had left.
fn on_a_disk(
    scheduler: Scheduler,
    demands: &[Demand],
    depth: usize,
    count: usize,
) -> (f64, f64, f64) {
    let mut work = Loop { seek: SEEK, ..Loop::new(scheduler, demands.to_vec(), depth) };
    let log = work.run(count);
    let bytes: u64 = (0..demands.len()).map(|class| bytes_of(&log, class)).sum();
    let busy: u64 = work.busy.iter().sum();
    (work.busy[0] as f64 / 1e9, work.busy[1] as f64 / 1e9, bytes as f64 * 1e3 / busy as f64)
}

/// As in the bench: small random requests and large sequential ones on a disk, aIOLi with its waits.
#[test]
fn small_random_and_large_sequential_requests_share_a_disk_as_their_weights_say() {
    let disk = CostModel::both(Tariff { per_batch: SEEK, per_request: 0, per_mib: 18_396_070 });
    let sharing = SharingSettings { cost: disk, quantum: 100_000_000, ..settings(Discipline::Sfq) };
    let large = Demand { requests: 8, bytes: 1 << 20, files: 1, access: Order::Sequential };
    let demands = [SMALL, large];
    for depth in [1, 4] {
        let fifo = Scheduler::new(options(), build(PolicyName::To, &aioli(1 << 20, false)));
        let (.., fifo) = on_a_disk(fifo, &demands, depth, 2_000);
        for weights in [[3, 1], [1, 1], [1, 3]] {
            let scheduler = shared(sharing, &weights, &aioli(1 << 20, true));
            let (small, large, rate) = on_a_disk(scheduler, &demands, depth, 2_000);
            let off = small / large * weights[1] as f64 / weights[0] as f64;
            assert!((0.95..=1.05).contains(&off), "depth {depth}, {weights:?}: {off}");
            assert!(rate >= 0.9 * fifo, "depth {depth}, {weights:?}: {rate} of {fifo} MB/s");
        }
    }
}

#[test]
fn a_thousand_files_get_no_more_than_one() {
    let many = Demand { requests: 4_000, bytes: 65_536, files: 1_000, access: Order::Sequential };
    let one = Demand { requests: 64, bytes: 65_536, files: 1, access: Order::Sequential };
    let ratio = |scheduler| {
        let log = Loop::new(scheduler, vec![many, one], 4).run(6_000);
        bytes_of(&log, 0) as f64 / bytes_of(&log, 1) as f64
    };
    let policy = aioli(1 << 20, false);
    for discipline in [Discipline::Sfq, Discipline::Drr] {
        let shared = ratio(shared(settings(discipline), &[1, 1], &policy));
        assert!((0.95..=1.05).contains(&shared), "{discipline:?}: {shared}");
    }
    let alone = ratio(Scheduler::new(options(), build(PolicyName::Aioli, &policy)));
    assert!(alone > 10.0, "what the classes are for: {alone}");
}
