//! What goes in and out: submissions, turns, batches, outcomes.

use core::hash::Hasher;
use std::hash::DefaultHasher;

use forebay_sched::Access;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, Nanos, Offset};

use crate::controller::Controller;

/// What a file *is* to a service: any 128 bits that tell its files apart.
///
/// Two files with one key would be ordered, and merged, as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct FileKey {
    /// For example the device number.
    pub high: u64,
    /// For example the inode number.
    pub low: u64,
}

impl FileKey {
    /// The key of a name: two SipHashes of it, 128 bits, so that names do not meet by accident.
    pub fn of_name(name: &[u8]) -> Self {
        let half = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(seed);
            hasher.write(name);
            hasher.finish()
        };
        Self { high: half(0), low: half(1) }
    }
}

/// Names one submitted request until it is over; another controller's tickets mean nothing here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ticket(pub u64);

/// How the submitter learns that its request may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notice {
    /// By the controller's delivery: a call-back, or `poll`.
    #[default]
    Deliver,
    /// By [`Controller::wait`] on the ticket.
    Wait,
}

/// A request as a service submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The service's own mark, a number or a pointer, handed back with the turn; never looked at.
    pub id: u64,
    /// Which file.
    pub file: FileKey,
    /// What it does.
    pub access: Access,
    /// Where; not empty unless it is a sync, and at most up to offset 2^63 − 1 (but see
    /// [`ByteRange::WHOLE_FILE`] for an append, whose offset is not known).
    pub range: ByteRange,
    /// Which client it comes from.
    pub client: ClientId,
    /// Which class it is accounted to.
    pub class: ClassId,
    /// How its turn is made known.
    pub notice: Notice,
}

impl Submission {
    /// A read or write of `length` bytes at `offset`, of client 0 and class 0, to be delivered.
    pub fn new(id: u64, file: FileKey, access: Access, offset: Offset, length: Bytes) -> Self {
        Self {
            id,
            file,
            access,
            range: ByteRange::new(offset, length),
            client: ClientId(0),
            class: ClassId(0),
            notice: Notice::Deliver,
        }
    }
}

/// One request that may go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Turn {
    /// What [`Controller::complete`] wants to hear.
    pub ticket: Ticket,
    /// The submitter's own mark.
    pub id: u64,
    /// Where it starts.
    pub offset: Offset,
    /// How much it covers; 0 for one without an end.
    pub length: Bytes,
    /// Which client it came from.
    pub client: ClientId,
    /// Which class it is accounted to.
    pub class: ClassId,
}

/// Requests that may go now, together: one file, one direction, in offset order, without a gap.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Which file.
    pub file: FileKey,
    /// What all of them do.
    pub access: Access,
    /// What they cover together.
    pub extent: ByteRange,
    /// The requests; at least one. Each is completed on its own.
    pub turns: &'a [Turn],
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well, having moved so many bytes; fewer than asked mean the end of the file.
    Moved(Bytes),
    /// Not, with this errno, which traces tell; for the order of the others it is the same.
    Failed(u16),
}

/// What a service may say ahead of time. A hint never changes what is right, only what is quick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// More requests follow at once: hold dispatch back for at most this long, so that they can be
    /// merged. At most one second; a later hint replaces it.
    MoreFollows(Nanos),
    /// What was to follow is here: dispatch.
    NoMore,
    /// The file is closed: forget what was learned about it, as soon as it has no live request.
    Forget(FileKey),
}

/// Carries batches out.
///
/// Called without any lock held, on the thread that submitted, completed, or slept until a wait
/// was over; on several threads at a time if several have something to dispatch. It may call the
/// controller; see [`Controller`] for what a call-back may not do. It does not panic.
pub trait Deliver: Send + Sync {
    /// These requests may go now.
    fn deliver(&self, controller: &Controller, batch: &Batch<'_>);
}

impl<F: Fn(&Controller, &Batch<'_>) + Send + Sync> Deliver for F {
    fn deliver(&self, controller: &Controller, batch: &Batch<'_>) {
        self(controller, batch);
    }
}

/// How a controller makes turns known.
pub enum Delivery {
    /// By calling back. Requests may be waited for instead, each as it says.
    CallBack(Box<dyn Deliver>),
    /// Only when [`Controller::poll`] asks.
    Poll,
    /// Only when a [`Controller::round`] asks. There is no descriptor.
    Rounds,
    /// Every request is waited for.
    Wait,
}
