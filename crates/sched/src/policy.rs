//! What a policy is: an order among requests that may all go now.
//!
//! A policy sees only requests that the guard has cleared (*ready*), with plain [`Access::Read`]
//! or [`Access::Write`], so it cannot break read-after-write whatever it does. One file a policy.
//!
//! [`Access::Read`]: crate::request::Access::Read
//! [`Access::Write`]: crate::request::Access::Write

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{ByteRange, Bytes, ClassId, Direction, FileIndex, Nanos, Timestamp};

use crate::policies::checked::Fault;
use crate::request::{Accepted, RequestId};
use crate::table::{State, Table, slot_of};

/// The order in which ready requests leave.
///
/// Contract, checked for every policy by the shared laws: an added request leaves exactly once,
/// by [`select`](Policy::select), [`cancel`](Policy::cancel) or [`drain`](Policy::drain); decisions depend on nothing but the calls
/// made; nothing is allocated below the high-water marks of queued requests, and of those that merge or
/// come out of order, since they take a little more.
pub trait Policy: Send {
    /// The policy's name, as in configuration and tables.
    fn name(&self) -> &'static str;

    /// Takes over a ready request. A request unblocked late keeps its old `seq` and `arrived`.
    /// From now on it is among `held`, until the call after the one by which it leaves.
    fn add(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted);

    /// Decides what goes next. On [`Selection::Batch`] the chosen requests' ids are appended to
    /// `batch` (empty on entry) in offset order: one file, one direction, no gap between members.
    /// The ids are enough, because the scheduler keeps every request itself.
    fn select(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection;

    /// A request that this policy selected has finished. `moved` is the byte count, short at the end of a file.
    fn complete(&mut self, now: Timestamp, request: &Accepted, moved: Bytes) {
        let _ = (now, request, moved);
    }

    /// Takes a queued request back out; whether it was there. `request` is exactly what was added,
    /// so that a policy can find it by file, offset or `seq` without an index of its own.
    fn cancel(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool;

    /// Hands back everything queued, in `seq` order, and is empty afterwards; waits are dropped.
    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>);

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

    fn add(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        (**self).add(now, held, request);
    }

    fn select(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        (**self).select(now, held, batch)
    }

    fn complete(&mut self, now: Timestamp, request: &Accepted, moved: Bytes) {
        (**self).complete(now, request, moved);
    }

    fn cancel(&mut self, now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        (**self).cancel(now, held, request)
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        (**self).drain(held, into);
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

/// The requests that a policy holds, where they are kept: a policy need not keep them once more.
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a> {
    table: &'a Table,
    /// By the slot in an id that the policy knows: the slot in the table, if those differ.
    slots: Option<&'a [u32]>,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(table: &'a Table, slots: Option<&'a [u32]>) -> Self {
        Self { table, slots }
    }

    /// The request of that id, if the policy holds it. To be asked for ids that it holds: one that
    /// has been completed or cancelled may be given again to another request.
    pub fn get(&self, id: RequestId) -> Option<Accepted> {
        let slot = match self.slots {
            Some(slots) => *slots.get(slot_of(id) as usize)?,
            None => slot_of(id),
        };
        let is_held = slot < self.table.slots_count()
            && self.table.state(slot) == State::InPolicy
            && self.id(slot_of(id)) == id;
        is_held.then(|| Accepted { id, ..self.table.accepted(slot) })
    }

    /// The slot in the table of the request that the policy knows in `slot`, as in all that follows.
    fn slot(&self, slot: u32) -> u32 {
        self.slots.map_or(slot, |slots| slots[slot as usize])
    }

    pub(crate) fn id(&self, slot: u32) -> RequestId {
        RequestId(self.table.id(self.slot(slot)).0 >> 32 << 32 | u64::from(slot))
    }

    pub(crate) fn seq(&self, slot: u32) -> u64 {
        self.table.seq(self.slot(slot))
    }

    pub(crate) fn arrived(&self, slot: u32) -> Timestamp {
        self.table.arrived(self.slot(slot))
    }

    pub(crate) fn range(&self, slot: u32) -> ByteRange {
        self.table.range(self.slot(slot))
    }

    /// File, class and direction.
    pub(crate) fn queue_of(&self, slot: u32) -> (FileIndex, ClassId, Direction) {
        let slot = self.slot(slot);
        (self.table.file(slot), self.table.class(slot), self.table.access(slot).direction())
    }
}

/// Requests kept for a policy that has no scheduler around it, by the slots in their ids.
#[derive(Clone, Debug, Default)]
pub struct Kept(Table);

impl Kept {
    /// Keeps a request, in the place of an earlier one with the same slot.
    pub fn keep(&mut self, request: &Accepted) {
        self.0.put(request);
    }

    /// All of them.
    pub fn requests(&self) -> Requests<'_> {
        Requests::new(&self.0, None)
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
    /// Largest batch of several runs in bytes (A_batch): aIOLi continuations, HBRR turns. If 0, every
    /// batch is one run, and so at most `run_requests_max` requests.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Access, Request};
    use forebay_units::{ClientId, Offset};

    fn accepted(id: u64) -> Accepted {
        let request = Request {
            tag: id,
            file: FileIndex(1),
            access: Access::Read,
            range: ByteRange::new(Offset(id), Bytes(8)),
            client: ClientId(0),
            class: ClassId(0),
        };
        Accepted { id: RequestId(id), seq: id, arrived: Timestamp(0), request }
    }

    #[test]
    fn a_policy_finds_what_it_holds_and_nothing_else() {
        let mut kept = Kept::default();
        kept.keep(&accepted(3));
        assert_eq!(kept.requests().get(RequestId(3)), Some(accepted(3)));
        for absent in [2, 4, 1_000_000, 1 << 32 | 3] {
            assert_eq!(kept.requests().get(RequestId(absent)), None);
        }
        let named = Requests::new(&kept.0, Some(&[0, 3]));
        let found = named.get(RequestId(1)).expect("its own name for slot 3 is 1");
        assert_eq!((found.id, found.request), (RequestId(1), accepted(3).request));
        assert_eq!(named.get(RequestId(3)), None);
    }
}
