//! Defects read in the public AGIOS, IOFSL and GekkoFWD code, each as a test that it is not here.
//!
//! Not applicable, because the thing itself does not exist in this crate:
//!
//! - the SW policy's key that is never stored, and overflows: the key is three numbers, and
//!   `policies/sw.rs` has the tests;
//! - bandwidth in whole bytes a nanosecond, and a selector that is never called: nothing here
//!   measures bandwidth or selects policies;
//! - a scheduler thread whose sleep arrivals do not interrupt: there is no thread, `Wait` says
//!   "until then or the next `submit`", and `an_arrival_may_end_a_wait` below shows the second;
//! - file ids compared as strings and arrays of mismatched sizes: files are dense numbers;
//! - IOFSL's deadline stub and zero-length check: there is no deadline policy, and an empty range
//!   is refused (`lane.rs`);
//! - release before the I/O, clock as id, constant queue number (GekkoFWD): the embedder completes
//!   after its I/O, and ids and sequence numbers are the scheduler's own.

mod support;

use std::collections::BTreeSet;

use forebay_sched::{
    Access, Batch, Bypass, Cancellation, Decision, GuardMode, Policy, PolicyName, PolicySettings,
    Request, RequestId, Room, Scheduler, SchedulerOptions, Selection, build,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};
use support::{Bare, read, run_dry, write};

const KIB: u64 = 1 << 10;

fn built(name: PolicyName) -> Box<dyn Policy> {
    build(name, &PolicySettings::default())
}

fn policy(name: PolicyName) -> Bare<Box<dyn Policy>> {
    Bare::new(built(name))
}

fn scheduler(name: PolicyName) -> Scheduler {
    Scheduler::new(
        SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() },
        built(name),
    )
}

fn request(access: Access, start: u64, length: u64) -> Request {
    let range = ByteRange::new(Offset(start), Bytes(length));
    Request { tag: 0, file: FileIndex(0), access, range, client: ClientId(0), class: ClassId(0) }
}

fn submit(scheduler: &mut Scheduler, request: Request) -> RequestId {
    scheduler.submit(Timestamp(0), request, Room::Full).expect("there is room").id()
}

/// The adaptive quantum was capped by a request count taken for bytes: 16 bytes, so that only
/// the first request of a queue was ever served.
#[test]
fn the_adaptive_quantum_does_not_collapse() {
    let mut policy = policy(PolicyName::Aioli);
    let mut now = Timestamp(0);
    let mut largest = 0;
    for round in 0..200u64 {
        for block in 0..32 {
            policy.add(now, &read(round * 32 + block, 0, (round * 32 + block) * 8 * KIB, 8 * KIB));
        }
        for batch in run_dry(&mut policy, now) {
            largest = if round >= 100 { largest.max(batch.len()) } else { 0 };
        }
        now = now + Nanos::millis(10);
    }
    assert!(
        largest >= 16,
        "after a hundred rounds of adaptation the largest batch has {largest} requests"
    );
}

/// The time waited was subtracted again at every visit, so that a wait shortened with polling.
#[test]
fn asking_often_does_not_shorten_a_wait() {
    let until = |questions: u64| {
        let mut scheduler = scheduler(PolicyName::Aioli);
        let mut batch = Batch::new();
        let (mut now, mut ends) = (Timestamp(0), Vec::new());
        // Two readers are served together; one comes back far away, so its partner is waited for.
        let ids = [(0, 8), (8, 8)].map(|(start, length)| {
            submit(&mut scheduler, request(Access::Read, start * KIB, length * KIB))
        });
        assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
        ids.into_iter().for_each(|id| _ = scheduler.complete(now, id, Bytes(8 * KIB)));
        submit(&mut scheduler, request(Access::Read, 1 << 30, 8 * KIB));
        while let Decision::Wait { until } = scheduler.next(now, &mut batch) {
            ends.push(until);
            now = Timestamp((now.0 + until.0 / questions).min(until.0));
        }
        (ends.first().copied(), ends.last().copied(), now)
    };
    let (first, last, end) = until(100);
    assert!(first.is_some(), "a jump waits");
    assert_eq!(first, last, "the end of a wait does not move");
    assert_eq!(Some(end), first, "and the wait is as long as it said");
    assert_eq!(until(1).2, end, "however often one asks");
}

/// When a read was selected, the writes of the file did not age: writes starved.
#[test]
fn a_stream_of_reads_does_not_starve_writes() {
    for name in PolicyName::ALL {
        let mut policy = policy(name);
        policy.add(Timestamp(0), &write(0, 0, 1 << 30, 64 * KIB));
        let mut batches = 0;
        let mut now = Timestamp(0);
        let mut batch = Vec::new();
        for seq in 1.. {
            policy.add(now, &read(seq, 0, seq * 64 * KIB, 64 * KIB));
            now = now + Nanos::millis(1);
            batch.clear();
            match policy.select(now, &mut batch) {
                Selection::Batch => batches += 1,
                Selection::Wait { .. } | Selection::Idle => continue,
            }
            batch
                .iter()
                .for_each(|member| policy.complete(now, member, member.request.range.length()));
            if batch[0].request.access == Access::Write {
                break;
            }
            // SJF's aging is a time, 500 ms, which is the longest of all bounds here.
            assert!(
                batches < 600,
                "{name}: the write is still waiting after {batches} batches of reads"
            );
        }
    }
}

/// Nothing kept reads and writes in order, and overlapping writes were sorted by offset: the
/// last writer could lose. (`consistency.rs` checks the whole rule.)
#[test]
fn of_two_overlapping_writes_the_later_goes_later() {
    for name in PolicyName::ALL {
        let mut scheduler = scheduler(name);
        let later_offset = submit(&mut scheduler, request(Access::Write, 8 * KIB, 8 * KIB));
        let earlier_offset = submit(&mut scheduler, request(Access::Write, 4 * KIB, 8 * KIB));
        let read = submit(&mut scheduler, request(Access::Read, 4 * KIB, 8 * KIB));
        let mut batch = Batch::new();
        let (mut order, mut now) = (Vec::new(), Timestamp(0));
        while order.len() < 3 {
            match scheduler.next(now, &mut batch) {
                Decision::Dispatch => order.extend(batch.members().iter().map(|member| member.id)),
                Decision::Wait { until } => now = until,
                Decision::Idle => unreachable!("what is in flight is completed at once"),
            }
            order.iter().for_each(|id| _ = scheduler.complete(now, *id, Bytes(8 * KIB)));
        }
        assert_eq!(order, [later_offset, earlier_offset, read], "{name}");
    }
}

/// Release and cancel looked for (file, offset, length): the wrong one of two twins could go.
#[test]
fn a_cancel_takes_the_request_it_names_and_not_its_twin() {
    for name in PolicyName::ALL {
        let mut scheduler = scheduler(name);
        let twins = [(); 3].map(|()| submit(&mut scheduler, request(Access::Read, 0, 4 * KIB)));
        assert_eq!(scheduler.cancel(Timestamp(0), twins[1]), Cancellation::Cancelled);
        assert_eq!(scheduler.cancel(Timestamp(0), twins[1]), Cancellation::Unknown);
        let mut left = BTreeSet::new();
        let (mut batch, mut now) = (Batch::new(), Timestamp(0));
        loop {
            match scheduler.next(now, &mut batch) {
                Decision::Dispatch => left.extend(batch.members().iter().map(|member| member.id)),
                Decision::Wait { until } => now = until,
                Decision::Idle => break,
            }
        }
        assert_eq!(left, BTreeSet::from([twins[0], twins[2]]), "{name}");
    }
}

/// Arrivals did not interrupt the scheduler's sleep.
#[test]
fn an_arrival_may_end_a_wait() {
    let mut scheduler = scheduler(PolicyName::Aioli);
    let (mut batch, now) = (Batch::new(), Timestamp(0));
    let ids =
        [0, 8].map(|start| submit(&mut scheduler, request(Access::Read, start * KIB, 8 * KIB)));
    assert_eq!(scheduler.next(now, &mut batch), Decision::Dispatch);
    ids.into_iter().for_each(|id| _ = scheduler.complete(now, id, Bytes(8 * KIB)));
    submit(&mut scheduler, request(Access::Read, 1 << 30, 8 * KIB));
    let Decision::Wait { until } = scheduler.next(now, &mut batch) else { panic!("a jump waits") };
    let continuation = submit(&mut scheduler, request(Access::Read, 16 * KIB, 8 * KIB));
    assert_eq!(scheduler.next(Timestamp(1), &mut batch), Decision::Dispatch);
    assert!(Timestamp(1) < until);
    assert_eq!(batch.members()[0].id, continuation);
}

/// Changing the algorithm existed as a frame in which no registered policy could take part.
#[test]
fn every_policy_can_replace_every_other() {
    for (from, to) in PolicyName::ALL.iter().flat_map(|from| PolicyName::ALL.map(|to| (*from, to)))
    {
        let mut scheduler = scheduler(from);
        let ids: BTreeSet<RequestId> = (0..20)
            .map(|n| submit(&mut scheduler, request(Access::Read, n * 7 % 20 * 4 * KIB, 4 * KIB)))
            .collect();
        let old = scheduler.switch_policy(Timestamp(0), built(to));
        assert_eq!((old.queued_count(), old.name()), (0, from.as_str()));
        assert_eq!(scheduler.policy_name(), to.as_str());
        let (mut batch, mut now, mut left) = (Batch::new(), Timestamp(0), BTreeSet::new());
        loop {
            match scheduler.next(now, &mut batch) {
                Decision::Dispatch => left.extend(batch.members().iter().map(|member| member.id)),
                Decision::Wait { until } => now = until,
                Decision::Idle => break,
            }
        }
        assert_eq!(left, ids, "{from} to {to}");
    }
}

/// IOFSL ordered children by pointer and merged without bound.
#[test]
fn merging_is_bounded_and_in_offset_order() {
    for name in PolicyName::ALL {
        let mut policy = policy(name);
        for n in 0..2_000u64 {
            policy.add(Timestamp(0), &read(n, 0, n * 1_103 % 2_000 * 4 * KIB, 4 * KIB));
        }
        for batch in run_dry(&mut policy, Timestamp(0)) {
            // `run_dry` has checked that each batch is in offset order and without a gap.
            let bytes: u64 = batch.iter().map(|member| member.request.range.length().0).sum();
            assert!(bytes <= 4 << 20, "{name}: {bytes} bytes in one batch");
        }
    }
}

/// A missing or malformed setting gave a message, then a run with default values.
#[test]
fn unknown_names_are_errors_that_list_the_known_ones() {
    let error = "fifo".parse::<PolicyName>().expect_err("there is no such policy");
    assert_eq!(
        error.to_string(),
        "unknown policy; one of TO, TO-agg, SJF, MLF, aIOLi, HBRR, SW, NOOP"
    );
    for name in PolicyName::ALL {
        assert_eq!(name.as_str().to_lowercase().parse(), Ok(name));
        assert_eq!(policy(name).name(), name.as_str());
    }
    assert!("bytes".parse::<GuardMode>().is_err());
    assert_eq!("OVERLAP".parse(), Ok(GuardMode::Overlap));
}
