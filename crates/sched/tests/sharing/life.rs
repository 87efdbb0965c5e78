//! Classes come and go by the thousand: memory follows those alive, and leaving is no way out of debt.

use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, GroupId, Pick, Rate, Share, Shares, TwinsSettings, WindowIdle,
};
use forebay_units::{ClassId, Nanos, Timestamp};

use crate::bed::{Bed, Service, Sizes, Source, one_batch_each, read, unfairness};
use crate::sfq::{settings, weighted};

#[test]
fn twenty_thousand_classes_one_after_the_other_leave_no_trace() {
    for discipline in [Discipline::Sfq, Discipline::Drr] {
        let mut shares = Shares::new(settings(discipline));
        shares.ready(Timestamp(0), ClassId(u32::MAX));
        let mut most = 0;
        for class in 0..20_000 {
            let now = Timestamp(u64::from(class) * 1_000);
            let group = Some(GroupId(class / 10));
            let share = ClassShare { group, ..ClassShare::default() };
            shares.configure(now, ClassId(class), share).expect("it is in range");
            shares.ready(now, ClassId(class));
            for _ in 0..3 {
                let Pick::Class(picked) = shares.pick(now) else { panic!("two are ready") };
                shares.charge(now, picked, read(100_000));
                shares.complete(now, picked, 1);
            }
            shares.empty(now, ClassId(class));
            assert!(shares.remove(now, ClassId(class)).is_some());
            most = most.max(shares.known_count());
        }
        assert!(most <= 64, "{discipline:?}: {most} at a time");
    }
}

#[test]
fn leaving_and_coming_back_pays_no_debt() {
    for discipline in [Discipline::Sfq, Discipline::Drr] {
        let mut shares = weighted(settings(discipline), &[1, 1]);
        [0, 1].into_iter().for_each(|class| shares.ready(Timestamp(0), ClassId(class)));
        // Class 0 runs up a debt of 20 MiB, leaves, and is back under the same name.
        for _ in 0..20 {
            shares.charge(Timestamp(0), ClassId(0), read(1 << 20));
        }
        shares.empty(Timestamp(0), ClassId(0));
        shares.complete(Timestamp(0), ClassId(0), 20);
        let stats = shares.remove(Timestamp(0), ClassId(0)).expect("it was known");
        assert_eq!(stats.requests, 20);
        shares.ready(Timestamp(0), ClassId(0));
        let mut others = 0;
        while shares.pick(Timestamp(0)) == Pick::Class(ClassId(1)) {
            shares.charge(Timestamp(0), ClassId(1), read(1 << 20));
            others += 1;
        }
        assert!((19..=21).contains(&others), "{discipline:?}: {others}");
    }
}

#[test]
fn leaving_is_no_way_around_a_limit() {
    let rate = Rate { per_second: 1_000_000, burst: 0 };
    let share = Share { bytes: Some(rate), at_limit: AtLimit::Wait, ..Share::default() };
    let limited = ClassShare { share, ..ClassShare::default() };
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let mut bytes = 0;
    for now in (0..1_000_000_000).step_by(1_000_000) {
        let now = Timestamp(now);
        shares.configure(now, ClassId(0), limited).expect("it is in range");
        shares.ready(now, ClassId(0));
        while shares.pick(now) == Pick::Class(ClassId(0)) {
            shares.charge(now, ClassId(0), read(10_000));
            shares.complete(now, ClassId(0), 1);
            bytes += 10_000;
        }
        shares.empty(now, ClassId(0));
        shares.remove(now, ClassId(0));
    }
    assert!((980_000..=1_010_000).contains(&bytes), "{bytes}");
}

#[test]
fn thousands_of_classes_share_evenly() {
    let mut shares = Shares::new(settings(Discipline::Sfq));
    (0..5_000).for_each(|class| shares.ready(Timestamp(0), ClassId(class)));
    let mut had = vec![0u32; 5_000];
    for _ in 0..20_000 {
        let Pick::Class(class) = shares.pick(Timestamp(0)) else { panic!("all are ready") };
        shares.charge(Timestamp(0), class, read(4_096));
        had[class.0 as usize] += 1;
    }
    assert!(had.iter().all(|count| *count == 4), "in turn, by order of arrival");
}

#[test]
fn a_weight_changed_live_holds_from_then_on() {
    let source = Source { sizes: Sizes::Between(1, 50_000), spells: None };
    let bed = Bed::new(vec![source.clone(), source], 4, 3);
    for discipline in [Discipline::Sfq, Discipline::Drr] {
        let mut shares = weighted(settings(discipline), &[1, 1]);
        bed.run(&mut shares, 500, Nanos::secs(1_000));
        let share = Share { weight: 5, ..Share::default() };
        let share = ClassShare { share, ..ClassShare::default() };
        shares.configure(Timestamp(1_000_000), ClassId(0), share).expect("it is in range");
        let log = bed.run(&mut shares, 500, Nanos::secs(1_000));
        let turn = if discipline == Discipline::Drr { 5 << 20 } else { 1 };
        let bound = one_batch_each([50_000; 2], [5, 1]) + turn;
        // One batch was charged by the old weight, and may stand for another.
        let slack = 2 * one_batch_each([50_000; 2], [5, 1]);
        let worst = unfairness(&log, [0, 1], [5, 1], Service::Dispatched);
        assert!(worst <= bound + slack, "{discipline:?}: {worst} of {}", bound + slack);
    }
}

#[test]
fn a_switch_of_discipline_keeps_who_is_ready_and_what_limits_have_used_up() {
    let twins = Discipline::Twins(TwinsSettings {
        window: Nanos(1_000),
        targets: 2,
        shift: 0,
        start: Timestamp(0),
        idle: WindowIdle::Strict,
    });
    let mut shares = Shares::new(settings(Discipline::Sfq));
    let rate = Rate { per_second: 1_000_000, burst: 0 };
    let share = Share { bytes: Some(rate), at_limit: AtLimit::Wait, ..Share::default() };
    let limited = ClassShare { share, group: Some(GroupId(3)), ..ClassShare::default() };
    shares.configure(Timestamp(0), ClassId(0), limited).expect("it is in range");
    (0..3).for_each(|class| shares.ready(Timestamp(0), ClassId(class)));
    shares.charge(Timestamp(0), ClassId(0), read(1_000));
    for discipline in [Discipline::Drr, twins, Discipline::Sfq] {
        shares.switch(Timestamp(10), settings(discipline));
        let first = match shares.pick(Timestamp(10)) {
            // The window is that of server 0, to which class 2 belongs as well.
            Pick::Class(class) => class.0,
            other => panic!("{discipline:?}: {other:?}"),
        };
        assert_eq!(first, if discipline == twins { 2 } else { 1 }, "{discipline:?}");
    }
    [1, 2].into_iter().for_each(|class| shares.empty(Timestamp(10), ClassId(class)));
    assert_eq!(shares.pick(Timestamp(10)), Pick::Wait { until: Timestamp(1_000_000) });
    assert_eq!(shares.pick(Timestamp(1_000_000)), Pick::Class(ClassId(0)));
}
