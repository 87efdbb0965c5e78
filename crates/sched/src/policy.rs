//! What a policy is: an order among requests that may all go now.
//!
//! A policy sees only requests that the guard has cleared (*ready*), with plain [`Access::Read`]
//! or [`Access::Write`], so it cannot break read-after-write whatever it does. One file a policy.
//!
//! [`Access::Read`]: crate::request::Access::Read
//! [`Access::Write`]: crate::request::Access::Write

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{Bytes, FileIndex, Nanos, Timestamp};

use crate::policies::checked::Fault;
use crate::request::{Accepted, RequestId};

/// The order in which ready requests leave.
///
/// Contract, checked for every policy by the shared laws: an added request leaves exactly once,
/// by [`select`](Policy::select), [`cancel`](Policy::cancel) or [`drain`](Policy::drain); decisions depend on nothing but the calls
/// made; nothing is allocated once the high-water mark of queued requests has been reached.
pub trait Policy: Send {
    /// The policy's name, as in configuration and tables.
    fn name(&self) -> &'static str;

    /// Takes over a ready request. A request unblocked late keeps its old `seq` and `arrived`.
    fn add(&mut self, now: Timestamp, request: &Accepted);

    /// Decides what goes next. On [`Selection::Batch`] the chosen requests' ids are appended to
    /// `batch` (empty on entry) in offset order: one file, one direction, no gap between members.
    /// The ids are enough, because the scheduler keeps every request itself.
    fn select(&mut self, now: Timestamp, batch: &mut Vec<RequestId>) -> Selection;

    /// A request that this policy selected has finished. `moved` is the byte count, short at the end of a file.
    fn complete(&mut self, now: Timestamp, request: &Accepted, moved: Bytes) {
        let _ = (now, request, moved);
    }

    /// Takes a queued request back out; whether it was there. `request` is exactly what was added,
    /// so that a policy can find it by file, offset or `seq` without an index of its own.
    fn cancel(&mut self, now: Timestamp, request: &Accepted) -> bool;

    /// Hands back everything queued, in `seq` order, and is empty afterwards; waits are dropped.
    fn drain(&mut self, into: &mut Vec<RequestId>);

    /// Forgets what was learned about a file (quanta, expected continuation); it has no queued request.
    fn retire(&mut self, file: FileIndex) {
        let _ = file;
    }

    /// How many requests are queued.
    fn queued_count(&self) -> usize;

    /// What the policy did wrong, if somebody looks after it and it has been replaced; see [`Checked`].
    ///
    /// [`Checked`]: crate::policies::checked::Checked
    fn fault(&self) -> Option<Fault> {
        None
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn add(&mut self, now: Timestamp, request: &Accepted) {
        (**self).add(now, request);
    }

    fn select(&mut self, now: Timestamp, batch: &mut Vec<RequestId>) -> Selection {
        (**self).select(now, batch)
    }

    fn complete(&mut self, now: Timestamp, request: &Accepted, moved: Bytes) {
        (**self).complete(now, request, moved);
    }

    fn cancel(&mut self, now: Timestamp, request: &Accepted) -> bool {
        (**self).cancel(now, request)
    }

    fn drain(&mut self, into: &mut Vec<RequestId>) {
        (**self).drain(into);
    }

    fn retire(&mut self, file: FileIndex) {
        (**self).retire(file);
    }

    fn queued_count(&self) -> usize {
        (**self).queued_count()
    }

    fn fault(&self) -> Option<Fault> {
        (**self).fault()
    }
}

/// What [`Policy::select`] decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// `batch` holds what goes next.
    Batch,
    /// Something is queued, but waiting may pay: ask again at `until` (later than now), or after the next `add`.
    Wait {
        /// When the wait ends at the latest.
        until: Timestamp,
    },
    /// Nothing is queued.
    Idle,
}

/// Limits and device facts that policies share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest run in bytes (A_max); a single larger request still goes, alone.
    pub run_bytes_max: Bytes,
    /// Most requests in a run (A_cnt).
    pub run_requests_max: u32,
    /// Largest batch of several runs in bytes (A_batch): aIOLi continuations, HBRR turns.
    pub batch_bytes_max: Bytes,
    /// Longest wait for a better batch (W_eff): 0 where the device gains nothing from order.
    pub wait_max: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            run_bytes_max: Bytes::mib(1),
            run_requests_max: 64,
            batch_bytes_max: Bytes::mib(4),
            wait_max: Nanos::micros(900),
        }
    }
}
