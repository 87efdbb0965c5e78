//! A fixed number of places for connections, each held by one call at a time.
//!
//! A call takes whichever place is free; when all are held it goes to the kernel. Signals wait while
//! a place is held, so a handler does not find its own thread's call half done; if one does (raised
//! by other means), it just finds that place held. No call ever waits for another, and nothing here
//! allocates.
//!
//! Only closing a descriptor may wait, for another thread's call on the same connection, because
//! after `close` the forwarder's copy has to be gone. Where it must not wait, the holder closes it
//! later.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use core::time::Duration;
use std::os::fd::RawFd;

use crate::link::Link;
use crate::sys::{self, TryLock};

/// How many connections a process has at most: one bit each in [`crate::table::attached`].
pub(crate) const SLOTS: usize = 32;

static LINKS: [TryLock<Link>; SLOTS] = [const { TryLock::new(Link::new()) }; SLOTS];

/// Whether somebody wanted a handle of the connection closed while it was held.
static STALE: [AtomicBool; SLOTS] = [const { AtomicBool::new(false) }; SLOTS];

/// The numbers of the connections' sockets.
static SOCKETS: [AtomicI32; SLOTS] = [const { AtomicI32::new(-1) }; SLOTS];

/// A place that the caller holds until it drops this.
pub(crate) struct Held {
    idx: usize,
    /// Absent only while it is being dropped.
    link: Option<sys::Held<Link>>,
}

/// Takes a free place, one of `preferred` (a bit for each) if possible.
pub(crate) fn take(preferred: u32) -> Option<Held> {
    let wanted = (0..SLOTS).filter(|idx| preferred >> idx & 1 == 1);
    let others = (0..SLOTS).filter(|idx| preferred >> idx & 1 == 0);
    wanted.chain(others).find_map(take_one)
}

/// Takes one place if it is free.
pub(crate) fn take_one(idx: usize) -> Option<Held> {
    Some(Held::new(idx, LINKS[idx].try_lock()?))
}

/// Takes one place, waiting for another thread's call to finish, but not for longer than `limit`.
pub(crate) fn wait_for(idx: usize, limit: Duration) -> Option<Held> {
    Some(Held::new(idx, LINKS[idx].lock_within(limit)?))
}

/// The place of the connection whose socket has a number, if it still is that socket.
pub(crate) fn with_socket(number: RawFd) -> Option<usize> {
    let idx = SOCKETS.iter().position(|socket| socket.load(Ordering::Acquire) == number)?;
    // While a call is using it, it is what it was a moment ago.
    take_one(idx).is_none_or(|mut held| held.connection().is_some()).then_some(idx)
}

/// Notes which number a place's socket has, -1 for none.
pub(crate) fn note_socket(idx: usize, number: RawFd) {
    SOCKETS[idx].store(number, Ordering::Release);
}

/// Asks whoever holds a place to close what is no longer wanted; if nobody does by now, closes it here.
pub(crate) fn leave_to_holder(idx: usize) {
    STALE[idx].store(true, Ordering::SeqCst);
    drop(take_one(idx));
}

/// In a forked child: the parent's connections are not ours, and nobody holds a place any more.
pub(crate) fn abandon_all() {
    for (link, stale) in LINKS.iter().zip(&STALE) {
        stale.store(false, Ordering::Relaxed);
        link.inherit().abandon();
    }
}

impl Held {
    fn new(idx: usize, mut link: sys::Held<Link>) -> Self {
        link.take_place(idx);
        Self { idx, link: Some(link) }
    }
}

impl Deref for Held {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("held until dropped")
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("held until dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let stale = &STALE[self.idx];
        while let Some(mut link) = self.link.take() {
            if stale.swap(false, Ordering::SeqCst) {
                link.close_stale();
            }
            drop(link);
            // Whoever set the mark between the look and the release could not take the place.
            if stale.load(Ordering::SeqCst) {
                self.link = LINKS[self.idx].try_lock();
            }
        }
    }
}
