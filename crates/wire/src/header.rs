//! The header that begins every frame, and the kinds of frames.

use crate::cursor::{Reader, Writer};
use crate::error::{DecodeError, Fault};
use crate::{
    CONTROL_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, PAYLOAD_BYTES_MAX, RANGES_MAX, REASONS_MAX,
    REPLY_BODY_BYTES_MAX, REQUEST_BODY_BYTES_MAX,
};

/// How long a header is.
pub const HEADER_BYTES: usize = 16;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Begins a session.
    Hello = 1,
    /// Opens a file at the forwarder.
    Open = 2,
    /// Reads one range.
    Read = 3,
    /// Writes one range.
    Write = 4,
    /// Reads many ranges.
    ReadList = 5,
    /// Writes many ranges.
    WriteList = 6,
    /// Payload that was granted.
    WriteData = 7,
    /// `fsync(2)`.
    Sync = 8,
    /// `fdatasync(2)`.
    DataSync = 9,
    /// `ftruncate(2)`.
    Truncate = 10,
    /// `fallocate(2)`.
    Allocate = 11,
    /// Size and times.
    Stat = 12,
    /// `posix_fadvise(2)`.
    Hint = 13,
    /// Closes a file at the forwarder.
    Close = 14,
    /// Asks how the forwarder is.
    Status = 15,
    /// Ends a session in order.
    Bye = 16,
    /// Changes something at the forwarder.
    Control = 17,
    /// Answers a `Hello`.
    Welcome = 0x81,
    /// Answers an `Open`.
    Opened = 0x82,
    /// Asks for a part of a write's payload.
    Grant = 0x83,
    /// A part of a read's data.
    ReadData = 0x84,
    /// Answers most requests.
    Done = 0x85,
    /// Answers a `Stat`.
    Attributes = 0x86,
    /// Answers a `Status` or a `Control`, a part at a time.
    StatusText = 0x87,
    /// Ends a session because of what the peer did.
    Refused = 0x88,
}

/// The append flag of a `Write`.
pub(crate) const FLAG_APPEND: u8 = 1;
/// The flag of an `Open` that a descriptor travels with it.
pub(crate) const FLAG_DESCRIPTOR: u8 = 1;
/// The flag of a `StatusText` that more follows.
pub(crate) const FLAG_MORE: u8 = 1;

impl FrameKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 25] = [
        Self::Hello,
        Self::Open,
        Self::Read,
        Self::Write,
        Self::ReadList,
        Self::WriteList,
        Self::WriteData,
        Self::Sync,
        Self::DataSync,
        Self::Truncate,
        Self::Allocate,
        Self::Stat,
        Self::Hint,
        Self::Close,
        Self::Status,
        Self::Bye,
        Self::Control,
        Self::Welcome,
        Self::Opened,
        Self::Grant,
        Self::ReadData,
        Self::Done,
        Self::Attributes,
        Self::StatusText,
        Self::Refused,
    ];

    fn from_number(number: u8) -> Option<Self> {
        let idx = match number {
            1..=17 => number - 1,
            0x81..=0x88 => number - 0x81 + 17,
            _ => return None,
        };
        Self::ALL.get(usize::from(idx)).copied()
    }

    /// Whether the forwarder sends it.
    pub fn is_reply(self) -> bool {
        self as u8 & 0x80 != 0
    }

    /// The flags it may carry.
    fn flags(self) -> u8 {
        match self {
            Self::Open => FLAG_DESCRIPTOR,
            Self::Write => FLAG_APPEND,
            Self::StatusText => FLAG_MORE,
            _ => 0,
        }
    }

    /// The length of its body where that does not vary.
    fn body_bytes_fixed(self) -> Option<usize> {
        Some(match self {
            Self::Status | Self::StatusText => 0,
            Self::Sync | Self::DataSync | Self::Stat | Self::Close => 4,
            Self::WriteData | Self::ReadData => 8,
            Self::Truncate | Self::Grant => 16,
            Self::Read | Self::Write | Self::Allocate | Self::Hint => 24,
            Self::Done | Self::Attributes | Self::Welcome => 24,
            Self::Opened => 32,
            Self::Hello
            | Self::Open
            | Self::ReadList
            | Self::WriteList
            | Self::Bye
            | Self::Control
            | Self::Refused => return None,
        })
    }

    /// Shortest and longest body.
    fn body_bytes_limits(self) -> (usize, usize) {
        if let Some(fixed) = self.body_bytes_fixed() {
            return (fixed, fixed);
        }
        match self {
            Self::Hello => (26, 26 + 2 * NAME_BYTES_MAX),
            Self::Open => (6, 6 + PATH_BYTES_MAX),
            Self::ReadList => (8, 8 + 16 * RANGES_MAX as usize),
            Self::WriteList => (WRITE_LIST_START_BYTES, REQUEST_BODY_BYTES_MAX),
            Self::Control => (2, 2 + CONTROL_BYTES_MAX),
            Self::Bye => (17, 17 + 9 * REASONS_MAX as usize),
            _ => (6, REPLY_BODY_BYTES_MAX),
        }
    }

    /// Whether a payload may follow the body.
    fn has_payload(self) -> bool {
        matches!(
            self,
            Self::Write | Self::WriteList | Self::WriteData | Self::ReadData | Self::StatusText
        )
    }
}

/// The part of a `WriteList` that says how long the rest is.
pub(crate) const WRITE_LIST_START_BYTES: usize = 16;

/// The first 16 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of body and payload together.
    pub length: u32,
    /// What the frame is.
    pub kind: FrameKind,
    /// Flags of the kind, already checked to be among those it has.
    pub flags: u8,
    /// The request it is, or belongs to.
    pub tag: u64,
}

impl Header {
    /// Decodes a header and checks everything that can be checked before the body is there: a
    /// frame that is too long is known here, before anybody makes room for it.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let length = reader.u32()?;
        let kind = FrameKind::from_number(reader.u8()?).ok_or(reader.fault(Fault::Kind, 1))?;
        let flags = reader.u8()?;
        if flags & !kind.flags() != 0 {
            return Err(reader.fault(Fault::Flags, 1));
        }
        if reader.u16()? != 0 {
            return Err(reader.fault(Fault::Reserved, 2));
        }
        let (shortest, longest) = kind.body_bytes_limits();
        let payload_bytes_max = if kind.has_payload() { PAYLOAD_BYTES_MAX as usize } else { 0 };
        match length as usize {
            n if n < shortest => Err(DecodeError { at: 0, fault: Fault::Short }),
            n if n > longest + payload_bytes_max => Err(DecodeError { at: 0, fault: Fault::Long }),
            _ => Ok(Self { length, kind, flags, tag: reader.u64()? }),
        }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut writer = Writer::new(&mut bytes);
        writer.u32(self.length);
        writer.u8(self.kind as u8);
        writer.u8(self.flags);
        writer.u16(0);
        writer.u64(self.tag);
        bytes
    }

    /// How much of the body is needed next, given its first bytes: when that much is there, and
    /// the answer stays the same, the body is complete.
    ///
    /// The answer depends on `start` for a `WriteList` only: its first 16 bytes say how long the
    /// rest is. For every other kind it is right from the start, with an empty slice.
    pub fn body_bytes(&self, start: &[u8]) -> Result<usize, DecodeError> {
        if let Some(fixed) = self.kind.body_bytes_fixed() {
            return Ok(fixed);
        }
        if self.kind != FrameKind::WriteList {
            return Ok(self.length as usize);
        }
        let Some(mut reader) = start.get(..WRITE_LIST_START_BYTES).map(Reader::new) else {
            return Ok(WRITE_LIST_START_BYTES);
        };
        reader.u32()?;
        let count = reader.count(RANGES_MAX)?;
        let body_bytes = WRITE_LIST_START_BYTES + 16 * count;
        if body_bytes > self.length as usize {
            return Err(reader.fault(Fault::Mismatch, 4));
        }
        Ok(body_bytes)
    }
}
