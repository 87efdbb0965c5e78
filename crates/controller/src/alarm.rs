//! The alarm: what makes a policy's wait end when nothing else happens.
//!
//! For call-backs it is a thread, started by the first wait; for polling, a timer descriptor,
//! which is readable when there is something to poll for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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

/// When the sleeper wakes next.
#[derive(Debug, Default)]
struct Plan {
    until: Option<Timestamp>,
    has_thread: bool,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Bell {
    plan: Mutex<Plan>,
    changed: Condvar,
}

impl Bell {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that sleeps until the earliest time it was told.
#[derive(Debug, Default)]
pub(crate) struct Sleeper {
    bell: Arc<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
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
        let mut plan = self.bell.plan();
        if plan.until.is_none_or(|planned| until < planned) {
            plan.until = Some(until);
            self.bell.changed.notify_one();
        }
        if plan.has_thread {
            return true;
        }
        let bell = Arc::clone(&self.bell);
        let body = move || sleep_and_wake(&bell, clock, wake);
        let Ok(thread) = sys::spawn_without_signals("forebay-alarm", body) else {
            plan.until = None;
            return false;
        };
        plan.has_thread = true;
        // Stored before anybody can end it.
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        true
    }
}

fn sleep_and_wake(bell: &Bell, clock: Clock, wake: impl Fn() -> bool) {
    let mut plan = bell.plan();
    while !plan.is_over {
        let left = plan.until.map(|until| until - clock.now());
        plan = match left {
            None => bell.changed.wait(plan).unwrap_or_else(PoisonError::into_inner),
            Some(Nanos::ZERO) => {
                plan.until = None;
                drop(plan);
                if !wake() {
                    return;
                }
                bell.plan()
            }
            Some(left) => {
                let waited = bell.changed.wait_timeout(plan, Duration::from_nanos(left.0));
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

impl Sleeper {
    /// Ends the thread, if there is one; nobody is woken after that.
    pub(crate) fn end(&self) {
        self.bell.plan().is_over = true;
        self.bell.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The sleeper itself may be the last to use the controller; it then ends by itself.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            // It does not panic, and if it did there would be nobody to tell.
            _ = thread.join();
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
