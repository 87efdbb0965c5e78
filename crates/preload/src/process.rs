//! Which process this is: the one that the state in memory belongs to, its forked child, or a
//! `vfork` child that merely borrows the memory.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys::WipedOnFork;

/// The owner's process id; 0 in a forked child that nobody has noticed yet.
static OWNER: WipedOnFork = WipedOnFork::new();

/// What the owner word says while a forked child sets things straight.
const SETTLING: u32 = u32::MAX;

fn pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

/// Whether the state in memory may be used and changed. In a forked child, the first to ask drops
/// what belongs to the parent.
pub(crate) fn owns_state() -> bool {
    OWNER.get_or_map(pid()).is_ok_and(owns)
}

/// As [`owns_state`], but also false when no state was ever made: for calls that only undo.
pub(crate) fn has_state() -> bool {
    OWNER.get().is_some_and(owns)
}

fn owns(owner: &AtomicU32) -> bool {
    match owner.load(Ordering::Acquire) {
        0 => settle(owner),
        SETTLING => false,
        known => known == pid(),
    }
}

/// Drops the parent's connections, once, in a forked child.
#[cold]
fn settle(owner: &AtomicU32) -> bool {
    if owner.compare_exchange(0, SETTLING, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return false;
    }
    crate::classify::forget_unfinished();
    crate::slot::abandon_all();
    crate::counter::Snapshot::take();
    owner.store(pid(), Ordering::Release);
    true
}
