//! What holds of a selector whatever it is told: no panic, bounds, the same again.

mod support;

use forebay_sched::{Access, PolicyName, Request};
use forebay_select::{Auto, Learned, Part, Switch, SwitchReason};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};
use proptest::prelude::*;
use support::{by_direction, leaf, options, stump};

#[derive(Clone, Copy, Debug)]
enum Call {
    Submit { class: u32, file: u32, start: u64, length: u64, is_read: bool },
    Dispatch { class: u32, requests: usize },
    End { class: u32, moved: u64, was_dispatched: bool },
    Decide,
    Forget(u32),
    Pin(Option<u32>, Option<usize>),
    MayExplore(bool),
    Why,
}

fn call() -> impl Strategy<Value = Call> {
    let class = prop_oneof![0..4_u32, 0..200_u32, any::<u32>()];
    let number = prop_oneof![0..1_u64 << 20, any::<u64>()];
    prop_oneof![
        6 => (class.clone(), 0..9_u32, number.clone(), number.clone(), any::<bool>()).prop_map(
            |(class, file, start, length, is_read)| Call::Submit { class, file, start, length, is_read }
        ),
        4 => (class.clone(), prop_oneof![0..9_usize, any::<usize>()])
            .prop_map(|(class, requests)| Call::Dispatch { class, requests }),
        4 => (class.clone(), number, any::<bool>())
            .prop_map(|(class, moved, was_dispatched)| Call::End { class, moved, was_dispatched }),
        4 => Just(Call::Decide),
        1 => class.clone().prop_map(Call::Forget),
        1 => (proptest::option::of(class), proptest::option::of(0..8_usize)).prop_map(|(class, policy)| Call::Pin(class, policy)),
        1 => any::<bool>().prop_map(Call::MayExplore),
        1 => Just(Call::Why),
    ]
}

fn request(class: u32, file: u32, start: u64, length: u64, is_read: bool) -> Request {
    Request {
        tag: 0,
        file: FileIndex(file),
        access: if is_read { Access::Read } else { Access::Write },
        range: ByteRange::new(Offset(start), Bytes(length)),
        client: ClientId(class),
        class: ClassId(class),
    }
}

fn fresh(by_class: bool) -> Auto {
    let tree = by_direction(
        leaf(PolicyName::Aioli, &[(PolicyName::Aioli, 1.4), (PolicyName::Sjf, 1.0)]),
        leaf(PolicyName::Sjf, &[(PolicyName::Sjf, 1.5)]),
    );
    Auto::new(forebay_select::AutoOptions { by_class, ..options(&tree) })
}

/// Tells a selector all that; what it says.
fn play(auto: &mut Auto, calls: &[(u64, Call)]) -> Vec<Switch> {
    let (mut said, mut now) = (Vec::new(), Timestamp(0));
    for (passed, call) in calls {
        // Times may run backwards by a mistake.
        now = Timestamp(if passed % 97 == 0 { now.0 / 2 } else { now.0.saturating_add(*passed) });
        match *call {
            Call::Submit { class, file, start, length, is_read } => {
                auto.submitted(now, &request(class, file, start, length, is_read));
            }
            Call::Dispatch { class, requests } => auto.dispatched(now, ClassId(class), requests),
            Call::End { class, moved, was_dispatched } => {
                let request = request(class, 0, 0, 1, true);
                auto.ended(now, &request, Bytes(moved), was_dispatched);
            }
            Call::Decide => {
                let most = 3 * (auto.why(now).len() + 1);
                said.extend(std::iter::from_fn(|| auto.decide(now)).take(most));
                assert_eq!(auto.decide(now), None, "it comes to an end");
            }
            Call::Forget(class) => auto.forget(ClassId(class)),
            Call::Pin(class, policy) => {
                let part = class.map_or(Part::All, |class| Part::Class(ClassId(class)));
                auto.pin(part, policy.map(|policy| PolicyName::ALL[policy]));
            }
            Call::MayExplore(may) => auto.set_may_explore(may),
            Call::Why => {
                assert!(auto.why(now).iter().filter(|why| why.pattern.is_some()).count() <= 64)
            }
        }
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_calls_are_taken_and_the_same_calls_say_the_same(
        by_class in any::<bool>(),
        calls in proptest::collection::vec((prop_oneof![0..20_000_000_u64, any::<u64>()], call()), 0..200),
    ) {
        let (mut one, mut other) = (fresh(by_class), fresh(by_class));
        let said = play(&mut one, &calls);
        prop_assert_eq!(&said, &play(&mut other, &calls));
        prop_assert!(said.iter().all(|switch| by_class == (switch.part != Part::All)));
        prop_assert_eq!(one.learned(), other.learned());
        prop_assert_eq!(one.why(Timestamp(0)), other.why(Timestamp(0)));
    }

    #[test]
    fn what_is_restored_is_learned_again_and_nonsense_is_left_out(
        learned in proptest::collection::vec((0..9_usize, 0..8_usize, any::<f64>(), any::<f64>()), 0..40),
        mean in -3.0..3.0_f64,
        blocks in 0.1..64.0_f64,
    ) {
        let mut auto = fresh(false);
        let nonsense: Vec<Learned> = learned
            .into_iter()
            .map(|(leaf, policy, mean, blocks)| Learned { leaf, policy: PolicyName::ALL[policy], mean, blocks })
            .collect();
        auto.restore(&nonsense);
        for one in auto.learned() {
            prop_assert!([1, 2].contains(&one.leaf) && one.mean.abs() <= 3.0 && one.blocks <= 64.0);
        }
        let whole = [Learned { leaf: 2, policy: PolicyName::Sjf, mean, blocks }];
        let mut auto = fresh(false);
        auto.restore(&whole);
        prop_assert_eq!(auto.learned(), whole);
    }
}

#[test]
fn each_class_has_a_policy_of_its_own() {
    let mut auto = fresh(true);
    let start = auto.start();
    let mut policies = [start; 2];
    let mut now = 0;
    // Class 0 reads, class 1 writes; four clients each, one request in flight of each class.
    let all = |number: u64, client: u32| {
        let class = client / 4;
        let mut request = request(class, class, 0, 8192, class == 0);
        request.client = ClientId(client);
        let start = (u64::from(client) << 30) + number * 8192;
        request.range = ByteRange::new(Offset(start), Bytes(8192));
        request
    };
    for number in 0..2000 {
        for client in 0..8 {
            auto.submitted(Timestamp(now), &all(number, client));
        }
        for client in 0..8 {
            auto.dispatched(Timestamp(now), ClassId(client / 4), 1);
            now += 200_000;
            auto.ended(Timestamp(now), &all(number, client), Bytes(8192), true);
            while let Some(Switch { part, policy, reason }) = auto.decide(Timestamp(now)) {
                let Part::Class(class) = part else { panic!("{part:?} with classes") };
                if reason != SwitchReason::Explore {
                    policies[class.0 as usize] = policy;
                }
            }
        }
    }
    assert_eq!(policies, [PolicyName::Sjf, PolicyName::Aioli]);
    let why = auto.why(Timestamp(now));
    assert_eq!(why.len(), 2);
    let leaf = why[1].leaf.as_ref().expect("its pattern is known");
    assert_eq!((leaf.0, leaf.1.len()), (1, 1));
    assert!(leaf.1[0].starts_with("is_read < 0.5"), "{:?}", leaf.1);
    let best = why[0].arms.iter().find(|arm| arm.policy == PolicyName::Sjf).expect("an arm");
    assert!(best.speedup_low <= best.speedup && best.speedup <= best.speedup_high);
}

#[test]
fn a_class_that_comes_back_after_it_was_forgotten_says_what_it_has() {
    let mut auto = fresh(true);
    let said = |auto: &mut Auto, at: u64| {
        auto.submitted(Timestamp(at), &request(7, 0, 0, 8192, true));
        auto.decide(Timestamp(at + 20_000_000))
    };
    assert_eq!(said(&mut auto, 0), None);
    auto.forget(ClassId(7));
    let start = auto.start();
    let switch = said(&mut auto, 1_000_000_000).expect("the scheduler may have another policy");
    assert_eq!((switch.part, switch.policy), (Part::Class(ClassId(7)), start));
}

#[test]
fn with_nothing_to_gain_it_begins_with_to() {
    let tree = stump(PolicyName::Sjf, &[(PolicyName::Sjf, 1.02)]);
    assert_eq!(Auto::new(options(&tree)).start(), PolicyName::To);
    // Good for reads, but a disaster for writes.
    let (good, bad) = (leaf(PolicyName::Sjf, &[(PolicyName::Sjf, 4.0)]), [(PolicyName::Sjf, 0.5)]);
    let tree = by_direction(leaf(PolicyName::To, &bad), good);
    assert_eq!(Auto::new(options(&tree)).start(), PolicyName::To);
    let tree = stump(PolicyName::Sjf, &[(PolicyName::Sjf, 1.2)]);
    assert_eq!(Auto::new(options(&tree)).start(), PolicyName::Sjf);
}

#[test]
fn the_start_counts_patterns_and_not_situations() {
    // SJF is a little better for reads, of which the training saw many; aIOLi far better for writes.
    let mut reads = leaf(PolicyName::Sjf, &[(PolicyName::Sjf, 1.3), (PolicyName::Aioli, 1.1)]);
    let mut writes = leaf(PolicyName::Aioli, &[(PolicyName::Sjf, 1.0), (PolicyName::Aioli, 2.0)]);
    (reads.support, writes.support) = (1000, 1);
    let tree = by_direction(writes, reads);
    assert_eq!(Auto::new(options(&tree)).start(), PolicyName::Aioli);
}

/// What it says until it has nothing more to say.
fn said(auto: &mut Auto, now: u64) -> Vec<Switch> {
    std::iter::from_fn(|| auto.decide(Timestamp(now))).take(1000).collect()
}

#[test]
fn classes_beyond_those_that_are_watched_have_to_or_what_is_pinned() {
    const CLASSES: u32 = 128;
    const WATCHED: usize = 64;
    let tree = stump(PolicyName::Sjf, &[(PolicyName::Sjf, 1.5)]);
    let mut auto = Auto::new(forebay_select::AutoOptions { by_class: true, ..options(&tree) });
    assert_eq!(auto.start(), PolicyName::Sjf);
    let of = |class: u32| request(class, 0, 0, 8192, true);
    let class_of = |switch: &Switch| match switch.part {
        Part::Class(class) => class.0,
        Part::All => panic!("{switch:?} with classes"),
    };
    // Two rounds: classes do not take each other's parts away.
    for now in [0, 1_000_000] {
        for class in 0..CLASSES {
            auto.submitted(Timestamp(now), &of(class));
            auto.dispatched(Timestamp(now), ClassId(class), 1);
        }
    }
    let to = said(&mut auto, 2_000_000);
    assert_eq!(to.iter().map(class_of).collect::<Vec<_>>(), (64..CLASSES).collect::<Vec<_>>());
    let is_safe = |switch: &Switch| switch.policy == PolicyName::To;
    assert!(to.iter().all(|it| is_safe(it) && it.reason == SwitchReason::Unwatched), "{to:?}");
    // A pin of all is for everybody, and one of a class goes before it.
    auto.pin(Part::All, Some(PolicyName::Hbrr));
    auto.pin(Part::Class(ClassId(100)), Some(PolicyName::Mlf));
    let pinned = said(&mut auto, 3_000_000);
    let mut classes: Vec<u32> = pinned.iter().map(class_of).collect();
    classes.sort_unstable();
    assert_eq!(classes, (0..CLASSES).collect::<Vec<_>>());
    for switch in &pinned {
        let own = class_of(switch) == 100;
        let policy = if own { PolicyName::Mlf } else { PolicyName::Hbrr };
        assert_eq!((switch.policy, switch.reason), (policy, SwitchReason::Pinned), "{switch:?}");
    }
    auto.pin(Part::All, None);
    let released = said(&mut auto, 4_000_000);
    assert_eq!(released.len(), CLASSES as usize - 1, "all but the one with a pin of its own");
    assert!(released.iter().all(|switch| switch.reason != SwitchReason::Pinned));
    let why = auto.why(Timestamp(4_000_000));
    let is_unwatched = |reason| reason == SwitchReason::Unwatched;
    assert_eq!(why.len(), CLASSES as usize);
    assert_eq!(why.iter().filter(|it| is_unwatched(it.reason)).count(), WATCHED - 1);
    let of_100 = why.iter().find(|it| it.part == Part::Class(ClassId(100))).unwrap();
    assert_eq!((of_100.policy, of_100.pinned), (PolicyName::Mlf, Some(PolicyName::Mlf)));
    // Once a class is idle, another one is watched in its place.
    for _ in 0..2 {
        auto.ended(Timestamp(5_000_000), &of(7), Bytes(8192), true);
    }
    auto.submitted(Timestamp(2_000_000_000), &of(99));
    let moved = said(&mut auto, 2_000_000_000);
    assert!(moved.iter().any(|it| class_of(it) == 7 && is_unwatched(it.reason)), "{moved:?}");
    let is_watched = |class| {
        let why = auto.why(Timestamp(2_000_000_000));
        !is_unwatched(why.iter().find(|it| it.part == Part::Class(ClassId(class))).unwrap().reason)
    };
    assert!(is_watched(99) && !is_watched(7) && !is_watched(98));
}

#[test]
fn a_pin_of_the_policy_in_force_is_said_for_it_may_be_built_otherwise() {
    let tree = stump(PolicyName::Hbrr, &[(PolicyName::Hbrr, 1.5)]);
    let mut auto = Auto::new(options(&tree));
    assert_eq!(auto.start(), PolicyName::Hbrr);
    auto.submitted(Timestamp(0), &request(0, 0, 0, 8192, true));
    assert_eq!(said(&mut auto, 0), []);
    let pinned = Switch { part: Part::All, policy: PolicyName::Hbrr, reason: SwitchReason::Pinned };
    for _ in 0..2 {
        auto.pin(Part::All, Some(PolicyName::Hbrr));
        assert_eq!(said(&mut auto, 1), [pinned]);
        assert_eq!(said(&mut auto, 1), []);
    }
    auto.pin(Part::All, None);
    let released = said(&mut auto, 2);
    assert_eq!(released.len(), 1);
    assert_ne!(released[0].reason, SwitchReason::Pinned);
}
