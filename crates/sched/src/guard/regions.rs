//! The region map: which live request last wrote each byte, and which have read it since.
//!
//! ```text
//!   bytes    0        10        20        30        40
//!   cells    [ w1     )[ w1; r2 )[ r2     )          [ w4 )
//! ```
//!
//! Cells are disjoint. A new read waits for the writer of each of its cells; a new write waits
//! for the readers of each cell or, where there is none, for its writer, since the readers wait
//! for that already (transitive reduction). Then the write owns its whole range as one cell.
//!
//! A cell border exists only where a live request starts or ends, so `n` live requests make at
//! most `2n − 1` cells. Reader lists are swept lazily: an ended reader is told by its order.

use forebay_units::{ByteRange, ClientId, FileIndex};

use crate::guard::graph::Graph;
use crate::ordered_map::OrderedMap;
use crate::pool::Pool;
use crate::table::NIL;

/// A file, or a file as one client sees it; regions of different spaces never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space(u64);

impl Space {
    /// A file as all clients see it. Each map holds spaces of one kind only, so the client is free.
    pub(crate) const fn shared(file: FileIndex) -> Self {
        Self::of_client(file, ClientId(0))
    }

    pub(crate) const fn of_client(file: FileIndex, client: ClientId) -> Self {
        Self((file.0 as u64) << 32 | client.0 as u64)
    }
}

/// Space and first byte in one number: one comparison where a tuple takes two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(u128);

impl Key {
    const fn new(space: Space, start: u64) -> Self {
        Self((space.0 as u128) << 64 | start as u128)
    }

    const fn space(self) -> Space {
        Space((self.0 >> 64) as u64)
    }

    const fn start(self) -> u64 {
        self.0 as u64
    }
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    end: u64,
    /// The live entry that last wrote here, or `NIL`, and its order.
    writer: u32,
    writer_order: u64,
    /// Live readers since that write.
    readers_live: u32,
    /// Length of the list, ended readers included.
    readers_listed: u32,
    first_reader: u32,
}

/// A reader in a cell's list, the latest first.
#[derive(Clone, Copy, Debug)]
struct Reader {
    entry: u32,
    birth: u64,
    next: u32,
}

/// A request as the map sees it: its bytes, its entry in the graph, its place in the map's order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub(crate) space: Space,
    pub(crate) range: ByteRange,
    pub(crate) entry: u32,
    pub(crate) order: u64,
}

/// The cells of all spaces.
#[derive(Debug)]
pub(crate) struct Regions {
    cells: OrderedMap<Key, Cell>,
    readers: Pool<Reader>,
}

impl Cell {
    const fn empty(end: u64) -> Self {
        Self {
            end,
            writer: NIL,
            writer_order: 0,
            readers_live: 0,
            readers_listed: 0,
            first_reader: NIL,
        }
    }

    const fn is_empty(&self) -> bool {
        self.writer == NIL && self.readers_live == 0
    }
}

impl Regions {
    pub(crate) const fn new() -> Self {
        Self { cells: OrderedMap::new(), readers: Pool::new() }
    }

    pub(crate) fn cell_count(&self) -> usize {
        self.cells.len()
    }

    /// Whether a live write, or any live request if `by_any`, holds a byte of the range.
    pub(crate) fn is_occupied(&self, space: Space, range: ByteRange, by_any: bool) -> bool {
        let before = self.cells.around(Key::new(space, range.start.0)).below;
        let before = before.filter(|(key, cell)| key.space() == space && cell.end > range.start.0);
        let within = self.cells.iter_from(Key::new(space, range.start.0));
        let within =
            within.take_while(|(key, _)| key.space() == space && key.start() < range.end.0);
        before.into_iter().chain(within).any(|(_, cell)| by_any || cell.writer != NIL)
    }

    /// Enters a write and makes it wait for what it conflicts with.
    pub(crate) fn write(&mut self, graph: &mut Graph, region: Region) {
        let Region { space, range, entry, order } = region;
        if !self.is_gap(space, range) {
            self.split(graph, space, range.start.0);
            self.split(graph, space, range.end.0);
            while let Some((found, cell)) = self.first_within(space, range.start.0, range.end.0) {
                self.wait_for_all(graph, &cell, entry);
                self.free_readers(&cell);
                self.cells.remove(found);
            }
        }
        let owned = Cell { writer: entry, writer_order: order, ..Cell::empty(range.end.0) };
        self.cells.insert(Key::new(space, range.start.0), owned);
    }

    /// Enters a read and makes it wait for the writers of its range.
    pub(crate) fn read(&mut self, graph: &mut Graph, region: Region) {
        let Region { space, range, entry, .. } = region;
        let end = range.end.0;
        let mut at = range.start.0;
        if self.is_gap(space, range) {
            let mut cell = Cell::empty(end);
            self.list_reader(graph, &mut cell, entry);
            self.cells.insert(Key::new(space, at), cell);
            return;
        }
        self.split(graph, space, at);
        self.split(graph, space, end);
        while at < end {
            let found = self.first_within(space, at, end);
            let gap_end = found.map_or(end, |(key, _)| key.start());
            if at < gap_end {
                let mut cell = Cell::empty(gap_end);
                self.list_reader(graph, &mut cell, entry);
                self.cells.insert(Key::new(space, at), cell);
            }
            let Some((key, mut cell)) = found else { break };
            if cell.writer != NIL {
                graph.add_edge(cell.writer, entry);
            }
            self.list_reader(graph, &mut cell, entry);
            at = cell.end;
            self.replace(key, cell);
        }
    }

    /// Takes a write out again, after its entry has left the graph.
    pub(crate) fn end_write(&mut self, graph: &Graph, region: Region) {
        let is_owned = |cell: &Cell| cell.writer == region.entry && cell.readers_live == 0;
        if !self.remove_lone(region, is_owned) {
            self.end(graph, region, |cell| {
                if cell.writer == region.entry {
                    cell.writer = NIL;
                }
            });
        }
    }

    /// Takes a read out again, after its entry has left the graph.
    pub(crate) fn end_read(&mut self, graph: &Graph, region: Region) {
        // A younger writer has taken the cell otherwise, and its readers are younger still.
        let has_read = |cell: &Cell| cell.writer == NIL || cell.writer_order < region.order;
        if !self.remove_lone(region, |cell| {
            cell.writer == NIL && cell.readers_live == 1 && has_read(cell)
        }) {
            self.end(graph, region, |cell| cell.readers_live -= u32::from(has_read(cell)));
        }
    }

    /// Removes the region's cell if it is exactly one and nobody else is in it, the common case.
    fn remove_lone(&mut self, region: Region, is_lone: impl Fn(&Cell) -> bool) -> bool {
        let key = Key::new(region.space, region.range.start.0);
        let Some(cell) = self.cells.remove(key) else { return false };
        let removes = cell.end == region.range.end.0 && is_lone(&cell);
        match removes {
            true => self.free_readers(&cell),
            false => _ = self.cells.insert(key, cell),
        }
        removes
    }

    fn end(&mut self, graph: &Graph, region: Region, mut leave: impl FnMut(&mut Cell)) {
        let Region { space, range, .. } = region;
        let mut at = range.start.0;
        while let Some((key, mut cell)) = self.first_within(space, at, range.end.0) {
            at = cell.end;
            leave(&mut cell);
            if cell.is_empty() {
                self.free_readers(&cell);
                self.cells.remove(key);
            } else {
                self.replace(key, cell);
            }
        }
        self.join(graph, space, range.start.0);
        self.join(graph, space, range.end.0);
    }

    /// Whether no cell touches the range.
    fn is_gap(&self, space: Space, range: ByteRange) -> bool {
        let around = self.cells.around(Key::new(space, range.start.0));
        around.below.is_none_or(|(key, cell)| key.space() != space || cell.end <= range.start.0)
            && around
                .at_or_above
                .is_none_or(|(key, _)| key.space() != space || key.start() >= range.end.0)
    }

    /// The first cell that starts in `[start, end)`.
    fn first_within(&self, space: Space, start: u64, end: u64) -> Option<(Key, Cell)> {
        self.cells
            .at_or_after(Key::new(space, start))
            .filter(|(key, _)| key.space() == space && key.start() < end)
    }

    fn replace(&mut self, key: Key, cell: Cell) {
        *self.cells.get_mut(key).expect("the cell was just read") = cell;
    }

    /// Makes `at` a border if it lies inside a cell.
    fn split(&mut self, graph: &Graph, space: Space, at: u64) {
        let Some((key, mut left)) = self.cells.around(Key::new(space, at)).below else { return };
        if key.space() != space || left.end <= at {
            return;
        }
        let right = Cell { first_reader: NIL, readers_listed: 0, ..left };
        let right = self.copy_readers(graph, &left, right);
        left.end = at;
        self.replace(key, left);
        self.cells.insert(Key::new(space, at), right);
    }

    /// Removes the border `at` if the cells on both sides have become equal.
    fn join(&mut self, graph: &Graph, space: Space, at: u64) {
        let around = self.cells.around(Key::new(space, at));
        let (Some((left_key, mut left)), Some((right_key, right))) =
            (around.below, around.at_or_above)
        else {
            return;
        };
        let touch = left_key.space() == space && right_key == Key::new(space, at) && left.end == at;
        if touch && left.writer == right.writer && self.same_readers(graph, &left, &right) {
            self.free_readers(&right);
            self.cells.remove(right_key);
            left.end = right.end;
            self.replace(left_key, left);
        }
    }

    fn wait_for_all(&self, graph: &mut Graph, cell: &Cell, waiter: u32) {
        if cell.readers_live > 0 {
            let mut at = cell.first_reader;
            while at != NIL {
                let Reader { entry, birth, next } = self.readers[at];
                if graph.is_live(entry, birth) {
                    graph.add_edge(entry, waiter);
                }
                at = next;
            }
        } else if cell.writer != NIL {
            graph.add_edge(cell.writer, waiter);
        }
    }

    fn list_reader(&mut self, graph: &Graph, cell: &mut Cell, entry: u32) {
        if cell.readers_listed > 2 * cell.readers_live + 8 {
            let swept = self.copy_readers(
                graph,
                cell,
                Cell { first_reader: NIL, readers_listed: 0, ..*cell },
            );
            self.free_readers(cell);
            *cell = swept;
        }
        let reader = Reader { entry, birth: graph.birth(entry), next: cell.first_reader };
        cell.first_reader = self.readers.insert(reader);
        cell.readers_listed += 1;
        cell.readers_live += 1;
    }

    /// Lists the live readers of `from` in `to`, in the same order.
    fn copy_readers(&mut self, graph: &Graph, from: &Cell, mut to: Cell) -> Cell {
        let mut last = NIL;
        let mut at = from.first_reader;
        while at != NIL {
            let reader = self.readers[at];
            at = reader.next;
            if !graph.is_live(reader.entry, reader.birth) {
                continue;
            }
            let copy = self.readers.insert(Reader { next: NIL, ..reader });
            match last {
                NIL => to.first_reader = copy,
                _ => self.readers[last].next = copy,
            }
            last = copy;
            to.readers_listed += 1;
        }
        to
    }

    /// Whether the same live readers are in both cells. Both lists are in the order of entering.
    fn same_readers(&self, graph: &Graph, a: &Cell, b: &Cell) -> bool {
        if a.readers_live != b.readers_live {
            return false;
        }
        let (mut a, mut b) = (a.first_reader, b.first_reader);
        loop {
            a = self.skip_ended(graph, a);
            b = self.skip_ended(graph, b);
            if a == NIL || b == NIL {
                return a == b;
            }
            if self.readers[a].birth != self.readers[b].birth {
                return false;
            }
            (a, b) = (self.readers[a].next, self.readers[b].next);
        }
    }

    fn skip_ended(&self, graph: &Graph, mut at: u32) -> u32 {
        while at != NIL && !graph.is_live(self.readers[at].entry, self.readers[at].birth) {
            at = self.readers[at].next;
        }
        at
    }

    fn free_readers(&mut self, cell: &Cell) {
        let mut at = cell.first_reader;
        while at != NIL {
            self.readers.free(at);
            at = self.readers[at].next;
        }
    }
}
