//! Every call of a controller, one thread at a time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_controller::{
    Batch, Controller, Delivery, Detail, Error, FileKey, Hint, Notice, Options, Outcome,
    Submission, Ticket,
};
use forebay_sched::{Access, PolicyName, PolicySettings, build};
use forebay_units::{ByteRange, Bytes, Nanos, Offset};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::support::{KIB, controller, file, ids, logging, options, read, ticket, write};

const DONE: Outcome = Outcome::Moved(Bytes(8 * KIB));

#[test]
fn an_idle_controller_dispatches_on_the_callers_thread() {
    let seen = Arc::new(Mutex::new(None));
    let tell = Arc::clone(&seen);
    let call_back = move |_: &Controller, _: &Batch<'_>| {
        *tell.lock().unwrap() = Some(std::thread::current().id());
    };
    let controller =
        controller(PolicyName::Aioli, &Options::default(), Delivery::CallBack(Box::new(call_back)));
    controller.submit(&read(1, 1, 0)).unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(std::thread::current().id()));
}

#[test]
fn what_exceeds_the_depth_waits_and_leaves_merged() {
    let (controller, log) = logging(PolicyName::ToAgg, &options(1, 100));
    let first = controller.submit(&read(0, 1, 0)).unwrap();
    for id in 1..5 {
        controller.submit(&read(id, 1, id * 8 * KIB)).unwrap();
    }
    assert_eq!(ids(&log), [vec![0]]);
    controller.complete(first, DONE).unwrap();
    assert_eq!(ids(&log), [vec![0], vec![1, 2, 3, 4]]);
    let state = controller.snapshot(Detail::Counters).unwrap();
    assert_eq!((state.queued_count, state.in_flight_count, state.policy), (0, 4, "TO-agg"));
}

#[test]
fn a_batch_tells_its_file_and_extent() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let call_back = move |_: &Controller, batch: &Batch<'_>| {
        tell.lock().unwrap().push((batch.file, batch.access, batch.extent));
    };
    let controller =
        controller(PolicyName::To, &options(4, 10), Delivery::CallBack(Box::new(call_back)));
    controller.submit(&write(1, 7, 4_096)).unwrap();
    let extent = ByteRange::new(Offset(4_096), Bytes(8 * KIB));
    assert_eq!(*seen.lock().unwrap(), [(file(7), Access::Write, extent)]);
}

#[test]
fn a_conflicting_request_waits_until_the_earlier_one_is_complete() {
    let (controller, log) = logging(PolicyName::Sjf, &options(8, 100));
    let first = controller.submit(&write(1, 1, 0)).unwrap();
    controller.submit(&read(2, 1, 4 * KIB)).unwrap();
    controller.submit(&read(3, 2, 0)).unwrap();
    assert_eq!(ids(&log), [vec![1], vec![3]]);
    controller.complete(first, Outcome::Failed(5)).unwrap();
    assert_eq!(ids(&log), [vec![1], vec![3], vec![2]]);
}

#[test]
fn a_bad_range_is_refused() {
    let (controller, _) = logging(PolicyName::To, &options(1, 10));
    let with = |range| controller.submit(&Submission { range, ..read(1, 1, 0) });
    let range = |start, length| ByteRange::new(Offset(start), Bytes(length));
    let largest = i64::MAX as u64;
    assert_eq!(with(range(5, 0)), Err(Error::EmptyRange));
    assert_eq!(with(range(largest - 7, 8)), Err(Error::RangeTooFar));
    assert_eq!(with(range(u64::MAX, 8)), Err(Error::EmptyRange));
    assert_eq!(with(range(u64::MAX - 3, 8)), Err(Error::RangeTooFar));
    assert!(with(range(largest - 8, 8)).is_ok());
    let append =
        Submission { access: Access::Alone, range: ByteRange::WHOLE_FILE, ..read(2, 1, 0) };
    assert!(controller.submit(&append).is_ok());
    let sync = Submission { access: Access::Sync, range: range(0, 0), ..read(3, 1, 0) };
    assert!(controller.submit(&sync).is_ok());
}

#[test]
fn a_full_queue_refuses_and_takes_again() {
    let (controller, _) = logging(PolicyName::To, &options(1, 3));
    let first = controller.submit(&read(0, 1, 0)).unwrap();
    for id in 1..=3 {
        controller.submit(&read(id, 1, id * 8 * KIB)).unwrap();
    }
    assert_eq!(controller.submit(&read(4, 1, 0)), Err(Error::QueueFull));
    controller.complete(first, DONE).unwrap();
    assert!(controller.submit(&read(4, 1, 0)).is_ok());
}

#[test]
fn a_ticket_is_good_for_one_completion() {
    let (controller, _) = logging(PolicyName::To, &options(1, 10));
    let first = controller.submit(&read(1, 1, 0)).unwrap();
    let second = controller.submit(&read(2, 1, 0)).unwrap();
    assert_eq!(controller.complete(second, DONE), Err(Error::NotDispatched));
    assert_eq!(controller.complete(first, DONE), Ok(()));
    assert_eq!(controller.complete(first, DONE), Err(Error::UnknownTicket));
    assert_eq!(controller.cancel(first), Err(Error::UnknownTicket));
    assert_eq!(controller.complete(second, DONE), Ok(()));
}

#[test]
fn a_ticket_of_another_controller_is_unknown() {
    let (one, _) = logging(PolicyName::To, &options(1, 10));
    let (other, _) = logging(PolicyName::To, &options(1, 10));
    let ticket = one.submit(&read(1, 1, 0)).unwrap();
    other.submit(&read(1, 1, 0)).unwrap();
    assert_eq!(other.complete(ticket, DONE), Err(Error::UnknownTicket));
    assert_eq!(other.cancel(ticket), Err(Error::UnknownTicket));
    assert_eq!(other.wait(ticket, None), Err(Error::UnknownTicket));
    for number in [0, 1, u64::MAX] {
        assert_eq!(one.complete(Ticket(number), DONE), Err(Error::UnknownTicket));
    }
}

#[test]
fn what_is_cancelled_is_never_dispatched() {
    let (controller, log) = logging(PolicyName::Aioli, &options(1, 10));
    let first = controller.submit(&read(1, 1, 0)).unwrap();
    let second = controller.submit(&read(2, 1, 8 * KIB)).unwrap();
    controller.submit(&read(3, 2, 0)).unwrap();
    assert_eq!(controller.cancel(first), Err(Error::Dispatched));
    assert_eq!(controller.cancel(second), Ok(()));
    assert_eq!(controller.cancel(second), Err(Error::UnknownTicket));
    controller.complete(first, DONE).unwrap();
    controller.complete(ticket(&log, 3), DONE).unwrap();
    assert_eq!(ids(&log), [vec![1], vec![3]]);
}

thread_local! {
    /// How many call-backs run on this thread, one inside the other.
    static DEPTH: Cell<u64> = const { Cell::new(0) };
}

/// Runs a call-back's body and returns how deep it was.
fn nested(body: impl FnOnce()) -> u64 {
    let depth = DEPTH.get() + 1;
    DEPTH.set(depth);
    body();
    DEPTH.set(depth - 1);
    depth
}

#[test]
fn a_call_back_may_submit_complete_and_cancel_without_growing_the_stack() {
    const COUNT: u64 = 5_000;
    let [deepest, completed] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let (most, counts) = (Arc::clone(&deepest), Arc::clone(&completed));
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        let depth = nested(|| {
            for turn in batch.turns {
                if turn.id < COUNT {
                    controller.submit(&read(turn.id + 1, 1, 0)).unwrap();
                    let taken_back = controller.submit(&read(COUNT + 9, 2, 0)).unwrap();
                    controller.cancel(taken_back).unwrap();
                }
                controller.complete(turn.ticket, DONE).unwrap();
                counts.fetch_add(1, Ordering::Relaxed);
            }
        });
        most.fetch_max(depth, Ordering::Relaxed);
    };
    let controller =
        controller(PolicyName::Mlf, &options(1, 1_000), Delivery::CallBack(Box::new(call_back)));
    controller.submit(&read(0, 1, 0)).unwrap();
    wait_until(|| completed.load(Ordering::Relaxed) == COUNT + 1);
    controller.drain(None).unwrap();
    assert_eq!(controller.snapshot(Detail::Counters).unwrap().scheduler.cancelled, COUNT);
    assert_eq!(deepest.load(Ordering::Relaxed), 1);
}

#[test]
fn two_controllers_may_call_each_other() {
    let first: Arc<Mutex<Option<Controller>>> = Arc::default();
    let into_first = Arc::clone(&first);
    let [count, deepest] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let (counts, most) = (Arc::clone(&count), Arc::clone(&deepest));
    let second = controller(
        PolicyName::To,
        &options(4, 1_000),
        Delivery::CallBack(Box::new(move |controller: &Controller, batch: &Batch<'_>| {
            let depth = nested(|| {
                controller.complete(batch.turns[0].ticket, DONE).unwrap();
                if counts.fetch_add(1, Ordering::Relaxed) < 5_000 {
                    let first = into_first.lock().unwrap().clone().unwrap();
                    first.submit(&read(0, 1, 0)).unwrap();
                }
            });
            most.fetch_max(depth, Ordering::Relaxed);
        })),
    );
    let into_second = second.clone();
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        nested(|| {
            controller.complete(batch.turns[0].ticket, DONE).unwrap();
            into_second.submit(&read(0, 1, 0)).unwrap();
        });
    };
    let one =
        controller(PolicyName::To, &options(4, 1_000), Delivery::CallBack(Box::new(call_back)));
    *first.lock().unwrap() = Some(one.clone());
    one.submit(&read(0, 1, 0)).unwrap();
    wait_until(|| count.load(Ordering::Relaxed) > 5_000);
    assert_eq!(deepest.load(Ordering::Relaxed), 2, "one call-back of each");
    *first.lock().unwrap() = None;
}

/// Waits for something that another thread brings about.
fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not come about");
        std::thread::yield_now();
    }
}

#[test]
fn a_call_back_cannot_wait_for_itself() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&seen);
    let call_back = move |controller: &Controller, _: &Batch<'_>| {
        let waits = Submission { notice: Notice::Wait, ..read(2, 1, 0) };
        let waiting = controller.submit(&waits).unwrap();
        let mut seen = tell.lock().unwrap();
        seen.push(controller.wait(waiting, None));
        seen.push(controller.drain(None));
        seen.push(controller.close());
    };
    let controller =
        controller(PolicyName::To, &options(1, 10), Delivery::CallBack(Box::new(call_back)));
    controller.submit(&read(1, 1, 0)).unwrap();
    assert_eq!(*seen.lock().unwrap(), [Err(Error::InCallBack); 3]);
}

#[test]
fn a_request_may_be_waited_for() {
    let controller = controller(PolicyName::To, &options(1, 10), Delivery::Wait);
    assert_eq!(controller.submit(&read(1, 1, 0)), Err(Error::WrongDelivery));
    let waits = |id| Submission { notice: Notice::Wait, ..read(id, 1, 0) };
    let first = controller.submit(&waits(1)).unwrap();
    assert_eq!(controller.wait(first, None), Ok(()));
    let second = controller.submit(&waits(2)).unwrap();
    assert_eq!(controller.wait(second, Some(Duration::from_millis(1))), Err(Error::TimedOut));
    std::thread::scope(|scope| {
        let turned = scope.spawn(|| controller.wait(second, None));
        controller.complete(first, DONE).unwrap();
        assert_eq!(turned.join().unwrap(), Ok(()));
    });
    let third = controller.submit(&waits(3)).unwrap();
    std::thread::scope(|scope| {
        let turned = scope.spawn(|| controller.wait(third, None));
        controller.cancel(third).unwrap();
        let error = turned.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Cancelled | Error::UnknownTicket), "{error:?}");
    });
    controller.complete(second, DONE).unwrap();
    assert_eq!(controller.close(), Ok(()));
}

#[test]
fn requests_that_are_waited_for_split_a_batch() {
    let (controller, log) = logging(PolicyName::ToAgg, &options(1, 10));
    let first = controller.submit(&read(0, 2, 0)).unwrap();
    for id in 0..5 {
        let notice = if id == 2 { Notice::Wait } else { Notice::Deliver };
        controller.submit(&Submission { notice, ..read(10 + id, 1, id * 8 * KIB) }).unwrap();
    }
    controller.complete(first, DONE).unwrap();
    assert_eq!(ids(&log), [vec![0], vec![10, 11], vec![13, 14]]);
}

/// Whether the descriptor is readable within `milliseconds`.
fn is_readable(controller: &Controller, milliseconds: i64) -> bool {
    let descriptor = controller.descriptor().unwrap();
    let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
    let most = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    poll(&mut descriptors, Some(&most)).unwrap() == 1
}

#[test]
fn without_any_thread_a_descriptor_says_when_to_poll() {
    let controller = controller(PolicyName::ToAgg, &options(2, 100), Delivery::Poll);
    let mut turns = Vec::new();
    assert!(!is_readable(&controller, 0));
    assert!(controller.poll(10, &mut turns).unwrap().is_none());
    for id in 0..4 {
        controller.submit(&read(id, 1, id * 8 * KIB)).unwrap();
    }
    assert!(is_readable(&controller, 0));
    let batch = controller.poll(3, &mut turns).unwrap().unwrap();
    assert_eq!((batch.turns.len(), batch.extent.length()), (3, Bytes(24 * KIB)));
    let tickets: Vec<Ticket> = batch.turns.iter().map(|turn| turn.ticket).collect();
    assert!(is_readable(&controller, 0), "the rest of the batch");
    let rest = controller.poll(3, &mut turns).unwrap().unwrap();
    assert_eq!((rest.turns[0].id, rest.extent.start), (3, Offset(24 * KIB)));
    let last = rest.turns[0].ticket;
    controller.submit(&read(9, 1, 0)).unwrap();
    assert!(controller.poll(3, &mut turns).unwrap().is_none(), "the depth is used up");
    assert!(!is_readable(&controller, 0));
    for ticket in tickets {
        controller.complete(ticket, DONE).unwrap();
    }
    controller.complete(last, DONE).unwrap();
    assert!(is_readable(&controller, 0));
    assert_eq!(controller.poll(3, &mut turns).unwrap().unwrap().turns[0].id, 9);
    assert_eq!(controller.poll(0, &mut turns).unwrap_err(), Error::OutOfRange);
}

#[test]
fn a_hold_makes_the_descriptor_wait_and_then_ring() {
    let controller = controller(PolicyName::ToAgg, &options(2, 100), Delivery::Poll);
    controller.hint(Hint::MoreFollows(Nanos::millis(30))).unwrap();
    controller.submit(&read(1, 1, 0)).unwrap();
    let mut turns = Vec::new();
    assert!(controller.poll(1, &mut turns).unwrap().is_none());
    assert!(is_readable(&controller, 900), "the hold is over some time");
    while controller.poll(1, &mut turns).unwrap().is_none() {
        assert!(is_readable(&controller, 900));
    }
}

#[test]
fn delivery_must_be_the_controllers() {
    let (called, _) = logging(PolicyName::To, &options(1, 10));
    assert_eq!(called.poll(1, &mut Vec::new()).unwrap_err(), Error::WrongDelivery);
    assert_eq!(called.descriptor().unwrap_err(), Error::WrongDelivery);
    let delivered = called.submit(&read(1, 1, 0)).unwrap();
    assert_eq!(called.wait(delivered, None), Err(Error::WrongDelivery));
    let polled = controller(PolicyName::To, &options(1, 10), Delivery::Poll);
    let waits = Submission { notice: Notice::Wait, ..read(1, 1, 0) };
    assert_eq!(polled.submit(&waits), Err(Error::WrongDelivery));
}

#[test]
fn a_hint_that_more_follows_merges_what_would_have_gone_alone() {
    let (controller, log) = logging(PolicyName::ToAgg, &options(8, 100));
    controller.hint(Hint::MoreFollows(Nanos::secs(1))).unwrap();
    for id in 0..3 {
        controller.submit(&read(id, 1, id * 8 * KIB)).unwrap();
    }
    assert!(ids(&log).is_empty());
    controller.hint(Hint::NoMore).unwrap();
    assert_eq!(ids(&log), [vec![0, 1, 2]]);
    assert_eq!(controller.hint(Hint::MoreFollows(Nanos::secs(2))), Err(Error::OutOfRange));
}

#[test]
fn a_hold_that_nobody_ends_is_over_after_its_time() {
    let (controller, log) = logging(PolicyName::ToAgg, &options(8, 100));
    controller.hint(Hint::MoreFollows(Nanos::millis(5))).unwrap();
    controller.submit(&read(1, 1, 0)).unwrap();
    wait_until(|| !ids(&log).is_empty());
}

#[test]
fn files_that_are_not_used_are_forgotten() {
    let few = Options { idle_files_max: 10, ..options(4, 100) };
    let (controller, _) = logging(PolicyName::Aioli, &few);
    for number in 0..1_000 {
        let key = FileKey::of_name(format!("/data/{number}").as_bytes());
        let asked = Submission::new(number, key, Access::Write, Offset(0), Bytes(KIB));
        let ticket = controller.submit(&asked).unwrap();
        controller.complete(ticket, DONE).unwrap();
    }
    assert_eq!(controller.snapshot(Detail::Counters).unwrap().files_count, 10);
    let last = FileKey::of_name(b"/data/999");
    controller.hint(Hint::Forget(last)).unwrap();
    assert_eq!(controller.snapshot(Detail::Counters).unwrap().files_count, 9);
}

#[test]
fn a_switch_keeps_what_waits() {
    let (controller, log) = logging(PolicyName::To, &options(1, 100));
    let first = controller.submit(&read(0, 2, 0)).unwrap();
    for id in [3, 1, 2] {
        controller.submit(&read(id, 1, id * 8 * KIB)).unwrap();
    }
    controller.switch_policy(build(PolicyName::ToAgg, &PolicySettings::default())).unwrap();
    controller.complete(first, DONE).unwrap();
    assert_eq!(ids(&log), [vec![0], vec![1, 2, 3]]);
    assert_eq!(controller.snapshot(Detail::Counters).unwrap().policy, "TO-agg");
}

#[test]
fn a_greater_depth_lets_more_leave() {
    let (controller, log) = logging(PolicyName::To, &options(1, 100));
    for id in 0..4 {
        controller.submit(&read(id, id, 0)).unwrap();
    }
    assert_eq!(ids(&log).len(), 1);
    controller.set_depth(3).unwrap();
    assert_eq!(ids(&log).len(), 3);
    assert_eq!(controller.set_depth(0), Err(Error::OutOfRange));
}

#[test]
fn what_waits_can_be_taken_back() {
    let (controller, log) = logging(PolicyName::Hbrr, &options(1, 100));
    let first = controller.submit(&write(1, 1, 0)).unwrap();
    controller.submit(&write(2, 1, 0)).unwrap();
    controller.submit(&read(3, 2, 0)).unwrap();
    let back = controller.take_back().unwrap();
    assert_eq!(back.iter().map(|turn| turn.id).collect::<Vec<_>>(), [2, 3]);
    for turn in &back {
        assert_eq!(controller.complete(turn.ticket, DONE), Err(Error::UnknownTicket));
    }
    assert_eq!(controller.close(), Err(Error::Busy));
    controller.complete(first, DONE).unwrap();
    assert_eq!((controller.close(), ids(&log)), (Ok(()), vec![vec![1]]));
    assert_eq!(controller.submit(&read(4, 1, 0)), Err(Error::Draining));
}

#[test]
fn a_drain_waits_until_nothing_is_alive() {
    let (controller, log) = logging(PolicyName::To, &options(1, 100));
    for id in 0..3 {
        controller.submit(&read(id, id, 0)).unwrap();
    }
    assert_eq!(controller.drain(Some(Duration::from_millis(1))), Err(Error::TimedOut));
    std::thread::scope(|scope| {
        let drained = scope.spawn(|| controller.drain(None));
        for id in 0..3 {
            controller.complete(ticket(&log, id), DONE).unwrap();
        }
        assert_eq!(drained.join().unwrap(), Ok(()));
    });
    assert!(controller.submit(&read(9, 1, 0)).is_ok());
}

#[test]
fn options_outside_their_ranges_are_refused() {
    let policy = || build(PolicyName::To, &PolicySettings::default());
    for options in [options(0, 1), options(1, 0), options((1 << 24) + 1, 1), options(1, usize::MAX)]
    {
        let refused = Controller::new(&options, policy(), Delivery::Wait);
        assert_eq!(refused.err(), Some(Error::OutOfRange));
    }
}
