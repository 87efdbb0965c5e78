//! The lane: who goes first, and how long anybody waits.

use std::collections::VecDeque;

use forebay_sched::{
    Access, Admission, Batch, Bypass, Cancellation, Decision, FileBusy, PolicyName, PolicySettings,
    Rejected, Request, RequestId, Room, Scheduler, SchedulerOptions, build,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

const MIB: u64 = 1 << 20;

fn request(access: Access, file: u32, start: u64, length: u64) -> Request {
    Request {
        tag: start,
        file: FileIndex(file),
        access,
        range: ByteRange::new(Offset(start), Bytes(length)),
        client: ClientId(0),
        class: ClassId(0),
    }
}

fn scheduler(bypass: Bypass) -> Scheduler {
    let options = SchedulerOptions { bypass, ..SchedulerOptions::default() };
    Scheduler::new(options, build(PolicyName::ToAgg, &PolicySettings::default()))
}

fn submit(scheduler: &mut Scheduler, request: Request) -> RequestId {
    scheduler.submit(Timestamp(0), request, Room::Full).expect("there is room").id()
}

/// Asks once and completes at once; what left.
fn serve(scheduler: &mut Scheduler) -> Batch {
    let mut batch = Batch::new();
    assert_eq!(scheduler.next(Timestamp(1), &mut batch), Decision::Dispatch);
    for member in batch.members() {
        scheduler.complete(Timestamp(1), member.id, member.request.range.length());
    }
    batch
}

#[test]
fn processes_that_read_large_interleaved_strides_are_served_in_file_order() {
    let (processes, rounds, length) = (32u64, 20u64, 4 * MIB);
    let mut scheduler = scheduler(Bypass::Never);
    let at = |round: u64, process: u64| {
        request(Access::Read, 0, (round * processes + process) * length, length)
    };
    // They start in any order, and come back one service time after their request was served.
    let mut on_their_way: VecDeque<(u64, u64)> = VecDeque::new();
    (0..processes).for_each(|n| _ = submit(&mut scheduler, at(0, n * 13 % processes)));
    let (mut end, mut seeks) = (0, 0);
    for _ in 0..processes * rounds {
        let batch = serve(&mut scheduler);
        seeks += u64::from(batch.range().start.0 != end);
        end = batch.range().end.0;
        let block = batch.range().start.0 / length;
        on_their_way.push_back((block / processes + 1, block % processes));
        if on_their_way.len() > 1 {
            let (round, process) = on_their_way.pop_front().expect("there are two");
            submit(&mut scheduler, at(round, process));
        }
    }
    assert!(seeks * 20 <= processes * rounds, "{seeks} seeks in {} requests", processes * rounds);
}

#[test]
fn a_continuation_passes_over_the_oldest_at_most_sixteen_times_in_a_row() {
    let mut scheduler = scheduler(Bypass::Never);
    let length = 4 * MIB;
    let oldest = submit(&mut scheduler, request(Access::Read, 1, 1 << 40, length));
    submit(&mut scheduler, request(Access::Read, 0, 0, length));
    for count in 1..=17 {
        submit(&mut scheduler, request(Access::Read, 0, count * length, length));
        let batch = serve(&mut scheduler);
        assert_eq!(batch.members()[0].id == oldest, count == 17, "served {count} before it");
    }
}

#[test]
fn a_sync_at_the_head_is_not_passed_over() {
    let mut scheduler = scheduler(Bypass::Never);
    let sync = submit(&mut scheduler, request(Access::Sync, 1, 0, 0));
    submit(&mut scheduler, request(Access::Read, 0, 0, 4 * MIB));
    assert_eq!(serve(&mut scheduler).members()[0].id, sync);
}

#[test]
fn lane_and_policy_share_by_bytes_and_neither_starves() {
    let mut scheduler = scheduler(Bypass::Never);
    let large = 4 * MIB;
    let (mut lane_bytes, mut policy_bytes) = (0i64, 0i64);
    for n in 0..400 {
        submit(&mut scheduler, request(Access::Read, 0, n * large, large));
        (0..16).for_each(|k| {
            _ = submit(&mut scheduler, request(Access::Read, 1, (n * 16 + k) * 2 * 65_536, 65_536))
        });
    }
    for _ in 0..1_000 {
        let bytes = serve(&mut scheduler).range().length().0 as i64;
        *if bytes == large as i64 { &mut lane_bytes } else { &mut policy_bytes } += bytes;
        let lead = lane_bytes - policy_bytes;
        // At most one lane request ahead, at most one batch behind.
        assert!((-(MIB as i64)..=large as i64).contains(&lead), "the lane leads by {lead} bytes");
    }
}

#[test]
fn a_request_may_bypass_only_an_empty_queue_without_a_conflict_and_with_room() {
    let mut scheduler = scheduler(Bypass::WhenIdle);
    let now = Timestamp(0);
    let mut admit =
        |access, start, room| scheduler.submit(now, request(access, 0, start, 4096), room);
    assert!(matches!(admit(Access::Write, 0, Room::Free), Ok(Admission::Bypassed(_))));
    assert!(
        matches!(admit(Access::Read, 0, Room::Free), Ok(Admission::Blocked(_))),
        "it conflicts"
    );
    assert!(
        matches!(admit(Access::Read, 8192, Room::Free), Ok(Admission::Bypassed(_))),
        "the blocked one is not ready"
    );
    assert!(
        matches!(admit(Access::Read, 8192, Room::Full), Ok(Admission::Queued(_))),
        "the store is full"
    );
    assert!(
        matches!(admit(Access::Read, 8192, Room::Free), Ok(Admission::Queued(_))),
        "something is queued"
    );
}

#[test]
fn a_full_queue_refuses_until_something_has_left_and_counts_tombstones() {
    let options = SchedulerOptions {
        bypass: Bypass::WhenIdle,
        queue_requests_max: 2,
        ..SchedulerOptions::default()
    };
    let mut scheduler = Scheduler::new(options, build(PolicyName::To, &PolicySettings::default()));
    let now = Timestamp(0);
    let write = request(Access::Write, 0, 0, 4096);
    let Ok(Admission::Bypassed(first)) = scheduler.submit(now, write, Room::Free) else {
        panic!("nothing is queued")
    };
    let blocked = submit(&mut scheduler, write);
    assert_eq!(scheduler.cancel(now, blocked), Cancellation::Cancelled);
    submit(&mut scheduler, write);
    assert_eq!(scheduler.submit(now, write, Room::Full), Err(Rejected::QueueFull));
    scheduler.complete(now, first.id, Bytes(4096));
    assert!(scheduler.submit(now, write, Room::Full).is_ok(), "the tombstone has gone");
}

#[test]
fn an_empty_range_is_refused_unless_it_is_a_sync() {
    let mut scheduler = scheduler(Bypass::Never);
    let empty = |access| request(access, 0, 5, 0);
    assert_eq!(
        scheduler.submit(Timestamp(0), empty(Access::Read), Room::Free),
        Err(Rejected::EmptyRange)
    );
    assert!(scheduler.submit(Timestamp(0), empty(Access::Sync), Room::Free).is_ok());
    assert_eq!(scheduler.stats().rejected, 1);
}

#[test]
fn a_file_with_live_requests_is_not_retired() {
    let mut scheduler = scheduler(Bypass::Never);
    let id = submit(&mut scheduler, request(Access::Read, 3, 0, 4096));
    assert_eq!(scheduler.retire(FileIndex(3)), Err(FileBusy));
    assert_eq!(scheduler.cancel(Timestamp(0), id), Cancellation::Cancelled);
    assert_eq!(scheduler.retire(FileIndex(3)), Ok(()));
}

#[test]
fn the_counters_say_what_happened() {
    let mut scheduler = scheduler(Bypass::Never);
    submit(&mut scheduler, request(Access::Read, 0, 0, 4096));
    submit(&mut scheduler, request(Access::Read, 0, 4096, 4096));
    submit(&mut scheduler, request(Access::Write, 0, 0, 4096));
    submit(&mut scheduler, request(Access::Read, 1, 0, 4 * MIB));
    assert_eq!(serve(&mut scheduler).members().len(), 1, "the lane goes first");
    assert_eq!(serve(&mut scheduler).members().len(), 2, "two adjacent reads");
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.blocked, stats.skipped, stats.bypassed), (4, 1, 1, 0));
    assert_eq!((stats.batches, stats.merged, stats.completed), (2, 2, 3));
    assert_eq!(stats.queued, Nanos(3));
    assert_eq!(
        (scheduler.queued_count(), scheduler.blocked_count(), scheduler.in_flight_count()),
        (1, 0, 0)
    );
}
