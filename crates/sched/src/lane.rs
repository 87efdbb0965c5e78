//! The lane: requests that skip the policy, because order among them is fixed or gains little.
//!
//! Syncs, appends and truncations leave in arrival order. Large requests too, except that one
//! which continues exactly where the last batch of its file ended may pass over the oldest: many
//! processes that read large interleaved strides are then served in file order.
//!
//! Bound: of every [`PASSES_MAX`]` + 1` requests that leave in a row, at least one is the oldest
//! of the lane. So a request with `k` older ones leaves at the latest as number `(k + 1) ×
//! (PASSES_MAX + 1)`. A sync, an append or a truncation at the head is not passed over at all.

use forebay_units::{Bytes, FileIndex, Offset};

use crate::ordered_map::OrderedMap;
use crate::request::{Accepted, Access};
use crate::seq_queue::SeqQueue;
use crate::table::{Table, slot_of};

/// How often in a row a continuation may pass over the oldest request.
pub(crate) const PASSES_MAX: u32 = 16;

/// What a request of unknown or no length is charged when it shares the store with the policy:
/// about what a disk that seeks could have carried in the time.
const CHARGE: Bytes = Bytes::kib(64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    file: FileIndex,
    offset: Offset,
    seq: u64,
}

/// Ready requests that skip the policy.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    queue: SeqQueue,
    /// Large reads and writes of the queue by where they start.
    starts: OrderedMap<Start, u32>,
    /// How many in a row have passed over the oldest.
    passes: u32,
}

fn start_of(accepted: &Accepted) -> Option<Start> {
    let request = &accepted.request;
    let is_plain = matches!(request.access, Access::Read | Access::Write);
    is_plain.then_some(Start { file: request.file, offset: request.range.start, seq: accepted.seq })
}

/// The bytes a lane request counts as when it leaves.
pub(crate) fn charge(accepted: &Accepted) -> Bytes {
    match accepted.request.access {
        Access::Read | Access::Write => accepted.request.range.length(),
        Access::Alone | Access::Sync => CHARGE,
    }
}

impl Lane {
    pub(crate) fn insert(&mut self, accepted: &Accepted) {
        if let Some(start) = start_of(accepted) {
            self.starts.insert(start, slot_of(accepted.id));
        }
        self.queue.insert(accepted.seq, accepted.id);
    }

    /// Takes what leaves next. `file` is the one served last, `end_of` says where each file's last batch ended.
    pub(crate) fn pop(
        &mut self,
        table: &Table,
        file: FileIndex,
        end_of: impl Fn(FileIndex) -> Offset,
    ) -> Option<Accepted> {
        let oldest = table.accepted(slot_of(self.queue.first()?.1));
        let may_pass = self.passes < PASSES_MAX && start_of(&oldest).is_some();
        let of_file = |file| self.starting_at(file, end_of(file));
        let chosen = match may_pass {
            true => of_file(file).or_else(|| of_file(oldest.request.file)),
            false => None,
        };
        let chosen = chosen.map_or(oldest, |slot| table.accepted(slot));
        self.passes = if chosen.id == oldest.id { 0 } else { self.passes + 1 };
        self.remove(&chosen);
        Some(chosen)
    }

    pub(crate) fn remove(&mut self, accepted: &Accepted) {
        self.queue.remove(accepted.seq);
        if let Some(start) = start_of(accepted) {
            self.starts.remove(start);
        }
    }

    /// Forgets everything and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.starts.clear();
        self.passes = 0;
    }

    pub(crate) fn count(&self) -> usize {
        self.queue.count()
    }

    /// The slot of the oldest request of a file that starts at `offset`.
    fn starting_at(&self, file: FileIndex, offset: Offset) -> Option<u32> {
        let (start, slot) = self.starts.at_or_after(Start { file, offset, seq: 0 })?;
        (start.file == file && start.offset == offset).then_some(slot)
    }
}
