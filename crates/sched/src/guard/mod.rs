//! The conflict guard: it holds a request back until no earlier conflicting one is unfinished.
//!
//! Two requests conflict when they share a byte of one file and at least one of them writes. The
//! later one becomes *ready* only when the earlier one has **completed**, not merely left, since
//! a store may reorder what is in flight. So conflicting requests are never in flight together,
//! and whatever a policy does with ready requests, each read sees the writes that came before it.
//!
//! A live request is known in one of three ways, and only ever moves down:
//!
//! ```text
//!   plain    listed only        nothing alive could conflict: reads without a live write, or
//!     │                         beyond everything alive
//!   gridded  Grid (hash)        looked up, and nothing alive does conflict
//!     │
//!   indexed  Regions + Graph    it conflicts, or did with something that has ended since
//! ```
//!
//! So requests that never conflict cost O(1), most files never need the map, and a conflict
//! costs its participants O(log n + cells touched).
//!
//! In mode `client` the map is used twice. A request first waits for its own client's earlier
//! conflicting requests, then *claims* its range and waits for those that claimed before it. So
//! each client sees its own order, two clients exclude each other without being ordered by
//! arrival, and since a claim is never overtaken, nobody starves.
//!
//! Syncs wait for every earlier live write of their file and hold nothing up. They need counts
//! only: how many of the writes before each outstanding sync are unfinished.

mod file;
mod graph;
mod grid;
mod mode;
mod regions;

use alloc::vec::Vec;

use forebay_units::{ByteRange, FileIndex};

use crate::guard::file::{FileState, Known};
use crate::guard::graph::{Graph, Stage};
use crate::guard::grid::{Extent, Grid};
use crate::guard::regions::{Region, Regions, Space};
use crate::request::{Access, Request};
use crate::table::{State, Table};

pub use crate::guard::mode::{GuardMode, UnknownGuardMode};

/// Most plain requests that a question looks at.
const SCAN_MAX: usize = 64;

/// The guard of all files.
#[derive(Debug)]
pub(crate) struct Guard {
    mode: GuardMode,
    files: Vec<FileState>,
    grid: Grid,
    graph: Graph,
    /// All clients together, in the order of claims.
    claims: Regions,
    /// Each client for itself, in arrival order; used in mode `client` only.
    own: Regions,
    /// Entries that have come to wait for nothing.
    released: Vec<u32>,
    /// Those of them being moved on, oldest first.
    round: Vec<u32>,
    /// Gridded requests that a new one conflicts with.
    met: Vec<u32>,
}

fn is_write(access: Access) -> bool {
    matches!(access, Access::Write | Access::Alone)
}

impl Guard {
    pub(crate) const fn new(mode: GuardMode) -> Self {
        Self {
            mode,
            files: Vec::new(),
            grid: Grid::new(),
            graph: Graph::new(),
            claims: Regions::new(),
            own: Regions::new(),
            released: Vec::new(),
            round: Vec::new(),
            met: Vec::new(),
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
        let is_alone = file.is_safe(access, range);
        file.enter(access, range);
        if self.mode == GuardMode::None {
            return true;
        }
        if is_alone {
            file.list(table, slot, Known::Plain);
            return true;
        }
        self.grid_plain(table, index);
        let has_met = self.index_conflicting(table, slot, range);
        let is_write = is_write(access);
        let space = Space::shared(table.file(slot));
        // In mode `client` the map of claims does not show who is still to claim.
        let conflicts = has_met
            || (self.files[index].indexed > 0
                && (self.mode == GuardMode::Client
                    || self.claims.is_occupied(space, range, is_write)));
        if !conflicts && self.enter_grid(table, slot) {
            return true;
        }
        self.index(table, slot)
    }

    /// Looks up plain requests in the grid from now on, because something came that may conflict.
    fn grid_plain(&mut self, table: &mut Table, file: usize) {
        while let Some(slot) = self.files[file].plain.pop() {
            if !self.enter_grid(table, slot) {
                self.index_unhindered(table, slot);
            }
        }
    }

    /// Enters a request that conflicts with nothing into the grid, if it is fit for that.
    fn enter_grid(&mut self, table: &mut Table, slot: u32) -> bool {
        let extent = self.extent(table, slot);
        let file = &mut self.files[table.file(slot).0 as usize];
        if file.gridded.is_empty() {
            file.granule_shift = Grid::shift_for(extent.range.length());
        }
        let is_in = self.grid.insert(file.granule_shift, &extent, slot);
        if is_in {
            file.list(table, slot, Known::Gridded);
        }
        is_in
    }

    /// Moves the gridded requests that a new one conflicts with to the maps; whether there were any.
    fn index_conflicting(&mut self, table: &mut Table, slot: u32, range: ByteRange) -> bool {
        let index = table.file(slot).0 as usize;
        if self.files[index].gridded.is_empty() {
            return false;
        }
        let extent = Extent { range, ..self.extent(table, slot) };
        let mut met = core::mem::take(&mut self.met);
        if !self.grid.conflicting(table, self.files[index].granule_shift, &extent, &mut met) {
            met.extend_from_slice(&self.files[index].gridded);
        }
        for &slot in &met {
            if self.files[index].unlist(table, slot) == Some(Known::Gridded) {
                self.grid.remove(self.files[index].granule_shift, &self.extent(table, slot), slot);
                self.index_unhindered(table, slot);
            }
        }
        let has_met = !met.is_empty();
        met.clear();
        self.met = met;
        has_met
    }

    fn index_unhindered(&mut self, table: &mut Table, slot: u32) {
        let is_ready = self.index(table, slot);
        debug_assert!(is_ready, "a request that was ready conflicts");
    }

    fn extent(&self, table: &Table, slot: u32) -> Extent {
        let is_write = is_write(table.access(slot));
        Extent { file: table.file(slot), range: self.guarded_range(table, slot), is_write }
    }

    /// Whether a request would be blocked; `true` out of caution where a certain answer would be dear.
    pub(crate) fn may_conflict(&self, table: &Table, request: &Request) -> bool {
        let Some(file) = self.files.get(request.file.0 as usize) else { return false };
        let (range, is_write) = (request.range, is_write(request.access));
        let others = if is_write { file.live } else { file.live_writes };
        if request.access == Access::Sync || self.mode == GuardMode::File {
            return others > 0;
        }
        if self.mode == GuardMode::None || others == 0 || file.is_beyond(range) {
            return false;
        }
        let extent = Extent { file: request.file, range, is_write };
        let shares_bytes = |slot: &u32| self.extent(table, *slot).conflicts(&extent);
        let shared = Space::shared(request.file);
        let own = Space::of_client(request.file, request.client);
        file.plain.len() > SCAN_MAX
            || file.plain.iter().any(shares_bytes)
            || (!file.gridded.is_empty()
                && self.grid.may_conflict(table, file.granule_shift, &extent))
            || self.claims.is_occupied(shared, range, is_write)
            || self.own.is_occupied(own, range, is_write)
    }

    /// Appends some of the live requests that hold a blocked one up, no more than `count_max`.
    pub(crate) fn blockers(&self, table: &Table, slot: u32, count_max: usize, into: &mut Vec<u32>) {
        if table.access(slot) == Access::Sync {
            let file = &self.files[table.file(slot).0 as usize];
            let holds_up = |other: &&u32| {
                is_write(table.access(**other)) && table.seq(**other) < table.seq(slot)
            };
            let listed = file.plain.iter().chain(&file.gridded).take(SCAN_MAX);
            into.extend(listed.filter(holds_up).take(count_max));
        } else {
            into.extend(self.graph.blockers(table.link(slot)).take(count_max));
        }
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
            self.files[table.file(slot).0 as usize].cancel_sync(table.seq(slot));
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

    /// Enters a request into the maps; whether it waits for nothing.
    fn index(&mut self, table: &mut Table, slot: u32) -> bool {
        self.files[table.file(slot).0 as usize].indexed += 1;
        let stage = if self.mode == GuardMode::Client { Stage::Own } else { Stage::Claimed };
        let entry = self.graph.insert(slot, stage);
        table.set_link(slot, entry);
        self.enter(table, entry) && (stage == Stage::Claimed || self.claim(table, entry))
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
        file.leave(access, table.seq(slot), ready);
        if self.mode == GuardMode::None {
            return;
        }
        match file.unlist(table, slot) {
            Some(Known::Plain) => {}
            Some(Known::Gridded) => {
                let shift = file.granule_shift;
                self.grid.remove(shift, &self.extent(table, slot), slot);
            }
            None => {
                file.indexed -= 1;
                self.leave_maps(table, slot, table.link(slot));
            }
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
