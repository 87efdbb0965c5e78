//! What a trace tells: one event for each thing that a scheduler was told, asked or decided.
//!
//! Requests are named by their `seq`, the scheduler's own count of accepted requests, which is
//! unique in a trace. An event that cannot be understood by this version is passed over by its length.

use core::fmt;

use forebay_sched::{Accepted, Request};
use forebay_units::{Bytes, ClassId, ClientId, FileId, FileIndex, Timestamp};

use crate::varint::Bits;

/// An event with its time and its place in the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record<'a> {
    /// Where in the trace its first byte is.
    pub position: usize,
    /// When it happened, in nanoseconds since the start of the recording process.
    pub time: Timestamp,
    /// What happened.
    pub event: Event<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A request came to the scheduler.
    Submit(Submit),
    /// A read was answered without the scheduler, because no device had to be waited for. Not part
    /// of what the scheduler decided, but of what clients asked for.
    Immediate {
        /// What was asked; its tag is 0.
        request: Request,
        /// Bytes read.
        moved: Bytes,
    },
    /// The scheduler was asked and let requests go as one batch.
    Dispatch {
        /// What it was asked for.
        asked: Asked,
        /// The requests, in offset order.
        members: Members<'a>,
        /// The batch is longer than one event can hold: more of it is in the next one.
        continues: bool,
    },
    /// The scheduler was asked and chose to wait for a better batch.
    Wait {
        /// What it was asked for.
        asked: Asked,
        /// When the wait ends at the latest.
        until: Timestamp,
    },
    /// The scheduler was asked and had nothing.
    Idle {
        /// What it was asked for.
        asked: Asked,
    },
    /// A blocked request may go: the last request that it had to wait for has ended.
    Ready {
        /// Which request.
        seq: u64,
    },
    /// A dispatched request has ended.
    Complete {
        /// Which request.
        seq: u64,
        /// The error number of its store; 0 for success.
        errno: u16,
        /// Bytes moved.
        moved: Bytes,
    },
    /// A waiting request was taken back.
    Cancel {
        /// Which request.
        seq: u64,
    },
    /// Everything that waited was handed back.
    Drain,
    /// Another policy took over, with what was queued.
    Switch {
        /// Its name.
        policy: &'a str,
    },
    /// What was learned about a file was forgotten; its index may name another one from now on.
    Retire {
        /// Which file.
        file: FileIndex,
    },
    /// A file got an index.
    File {
        /// Its index until it is retired.
        file: FileIndex,
        /// What it is.
        id: FileId,
    },
    /// Something got a name for people.
    Name {
        /// What.
        of: Named,
        /// Its name, cut off after [`TEXT_BYTES_MAX`] bytes.
        text: &'a str,
    },
    /// A setting was changed while running: a class's weight or limit, a policy's parameter.
    Setting {
        /// Which, as [`Adjustment::key`](crate::Adjustment::key) or the embedder spells it.
        key: &'a str,
        /// Its new value, as [`Adjustment::value`](crate::Adjustment::value) or the embedder spells it.
        value: &'a str,
    },
    /// A request was refused before it came to the scheduler, because as many waited as may: its
    /// submitter was told to try again.
    Refused {
        /// What was asked; its tag is 0.
        request: Request,
    },
    /// How many requests may be in flight from now on: a batch leaves while there are fewer.
    Depth {
        /// How many; at least 1.
        depth: u32,
    },
    /// Something was said ahead of time.
    Hint(Hinted),
    /// Events are missing here, because the blocks with them were not taken away in time.
    Lost {
        /// How many.
        events: u64,
        /// In how many blocks.
        blocks: u32,
    },
    /// An event of a later version.
    Unknown {
        /// Its kind.
        kind: u8,
    },
}

/// A request that came to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submit {
    /// The `seq` that it got; `None` if it was refused.
    pub seq: Option<u64>,
    /// What was asked; its tag is 0.
    pub request: Request,
    /// Whether the store had room, as the scheduler was told.
    pub has_room: bool,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a request at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It may go, and waits for its turn.
    Queued,
    /// It waits for earlier conflicting requests.
    Blocked,
    /// It went at once.
    Bypassed,
    /// It was refused: the queue is full.
    QueueFull,
    /// It was refused: it covers no byte.
    EmptyRange,
}

impl Fate {
    pub(crate) const ALL: [Self; 5] =
        [Self::Queued, Self::Blocked, Self::Bypassed, Self::QueueFull, Self::EmptyRange];

    /// Whether the request was taken on.
    pub fn is_accepted(self) -> bool {
        matches!(self, Self::Queued | Self::Blocked | Self::Bypassed)
    }
}

/// What the scheduler was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Anything that may go.
    Anything,
    /// What the policy holds, without the lane.
    FromPolicy,
}

/// Something that has a number and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A file.
    File(FileIndex),
    /// A client.
    Client(ClientId),
    /// A class.
    Class(ClassId),
}

/// What was said ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hinted {
    /// More is about to follow: nothing leaves before this time, unless it is taken back earlier.
    MoreFollows {
        /// The end of the hold.
        until: Timestamp,
    },
    /// Nothing more follows: what waits may leave.
    NoMore,
    /// A file will not be asked for again.
    Forget {
        /// Which file.
        file: FileIndex,
    },
}

/// Longest text in an event, in bytes; longer ones are cut off.
pub const TEXT_BYTES_MAX: usize = 1024;

/// The requests of a batch, by `seq`.
#[derive(Clone, Copy)]
pub struct Members<'a>(Kept<'a>);

#[derive(Clone, Copy)]
enum Kept<'a> {
    Batch(&'a [Accepted]),
    /// Checked: as many differences as it says.
    Encoded {
        count: usize,
        from: u64,
        bits: Bits<'a>,
    },
}

impl<'a> From<&'a [Accepted]> for Members<'a> {
    fn from(batch: &'a [Accepted]) -> Self {
        Self(Kept::Batch(batch))
    }
}

impl<'a> Members<'a> {
    /// Takes `count` differences that begin at `from`; the last `seq`, and what is left of the bytes.
    pub(crate) fn take(count: usize, from: u64, bits: &mut Bits<'a>) -> Option<(Self, u64)> {
        let kept = Kept::Encoded { count, from, bits: *bits };
        let mut last = from;
        for _ in 0..count {
            last = bits.take_from(last)?;
        }
        Some((Self(kept), last))
    }

    /// How many.
    pub fn count(&self) -> usize {
        match self.0 {
            Kept::Batch(batch) => batch.len(),
            Kept::Encoded { count, .. } => count,
        }
    }

    /// The `seq` of each, in offset order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let mut kept = self.0;
        core::iter::from_fn(move || match &mut kept {
            Kept::Batch(batch) => {
                let (first, rest) = batch.split_first()?;
                *batch = rest;
                Some(first.seq)
            }
            Kept::Encoded { count, from, bits } => {
                *count = count.checked_sub(1)?;
                *from = bits.take_from(*from)?;
                Some(*from)
            }
        })
    }

    /// The first `count`, and the others.
    pub(crate) fn split(&self, count: usize) -> (Self, Self) {
        match self.0 {
            Kept::Batch(batch) => {
                let (front, back) = batch.split_at(count.min(batch.len()));
                (front.into(), back.into())
            }
            Kept::Encoded { count: all, from, mut bits } => {
                let count = count.min(all);
                let (front, last) =
                    Self::take(count, from, &mut bits).expect("it was checked when it was made");
                (front, Self(Kept::Encoded { count: all - count, from: last, bits }))
            }
        }
    }
}

impl PartialEq for Members<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A text as long as an event can hold.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
