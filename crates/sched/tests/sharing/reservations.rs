//! Reservations: kept whatever else is going on, and what is over is shared by weight.

use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, GroupId, Pick, Rate, Reserved, Share, Shares, SharingSettings,
};
use forebay_units::{ClassId, Nanos, Timestamp};
use proptest::prelude::*;

use crate::bed::{
    Bed, Event, Service, Sizes, Source, What, bytes_of, one_batch_each, read, unfairness,
};
use crate::sfq::settings;

const SECOND: i128 = 1_000_000_000;
/// What the bed's device carries in a second at speed 1,000.
const CAPACITY: u64 = 1_000_000_000;

fn source(low: u64, high: u64) -> Source {
    Source { sizes: Sizes::Between(low, high), spells: None }
}

fn reserved(weight: u64, reservation: u64) -> ClassShare {
    let share = Share { weight: weight as u32, ..Share::default() };
    ClassShare { share, reservation, group: None }
}

fn shares(discipline: Discipline, of: &[ClassShare]) -> Shares {
    let mut shares =
        Shares::new(SharingSettings { capacity: Some(CAPACITY), ..settings(discipline) });
    for (class, share) in of.iter().enumerate() {
        shares.configure(Timestamp(0), ClassId(class as u32), *share).expect("it is in range");
    }
    shares
}

/// By how much a class fell short of `rate · t`, over every interval from one event on.
fn shortfall(log: &[Event], class: usize, rate: u64) -> i128 {
    let (mut behind, mut served, mut worst) = (i128::MAX, 0i128, i128::MIN);
    for event in log {
        let owed = i128::from(event.at) * i128::from(rate);
        // The interval may end just before this batch, and begin at any earlier event.
        behind = behind.min(owed - served);
        worst = worst.max(owed - served - behind);
        if let What::Dispatched(size) = event.what
            && event.class == class
        {
            served += i128::from(size) * SECOND;
        }
    }
    worst / SECOND
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn who_always_wants_gets_what_is_reserved(
        parts in prop::collection::vec((1u64..300_000_000, 1u64..20, 1u64..1_000_000), 1..4),
        other in (1u64..1_000, 1u64..2_000_000), depth in 1usize..9, seed: u64,
        discipline in prop_oneof![Just(Discipline::Sfq), Just(Discipline::Drr)],
    ) {
        let mut classes: Vec<ClassShare> =
            parts.iter().map(|(rate, weight, _)| reserved(*weight, *rate)).collect();
        let mut sources: Vec<Source> = parts.iter().map(|(_, _, size)| source(1, *size)).collect();
        // Somebody with a large weight and no reservation, and somebody who comes and goes.
        classes.push(reserved(other.0, 0));
        sources.push(source(1, other.1));
        classes.push(reserved(1, 50_000_000));
        sources.push(Source { sizes: Sizes::Between(1, other.1), spells: Some((4, 3_000_000)) });
        let max = sources.iter().map(|source| source.sizes.max()).max().expect("some");
        let log = Bed::new(sources, depth, seed).run(&mut shares(discipline, &classes), 600, Nanos::secs(1_000));
        for (class, (rate, _, _)) in parts.iter().enumerate() {
            // What is in flight when an interval begins, one batch of another, and one of each class that is due as well.
            let bound = i128::from(max) * (depth as i128 + 1 + parts.len() as i128);
            let worst = shortfall(&log, class, *rate);
            prop_assert!(worst <= bound, "class {class}: {worst} of {bound}");
        }
    }

    #[test]
    fn a_limit_is_kept_beside_a_reservation(
        rate in 1_000_000u64..300_000_000, above in 1u64..200_000_000, size in 1u64..1_000_000, seed: u64,
    ) {
        let limit = Rate { per_second: rate + above, burst: 0 };
        let mut limited = reserved(50, rate);
        (limited.share.cost, limited.share.at_limit) = (Some(limit), AtLimit::Wait);
        let mut shares = shares(Discipline::Sfq, &[limited, reserved(1, 0)]);
        let bed = Bed::new(vec![source(1, size), source(1, 1_000_000)], 3, seed);
        let log = bed.run(&mut shares, 500, Nanos::secs(1_000));
        let (mut served, mut lowest) = (0i128, i128::MAX);
        for event in &log {
            if let (What::Dispatched(bytes), 0) = (event.what, event.class) {
                let free = i128::from(event.at) * i128::from(limit.per_second);
                lowest = lowest.min(served - free);
                served += i128::from(bytes) * SECOND;
                prop_assert!(served - free - lowest <= i128::from(size) * SECOND);
            }
        }
    }

    #[test]
    fn what_is_over_is_shared_by_weight(
        weights in (1u64..20, 1u64..20, 1u64..20), sizes in (1u64..500_000, 1u64..500_000, 1u64..500_000),
        rate in 1_000_000u64..500_000_000, depth in 1usize..9, seed: u64,
    ) {
        let mut shares = shares(
            Discipline::Sfq,
            &[reserved(weights.0, rate), reserved(weights.1, 0), reserved(weights.2, 0)],
        );
        // The reserved class has batches of one size, so that what it had by reservation is known.
        let sources = vec![source(sizes.0, sizes.0), source(1, sizes.1), source(1, sizes.2)];
        let log = Bed::new(sources, depth, seed).run(&mut shares, 500, Nanos::secs(1_000));
        let pair = [weights.1, weights.2];
        let bound = one_batch_each([sizes.1, sizes.2], pair) + 1;
        prop_assert!(unfairness(&log, [1, 2], pair, Service::Dispatched) <= bound);
        let now = Timestamp(log.last().expect("some").at);
        let by_reservation = shares.stats(now, ClassId(0)).expect("it is known").reserved * sizes.0;
        let by_weight = i128::from(bytes_of(&log, 0) - by_reservation);
        let pair = [weights.0, weights.1];
        let lead = by_weight * i128::from(pair[1]) - i128::from(bytes_of(&log, 1)) * i128::from(pair[0]);
        prop_assert!(lead.abs() <= one_batch_each([sizes.0, sizes.1], pair) + 1, "{lead}");
    }
}

/// A clock that is set to the present at every batch forgets what is owed whenever others' batches
/// take longer than its own are apart.
#[test]
fn small_reserved_batches_hold_their_own_against_large_ones() {
    let half = CAPACITY / 2;
    let mut shares = shares(Discipline::Sfq, &[reserved(1, half), reserved(1_000, 0)]);
    let bed = Bed::new(vec![source(4_096, 4_096), source(4 << 20, 4 << 20)], 2, 0);
    let log = bed.run(&mut shares, u64::MAX, Nanos::secs(1));
    assert!(bytes_of(&log, 0) > half - 4 * (4 << 20), "{}", bytes_of(&log, 0));
    // The naive clock on the same device: one small batch, then a large one, and so on.
    let (mut clock, mut now, mut had) = (0u64, 0u64, 0u64);
    while now < 1_000_000_000 {
        if clock <= now {
            (clock, had) = (clock.max(now) + 4_096 * 2, had + 4_096);
            now += 4_096;
        } else {
            now += 4 << 20;
        }
    }
    assert!(had < half / 100, "{had}");
}

#[test]
fn an_idle_class_saves_no_reservation() {
    let mut shares = shares(Discipline::Sfq, &[reserved(1, 100_000_000), reserved(1, 0)]);
    shares.ready(Timestamp(0), ClassId(1));
    let later = Timestamp(3_600_000_000_000);
    shares.ready(later, ClassId(0));
    let mut by_reservation = 0;
    for _ in 0..100 {
        let Pick::Class(class) = shares.pick(later) else { panic!("both are ready") };
        shares.charge(later, class, read(10_000));
        by_reservation = shares.stats(later, ClassId(0)).expect("it is known").reserved;
    }
    assert_eq!(by_reservation, 1, "an hour of absence is no hour of reservation");
}

#[test]
fn what_leaves_after_a_hold_was_not_picked() {
    let mut shares = shares(Discipline::Sfq, &[reserved(1, 100_000_000)]);
    shares.ready(Timestamp(0), ClassId(0));
    assert_eq!(shares.pick(Timestamp(0)), Pick::Class(ClassId(0)));
    shares.hold(Timestamp(0), ClassId(0), Timestamp(10));
    // A boosted request: it goes to the weight.
    shares.charge(Timestamp(1), ClassId(0), read(1_000));
    assert_eq!(shares.stats(Timestamp(1), ClassId(0)).expect("it is known").reserved, 0);
}

#[test]
fn too_many_reservations_are_scaled_down_and_reported() {
    let mut shares = shares(
        Discipline::Sfq,
        &[reserved(1, 600_000_000), reserved(1, 1_200_000_000), reserved(1_000, 0)],
    );
    assert_eq!(shares.reserved(), Reserved { total: 1_800_000_000, is_overcommitted: true });
    let bed = Bed::new((0..3).map(|_| source(10_000, 50_000)).collect(), 2, 5);
    let log = bed.run(&mut shares, u64::MAX, Nanos::secs(1));
    let part = |class| bytes_of(&log, class) as f64 / CAPACITY as f64;
    assert!((0.32..=0.34).contains(&part(0)), "{}", part(0));
    assert!((0.65..=0.68).contains(&part(1)), "{}", part(1));
    shares.configure(Timestamp(1_000_000_000), ClassId(1), reserved(1, 0)).expect("it is in range");
    assert_eq!(shares.reserved(), Reserved { total: 600_000_000, is_overcommitted: false });
}

#[test]
fn a_reservation_in_a_group_is_kept_within_the_groups_limit() {
    for (limit, low, high) in [(None, 0.49, 0.52), (Some(200_000_000), 0.19, 0.21)] {
        let mut shares = shares(Discipline::Sfq, &[]);
        let bytes = limit.map(Rate::bytes);
        let group = Share { bytes, at_limit: AtLimit::Wait, ..Share::default() };
        shares.configure_group(Timestamp(0), GroupId(1), group).expect("it is in range");
        let inside = ClassShare { group: Some(GroupId(1)), ..reserved(1, 500_000_000) };
        let beside = ClassShare { group: Some(GroupId(1)), ..reserved(1, 0) };
        for (class, share) in [inside, beside, reserved(1_000, 0)].into_iter().enumerate() {
            shares.configure(Timestamp(0), ClassId(class as u32), share).expect("it is in range");
        }
        let bed = Bed::new((0..3).map(|_| source(10_000, 50_000)).collect(), 2, 5);
        let log = bed.run(&mut shares, u64::MAX, Nanos::secs(1));
        let part = bytes_of(&log, 0) as f64 / CAPACITY as f64;
        assert!((low..=high).contains(&part), "{limit:?}: {part}");
    }
}

#[test]
fn who_loses_its_reservation_between_turn_and_charge_is_charged_to_its_weight() {
    let mut shares = shares(Discipline::Sfq, &[reserved(1, 1_000)]);
    shares.ready(Timestamp(0), ClassId(0));
    assert_eq!(shares.pick(Timestamp(0)), Pick::Class(ClassId(0)));
    shares.configure(Timestamp(0), ClassId(0), reserved(1, 0)).expect("it is in range");
    shares.charge(Timestamp(0), ClassId(0), read(1_000));
    let stats = shares.stats(Timestamp(0), ClassId(0)).expect("it is known");
    assert_eq!((stats.batches, stats.reserved), (1, 0));
}
