//! The reader: a trace's events in order, as far as they can be read, and where they cannot.

use core::fmt;

use forebay_units::Timestamp;

use crate::code::Context;
use crate::event::{Event, Record};
use crate::frame::{
    BlockHead, FRAME_BYTES, Found, Head, Header, MAGIC, MARK, NoFrame, PAYLOAD_BYTES_MAX,
    START_BYTES, Totals, VERSION, find, kind,
};
use crate::varint::Bits;

/// How often, over the whole of a trace, a byte may be summed up in vain; and a whole payload more.
const VAIN_SHARE: usize = 4;

/// Why a trace cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It does not begin as a trace does.
    NotATrace,
    /// It is of a version that this reader does not know.
    Version(u16),
    /// Its header is damaged or cut off.
    Header {
        /// Where the header is.
        position: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATrace => f.write_str(
                "byte 0: not a trace; forebay trace record makes one, forebay trace import converts",
            ),
            Self::Version(version) => write!(
                f,
                "byte 8: a trace of version {version}, and this program reads version {VERSION}; use the forebay that wrote it"
            ),
            Self::Header { position } => {
                write!(f, "byte {position}: the header is damaged or cut off; record it again")
            }
        }
    }
}

impl core::error::Error for Error {}

/// A place where a trace cannot be read. What follows it, if anything does, is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first byte that makes no sense.
    pub position: usize,
    /// How many bytes are passed over.
    pub skipped: usize,
    /// What is wrong.
    pub kind: DamageKind,
}

/// What is wrong with a place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// Bytes have changed or are missing: no frame begins here, or its checksum does not fit.
    Frame,
    /// The trace ends inside a frame.
    CutOff,
    /// The trace ends between frames, without the frame that ends it: its writer did not finish.
    Unfinished,
    /// An event with a good checksum that cannot be: made by a faulty writer.
    Event,
    /// A whole block is missing between two that are there.
    MissingBlock,
    /// So much looks like a frame and is none that the rest is not looked at.
    Hopeless,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.kind {
            DamageKind::Frame => "damaged: no frame with a fitting checksum begins here",
            DamageKind::CutOff => "cut off inside a frame",
            DamageKind::Unfinished => "not finished: the end frame is missing",
            DamageKind::Event => "an event that cannot be",
            DamageKind::Hopeless => "damaged at too many places to look for more",
            DamageKind::MissingBlock => "the block that belongs here is missing",
        };
        write!(f, "byte {}: {text}; {} bytes passed over", self.position, self.skipped)
    }
}

impl core::error::Error for Damage {}

/// Goes over the events of a trace in memory.
///
/// A [`Damage`] is told once, where it is; after it the reader goes on with the next frame that is whole.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    header: Header,
    /// Where the next frame is looked for.
    next_frame: usize,
    /// What is left of the current block, where that is, and what its events are differences to.
    block: Bits<'a>,
    block_end: usize,
    events_left: u32,
    context: Context,
    /// The index that the next block should have.
    next_index: u64,
    lost: Option<(u64, u32)>,
    totals: Option<Totals>,
    is_over: bool,
    /// Bytes that may still be summed up in vain.
    vain_bytes_left: usize,
}

impl<'a> Reader<'a> {
    /// Begins to read.
    ///
    /// # Errors
    /// If it is no trace of a known version with a whole header.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (start, _) = bytes.split_at_checked(START_BYTES).ok_or(Error::NotATrace)?;
        if start[..8] != MAGIC {
            return Err(Error::NotATrace);
        }
        let version = u16::from_le_bytes([start[8], start[9]]);
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let damaged = Error::Header { position: START_BYTES };
        let found = find(&bytes[START_BYTES..]).ok().filter(|found| found.kind == kind::HEADER);
        let found = found.ok_or(damaged.clone())?;
        let header = Header::decode(found.payload).ok_or(damaged)?;
        Ok(Self {
            bytes,
            header,
            next_frame: START_BYTES + FRAME_BYTES + found.payload.len(),
            block: Bits { bytes: &[] },
            block_end: 0,
            events_left: 0,
            context: Context::default(),
            next_index: 0,
            lost: None,
            totals: None,
            is_over: false,
            vain_bytes_left: bytes
                .len()
                .saturating_mul(VAIN_SHARE)
                .saturating_add(PAYLOAD_BYTES_MAX),
        })
    }

    /// What was known when the recording began.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What the last frame says; known once the reader has come to it.
    pub fn totals(&self) -> Option<Totals> {
        self.totals
    }

    fn next_event(&mut self) -> Result<Record<'a>, Damage> {
        let position = self.block_end - self.block.bytes.len();
        let mut take = || {
            let kind = self.block.take_byte()?;
            let length = usize::try_from(self.block.take()?).ok()?;
            let mut fields = Bits { bytes: self.block.take_bytes(length)? };
            self.context.take(kind, &mut fields)
        };
        match take() {
            Some(event) => {
                self.events_left -= 1;
                Ok(Record { position, time: Timestamp(self.context.time), event })
            }
            None => {
                self.leave_block();
                let skipped = self.block_end - position;
                Err(Damage { position, skipped, kind: DamageKind::Event })
            }
        }
    }

    fn leave_block(&mut self) {
        (self.block.bytes, self.events_left) = (&[], 0);
    }

    /// Takes the next frame in; `None` when there is no more.
    fn next_frame(&mut self) -> Option<Result<(), Damage>> {
        let position = self.next_frame;
        let rest = &self.bytes[position..];
        if rest.is_empty() {
            self.is_over = true;
            let damage = Damage { position, skipped: 0, kind: DamageKind::Unfinished };
            return self.totals.is_none().then_some(Err(damage));
        }
        match self.find_at(position) {
            Ok(found) => {
                self.next_frame += FRAME_BYTES + found.payload.len();
                Some(self.enter(position, found.kind, found.payload))
            }
            Err(reason) => Some(Err(self.pass_over(position, reason))),
        }
    }

    fn enter(&mut self, position: usize, kind: u8, payload: &'a [u8]) -> Result<(), Damage> {
        let impossible = Damage { position, skipped: payload.len(), kind: DamageKind::Event };
        match kind {
            kind::BLOCK => {
                let (head, events) = BlockHead::take(payload).ok_or(impossible)?;
                self.block = Bits { bytes: events };
                self.block_end = self.next_frame;
                self.events_left = head.events_count;
                self.context = Context::new(head.time, head.next_seq);
                self.lost = (head.lost_events > 0).then_some((head.lost_events, head.lost_blocks));
                let expected = core::mem::replace(&mut self.next_index, head.index.wrapping_add(1));
                match head.index == expected {
                    true => Ok(()),
                    false => Err(Damage { position, skipped: 0, kind: DamageKind::MissingBlock }),
                }
            }
            kind::END => {
                self.totals = Some(Totals::decode(payload).ok_or(impossible)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The frame at a place.
    fn find_at(&mut self, position: usize) -> Result<Found<'a>, NoFrame> {
        let head = Head::find(&self.bytes[position..])?;
        if self.sum_fits(&head) { Ok(head.found) } else { Err(NoFrame::Damaged) }
    }

    /// Whether a frame's sum fits, unless too much has been summed up in vain: a file of nothing
    /// but false beginnings would take time as the square of its length.
    fn sum_fits(&mut self, head: &Head<'_>) -> bool {
        if self.vain_bytes_left == 0 {
            return false;
        }
        let fits = head.fits();
        if !fits {
            self.vain_bytes_left = self.vain_bytes_left.saturating_sub(head.bytes_summed());
        }
        fits
    }

    /// Looks for the next whole frame behind damage.
    fn pass_over(&mut self, position: usize, reason: NoFrame) -> Damage {
        let bytes = self.bytes;
        let mut is_whole = |at: &usize| {
            let head = Head::find(&bytes[*at..]).ok().filter(Head::is_plausible);
            head.is_some_and(|head| self.sum_fits(&head))
        };
        let marks = (position + 1..bytes.len().saturating_sub(MARK.len()))
            .filter(|at| bytes[*at..].starts_with(&MARK));
        let next = { marks }.find(&mut is_whole);
        self.next_frame = next.unwrap_or(self.bytes.len());
        let is_cut = next.is_none() && reason == NoFrame::CutOff;
        if next.is_none() {
            // What is missing at the end has been said.
            self.is_over = true;
        } else {
            // Which blocks were in the damaged part is not known.
            self.next_index = find_index(&self.bytes[self.next_frame..]).unwrap_or(self.next_index);
        }
        let kind = match (is_cut, next) {
            (_, None) if self.vain_bytes_left == 0 => DamageKind::Hopeless,
            (true, _) => DamageKind::CutOff,
            (false, _) => DamageKind::Frame,
        };
        Damage { position, skipped: self.next_frame - position, kind }
    }
}

/// The index of the block at the start of `bytes`, if a block it is.
fn find_index(bytes: &[u8]) -> Option<u64> {
    let found = find(bytes).ok().filter(|found| found.kind == kind::BLOCK)?;
    BlockHead::take(found.payload).map(|(head, _)| head.index)
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((events, blocks)) = self.lost.take() {
                let position = self.block_end - self.block.bytes.len();
                let event = Event::Lost { events, blocks };
                let time = Timestamp(self.context.time);
                return Some(Ok(Record { position, time, event }));
            }
            if self.events_left > 0 {
                return Some(self.next_event());
            }
            if self.is_over {
                return None;
            }
            match self.next_frame()? {
                Ok(()) => {}
                Err(damage) => return Some(Err(damage)),
            }
        }
    }
}
