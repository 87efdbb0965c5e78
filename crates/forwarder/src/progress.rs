//! Whether a peer moves: what its time-out is measured from.

use forebay_units::Timestamp;

/// Progress that renews a peer's time-out, unless it has given or taken everything.
const PROGRESS_BYTES: u64 = 64 << 10;

/// When something last moved in one direction.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) since: Timestamp,
    moved_bytes: u64,
}

impl Progress {
    pub(crate) fn start(now: Timestamp) -> Self {
        Self { since: now, moved_bytes: 0 }
    }

    /// A trickle does not count as moving.
    pub(crate) fn note(&mut self, bytes: usize, now: Timestamp) {
        self.moved_bytes += bytes as u64;
        if self.moved_bytes >= PROGRESS_BYTES {
            *self = Self::start(now);
        }
    }
}
