//! Who waits for whom: one entry per indexed request, with its successors in a pooled list.

use alloc::vec::Vec;

use crate::pool::Pool;
use crate::table::NIL;

/// A birth that no live entry has.
const DEAD: u64 = u64::MAX;

/// How far an indexed request has come in the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for its own client's earlier requests (mode `client` only).
    Own,
    /// Has taken its place among all clients' requests.
    Claimed,
}

/// An indexed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Unlike that of every other entry before and after; tells a re-used entry from the one that a list means.
    birth: u64,
    /// Its place in the order of claims.
    claimed: u64,
    pub(crate) slot: u32,
    /// How many entries it still waits for.
    blockers: u32,
    /// Whom it holds up.
    first_edge: u32,
    /// Who holds it up.
    first_cause: u32,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    earlier: u32,
    waiter: u32,
    /// The next edge of `earlier`.
    next: u32,
    /// The edges of `waiter` beside this one.
    next_cause: u32,
    previous_cause: u32,
}

/// The graph of waiting; acyclic, because an entry waits only for entries that took their place before it.
#[derive(Debug)]
pub(crate) struct Graph {
    entries: Pool<Entry>,
    edges: Pool<Edge>,
    next_order: u64,
}

impl Graph {
    pub(crate) const fn new() -> Self {
        Self { entries: Pool::new(), edges: Pool::new(), next_order: 0 }
    }

    pub(crate) fn insert(&mut self, slot: u32, stage: Stage) -> u32 {
        let order = self.next_order;
        self.next_order += 1;
        self.entries.insert(Entry {
            birth: order,
            claimed: order,
            slot,
            blockers: 0,
            first_edge: NIL,
            first_cause: NIL,
            stage,
        })
    }

    /// Gives an entry that waits for nothing the last place in the order.
    pub(crate) fn claim(&mut self, entry: u32) {
        self.entries[entry].claimed = self.next_order;
        self.entries[entry].stage = Stage::Claimed;
        self.next_order += 1;
    }

    pub(crate) fn entry(&self, entry: u32) -> &Entry {
        &self.entries[entry]
    }

    /// The entry's place in the order of a stage.
    pub(crate) fn order(&self, entry: u32, stage: Stage) -> u64 {
        match stage {
            Stage::Own => self.entries[entry].birth,
            Stage::Claimed => self.entries[entry].claimed,
        }
    }

    pub(crate) fn birth(&self, entry: u32) -> u64 {
        self.entries[entry].birth
    }

    /// Whether `entry` is still the one that was born then.
    pub(crate) fn is_live(&self, entry: u32, birth: u64) -> bool {
        self.entries[entry].birth == birth
    }

    pub(crate) fn is_blocked(&self, entry: u32) -> bool {
        self.entries[entry].blockers > 0
    }

    /// Makes `waiter` wait for `earlier`, once: all edges to one waiter are added in a row, so a
    /// second one would find the first at the head of the list.
    pub(crate) fn add_edge(&mut self, earlier: u32, waiter: u32) {
        let first = self.entries[earlier].first_edge;
        if first != NIL && self.edges[first].waiter == waiter {
            return;
        }
        let next_cause = self.entries[waiter].first_cause;
        let edge = Edge { earlier, waiter, next: first, next_cause, previous_cause: NIL };
        let edge = self.edges.insert(edge);
        if next_cause != NIL {
            self.edges[next_cause].previous_cause = edge;
        }
        self.entries[earlier].first_edge = edge;
        self.entries[waiter].first_cause = edge;
        self.entries[waiter].blockers += 1;
    }

    /// The slots of the requests that hold an entry up.
    pub(crate) fn blockers(&self, entry: u32) -> impl Iterator<Item = u32> {
        let mut edge = self.entries[entry].first_cause;
        core::iter::from_fn(move || {
            let at = (edge != NIL).then(|| self.edges[edge])?;
            edge = at.next_cause;
            Some(self.entries[at.earlier].slot)
        })
    }

    /// Removes an entry and appends to `released` every waiter that waits for nothing any more.
    pub(crate) fn remove(&mut self, entry: u32, released: &mut Vec<u32>) {
        let mut edge = self.entries[entry].first_edge;
        self.entries[entry].birth = DEAD;
        self.entries.free(entry);
        while edge != NIL {
            let Edge { waiter, next, next_cause, previous_cause, .. } = self.edges[edge];
            self.edges.free(edge);
            match previous_cause {
                NIL => self.entries[waiter].first_cause = next_cause,
                _ => self.edges[previous_cause].next_cause = next_cause,
            }
            if next_cause != NIL {
                self.edges[next_cause].previous_cause = previous_cause;
            }
            self.entries[waiter].blockers -= 1;
            if self.entries[waiter].blockers == 0 {
                released.push(waiter);
            }
            edge = next;
        }
    }
}
