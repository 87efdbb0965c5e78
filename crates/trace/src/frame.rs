//! Frames: what a trace is cut into, each with its length and its checksum.
//!
//! ```text
//! file   = MAGIC (8 bytes) · version (u16) · reserved (u16, 0) · frame …
//! frame  = MARK (4 bytes) · kind (u8) · reserved (3 bytes, 0) · length (u32) · sum (u32) · payload
//! ```
//!
//! All numbers are little-endian. The sum is a CRC-32C over kind, reserved bytes, length and
//! payload. A reader that meets damage looks for the next mark with a sum that fits.

use alloc::string::String;
use alloc::vec::Vec;

use crate::sum::crc32c;
use crate::varint::{Bits, put, put_text};

/// The first bytes of a trace.
pub const MAGIC: [u8; 8] = *b"FBTRACE\n";

/// The version that this crate writes, and the only one that it reads. It changes when old
/// readers would misread; what they can skip does not change it.
pub const VERSION: u16 = 1;

/// Bytes before the first frame.
pub(crate) const START_BYTES: usize = 12;

/// The first bytes of a frame.
pub(crate) const MARK: [u8; 4] = [0xf0, b'F', b'b', b't'];

/// Bytes of a frame before its payload.
pub(crate) const FRAME_BYTES: usize = 16;

/// The longest payload that is read: 16 MiB, as the largest block that is written.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// What a frame holds; others are skipped.
pub(crate) mod kind {
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const BLOCK: u8 = 2;
    pub(crate) const END: u8 = 3;
}

/// What is known when a recording begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What recorded, with its version.
    pub source: String,
    /// The wall clock at time 0 of the trace, in nanoseconds since 1970-01-01 UTC; 0 if not known.
    pub clock_base_ns: u64,
    /// Keys and values, in the order in which they were given. [`Setup`](crate::Setup) has the
    /// keys that make a scheduler; others are for people.
    pub settings: Vec<(String, String)>,
}

impl Header {
    /// The first value of a key.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }

    /// Whether it was recorded when requests ended. A log of another tool may not say.
    pub fn has_ends(&self) -> bool {
        self.setting(crate::ENDS) != Some("unknown")
    }

    /// What every trace begins with, to be written before the first block.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        begin(&mut bytes, kind::HEADER);
        put_text(&mut bytes, &self.source);
        put(&mut bytes, self.clock_base_ns);
        put(&mut bytes, self.settings.len() as u64);
        for (key, value) in &self.settings {
            put_text(&mut bytes, key);
            put_text(&mut bytes, value);
        }
        finish(&mut bytes[START_BYTES..]);
        bytes
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut bits = Bits { bytes: payload };
        let source = bits.take_text()?.into();
        let clock_base_ns = bits.take()?;
        let count = bits.take()?;
        let mut settings = Vec::new();
        for _ in 0..count {
            settings.push((bits.take_text()?.into(), bits.take_text()?.into()));
        }
        Some(Self { source, clock_base_ns, settings })
    }
}

/// What a block of events begins with.
///
/// ```text
/// block = index (u64) · lost events (u64) · lost blocks (u32) · events (u32) · time (u64) · next seq (u64) · event …
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockHead {
    /// Counted from 0; lost blocks are not counted.
    pub(crate) index: u64,
    /// Events lost between the block before and this one, because the blocks were not taken away in time.
    pub(crate) lost_events: u64,
    pub(crate) lost_blocks: u32,
    pub(crate) events_count: u32,
    /// The time before the first event.
    pub(crate) time: u64,
    /// The `seq` of the next request to be accepted.
    pub(crate) next_seq: u64,
}

impl BlockHead {
    pub(crate) const BYTES: usize = 40;
    /// Where in a block the number of events is, which is known last.
    pub(crate) const EVENTS_AT: usize = 20;

    pub(crate) fn put(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.index.to_le_bytes());
        into.extend_from_slice(&self.lost_events.to_le_bytes());
        into.extend_from_slice(&self.lost_blocks.to_le_bytes());
        into.extend_from_slice(&self.events_count.to_le_bytes());
        into.extend_from_slice(&self.time.to_le_bytes());
        into.extend_from_slice(&self.next_seq.to_le_bytes());
    }

    pub(crate) fn take(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (head, events) = payload.split_at_checked(Self::BYTES)?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let head = Self {
            index: word(0),
            lost_events: word(8),
            lost_blocks: half(16),
            events_count: half(Self::EVENTS_AT),
            time: word(24),
            next_seq: word(32),
        };
        Some((head, events))
    }
}

/// The last frame: how much was recorded. A trace without it was cut off, or is still being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events written.
    pub events: u64,
    /// Events lost because blocks were not taken away in time.
    pub lost_events: u64,
}

impl Totals {
    /// The frame that ends a trace.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        begin(&mut bytes, kind::END);
        put(&mut bytes, self.events);
        put(&mut bytes, self.lost_events);
        finish(&mut bytes);
        bytes
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut bits = Bits { bytes: payload };
        Some(Self { events: bits.take()?, lost_events: bits.take()? })
    }
}

/// Appends the beginning of a frame; its payload follows, then [`finish`].
pub(crate) fn begin(into: &mut Vec<u8>, kind: u8) {
    into.extend_from_slice(&MARK);
    into.extend_from_slice(&[kind, 0, 0, 0]);
    into.extend_from_slice(&[0; 8]);
}

/// Writes length and sum of a whole frame.
pub(crate) fn finish(frame: &mut [u8]) {
    let length = u32::try_from(frame.len() - FRAME_BYTES).expect("a payload is at most 16 MiB");
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    let sum = crc32c(&frame[4..12], &frame[FRAME_BYTES..]);
    frame[12..16].copy_from_slice(&sum.to_le_bytes());
}

/// A frame found at the start of `bytes`.
pub(crate) struct Found<'a> {
    pub(crate) kind: u8,
    pub(crate) payload: &'a [u8],
}

/// Why there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoFrame {
    /// It is longer than what is there.
    CutOff,
    /// No mark, an impossible length, or a sum that does not fit.
    Damaged,
}

/// Reads the frame at the start of `bytes`.
pub(crate) fn find(bytes: &[u8]) -> Result<Found<'_>, NoFrame> {
    let head = Head::find(bytes)?;
    if head.fits() { Ok(head.found) } else { Err(NoFrame::Damaged) }
}

/// A frame that may begin at the start of some bytes: its sum has not been looked at.
pub(crate) struct Head<'a> {
    pub(crate) found: Found<'a>,
    bytes: &'a [u8],
}

impl<'a> Head<'a> {
    pub(crate) fn find(bytes: &'a [u8]) -> Result<Self, NoFrame> {
        let is_mark_cut = bytes.len() < MARK.len() && MARK.starts_with(bytes);
        if !bytes.starts_with(&MARK) {
            return Err(if is_mark_cut { NoFrame::CutOff } else { NoFrame::Damaged });
        }
        let Some((head, rest)) = bytes.split_at_checked(FRAME_BYTES) else {
            return Err(NoFrame::CutOff);
        };
        let length = number(head, 8) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(NoFrame::Damaged);
        }
        let payload = rest.get(..length).ok_or(NoFrame::CutOff)?;
        Ok(Self { found: Found { kind: head[4], payload }, bytes: head })
    }

    /// Whether it looks as this crate writes it, to be asked where a mark may stand by chance.
    pub(crate) fn is_plausible(&self) -> bool {
        let is_long_enough =
            self.found.kind != kind::BLOCK || self.bytes_summed() >= BlockHead::BYTES;
        self.bytes[5..8] == [0; 3] && is_long_enough
    }

    /// What looking at its sum costs, in bytes.
    pub(crate) fn bytes_summed(&self) -> usize {
        self.found.payload.len()
    }

    /// Whether its sum fits.
    pub(crate) fn fits(&self) -> bool {
        crc32c(&self.bytes[4..12], self.found.payload) == number(self.bytes, 12)
    }
}

fn number(head: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"))
}
