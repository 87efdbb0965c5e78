//! Classes at their limits: what they are charged, what they wait for, and when they are forgotten.

use forebay_sched::sharing::{AtLimit, ClassShare, Rate, Share};
use forebay_sched::{
    Access, Batch, Bypass, Cancellation, ClassOptions, Decision, PolicyName, PolicySettings,
    Request, RequestId, Room, Scheduler, SchedulerOptions, source,
};
use forebay_stats::LedgerOptions;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

const LARGE: u64 = 1 << 20;

fn scheduler(classes_max: usize) -> Scheduler {
    let options = SchedulerOptions {
        bypass: Bypass::Never,
        large_bytes: Some(Bytes(LARGE)),
        ..SchedulerOptions::default()
    };
    let classes = ClassOptions { classes_max, ..ClassOptions::default() };
    Scheduler::with_classes(options, classes, source(PolicyName::To, &PolicySettings::default()))
}

/// So many bytes a second and no more.
fn hard(per_second: u64) -> ClassShare {
    let limit = Rate { per_second, burst: 0 };
    let share = Share { bytes: Some(limit), at_limit: AtLimit::Wait, ..Share::default() };
    ClassShare { share, ..ClassShare::default() }
}

fn request(class: u32, file: u32, access: Access, start: u64, length: u64) -> Request {
    Request {
        tag: 0,
        file: FileIndex(file),
        access,
        range: ByteRange::new(Offset(start), Bytes(length)),
        client: ClientId(class),
        class: ClassId(class),
    }
}

fn submit(scheduler: &mut Scheduler, now: Timestamp, request: Request) -> RequestId {
    scheduler.submit(now, request, Room::Full).expect("there is room").id()
}

/// Two classes at their limits; a read of class 2 waits for a write of class 1, and class 2 has been
/// given a turn for that.
fn with_a_turn_for_a_boost() -> (Scheduler, Timestamp, RequestId) {
    let (mut scheduler, now, mut batch) = (scheduler(2), Timestamp(1), Batch::new());
    for class in [1, 2] {
        scheduler.configure_class(now, ClassId(class), hard(1_000)).expect("there is a place");
        submit(&mut scheduler, now, request(class, class, Access::Write, 0, 1_000));
        assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
        scheduler.complete(now, batch.members()[0].id, Bytes(1_000));
    }
    submit(&mut scheduler, now, request(1, 0, Access::Write, 0, 1_000));
    let read = submit(&mut scheduler, now, request(2, 0, Access::Read, 0, 100));
    assert!(matches!(scheduler.next(now, &mut batch), Decision::Wait { .. }));
    (scheduler, now, read)
}

#[test]
fn a_class_whose_last_blocked_request_is_cancelled_has_no_turn_any_more() {
    let (mut scheduler, now, read) = with_a_turn_for_a_boost();
    let now = now + Nanos(1);
    assert_eq!(scheduler.cancel(now, read), Cancellation::Cancelled);
    // Its place goes to another class; in a second, when its turn would be, nobody asks for it.
    scheduler.release_class(now, ClassId(2)).expect("it has classes");
    scheduler.configure_class(now, ClassId(3), hard(1_000)).expect("there is a place");
    let (now, mut batch) = (now + Nanos::secs(2), Batch::new());
    assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
    assert_eq!(batch.members()[0].request.class, ClassId(1));
    assert_eq!(scheduler.next(now, &mut batch), Decision::Idle);
}

#[test]
fn a_class_that_comes_back_under_its_number_has_nothing_left_of_its_old_turn() {
    let (mut scheduler, now, read) = with_a_turn_for_a_boost();
    let now = now + Nanos(1);
    assert_eq!(scheduler.cancel(now, read), Cancellation::Cancelled);
    scheduler.release_class(now, ClassId(2)).expect("it has classes");
    scheduler.configure_class(now, ClassId(3), hard(1_000)).expect("there is a place");
    scheduler.release_class(now, ClassId(3)).expect("it has classes");
    let (now, mut batch) = (now + Nanos::millis(2), Batch::new());
    scheduler.configure_class(now, ClassId(2), ClassShare::default()).expect("there is a place");
    let decision = scheduler.next(now, &mut batch);
    assert!(matches!(decision, Decision::Wait { .. }), "class 1 is at its limit: {decision:?}");
}

/// How many of 40 writes of 4 KiB go at once with a limit of 1,000 bytes a second, if each ends so.
fn at_once(end: impl Fn(&mut Scheduler, Timestamp, RequestId)) -> u32 {
    let (mut scheduler, now, mut batch) = (scheduler(8), Timestamp(1), Batch::new());
    scheduler.configure_class(now, ClassId(1), hard(1_000)).expect("there is a place");
    for block in 0..40 {
        submit(&mut scheduler, now, request(1, 1, Access::Write, 8_192 * block, 4_096));
    }
    let mut count = 0;
    while scheduler.next(now, &mut batch) == Decision::Dispatch {
        count += 1;
        end(&mut scheduler, now, batch.members()[0].id);
    }
    count
}

#[test]
fn neither_failing_nor_moving_nothing_is_a_way_around_a_limit() {
    let failed = |moved| at_once(|s, now, id| _ = s.fail(now, id, Bytes(moved)));
    let done = |moved| at_once(|s, now, id| _ = s.complete(now, id, Bytes(moved)));
    assert_eq!((failed(0), failed(100), failed(4_096)), (1, 1, 1));
    assert_eq!((done(0), done(100), done(4_096)), (1, 1, 1));
}

#[test]
fn what_ends_is_charged_as_far_as_it_came() {
    let (mut scheduler, now, mut batch) = (scheduler(8), Timestamp(1), Batch::new());
    let mut charged = Bytes::ZERO;
    // A short read pays for what it got, at least for 4 KiB; what asked for less pays for that; a
    // failed one pays for all.
    for (length, moved, is_done, bytes) in [
        (65_536, 32_768, true, 32_768),
        (65_536, 0, true, 4_096),
        (512, 0, true, 512),
        (65_536, 32_768, false, 65_536),
        (65_536, 0, false, 65_536),
    ] {
        submit(&mut scheduler, now, request(1, 1, Access::Read, 0, length));
        assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
        let id = batch.members()[0].id;
        let ended = match is_done {
            true => scheduler.complete(now, id, Bytes(moved)),
            false => scheduler.fail(now, id, Bytes(moved)),
        };
        assert!(ended.is_some());
        charged += Bytes(bytes);
        let served = scheduler.class(now, ClassId(1)).expect("it is known").served;
        assert_eq!(served.bytes, charged, "{length} asked, {moved} moved, done: {is_done}");
    }
}

#[test]
fn a_class_with_nothing_but_large_requests_is_set_aside_once_while_the_lane_is_closed() {
    let (mut scheduler, now, mut batch) = (scheduler(100), Timestamp(1), Batch::new());
    for class in 0..50 {
        submit(&mut scheduler, now, request(class, class, Access::Read, 0, 2 * LARGE));
    }
    for nanos in 0..20 {
        let now = now + Nanos(nanos);
        assert_eq!(scheduler.next_from_policy(now, &mut batch), Decision::Idle);
    }
    let held = |scheduler: &Scheduler, class| {
        scheduler.class(now, ClassId(class)).expect("it is known").served.held
    };
    assert!((0..50).all(|class| held(&scheduler, class) == 1));
    // A small one is found beside the large one all the same, and goes alone.
    let now = now + Nanos(100);
    let small = submit(&mut scheduler, now, request(7, 7, Access::Read, 8 * LARGE, 4_096));
    assert_eq!(scheduler.next_from_policy(now, &mut batch), Decision::Dispatch);
    assert_eq!(batch.members()[0].id, small);
    assert_eq!(scheduler.next_from_policy(now, &mut batch), Decision::Idle);
    assert_eq!((held(&scheduler, 7), held(&scheduler, 8)), (2, 1));
    // Once the lane is open all of them go.
    for _ in 0..50 {
        assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
    }
    assert_eq!(scheduler.next(now, &mut batch), Decision::Idle);
}

#[test]
fn a_reservation_goes_on_while_the_lane_is_closed() {
    let (mut scheduler, now, mut batch) = (scheduler(8), Timestamp(1), Batch::new());
    let share = ClassShare { reservation: 16 * LARGE, ..ClassShare::default() };
    scheduler.configure_class(now, ClassId(1), share).expect("there is a place");
    for place in 0..20 {
        submit(&mut scheduler, now, request(1, 1, Access::Read, 4 * LARGE * place, 2 * LARGE));
        submit(&mut scheduler, now, request(2, 2, Access::Read, 4 * LARGE * place, 2 * LARGE));
    }
    assert_eq!(scheduler.next_from_policy(now, &mut batch), Decision::Idle);
    // Half a second is owed to it: four requests, and the one that is due now.
    let now = now + Nanos::millis(500);
    for _ in 0..5 {
        assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
        assert_eq!(batch.members()[0].request.class, ClassId(1));
    }
    let served = scheduler.class(now, ClassId(1)).expect("it is known").served;
    assert_eq!(served.reserved, 5);
}

#[test]
fn a_snapshot_says_for_how_long_a_class_has_been_at_its_limit_until_now() {
    let (mut scheduler, now, mut batch) = (scheduler(2), Timestamp(0), Batch::new());
    scheduler.keep_ledger(LedgerOptions::default());
    scheduler.configure_class(now, ClassId(1), hard(1_000)).expect("there is a place");
    let write = |block: u64| request(1, 1, Access::Write, 8_192 * block, 1_000);
    submit(&mut scheduler, now, write(0));
    assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
    scheduler.complete(now, batch.members()[0].id, Bytes(1_000));
    let stuck = submit(&mut scheduler, now, write(1));
    assert!(matches!(scheduler.next(now, &mut batch), Decision::Wait { .. }));
    let told = |scheduler: &Scheduler, millis| {
        let snapshot = scheduler.snapshot(Timestamp(Nanos::millis(millis).0)).expect("it is kept");
        snapshot.total().throttled_time
    };
    assert_eq!(told(&scheduler, 100), Nanos::millis(100));
    assert_eq!(told(&scheduler, 300), Nanos::millis(300));
    // It gives up, is forgotten, and comes back while its debt is remembered: told once, all of it.
    let now = Timestamp(Nanos::millis(400).0);
    assert_eq!(scheduler.cancel(now, stuck), Cancellation::Cancelled);
    assert_eq!(told(&scheduler, 900), Nanos::millis(400));
    scheduler.release_class(now, ClassId(1)).expect("it has classes");
    for class in [2, 3] {
        scheduler.configure_class(now, ClassId(class), hard(1_000)).expect("there is a place");
    }
    assert!(scheduler.class(now, ClassId(1)).is_none(), "it is forgotten");
    scheduler.release_class(now, ClassId(3)).expect("it has classes");
    submit(&mut scheduler, now, write(2));
    assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
    assert_eq!(told(&scheduler, 950), Nanos::millis(400));
}
