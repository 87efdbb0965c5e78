//! Call-backs that do not return before something else has happened, and a scheduler that fails:
//! nobody waits for either. What never comes is given up after [`PATIENCE`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use forebay_controller::{
    Batch, Controller, Deliver, Delivery, Error, Hint, Notice, Options, Outcome, Submission,
};
use forebay_sched::{
    Accepted, Bypass, Policy, PolicyName, PolicySettings, RequestId, Requests, SchedulerOptions,
    Selection, build,
};
use forebay_units::{Nanos, Timestamp};

use crate::support::{options, read};

const PATIENCE: Duration = Duration::from_secs(30);

/// TO, which calls somebody under the lock when it is given a request.
struct Watched<F>(Box<dyn Policy>, F);

impl<F: FnMut() + Send> Policy for Watched<F> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn add(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        self.1();
        self.0.add(now, held, request);
    }

    fn select(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        self.0.select(now, held, batch)
    }

    fn cancel(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        self.0.cancel(now, held, request)
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.0.drain(held, into);
    }

    fn queued_count(&self) -> usize {
        self.0.queued_count()
    }
}

fn queueing(depth: usize) -> Options {
    let options = options(depth, 1_000);
    let scheduler = SchedulerOptions { bypass: Bypass::Never, ..options.scheduler };
    Options { scheduler, ..options }
}

fn made(
    depth: usize,
    under_lock: impl FnMut() + Send + 'static,
    call_back: impl Deliver + 'static,
) -> Controller {
    let policy = Watched(build(PolicyName::To, &PolicySettings::default()), under_lock);
    let delivery = Delivery::CallBack(Box::new(call_back));
    Controller::new(&queueing(depth), Box::new(policy), delivery).unwrap()
}

/// Requests as they are dispatched, and a call-back that says so and completes them.
struct Told {
    sender: Mutex<Sender<u64>>,
}

impl Told {
    fn new() -> (Arc<Self>, Receiver<u64>) {
        let (sender, dispatched) = mpsc::channel();
        (Arc::new(Self { sender: Mutex::new(sender) }), dispatched)
    }

    fn tell(&self, controller: &Controller, batch: &Batch<'_>) {
        for turn in batch.turns {
            // After a failed test nobody listens.
            _ = self.sender.lock().unwrap().send(turn.id);
            controller.complete(turn.ticket, Outcome::Moved(turn.length)).unwrap();
        }
    }
}

fn in_file_of_its_own(id: u64) -> Submission {
    read(id, id, 0)
}

/// Has `second` run by another thread while the first request is being queued, under the lock.
fn meanwhile(second: impl FnOnce() + Send + 'static) -> impl FnMut() + Send {
    let (begin, end) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (begins, ends) = (Arc::clone(&begin), Arc::clone(&end));
    thread::spawn(move || {
        begins.wait();
        second();
        ends.wait();
    });
    let mut is_first = true;
    move || {
        if core::mem::take(&mut is_first) {
            begin.wait();
            end.wait();
        }
    }
}

/// A controller that is known to the threads of a test only after they have been set up.
type Later = Arc<Mutex<Option<Controller>>>;

fn of(later: &Later) -> Controller {
    later.lock().unwrap().clone().unwrap()
}

#[test]
fn what_is_left_before_a_slow_call_back_does_not_wait_for_it() {
    let later = Later::default();
    let submits = Arc::clone(&later);
    let under_lock = meanwhile(move || {
        of(&submits).submit(&in_file_of_its_own(2)).unwrap();
    });
    let (told, dispatched) = Told::new();
    let dispatched = Mutex::new(dispatched);
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        told.tell(controller, batch);
        if batch.turns[0].id == 1 {
            let dispatched = dispatched.lock().unwrap();
            assert_eq!(dispatched.recv_timeout(PATIENCE), Ok(1));
            assert_eq!(dispatched.recv_timeout(PATIENCE), Ok(2));
        }
    };
    let controller = made(8, under_lock, call_back);
    *later.lock().unwrap() = Some(controller.clone());
    controller.submit(&in_file_of_its_own(1)).unwrap();
    controller.drain(Some(PATIENCE)).unwrap();
    *later.lock().unwrap() = None;
}

#[test]
fn who_attends_and_turns_slow_is_relied_on_no_longer() {
    const LAST: u64 = 20;
    let later = Later::default();
    let submits = Arc::clone(&later);
    let under_lock = meanwhile(move || {
        of(&submits).submit(&in_file_of_its_own(2)).unwrap();
    });
    let (told, dispatched) = Told::new();
    let dispatched = Mutex::new(dispatched);
    // The other thread submits one after the other, each once the one before is dispatched.
    let (next, wanted) = mpsc::channel();
    let next = Mutex::new(next);
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        told.tell(controller, batch);
        if batch.turns[0].id == 2 {
            let dispatched = dispatched.lock().unwrap();
            for id in 1..=LAST {
                assert_eq!(dispatched.recv_timeout(PATIENCE), Ok(id));
                if (2..LAST).contains(&id) {
                    next.lock().unwrap().send(id + 1).unwrap();
                }
            }
        }
    };
    let controller = made(8, under_lock, call_back);
    *later.lock().unwrap() = Some(controller.clone());
    let other = controller.clone();
    let submitter = thread::spawn(move || {
        for id in wanted.into_iter().take(LAST as usize - 2) {
            other.submit(&in_file_of_its_own(id)).unwrap();
        }
    });
    controller.submit(&in_file_of_its_own(1)).unwrap();
    submitter.join().unwrap();
    controller.drain(Some(PATIENCE)).unwrap();
    *later.lock().unwrap() = None;
}

#[test]
fn a_slow_call_back_of_the_alarm_stops_no_clock() {
    const HOLD: Nanos = Nanos::millis(200);
    let (told, dispatched) = Told::new();
    let (entered, is_in) = mpsc::channel();
    let (entered, dispatched) = (Mutex::new(entered), Mutex::new(dispatched));
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        told.tell(controller, batch);
        if batch.turns[0].id == 0 {
            assert_eq!(thread::current().name(), Some("forebay-alarm"));
            entered.lock().unwrap().send(()).unwrap();
            let dispatched = dispatched.lock().unwrap();
            assert_eq!(dispatched.recv_timeout(PATIENCE), Ok(0));
            let outcome = dispatched.recv_timeout(PATIENCE);
            entered.lock().unwrap().send(()).unwrap();
            assert_eq!(outcome, Ok(1));
        }
    };
    let controller = made(8, || (), call_back);
    controller.hint(Hint::MoreFollows(HOLD)).unwrap();
    controller.submit(&in_file_of_its_own(0)).unwrap();
    is_in.recv_timeout(PATIENCE).unwrap();
    controller.hint(Hint::MoreFollows(HOLD)).unwrap();
    controller.submit(&in_file_of_its_own(1)).unwrap();
    is_in.recv_timeout(PATIENCE * 2).unwrap();
    controller.drain(Some(PATIENCE)).unwrap();
    assert_eq!(controller.snapshot(forebay_controller::Detail::Counters).unwrap().queued_count, 0);
    controller.close().unwrap();
}

#[test]
fn who_holds_the_lock_inside_a_call_back_keeps_nothing_waiting() {
    const COUNT: u64 = 64;
    let (told, dispatched) = Told::new();
    let [may_hold, holds, gone] = [(); 3].map(|()| Arc::new(Barrier::new(2)));
    let (goes, is_called) = (Arc::clone(&gone), Arc::new(Barrier::new(2)));
    let calls = Arc::clone(&is_called);
    let dispatched = Mutex::new(dispatched);
    let call_back = move |controller: &Controller, batch: &Batch<'_>| {
        told.tell(controller, batch);
        match batch.turns[0].id {
            999 => {
                calls.wait();
                may_hold.wait();
                // Under the lock until the other thread has given up.
                let locked = controller.configure("nothing", "", |_, _| {
                    holds.wait();
                    goes.wait();
                });
                locked.unwrap();
                let dispatched = dispatched.lock().unwrap();
                for _ in 0..=COUNT {
                    dispatched.recv_timeout(PATIENCE).unwrap();
                }
            }
            0 => {
                may_hold.wait();
                holds.wait();
            }
            _ => {}
        }
    };
    let controller = made(1_000, || (), call_back);
    let other = controller.clone();
    let slow = thread::spawn(move || other.submit(&in_file_of_its_own(999)).unwrap());
    // Nothing is asked of the controller before: whoever asks may be the one who calls back.
    is_called.wait();
    controller.hint(Hint::MoreFollows(Nanos::secs(1))).unwrap();
    for id in 0..COUNT {
        controller.submit(&in_file_of_its_own(id)).unwrap();
    }
    controller.hint(Hint::NoMore).unwrap();
    gone.wait();
    slow.join().unwrap();
    controller.drain(Some(PATIENCE)).unwrap();
}

#[test]
fn who_sleeps_is_told_that_the_scheduler_has_failed() {
    for _ in 0..20 {
        let policy = build(PolicyName::To, &PolicySettings::default());
        let controller = Controller::new(&queueing(1), policy, Delivery::Wait).unwrap();
        let waiting = |id| Submission { notice: Notice::Wait, ..in_file_of_its_own(id) };
        let first = controller.submit(&waiting(0)).unwrap();
        controller.wait(first, None).unwrap();
        let second = controller.submit(&waiting(1)).unwrap();
        let (said, outcomes) = mpsc::channel();
        let (waits, drains) = (controller.clone(), controller.clone());
        let told = said.clone();
        thread::spawn(move || told.send(waits.wait(second, None)));
        thread::spawn(move || said.send(drains.drain(None)));
        while controller.submit(&waiting(2)) != Err(Error::Draining) {
            thread::yield_now();
        }
        let fails = || controller.configure("", "", |_, _| panic!("as planned"));
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
        for _ in 0..2 {
            assert_eq!(outcomes.recv_timeout(PATIENCE), Ok(Err(Error::Broken)));
        }
        assert_eq!(controller.submit(&in_file_of_its_own(3)).err(), Some(Error::WrongDelivery));
        assert_eq!(controller.hint(Hint::NoMore), Err(Error::Broken));
    }
}
