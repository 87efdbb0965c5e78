//! The order of calls: whatever it is, nothing is lost, invented or kept for ever.

use std::collections::{BTreeMap, BTreeSet};

use forebay_sched::sharing::{
    AtLimit, ClassShare, CostModel, Discipline, GroupId, Pick, Rate, Share, Shares,
    SharingSettings, SwSettings, TwinsSettings, WindowIdle, Work,
};
use forebay_units::{Bytes, ClassId, Direction, Nanos, Timestamp};
use proptest::prelude::*;

use crate::bed::read;
use crate::sfq::{settings, weighted};

#[derive(Clone, Debug)]
enum Call {
    Pass(u64),
    Ready(u32),
    Front(u32, u64),
    Empty(u32),
    Hold(u32, u64),
    Dispatch(u64),
    OutOfTurn(u32, u64),
    Complete,
    Amend(u32, u64),
    Configure(u32, ClassShare),
    Group(u32, Share),
    Remove(u32),
    RemoveGroup(u32),
    Switch(Discipline),
}

fn disciplines() -> impl Strategy<Value = Discipline> {
    let twins = (
        1u64..1_000_000,
        1u32..5,
        prop_oneof![
            Just(WindowIdle::Strict),
            (0u64..10_000).prop_map(|idle| WindowIdle::LendAfter(Nanos(idle)))
        ],
    );
    let sw = (1_000u64..1_000_000, 0u64..5_000_000, any::<bool>());
    prop_oneof![
        Just(Discipline::Sfq),
        Just(Discipline::Drr),
        sw.prop_map(|(window, start, is_strict)| Discipline::Sw(SwSettings {
            window: Nanos(window),
            start: Timestamp(start),
            is_strict,
        })),
        twins.prop_map(|(window, targets, idle)| Discipline::Twins(TwinsSettings {
            window: Nanos(window),
            targets,
            shift: 1,
            start: Timestamp(77),
            idle,
        })),
    ]
}

fn share() -> impl Strategy<Value = Share> {
    let rate = || {
        prop::option::weighted(
            0.3,
            (1u64..1_000_000_000, 0u64..100_000)
                .prop_map(|(per_second, burst)| Rate { per_second, burst }),
        )
    };
    (1u32..100, rate(), rate(), prop::bool::ANY).prop_map(|(weight, ops, bytes, is_hard)| Share {
        weight,
        ops,
        bytes,
        cost: None,
        at_limit: if is_hard { AtLimit::Wait } else { AtLimit::Borrow },
    })
}

const CLASSES: u32 = 6;

fn call() -> impl Strategy<Value = Call> {
    let class = || 0..CLASSES;
    let reservation = prop_oneof![2 => Just(0), 1 => 1u64..1_000_000_000];
    let of_class = (share(), reservation, prop::option::of(0u32..3)).prop_map(
        |(share, reservation, group)| ClassShare { share, reservation, group: group.map(GroupId) },
    );
    prop_oneof![
        3 => (0u64..3_000_000).prop_map(Call::Pass),
        4 => class().prop_map(Call::Ready),
        2 => (class(), 0u64..2_000_000).prop_map(|(class, age)| Call::Front(class, age)),
        2 => class().prop_map(Call::Empty),
        1 => (class(), 1u64..1_000_000).prop_map(|(class, time)| Call::Hold(class, time)),
        8 => (0u64..2_000_000).prop_map(Call::Dispatch),
        1 => (class(), 0u64..2_000_000).prop_map(|(class, bytes)| Call::OutOfTurn(class, bytes)),
        6 => Just(Call::Complete),
        1 => (class(), 0u64..2_000_000).prop_map(|(class, bytes)| Call::Amend(class, bytes)),
        1 => (class(), of_class).prop_map(|(class, share)| Call::Configure(class, share)),
        1 => (0u32..3, share()).prop_map(|(group, share)| Call::Group(group, share)),
        1 => class().prop_map(Call::Remove),
        1 => (0u32..3).prop_map(Call::RemoveGroup),
        1 => disciplines().prop_map(Call::Switch),
    ]
}

/// What must be true, kept beside the real thing.
#[derive(Default)]
struct Model {
    now: u64,
    ready: BTreeSet<u32>,
    held: BTreeMap<u32, u64>,
    in_flight: Vec<u32>,
    /// Whether a limit may hold anybody back.
    is_limited: bool,
    is_gated: bool,
}

impl Model {
    fn check(&self, pick: Pick) {
        let awake = |class: &u32| self.held.get(class).is_none_or(|until| *until <= self.now);
        match pick {
            Pick::Class(class) => {
                assert!(self.ready.contains(&class.0), "class {} has nothing", class.0);
                assert!(awake(&class.0), "class {} is held", class.0);
            }
            Pick::Wait { until } => {
                assert!(until.0 > self.now, "a wait ends later than now");
                assert!(!self.ready.is_empty(), "nobody to wait for");
                let nobody = self.ready.iter().all(|class| !awake(class));
                assert!(nobody || self.is_limited || self.is_gated, "somebody could go");
            }
            Pick::Idle => assert!(self.ready.is_empty(), "somebody is ready"),
        }
    }
}

fn apply(shares: &mut Shares, model: &mut Model, call: Call) {
    let now = Timestamp(model.now);
    match call {
        Call::Pass(time) => model.now += time,
        Call::Ready(class) => {
            shares.ready(now, ClassId(class));
            model.ready.insert(class);
            model.held.remove(&class);
        }
        Call::Front(class, age) => {
            shares.front(ClassId(class), Timestamp(model.now.saturating_sub(age)));
        }
        Call::Empty(class) => {
            shares.empty(now, ClassId(class));
            model.ready.remove(&class);
            model.held.remove(&class);
        }
        Call::Hold(class, time) => {
            shares.hold(now, ClassId(class), now + Nanos(time));
            if model.ready.contains(&class) {
                model.held.insert(class, model.now + time);
            }
        }
        Call::Dispatch(bytes) => {
            let pick = shares.pick(now);
            model.check(pick);
            assert_eq!(shares.pick(now), pick, "asked again, it answers the same");
            match pick {
                Pick::Class(class) => {
                    shares.charge(now, class, read(bytes));
                    model.in_flight.push(class.0);
                }
                Pick::Wait { until } => {
                    let again = shares.pick(until);
                    assert_ne!(again, Pick::Wait { until }, "the wait is over");
                    model.now = until.0;
                    model.check(again);
                }
                Pick::Idle => {}
            }
        }
        Call::OutOfTurn(class, bytes) => {
            shares.charge(now, ClassId(class), read(bytes));
            model.in_flight.push(class);
        }
        Call::Complete => {
            if let Some(class) = model.in_flight.pop() {
                shares.complete(now, ClassId(class), 1);
            }
        }
        Call::Amend(class, bytes) => {
            let unknown = Work { direction: Direction::Write, requests: 1, bytes: Bytes(1_000) };
            shares.amend(now, ClassId(class), unknown, Work { bytes: Bytes(bytes), ..unknown });
        }
        Call::Configure(class, share) => {
            shares.configure(now, ClassId(class), share).expect("it is in range");
            model.is_limited |= share.share.ops.is_some() || share.share.bytes.is_some();
        }
        Call::Group(group, share) => {
            shares.configure_group(now, GroupId(group), share).expect("it is in range");
            model.is_limited |= share.ops.is_some() || share.bytes.is_some();
        }
        Call::Remove(class) => {
            shares.remove(now, ClassId(class));
        }
        Call::RemoveGroup(group) => {
            shares.remove_group(now, GroupId(group));
        }
        Call::Switch(discipline) => {
            shares.switch(now, settings(discipline));
            model.is_gated = discipline.has_windows();
        }
    }
    assert_eq!(shares.in_flight_count() as usize, model.in_flight.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn any_order_of_calls_loses_nobody_and_forgets_everybody_in_the_end(
        discipline in disciplines(), calls in prop::collection::vec(call(), 1..150),
    ) {
        let mut shares = Shares::new(settings(discipline));
        let is_gated = discipline.has_windows();
        let mut model = Model { is_gated, ..Model::default() };
        for call in calls {
            apply(&mut shares, &mut model, call);
        }
        // Everything that is ready gets a turn within bounded questions, and nothing is picked twice.
        while let Some(class) = model.in_flight.pop() {
            shares.complete(Timestamp(model.now), ClassId(class), 1);
        }
        let mut waits = 0;
        while !model.ready.is_empty() {
            match shares.pick(Timestamp(model.now)) {
                Pick::Class(class) => {
                    prop_assert!(model.ready.remove(&class.0), "class {} again", class.0);
                    shares.charge(Timestamp(model.now), class, read(1));
                    shares.empty(Timestamp(model.now), class);
                    shares.complete(Timestamp(model.now), class, 1);
                }
                Pick::Wait { until } => {
                    prop_assert!(until.0 > model.now);
                    model.now = until.0;
                    waits += 1;
                    prop_assert!(waits < 1_000, "the waits do not end");
                }
                Pick::Idle => prop_assert!(false, "{:?} are ready", model.ready),
            }
        }
        prop_assert_eq!(shares.pick(Timestamp(model.now)), Pick::Idle);
        // Once nothing is owed, removed classes and groups are gone.
        let end = Timestamp(u64::MAX / 2);
        for class in 0..CLASSES {
            shares.remove(end, ClassId(class));
        }
        for group in 0..3 {
            shares.remove_group(end, GroupId(group));
        }
        for _ in 0..20 {
            shares.charge(end, ClassId(CLASSES), read(1));
            shares.complete(end, ClassId(CLASSES), 1);
        }
        shares.remove(end, ClassId(CLASSES));
        prop_assert_eq!(shares.known_count(), 0);
        prop_assert_eq!(shares.reserved().total, 0);
    }
}

#[test]
fn a_class_that_is_held_is_left_out_until_then_or_until_something_comes() {
    let mut shares = weighted(settings(Discipline::Sfq), &[1, 1]);
    shares.ready(Timestamp(0), ClassId(0));
    shares.hold(Timestamp(0), ClassId(0), Timestamp(500));
    assert_eq!(shares.pick(Timestamp(10)), Pick::Wait { until: Timestamp(500) });
    shares.ready(Timestamp(20), ClassId(1));
    assert_eq!(shares.pick(Timestamp(20)), Pick::Class(ClassId(1)));
    shares.empty(Timestamp(20), ClassId(1));
    assert_eq!(shares.pick(Timestamp(500)), Pick::Class(ClassId(0)));
    shares.hold(Timestamp(500), ClassId(0), Timestamp(900));
    shares.ready(Timestamp(600), ClassId(0));
    assert_eq!(
        shares.pick(Timestamp(600)),
        Pick::Class(ClassId(0)),
        "what came may be what it waits for"
    );
}

/// How many bytes class 0 gets ahead of class 1, which had the device while class 0 was held.
fn made_up_after_a_hold(discipline: Discipline, quantum: u64, missed: u64) -> i64 {
    let mut shares = weighted(SharingSettings { quantum, ..settings(discipline) }, &[1, 1]);
    [0, 1].into_iter().for_each(|class| shares.ready(Timestamp(0), ClassId(class)));
    shares.hold(Timestamp(0), ClassId(0), Timestamp(1_000));
    for _ in 0..missed / 1_000 {
        assert_eq!(shares.pick(Timestamp(1)), Pick::Class(ClassId(1)));
        shares.charge(Timestamp(1), ClassId(1), read(1_000));
    }
    let (mut lead, mut most) = (0i64, 0i64);
    for _ in 0..1_000 {
        let Pick::Class(class) = shares.pick(Timestamp(1_000)) else { panic!("both are ready") };
        shares.charge(Timestamp(1_000), class, read(1_000));
        lead += if class == ClassId(0) { 1_000 } else { -1_000 };
        most = most.max(lead);
    }
    most
}

#[test]
fn who_was_held_makes_up_for_at_most_a_quantum() {
    let sfq = |missed| made_up_after_a_hold(Discipline::Sfq, 50_000, missed);
    assert!((19_000..=21_000).contains(&sfq(20_000)), "all of it: {}", sfq(20_000));
    assert!((49_000..=51_000).contains(&sfq(5_000_000)), "no hoarding: {}", sfq(5_000_000));
    // In DRR it is the turn that it did not use, and its next.
    for missed in [20_000, 5_000_000] {
        let drr = made_up_after_a_hold(Discipline::Drr, 50_000, missed);
        assert!((0..=101_000).contains(&drr), "{missed}: {drr}");
    }
}

#[test]
fn classes_of_two_directions_cost_what_the_table_says() {
    let mut model = CostModel::BYTES;
    (model.write.per_batch, model.write.per_request) = (100, 10);
    let work = |direction, requests, bytes| Work { direction, requests, bytes: Bytes(bytes) };
    assert_eq!(model.cost(work(Direction::Read, 3, 4_096)), 4_096);
    assert_eq!(model.cost(work(Direction::Write, 3, 4_096)), 4_226);
    assert_eq!(model.cost(work(Direction::Read, 1, 0)), 1, "nothing is free");
    assert_eq!(CostModel::OPS.cost(work(Direction::Write, 7, 1 << 30)), 7);
    assert_eq!(model.cost(work(Direction::Write, u32::MAX, u64::MAX)), u64::MAX);
}
