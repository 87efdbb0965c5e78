//! Policies from outside under check: the right ones are not noticed, the wrong ones are replaced
//! in time. That nothing is lost and nothing leaves twice is what the driver checks at every step.

mod model;

use forebay_sched::policies::to::TimeOrder;
use forebay_sched::{
    Accepted, Access, Batch, Bypass, Checked, CheckedSettings, Decision, Fault, Kept, Limits,
    Policy, PolicyName, Request, RequestId, Requests, Room, Scheduler, SchedulerOptions, Selection,
    build,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};
use model::{Driver, Op, ops_without_switch, settings};
use proptest::prelude::*;

/// What a wrong policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Forgets a request it was given, silently.
    Loses,
    /// Forgets one and goes on counting it.
    LosesAndLies,
    /// Chooses an id that nobody has.
    Invents,
    /// Chooses one that has left before.
    Repeats,
    /// Chooses one twice in a batch.
    Duplicates,
    /// Puts two in a batch that do not belong together, whenever it has such.
    Misshapes,
    /// Waits for the past.
    WaitsBack,
    /// Waits a little, again and again.
    WaitsForEver,
    /// Waits until the end of time.
    WaitsLong,
    /// Says it is idle.
    Idles,
    /// Decides for a batch and names none.
    ChoosesNothing,
    /// Names requests and says that it waits.
    NamesAndWaits,
    /// Denies a request that is to be cancelled.
    Denies,
    /// Hands back less than it has, and in the wrong order.
    Keeps,
}

const ALL: [Wrong; 14] = [
    Wrong::Loses,
    Wrong::LosesAndLies,
    Wrong::Invents,
    Wrong::Repeats,
    Wrong::Duplicates,
    Wrong::Misshapes,
    Wrong::WaitsBack,
    Wrong::WaitsForEver,
    Wrong::WaitsLong,
    Wrong::Idles,
    Wrong::ChoosesNothing,
    Wrong::NamesAndWaits,
    Wrong::Denies,
    Wrong::Keeps,
];

/// TO, until it goes wrong at the `turn`-th decision.
struct Outside {
    order: TimeOrder,
    held: Vec<Accepted>,
    gone: Option<RequestId>,
    wrong: Wrong,
    turn: u32,
    lost: usize,
}

impl Outside {
    fn new(wrong: Wrong, turn: u32) -> Self {
        let order = TimeOrder::new();
        Self { order, held: Vec::new(), gone: None, wrong, turn, lost: 0 }
    }

    fn is_wrong(&self) -> bool {
        self.turn == 0
    }

    fn forget(&mut self, id: RequestId) {
        self.held.retain(|own| own.id != id);
        self.gone = Some(id);
    }

    fn choose(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let selection = self.order.select(now, held, batch);
        batch.iter().for_each(|id| self.forget(*id));
        selection
    }
}

impl Policy for Outside {
    fn name(&self) -> &'static str {
        "outside"
    }

    fn add(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        if self.is_wrong() && matches!(self.wrong, Wrong::Loses | Wrong::LosesAndLies) {
            self.lost += usize::from(self.wrong == Wrong::LosesAndLies);
            return;
        }
        self.order.add(now, held, request);
        self.held.push(*request);
    }

    fn select(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        self.turn = self.turn.saturating_sub(1);
        if !self.is_wrong() {
            return self.choose(now, held, batch);
        }
        let unlike = |a: &Accepted, b: &Accepted| {
            (a.request.file, a.request.access) != (b.request.file, b.request.access)
        };
        match self.wrong {
            Wrong::Invents => batch.push(RequestId(0xdead_0000_0001)),
            Wrong::Repeats => match self.gone {
                Some(gone) => batch.push(gone),
                None => return self.choose(now, held, batch),
            },
            Wrong::Duplicates => {
                let selection = self.choose(now, held, batch);
                batch.extend(batch.first().copied());
                return selection;
            }
            Wrong::Misshapes => {
                let other = self.held.iter().find(|own| unlike(own, &self.held[0]));
                let other = other.map(|other| other.id);
                let selection = self.choose(now, held, batch);
                batch.extend(other);
                return selection;
            }
            Wrong::WaitsBack => return Selection::Wait { until: now },
            Wrong::WaitsForEver => return Selection::Wait { until: now + Nanos::millis(20) },
            Wrong::WaitsLong => return Selection::Wait { until: Timestamp(u64::MAX) },
            Wrong::Idles => return Selection::Idle,
            Wrong::ChoosesNothing => {}
            Wrong::NamesAndWaits => {
                self.choose(now, held, batch);
                return Selection::Wait { until: now + Nanos(1) };
            }
            _ => return self.choose(now, held, batch),
        }
        Selection::Batch
    }

    fn cancel(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        self.forget(request.id);
        self.order.cancel(now, held, request) && !(self.is_wrong() && self.wrong == Wrong::Denies)
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.order.drain(held, into);
        if self.is_wrong() && self.wrong == Wrong::Keeps {
            into.reverse();
            into.pop();
        }
    }

    fn queued_count(&self) -> usize {
        self.order.queued_count() + self.lost
    }
}

fn checked(policy: Box<dyn Policy>) -> Box<dyn Policy> {
    let settings =
        CheckedSettings { wait_max: Nanos::secs(1), ..CheckedSettings::from(settings().limits) };
    Box::new(Checked::new(policy, settings))
}

fn config() -> ProptestConfig {
    let cases =
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

fn trace(mut driver: Driver, ops: &[Op]) -> Vec<String> {
    driver.run(ops);
    driver.run_dry();
    assert_eq!(driver.scheduler.policy_fault(), None);
    driver.trace
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_policy_that_is_right_is_not_noticed(ops in ops_without_switch(120), number in 0..8usize) {
        let policy = PolicyName::ALL[number];
        let bare = Driver::with_policy(build(policy, &settings()), settings());
        let under_check = Driver::with_policy(checked(build(policy, &settings())), settings());
        prop_assert_eq!(trace(bare, &ops), trace(under_check, &ops));
    }

    #[test]
    fn whatever_a_policy_does_every_request_leaves_exactly_once(
        ops in ops_without_switch(120), number in 0..ALL.len(), turn in 0..12u32,
    ) {
        let policy = checked(Box::new(Outside::new(ALL[number], turn)));
        let mut driver = Driver::with_policy(policy, settings());
        driver.run(&ops);
        let mut drained = Vec::new();
        if ALL[number] == Wrong::Keeps {
            driver.scheduler.drain(&mut drained);
            prop_assert!(drained.is_sorted_by_key(|accepted| accepted.seq));
            let waiting = driver.known.iter().filter(|known| known.place == model::Place::Waiting);
            prop_assert_eq!(drained.len(), waiting.count());
        } else {
            driver.run_dry();
        }
    }
}

fn request(file: u32, block: u64) -> Request {
    Request {
        tag: block,
        file: FileIndex(file),
        access: Access::Read,
        range: ByteRange::new(Offset(block * 8192), Bytes(8192)),
        client: ClientId(0),
        class: ClassId(0),
    }
}

/// Four requests of two files to a policy that is wrong from its second decision on.
fn fault_of(wrong: Wrong) -> Option<Fault> {
    let options = SchedulerOptions { bypass: Bypass::Never, ..Default::default() };
    let mut scheduler = Scheduler::new(options, checked(Box::new(Outside::new(wrong, 2))));
    let mut now = Timestamp(0);
    let submit = |scheduler: &mut Scheduler, file, block| {
        scheduler.submit(now, request(file, block), Room::Full).expect("there is room").id()
    };
    let mut left = Vec::new();
    let mut submitted: Vec<RequestId> = [(0, 0), (0, 1), (1, 0), (0, 2)]
        .map(|(file, block)| submit(&mut scheduler, file, block))
        .into();
    let mut batch = Batch::new();
    for turn in 0.. {
        assert!(turn < 500, "{wrong:?}: it goes on");
        match scheduler.next(now, &mut batch) {
            Decision::Dispatch => left.extend(batch.members().iter().map(|member| member.id)),
            Decision::Wait { until } => now = until,
            Decision::Idle => break,
        }
        if turn == 1 {
            let cancelled =
                scheduler.submit(now, request(2, 0), Room::Full).expect("there is room");
            scheduler.cancel(now, cancelled.id());
            submitted.push(
                scheduler.submit(now, request(2, 1), Room::Full).expect("there is room").id(),
            );
            if wrong == Wrong::Keeps {
                let mut drained = Vec::new();
                scheduler.drain(&mut drained);
                left.extend(drained.iter().map(|accepted| accepted.id));
            }
        }
    }
    left.sort_unstable();
    submitted.sort_unstable();
    assert_eq!(left, submitted, "{wrong:?}: each once");
    assert_eq!(scheduler.policy_name(), "TO", "{wrong:?}: TO has taken over");
    scheduler.policy_fault()
}

#[test]
fn each_fault_is_named() {
    for wrong in ALL {
        let fault = fault_of(wrong).unwrap_or_else(|| panic!("{wrong:?} was not noticed"));
        let is_expected = match wrong {
            Wrong::Loses => matches!(fault, Fault::Count { .. }),
            Wrong::LosesAndLies => {
                matches!(fault, Fault::Lost(_) | Fault::Count { .. } | Fault::WrongIdle)
            }
            Wrong::Invents => fault == Fault::NotHeld(RequestId(0xdead_0000_0001)),
            Wrong::Repeats => matches!(fault, Fault::NotHeld(_)),
            Wrong::Duplicates => matches!(fault, Fault::Twice(_)),
            Wrong::Misshapes => matches!(fault, Fault::Shape(_)),
            Wrong::WaitsBack => fault == Fault::WaitNotLater,
            Wrong::WaitsForEver | Wrong::WaitsLong => fault == Fault::WaitTooLong,
            Wrong::Idles => fault == Fault::WrongIdle,
            Wrong::ChoosesNothing => fault == Fault::EmptyBatch,
            Wrong::NamesAndWaits => fault == Fault::BatchWithoutDecision,
            Wrong::Denies => matches!(fault, Fault::Lost(_)),
            Wrong::Keeps => fault == Fault::Drain,
        };
        assert!(is_expected, "{wrong:?}: {fault}");
    }
}

#[test]
fn a_gap_and_a_batch_beyond_the_cap_are_misshapen() {
    for (second, third) in [(2, 3), (1, 2)] {
        let limits = Limits { batch_bytes_max: Bytes(2 * 8192), ..Limits::default() };
        /// Puts everything it has in one batch.
        struct All(Vec<Accepted>);
        impl Policy for All {
            fn name(&self) -> &'static str {
                "all"
            }
            fn add(&mut self, _: Timestamp, _: &Requests<'_>, request: &Accepted) {
                self.0.push(*request);
            }
            fn select(
                &mut self,
                _: Timestamp,
                _: &Requests<'_>,
                batch: &mut Vec<RequestId>,
            ) -> Selection {
                batch.extend(self.0.drain(..).map(|accepted| accepted.id));
                if batch.is_empty() { Selection::Idle } else { Selection::Batch }
            }
            fn cancel(&mut self, _: Timestamp, _: &Requests<'_>, _: &Accepted) -> bool {
                unreachable!("nothing is cancelled here")
            }
            fn drain(&mut self, _: &Requests<'_>, _: &mut Vec<RequestId>) {}
            fn queued_count(&self) -> usize {
                self.0.len()
            }
        }
        let mut kept = Kept::default();
        let mut policy = Checked::new(Box::new(All(Vec::new())), limits.into());
        for (seq, block) in [0, second, third].into_iter().enumerate() {
            let (id, seq) = (RequestId(seq as u64), seq as u64);
            let request = request(0, block);
            let accepted = Accepted { id, seq, arrived: Timestamp(0), request };
            kept.keep(&accepted);
            policy.add(Timestamp(0), &kept.requests(), &accepted);
        }
        let mut batch = Vec::new();
        assert_eq!(policy.select(Timestamp(0), &kept.requests(), &mut batch), Selection::Batch);
        assert_eq!(batch, [RequestId(0)], "TO goes on with the first");
        assert!(matches!(policy.fault(), Some(Fault::Shape(_))));
    }
}

/// A policy that puts everything into one batch, in offset order.
#[derive(Default)]
struct AllAtOnce {
    held: Vec<Accepted>,
}

impl Policy for AllAtOnce {
    fn name(&self) -> &'static str {
        "all at once"
    }

    fn add(&mut self, _: Timestamp, _: &Requests<'_>, request: &Accepted) {
        self.held.push(*request);
        self.held.sort_by_key(|held| held.request.range.start);
    }

    fn select(&mut self, _: Timestamp, _: &Requests<'_>, batch: &mut Vec<RequestId>) -> Selection {
        if self.held.is_empty() {
            return Selection::Idle;
        }
        batch.extend(self.held.drain(..).map(|held| held.id));
        Selection::Batch
    }

    fn cancel(&mut self, _: Timestamp, _: &Requests<'_>, request: &Accepted) -> bool {
        let count = self.held.len();
        self.held.retain(|held| held.id != request.id);
        self.held.len() < count
    }

    fn drain(&mut self, _: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.held.sort_by_key(|held| held.seq);
        into.extend(self.held.drain(..).map(|held| held.id));
    }

    fn queued_count(&self) -> usize {
        self.held.len()
    }
}

/// The fault that a batch of such ranges in one file is, with `access`.
fn fault_of_batch(access: Access, ranges: &[(u64, u64)]) -> Option<Fault> {
    let options = SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() };
    let policy = Checked::new(Box::<AllAtOnce>::default(), Limits::default().into());
    let mut scheduler = Scheduler::new(options, Box::new(policy));
    for (tag, &(start, length)) in ranges.iter().enumerate() {
        let request = Request {
            tag: tag as u64,
            file: FileIndex(0),
            access,
            range: ByteRange::new(Offset(start), Bytes(length)),
            client: ClientId(0),
            class: ClassId(0),
        };
        scheduler.submit(Timestamp(0), request, Room::Full).expect("there is room");
    }
    assert_eq!(scheduler.next(Timestamp(0), &mut Batch::new()), Decision::Dispatch);
    scheduler.policy_fault()
}

#[test]
fn reads_inside_an_earlier_one_leave_no_gap() {
    assert_eq!(fault_of_batch(Access::Read, &[(0, 100), (10, 10), (50, 10), (100, 5)]), None);
    let is_gap = |fault| matches!(fault, Some(Fault::Shape(_)));
    assert!(is_gap(fault_of_batch(Access::Read, &[(0, 100), (10, 10), (101, 10)])));
    assert!(is_gap(fault_of_batch(Access::Write, &[(0, 100), (110, 10)])));
}
