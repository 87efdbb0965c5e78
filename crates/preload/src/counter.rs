//! What was sent to the forwarder and what was not, and why not.

use core::sync::atomic::{AtomicU64, Ordering};

/// Why a call on a matched file went to the kernel instead of the forwarder.
pub(crate) use forebay_client::Cause as Reason;

/// How many reasons there are.
pub(crate) const REASON_COUNT: usize = Reason::ALL.len();

/// What kind of call was forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Data towards the program.
    Read,
    /// Data from the program.
    Write,
    /// Sync, truncate, allocate, advice.
    Other,
}

const KIND_COUNT: usize = 3;

static CALLS: [AtomicU64; KIND_COUNT] = [const { AtomicU64::new(0) }; KIND_COUNT];
static BYTES: [AtomicU64; KIND_COUNT] = [const { AtomicU64::new(0) }; KIND_COUNT];
static NATIVE: [AtomicU64; REASON_COUNT] = [const { AtomicU64::new(0) }; REASON_COUNT];

/// Counts a forwarded call.
pub(crate) fn forwarded(kind: Kind, bytes: usize) {
    CALLS[kind as usize].fetch_add(1, Ordering::Relaxed);
    BYTES[kind as usize].fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Counts a call on a matched file that went to the kernel.
pub(crate) fn native(reason: Reason) {
    NATIVE[reason as usize].fetch_add(1, Ordering::Relaxed);
}

/// All counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Calls forwarded, by [`Kind`].
    pub(crate) calls: [u64; KIND_COUNT],
    /// Bytes forwarded, by [`Kind`].
    pub(crate) bytes: [u64; KIND_COUNT],
    /// Native calls, by [`Reason`].
    pub(crate) native: [u64; REASON_COUNT],
}

impl Snapshot {
    /// Takes what was counted so far and starts again from 0.
    pub(crate) fn take() -> Self {
        let taken = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Self {
            calls: CALLS.each_ref().map(taken),
            bytes: BYTES.each_ref().map(taken),
            native: NATIVE.each_ref().map(taken),
        }
    }

    /// Forwarded calls.
    pub(crate) fn forwarded_calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// Native calls on matched files.
    pub(crate) fn native_calls(&self) -> u64 {
        self.native.iter().sum()
    }

    /// The reasons that occurred, and how often.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        let counted = Reason::ALL.iter().map(|&reason| (reason, self.native[reason as usize]));
        counted.filter(|&(_, calls)| calls > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_the_counters_starts_them_again() {
        forwarded(Kind::Read, 10);
        native(Reason::Mapping);
        let taken = Snapshot::take();
        assert_eq!((taken.calls[0], taken.bytes[0], taken.native_calls()), (1, 10, 1));
        assert_eq!(Snapshot::take().forwarded_calls(), 0);
    }
}
