//! What a forwarder can do wrong.

use core::fmt;

use forebay_wire::{DecodeError, FrameKind};

/// A broken rule; the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A header that is none.
    Header(DecodeError),
    /// A body that is not what its header says.
    Body(FrameKind, DecodeError),
    /// Something else than a `Welcome` or a refusal, or a second one.
    Unwelcome(FrameKind),
    /// A version that was not asked for.
    Version(u16),
    /// A frame for a request that is not unanswered.
    UnknownTag(FrameKind, u64),
    /// A frame that does not answer this kind of request, or success without its answer.
    WrongAnswer(FrameKind, u64),
    /// Data, a grant or a result that goes beyond the request, or beyond a chunk.
    BeyondRequest(FrameKind, u64),
    /// A result while granted payload is still expected.
    DoneTooEarly(u64),
    /// Anything after another violation or a refusal.
    Over,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => write!(f, "malformed header: {error}"),
            Self::Body(kind, error) => write!(f, "malformed {kind:?}: {error}"),
            Self::Unwelcome(kind) => write!(f, "{kind:?} out of place at the session's start"),
            Self::Version(version) => write!(f, "version {version} was not asked for"),
            Self::UnknownTag(kind, tag) => {
                write!(f, "{kind:?} for request {tag}, which is not unanswered")
            }
            Self::WrongAnswer(kind, tag) => write!(f, "{kind:?} does not answer request {tag}"),
            Self::BeyondRequest(kind, tag) => write!(f, "{kind:?} goes beyond request {tag}"),
            Self::DoneTooEarly(tag) => write!(f, "request {tag} is done with open grants"),
            Self::Over => f.write_str("the session is over"),
        }
    }
}

impl core::error::Error for Violation {}
