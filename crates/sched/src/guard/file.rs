//! What the guard knows about one file: who is alive, how each is known, which syncs are out.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use forebay_units::{ByteRange, Offset};

use crate::guard::is_write;
use crate::request::Access;
use crate::table::{NIL, Table};

/// How a live request that is in no map is known. Its link then holds its place in that list, and
/// which list in the two highest bits; an indexed request's link is its entry, without these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Plain,
    Gridded,
}

const LIST_SHIFT: u32 = 30;
const PLACE_MASK: u32 = (1 << LIST_SHIFT) - 1;

/// What is alive in one file.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    /// Live requests, syncs apart.
    pub(crate) live: u32,
    pub(crate) live_writes: u32,
    pub(crate) live_syncs: u32,
    /// Live requests in the maps.
    pub(crate) indexed: u32,
    /// Slots of live requests that are merely listed.
    pub(crate) plain: Vec<u32>,
    /// Slots of live requests that the grid knows.
    pub(crate) gridded: Vec<u32>,
    /// The grid's granules in this file are 2^this bytes; fixed while any request is gridded.
    pub(crate) granule_shift: u32,
    /// No live request reaches beyond this.
    end_max: Offset,
    /// Outstanding syncs, oldest first.
    syncs: VecDeque<Sync>,
    /// Live writes younger than the last outstanding sync.
    writes_after_syncs: u32,
}

/// An outstanding sync.
#[derive(Clone, Copy, Debug)]
struct Sync {
    seq: u64,
    /// `NIL` once cancelled.
    slot: u32,
    /// Live writes older than this sync and younger than the one before it.
    live_writes: u32,
}

impl FileState {
    /// Whether nothing alive can conflict with such a request, by counts alone.
    pub(crate) fn is_safe(&self, access: Access, range: ByteRange) -> bool {
        self.is_beyond(range) || (access == Access::Read && self.live_writes == 0)
    }

    /// Whether the range lies beyond everything alive.
    pub(crate) fn is_beyond(&self, range: ByteRange) -> bool {
        self.live == 0 || range.start >= self.end_max
    }

    /// Counts a request in.
    pub(crate) fn enter(&mut self, access: Access, range: ByteRange) {
        self.end_max = if self.live == 0 { range.end } else { self.end_max.max(range.end) };
        self.live += 1;
        if is_write(access) {
            self.live_writes += 1;
            self.writes_after_syncs += 1;
        }
    }

    /// Counts a request out; syncs that waited for it alone are appended to `ready`.
    pub(crate) fn leave(&mut self, access: Access, seq: u64, ready: &mut Vec<u32>) {
        self.live -= 1;
        if is_write(access) {
            self.live_writes -= 1;
            self.end_write(seq, ready);
        }
    }

    /// Puts a request on a list.
    pub(crate) fn list(&mut self, table: &mut Table, slot: u32, known: Known) {
        let list = self.list_of(known);
        table.set_link(slot, link(known, list.len()));
        list.push(slot);
    }

    /// Takes a request off the list it is on, and says which; `None` if it is indexed.
    pub(crate) fn unlist(&mut self, table: &mut Table, slot: u32) -> Option<Known> {
        let link_of_slot = table.link(slot);
        let known = match link_of_slot >> LIST_SHIFT {
            0 => return None,
            1 => Known::Plain,
            _ => Known::Gridded,
        };
        let place = (link_of_slot & PLACE_MASK) as usize;
        let list = self.list_of(known);
        list.swap_remove(place);
        if let Some(moved) = list.get(place) {
            table.set_link(*moved, link(known, place));
        }
        Some(known)
    }

    fn list_of(&mut self, known: Known) -> &mut Vec<u32> {
        match known {
            Known::Plain => &mut self.plain,
            Known::Gridded => &mut self.gridded,
        }
    }

    /// Takes in a sync; whether no earlier write is alive.
    pub(crate) fn admit_sync(&mut self, seq: u64, slot: u32) -> bool {
        self.live_syncs += 1;
        if self.live_writes == 0 {
            return true;
        }
        self.syncs.push_back(Sync { seq, slot, live_writes: self.writes_after_syncs });
        self.writes_after_syncs = 0;
        false
    }

    /// Takes back a sync that waits.
    pub(crate) fn cancel_sync(&mut self, seq: u64) {
        let at = self.syncs.partition_point(|sync| sync.seq < seq);
        self.syncs[at].slot = NIL;
        self.live_syncs -= 1;
    }

    fn end_write(&mut self, seq: u64, ready: &mut Vec<u32>) {
        let at = self.syncs.partition_point(|sync| sync.seq < seq);
        match self.syncs.get_mut(at) {
            Some(sync) => sync.live_writes -= 1,
            None => self.writes_after_syncs -= 1,
        }
        while let Some(sync) = self.syncs.front().filter(|sync| sync.live_writes == 0) {
            if sync.slot != NIL {
                ready.push(sync.slot);
            }
            self.syncs.pop_front();
        }
    }
}

fn link(known: Known, place: usize) -> u32 {
    let list = match known {
        Known::Plain => 1,
        Known::Gridded => 2,
    };
    list << LIST_SHIFT | place as u32
}
