//! What is known of each descriptor number, in static memory, without locks.
//!
//! The kernel's descriptor table is the truth; this is a cache of it. A number may be closed and
//! taken again by code that we do not hook, so what is known of a matched descriptor is checked
//! against `fstat` at each use, and everything else it is known to be is harmless when wrong:
//! a number wrongly thought native is merely unscheduled.
//!
//! Each number has an *epoch* that grows whenever it is forgotten. A handle that a connection has
//! for a number counts only within the epoch in which it was opened.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::os::fd::RawFd;

/// Numbers from here on are not tracked: their calls go to the kernel.
pub(crate) const DESCRIPTORS: usize = 16_384;

/// Which file a descriptor means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// `st_dev`.
    pub(crate) device: u64,
    /// `st_ino`.
    pub(crate) inode: u64,
}

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not looked at yet.
    Unknown,
    /// None of our business.
    Native,
    /// A regular file under a configured prefix.
    Matched(Identity),
    /// The socket of one of our own connections.
    Ours,
}

/// A descriptor's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What it is.
    pub(crate) state: State,
    /// How often the number has been forgotten.
    pub(crate) epoch: u32,
}

struct Entry {
    /// State in the low 32 bits, epoch in the high ones.
    word: AtomicU64,
    device: AtomicU64,
    inode: AtomicU64,
    /// One bit for each connection that has, or had, a handle for it.
    attached: AtomicU32,
}

const UNKNOWN: u32 = 0;
const NATIVE: u32 = 1;
const MATCHED: u32 = 2;
const OURS: u32 = 3;

static TABLE: [Entry; DESCRIPTORS] = [const {
    Entry {
        word: AtomicU64::new(0),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
        attached: AtomicU32::new(0),
    }
}; DESCRIPTORS];

/// One more than the highest number that was ever attached or ours: where searches end.
static TOP: AtomicUsize = AtomicUsize::new(0);

fn entry(number: RawFd) -> Option<&'static Entry> {
    TABLE.get(usize::try_from(number).ok()?)
}

fn word(state: u32, epoch: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(state)
}

fn parts(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// What is known of a number; `None` for one outside the table.
pub(crate) fn look(number: RawFd) -> Option<Seen> {
    let entry = entry(number)?;
    loop {
        let before = entry.word.load(Ordering::Acquire);
        let identity = Identity {
            device: entry.device.load(Ordering::Acquire),
            inode: entry.inode.load(Ordering::Acquire),
        };
        // Identity and state belong together only if nobody changed the word meanwhile.
        if entry.word.load(Ordering::Acquire) != before {
            continue;
        }
        let (state, epoch) = parts(before);
        let state = match state {
            UNKNOWN => State::Unknown,
            NATIVE => State::Native,
            MATCHED => State::Matched(identity),
            _ => State::Ours,
        };
        return Some(Seen { state, epoch });
    }
}

/// Whether a number is known to be none of our business: the one question every hooked call asks.
pub(crate) fn is_native(number: RawFd) -> bool {
    entry(number).is_none_or(|entry| parts(entry.word.load(Ordering::Relaxed)).0 == NATIVE)
}

/// Whether a number is one of our sockets.
pub(crate) fn is_ours(number: RawFd) -> bool {
    entry(number).is_some_and(|entry| parts(entry.word.load(Ordering::Acquire)).0 == OURS)
}

/// Notes that an unknown number, as seen in `epoch`, is native.
pub(crate) fn settle_native(number: RawFd, epoch: u32) {
    if let Some(entry) = entry(number) {
        settle(entry, epoch, NATIVE);
    }
}

/// Notes that an unknown number, as seen in `epoch`, is a matched file.
pub(crate) fn settle_matched(number: RawFd, epoch: u32, identity: Identity) {
    if let Some(entry) = entry(number) {
        entry.device.store(identity.device, Ordering::Release);
        entry.inode.store(identity.inode, Ordering::Release);
        settle(entry, epoch, MATCHED);
    }
}

fn settle(entry: &Entry, epoch: u32, state: u32) {
    // Somebody else may have settled or forgotten it meanwhile: then theirs is newer.
    let _ = entry.word.compare_exchange(
        word(UNKNOWN, epoch),
        word(state, epoch),
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
}

/// Notes that a matched number, as seen in `epoch`, is not for the forwarder after all.
pub(crate) fn demote(number: RawFd, epoch: u32) {
    if let Some(entry) = entry(number) {
        let (matched, native) = (word(MATCHED, epoch), word(NATIVE, epoch));
        let _ = entry.word.compare_exchange(matched, native, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Notes that a number is the socket of one of our connections.
pub(crate) fn claim(number: RawFd) {
    let Some(entry) = entry(number) else { return };
    let (_, epoch) = parts(entry.word.load(Ordering::Relaxed));
    entry.word.store(word(OURS, epoch.wrapping_add(1)), Ordering::Release);
    raise_top(number);
}

/// Notes that a number means something else from now on.
pub(crate) fn forget(number: RawFd) {
    let Some(entry) = entry(number) else { return };
    let mut before = entry.word.load(Ordering::Acquire);
    loop {
        let (state, epoch) = parts(before);
        // Nobody relies on the epoch of a number that was never matched or ours.
        let after = word(UNKNOWN, if state == UNKNOWN { epoch } else { epoch.wrapping_add(1) });
        match entry.word.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => before = now,
        }
    }
}

/// Notes that connection `slot` has a handle for a number.
pub(crate) fn attach(number: RawFd, slot: usize) {
    if let Some(entry) = entry(number) {
        entry.attached.fetch_or(1 << slot, Ordering::AcqRel);
        raise_top(number);
    }
}

/// Notes that connection `slot` has none any more.
pub(crate) fn detach(number: RawFd, slot: usize) {
    if let Some(entry) = entry(number) {
        entry.attached.fetch_and(!(1 << slot), Ordering::AcqRel);
    }
}

/// The connections that may have a handle for a number, one bit each.
pub(crate) fn attached(number: RawFd) -> u32 {
    entry(number).map_or(0, |entry| entry.attached.load(Ordering::Acquire))
}

/// All numbers in `first..=last` that are attached somewhere or ours.
pub(crate) fn touched(first: u32, last: u32) -> impl Iterator<Item = RawFd> {
    let top = TOP.load(Ordering::Acquire);
    let end = (last as usize).saturating_add(1).min(top);
    (first as usize..end)
        .map(|number| number as RawFd)
        .filter(|&number| attached(number) != 0 || is_ours(number))
}

fn raise_top(number: RawFd) {
    TOP.fetch_max(number as usize + 1, Ordering::AcqRel);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Identity = Identity { device: 1, inode: 2 };

    fn state(number: RawFd) -> State {
        look(number).expect("inside the table").state
    }

    #[test]
    fn a_number_is_unknown_until_settled_and_after_it_was_forgotten() {
        let number = 100;
        let seen = look(number).expect("inside the table");
        assert_eq!(seen.state, State::Unknown);
        settle_matched(number, seen.epoch, FILE);
        assert_eq!(state(number), State::Matched(FILE));
        forget(number);
        assert_eq!(state(number), State::Unknown);
        assert_ne!(look(number).expect("inside the table").epoch, seen.epoch);
    }

    #[test]
    fn what_was_found_out_about_an_earlier_file_is_not_noted() {
        let number = 101;
        let seen = look(number).expect("inside the table");
        settle_matched(number, seen.epoch, FILE);
        forget(number);
        settle_native(number, seen.epoch);
        assert_eq!(state(number), State::Unknown);
    }

    #[test]
    fn numbers_outside_the_table_are_native() {
        assert!(is_native(-1));
        assert!(is_native(DESCRIPTORS as RawFd));
        assert!(look(DESCRIPTORS as RawFd).is_none());
        forget(-5);
        assert!(!is_native(102));
    }

    #[test]
    fn attached_numbers_and_our_sockets_are_found_in_a_range() {
        attach(210, 3);
        claim(212);
        let found: Vec<_> = touched(205, u32::MAX).filter(|&number| number < 300).collect();
        assert_eq!(found, [210, 212]);
        assert_eq!(attached(210), 8);
        detach(210, 3);
        forget(212);
        assert_eq!(touched(205, 299).count(), 0);
    }
}
