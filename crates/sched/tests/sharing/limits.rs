//! Limits: exact over any interval, by operations, bytes and cost, of classes and of groups.

use forebay_sched::sharing::{
    AtLimit, ClassShare, CostModel, Discipline, GroupId, Pick, Rate, Share, ShareError, Shares,
    SharingSettings, Tariff, Work,
};
use forebay_units::{Bytes, ClassId, Direction, Nanos, Timestamp};
use proptest::prelude::*;

use crate::bed::{Bed, Event, Random, Sizes, Source, What, bytes_of, read};
use crate::sfq::settings;

const SECOND: u128 = 1_000_000_000;

fn hard(ops: Option<Rate>, bytes: Option<Rate>) -> ClassShare {
    let share = Share { ops, bytes, at_limit: AtLimit::Wait, ..Share::default() };
    ClassShare { share, ..ClassShare::default() }
}

fn always(low: u64, high: u64) -> Source {
    Source { sizes: Sizes::Between(low, high), spells: None }
}

fn with(share: ClassShare, discipline: Discipline) -> Shares {
    let mut shares = Shares::new(settings(discipline));
    shares.configure(Timestamp(0), ClassId(0), share).expect("it is in range");
    shares
}

/// By how much any interval of the log holds more than `burst + rate · t + max`, in units times 10^9;
/// `units` says what an event of class 0 counts.
fn excess(log: &[Event], rate: Rate, max: u64, units: impl Fn(&Event) -> u64) -> i128 {
    let (mut served, mut lowest, mut worst) = (0i128, i128::MAX, i128::MIN);
    for event in log.iter().filter(|event| units(event) > 0) {
        // `served − rate · t` may rise by at most the burst and one batch, from before any event on.
        let free = i128::from(event.at) * i128::from(rate.per_second);
        lowest = lowest.min(served - free);
        served += i128::from(units(event)) * SECOND as i128;
        worst = worst.max(served - free - lowest);
    }
    worst - i128::from(rate.burst + max) * SECOND as i128
}

fn bytes(event: &Event) -> u64 {
    match event.what {
        What::Dispatched(size) if event.class == 0 => size,
        _ => 0,
    }
}

fn ops(event: &Event) -> u64 {
    u64::from(bytes(event) > 0)
}

/// Dispatches one unit after the other as long as that is allowed now; how many.
fn serve(shares: &mut Shares, now: u64) -> u64 {
    let mut count = 0;
    while let Pick::Class(class) = shares.pick(Timestamp(now)) {
        shares.charge(Timestamp(now), class, read(1));
        count += 1;
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn no_interval_holds_more_than_the_burst_the_rate_and_one_batch(
        rate in 1_000_000u64..2_000_000_000, burst in prop_oneof![Just(0), 0u64..4_000_000], ops_rate in 10u64..100_000,
        size in 1u64..2_000_000, is_steady: bool, spells in prop_oneof![Just(None), (1u64..40, 0u64..50_000_000).prop_map(Some)],
        discipline in prop_oneof![Just(Discipline::Sfq), Just(Discipline::Drr)], seed: u64,
    ) {
        let by_bytes = Rate { per_second: rate, burst };
        let by_ops = Rate::ops(ops_rate);
        let mut shares = with(hard(Some(by_ops), Some(by_bytes)), discipline);
        let source = Source { sizes: Sizes::Between(if is_steady { size } else { 1 }, size), spells };
        // A second class keeps the device from idling, and is not slowed down.
        let bed = Bed { speed: 10_000, ..Bed::new(vec![source, always(1, 100_000)], 4, seed) };
        let log = bed.run(&mut shares, 600, Nanos::secs(3));
        let largest = log.iter().map(bytes).max().expect("something left");
        prop_assert!(excess(&log, by_bytes, largest, bytes) <= 0);
        prop_assert!(excess(&log, by_ops, 1, ops) <= 0);
    }

    #[test]
    fn who_always_wants_gets_the_rate(
        rate in 1_000_000u64..1_000_000_000, burst in 0u64..4_000_000, size in 1u64..2_000_000, seed: u64,
    ) {
        let limit = Rate { per_second: rate, burst };
        let mut shares = with(hard(None, Some(limit)), Discipline::Sfq);
        let bed = Bed { speed: 100_000, ..Bed::new(vec![always(1, size)], 4, seed) };
        let log = bed.run(&mut shares, 500, Nanos::secs(100));
        let end = log.last().expect("something was dispatched").at;
        let least = u128::from(end) * u128::from(rate) / SECOND;
        let served = u128::from(bytes_of(&log, 0) + burst + size);
        prop_assert!(served >= least, "{served} of {least}");
    }

    /// What is used up is kept in units, so that changing a rate to and fro is no way around it.
    #[test]
    fn a_rate_changed_many_times_gives_nothing_away(
        rates in prop::collection::vec(1_000_000u64..100_000_000, 1..40), size in 1u64..100_000, seed: u64,
    ) {
        let burst = 200_000;
        let share = |rate| hard(None, Some(Rate { per_second: rate, burst }));
        let mut shares = with(share(rates[0]), Discipline::Sfq);
        let (mut random, mut now, mut taken) = (Random(seed), 0u64, 0u128);
        // Units times 10^9 that the rates have given, and the most that intervals from the start hold.
        let mut given = 0u128;
        shares.ready(Timestamp(0), ClassId(0));
        for rate in &rates {
            shares.configure(Timestamp(now), ClassId(0), share(*rate)).expect("it is in range");
            let end = now + random.between(1, 5_000_000);
            loop {
                match shares.pick(Timestamp(now)) {
                    Pick::Class(class) => {
                        shares.charge(Timestamp(now), class, read(size));
                        taken += u128::from(size) * SECOND;
                        let most = given + u128::from(burst + size) * SECOND;
                        prop_assert!(taken <= most, "{taken} of {most}");
                    }
                    Pick::Wait { until } => {
                        let next = until.0.min(end);
                        given += u128::from(next - now) * u128::from(*rate);
                        now = next;
                        if now == end {
                            break;
                        }
                    }
                    Pick::Idle => unreachable!("the class always wants something"),
                }
            }
        }
        let least = given.saturating_sub(u128::from(burst + size) * SECOND);
        prop_assert!(taken >= least, "{taken}, at least {least}");
    }

    /// The remainder test: asking a thousand times at odd moments gives exactly what asking once gives.
    #[test]
    fn many_small_questions_add_up_to_one_large(
        rate in 1u64..50_000, burst in 0u64..4, gaps in prop::collection::vec(1u64..1_000_000, 1..300),
    ) {
        let share = hard(Some(Rate { per_second: rate, burst }), None);
        // The burst and one beyond at the start, then one each 1/rate.
        let exact = |now: u64| burst + 1 + (u128::from(now) * u128::from(rate) / SECOND) as u64;
        let mut often = with(share, Discipline::Sfq);
        often.ready(Timestamp(0), ClassId(0));
        let mut count = 0u64;
        let mut now = 0;
        count += serve(&mut often, now);
        for gap in gaps {
            // Every moment at which something is free is visited, and the odd one besides.
            let next = now + gap;
            while let Pick::Wait { until } = often.pick(Timestamp(now))
                && until.0 <= next
            {
                now = until.0;
                count += serve(&mut often, now);
                // Without a burst, what is left of a nanosecond is lost; never gained.
                let is_right = if burst > 0 { count == exact(now) } else { count <= exact(now) };
                prop_assert!(is_right, "{count} of {} at the very nanosecond", exact(now));
            }
            now = next;
            count += serve(&mut often, now);
            prop_assert!(count <= exact(now) && (burst == 0 || count == exact(now)));
        }
    }

    /// Several front ends ask and charge by turns; there is one bucket behind them.
    #[test]
    fn front_ends_share_one_bucket(
        front_ends in 1usize..9, rate in 10_000_000u64..500_000_000, size in 1_000u64..1_000_000, seed: u64,
    ) {
        let limit = Rate::bytes(rate);
        let mut shares = with(hard(None, Some(limit)), Discipline::Sfq);
        let mut random = Random(seed);
        let mut log = Vec::new();
        let mut ask_at = vec![0u64; front_ends];
        while log.len() < 600 {
            let front_end = (0..front_ends).min_by_key(|index| ask_at[*index]).expect("some");
            let now = ask_at[front_end];
            shares.ready(Timestamp(now), ClassId(0));
            ask_at[front_end] = match shares.pick(Timestamp(now)) {
                Pick::Class(class) => {
                    shares.charge(Timestamp(now), class, read(size));
                    log.push(Event { at: now, class: 0, what: What::Dispatched(size) });
                    now
                }
                Pick::Wait { until } => until.0 + random.between(0, 50_000),
                Pick::Idle => unreachable!("the class always wants something"),
            };
        }
        prop_assert!(excess(&log, limit, size, bytes) <= 0);
        // Late questions cost nothing while they are shorter than the burst.
        let end = log.last().expect("some").at;
        let least = (u128::from(end) * u128::from(rate) / SECOND) as u64;
        prop_assert!(bytes_of(&log, 0) + limit.burst + size >= least);
    }
}

/// A bucket that refills in whole units at each question throws the rest away.
#[test]
fn the_remainder_test_finds_a_bucket_that_forgets_remainders() {
    let (rate, step, steps) = (333u64, 1_000_000u64, 10_000u64);
    let naive: u64 = (0..steps).map(|_| rate * step / 1_000_000_000).sum();
    assert_eq!(naive, 0, "less than one unit a step: nothing is ever given");
    let share = hard(Some(Rate { per_second: rate, burst: 3 }), None);
    let mut shares = with(share, Discipline::Sfq);
    shares.ready(Timestamp(0), ClassId(0));
    let count: u64 = (0..=steps).map(|number| serve(&mut shares, number * step)).sum();
    assert_eq!(
        count,
        rate * step * steps / 1_000_000_000 + 4,
        "the burst, one beyond, and the rate"
    );
}

#[test]
fn a_hard_limit_is_kept_within_a_fiftieth() {
    let mut shares = with(hard(None, Some(Rate::bytes(100_000_000))), Discipline::Sfq);
    let bed = Bed::new(vec![always(4_096, 1 << 20)], 4, 7);
    let log = bed.run(&mut shares, u64::MAX, Nanos::secs(5));
    let share = bytes_of(&log, 0) as f64 / 500_000_000.0;
    assert!((0.98..=1.02).contains(&share), "{share}");
    let stats = shares.stats(Timestamp(5_000_000_000), ClassId(0)).expect("it is known");
    assert!(stats.throttled > 100, "{stats:?}");
    assert!(stats.throttled_time > Nanos::secs(4), "the device needs less than 1 s: {stats:?}");
    assert_eq!(stats.borrowed, 0);
}

#[test]
fn a_soft_limit_does_not_let_the_device_idle() {
    let mut share = hard(None, Some(Rate::bytes(1_000_000)));
    share.share.at_limit = AtLimit::Borrow;
    let mut shares = with(share, Discipline::Sfq);
    // Alone it has the device, one batch at a time.
    let bed = Bed::new(vec![always(100_000, 100_000)], 4, 7);
    let log = bed.run(&mut shares, u64::MAX, Nanos::secs(1));
    assert!(bytes_of(&log, 0) > 990_000_000, "{}", bytes_of(&log, 0));
    let stats = shares.stats(Timestamp(1_000_000_000), ClassId(0)).expect("it is known");
    assert!(stats.borrowed > 9_000, "{stats:?}");
    // Beside another it has its limit, and what it owes is paid within a moment.
    let mut shares = with(share, Discipline::Sfq);
    let busy = Bed::new(vec![always(100_000, 100_000), always(100_000, 100_000)], 4, 7);
    let log = busy.run(&mut shares, u64::MAX, Nanos::secs(1));
    assert!(bytes_of(&log, 0) <= 1_000_000 + (1 << 20) + 2 * 100_000, "{}", bytes_of(&log, 0));
}

#[test]
fn what_was_borrowed_delays_by_a_tenth_of_a_second_at_most() {
    let mut share = hard(None, Some(Rate { per_second: 1_000_000, burst: 0 }));
    share.share.at_limit = AtLimit::Borrow;
    let mut shares = with(share, Discipline::Sfq);
    shares.ready(Timestamp(0), ClassId(0));
    for now in 0..1_000 {
        assert_eq!(shares.pick(Timestamp(now)), Pick::Class(ClassId(0)));
        shares.charge(Timestamp(now), ClassId(0), read(1 << 20));
        shares.complete(Timestamp(now), ClassId(0), 1);
    }
    shares.charge(Timestamp(1_000), ClassId(1), read(1));
    let Pick::Wait { until } = shares.pick(Timestamp(1_000)) else { panic!("it is at its limit") };
    assert!(until <= Timestamp(1_000) + Nanos::millis(100), "{until:?}");
}

#[test]
fn the_one_that_waited_longest_borrows_first() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let mut share = hard(None, Some(Rate { per_second: 1_000_000, burst: 0 }));
    share.share.at_limit = AtLimit::Borrow;
    for class in 0..4 {
        shares.configure(Timestamp(0), ClassId(class), share).expect("it is in range");
        shares.ready(Timestamp(0), ClassId(class));
    }
    let mut had = [0; 4];
    for now in 0..4_000 {
        let Pick::Class(class) = shares.pick(Timestamp(now)) else { panic!("somebody borrows") };
        shares.charge(Timestamp(now), class, read(1_000));
        shares.complete(Timestamp(now), class, 1);
        had[class.0 as usize] += 1;
    }
    assert!(had.iter().all(|count| (990..=1_010).contains(count)), "{had:?}");
}

#[test]
fn a_group_is_limited_as_a_whole_and_softness_needs_both() {
    for (of_class, of_group) in [
        (AtLimit::Wait, AtLimit::Wait),
        (AtLimit::Borrow, AtLimit::Wait),
        (AtLimit::Borrow, AtLimit::Borrow),
    ] {
        let mut shares = Shares::new(settings(Discipline::Sfq));
        let limit = Some(Rate::bytes(50_000_000));
        let group = Share { bytes: limit, at_limit: of_group, ..Share::default() };
        shares.configure_group(Timestamp(0), GroupId(9), group).expect("it is in range");
        for class in 0..3 {
            let mut share = hard(None, Some(Rate::bytes(40_000_000)));
            (share.group, share.share.at_limit) = (Some(GroupId(9)), of_class);
            shares.configure(Timestamp(0), ClassId(class), share).expect("it is in range");
        }
        let bed = Bed::new((0..3).map(|_| always(10_000, 100_000)).collect(), 4, 3);
        let log = bed.run(&mut shares, u64::MAX, Nanos::secs(2));
        let all: u64 = (0..3).map(|class| bytes_of(&log, class)).sum();
        let stats = shares.group_stats(Timestamp(2_000_000_000), GroupId(9)).expect("it is known");
        if of_group == AtLimit::Wait {
            assert!((98_000_000..=102_000_000).contains(&all), "{of_class:?}: {all}");
            assert!(stats.throttled > 0 && stats.throttled_time > Nanos::secs(1), "{stats:?}");
        } else {
            assert!(all > 1_900_000_000, "{all}");
        }
    }
}

#[test]
fn a_class_with_a_hard_limit_in_a_soft_group_keeps_it() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let group = Share { bytes: Some(Rate::bytes(10_000_000)), ..Share::default() };
    shares.configure_group(Timestamp(0), GroupId(1), group).expect("it is in range");
    let mut share = hard(None, Some(Rate::bytes(20_000_000)));
    share.group = Some(GroupId(1));
    shares.configure(Timestamp(0), ClassId(0), share).expect("it is in range");
    let bed = Bed::new(vec![always(100_000, 100_000)], 4, 3);
    let log = bed.run(&mut shares, u64::MAX, Nanos::secs(2));
    assert!((39_000_000..=41_200_000).contains(&bytes_of(&log, 0)), "{}", bytes_of(&log, 0));
}

#[test]
fn a_group_whose_share_is_taken_back_is_like_any_other() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let bytes = Some(Rate { per_second: 1_000, burst: 0 });
    let group = Share { bytes, at_limit: AtLimit::Wait, ..Share::default() };
    shares.configure_group(Timestamp(0), GroupId(1), group).expect("it is in range");
    let inside = ClassShare { group: Some(GroupId(1)), ..ClassShare::default() };
    shares.configure(Timestamp(0), ClassId(0), inside).expect("it is in range");
    shares.ready(Timestamp(0), ClassId(0));
    shares.charge(Timestamp(0), ClassId(0), read(1_000));
    assert_eq!(shares.pick(Timestamp(1)), Pick::Wait { until: Timestamp(1_000_000_000) });
    shares.remove_group(Timestamp(1), GroupId(1)).expect("it was known");
    assert_eq!(shares.pick(Timestamp(2)), Pick::Class(ClassId(0)));
    assert!(shares.group_stats(Timestamp(2), GroupId(1)).is_some(), "it still has a class");
}

#[test]
fn a_group_made_hard_stops_its_borrowers() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let mut soft = hard(None, Some(Rate { per_second: 1_000, burst: 0 }));
    (soft.group, soft.share.at_limit) = (Some(GroupId(1)), AtLimit::Borrow);
    shares.configure(Timestamp(0), ClassId(0), soft).expect("it is in range");
    shares.ready(Timestamp(0), ClassId(0));
    shares.charge(Timestamp(0), ClassId(0), read(1_000));
    shares.complete(Timestamp(0), ClassId(0), 1);
    assert_eq!(shares.pick(Timestamp(1)), Pick::Class(ClassId(0)), "it borrows");
    let group = Share { at_limit: AtLimit::Wait, ..Share::default() };
    shares.configure_group(Timestamp(1), GroupId(1), group).expect("it is in range");
    assert_eq!(shares.pick(Timestamp(1)), Pick::Wait { until: Timestamp(1_000_000_000) });
}

#[test]
fn a_limit_by_cost_bounds_the_time_of_the_device() {
    let cost =
        CostModel::both(Tariff { per_batch: 7_000_000, per_request: 0, per_mib: 18_396_000 });
    let mut shares = Shares::new(SharingSettings { cost, ..settings(Discipline::Sfq) });
    // A fifth of the device's time.
    let limit = Rate { per_second: 200_000_000, burst: 0 };
    let share = Share { cost: Some(limit), at_limit: AtLimit::Wait, ..Share::default() };
    let share = ClassShare { share, ..ClassShare::default() };
    shares.configure(Timestamp(0), ClassId(0), share).expect("it is in range");
    shares.ready(Timestamp(0), ClassId(0));
    let (mut now, mut count) = (0, 0u64);
    while now < 100_000_000_000 {
        match shares.pick(Timestamp(now)) {
            Pick::Class(class) => {
                shares.charge(Timestamp(now), class, read(4_096));
                count += 1;
            }
            Pick::Wait { until } => now = until.0,
            Pick::Idle => unreachable!("the class always wants something"),
        }
    }
    let time = count * cost.cost(read(4_096));
    assert!((19_900_000_000..=20_100_000_000).contains(&time), "{time}");
}

#[test]
fn a_boosted_request_is_debt_of_the_class_that_it_belongs_to() {
    let mut shares = with(hard(Some(Rate { per_second: 10, burst: 0 }), None), Discipline::Sfq);
    shares.ready(Timestamp(0), ClassId(0));
    assert_eq!(shares.pick(Timestamp(0)), Pick::Class(ClassId(0)));
    shares.charge(Timestamp(0), ClassId(0), read(1));
    assert!(!shares.admits(Timestamp(1), ClassId(0)));
    assert!(shares.admits(Timestamp(1), ClassId(1)));
    // Two more leave because others wait for them: 100 ms each on top.
    shares.charge(Timestamp(1), ClassId(0), read(1));
    shares.charge(Timestamp(1), ClassId(0), read(1));
    assert_eq!(shares.pick(Timestamp(1)), Pick::Wait { until: Timestamp(300_000_000) });
    assert_eq!(shares.pick(Timestamp(300_000_000)), Pick::Class(ClassId(0)));
}

#[test]
fn a_correction_reaches_limits_and_turns() {
    let mut shares =
        with(hard(None, Some(Rate { per_second: 1_000_000, burst: 0 })), Discipline::Sfq);
    shares.ready(Timestamp(0), ClassId(0));
    let unknown = Work { direction: Direction::Write, requests: 1, bytes: Bytes(0) };
    shares.charge(Timestamp(0), ClassId(0), unknown);
    let known = Work { bytes: Bytes(500_000), ..unknown };
    shares.amend(Timestamp(0), ClassId(0), unknown, known);
    assert_eq!(shares.pick(Timestamp(0)), Pick::Wait { until: Timestamp(500_000_000) });
    // It failed after all.
    shares.amend(Timestamp(0), ClassId(0), known, unknown);
    assert_eq!(shares.pick(Timestamp(1)), Pick::Class(ClassId(0)));
    // A correction that changes nothing takes nothing, long after the charge was paid.
    shares.amend(Timestamp(9_000_000_000), ClassId(0), known, known);
    assert_eq!(shares.pick(Timestamp(9_000_000_000)), Pick::Class(ClassId(0)));
    // The turn is moved as well: class 1 is charged again what it gave back.
    let now = Timestamp(9_000_000_000);
    shares.configure(now, ClassId(0), ClassShare::default()).expect("it is in range");
    shares.ready(now, ClassId(1));
    shares.charge(now, ClassId(1), known);
    assert_eq!(shares.pick(now), Pick::Class(ClassId(0)));
    shares.charge(now, ClassId(0), read(100_000));
    assert_eq!(shares.pick(now), Pick::Class(ClassId(0)));
    shares.amend(now, ClassId(1), known, unknown);
    assert_eq!(shares.pick(now), Pick::Class(ClassId(1)));
    assert_eq!(shares.stats(now, ClassId(1)).expect("it is known").bytes, Bytes(0));
}

#[test]
fn numbers_out_of_range_are_refused_and_change_nothing() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let mut refused = |share: ClassShare, error: ShareError, says: &str| {
        assert_eq!(shares.configure(Timestamp(0), ClassId(0), share), Err(error));
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(shares.stats(Timestamp(0), ClassId(0)), None, "nothing has changed");
    };
    let share = |share| ClassShare { share, ..ClassShare::default() };
    let weight = |weight| share(Share { weight, ..Share::default() });
    refused(weight(0), ShareError::Weight(0), "weight 0 is not in 1 to 1000000");
    refused(weight(1_000_001), ShareError::Weight(1_000_001), "1000001");
    refused(hard(Some(Rate::ops(0)), None), ShareError::Rate(0), "leave it out for none");
    let burst = Rate { per_second: 1, burst: u64::MAX };
    refused(hard(None, Some(burst)), ShareError::Burst(u64::MAX), "burst");
    let reserved = |reservation, cost| ClassShare {
        share: Share { cost, ..Share::default() },
        reservation,
        group: None,
    };
    refused(reserved(u64::MAX, None), ShareError::Reservation(u64::MAX), "reservation");
    let error = ShareError::ReservationAboveLimit { reservation: 2, limit: 1 };
    refused(reserved(2, Some(Rate { per_second: 1, burst: 0 })), error, "raise the limit");
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let most = Rate { per_second: Rate::MAX, burst: Rate::MAX };
    let slow = Rate { per_second: 1, burst: Rate::MAX };
    for (ops, bytes) in [(most, most), (slow, slow), (most, slow)] {
        let mut shares = with(hard(Some(ops), Some(bytes)), Discipline::Drr);
        shares.ready(Timestamp(u64::MAX - 5), ClassId(0));
        for _ in 0..3 {
            let work = Work {
                direction: Direction::Write,
                requests: u32::MAX / 4,
                bytes: Bytes(u64::MAX),
            };
            shares.charge(Timestamp(u64::MAX - 5), ClassId(0), work);
            shares.pick(Timestamp(u64::MAX - 5));
        }
    }
}

#[test]
fn a_group_made_soft_lets_its_throttled_classes_borrow() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let mut soft = hard(None, Some(Rate { per_second: 1, burst: 0 }));
    (soft.group, soft.share.at_limit) = (Some(GroupId(1)), AtLimit::Borrow);
    let group = |at_limit| Share { at_limit, ..Share::default() };
    shares.configure_group(Timestamp(0), GroupId(1), group(AtLimit::Wait)).expect("in range");
    shares.configure(Timestamp(0), ClassId(0), soft).expect("it is in range");
    shares.ready(Timestamp(0), ClassId(0));
    assert_eq!(shares.pick(Timestamp(0)), Pick::Class(ClassId(0)));
    shares.charge(Timestamp(0), ClassId(0), read(1_000));
    shares.complete(Timestamp(0), ClassId(0), 1);
    assert!(matches!(shares.pick(Timestamp(1)), Pick::Wait { .. }), "the group is hard");
    shares.configure_group(Timestamp(2), GroupId(1), group(AtLimit::Borrow)).expect("in range");
    assert_eq!(shares.pick(Timestamp(2)), Pick::Class(ClassId(0)), "the device would idle");
    // Hard again, and soft because nobody says otherwise any more.
    shares.configure_group(Timestamp(3), GroupId(1), group(AtLimit::Wait)).expect("in range");
    assert!(matches!(shares.pick(Timestamp(3)), Pick::Wait { .. }));
    assert!(shares.remove_group(Timestamp(4), GroupId(1)).is_some());
    assert_eq!(shares.pick(Timestamp(4)), Pick::Class(ClassId(0)));
}
