//! The real clock, read in one place: nanoseconds since the forwarder started.

use forebay_units::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The monotonic clock, counted from its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin_ns: monotonic_ns() }
    }

    pub(crate) fn now(self) -> Timestamp {
        Timestamp(monotonic_ns() - self.origin_ns)
    }

    /// The wall clock at time 0, in nanoseconds since 1970, as it stands today.
    pub(crate) fn wall_base_ns(self) -> u64 {
        ns_of(clock_gettime(ClockId::Realtime)).saturating_sub(self.now().0)
    }

    /// A time as the kernel's monotonic clock shows it; never zero, which timers take for "never".
    pub(crate) fn absolute(self, time: Timestamp) -> Timespec {
        let ns = self.origin_ns.saturating_add(time.0).max(1);
        Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
        }
    }
}

fn monotonic_ns() -> u64 {
    ns_of(clock_gettime(ClockId::Monotonic))
}

fn ns_of(time: Timespec) -> u64 {
    let part = |n: i64| u64::try_from(n).expect("clocks count from boot or from 1970");
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}
