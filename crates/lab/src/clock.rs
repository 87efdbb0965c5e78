//! The device's clock: virtual nanoseconds since the daemon's start, and the alarm for them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use forebay_device::TimeScale;
use forebay_units::Timestamp;
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Virtual time: real time since the start over the time scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start_ns: u64,
    scale: TimeScale,
}

impl Clock {
    /// It is 0 now.
    pub(crate) fn start(scale: TimeScale) -> Self {
        Self { start_ns: monotonic_ns(), scale }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.scale.to_virtual(Timestamp(monotonic_ns() - self.start_ns))
    }

    /// The real nanoseconds from one moment to a later one.
    pub(crate) fn real_between(&self, earlier: Timestamp, later: Timestamp) -> u64 {
        (self.scale.to_real(later) - self.scale.to_real(earlier)).0
    }

    /// The kernel's monotonic time at `time`, rounded up: waking before a request is due would be for nothing.
    fn real(&self, time: Timestamp) -> Timespec {
        let ns = self.start_ns.saturating_add(self.scale.to_real(time).0).saturating_add(1);
        Timespec {
            tv_sec: (ns / NANOS_PER_SECOND).cast_signed(),
            tv_nsec: (ns % NANOS_PER_SECOND).cast_signed(),
        }
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * NANOS_PER_SECOND + now.tv_nsec.cast_unsigned()
}

/// A descriptor that becomes readable at an absolute time, so that a late awakening delays nothing but itself.
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

    /// Sets it to a time, or to never.
    pub(crate) fn set(&mut self, clock: &Clock, time: Option<Timestamp>) -> Result<(), Errno> {
        if self.set_to == time {
            return Ok(());
        }
        self.set_to = time;
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec {
            it_interval: never,
            it_value: time.map_or(never, |time| clock.real(time)),
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

    #[test]
    fn the_alarm_is_not_early_in_the_devices_own_time() {
        let clock = Clock::start(TimeScale::new(0.1).unwrap());
        let mut alarm = Alarm::new().unwrap();
        let due = clock.now() + Nanos::millis(20);
        alarm.set(&clock, Some(due)).unwrap();
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&alarm, PollFlags::IN)], Some(&minute)), Ok(1));
        assert!(clock.now() >= due);
    }
}
