//! The time in which a device is measured: the machine's, or one that a test moves.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use forebay_engine::store::Wake;
use forebay_units::{Nanos, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

/// A clock that can wait for a store.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Waits until the store has something to say.
    ///
    /// # Errors
    /// What the system says to waiting.
    fn wait(&mut self, wake: Wake<'_>) -> Result<(), Errno>;
}

/// The machine's clock, from when it was made.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

/// So long before a deadline sleeping ends and looking begins: a wake-up takes as much. More looking
/// would have a busy machine take the processor away for milliseconds.
const LOOK: Nanos = Nanos::micros(10);

/// The longest sleep: a store that forgets to wake is looked at all the same.
const SLEEP_MAX: Nanos = Nanos::secs(1);

impl RealClock {
    /// A clock at 0. The thread's timers are to be on time from now on: their usual slack of 50 us
    /// is half of what a fast device takes. A kernel that does not do that only makes them later.
    pub fn new() -> Self {
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        Self { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wait(&mut self, wake: Wake<'_>) -> Result<(), Errno> {
        let left = wake.deadline.map_or(SLEEP_MAX, |deadline| deadline - self.now());
        let sleep = (left - LOOK).min(SLEEP_MAX);
        if wake.deadline.is_some() && sleep == Nanos::ZERO {
            std::hint::spin_loop();
            return Ok(());
        }
        let timeout =
            Timespec::try_from(Duration::from_nanos(sleep.0)).map_err(|_| Errno::INVAL)?;
        let mut descriptors: Vec<PollFd<'_>> = wake
            .descriptor
            .map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN))
            .into_iter()
            .collect();
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
