//! What programs see: batches run on byte arrays, completing in random order and torn in the
//! middle, give every read the bytes that arrival order says, under every policy.
//!
//! The same check must fail without the guard, or it would prove nothing.

mod support;

use forebay_sched::sharing::{AtLimit, ClassShare, Rate, Share};
use forebay_sched::{
    Accepted, Access, Admission, Batch, Cancellation, ClassOptions, Decision, GuardMode,
    PolicyName, PolicySettings, Request, Room, Scheduler, SchedulerOptions, build, source,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};
use support::Random;

const FILES: usize = 2;
const FILE_BYTES: usize = 256;
const REQUESTS: usize = 300;
const CLASSES: u32 = 4;

/// The content of all files; a byte is the number of the write that last wrote it.
type Content = [[u32; FILE_BYTES]; FILES];

/// A request and what it did.
struct Done {
    request: Request,
    is_cancelled: bool,
    /// What a read saw.
    seen: Vec<u32>,
    /// For a sync: whether every earlier write was over when it completed.
    was_covered: bool,
}

struct Flight {
    accepted: Accepted,
    /// The first half of its bytes has moved.
    is_torn: bool,
}

struct Run {
    scheduler: Scheduler,
    random: Random,
    now: Timestamp,
    content: Content,
    done: Vec<Done>,
    ids: Vec<forebay_sched::RequestId>,
    over: Vec<bool>,
    flights: Vec<Flight>,
}

fn bytes_of(request: &Request) -> std::ops::Range<usize> {
    request.range.start.0 as usize..(request.range.end.0 as usize).min(FILE_BYTES)
}

fn is_write(request: &Request) -> bool {
    matches!(request.access, Access::Write | Access::Alone)
}

impl Run {
    fn new(policy: PolicyName, guard: GuardMode, seed: u64) -> Self {
        let options =
            SchedulerOptions { guard, large_bytes: Some(Bytes(40)), ..SchedulerOptions::default() };
        let scheduler = Scheduler::new(options, build(policy, &PolicySettings::default()));
        Self::of(scheduler, seed)
    }

    /// Classes share: one is nearly always behind its limit, the others have different weights.
    fn with_classes(policy: PolicyName, guard: GuardMode, seed: u64) -> Self {
        let options =
            SchedulerOptions { guard, large_bytes: Some(Bytes(40)), ..SchedulerOptions::default() };
        let source = source(policy, &PolicySettings::default());
        let mut scheduler = Scheduler::with_classes(options, ClassOptions::default(), source);
        let limit = Rate { per_second: 1_000_000, burst: 100 };
        for class in 0..CLASSES {
            let bytes = (class == 0).then_some(limit);
            let weight = 1 + class;
            let share = Share { weight, bytes, at_limit: AtLimit::Wait, ..Share::default() };
            let share = ClassShare { share, ..ClassShare::default() };
            scheduler.configure_class(Timestamp(0), ClassId(class), share).expect("it is possible");
        }
        Self::of(scheduler, seed)
    }

    fn of(scheduler: Scheduler, seed: u64) -> Self {
        Self {
            scheduler,
            random: Random(seed),
            now: Timestamp(0),
            content: [[u32::MAX; FILE_BYTES]; FILES],
            done: Vec::new(),
            ids: Vec::new(),
            over: Vec::new(),
            flights: Vec::new(),
        }
    }

    fn run(&mut self, policy: PolicyName) -> Vec<String> {
        while self.done.len() < REQUESTS {
            match self.random.between(0, 15) {
                0..=5 => self.submit(),
                6..=9 => _ = self.dispatch(),
                10..=13 => self.progress(),
                14 => self.cancel(),
                _ => self.switch(policy),
            }
        }
        while !self.flights.is_empty() || self.dispatch() {
            self.progress();
            self.dispatch();
        }
        assert_eq!(self.scheduler.queued_count(), 0);
        self.violations()
    }

    fn switch(&mut self, policy: PolicyName) {
        let settings = PolicySettings::default();
        if self.scheduler.has_classes() {
            let class = ClassId(self.random.between(0, u64::from(CLASSES) - 1) as u32);
            let switched =
                self.scheduler.switch_class_policy(self.now, class, build(policy, &settings));
            assert!(switched.is_ok());
        } else {
            self.scheduler.switch_policy(self.now, build(policy, &settings));
        }
    }

    fn submit(&mut self) {
        let access = match self.random.between(0, 19) {
            0..=8 => Access::Read,
            9..=17 => Access::Write,
            18 => Access::Alone,
            _ => Access::Sync,
        };
        let start = Offset(self.random.between(0, 200));
        let range = match access {
            Access::Alone => ByteRange::from_start(start),
            Access::Sync => ByteRange::default(),
            Access::Read | Access::Write => {
                ByteRange::new(start, Bytes(self.random.between(1, 56)))
            }
        };
        let (file, client) = (self.random.between(0, FILES as u64 - 1), self.random.between(0, 3));
        let (file, client) = (FileIndex(file as u32), ClientId(client as u32));
        let class = ClassId(client.0 % CLASSES);
        let request = Request { tag: self.done.len() as u64, file, access, range, client, class };
        let room = if self.random.between(0, 1) == 0 { Room::Free } else { Room::Full };
        let admission =
            self.scheduler.submit(self.now, request, room).expect("the queue is long enough");
        self.done.push(Done { request, is_cancelled: false, seen: Vec::new(), was_covered: true });
        self.ids.push(admission.id());
        self.over.push(false);
        if let Admission::Bypassed(accepted) = admission {
            self.flights.push(Flight { accepted, is_torn: false });
        }
    }

    /// Whether anything was dispatched.
    fn dispatch(&mut self) -> bool {
        let mut batch = Batch::new();
        self.now = self.now + Nanos::micros(10);
        loop {
            match self.scheduler.next(self.now, &mut batch) {
                Decision::Wait { until } => self.now = until,
                Decision::Idle => return false,
                Decision::Dispatch => break,
            }
        }
        self.flights.extend(
            batch.members().iter().map(|accepted| Flight { accepted: *accepted, is_torn: false }),
        );
        true
    }

    /// Moves half of some request's bytes; the second half ends it.
    fn progress(&mut self) {
        let Some(last) = self.flights.len().checked_sub(1) else { return };
        let index = self.random.between(0, last as u64) as usize;
        let flight = &mut self.flights[index];
        let (accepted, is_second_half) = (flight.accepted, flight.is_torn);
        flight.is_torn = true;
        let bytes = bytes_of(&accepted.request);
        let middle = bytes.start + bytes.len() / 2;
        let half = if is_second_half { middle..bytes.end } else { bytes.start..middle };
        let content = &mut self.content[accepted.request.file.0 as usize];
        let seq = accepted.seq as usize;
        match accepted.request.access {
            Access::Read => self.done[seq].seen.extend_from_slice(&content[half]),
            Access::Write | Access::Alone => content[half].fill(seq as u32),
            Access::Sync => {}
        }
        if is_second_half {
            let earlier =
                (0..seq).filter(|other| self.done[*other].request.file == accepted.request.file);
            let mut writes = earlier.filter(|other| is_write(&self.done[*other].request));
            self.done[seq].was_covered = writes.all(|other| self.over[other]);
            self.over[seq] = true;
            self.flights.swap_remove(index);
            let moved = Bytes(bytes.len() as u64);
            self.scheduler.complete(self.now, accepted.id, moved);
        }
    }

    fn cancel(&mut self) {
        let Some(last) = self.ids.len().checked_sub(1) else { return };
        let seq = self.random.between(last.saturating_sub(20) as u64, last as u64) as usize;
        if self.scheduler.cancel(self.now, self.ids[seq]) == Cancellation::Cancelled {
            self.done[seq].is_cancelled = true;
            self.over[seq] = true;
        }
    }

    /// Replays everything that was carried out in arrival order and lists what differs.
    fn violations(&self) -> Vec<String> {
        let mut content: Content = [[u32::MAX; FILE_BYTES]; FILES];
        let mut found = Vec::new();
        for (seq, done) in self.done.iter().enumerate().filter(|(_, done)| !done.is_cancelled) {
            let bytes = &mut content[done.request.file.0 as usize][bytes_of(&done.request)];
            match done.request.access {
                Access::Read if bytes != done.seen => {
                    found.push(format!("read {seq} saw other bytes"))
                }
                Access::Sync if !done.was_covered => {
                    found.push(format!("sync {seq} came too early"))
                }
                Access::Write | Access::Alone => bytes.fill(seq as u32),
                Access::Read | Access::Sync => {}
            }
        }
        if content != self.content {
            found.push("the files end up different".into());
        }
        found
    }
}

#[test]
fn every_read_sees_what_arrival_order_says_under_every_policy() {
    for policy in PolicyName::ALL {
        for guard in [GuardMode::Overlap, GuardMode::File] {
            for seed in 0..40 {
                let violations = Run::new(policy, guard, seed).run(policy);
                assert!(
                    violations.is_empty(),
                    "{policy}, guard {guard}, seed {seed}: {violations:?}"
                );
            }
        }
    }
}

#[test]
fn the_same_holds_when_classes_share_and_go_in_each_others_turns() {
    for policy in PolicyName::ALL {
        let mut boosted = 0;
        for (guard, seed) in
            (0..15).flat_map(|seed| [(GuardMode::Overlap, seed), (GuardMode::File, seed)])
        {
            let mut run = Run::with_classes(policy, guard, seed);
            let violations = run.run(policy);
            assert!(violations.is_empty(), "{policy}, guard {guard}, seed {seed}: {violations:?}");
            let classes = run.scheduler.classes(run.now);
            boosted += classes.map(|class| class.counts.boosted).sum::<u64>();
        }
        assert!(boosted > 40, "{policy}: {boosted} boosts");
    }
}

#[test]
fn without_the_guard_the_same_check_fails_under_every_policy() {
    for policy in PolicyName::ALL {
        let violations: Vec<String> =
            (0..10).flat_map(|seed| Run::new(policy, GuardMode::None, seed).run(policy)).collect();
        assert!(
            violations.iter().any(|found| found.starts_with("read")),
            "{policy}: the check is blind to reads"
        );
        assert!(
            violations.iter().any(|found| found.contains("files")),
            "{policy}: the check is blind to writes"
        );
        assert!(
            !violations.iter().any(|found| found.starts_with("sync")),
            "{policy}: syncs wait in every mode"
        );
    }
}
