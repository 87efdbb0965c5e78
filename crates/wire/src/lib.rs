//! Frames of the Forebay protocol: what is on the wire, and nothing about when.
//!
//! A frame is a 16-byte [`Header`], a body, and for some kinds a payload. [`Request`] and
//! [`Reply`] are the bodies of either direction; the order of frames is the business of
//! `forebay-session`. Nothing here allocates: encoding writes into the caller's buffer, decoding
//! borrows from it. The payload never passes through: a body says how long it is, so that the
//! caller reads it straight to where it belongs.
//!
//! ```
//! use forebay_units::{Bytes, ByteRange, Offset};
//! use forebay_wire::{HEADER_BYTES, Handle, Header, Read, Request};
//!
//! let read = Request::Read(Read { handle: Handle(3), range: ByteRange::new(Offset(4096), Bytes(512)) });
//! let frame = read.encode_small(7);
//! let (head, body) = frame.split_at(HEADER_BYTES);
//! let header = Header::decode(head.try_into().unwrap()).unwrap();
//! assert_eq!(header.body_bytes(&[]), Ok(body.len()));
//! assert_eq!((header.tag, Request::decode(&header, body)), (7, Ok(read)));
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod cause;
mod cursor;
mod error;
mod header;
mod list;
mod reply;
mod request;
mod small;

pub use cause::Cause;
pub use error::{DecodeError, Fault, NoRoom};
pub use header::{FrameKind, HEADER_BYTES, Header};
pub use list::{Item, List, ListIter, Ranges, Reason, Reasons};
pub use reply::{Attributes, Done, Grant, Opened, ReadData, Refused, Reply, StatusText, Welcome};
pub use request::{
    Allocate, Bye, Control, Delivery, Descriptor, Hello, Hint, Open, Place, Read, ReadList,
    Request, Truncate, Write, WriteData, WriteList, range_bytes,
};
pub use small::Small;

/// The version of the protocol that this crate speaks.
pub const VERSION: u16 = 1;

/// The first bytes of a `Hello`, which tell a Forebay client from somebody at the wrong port.
pub const MAGIC: [u8; 4] = *b"FBAY";

/// The longest request: what Linux moves in one call at most (`MAX_RW_COUNT`).
pub const REQUEST_BYTES_MAX: u64 = 0x7fff_f000;

/// The most ranges in one list request.
pub const RANGES_MAX: u32 = 4096;

/// The longest payload of one frame, whatever a `Welcome` says: it bounds what a header may announce.
pub const PAYLOAD_BYTES_MAX: u32 = 16 << 20;

/// The longest path in an `Open` (`PATH_MAX`).
pub const PATH_BYTES_MAX: usize = 4096;

/// The longest job or program name in a `Hello`.
pub const NAME_BYTES_MAX: usize = 64;

/// The longest message in a `Refused`.
pub const MESSAGE_BYTES_MAX: usize = 512;

/// The longest text of a `Control`.
pub const CONTROL_BYTES_MAX: usize = 4096;

/// The most reasons in a `Bye`.
pub const REASONS_MAX: u32 = 255;

/// The most files that one session may have open.
pub const HANDLES_MAX: usize = 4096;

/// The longest body of a request: a `WriteList` with [`RANGES_MAX`] ranges.
pub const REQUEST_BODY_BYTES_MAX: usize = 16 + 16 * RANGES_MAX as usize;

/// The longest body of a reply: a `Refused` with its message.
pub const REPLY_BODY_BYTES_MAX: usize = 6 + MESSAGE_BYTES_MAX;

/// An open file of a session, as the forwarder numbered it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);
