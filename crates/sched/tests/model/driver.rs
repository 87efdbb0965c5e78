//! Runs operations against a scheduler and checks after each of them what must always hold.

use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, GroupId, Rate, Share, SharingSettings, SwSettings,
};
use forebay_sched::{
    Accepted, Access, Admission, Batch, Bypass, Cancellation, ClassOptions, Decision, GuardMode,
    Policy, PolicyName, PolicySettings, Request, RequestId, Room, Scheduler, SchedulerOptions,
    build, source,
};
use forebay_units::{Bytes, ClassId, Nanos, Timestamp};

use super::{BLOCK, CLASSES, LARGE, Op, Oracle, any_policy, conflict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Waiting,
    InFlight,
    Completed,
    Cancelled,
}

/// Whether and how the classes of a test share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// They do not.
    Off,
    /// Under SFQ(D), with different weights.
    Sfq,
    /// Under DRR, in groups, some behind hard limits.
    Drr,
    /// With fewer places than classes, which are forgotten at once.
    Tight,
    /// In windows of arrival.
    Sw,
    /// In windows of arrival that end before anything of them leaves, some behind hard limits.
    SwStrict,
}

impl Sharing {
    fn scheduler(
        self,
        options: SchedulerOptions,
        policy: PolicyName,
        settings: &PolicySettings,
    ) -> Scheduler {
        let is_strict = self == Self::SwStrict;
        let discipline = match self {
            Self::Off | Self::Sfq | Self::Tight => Discipline::Sfq,
            Self::Drr => Discipline::Drr,
            Self::Sw | Self::SwStrict => Discipline::Sw(SwSettings {
                window: Nanos::micros(20),
                start: Timestamp(7),
                is_strict,
            }),
        };
        let classes = ClassOptions {
            sharing: SharingSettings { discipline, quantum: 4 * BLOCK, ..Default::default() },
            classes_max: if self == Self::Tight { CLASSES as usize - 1 } else { 16 },
            idle_max: Nanos(if self == Self::Tight { 1 } else { 600_000_000_000 }),
            ..Default::default()
        };
        let mut scheduler = match self {
            Self::Off => return Scheduler::new(options, build(policy, settings)),
            _ => Scheduler::with_classes(options, classes, source(policy, settings)),
        };
        for class in (0..CLASSES).filter(|_| self != Self::Tight) {
            let limit = Rate { per_second: 1 << 30, burst: 2 * BLOCK };
            let share = Share {
                weight: class + 1,
                bytes: ((self == Self::Drr || is_strict) && class < 2).then_some(limit),
                at_limit: AtLimit::Wait,
                ..Default::default()
            };
            let group = (self == Self::Drr).then_some(GroupId(class % 2));
            let share = ClassShare { share, group, ..Default::default() };
            scheduler.configure_class(Timestamp(0), ClassId(class), share).expect("it is possible");
        }
        scheduler
    }
}

/// A request that was accepted, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub id: RequestId,
    pub request: Request,
    pub place: Place,
}

/// A scheduler and everything that was ever submitted to it; the index is the `seq`.
pub struct Driver {
    pub scheduler: Scheduler,
    pub known: Vec<Known>,
    pub now: Timestamp,
    /// What was decided, in order: for comparing runs.
    pub trace: Vec<String>,
    mode: GuardMode,
    settings: PolicySettings,
    sharing: Sharing,
    oracle: Oracle,
    batch: Batch,
}

impl Driver {
    pub fn new(policy: PolicyName, mode: GuardMode, settings: PolicySettings) -> Self {
        Self::sharing(policy, mode, settings, Sharing::Off)
    }

    pub fn sharing(
        policy: PolicyName,
        mode: GuardMode,
        settings: PolicySettings,
        sharing: Sharing,
    ) -> Self {
        let scheduler = sharing.scheduler(options(mode), policy, &settings);
        Self::of(scheduler, mode, settings, sharing)
    }

    /// One policy that has no name.
    pub fn with_policy(policy: Box<dyn Policy>, settings: PolicySettings) -> Self {
        let mode = GuardMode::Overlap;
        Self::of(Scheduler::new(options(mode), policy), mode, settings, Sharing::Off)
    }

    fn of(
        scheduler: Scheduler,
        mode: GuardMode,
        settings: PolicySettings,
        sharing: Sharing,
    ) -> Self {
        Self {
            scheduler,
            sharing,
            known: Vec::new(),
            now: Timestamp(0),
            trace: Vec::new(),
            mode,
            settings,
            oracle: Oracle::new(mode),
            batch: Batch::new(),
        }
    }

    pub fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(*op);
            self.check_counts();
        }
    }

    pub fn step(&mut self, op: Op) {
        match op {
            Op::Submit(request, room) => {
                self.submit(request, if room { Room::Free } else { Room::Full })
            }
            Op::Next => _ = self.ask(),
            Op::NextFromPolicy => self.ask_policy(),
            Op::Complete(number) => {
                if let Some(seq) = self.pick(number, |known| known.place == Place::InFlight) {
                    self.complete(seq);
                }
            }
            Op::Cancel(number) => {
                let is_asked =
                    |known: &Known| number.is_multiple_of(4) || known.place == Place::Waiting;
                if let Some(seq) = self.pick(number / 4, is_asked) {
                    self.cancel(seq);
                }
            }
            Op::Switch(number) => self.switch(any_policy(number), number),
            Op::Share(number) => self.share(number),
            Op::Sleep(nanos) => self.now = self.now + Nanos(nanos),
        }
    }

    /// Another policy, for all classes or for one of them.
    fn switch(&mut self, policy: PolicyName, number: usize) {
        if self.sharing != Sharing::Off && number.is_multiple_of(2) {
            let source = source(policy, &self.settings);
            drop(self.scheduler.switch_policies(self.now, source).expect("it has classes"));
            return;
        }
        let policy = build(policy, &self.settings);
        let class = ClassId(number as u32 / 2 % CLASSES);
        let old = match self.sharing {
            Sharing::Off => self.scheduler.switch_policy(self.now, policy),
            _ => match self.scheduler.switch_class_policy(self.now, class, policy) {
                Ok(old) => old,
                Err(_) if self.sharing == Sharing::Tight => return,
                Err(error) => panic!("{error}"),
            },
        };
        assert_eq!(old.queued_count(), 0, "the old policy is empty");
    }

    /// Another share for one class where classes are behind limits; without one it may be forgotten.
    fn share(&mut self, number: usize) {
        if !matches!(self.sharing, Sharing::Drr | Sharing::Tight | Sharing::SwStrict) {
            return;
        }
        let (class, now) = (ClassId(number as u32 % CLASSES), self.now);
        let number = number / CLASSES as usize;
        if number.is_multiple_of(2) {
            self.scheduler.release_class(now, class).expect("it has classes");
            return;
        }
        let limit = Rate { per_second: 1 << 16, burst: 0 };
        let at_limit = if number % 4 == 1 { AtLimit::Wait } else { AtLimit::Borrow };
        let share = Share { bytes: Some(limit), at_limit, ..Share::default() };
        let reservation = if number % 8 > 4 { 1 << 20 } else { 0 };
        let share = ClassShare { share, reservation, ..ClassShare::default() };
        let configured = self.scheduler.configure_class(now, class, share);
        assert!(configured.is_ok() || self.sharing == Sharing::Tight, "{configured:?}");
    }

    /// The seq of some request that is as asked for.
    pub fn pick(&self, number: usize, is_asked: impl Fn(&Known) -> bool) -> Option<usize> {
        let asked: Vec<usize> =
            (0..self.known.len()).filter(|seq| is_asked(&self.known[*seq])).collect();
        asked.get(number % asked.len().max(1)).copied()
    }

    pub fn submit(&mut self, request: Request, room: Room) {
        let may_conflict = self.scheduler.has_conflict(&request);
        let Ok(admission) = self.scheduler.submit(self.now, request, room) else { return };
        let seq = self.known.len() as u64;
        let is_ready = self.oracle.admit(seq, request);
        assert_eq!(
            is_ready,
            !matches!(admission, Admission::Blocked(_)),
            "the guard disagrees about {request:?}"
        );
        assert!(
            may_conflict || is_ready || self.mode == GuardMode::Client,
            "a conflict was denied"
        );
        self.known.push(Known { id: admission.id(), request, place: Place::Waiting });
        if let Admission::Bypassed(accepted) = admission {
            self.leave(&accepted);
        }
        self.trace.push(format!("{admission:?}"));
    }

    /// Asks once; on `Wait`, time has moved to its end when this returns.
    pub fn ask(&mut self) -> Decision {
        let mut batch = std::mem::take(&mut self.batch);
        let decision = self.scheduler.next(self.now, &mut batch);
        self.trace.push(format!("{decision:?} {:?}", batch.members()));
        match decision {
            Decision::Dispatch => {
                self.check_batch(&batch);
                batch.members().iter().for_each(|accepted| self.leave(accepted));
            }
            Decision::Wait { until } => {
                assert!(until > self.now, "a wait ends after it begins");
                self.now = until;
            }
            Decision::Idle => self.check_nothing_is_ready(),
        }
        self.batch = batch;
        decision
    }

    /// Asks as a store does that has room for small requests only.
    fn ask_policy(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        let decision = self.scheduler.next_from_policy(self.now, &mut batch);
        self.trace.push(format!("{decision:?} {:?}", batch.members()));
        match decision {
            Decision::Dispatch => {
                self.check_batch(&batch);
                batch.members().iter().for_each(|accepted| self.leave(accepted));
            }
            Decision::Wait { until } => assert!(until > self.now, "a wait ends after it begins"),
            Decision::Idle => {}
        }
        self.batch = batch;
    }

    pub fn complete(&mut self, seq: usize) {
        let known = &mut self.known[seq];
        known.place = Place::Completed;
        let completed = self.scheduler.complete(self.now, known.id, moved(known));
        assert_eq!(completed.map(|accepted| accepted.seq), Some(seq as u64));
        assert_eq!(
            self.scheduler.complete(self.now, self.known[seq].id, moved(&self.known[seq])),
            None
        );
        self.oracle.release(seq as u64);
    }

    pub fn cancel(&mut self, seq: usize) {
        let known = self.known[seq];
        let expected = match known.place {
            Place::Waiting => Cancellation::Cancelled,
            Place::InFlight => Cancellation::InFlight,
            Place::Completed | Place::Cancelled => Cancellation::Unknown,
        };
        let was_ready = known.place == Place::Waiting && self.oracle.is_ready(seq as u64);
        assert_eq!(self.scheduler.cancel(self.now, known.id), expected);
        if expected == Cancellation::Cancelled {
            self.known[seq].place = Place::Cancelled;
            match was_ready {
                true => self.oracle.release(seq as u64),
                false => self.oracle.cancel_blocked(seq as u64),
            }
        }
    }

    /// Completes everything, newest first every other time; panics if that takes too many calls.
    pub fn run_dry(&mut self) {
        let mut calls_left = 20 * self.known.len() + 100;
        loop {
            calls_left = calls_left
                .checked_sub(1)
                .expect("the queue empties within the stated number of calls");
            match self.ask() {
                Decision::Dispatch => {}
                Decision::Wait { until } => assert!(
                    self.ask() != Decision::Wait { until },
                    "asked again at the end of a wait, it waits for the same moment"
                ),
                Decision::Idle => {
                    match self.pick(calls_left * 7, |known| known.place == Place::InFlight) {
                        Some(seq) => self.complete(seq),
                        None => break,
                    }
                }
            }
        }
        let is_over = |known: &Known| matches!(known.place, Place::Completed | Place::Cancelled);
        assert!(self.known.iter().all(is_over), "something never left");
        self.check_counts();
    }

    fn leave(&mut self, accepted: &Accepted) {
        let seq = accepted.seq as usize;
        let known = self.known[seq];
        assert_eq!(
            (known.id, known.request),
            (accepted.id, accepted.request),
            "a request changed on its way"
        );
        assert_eq!(known.place, Place::Waiting, "request {seq} leaves a second time");
        assert!(self.oracle.is_ready(accepted.seq), "request {seq} leaves before its turn");
        for (other_seq, other) in self.known.iter().enumerate() {
            if other_seq == seq || !conflict(self.mode, &other.request, &known.request) {
                continue;
            }
            assert_ne!(
                other.place,
                Place::InFlight,
                "{other_seq} and {seq} conflict and are both in flight"
            );
            let is_ordered =
                self.mode != GuardMode::Client || other.request.client == known.request.client;
            let is_earlier = other_seq < seq && is_ordered;
            assert!(
                !(is_earlier && other.place == Place::Waiting),
                "{seq} overtakes {other_seq}, which conflicts"
            );
        }
        self.known[seq].place = Place::InFlight;
    }

    fn check_batch(&self, batch: &Batch) {
        let (members, limits) = (batch.members(), &self.settings.limits);
        let bytes: u64 = members.iter().map(|member| member.request.range.length().0).sum();
        let mut end = members[0].request.range.start;
        for member in members {
            assert_eq!(member.request.file, batch.file(), "one file a batch");
            assert_eq!(member.request.access, batch.access(), "one direction a batch");
            assert_eq!(member.request.class, members[0].request.class, "one class a batch");
            let start = member.request.range.start;
            let is_duplicate_read = member.request.access == Access::Read && start < end;
            assert!(start == end || is_duplicate_read, "a gap or an overlap inside a batch");
            end = end.max(member.request.range.end);
        }
        assert_eq!(batch.range().end, end);
        assert!(members.is_sorted_by_key(|member| member.request.range.start), "offset order");
        let bytes_max = limits.batch_bytes_max.max(limits.run_bytes_max);
        assert!(members.len() == 1 || bytes <= bytes_max.0, "{bytes} bytes in one batch");
        let is_a_run = limits.batch_bytes_max == Bytes::ZERO;
        let count_max = if is_a_run { limits.run_requests_max as usize } else { usize::MAX };
        assert!(members.len() <= count_max, "{} requests in one batch", members.len());
        let skips = |access| matches!(access, Access::Alone | Access::Sync);
        assert!(members.len() == 1 || !skips(batch.access()), "syncs and appends go alone");
    }

    fn check_nothing_is_ready(&self) {
        for (seq, known) in self.known.iter().enumerate() {
            let is_waiting = known.place == Place::Waiting;
            assert!(
                !(is_waiting && self.oracle.is_ready(seq as u64)),
                "idle although request {seq} is ready"
            );
        }
    }

    fn check_counts(&self) {
        let count = |place| self.known.iter().filter(|known| known.place == place).count();
        let stats = self.scheduler.stats();
        assert_eq!(stats.submitted, self.known.len() as u64);
        assert_eq!(stats.completed, count(Place::Completed) as u64);
        assert_eq!(stats.cancelled, count(Place::Cancelled) as u64);
        assert_eq!(self.scheduler.queued_count(), count(Place::Waiting));
        assert_eq!(self.scheduler.in_flight_count(), count(Place::InFlight));
        assert!(self.scheduler.queued_count() <= 48, "more queued than allowed");
        self.check_classes();
        let maps = if self.mode == GuardMode::Client { 2 } else { 1 };
        let cells_max = maps * (2 * self.oracle.live_count()).saturating_sub(1);
        assert!(
            stats.guard_cells <= cells_max as u64,
            "{} cells, {cells_max} allowed",
            stats.guard_cells
        );
    }
}

impl Driver {
    /// What the classes count adds up to what all requests do, class by class where each has a place.
    fn check_classes(&self) {
        if self.sharing == Sharing::Off {
            assert_eq!(self.scheduler.classes(self.now).count(), 0);
            return;
        }
        let all: Vec<_> = self.scheduler.classes(self.now).collect();
        let (mut waiting, mut in_flight, mut blocked) = (0, 0, 0);
        for class in &all {
            waiting += class.ready + class.blocked;
            in_flight += class.in_flight;
            blocked += class.blocked;
            let of_class = |place| {
                let is_own = |known: &&Known| known.request.class == class.class;
                self.known.iter().filter(is_own).filter(|known| known.place == place).count()
            };
            if self.sharing != Sharing::Tight {
                assert_eq!(class.ready + class.blocked, of_class(Place::Waiting));
                assert_eq!(class.in_flight, of_class(Place::InFlight));
                assert_eq!(class.counts.completed, of_class(Place::Completed) as u64);
                assert_eq!(class.counts.cancelled, of_class(Place::Cancelled) as u64);
            }
        }
        assert_eq!(waiting, self.scheduler.queued_count());
        assert_eq!(in_flight, self.scheduler.in_flight_count());
        assert_eq!(blocked, self.scheduler.blocked_count());
    }
}

fn options(guard: GuardMode) -> SchedulerOptions {
    SchedulerOptions {
        guard,
        large_bytes: Some(LARGE),
        bypass: Bypass::WhenIdle,
        queue_requests_max: 48,
    }
}

/// How much a request moves: an append, whose range has no end, one block.
fn moved(known: &Known) -> Bytes {
    known.request.range.length().min(Bytes(20 * BLOCK))
}
