//! The request table: every live request in one slab of cache-line records.
//!
//! A slot is re-used as soon as it is free, the latest freed first, and its generation grows each
//! time. A [`RequestId`] is `generation << 32 | slot`, so finding a request is an index and a
//! comparison, and a stale id finds nothing. Nothing is allocated below the high-water mark.
//!
//! The slab is made of chunks, so that it grows without moving: no pause while megabytes are copied,
//! and none of them left behind.

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{ByteRange, ClassId, ClientId, FileIndex, Offset, Timestamp};

use crate::request::{Accepted, Access, Request, RequestId};

/// No slot, no entry, no node: the end of every linked list in this crate.
pub(crate) const NIL: u32 = u32::MAX;

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot holds no request.
    Free,
    /// Waits for earlier conflicting requests.
    Blocked,
    /// Ready, held by the policy.
    InPolicy,
    /// Ready, held by the lane.
    InLane,
    /// In flight, selected by a policy.
    InFlightByPolicy,
    /// In flight, and no policy is to hear of it: from the lane, or selected by a policy that is gone.
    InFlightSkipped,
    /// In flight since it was submitted.
    InFlightBypassed,
    /// Cancelled while blocked: it keeps its place among the conflicts until its own are over.
    Tombstone,
}

impl State {
    /// Whether the request has been dispatched or has bypassed.
    pub(crate) const fn is_in_flight(self) -> bool {
        matches!(self, Self::InFlightByPolicy | Self::InFlightSkipped | Self::InFlightBypassed)
    }
}

/// One request. Exactly a cache line, because at a million queued requests every line touched is a miss.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Record {
    seq: u64,
    arrived: Timestamp,
    tag: u64,
    range: ByteRange,
    generation: u32,
    file: FileIndex,
    client: ClientId,
    class: ClassId,
    /// The guard's own note; in a free slot the next free slot.
    link: u32,
    /// Which class it counts for; 0 without sharing.
    class_index: u16,
    access: Access,
    state: State,
}

impl Record {
    const FREE: Self = Self {
        seq: 0,
        arrived: Timestamp(0),
        tag: 0,
        range: ByteRange { start: Offset(0), end: Offset(0) },
        generation: 0,
        file: FileIndex(0),
        client: ClientId(0),
        class: ClassId(0),
        link: NIL,
        class_index: 0,
        access: Access::Read,
        state: State::Free,
    };
}

/// Records of a chunk: 64 KiB.
const CHUNK: usize = 1024;

/// Free slots; made on the heap, since the stack may be small.
fn chunk() -> Box<[Record; CHUNK]> {
    let chunk = alloc::vec![Record::FREE; CHUNK].into_boxed_slice();
    chunk.try_into().expect("it has that length")
}

/// The slab.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    chunks: Vec<Box<[Record; CHUNK]>>,
    /// Slots that were ever used.
    slots_count: usize,
    first_free: u32,
    tombstones: usize,
    /// By slot: what the policy calls the request. Empty without sharing.
    names: Vec<u32>,
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl Table {
    pub(crate) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            slots_count: 0,
            first_free: NIL,
            tombstones: 0,
            names: Vec::new(),
        }
    }

    /// Enters a request and returns its slot.
    pub(crate) fn insert(&mut self, seq: u64, arrived: Timestamp, request: &Request) -> u32 {
        let slot = self.first_free;
        let record = Record {
            seq,
            arrived,
            tag: request.tag,
            range: request.range,
            generation: 0,
            file: request.file,
            client: request.client,
            class: request.class,
            link: NIL,
            class_index: 0,
            access: request.access,
            state: State::Blocked,
        };
        if slot == NIL {
            assert!(self.slots_count < 1 << 30, "more than 2^30 live requests");
            if self.slots_count.is_multiple_of(CHUNK) {
                self.chunks.push(chunk());
            }
            let slot = self.slots_count as u32;
            *self.record_mut(slot) = record;
            self.slots_count += 1;
            return slot;
        }
        let old = self.record_mut(slot);
        let link = old.link;
        *old = Record { generation: old.generation, ..record };
        self.first_free = link;
        slot
    }

    /// Enters a request that has been accepted elsewhere into the slot that its id names.
    pub(crate) fn put(&mut self, accepted: &Accepted) {
        let slot = slot_of(accepted.id);
        while self.slots_count <= slot as usize {
            if self.slots_count.is_multiple_of(CHUNK) {
                self.chunks.push(chunk());
            }
            self.slots_count += 1;
        }
        let Accepted { id, seq, arrived, request } = *accepted;
        let Request { tag, file, access, range, client, class } = request;
        *self.record_mut(slot) = Record {
            seq,
            arrived,
            tag,
            range,
            generation: (id.0 >> 32) as u32,
            file,
            client,
            class,
            access,
            state: State::InPolicy,
            ..Record::FREE
        };
    }

    /// How many slots were ever used.
    pub(crate) fn slots_count(&self) -> u32 {
        self.slots_count as u32
    }

    fn record(&self, slot: u32) -> &Record {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    fn record_mut(&mut self, slot: u32) -> &mut Record {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// Frees a slot; ids that name it become stale.
    pub(crate) fn remove(&mut self, slot: u32) {
        let first_free = self.first_free;
        let record = self.record_mut(slot);
        debug_assert!(record.state != State::Free);
        let was_tombstone = record.state == State::Tombstone;
        record.state = State::Free;
        // A slot whose generations are used up is left out rather than re-used: ids stay unique.
        if let Some(generation) = record.generation.checked_add(1) {
            record.generation = generation;
            record.link = first_free;
            self.first_free = slot;
        }
        self.tombstones -= usize::from(was_tombstone);
    }

    /// The slot that `id` names, if the request is still alive.
    pub(crate) fn find(&self, id: RequestId) -> Option<u32> {
        let slot = id.0 as u32;
        let record = &self.chunks.get(slot as usize / CHUNK)?[slot as usize % CHUNK];
        let is_alive = !matches!(record.state, State::Free | State::Tombstone);
        (is_alive && record.generation == (id.0 >> 32) as u32).then_some(slot)
    }

    /// The slot that `id` names, if that request waits for an earlier one.
    pub(crate) fn find_blocked(&self, id: RequestId) -> Option<u32> {
        self.find(id).filter(|slot| self.state(*slot) == State::Blocked)
    }

    /// The request in a slot, as policies and embedders see it.
    pub(crate) fn accepted(&self, slot: u32) -> Accepted {
        let record = self.record(slot);
        Accepted {
            id: RequestId(u64::from(record.generation) << 32 | u64::from(slot)),
            seq: record.seq,
            arrived: record.arrived,
            request: Request {
                tag: record.tag,
                file: record.file,
                access: record.access,
                range: record.range,
                client: record.client,
                class: record.class,
            },
        }
    }

    pub(crate) fn id(&self, slot: u32) -> RequestId {
        RequestId(u64::from(self.record(slot).generation) << 32 | u64::from(slot))
    }

    pub(crate) fn state(&self, slot: u32) -> State {
        self.record(slot).state
    }

    pub(crate) fn set_state(&mut self, slot: u32, state: State) {
        self.record_mut(slot).state = state;
    }

    /// Makes a blocked request a tombstone: its id is stale from now on, its slot is not free yet.
    pub(crate) fn bury(&mut self, slot: u32) {
        self.set_state(slot, State::Tombstone);
        self.tombstones += 1;
    }

    pub(crate) fn tombstone_count(&self) -> usize {
        self.tombstones
    }

    pub(crate) fn set_in_flight_by_policy(&mut self, slot: u32) {
        let record = self.record_mut(slot);
        debug_assert!(
            record.state == State::InPolicy,
            "a policy selected a request that it did not hold"
        );
        record.state = State::InFlightByPolicy;
    }

    pub(crate) fn class_index(&self, slot: u32) -> u16 {
        self.record(slot).class_index
    }

    pub(crate) fn set_class_index(&mut self, slot: u32, class_index: u16) {
        self.record_mut(slot).class_index = class_index;
    }

    /// What the policy calls the request. It must have been told.
    pub(crate) fn name(&self, slot: u32) -> u32 {
        self.names[slot as usize]
    }

    pub(crate) fn set_name(&mut self, slot: u32, name: u32) {
        if self.names.len() < self.slots_count {
            self.names.resize(self.slots_count, NIL);
        }
        self.names[slot as usize] = name;
    }

    pub(crate) fn seq(&self, slot: u32) -> u64 {
        self.record(slot).seq
    }

    pub(crate) fn file(&self, slot: u32) -> FileIndex {
        self.record(slot).file
    }

    pub(crate) fn class(&self, slot: u32) -> ClassId {
        self.record(slot).class
    }

    pub(crate) fn client(&self, slot: u32) -> ClientId {
        self.record(slot).client
    }

    pub(crate) fn access(&self, slot: u32) -> Access {
        self.record(slot).access
    }

    pub(crate) fn range(&self, slot: u32) -> ByteRange {
        self.record(slot).range
    }

    pub(crate) fn link(&self, slot: u32) -> u32 {
        self.record(slot).link
    }

    pub(crate) fn set_link(&mut self, slot: u32, link: u32) {
        self.record_mut(slot).link = link;
    }

    pub(crate) fn arrived(&self, slot: u32) -> Timestamp {
        self.record(slot).arrived
    }

    /// Every slot, free ones included.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.slots_count as u32
    }

    /// Every slot in a given state, in slot order; walks the whole table.
    pub(crate) fn slots_in(&self, state: State) -> impl Iterator<Item = u32> + '_ {
        let is_in =
            move |(slot, record): (usize, &Record)| (record.state == state).then_some(slot as u32);
        self.chunks.iter().flat_map(|chunk| chunk.iter()).enumerate().filter_map(is_in)
    }
}

/// The slot half of an id.
pub(crate) fn slot_of(id: RequestId) -> u32 {
    id.0 as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Bytes;

    fn request() -> Request {
        Request {
            tag: 7,
            file: FileIndex(1),
            access: Access::Read,
            range: ByteRange::new(Offset(0), Bytes(8)),
            client: ClientId(2),
            class: ClassId(3),
        }
    }

    #[test]
    fn a_record_is_one_cache_line() {
        assert_eq!(size_of::<Record>(), 64);
    }

    #[test]
    fn a_stale_id_finds_nothing() {
        let mut table = Table::new();
        let slot = table.insert(0, Timestamp(0), &request());
        let old = table.id(slot);
        assert_eq!(table.find(old), Some(slot));
        table.remove(slot);
        assert_eq!(table.find(old), None);
        let again = table.insert(1, Timestamp(0), &request());
        assert_eq!(again, slot);
        assert_ne!(table.id(again), old);
        assert_eq!(table.find(old), None);
        assert_eq!(table.accepted(again).request, request());
    }
}
