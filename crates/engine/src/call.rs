//! What the engine keeps for each client call: the call, its parts, and their pieces.

use forebay_pool::Buffer;
use forebay_sched::request::RequestId;
use forebay_sched::sharing::GroupId;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, Offset};
use rustix::io::Errno;
use slotmap::new_key_type;

use crate::files::FileKey;

new_key_type! {
    /// Names a call until its [`Event::Done`].
    pub struct CallKey;
    /// Names a part: one range of a call, the unit that the scheduler orders.
    pub struct PartKey;
    pub(crate) struct PieceKey;
}

/// Who asked; handed back with every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The embedder's mark for the peer.
    pub connection: u64,
    /// The peer's mark for the call.
    pub tag: u64,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the ranges.
    Read,
    /// Write the ranges.
    Write,
    /// Write at the end of the file; the single range counts from 0 and says only how much.
    Append,
    /// Make everything written so far durable.
    Sync,
    /// Make the data written so far durable.
    DataSync,
    /// Set the size.
    Truncate(Bytes),
    /// Allocate or punch, as `fallocate(2)`; the range is the call's.
    Allocate {
        /// The mode bits.
        mode: u32,
    },
    /// Advice, as `posix_fadvise(2)`; the range is the call's.
    Advise {
        /// The advice number.
        advice: u32,
    },
}

impl Action {
    pub(crate) fn takes_payload(self) -> bool {
        matches!(self, Self::Write | Self::Append)
    }
    pub(crate) fn moves_data(self) -> bool {
        self.takes_payload() || self == Self::Read
    }
}

/// Where in the file: one range without an allocation, or a list in request order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// A plain call.
    One(ByteRange),
    /// A list call; each range is ordered and answered for on its own.
    Many(Vec<ByteRange>),
}

impl Ranges {
    pub(crate) fn find(&self, index: usize) -> Option<ByteRange> {
        match self {
            Self::One(range) => (index == 0).then_some(*range),
            Self::Many(ranges) => ranges.get(index).copied(),
        }
    }
    /// How many ranges.
    pub fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(ranges) => ranges.len(),
        }
    }

    /// How many bytes all of them cover together.
    pub fn length(&self) -> u64 {
        match self {
            Self::One(range) => range.length().0,
            Self::Many(ranges) => ranges.iter().map(|range| range.length().0).sum(),
        }
    }
}

/// What the engine wants the embedder to do.
#[derive(Debug)]
pub enum Event {
    /// Memory is there for this much of the payload: ask the peer for it.
    Pull {
        /// Whose call.
        origin: Origin,
        /// The call, for `sink` and `filled`.
        call: CallKey,
        /// Where in the request.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// A call whose payload was on its way without being asked for has memory now: read on.
    Resume {
        /// Whose call.
        origin: Origin,
    },
    /// Data for the peer.
    Data {
        /// Whose call.
        origin: Origin,
        /// To be given back to `sent` once the data has left.
        part: PartKey,
        /// Where in the request.
        offset: u64,
        /// The bytes; its length is what to send.
        buffer: Buffer,
    },
    /// The call is over.
    Done {
        /// Whose call.
        origin: Origin,
        /// Bytes moved from the start of the request without a gap, or the error that moved none.
        outcome: Result<Bytes, Errno>,
        /// The file position after an append, else 0.
        end: Offset,
    },
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) origin: Origin,
    pub(crate) client: ClientId,
    pub(crate) class: ClassId,
    /// The group that the class is in.
    pub(crate) group: Option<GroupId>,
    pub(crate) file: FileKey,
    pub(crate) action: Action,
    pub(crate) ranges: Ranges,
    /// Whether the payload comes without being asked for.
    pub(crate) eager: bool,
    /// The embedder was told to wait before it brings more of the payload.
    pub(crate) is_awaited: bool,
    /// Its next parts are being made right now.
    pub(crate) is_starting: bool,
    /// The next range to become a part, and where it starts in the request.
    pub(crate) next_range_idx: usize,
    pub(crate) next_base: u64,
    /// Parts that are not over, in request order.
    pub(crate) parts: Vec<PartKey>,
    /// The first point of the request that did not make it, and why (`None`: end of file).
    pub(crate) fault: Option<(u64, Option<Errno>)>,
    /// Nobody waits for the answer any more.
    pub(crate) abandoned: bool,
    pub(crate) end: Offset,
}

impl Call {
    /// Notes that the request is not whole from `offset` on; the lowest such point decides the answer.
    pub(crate) fn note_fault(&mut self, offset: u64, errno: Option<Errno>) {
        if self.fault.is_none_or(|(lowest, _)| offset < lowest) {
            self.fault = Some((offset, errno));
        }
    }

    /// The error that one of its parts met, as a number; 0 for none.
    pub(crate) fn errno_of(&self, part: &Part) -> u16 {
        match self.fault {
            Some((at, Some(errno)))
                if at == part.base || (part.base..part.base + part.length()).contains(&at) =>
            {
                u16::try_from(errno.raw_os_error()).unwrap_or(u16::MAX)
            }
            _ => 0,
        }
    }

    pub(crate) fn outcome(&self) -> Result<Bytes, Errno> {
        match self.fault {
            Some((0, Some(errno))) => Err(errno),
            Some((offset, _)) => Ok(Bytes(offset)),
            None if self.action.moves_data() => Ok(Bytes(self.ranges.length())),
            None => Ok(Bytes::ZERO),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) call: CallKey,
    pub(crate) stage: Stage,
    pub(crate) range: ByteRange,
    /// Where it starts in the request.
    pub(crate) base: u64,
    /// Longer than a chunk: carried as a stream.
    pub(crate) is_stream: bool,
    /// How many of its bytes have become pieces.
    started_bytes: u64,
    /// The store has it as a whole, without pieces: a sync, a truncation.
    pub(crate) is_in_store: bool,
    /// Which dispatch it was, counted from the engine's start.
    pub(crate) dispatch: u64,
    /// A stream that cannot go on before its peer or the store has moved; nobody looks at it until then.
    pub(crate) is_parked: bool,
    /// Pieces that are being filled, wait for the store or are in it.
    pub(crate) pieces: Vec<PieceKey>,
    /// Memory that it was given for its payload, until it is over.
    pub(crate) held_bytes: u64,
    /// Chunks read but not yet sent to the peer.
    pub(crate) unsent_count: u32,
    /// Bytes that the store moved.
    pub(crate) moved: u64,
}

/// How far a part has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its payload is coming in, or the scheduler has no room for it yet.
    Arriving,
    /// It waits in the scheduler.
    Queued(RequestId),
    /// The scheduler has let it go.
    Dispatched(RequestId),
}

impl Part {
    pub(crate) fn new(call: CallKey, range: ByteRange, base: u64, is_stream: bool) -> Self {
        Self {
            call,
            stage: Stage::Arriving,
            range,
            base,
            is_stream,
            started_bytes: 0,
            is_in_store: false,
            dispatch: 0,
            is_parked: false,
            pieces: Vec::new(),
            held_bytes: 0,
            unsent_count: 0,
            moved: 0,
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.range.length().0
    }

    /// The next `length` bytes at most that have not become a piece, as (offset in the part, length).
    pub(crate) fn next_chunk(&self, length: Bytes) -> Option<(u64, u64)> {
        let left = self.length() - self.started_bytes;
        (left > 0).then(|| (self.started_bytes, length.0.min(left)))
    }

    /// Adds the piece for the bytes that follow those started so far.
    pub(crate) fn add_piece(&mut self, piece: PieceKey, length: u64) {
        self.pieces.push(piece);
        self.started_bytes += length;
    }

    /// No piece is made of it any more: all of them exist, or the rest is not worth starting.
    pub(crate) fn stop_starting(&mut self) {
        self.started_bytes = self.length();
    }

    /// Whether nothing of it is left to do.
    pub(crate) fn is_over(&self) -> bool {
        let is_queued = matches!(self.stage, Stage::Queued(_));
        let is_started = self.started_bytes == self.length();
        is_started && self.pieces.is_empty() && !self.is_in_store && !is_queued
    }
}

/// At most a chunk of one part, with the memory it moves through.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) part: PartKey,
    /// Where it starts in the part.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) state: PieceState,
}

/// Where a piece's memory is.
#[derive(Debug)]
pub(crate) enum PieceState {
    /// Waiting for memory.
    Bare,
    /// The payload is coming in.
    Filling {
        buffer: Buffer,
        /// Payload bytes received so far.
        filled: usize,
    },
    /// All of the payload is there.
    Full(Buffer),
    /// The store has it.
    InStore,
}
