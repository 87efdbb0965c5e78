//! Who has a place, who is forgotten, and what is counted.

use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, GroupId, Rate, Share, SharingSettings, TwinsSettings,
    WindowIdle,
};
use forebay_sched::{
    Access, Batch, Bypass, ClassError, ClassOptions, Decision, OTHER_CLASS, PolicyName,
    PolicySettings, Rejected, Request, Room, Scheduler, SchedulerOptions, build, source,
};
use forebay_stats::LedgerOptions;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

fn scheduler(classes: ClassOptions) -> Scheduler {
    let options = SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() };
    Scheduler::with_classes(options, classes, source(PolicyName::ToAgg, &PolicySettings::default()))
}

fn read(class: u32, block: u64) -> Request {
    Request {
        tag: block,
        file: FileIndex(class),
        access: Access::Read,
        range: ByteRange::new(Offset(block * 8192), Bytes(8192)),
        client: ClientId(0),
        class: ClassId(class),
    }
}

fn submit(scheduler: &mut Scheduler, now: Timestamp, request: Request) {
    scheduler.submit(now, request, Room::Full).expect("there is room");
}

fn serve(scheduler: &mut Scheduler, now: &mut Timestamp) {
    let mut batch = Batch::new();
    loop {
        match scheduler.next(*now, &mut batch) {
            Decision::Idle => return,
            Decision::Wait { until } => *now = until,
            Decision::Dispatch => batch.members().iter().for_each(|member| {
                scheduler.complete(*now, member.id, member.request.range.length());
            }),
        }
    }
}

fn known(scheduler: &Scheduler, now: Timestamp) -> Vec<u32> {
    scheduler.classes(now).map(|class| class.class.0).collect()
}

#[test]
fn classes_beyond_the_places_share_one_and_none_is_lost() {
    let options = ClassOptions { classes_max: 4, ..ClassOptions::default() };
    let (mut scheduler, mut now) = (scheduler(options), Timestamp(0));
    for class in 0..10 {
        (0..3).for_each(|block| submit(&mut scheduler, now, read(class, 2 * block)));
    }
    assert_eq!(known(&scheduler, now), [0, 1, 2, 3, OTHER_CLASS.0]);
    let other = scheduler.class(now, OTHER_CLASS).expect("it is always known");
    assert_eq!((other.ready, other.counts.submitted), (18, 18));
    serve(&mut scheduler, &mut now);
    assert_eq!(scheduler.stats().completed, 30);
    // They are idle now: a class that comes takes the place of the one idle longest.
    now = now + Nanos::secs(1);
    submit(&mut scheduler, now, read(7, 0));
    assert_eq!(known(&scheduler, now), [1, 2, 3, 7, OTHER_CLASS.0]);
}

#[test]
fn idle_classes_are_forgotten_after_the_time_and_configured_ones_are_not() {
    let options = ClassOptions { idle_max: Nanos::secs(10), ..ClassOptions::default() };
    let (mut scheduler, mut now) = (scheduler(options), Timestamp(0));
    scheduler.configure_class(now, ClassId(5), ClassShare::default()).expect("it is possible");
    let policy = build(PolicyName::Sjf, &PolicySettings::default());
    scheduler.switch_class_policy(now, ClassId(6), policy).map(drop).expect("it has classes");
    (0..3).for_each(|class| submit(&mut scheduler, now, read(class, 0)));
    serve(&mut scheduler, &mut now);
    submit(&mut scheduler, now, read(3, 0));
    now = now + Nanos::secs(12);
    submit(&mut scheduler, now, read(9, 0));
    // Class 3 still has something.
    assert_eq!(known(&scheduler, now), [3, 5, 6, 9, OTHER_CLASS.0]);
    assert_eq!(scheduler.class(now, ClassId(6)).map(|class| class.policy), Some("SJF"));
    assert_eq!(scheduler.release_class(now, ClassId(5)), Ok(true));
    assert_eq!(scheduler.release_class(now, ClassId(77)), Ok(false));
    now = now + Nanos::secs(12);
    submit(&mut scheduler, now, read(10, 0));
    assert_eq!(known(&scheduler, now), [3, 6, 9, 10, OTHER_CLASS.0]);
}

#[test]
fn being_forgotten_pays_no_debt() {
    let options = ClassOptions { classes_max: 2, idle_max: Nanos(1), ..ClassOptions::default() };
    let (mut scheduler, mut now) = (scheduler(options), Timestamp(0));
    let limit = Rate { per_second: 8192, burst: 0 };
    let share = Share { bytes: Some(limit), at_limit: AtLimit::Wait, ..Share::default() };
    scheduler.configure_group(now, GroupId(1), share).expect("it is possible");
    for class in 0..6 {
        // Each class comes once, in a group that has one request a second, and is forgotten.
        let share = ClassShare { group: Some(GroupId(1)), ..ClassShare::default() };
        scheduler.configure_class(now, ClassId(class), share).expect("there is a place");
        submit(&mut scheduler, now, read(class, 0));
        serve(&mut scheduler, &mut now);
        assert_eq!(scheduler.release_class(now, ClassId(class)), Ok(true));
        now = now + Nanos(2);
    }
    assert!(now >= Timestamp(Nanos::secs(5).0), "all six at one a second: {now:?}");
}

#[test]
fn no_place_is_an_error_that_says_so() {
    let options = ClassOptions { classes_max: 2, ..ClassOptions::default() };
    let (mut scheduler, now) = (scheduler(options), Timestamp(0));
    for class in 0..2 {
        scheduler.configure_class(now, ClassId(class), ClassShare::default()).expect("a place");
    }
    let error = scheduler.configure_class(now, ClassId(2), ClassShare::default());
    assert_eq!(error, Err(ClassError::TooMany { classes_max: 2 }));
    assert!(error.unwrap_err().to_string().contains("raise classes_max"));
    let share = Share { weight: 0, ..Share::default() };
    let share = ClassShare { share, ..ClassShare::default() };
    let error = scheduler.configure_class(now, ClassId(0), share).unwrap_err();
    assert!(error.to_string().contains("weight 0"), "{error}");
    let policy = build(PolicyName::To, &PolicySettings::default());
    let mut plain = Scheduler::new(SchedulerOptions::default(), policy);
    let error = plain.configure_class(now, ClassId(0), ClassShare::default());
    assert_eq!(error, Err(ClassError::NoSharing));
}

#[test]
fn a_class_cannot_fill_the_queue_for_all() {
    let options = ClassOptions { class_requests_max: 3, ..ClassOptions::default() };
    let (mut scheduler, now) = (scheduler(options), Timestamp(0));
    (0..3).for_each(|block| submit(&mut scheduler, now, read(0, block)));
    assert_eq!(scheduler.submit(now, read(0, 3), Room::Full), Err(Rejected::QueueFull));
    submit(&mut scheduler, now, read(1, 0));
    assert_eq!(scheduler.stats().rejected, 1);
}

#[test]
fn shares_disciplines_and_policies_change_with_requests_queued() {
    let (mut scheduler, mut now) = (scheduler(ClassOptions::default()), Timestamp(0));
    for round in 0..40_u64 {
        (0..4).for_each(|class| submit(&mut scheduler, now, read(class, round * 3)));
        let policy = PolicyName::ALL[round as usize % PolicyName::ALL.len()];
        let settings = PolicySettings::default();
        let class = ClassId(round as u32 % 4);
        match round % 4 {
            0 => {
                let old = scheduler.switch_policies(now, source(policy, &settings));
                assert!(old.expect("it has classes").iter().all(|old| old.queued_count() == 0));
            }
            1 => {
                let old = scheduler.switch_class_policy(now, class, build(policy, &settings));
                assert_eq!(old.map(|old| old.queued_count()), Ok(0));
            }
            2 => {
                let weight = 1 + round as u32;
                let share = Share { weight, ..Share::default() };
                let group = Some(GroupId(round as u32 % 3));
                let share = ClassShare { share, group, ..ClassShare::default() };
                scheduler.configure_class(now, class, share).expect("it is possible");
            }
            _ => {
                let discipline = match round % 8 {
                    3 => Discipline::Drr,
                    _ => Discipline::Sfq,
                };
                let sharing = SharingSettings { discipline, ..SharingSettings::default() };
                scheduler.switch_sharing(now, sharing).expect("it has classes");
            }
        }
        let mut batch = Batch::new();
        if scheduler.next(now, &mut batch) == Decision::Dispatch {
            for member in batch.members() {
                scheduler.complete(now, member.id, member.request.range.length());
            }
        }
        now = now + Nanos::micros(50);
    }
    serve(&mut scheduler, &mut now);
    assert_eq!((scheduler.stats().completed, scheduler.queued_count()), (160, 0));
}

#[test]
fn the_ledger_adds_up_to_the_counters() {
    for has_classes in [false, true] {
        let mut scheduler = match has_classes {
            true => scheduler(ClassOptions::default()),
            false => Scheduler::new(
                SchedulerOptions::default(),
                build(PolicyName::ToAgg, &PolicySettings::default()),
            ),
        };
        assert!(
            scheduler.snapshot(Timestamp(0)).is_none(),
            "there is no ledger unless one is kept"
        );
        scheduler.keep_ledger(LedgerOptions::default());
        let mut now = Timestamp(0);
        for round in 0..50 {
            for class in 0..3 {
                submit(&mut scheduler, now, read(class, round));
                let write = Request { access: Access::Write, ..read(class, round) };
                submit(&mut scheduler, now, Request { file: FileIndex(0), ..write });
            }
            now = now + Nanos::micros(10);
            if round % 2 == 1 {
                serve(&mut scheduler, &mut now);
            }
        }
        submit(&mut scheduler, now, read(2, 1_000));
        let (stats, snapshot) = (scheduler.stats(), scheduler.snapshot(now).expect("it is kept"));
        let total = snapshot.total();
        assert_eq!(total.requests(), stats.completed);
        assert_eq!(total.bytes(), Bytes(300 * 8192));
        assert_eq!((total.batches, total.batched_requests), (stats.batches, 300));
        assert_eq!(total.queue_time.count(), 300);
        assert_eq!(total.blocked, stats.blocked);
        assert!(stats.blocked > 0);
        let waiting: u64 = snapshot.classes.rows.iter().map(|row| row.account.now.waiting).sum();
        assert_eq!(waiting + snapshot.classes.other.now.waiting, 1);
        assert_eq!(snapshot.files.rows.len(), 3);
    }
}

/// A file's number may name another one after `retire`, whichever classes have used it.
#[test]
fn retired_files_are_forgotten_in_every_class() {
    let (mut scheduler, mut now) = (scheduler(ClassOptions::default()), Timestamp(0));
    for round in 0..20 {
        for (class, file) in [(0, 0), (1, 0), (2, 1)] {
            submit(&mut scheduler, now, Request { file: FileIndex(file), ..read(class, round) });
        }
        assert!(scheduler.retire(FileIndex(0)).is_err(), "it is in use");
        serve(&mut scheduler, &mut now);
        for file in 0..3 {
            assert!(scheduler.retire(FileIndex(file)).is_ok());
        }
    }
    assert_eq!(scheduler.stats().completed, 60);
}

#[test]
fn with_strict_windows_a_data_server_is_served_in_its_own_only() {
    let window = Nanos::millis(1);
    let twins = TwinsSettings {
        window,
        targets: 3,
        shift: 0,
        start: Timestamp(0),
        idle: WindowIdle::Strict,
    };
    let sharing =
        SharingSettings { discipline: Discipline::Twins(twins), ..SharingSettings::default() };
    let (mut scheduler, mut now) =
        (scheduler(ClassOptions { sharing, ..ClassOptions::default() }), Timestamp(0));
    for block in 0..40 {
        (0..3).for_each(|class| submit(&mut scheduler, now, read(class, 2 * block)));
    }
    let mut batch = Batch::new();
    let mut served = 0;
    while scheduler.queued_count() > 0 {
        match scheduler.next(now, &mut batch) {
            Decision::Wait { until } => now = until,
            Decision::Idle => unreachable!("something is queued"),
            Decision::Dispatch => {
                let target = u64::from(batch.members()[0].request.class.0);
                assert_eq!(target, now.0 / window.0 % 3, "at {now:?}");
                served += batch.members().len();
                for member in batch.members() {
                    scheduler.complete(now, member.id, member.request.range.length());
                }
                now = now + Nanos::micros(90);
            }
        }
    }
    assert_eq!(served, 120);
}
