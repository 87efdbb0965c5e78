//! Where a member of a device left off: what decides whether the next request is sequential.

use forebay_units::{Bytes, Direction, Nanos};

/// Where the last request ended and what the member has done since, ahead of being asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head {
    /// First byte after the last request.
    pub(crate) end: u64,
    /// Of the last request; none before the first.
    pub(crate) direction: Option<Direction>,
    /// Transfer done in advance: read-ahead in the drive's cache, or room in its write cache.
    pub(crate) credit: Nanos,
}

/// What serving one request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) time: Nanos,
    pub(crate) is_sequential: bool,
}

impl Head {
    /// The bytes skipped, if a request continues the last one with a gap of at most `gap_max`.
    pub(crate) fn gap_before(
        &self,
        direction: Direction,
        position: u64,
        gap_max: Bytes,
    ) -> Option<Bytes> {
        let gap = Bytes(position.checked_sub(self.end)?);
        (self.direction == Some(direction) && gap <= gap_max).then_some(gap)
    }

    /// Moves to the end of a request.
    pub(crate) fn pass(&mut self, direction: Direction, position: u64, length: Bytes) {
        self.end = position.saturating_add(length.0);
        self.direction = Some(direction);
    }
}
