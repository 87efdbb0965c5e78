//! A request that holds up another class, while its own has to stand back.

use forebay_sched::sharing::{AtLimit, ClassShare, Rate, Share};
use forebay_sched::{
    Access, Batch, Bypass, ClassOptions, Decision, PolicyName, PolicySettings, Request, RequestId,
    Room, Scheduler, SchedulerOptions, source,
};
use forebay_stats::LedgerOptions;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

use crate::world::KIB;

const SLOW: ClassId = ClassId(0);
const QUICK: ClassId = ClassId(1);

/// Class `SLOW` has one request a second, `QUICK` what it likes.
fn scheduler(policy: PolicyName) -> Scheduler {
    let options = SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() };
    let source = source(policy, &PolicySettings::default());
    let mut scheduler = Scheduler::with_classes(options, ClassOptions::default(), source);
    let limit = Rate { per_second: 1, burst: 0 };
    let share = Share { ops: Some(limit), at_limit: AtLimit::Wait, ..Share::default() };
    let share = ClassShare { share, ..ClassShare::default() };
    scheduler.configure_class(Timestamp(0), SLOW, share).expect("it is possible");
    scheduler
}

fn request(class: ClassId, access: Access, first: u64, blocks: u64) -> Request {
    Request {
        tag: first,
        file: FileIndex(0),
        access,
        range: ByteRange::new(Offset(first * 8 * KIB), Bytes(blocks * 8 * KIB)),
        client: ClientId(0),
        class,
    }
}

fn submit(scheduler: &mut Scheduler, request: Request) -> RequestId {
    scheduler.submit(Timestamp(0), request, Room::Full).expect("there is room").id()
}

/// Asks and completes at once, with waits sat out, until `id` has left; when that was.
fn until_left(scheduler: &mut Scheduler, now: &mut Timestamp, id: RequestId) -> Vec<RequestId> {
    let mut left = Vec::new();
    let mut batch = Batch::new();
    loop {
        match scheduler.next(*now, &mut batch) {
            Decision::Wait { until } => *now = until,
            Decision::Idle => panic!("it is still queued"),
            Decision::Dispatch => {
                for member in batch.members() {
                    left.push(member.id);
                    scheduler.complete(*now, member.id, member.request.range.length());
                }
            }
        }
        if left.contains(&id) {
            return left;
        }
    }
}

/// Uses up what `SLOW` may have now.
fn exhaust(scheduler: &mut Scheduler, now: &mut Timestamp) {
    let first = submit(scheduler, request(SLOW, Access::Read, 1 << 20, 1));
    until_left(scheduler, now, first);
}

#[test]
fn a_throttled_write_that_holds_up_a_read_goes_in_the_readers_turn_and_is_charged() {
    for policy in PolicyName::ALL {
        let (mut scheduler, mut now) = (scheduler(policy), Timestamp(0));
        scheduler.keep_ledger(LedgerOptions::default());
        exhaust(&mut scheduler, &mut now);
        let other = submit(&mut scheduler, request(SLOW, Access::Write, 50, 1));
        let write = submit(&mut scheduler, request(SLOW, Access::Write, 0, 4));
        let read = submit(&mut scheduler, request(QUICK, Access::Read, 2, 1));
        let left = until_left(&mut scheduler, &mut now, read);
        assert_eq!(left, [write, read], "{policy}");
        assert!(now < Timestamp(Nanos::millis(10).0), "{policy}: at {now:?}");
        let class = scheduler.class(now, SLOW).expect("it is known");
        assert_eq!((class.counts.boosted, class.served.requests), (1, 2), "{policy}");
        let quick = scheduler.class(now, QUICK).expect("it is known");
        assert_eq!((quick.served.requests, quick.counts.blocked), (1, 1), "{policy}");
        assert_eq!(quick.counts.blocked_time, quick.counts.blocked_by_others_time, "{policy}");
        // It has gone early, so what its class asks for next goes late: nothing was free.
        until_left(&mut scheduler, &mut now, other);
        assert!(now >= Timestamp(Nanos::millis(1_990).0), "{policy}: at {now:?}");
        let snapshot = scheduler.snapshot(now).expect("it is kept");
        let row = |class: ClassId| {
            let mut rows = snapshot.classes.rows.iter();
            &rows.find(|row| row.key == u64::from(class.0)).expect("it is known").account
        };
        let blockers = row(QUICK).blockers.ranking();
        assert_eq!((blockers.rows[0].key, blockers.rows[0].account), (u64::from(SLOW.0), 1));
        assert!(row(SLOW).account.throttled_time >= Nanos::millis(990), "{policy}");
    }
}

#[test]
fn nobody_is_boosted_for_a_class_that_has_to_stand_back_itself_or_weighs_no_more() {
    let (mut scheduler, mut now) = (scheduler(PolicyName::To), Timestamp(0));
    exhaust(&mut scheduler, &mut now);
    let own = submit(&mut scheduler, request(SLOW, Access::Write, 0, 1));
    let read = submit(&mut scheduler, request(SLOW, Access::Read, 0, 1));
    assert!(matches!(scheduler.next(now, &mut Batch::new()), Decision::Wait { .. }));
    assert_eq!(until_left(&mut scheduler, &mut now, read), [own, read]);
    let equal = submit(&mut scheduler, request(ClassId(2), Access::Write, 0, 1));
    submit(&mut scheduler, request(QUICK, Access::Read, 0, 1));
    assert_eq!(until_left(&mut scheduler, &mut now, equal), [equal]);
    let boosted = scheduler.classes(now).map(|class| class.counts.boosted).sum::<u64>();
    assert_eq!(boosted, 0);
}

#[test]
fn a_request_of_the_smaller_weight_goes_in_the_turn_of_the_larger() {
    let mut scheduler = scheduler(PolicyName::To);
    let mut now = Timestamp(0);
    for (class, weight) in [(2, 1), (3, 100)] {
        let share =
            ClassShare { share: Share { weight, ..Share::default() }, ..Default::default() };
        scheduler.configure_class(now, ClassId(class), share).expect("it is possible");
    }
    // The light class has used its turn up, and has a long queue in front of the write.
    let mut ahead: Vec<RequestId> = Vec::new();
    for block in 0..100 {
        ahead.push(submit(&mut scheduler, request(ClassId(2), Access::Read, 1_000 + 2 * block, 1)));
    }
    let write = submit(&mut scheduler, request(ClassId(2), Access::Write, 0, 1));
    let read = submit(&mut scheduler, request(ClassId(3), Access::Read, 0, 1));
    let left = until_left(&mut scheduler, &mut now, read);
    assert!(left.contains(&write) && left.len() <= 4, "{} left first", left.len());
}

/// A chain: every second request is a write of the slow class that the next one, a write of the
/// slow class too, overlaps; the last is a read of the quick one.
fn chain(length: u64) -> (Scheduler, Timestamp, RequestId) {
    let (mut scheduler, mut now) = (scheduler(PolicyName::Aioli), Timestamp(0));
    exhaust(&mut scheduler, &mut now);
    for link in 0..length {
        submit(&mut scheduler, request(SLOW, Access::Write, link, 2));
    }
    let read = submit(&mut scheduler, request(QUICK, Access::Read, length, 1));
    (scheduler, now, read)
}

#[test]
fn chains_are_followed_eight_deep() {
    let (mut scheduler, mut now, read) = chain(8);
    assert_eq!(until_left(&mut scheduler, &mut now, read).len(), 9);
    assert!(now < Timestamp(Nanos::millis(10).0), "all of them were boosted: {now:?}");
    // Of a longer one the beginning waits for its class, and the rest is boosted then.
    let (mut scheduler, mut now, read) = chain(11);
    assert_eq!(until_left(&mut scheduler, &mut now, read).len(), 12);
    let seconds = now.0 / Nanos::secs(1).0;
    assert!((2..=4).contains(&seconds), "three at the rate of their class: {now:?}");
}

#[test]
fn a_sync_has_the_writes_before_it_boosted() {
    let (mut scheduler, mut now) = (scheduler(PolicyName::Sjf), Timestamp(0));
    exhaust(&mut scheduler, &mut now);
    (0..4).for_each(|block| _ = submit(&mut scheduler, request(SLOW, Access::Write, 4 * block, 1)));
    let sync = Request { range: ByteRange::default(), ..request(QUICK, Access::Sync, 0, 1) };
    let sync = submit(&mut scheduler, sync);
    assert_eq!(until_left(&mut scheduler, &mut now, sync).len(), 5);
    assert!(now < Timestamp(Nanos::millis(10).0), "{now:?}");
}

#[test]
fn what_a_class_is_owed_for_is_not_boosted_beyond_what_holds_it_up() {
    let (mut scheduler, mut now) = (scheduler(PolicyName::ToAgg), Timestamp(0));
    exhaust(&mut scheduler, &mut now);
    // Ten of the slow class in one run; the read is held up by one of them.
    (0..10).for_each(|block| _ = submit(&mut scheduler, request(SLOW, Access::Write, block, 1)));
    let read = submit(&mut scheduler, request(QUICK, Access::Read, 5, 1));
    assert_eq!(until_left(&mut scheduler, &mut now, read).len(), 2);
    assert!(now < Timestamp(Nanos::millis(10).0), "{now:?}");
}
