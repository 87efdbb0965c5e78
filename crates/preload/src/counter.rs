//! What was sent to the forwarder and what was not, and why not.

use core::sync::atomic::{AtomicU64, Ordering};

/// Why a call on a matched file went to the kernel instead of the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reason {
    /// Opened by stdio, whose reads and writes happen inside the C library.
    Stdio,
    /// Mapped into memory.
    Mapping,
    /// `O_DIRECT` with a buffer, length or offset that is not a multiple of a page.
    Alignment,
    /// `preadv2` or `pwritev2` with flags.
    Flags,
    /// More than `0x7ffff000` bytes in one vectored call.
    Length,
    /// Every connection of this process was in use.
    Busy,
    /// The process has a file size limit, which only the kernel can signal.
    SizeLimit,
    /// `pwrite` on an `O_APPEND` descriptor, whose meaning Linux and POSIX disagree about.
    Append,
    /// The forwarder refused to open the file.
    Refused,
    /// The file is not beneath the forwarder's export.
    Outside,
    /// There was no forwarder.
    Absent,
    /// Memory that the program passed could not be read or written.
    Memory,
    /// A child of `vfork`, which must not touch its parent's state.
    Child,
}

/// Every reason, with what the report calls it.
const REASONS: [(Reason, &str); 13] = [
    (Reason::Stdio, "opened by stdio"),
    (Reason::Mapping, "mapped"),
    (Reason::Alignment, "misaligned O_DIRECT"),
    (Reason::Flags, "call flags"),
    (Reason::Length, "vectors too long"),
    (Reason::Busy, "connections busy"),
    (Reason::SizeLimit, "file size limit"),
    (Reason::Append, "pwrite on O_APPEND"),
    (Reason::Refused, "refused by the forwarder"),
    (Reason::Outside, "outside the export"),
    (Reason::Absent, "no forwarder"),
    (Reason::Memory, "bad memory"),
    (Reason::Child, "vfork child"),
];

/// How many reasons there are.
pub(crate) const REASON_COUNT: usize = REASONS.len();

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

    /// The reasons that occurred, as (number, text, calls).
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (u8, &'static str, u64)> + '_ {
        REASONS
            .iter()
            .map(|&(reason, text)| (reason as u8, text, self.native[reason as usize]))
            .filter(|&(_, _, calls)| calls > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place_in_the_list() {
        for (position, (reason, _)) in REASONS.iter().enumerate() {
            assert_eq!(*reason as usize, position);
        }
    }

    #[test]
    fn taking_the_counters_starts_them_again() {
        forwarded(Kind::Read, 10);
        native(Reason::Mapping);
        let taken = Snapshot::take();
        assert_eq!((taken.calls[0], taken.bytes[0], taken.native_calls()), (1, 10, 1));
        assert_eq!(Snapshot::take().forwarded_calls(), 0);
    }
}
