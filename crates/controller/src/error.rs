//! What a call can be refused for. Nothing has changed then, unless the variant says so.

use core::fmt;

use forebay_sched::ClassError;

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// As many requests wait as the queue takes; submit again after a completion.
    QueueFull,
    /// The range covers no byte, and the request is not a sync.
    EmptyRange,
    /// The range ends beyond the largest offset, 2^63 − 1.
    RangeTooFar,
    /// No live request of this controller has this ticket: it is over, it is another controller's,
    /// or it was never given out.
    UnknownTicket,
    /// The request has not been dispatched, so it cannot be complete.
    NotDispatched,
    /// The request has been dispatched, so it cannot be cancelled; complete it.
    Dispatched,
    /// The request was cancelled, or completed by somebody else, while it was waited for.
    Cancelled,
    /// The time is over; what was waited for may still come.
    TimedOut,
    /// The call would wait for what only its caller's call-back can bring about.
    InCallBack,
    /// The controller was made in another process, of which this one is a fork.
    Forked,
    /// The controller is being drained or is closed and takes no requests.
    Draining,
    /// Requests are alive, so the controller cannot be closed; drain it first.
    Busy,
    /// The controller was made for another kind of delivery.
    WrongDelivery,
    /// A trace is being recorded: by this controller, or in this file by another recorder.
    Recorded,
    /// No trace is being recorded.
    NotRecorded,
    /// Each class of the controller has a policy of its own.
    HasClasses,
    /// The controller was made without classes, or the class or share is not possible.
    Class(ClassError),
    /// A value is outside its range; nothing was changed.
    OutOfRange,
    /// The scheduler has failed; the controller takes no further calls.
    Broken,
    /// The system refused something, with this errno.
    System(i32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueueFull => "the queue is full; submit again after a completion",
            Self::EmptyRange => "the range covers no byte",
            Self::RangeTooFar => "the range ends beyond 2^63 - 1",
            Self::UnknownTicket => "no live request of this controller has this ticket",
            Self::NotDispatched => "the request has not been dispatched",
            Self::Dispatched => "the request has been dispatched; complete it",
            Self::Cancelled => "the request was cancelled or completed meanwhile",
            Self::TimedOut => "the time is over",
            Self::InCallBack => "a call-back cannot wait for itself",
            Self::Forked => "the controller belongs to the process before the fork",
            Self::Draining => "the controller is drained or closed and takes no requests",
            Self::Busy => "requests are alive; drain the controller first",
            Self::WrongDelivery => "the controller was made for another kind of delivery",
            Self::Recorded => "a trace is being recorded there; end it, or name another file",
            Self::NotRecorded => "no trace is being recorded",
            Self::HasClasses => "each class has a policy of its own; change that",
            Self::Class(error) => return error.fmt(f),
            Self::OutOfRange => "a value is outside its range",
            Self::Broken => "the scheduler has failed; the controller takes no further calls",
            Self::System(errno) => return write!(f, "the system refused: errno {errno}"),
        })
    }
}

impl core::error::Error for Error {}

impl From<rustix::io::Errno> for Error {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::System(errno.raw_os_error())
    }
}

impl From<ClassError> for Error {
    fn from(error: ClassError) -> Self {
        Self::Class(error)
    }
}
