//! The lock around the scheduler.
//!
//! `std::sync::Mutex` would do, but for one thing: taking and letting go of this one are
//! sequentially consistent. So "let go, then look what was left" and "leave something, then try the
//! lock" need no fence between their halves for one of them to see the other (`pump.rs`), and a fence
//! costs as much as the lock.

mod sys;

pub(crate) use sys::{Held, Lock};

use core::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::thread::futex;

use crate::error::Error;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody may sleep until it is not.
const AWAITED: u32 = 2;
/// Whoever had it panicked.
const BROKEN: u32 = 3;

/// How often a taken lock is looked at before sleeping: it is held for less than a microsecond.
const SPINS: u32 = 100;

/// Who has the lock.
#[derive(Debug, Default)]
struct State(AtomicU32);

impl State {
    /// Whether it is the caller's now.
    fn try_take(&self) -> Result<bool, Error> {
        match self.0.compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Ok(true),
            Err(BROKEN) => Err(Error::Broken),
            Err(_) => Ok(false),
        }
    }

    fn take(&self) -> Result<(), Error> {
        for _ in 0..SPINS {
            if self.try_take()? {
                return Ok(());
            }
            core::hint::spin_loop();
        }
        loop {
            // Others may sleep as well, so it stays awaited.
            let change = |state| (state != BROKEN).then_some(AWAITED);
            match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change) {
                Err(_) => return Err(Error::Broken),
                Ok(FREE) => return Ok(()),
                Ok(_) => {}
            }
            match futex::wait(&self.0, futex::Flags::PRIVATE, AWAITED, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => unreachable!("a futex of our own: {error}"),
            }
        }
    }

    fn let_go(&self) {
        if self.0.swap(FREE, Ordering::SeqCst) == AWAITED {
            self.wake(1);
        }
    }

    /// Nobody gets it any more.
    fn break_for_ever(&self) {
        self.0.store(BROKEN, Ordering::SeqCst);
        self.wake(i32::MAX as u32);
    }

    fn is_broken(&self) -> bool {
        self.0.load(Ordering::SeqCst) == BROKEN
    }

    fn wake(&self, most: u32) {
        // Waking cannot fail with a valid address.
        _ = futex::wake(&self.0, futex::Flags::PRIVATE, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn one_at_a_time_has_it() {
        let lock = Lock::new(0_u64, || ());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut held = lock.take().unwrap();
                        let before = *held;
                        core::hint::black_box(&mut held);
                        *held = before + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.take().unwrap(), 40_000);
    }

    #[test]
    fn a_taken_lock_is_not_waited_for_unless_asked() {
        let lock = Lock::new((), || ());
        let held = lock.try_take().unwrap();
        assert!(held.is_some() && lock.try_take().unwrap().is_none());
        drop(held);
        assert!(lock.try_take().unwrap().is_some());
    }

    #[test]
    fn those_who_sleep_are_told_when_the_holder_has_panicked() {
        let (lock, taken) = (Lock::new((), || ()), Barrier::new(2));
        thread::scope(|scope| {
            let panicked = scope.spawn(|| {
                let _held = lock.take().unwrap();
                taken.wait();
                panic!("as planned");
            });
            taken.wait();
            let sleeper = scope.spawn(|| lock.take().err());
            assert!(panicked.join().is_err());
            assert_eq!(sleeper.join().unwrap(), Some(Error::Broken));
        });
        assert_eq!(lock.try_take().err(), Some(Error::Broken));
        assert!(lock.is_broken());
    }
}
