//! The alarm: what makes a policy's wait end when nothing else happens.
//!
//! For call-backs it is a thread, started by the first wait; for polling, a timer descriptor,
//! which is readable when there is something to poll for.
//!
//! The thread that keeps the time calls back itself once it is due. Whoever sets the next time
//! meanwhile finds nobody asleep and starts one more, so that a slow call-back stops no clock.

use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_units::{Nanos, Timestamp};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock::Clock;
use crate::error::Error;
use crate::sys;

/// How many threads keep the time or call back. Beyond that, callers wait and call back themselves.
const THREADS_MAX: usize = 8;

/// When the sleeper wakes next.
#[derive(Debug, Default)]
struct Plan {
    until: Option<Timestamp>,
    /// How many threads sleep until then; the others call back.
    asleep: usize,
    threads: Vec<JoinHandle<()>>,
    is_over: bool,
}

#[derive(Debug)]
struct Bell {
    plan: Mutex<Plan>,
    changed: Condvar,
    /// When a thread that sleeps wakes next; `u64::MAX` if none does.
    rings_at: AtomicU64,
}

impl Default for Bell {
    fn default() -> Self {
        let rings_at = AtomicU64::new(u64::MAX);
        Self { plan: Mutex::default(), changed: Condvar::new(), rings_at }
    }
}

impl Bell {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what others may rely on without taking the lock.
    fn publish(&self, plan: &Plan) {
        let until = plan.until.filter(|_| plan.asleep > 0);
        self.rings_at.store(until.map_or(u64::MAX, |until| until.0), Ordering::SeqCst);
    }
}

/// Threads that sleep until the earliest time they were told.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    bell: Arc<Bell>,
}

impl Sleeper {
    /// Has `wake` called at `until`, and possibly before. `wake` says whether to go on. Returns
    /// whether it will be: not if there is no thread to be had.
    pub(crate) fn set(
        &self,
        clock: Clock,
        until: Timestamp,
        wake: impl Fn() -> bool + Send + 'static,
    ) -> bool {
        if self.bell.rings_at.load(Ordering::SeqCst) <= until.0 {
            return true;
        }
        let mut plan = self.bell.plan();
        self.bring_forward(&mut plan, until);
        self.see_to(&mut plan, clock, wake)
    }

    /// As [`set`](Self::set), for a thread that `wake` runs on and that is about to return.
    pub(crate) fn set_for_return(&self, until: Timestamp) {
        self.bring_forward(&mut self.bell.plan(), until);
    }

    fn bring_forward(&self, plan: &mut Plan, until: Timestamp) {
        if plan.until.is_none_or(|planned| until < planned) {
            plan.until = Some(until);
            self.bell.publish(plan);
            self.bell.changed.notify_one();
        }
    }

    /// Has somebody keep the time that is set, if any is, while the caller does not return to `wake`.
    pub(crate) fn stand_in(&self, clock: Clock, wake: impl Fn() -> bool + Send + 'static) {
        let mut plan = self.bell.plan();
        if plan.until.is_some() {
            // Without a thread it waits for the caller's.
            _ = self.see_to(&mut plan, clock, wake);
        }
    }

    fn see_to(
        &self,
        plan: &mut Plan,
        clock: Clock,
        wake: impl Fn() -> bool + Send + 'static,
    ) -> bool {
        if plan.is_over {
            return false;
        }
        if plan.asleep > 0 {
            return true;
        }
        if plan.threads.len() >= THREADS_MAX {
            return false;
        }
        let bell = Arc::clone(&self.bell);
        let body = move || sleep_and_wake(&bell, clock, wake);
        let Ok(thread) = sys::spawn_without_signals("forebay-alarm", body) else { return false };
        // It counts from now on, so that nobody starts another one before it runs.
        plan.asleep += 1;
        plan.threads.push(thread);
        self.bell.publish(plan);
        true
    }
}

/// A thread of the sleeper, which counts as asleep when it begins.
fn sleep_and_wake(bell: &Bell, clock: Clock, wake: impl Fn() -> bool) {
    let mut plan = bell.plan();
    while !plan.is_over {
        let left = plan.until.map(|until| until - clock.now());
        plan = match left {
            None => bell.changed.wait(plan).unwrap_or_else(PoisonError::into_inner),
            Some(Nanos::ZERO) => {
                plan.until = None;
                plan.asleep -= 1;
                bell.publish(&plan);
                drop(plan);
                // A call-back that panics takes its own loop along, not the alarm.
                let goes_on = catch_unwind(AssertUnwindSafe(&wake)).unwrap_or(true);
                plan = bell.plan();
                plan.asleep += 1;
                bell.publish(&plan);
                if !goes_on {
                    return;
                }
                plan
            }
            Some(left) => {
                let waited = bell.changed.wait_timeout(plan, Duration::from_nanos(left.0));
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

impl Sleeper {
    /// Ends the threads, if there are any; nobody is woken after that.
    pub(crate) fn end(&self) {
        let mut plan = self.bell.plan();
        plan.is_over = true;
        let threads = core::mem::take(&mut plan.threads);
        drop(plan);
        self.bell.changed.notify_all();
        for thread in threads {
            // A sleeper itself may be the last to use the controller; it then ends by itself.
            if thread.thread().id() != thread::current().id() {
                // It does not panic, and if it did there would be nobody to tell.
                _ = thread.join();
            }
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a descriptor says at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Nothing,
    At(Timestamp),
    Now,
}

/// A timer whose descriptor is readable when its time has come. Used under the lock.
#[derive(Debug)]
pub(crate) struct Timer {
    descriptor: OwnedFd,
    says: Mutex<Says>,
}

impl Timer {
    pub(crate) fn new() -> Result<Self, Error> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { descriptor, says: Mutex::new(Says::Nothing) })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Readable from now on.
    pub(crate) fn ring(&self) {
        self.say(Says::Now, Nanos(1));
    }

    /// Readable from `until` on.
    pub(crate) fn ring_at(&self, now: Timestamp, until: Timestamp) {
        self.say(Says::At(until), Nanos((until - now).0.max(1)));
    }

    /// Not readable.
    pub(crate) fn silence(&self) {
        self.say(Says::Nothing, Nanos::ZERO);
    }

    fn say(&self, what: Says, after: Nanos) {
        let mut says = self.says.lock().unwrap_or_else(PoisonError::into_inner);
        if core::mem::replace(&mut *says, what) == what {
            return;
        }
        let it_value = Timespec {
            tv_sec: (after.0 / 1_000_000_000) as i64,
            tv_nsec: (after.0 % 1_000_000_000) as i64,
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval, it_value };
        let set = timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &value);
        debug_assert!(set.is_ok(), "a timer of our own with a valid time");
    }
}
