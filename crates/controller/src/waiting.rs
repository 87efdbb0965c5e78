//! Sleeping until something has changed: futexes, each shared by a few tickets.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::Timespec;

/// A place to sleep. What is waited for is changed first, then the place is [`wake`](Place::wake)d.
#[derive(Debug, Default)]
pub(crate) struct Place {
    changes: AtomicU32,
}

impl Place {
    pub(crate) fn wake(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        // Waking cannot fail with a valid address.
        _ = futex::wake(&self.changes, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// Sleeps until `ready` gives something, or until `until`.
    pub(crate) fn sleep<T>(
        &self,
        until: Option<Instant>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        loop {
            let seen = self.changes.load(Ordering::SeqCst);
            if let Some(found) = ready() {
                return Some(found);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return None;
            }
            let left = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            });
            match futex::wait(&self.changes, futex::Flags::PRIVATE, seen, left.as_ref()) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
                Err(error) => unreachable!("a futex of our own: {error}"),
            }
        }
    }
}

/// Places for all tickets.
#[derive(Debug)]
pub(crate) struct Places([Place; 64]);

impl Default for Places {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Place::default()))
    }
}

impl Places {
    pub(crate) fn of(&self, slot: u32) -> &Place {
        &self.0[slot as usize % self.0.len()]
    }

    pub(crate) fn wake_all(&self) {
        self.0.iter().for_each(Place::wake);
    }
}
