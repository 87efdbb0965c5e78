//! What a client sends: the bodies of its frames.

mod body;

pub use body::range_bytes;
use body::{fields, total, words};
use forebay_units::{ByteRange, Bytes, OFFSET_MAX, Offset};

use crate::cursor::{Reader, Writer};
use crate::error::{DecodeError, Fault, NoRoom};
use crate::header::{FLAG_APPEND, FLAG_DESCRIPTOR, FrameKind, HEADER_BYTES, Header};
use crate::list::{Ranges, Reasons};
use crate::small::Small;
use crate::{
    CONTROL_BYTES_MAX, Handle, NAME_BYTES_MAX, PATH_BYTES_MAX, PAYLOAD_BYTES_MAX, RANGES_MAX,
    REASONS_MAX, REQUEST_BYTES_MAX,
};

/// A frame from client to forwarder, without its tag and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Begins a session.
    Hello(Hello<'a>),
    /// Opens a file at the forwarder.
    Open(Open<'a>),
    /// Reads one range.
    Read(Read),
    /// Writes one range.
    Write(Write),
    /// Reads many ranges of one file.
    ReadList(ReadList<'a>),
    /// Writes many ranges of one file.
    WriteList(WriteList<'a>),
    /// Payload of an earlier write, as granted.
    WriteData(WriteData),
    /// `fsync(2)`.
    Sync(Handle),
    /// `fdatasync(2)`.
    DataSync(Handle),
    /// `ftruncate(2)`.
    Truncate(Truncate),
    /// `fallocate(2)`.
    Allocate(Allocate),
    /// Asks for size and times.
    Stat(Handle),
    /// `posix_fadvise(2)`.
    Hint(Hint),
    /// Closes a file at the forwarder.
    Close(Handle),
    /// Asks how the forwarder is.
    Status,
    /// Ends the session in order.
    Bye(Bye<'a>),
    /// Changes something at the forwarder, where the client may.
    Control(Control<'a>),
}

/// Who the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The oldest version that the client speaks.
    pub version_min: u16,
    /// The newest version that the client speaks; not below `version_min`.
    pub version_max: u16,
    /// A random number that names the client across connections.
    pub client: u64,
    /// Its process.
    pub pid: u32,
    /// Its user, as it says; what it may do is decided by other means.
    pub uid: u32,
    /// The job it belongs to, at most [`NAME_BYTES_MAX`] bytes.
    pub job: &'a [u8],
    /// The program's name, at most [`NAME_BYTES_MAX`] bytes.
    pub program: &'a [u8],
}

/// Which file to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open<'a> {
    /// As for `open(2)`.
    pub flags: u32,
    /// Whether the client's own descriptor comes with the frame's first byte (`SCM_RIGHTS`).
    pub descriptor: Descriptor,
    /// Beneath the export's root; at most [`PATH_BYTES_MAX`] bytes. With a descriptor it only informs.
    pub path: &'a [u8],
}

/// Whether a descriptor travels with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// The path says which file.
    Absent,
    /// The descriptor says which file.
    Sent,
}

/// One range to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The file.
    pub handle: Handle,
    /// What to read: at least one byte, at most [`REQUEST_BYTES_MAX`].
    pub range: ByteRange,
}

/// One range to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The file.
    pub handle: Handle,
    /// What to write: at least one byte, at most [`REQUEST_BYTES_MAX`]. An append's begins at 0.
    pub range: ByteRange,
    /// Where it goes.
    pub place: Place,
    /// How the payload travels.
    pub delivery: Delivery,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To its range.
    Range,
    /// To the end of the file, wherever that is then.
    End,
}

/// How a write's payload travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// In `WriteData` frames, each against a `Grant`.
    Granted,
    /// All of it in the same frame, right after the body.
    Eager,
}

/// Many ranges to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadList<'a> {
    /// The file.
    pub handle: Handle,
    /// 1 to [`RANGES_MAX`] ranges, together at most [`REQUEST_BYTES_MAX`] bytes.
    pub ranges: Ranges<'a>,
}

/// Many ranges to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteList<'a> {
    /// The file.
    pub handle: Handle,
    /// 1 to [`RANGES_MAX`] ranges, together at most [`REQUEST_BYTES_MAX`] bytes.
    pub ranges: Ranges<'a>,
    /// How the payload travels.
    pub delivery: Delivery,
}

/// Payload of the write with the same tag; the payload follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteData {
    /// Where it belongs, counted from the request's first byte.
    pub offset: u64,
    /// How long the payload is: at least 1.
    pub length: u32,
}

/// A file's new size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// The file.
    pub handle: Handle,
    /// Its size afterwards.
    pub size: Bytes,
}

/// Space to allocate or to free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocate {
    /// The file.
    pub handle: Handle,
    /// The mode bits of `fallocate(2)`.
    pub mode: u32,
    /// Where; the store judges an empty range.
    pub range: ByteRange,
}

/// What a program intends to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The file.
    pub handle: Handle,
    /// The advice number of `posix_fadvise(2)`.
    pub advice: u32,
    /// Where; no bytes means all from its start on.
    pub range: ByteRange,
}

/// What a client did and did not send here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bye<'a> {
    /// Calls that went through the forwarder.
    pub forwarded: u64,
    /// Calls that went to the kernel instead.
    pub native: u64,
    /// Why they did; at most [`REASONS_MAX`].
    pub reasons: Reasons<'a>,
}

/// What to change at the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'a> {
    /// Words, one a line; at most [`CONTROL_BYTES_MAX`] bytes. What they mean is the forwarder's.
    pub text: &'a [u8],
}

impl<'a> Request<'a> {
    /// The kind of its frame.
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Hello(_) => FrameKind::Hello,
            Self::Open(_) => FrameKind::Open,
            Self::Read(_) => FrameKind::Read,
            Self::Write(_) => FrameKind::Write,
            Self::ReadList(_) => FrameKind::ReadList,
            Self::WriteList(_) => FrameKind::WriteList,
            Self::WriteData(_) => FrameKind::WriteData,
            Self::Sync(_) => FrameKind::Sync,
            Self::DataSync(_) => FrameKind::DataSync,
            Self::Truncate(_) => FrameKind::Truncate,
            Self::Allocate(_) => FrameKind::Allocate,
            Self::Stat(_) => FrameKind::Stat,
            Self::Hint(_) => FrameKind::Hint,
            Self::Close(_) => FrameKind::Close,
            Self::Status => FrameKind::Status,
            Self::Bye(_) => FrameKind::Bye,
            Self::Control(_) => FrameKind::Control,
        }
    }

    /// The file it names.
    pub fn handle(&self) -> Option<Handle> {
        match *self {
            Self::Read(Read { handle, .. })
            | Self::Write(Write { handle, .. })
            | Self::ReadList(ReadList { handle, .. })
            | Self::WriteList(WriteList { handle, .. })
            | Self::Sync(handle)
            | Self::DataSync(handle)
            | Self::Truncate(Truncate { handle, .. })
            | Self::Allocate(Allocate { handle, .. })
            | Self::Stat(handle)
            | Self::Hint(Hint { handle, .. })
            | Self::Close(handle) => Some(handle),
            Self::Hello(_)
            | Self::Open(_)
            | Self::WriteData(_)
            | Self::Status
            | Self::Bye(_)
            | Self::Control(_) => None,
        }
    }

    /// How many bytes of data the whole request moves.
    pub fn data_bytes(&self) -> u64 {
        match self {
            Self::Read(Read { range, .. }) | Self::Write(Write { range, .. }) => range.length().0,
            Self::ReadList(ReadList { ranges, .. }) | Self::WriteList(WriteList { ranges, .. }) => {
                total(ranges)
            }
            _ => 0,
        }
    }

    /// How many bytes of payload follow the body in this frame.
    pub fn payload_bytes(&self) -> u64 {
        match self {
            Self::Write(Write { delivery: Delivery::Eager, .. })
            | Self::WriteList(WriteList { delivery: Delivery::Eager, .. }) => self.data_bytes(),
            Self::WriteData(data) => u64::from(data.length),
            _ => 0,
        }
    }

    /// Whether the peer will accept it as far as the protocol's fixed limits go: what a client asks
    /// itself before it sends.
    pub fn is_within_limits(&self) -> bool {
        let is_file_range = |range: &ByteRange| range.start <= range.end && range.end <= OFFSET_MAX;
        let is_data_range = |range: &ByteRange| {
            is_file_range(range) && !range.is_empty() && range.length().0 <= REQUEST_BYTES_MAX
        };
        let are_data_ranges = |ranges: &Ranges<'_>| {
            let has_length = (1..=RANGES_MAX as usize).contains(&ranges.len());
            has_length
                && ranges.iter().all(|range| is_data_range(&range))
                && total(ranges) <= REQUEST_BYTES_MAX
        };
        let is_ours = match self {
            Self::Hello(Hello { version_min, version_max, job, program, .. }) => {
                version_min <= version_max && job.len().max(program.len()) <= NAME_BYTES_MAX
            }
            Self::Open(open) => open.path.len() <= PATH_BYTES_MAX,
            Self::Read(Read { range, .. }) => is_data_range(range),
            Self::Write(Write { range, place, .. }) => {
                is_data_range(range) && (*place == Place::Range || range.start == Offset(0))
            }
            Self::ReadList(ReadList { ranges, .. }) | Self::WriteList(WriteList { ranges, .. }) => {
                are_data_ranges(ranges)
            }
            Self::WriteData(WriteData { offset, length }) => {
                *offset <= REQUEST_BYTES_MAX && *length > 0
            }
            Self::Truncate(Truncate { size, .. }) => size.0 <= OFFSET_MAX.0,
            Self::Allocate(Allocate { range, .. }) | Self::Hint(Hint { range, .. }) => {
                is_file_range(range)
            }
            Self::Bye(bye) => bye.reasons.len() <= REASONS_MAX as usize,
            Self::Control(control) => control.text.len() <= CONTROL_BYTES_MAX,
            Self::Sync(_) | Self::DataSync(_) | Self::Stat(_) | Self::Close(_) | Self::Status => {
                true
            }
        };
        is_ours && self.payload_bytes() <= u64::from(PAYLOAD_BYTES_MAX)
    }

    /// Decodes a body, which is as long as [`Header::body_bytes`] said.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let request = match header.kind {
            FrameKind::Hello => Self::Hello(Hello::decode(&mut reader)?),
            FrameKind::Open => Self::Open(Open::decode(header.flags, &mut reader)?),
            FrameKind::Read => Self::Read(Read::decode(&mut reader)?),
            FrameKind::Write => Self::Write(Write::decode(header.flags, &mut reader)?),
            FrameKind::ReadList => Self::ReadList(ReadList::decode(&mut reader)?),
            FrameKind::WriteList => Self::WriteList(WriteList::decode(&mut reader)?),
            FrameKind::WriteData => Self::WriteData(WriteData::decode(header, &mut reader)?),
            FrameKind::Sync => Self::Sync(Handle(reader.u32()?)),
            FrameKind::DataSync => Self::DataSync(Handle(reader.u32()?)),
            FrameKind::Truncate => Self::Truncate(Truncate::decode(&mut reader)?),
            FrameKind::Allocate => {
                let (handle, mode) = (Handle(reader.u32()?), reader.u32()?);
                Self::Allocate(Allocate { handle, mode, range: reader.range_or_empty()? })
            }
            FrameKind::Stat => Self::Stat(Handle(reader.u32()?)),
            FrameKind::Hint => {
                let (handle, advice) = (Handle(reader.u32()?), reader.u32()?);
                Self::Hint(Hint { handle, advice, range: reader.range_or_empty()? })
            }
            FrameKind::Close => Self::Close(Handle(reader.u32()?)),
            FrameKind::Status => Self::Status,
            FrameKind::Bye => Self::Bye(Bye::decode(&mut reader)?),
            FrameKind::Control => Self::Control(Control::decode(&mut reader)?),
            _ => return Err(DecodeError { at: 0, fault: Fault::Kind }),
        };
        reader.end()?;
        if u64::from(header.length) != body.len() as u64 + request.payload_bytes() {
            return Err(DecodeError { at: 0, fault: Fault::Mismatch });
        }
        Ok(request)
    }

    /// Encodes header and body into `out` and says how many bytes that took; the payload follows them.
    ///
    /// A frame that would break a limit of the protocol is the caller's bug; the peer refuses it.
    pub fn encode(&self, tag: u64, out: &mut [u8]) -> Result<usize, NoRoom> {
        let start_bytes = self.encode_start_into(tag, out)?;
        let Some(ranges) = self.ranges() else { return Ok(start_bytes) };
        let mut writer = Writer::new(out.get_mut(start_bytes..).ok_or(NoRoom)?);
        ranges.encode(&mut writer);
        Ok(start_bytes + writer.end()?)
    }

    /// Encodes a request that is at most [`Small::BYTES_MAX`] long.
    ///
    /// # Panics
    /// If the request has a part of variable length that does not fit: a `Hello`, `Open`, `Bye` or
    /// `Control` with content, or a list.
    pub fn encode_small(&self, tag: u64) -> Small {
        Small::filled_by(|out| self.encode(tag, out))
            .expect("the caller encodes short requests this way")
    }

    /// Encodes a list request up to its ranges, which the caller sends itself, [`range_bytes`]
    /// of each: for a caller that has no room for all of them. Whatever else is encoded whole.
    ///
    /// # Panics
    /// As [`Request::encode_small`].
    pub fn encode_start(&self, tag: u64) -> Small {
        Small::filled_by(|out| self.encode_start_into(tag, out))
            .expect("the start of a list is short")
    }

    fn encode_start_into(&self, tag: u64, out: &mut [u8]) -> Result<usize, NoRoom> {
        let (head, body) = out.split_at_mut_checked(HEADER_BYTES).ok_or(NoRoom)?;
        let mut writer = Writer::new(body);
        self.encode_fields(&mut writer);
        let start_bytes = writer.end()?;
        let ranges_bytes = self.ranges().map_or(0, |ranges| ranges.body_bytes());
        let length = self.payload_bytes().saturating_add((start_bytes + ranges_bytes) as u64);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        head.copy_from_slice(
            &Header { length, kind: self.kind(), flags: self.flags(), tag }.encode(),
        );
        Ok(HEADER_BYTES + start_bytes)
    }

    /// Everything but the ranges of a list.
    fn encode_fields(&self, writer: &mut Writer<'_>) {
        let eager = u32::try_from(self.payload_bytes()).unwrap_or(u32::MAX);
        match self {
            Self::Hello(hello) => hello.encode(writer),
            Self::Open(open) => open.encode(writer),
            Self::Read(Read { handle, range }) => fields(writer, [handle.0, 0], *range),
            Self::Write(Write { handle, range, .. }) => fields(writer, [handle.0, eager], *range),
            Self::ReadList(ReadList { handle, ranges }) => {
                words(writer, &[handle.0, ranges.len() as u32])
            }
            Self::WriteList(WriteList { handle, ranges, .. }) => {
                words(writer, &[handle.0, ranges.len() as u32, eager, 0]);
            }
            Self::WriteData(WriteData { offset, .. }) => writer.u64(*offset),
            Self::Sync(handle)
            | Self::DataSync(handle)
            | Self::Stat(handle)
            | Self::Close(handle) => {
                writer.u32(handle.0);
            }
            Self::Truncate(Truncate { handle, size }) => {
                words(writer, &[handle.0, 0]);
                writer.u64(size.0);
            }
            Self::Allocate(Allocate { handle, mode, range }) => {
                fields(writer, [handle.0, *mode], *range)
            }
            Self::Hint(Hint { handle, advice, range }) => {
                fields(writer, [handle.0, *advice], *range)
            }
            Self::Status => {}
            Self::Bye(bye) => bye.encode(writer),
            Self::Control(control) => control.encode(writer),
        }
    }

    fn ranges(&self) -> Option<Ranges<'a>> {
        match self {
            Self::ReadList(ReadList { ranges, .. }) | Self::WriteList(WriteList { ranges, .. }) => {
                Some(*ranges)
            }
            _ => None,
        }
    }

    fn flags(&self) -> u8 {
        match self {
            Self::Open(Open { descriptor: Descriptor::Sent, .. }) => FLAG_DESCRIPTOR,
            Self::Write(Write { place: Place::End, .. }) => FLAG_APPEND,
            _ => 0,
        }
    }
}
