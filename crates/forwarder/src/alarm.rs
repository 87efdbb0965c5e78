//! A deadline as a descriptor: `epoll` counts in milliseconds, a modelled disk and a waiting
//! policy in microseconds.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_units::Timestamp;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::clock::Clock;

/// Becomes readable at the time it is set to, and stays so until it is set anew.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
    set_to: Option<Timestamp>,
}

impl Alarm {
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, set_to: None })
    }

    /// Sets it to a time, or to never. Setting it to the time it is set to costs nothing.
    pub(crate) fn set(&mut self, clock: Clock, time: Option<Timestamp>) -> Result<(), Errno> {
        if self.set_to == time {
            return Ok(());
        }
        self.set_to = time;
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec {
            it_interval: never,
            it_value: time.map_or(never, |time| clock.absolute(time)),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value).map(drop)
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Nanos;
    use rustix::event::{PollFd, PollFlags, poll};

    fn is_due(alarm: &Alarm, wait: &Timespec) -> bool {
        let mut watched = [PollFd::new(alarm, PollFlags::IN)];
        poll(&mut watched, Some(wait)).expect("polls") > 0
    }

    #[test]
    fn it_is_due_at_its_time_and_not_before() {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let long = Timespec { tv_sec: 60, tv_nsec: 0 };
        let clock = Clock::start();
        let mut alarm = Alarm::new().expect("a timer");
        assert!(!is_due(&alarm, &now));
        let time = clock.now() + Nanos::micros(300);
        alarm.set(clock, Some(time)).expect("sets");
        assert!(is_due(&alarm, &long));
        assert!(clock.now() >= time);
        alarm.set(clock, Some(clock.now() + Nanos::secs(3600))).expect("sets");
        assert!(!is_due(&alarm, &now), "set anew, it is no longer due");
        alarm.set(clock, Some(Timestamp(0))).expect("sets");
        assert!(is_due(&alarm, &long), "what is past is due at once");
        alarm.set(clock, None).expect("sets");
        assert!(!is_due(&alarm, &now));
    }
}
