//! Why bytes are not a frame, or a frame does not fit.

use core::fmt;

/// Bytes that are not a frame of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Which byte, counted from the start of the header or of the body that was decoded.
    pub at: u32,
    /// What is wrong there.
    pub fault: Fault,
}

impl DecodeError {
    pub(crate) fn moved_by(self, bytes: usize) -> Self {
        Self { at: self.at.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX)), ..self }
    }
}

/// What is wrong with a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No frame kind has this number, or it belongs to the other direction.
    Kind,
    /// A flag that this kind does not have.
    Flags,
    /// A reserved field that is not zero.
    Reserved,
    /// The frame is too short for what it must hold.
    Short,
    /// The frame is longer than what it may hold.
    Long,
    /// The magic bytes of a `Hello` are not there.
    Magic,
    /// A number beyond the limit that the protocol sets for it.
    Limit,
    /// A range of no bytes.
    Empty,
    /// Two fields that contradict each other.
    Mismatch,
}

impl Fault {
    /// The fault in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kind => "unknown frame kind",
            Self::Flags => "unknown flag",
            Self::Reserved => "reserved field is not zero",
            Self::Short => "frame is too short",
            Self::Long => "frame is too long",
            Self::Magic => "not a hello",
            Self::Limit => "value beyond its limit",
            Self::Empty => "empty range",
            Self::Mismatch => "contradictory fields",
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.fault.as_str(), self.at)
    }
}

impl core::error::Error for DecodeError {}

/// The caller's buffer is too small for the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("buffer too small for the frame")
    }
}

impl core::error::Error for NoRoom {}
