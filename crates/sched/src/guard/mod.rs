//! The conflict guard: it holds a request back until no earlier conflicting one is unfinished.
//!
//! Two requests conflict when they share a byte of one file and at least one of them writes. The
//! later one becomes *ready* only when the earlier one has **completed**, not merely left, since
//! a store may reorder what is in flight. So conflicting requests are never in flight together,
//! and whatever a policy does with ready requests, each read sees the writes that came before it.
//!
//! ```text
//!   Guard ── one state a file ── unindexed: requests that cannot conflict with anything alive
//!     └── Regions + Graph ────── everything else, and the unindexed once one of those comes
//! ```
//!
//! Most files never need the region map: reads without a live write, and requests beyond all
//! live ones, are only counted. When a request comes that may conflict, the file's unindexed
//! requests are indexed first, each at most once in its life.
//!
//! In mode `client` the map is used twice. A request first waits for its own client's earlier
//! conflicting requests, then *claims* its range and waits for those that claimed before it. So
//! each client sees its own order, two clients exclude each other without being ordered by
//! arrival, and since a claim is never overtaken, nobody starves.
//!
//! Syncs wait for every earlier live write of their file and hold nothing up. They need counts
//! only: how many of the writes before each outstanding sync are unfinished.

mod graph;
mod regions;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use forebay_units::{ByteRange, FileIndex, Offset};

use crate::guard::graph::{Graph, Stage};
use crate::guard::regions::{Region, Regions, Space};
use crate::request::{Access, Request};
use crate::table::{NIL, State, Table};

/// Which pairs of requests keep their arrival order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GuardMode {
    /// None: the layer above has locks, or its semantics leave overlaps undefined (PVFS, MPI-IO
    /// without atomic mode). Syncs still wait for earlier writes.
    None,
    /// Pairs that share a byte, at least one of them writing.
    #[default]
    Overlap,
    /// As `Overlap` within one client; conflicting requests of different clients exclude each
    /// other but may go in another order than they arrived.
    Client,
    /// All pairs of one file with at least one writing, whatever their ranges (aIOLi 2006).
    File,
}

impl GuardMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::None, Self::Overlap, Self::Client, Self::File];

    /// The mode as configuration writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Overlap => "overlap",
            Self::Client => "client",
            Self::File => "file",
        }
    }
}

impl fmt::Display for GuardMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no guard mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownGuardMode;

impl fmt::Display for UnknownGuardMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown guard mode; one of none, overlap, client, file")
    }
}

impl core::error::Error for UnknownGuardMode {}

impl FromStr for GuardMode {
    type Err = UnknownGuardMode;

    /// Reads a mode; upper and lower case are the same.
    fn from_str(text: &str) -> Result<Self, UnknownGuardMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str().eq_ignore_ascii_case(text))
            .ok_or(UnknownGuardMode)
    }
}

/// In a request's link: it is unindexed, and the rest is its place in the file's list.
const UNINDEXED: u32 = 1 << 31;

/// Most unindexed requests that a question looks at.
const SCAN_MAX: usize = 64;

/// What is alive in one file.
#[derive(Debug, Default)]
struct FileState {
    /// Live requests, syncs apart.
    live: u32,
    live_writes: u32,
    live_syncs: u32,
    /// No live request reaches beyond this.
    end_max: Offset,
    /// Slots of live requests that are in no map; no two of them conflict, nor with anything in a map.
    unindexed: Vec<u32>,
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

/// The guard of all files.
#[derive(Debug)]
pub(crate) struct Guard {
    mode: GuardMode,
    files: Vec<FileState>,
    graph: Graph,
    /// All clients together, in the order of claims.
    claims: Regions,
    /// Each client for itself, in arrival order; used in mode `client` only.
    own: Regions,
    /// Entries that have come to wait for nothing.
    released: Vec<u32>,
    /// Those of them being moved on, oldest first.
    round: Vec<u32>,
}

fn is_write(access: Access) -> bool {
    matches!(access, Access::Write | Access::Alone)
}

impl Guard {
    pub(crate) const fn new(mode: GuardMode) -> Self {
        Self {
            mode,
            files: Vec::new(),
            graph: Graph::new(),
            claims: Regions::new(),
            own: Regions::new(),
            released: Vec::new(),
            round: Vec::new(),
        }
    }

    /// Cells in the region maps, for statistics.
    pub(crate) fn cell_count(&self) -> usize {
        self.claims.cell_count() + self.own.cell_count()
    }

    /// Whether any request of the file is alive.
    pub(crate) fn is_file_live(&self, file: FileIndex) -> bool {
        self.files.get(file.0 as usize).is_some_and(|state| state.live + state.live_syncs > 0)
    }

    /// Gives back the memory kept for a file without live requests.
    pub(crate) fn retire(&mut self, file: FileIndex) {
        debug_assert!(!self.is_file_live(file));
        if let Some(state) = self.files.get_mut(file.0 as usize) {
            *state = FileState::default();
        }
    }

    /// Takes in the youngest request; whether it is ready at once.
    pub(crate) fn admit(&mut self, table: &mut Table, slot: u32) -> bool {
        let (access, range) = (table.access(slot), self.guarded_range(table, slot));
        let index = table.file(slot).0 as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, FileState::default);
        }
        let file = &mut self.files[index];
        if access == Access::Sync {
            return file.admit_sync(table.seq(slot), slot);
        }
        let is_safe = (access == Access::Read && file.live_writes == 0)
            || file.live == 0
            || range.start >= file.end_max;
        file.end_max = if file.live == 0 { range.end } else { file.end_max.max(range.end) };
        file.live += 1;
        if is_write(access) {
            file.live_writes += 1;
            file.writes_after_syncs += 1;
        }
        if self.mode == GuardMode::None {
            return true;
        }
        if is_safe {
            table.set_link(slot, UNINDEXED | file.unindexed.len() as u32);
            file.unindexed.push(slot);
            return true;
        }
        self.index_unindexed(table, index);
        self.index(table, slot)
    }

    /// Whether a request would be blocked; `true` out of caution where a certain answer would be dear.
    pub(crate) fn may_conflict(&self, table: &Table, request: &Request) -> bool {
        let Some(file) = self.files.get(request.file.0 as usize) else { return false };
        let (range, is_write) = (request.range, is_write(request.access));
        let others = if is_write { file.live } else { file.live_writes };
        if request.access == Access::Sync || self.mode == GuardMode::File {
            return others > 0;
        }
        if self.mode == GuardMode::None || others == 0 || range.start >= file.end_max {
            return false;
        }
        let shares_bytes = |slot: &u32| {
            let counts = is_write || self::is_write(table.access(*slot));
            counts && table.range(*slot).intersects(range)
        };
        let shared = Space::shared(request.file);
        let own = Space::of_client(request.file, request.client);
        file.unindexed.len() > SCAN_MAX
            || file.unindexed.iter().any(shares_bytes)
            || self.claims.is_occupied(shared, range, is_write)
            || self.own.is_occupied(own, range, is_write)
    }

    /// Takes out a request that has completed, or that was ready and is cancelled. Appends the
    /// slots that have become ready, in arrival order; tombstones whose turn has come are freed.
    pub(crate) fn release(&mut self, table: &mut Table, slot: u32, ready: &mut Vec<u32>) {
        let first = ready.len();
        self.leave(table, slot, ready);
        while !self.released.is_empty() {
            let mut round = core::mem::take(&mut self.round);
            core::mem::swap(&mut round, &mut self.released);
            round.sort_unstable_by_key(|entry| table.seq(self.graph.entry(*entry).slot));
            for entry in round.drain(..) {
                self.advance(table, entry, ready);
            }
            self.round = round;
        }
        ready[first..].sort_unstable_by_key(|slot| table.seq(*slot));
    }

    /// Moves on an entry that waits for nothing any more.
    fn advance(&mut self, table: &mut Table, entry: u32, ready: &mut Vec<u32>) {
        let slot = self.graph.entry(entry).slot;
        if table.state(slot) == State::Tombstone {
            self.leave(table, slot, ready);
            table.remove(slot);
        } else if self.graph.entry(entry).stage == Stage::Claimed || self.claim(table, entry) {
            ready.push(slot);
        }
    }

    /// Cancels a blocked request. Others may depend on earlier requests only through it, so it
    /// stays as a tombstone until its own turn comes; whether it does.
    pub(crate) fn cancel_blocked(&mut self, table: &mut Table, slot: u32) -> bool {
        if table.access(slot) == Access::Sync {
            let file = &mut self.files[table.file(slot).0 as usize];
            let seq = table.seq(slot);
            let at = file.syncs.partition_point(|sync| sync.seq < seq);
            file.syncs[at].slot = NIL;
            file.live_syncs -= 1;
            return false;
        }
        table.bury(slot);
        true
    }

    /// The bytes that a request occupies under this mode.
    fn guarded_range(&self, table: &Table, slot: u32) -> ByteRange {
        match self.mode {
            GuardMode::File => ByteRange::WHOLE_FILE,
            _ => table.range(slot),
        }
    }

    fn index_unindexed(&mut self, table: &mut Table, file: usize) {
        while let Some(slot) = self.files[file].unindexed.pop() {
            let is_ready = self.index(table, slot);
            debug_assert!(is_ready, "an unindexed request conflicts");
        }
    }

    /// Enters a request into the maps; whether it waits for nothing.
    fn index(&mut self, table: &mut Table, slot: u32) -> bool {
        if self.mode != GuardMode::Client {
            let entry = self.graph.insert(slot, Stage::Claimed);
            table.set_link(slot, entry);
            return self.enter(table, entry);
        }
        let entry = self.graph.insert(slot, Stage::Own);
        table.set_link(slot, entry);
        self.enter(table, entry) && self.claim(table, entry)
    }

    /// Lets a request of mode `client` that waits for nothing of its own claim its range.
    fn claim(&mut self, table: &Table, entry: u32) -> bool {
        self.graph.claim(entry);
        self.enter(table, entry)
    }

    /// Enters an entry into the map of its stage; whether it waits for nothing there.
    fn enter(&mut self, table: &Table, entry: u32) -> bool {
        let slot = self.graph.entry(entry).slot;
        let stage = self.graph.entry(entry).stage;
        let region = self.region(table, slot, entry, stage);
        let map = if stage == Stage::Own { &mut self.own } else { &mut self.claims };
        match is_write(table.access(slot)) {
            true => map.write(&mut self.graph, region),
            false => map.read(&mut self.graph, region),
        }
        !self.graph.is_blocked(entry)
    }

    fn region(&self, table: &Table, slot: u32, entry: u32, stage: Stage) -> Region {
        let space = match stage {
            Stage::Own => Space::of_client(table.file(slot), table.client(slot)),
            Stage::Claimed => Space::shared(table.file(slot)),
        };
        Region {
            space,
            range: self.guarded_range(table, slot),
            entry,
            order: self.graph.order(entry, stage),
        }
    }

    /// Takes a request out of its file; what waited for nothing else lands in `released` or `ready`.
    fn leave(&mut self, table: &mut Table, slot: u32, ready: &mut Vec<u32>) {
        let access = table.access(slot);
        let file = &mut self.files[table.file(slot).0 as usize];
        if access == Access::Sync {
            file.live_syncs -= 1;
            return;
        }
        file.live -= 1;
        if is_write(access) {
            file.live_writes -= 1;
            file.end_write(table.seq(slot), ready);
        }
        match table.link(slot) {
            NIL => {}
            link if link & UNINDEXED != 0 => file.forget_unindexed(table, link & !UNINDEXED),
            entry => self.leave_maps(table, slot, entry),
        }
    }

    fn leave_maps(&mut self, table: &Table, slot: u32, entry: u32) {
        let own =
            (self.mode == GuardMode::Client).then(|| self.region(table, slot, entry, Stage::Own));
        let has_claimed = self.graph.entry(entry).stage == Stage::Claimed;
        let claimed = has_claimed.then(|| self.region(table, slot, entry, Stage::Claimed));
        self.graph.remove(entry, &mut self.released);
        for (map, region) in [(&mut self.own, own), (&mut self.claims, claimed)] {
            match region {
                Some(region) if is_write(table.access(slot)) => map.end_write(&self.graph, region),
                Some(region) => map.end_read(&self.graph, region),
                None => {}
            }
        }
    }
}

impl FileState {
    fn forget_unindexed(&mut self, table: &mut Table, place: u32) {
        self.unindexed.swap_remove(place as usize);
        if let Some(moved) = self.unindexed.get(place as usize) {
            table.set_link(*moved, UNINDEXED | place);
        }
    }

    /// Takes in a sync; whether no earlier write is alive.
    fn admit_sync(&mut self, seq: u64, slot: u32) -> bool {
        self.live_syncs += 1;
        if self.live_writes == 0 {
            return true;
        }
        self.syncs.push_back(Sync { seq, slot, live_writes: self.writes_after_syncs });
        self.writes_after_syncs = 0;
        false
    }

    /// Counts a write out, and the syncs that waited for it alone.
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
