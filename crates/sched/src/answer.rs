//! What the scheduler is told about the store, and what it answers.

use forebay_units::Timestamp;

use crate::request::{Accepted, RequestId};

/// Whether the store could take one more batch at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It could.
    Free,
    /// It could not.
    Full,
}

/// What became of a submitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is in flight: carry it out now, on its own.
    Bypassed(Accepted),
    /// It may go; ask `next`.
    Queued(RequestId),
    /// It waits for earlier conflicting requests.
    Blocked(RequestId),
}

impl Admission {
    /// The name that the request was given.
    pub const fn id(&self) -> RequestId {
        match self {
            Self::Bypassed(accepted) => accepted.id,
            Self::Queued(id) | Self::Blocked(id) => *id,
        }
    }
}

/// Why a request was refused; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// `queue_requests_max` requests are waiting, or `class_requests_max` of its class; try again
    /// after a completion.
    QueueFull,
    /// The range covers no byte, and the request is not a sync.
    EmptyRange,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Carry out the batch.
    Dispatch,
    /// Something is queued but waiting may pay: ask again at `until`, or after the next `submit` or `complete`.
    Wait {
        /// When to ask again at the latest; later than `now`.
        until: Timestamp,
    },
    /// Nothing is ready; ask again after the next `submit` or `complete`.
    Idle,
}

/// What became of a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// It was waiting, will never be dispatched, and its id is no longer valid.
    Cancelled,
    /// Too late: it is in flight and completes as usual.
    InFlight,
    /// No live request has this id.
    Unknown,
}

/// The file cannot be retired: requests of it are alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBusy;
