//! What a forwarder sends: the bodies of its frames.

use forebay_units::{Bytes, FileId};

use crate::cursor::{Reader, Writer};
use crate::error::{DecodeError, Fault, NoRoom};
use crate::header::{FLAG_MORE, FrameKind, HEADER_BYTES, Header};
use crate::small::Small;
use crate::{Handle, MESSAGE_BYTES_MAX, PAYLOAD_BYTES_MAX, REQUEST_BYTES_MAX};

/// A frame from forwarder to client, without its tag and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Answers a `Hello`.
    Welcome(Welcome),
    /// Answers an `Open`.
    Opened(Opened),
    /// Asks for a part of a write's payload.
    Grant(Grant),
    /// A part of a read's data follows.
    ReadData(ReadData),
    /// Answers most requests.
    Done(Done),
    /// Answers a `Stat`.
    Attributes(Attributes),
    /// Answers a `Status` or a `Control`: a part of the text follows.
    StatusText(StatusText),
    /// Ends the session because of what the client did.
    Refused(Refused<'a>),
}

/// The session's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version spoken from here on.
    pub version: u16,
    /// The longest payload that may travel in the frame of a write.
    pub eager_bytes_max: u32,
    /// The longest payload of any other frame, either way.
    pub chunk_bytes_max: u32,
    /// How many requests may be unanswered at once.
    pub requests_max: u32,
    /// The session's name, in the forwarder's reports.
    pub session: u64,
}

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its name in this session.
    pub handle: Handle,
    /// What file it is.
    pub id: FileId,
}

/// A part of a write's payload that the forwarder has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Where it begins, counted from the request's first byte.
    pub offset: u64,
    /// How long it is: at least 1, at most `chunk_bytes_max`.
    pub length: u32,
}

/// A part of a read's data; it follows as payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadData {
    /// Where it begins, counted from the request's first byte.
    pub offset: u64,
    /// How long it is: at least 1, at most `chunk_bytes_max`.
    pub length: u32,
}

/// A request's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// 0, or the error number of the store (1 to 4095), unchanged.
    pub errno: i32,
    /// How many bytes moved from the start of the request without a gap.
    pub bytes: u64,
    /// The file position after an append, else 0.
    pub end: u64,
}

/// What `fstat(2)` says, as far as clients ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Size.
    pub size: Bytes,
    /// Allocated 512-byte blocks.
    pub blocks_512: u64,
    /// Modification time in nanoseconds since the epoch.
    pub modified_ns: i64,
}

/// A part of the status text; it follows as payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusText {
    /// How long it is; may be 0.
    pub length: u32,
    /// Whether another part follows.
    pub more: bool,
}

/// Why the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<'a> {
    /// The error number that the client's calls should end with.
    pub errno: i32,
    /// The reason in words, at most [`MESSAGE_BYTES_MAX`] bytes.
    pub message: &'a [u8],
}

/// `MAX_ERRNO` of the Linux kernel.
const ERRNO_MAX: i32 = 4095;

impl<'a> Reply<'a> {
    /// The kind of its frame.
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Welcome(_) => FrameKind::Welcome,
            Self::Opened(_) => FrameKind::Opened,
            Self::Grant(_) => FrameKind::Grant,
            Self::ReadData(_) => FrameKind::ReadData,
            Self::Done(_) => FrameKind::Done,
            Self::Attributes(_) => FrameKind::Attributes,
            Self::StatusText(_) => FrameKind::StatusText,
            Self::Refused(_) => FrameKind::Refused,
        }
    }

    /// How many bytes of payload follow the body in this frame.
    pub fn payload_bytes(&self) -> u32 {
        match self {
            Self::ReadData(data) => data.length,
            Self::StatusText(text) => text.length,
            _ => 0,
        }
    }

    /// Decodes a body, which is as long as [`Header::body_bytes`] said.
    pub fn decode(header: &Header, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let payload_bytes =
            header.length.saturating_sub(u32::try_from(body.len()).unwrap_or(u32::MAX));
        let reply = match header.kind {
            FrameKind::Welcome => Self::Welcome(Welcome::decode(&mut reader)?),
            FrameKind::Opened => Self::Opened(Opened::decode(&mut reader)?),
            FrameKind::Grant => Self::Grant(Grant::decode(&mut reader)?),
            FrameKind::ReadData => {
                let offset = reader.u64_max(REQUEST_BYTES_MAX)?;
                if payload_bytes == 0 {
                    return Err(reader.fault(Fault::Empty, 0));
                }
                Self::ReadData(ReadData { offset, length: payload_bytes })
            }
            FrameKind::Done => Self::Done(Done::decode(&mut reader)?),
            FrameKind::Attributes => Self::Attributes(Attributes {
                size: Bytes(reader.u64()?),
                blocks_512: reader.u64()?,
                modified_ns: i64::from_le_bytes(reader.array()?),
            }),
            FrameKind::StatusText => Self::StatusText(StatusText {
                length: payload_bytes,
                more: header.flags & FLAG_MORE != 0,
            }),
            FrameKind::Refused => Self::Refused(Refused::decode(&mut reader)?),
            _ => return Err(DecodeError { at: 0, fault: Fault::Kind }),
        };
        reader.end()?;
        if u64::from(header.length) != body.len() as u64 + u64::from(reply.payload_bytes()) {
            return Err(DecodeError { at: 0, fault: Fault::Mismatch });
        }
        Ok(reply)
    }

    /// Encodes header and body into `out` and says how many bytes that took; the payload follows them.
    pub fn encode(&self, tag: u64, out: &mut [u8]) -> Result<usize, NoRoom> {
        let (head, body) = out.split_at_mut_checked(HEADER_BYTES).ok_or(NoRoom)?;
        let mut writer = Writer::new(body);
        self.encode_body(&mut writer);
        let body_bytes = writer.end()?;
        let length =
            u32::try_from(body_bytes).unwrap_or(u32::MAX).saturating_add(self.payload_bytes());
        let flags = if matches!(self, Self::StatusText(StatusText { more: true, .. })) {
            FLAG_MORE
        } else {
            0
        };
        head.copy_from_slice(&Header { length, kind: self.kind(), flags, tag }.encode());
        Ok(HEADER_BYTES + body_bytes)
    }

    /// Encodes a reply that is at most [`Small::BYTES_MAX`] long.
    ///
    /// # Panics
    /// If it is a `Refused` whose message does not fit.
    pub fn encode_small(&self, tag: u64) -> Small {
        Small::filled_by(|out| self.encode(tag, out))
            .expect("the caller encodes short replies this way")
    }

    fn encode_body(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Welcome(welcome) => welcome.encode(writer),
            Self::Opened(Opened { handle, id }) => {
                writer.u32(handle.0);
                writer.u32(0);
                [id.device, id.inode, id.generation].into_iter().for_each(|part| writer.u64(part));
            }
            Self::Grant(Grant { offset, length }) => {
                writer.u64(*offset);
                writer.u64(u64::from(*length));
            }
            Self::ReadData(ReadData { offset, .. }) => writer.u64(*offset),
            Self::Done(Done { errno, bytes, end }) => {
                writer.slice(&errno.to_le_bytes());
                writer.u32(0);
                writer.u64(*bytes);
                writer.u64(*end);
            }
            Self::Attributes(Attributes { size, blocks_512, modified_ns }) => {
                writer.u64(size.0);
                writer.u64(*blocks_512);
                writer.slice(&modified_ns.to_le_bytes());
            }
            Self::StatusText(_) => {}
            Self::Refused(Refused { errno, message }) => {
                writer.slice(&errno.to_le_bytes());
                writer.u16(u16::try_from(message.len()).unwrap_or(u16::MAX));
                writer.slice(message);
            }
        }
    }
}

impl Welcome {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = reader.u16()?;
        if reader.u16()? != 0 {
            return Err(reader.fault(Fault::Reserved, 2));
        }
        let eager_bytes_max = limit(reader, 0)?;
        let chunk_bytes_max = limit(reader, 1)?;
        let requests_max = reader.u32()?;
        if requests_max == 0 {
            return Err(reader.fault(Fault::Limit, 4));
        }
        Ok(Self { version, eager_bytes_max, chunk_bytes_max, requests_max, session: reader.u64()? })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u16(self.version);
        writer.u16(0);
        let limits = [self.eager_bytes_max, self.chunk_bytes_max, self.requests_max];
        limits.into_iter().for_each(|limit| writer.u32(limit));
        writer.u64(self.session);
    }
}

fn limit(reader: &mut Reader<'_>, min: u32) -> Result<u32, DecodeError> {
    let limit = reader.u32()?;
    if (min..=PAYLOAD_BYTES_MAX).contains(&limit) {
        Ok(limit)
    } else {
        Err(reader.fault(Fault::Limit, 4))
    }
}

impl Opened {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let handle = Handle(reader.u32()?);
        reader.reserved_u32()?;
        let id = FileId { device: reader.u64()?, inode: reader.u64()?, generation: reader.u64()? };
        Ok(Self { handle, id })
    }
}

impl Grant {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.u64_max(REQUEST_BYTES_MAX)?;
        match u32::try_from(reader.u64_max(u64::from(PAYLOAD_BYTES_MAX))?) {
            Ok(length) if length > 0 => Ok(Self { offset, length }),
            _ => Err(reader.fault(Fault::Empty, 8)),
        }
    }
}

fn errno(reader: &mut Reader<'_>, min: i32) -> Result<i32, DecodeError> {
    let errno = i32::from_le_bytes(reader.array()?);
    if (min..=ERRNO_MAX).contains(&errno) { Ok(errno) } else { Err(reader.fault(Fault::Limit, 4)) }
}

impl Done {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let errno = errno(reader, 0)?;
        reader.reserved_u32()?;
        Ok(Self { errno, bytes: reader.u64_max(REQUEST_BYTES_MAX)?, end: reader.u64()? })
    }
}

impl<'a> Refused<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let errno = errno(reader, 1)?;
        let length = usize::from(reader.u16()?);
        if length > MESSAGE_BYTES_MAX {
            return Err(reader.fault(Fault::Limit, 2));
        }
        Ok(Self { errno, message: reader.slice(length)? })
    }
}
