//! A request as the scheduler sees it: a descriptor without data.

use forebay_units::{ByteRange, Bytes, ClassId, ClientId, Direction, FileIndex, Timestamp};

/// Names one accepted request until it is completed or cancelled.
///
/// The low half is a slot of the request table and the high half that slot's generation, so a
/// stale id is recognised in O(1) and never names another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What a request does to its range: all that the guard and the policies need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads the range; may be merged with adjacent reads.
    Read,
    /// Writes the range; may be merged with adjacent writes.
    Write,
    /// Changes the range and is never merged or reordered by a policy: append (whole file, since
    /// its offset is not known yet), truncate (from the smaller size on), allocate.
    Alone,
    /// Waits for every earlier write of the file and blocks nothing after it: fsync, fdatasync.
    Sync,
}

impl Access {
    /// The direction for a policy: everything that is not a plain read counts as a write.
    pub fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write | Self::Alone | Self::Sync => Direction::Write,
        }
    }
}

/// What the embedder submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The embedder's own mark, handed back with every decision; the scheduler never looks at it.
    pub tag: u64,
    /// The file, as the embedder numbered it; dense, small, re-used only after `retire`.
    pub file: FileIndex,
    /// What it does.
    pub access: Access,
    /// Where; not empty unless `access` is [`Access::Sync`].
    pub range: ByteRange,
    /// Who sent it (guard mode `client`, features of the access pattern).
    pub client: ClientId,
    /// The sharing class; 0 where classes are not used.
    pub class: ClassId,
}

/// What one request without an end can have moved: as much as one call of Linux, read(2).
const OPEN_MOVED_MAX: Bytes = Bytes(0x7fff_f000);

impl Request {
    /// So many bytes, as far as the request can have moved them. A completion that claims more would
    /// charge its class for service that the device cannot have given, and starve it.
    pub fn moved_at_most(&self, moved: Bytes) -> Bytes {
        let is_open = self.range.end.0 == u64::MAX;
        moved.min(if is_open { OPEN_MOVED_MAX } else { self.range.length() })
    }
}

/// An accepted request with what acceptance added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its name inside the scheduler.
    pub id: RequestId,
    /// Strict arrival order; never re-used within one scheduler.
    pub seq: u64,
    /// When it arrived.
    pub arrived: Timestamp,
    /// What was submitted.
    pub request: Request,
}
