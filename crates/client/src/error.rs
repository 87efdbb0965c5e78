//! What can go wrong with a request, sorted by what the caller can do about it.

use std::fmt;

use forebay_session::client::{Unsendable, Violation};
use rustix::io::Errno;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The store's error, unchanged; the connection goes on.
    Errno(Errno),
    /// There was no connection to begin with.
    Connect(Errno),
    /// The caller's memory could not be read or written. The connection is of no use any more,
    /// because it stopped in the middle of a frame.
    Memory,
    /// The connection is of no use any more, for this reason.
    Lost(Loss),
    /// The request cannot be sent; nothing has changed.
    Unsendable(Unsendable),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The forwarder had gone before any of the request was sent.
    Unsent,
    /// The forwarder went away; whether it carried out the request is unknown.
    Gone,
    /// Nothing moved for as long as the limit allows. The forwarder may still carry out the request.
    TimedOut,
    /// The forwarder refused the session or the request, and said why.
    Refused(Refusal),
    /// What came was not the protocol.
    Protocol(Violation),
}

/// Why a forwarder refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    errno: i32,
    message: [u8; Self::MESSAGE_BYTES],
    length: u8,
}

impl Error {
    /// Whether the forwarder is gone, so that another connection may find a new one.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Lost(Loss::Gone | Loss::Unsent))
    }

    /// What an error of the socket means; `EAGAIN` is not for anybody outside.
    pub(crate) fn from_socket(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::Errno(errno),
            Errno::FAULT => Self::Memory,
            _ => Self::Lost(Loss::Gone),
        }
    }
}

impl Refusal {
    /// How much of a message is kept.
    const MESSAGE_BYTES: usize = 100;

    pub(crate) fn new(errno: i32, message: &[u8]) -> Self {
        let length = message.len().min(Self::MESSAGE_BYTES);
        let mut kept = [0; Self::MESSAGE_BYTES];
        kept[..length].copy_from_slice(&message[..length]);
        Self { errno, message: kept, length: length as u8 }
    }

    /// The error number that the forwarder gave, from 1 to 4095.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// Its words, up to 100 bytes.
    pub fn message(&self) -> &str {
        let bytes = &self.message[..usize::from(self.length)];
        std::str::from_utf8(bytes).unwrap_or_else(|error| {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        })
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refusal({}, {:?})", self.errno, self.message())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => write!(f, "{errno}"),
            Self::Connect(errno) => write!(f, "cannot connect: {errno}"),
            Self::Memory => f.write_str("bad memory address"),
            Self::Lost(loss) => write!(f, "{loss}"),
            Self::Unsendable(why) => write!(f, "{why}"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent | Self::Gone => f.write_str("connection lost"),
            Self::TimedOut => f.write_str("no answer within the time-out"),
            Self::Refused(refusal) => write!(f, "refused: {}", refusal.message()),
            Self::Protocol(violation) => write!(f, "protocol violation: {violation}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::Lost(Loss::Protocol(violation))
    }
}

impl From<Unsendable> for Error {
    fn from(why: Unsendable) -> Self {
        Self::Unsendable(why)
    }
}
