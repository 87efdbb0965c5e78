//! What a failed request does to its class, through the traced scheduler.

use forebay_sched::sharing::{AtLimit, ClassShare, Rate, Share};
use forebay_sched::{
    Access, Batch, Bypass, ClassOptions, Decision, PolicyName, PolicySettings, Request, Room,
    Scheduler, SchedulerOptions, source,
};
use forebay_trace::Traced;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};

/// What class 1 is charged for a write of 8 KiB that ends so.
fn charged(moved: u64, errno: u16) -> Bytes {
    let options = SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() };
    let source = source(PolicyName::To, &PolicySettings::default());
    let mut traced: Traced =
        Scheduler::with_classes(options, ClassOptions::default(), source).into();
    let (now, mut batch) = (Timestamp(1), Batch::new());
    let request = Request {
        tag: 0,
        file: FileIndex(0),
        access: Access::Write,
        range: ByteRange::new(Offset(0), Bytes(8_192)),
        client: ClientId(0),
        class: ClassId(1),
    };
    traced.submit(now, request, Room::Full).expect("there is room");
    assert_eq!(traced.next(now, &mut batch), Decision::Dispatch);
    assert!(traced.complete(now, batch.members()[0].id, Bytes(moved), errno).is_some());
    traced.class(now, ClassId(1)).expect("it is known").served.bytes
}

#[test]
fn a_failed_request_stays_charged_however_far_it_came() {
    assert_eq!((charged(8_192, 0), charged(6_000, 0)), (Bytes(8_192), Bytes(6_000)));
    assert_eq!((charged(0, 5), charged(6_000, 28)), (Bytes(8_192), Bytes(8_192)));
}

/// As often as somebody likes is too often.
#[test]
fn failing_is_no_way_around_a_hard_limit() {
    let options = SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() };
    let source = source(PolicyName::To, &PolicySettings::default());
    let mut traced: Traced =
        Scheduler::with_classes(options, ClassOptions::default(), source).into();
    let limit = Rate { per_second: 1_000, burst: 0 };
    let share = Share { bytes: Some(limit), at_limit: AtLimit::Wait, ..Share::default() };
    let share = ClassShare { share, ..ClassShare::default() };
    let now = Timestamp(1);
    traced.change(now, "limit", "1000", |s| s.configure_class(now, ClassId(1), share)).unwrap();
    for block in 0..40 {
        let request = Request {
            tag: block,
            file: FileIndex(0),
            access: Access::Write,
            range: ByteRange::new(Offset(block * 8_192), Bytes(4_096)),
            client: ClientId(0),
            class: ClassId(1),
        };
        traced.submit(now, request, Room::Full).expect("there is room");
    }
    let (mut batch, mut count) = (Batch::new(), 0);
    while traced.next(now, &mut batch) == Decision::Dispatch {
        count += 1;
        traced.complete(now, batch.members()[0].id, Bytes::ZERO, 28);
    }
    assert_eq!(count, 1);
}
