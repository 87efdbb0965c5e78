//! What a lock protects, reached through the holder's guard only.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use std::thread;

use super::State;
use crate::error::Error;

/// A value that one thread at a time may use.
pub(crate) struct Lock<T> {
    state: State,
    value: UnsafeCell<T>,
    /// Called when a thread has panicked while it had the lock.
    at_break: Box<dyn Fn() + Send + Sync>,
}

// SAFETY: the value is reached by whoever has the lock alone, on whatever thread that is; it goes
// from thread to thread as if it were sent, and is never used by two at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The lock is the owner's until this is dropped.
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
    was_panicking: bool,
    /// It stays on its thread, and no other one looks at the value meanwhile.
    _of_this_thread: PhantomData<*mut T>,
}

impl<T> Lock<T> {
    /// Free. `at_break` is called once nobody gets it any more, since a thread has panicked while it had it.
    pub(crate) fn new(value: T, at_break: impl Fn() + Send + Sync + 'static) -> Self {
        let at_break = Box::new(at_break);
        Self { state: State::default(), value: UnsafeCell::new(value), at_break }
    }

    /// Whether nobody gets it any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.is_broken()
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// [`Error::Broken`] if a thread panicked while it had the lock.
    pub(crate) fn take(&self) -> Result<Held<'_, T>, Error> {
        self.state.take().map(|()| self.held())
    }

    /// The lock, unless somebody has it.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn try_take(&self) -> Result<Option<Held<'_, T>>, Error> {
        Ok(self.state.try_take()?.then(|| self.held()))
    }

    fn held(&self) -> Held<'_, T> {
        Held { lock: self, was_panicking: thread::panicking(), _of_this_thread: PhantomData }
    }
}

impl<T> Held<'_, T> {
    /// Whether its owner has begun to panic since it took the lock, which breaks when this is dropped.
    pub(crate) fn is_breaking(&self) -> bool {
        !self.was_panicking && thread::panicking()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: there is one `Held` of a lock at a time, and the value is borrowed from it.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        match self.is_breaking() {
            false => self.lock.state.let_go(),
            true => {
                self.lock.state.break_for_ever();
                (self.lock.at_break)();
            }
        }
    }
}
