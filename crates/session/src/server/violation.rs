//! What a client can do wrong, and how it is told.

use super::alloc::string::ToString;
use super::alloc::vec;
use super::alloc::vec::Vec;
use core::fmt;

use forebay_wire::{
    DecodeError, FrameKind, HEADER_BYTES, Handle, MESSAGE_BYTES_MAX, REPLY_BODY_BYTES_MAX, Refused,
    Reply,
};

/// A broken rule; the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A header that is none.
    Header(DecodeError),
    /// A body that is not what its header says.
    Body(FrameKind, DecodeError),
    /// A frame before the `Hello`, or before it was answered.
    HelloExpected(FrameKind),
    /// A second `Hello`.
    HelloAgain,
    /// No version that both speak.
    Version {
        /// The client's oldest.
        min: u16,
        /// The client's newest.
        max: u16,
    },
    /// A tag that is not above the last one: a replayed frame, or a confused client.
    TagNotIncreasing {
        /// The tag.
        tag: u64,
        /// The one before.
        last: u64,
    },
    /// More unanswered requests than allowed.
    TooManyRequests {
        /// How many are.
        max: u32,
    },
    /// More payload in the frame of a write than allowed.
    EagerTooLong {
        /// How much it was.
        length: u64,
        /// How much may be.
        max: u32,
    },
    /// Payload that no open grant asked for.
    NotGranted {
        /// The request it names.
        tag: u64,
        /// Where in the request it begins.
        offset: u64,
        /// How long it is.
        length: u32,
    },
    /// A handle that is not open.
    UnknownHandle(Handle),
    /// More open files than allowed.
    TooManyFiles {
        /// How many are.
        max: usize,
    },
    /// A frame after the `Bye`.
    AfterBye(FrameKind),
    /// Anything after another violation.
    Over,
}

impl Violation {
    /// The `Refused` frame that tells the client.
    pub fn refusal(&self) -> Vec<u8> {
        refusal(self.errno(), &self.to_string())
    }

    /// The error number for the client's calls: `EPROTO`, or `EPROTONOSUPPORT` where only the version is wrong.
    pub fn errno(&self) -> i32 {
        const EPROTO: i32 = 71;
        const EPROTONOSUPPORT: i32 = 93;
        if matches!(self, Self::Version { .. }) { EPROTONOSUPPORT } else { EPROTO }
    }
}

/// The `Refused` frame for a reason of the forwarder's own, such as a client that is not welcome.
/// `errno` is 1 to 4095; a message beyond [`MESSAGE_BYTES_MAX`] is cut.
pub fn refusal(errno: i32, message: &str) -> Vec<u8> {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let refused = Reply::Refused(Refused { errno, message: &message.as_bytes()[..end] });
    let mut frame = vec![0; HEADER_BYTES + REPLY_BODY_BYTES_MAX];
    let length = refused.encode(0, &mut frame).expect("there is room for the longest message");
    frame.truncate(length);
    frame
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => write!(f, "malformed header: {error}"),
            Self::Body(kind, error) => write!(f, "malformed {kind:?}: {error}"),
            Self::HelloExpected(kind) => write!(f, "{kind:?} before the hello"),
            Self::HelloAgain => f.write_str("a second hello"),
            Self::Version { min, max } => {
                write!(f, "version {min} to {max} asked for, {} spoken", forebay_wire::VERSION)
            }
            Self::TagNotIncreasing { tag, last } => write!(f, "tag {tag} after tag {last}"),
            Self::TooManyRequests { max } => write!(f, "more than {max} unanswered requests"),
            Self::EagerTooLong { length, max } => {
                write!(f, "{length} bytes sent unasked, at most {max} allowed")
            }
            Self::NotGranted { tag, offset, length } => {
                write!(f, "{length} bytes at {offset} of request {tag} were not granted")
            }
            Self::UnknownHandle(handle) => write!(f, "handle {} is not open", handle.0),
            Self::TooManyFiles { max } => write!(f, "more than {max} open files"),
            Self::AfterBye(kind) => write!(f, "{kind:?} after the bye"),
            Self::Over => f.write_str("the session is over"),
        }
    }
}

impl core::error::Error for Violation {}
