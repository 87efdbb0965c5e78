//! The tree: who stands where among its siblings, who sleeps, and how a charge moves them.
//!
//! ```text
//!   root ──┬── class                 order:     (parent, tag, seq)   those that can be picked
//!          ├── group ──┬── class     due:       (parent, when)       of these, reservations
//!          │           └── class     sleepers:  (until)              held and throttled ones
//!          └── window (TWINS) ── …   borrowers: (until)              of these, who may borrow
//! ```
//!
//! One map serves the children of all nodes, since the parent is the first part of its key: a group
//! costs no more than a class. A group stands in its parent's order while it has a child in its own.
//! Limits are looked at only when a node's turn comes, so a charge never searches for whom it stops.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use forebay_units::{Nanos, Timestamp};

use super::node::{Name, Node, NodeIndex, State};
use super::settings::{Discipline, SharingSettings};
use super::{drr, sfq, sw};
use crate::ordered_map::OrderedMap;
use crate::pool::Pool;
use crate::recent::Recent;

/// The end of a hold that only a call ends.
const NEVER: Timestamp = Timestamp(u64::MAX);

/// The node above all others.
pub(super) const ROOT: NodeIndex = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    parent: NodeIndex,
    tag: u128,
    seq: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    parent: NodeIndex,
    at: Timestamp,
    node: NodeIndex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sleeper {
    until: Timestamp,
    node: NodeIndex,
}

/// All classes and groups, and where they stand.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) settings: SharingSettings,
    pub(super) nodes: Pool<Node>,
    pub(super) names: OrderedMap<Name, NodeIndex>,
    pub(super) recent: Recent,
    order: OrderedMap<Place, NodeIndex>,
    due: OrderedMap<Due, ()>,
    sleepers: OrderedMap<Sleeper, ()>,
    borrowers: OrderedMap<Sleeper, ()>,
    /// Nodes to be forgotten, looked at in turn.
    pub(super) leaving: VecDeque<NodeIndex>,
    next_seq: u64,
}

impl Tree {
    pub(super) fn new(settings: SharingSettings) -> Self {
        let mut nodes = Pool::new();
        let root = nodes.insert(Node::new(Name::Root, ROOT));
        debug_assert_eq!(root, ROOT);
        Self {
            settings,
            nodes,
            names: OrderedMap::new(),
            recent: Recent::new(),
            order: OrderedMap::new(),
            due: OrderedMap::new(),
            sleepers: OrderedMap::new(),
            borrowers: OrderedMap::new(),
            leaving: VecDeque::new(),
            next_seq: 0,
        }
    }

    /// The next number in the order of arrival; no two nodes have the same.
    pub(super) fn take_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }

    /// A node and those above it, the root left out.
    pub(super) fn line(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> + use<> {
        let parent = self.nodes[node].parent;
        core::iter::once(node).chain((parent != ROOT).then_some(parent))
    }

    /// The first child in the order; for a window of TWINS, of the servers from `tag` on.
    pub(super) fn first_child(&self, parent: NodeIndex, tag: u128) -> Option<(u128, NodeIndex)> {
        let (place, node) = self.order.at_or_after(Place { parent, tag, seq: 0 })?;
        (place.parent == parent).then_some((place.tag, node))
    }

    /// The child whose reservation is due first, and when.
    pub(super) fn first_due(&self, parent: NodeIndex) -> Option<(Timestamp, NodeIndex)> {
        let start = Due { parent, at: Timestamp(0), node: 0 };
        let (due, ()) = self.due.at_or_after(start)?;
        (due.parent == parent).then_some((due.at, due.node))
    }

    /// When the first sleeper wakes.
    pub(super) fn first_wake(&self) -> Option<Timestamp> {
        self.sleepers.first().map(|(sleeper, ())| sleeper.until)
    }

    /// Who may borrow, the one that has to wait least.
    pub(super) fn first_borrower(&mut self) -> Option<NodeIndex> {
        loop {
            let (sleeper, ()) = self.borrowers.first()?;
            let parent = self.nodes[sleeper.node].parent;
            if self.nodes[sleeper.node].is_soft() && self.nodes[parent].is_soft() {
                return Some(sleeper.node);
            }
            self.borrowers.remove(sleeper);
        }
    }

    /// The node can be picked from now on. A group comes along with its first child.
    pub(super) fn enter(&mut self, now: Timestamp, node: NodeIndex) {
        let parent = self.nodes[node].parent;
        let was_held = matches!(self.nodes[node].state, State::Held { .. });
        let was_aside = self.nodes[node].state == State::Held { until: NEVER };
        if !self.keeps_place(node, was_held) {
            self.nodes[node].turn.seq = self.take_seq();
        }
        self.align(node, was_held);
        let this = &mut self.nodes[node];
        // Who was held for no time is as if it had not been, and who was left aside has wanted to go.
        if !was_held || (this.since < now && !was_aside) {
            this.reservation.enter(now);
        }
        self.set_state(now, node, State::Queued);
        self.insert_in_order(node);
        let above = &mut self.nodes[parent];
        above.family.queued += 1;
        if above.family.queued == 1
            && parent != ROOT
            && !matches!(above.state, State::Throttled { .. })
        {
            self.enter(now, parent);
        }
        self.refile_due(node);
    }

    /// The node cannot be picked any more, for the reason that its new state is.
    pub(super) fn leave(&mut self, now: Timestamp, node: NodeIndex, state: State) {
        let parent = self.nodes[node].parent;
        let was_queued = self.nodes[node].state == State::Queued;
        if was_queued {
            self.remove_from_order(node);
            if !matches!(state, State::Held { .. }) {
                self.end_turn(node);
            }
        }
        self.set_state(now, node, state);
        self.refile_due(node);
        if was_queued {
            let above = &mut self.nodes[parent];
            above.family.queued -= 1;
            if above.family.queued == 0 && above.state == State::Queued {
                // A group follows its last child. If that is only held, the group keeps its tag as well.
                let follows = match state {
                    State::Held { .. } => State::Held { until: NEVER },
                    _ => State::Away,
                };
                self.leave(now, parent, follows);
            }
        }
    }

    /// Wakes whoever has slept enough.
    pub(super) fn wake(&mut self, now: Timestamp) {
        while let Some((sleeper, ())) = self.sleepers.first()
            && sleeper.until <= now
        {
            let node = &self.nodes[sleeper.node];
            if node.is_class() || node.family.queued > 0 {
                self.enter(now, sleeper.node);
            } else {
                self.leave(now, sleeper.node, State::Away);
            }
        }
    }

    /// Moves the node on by `cost`, and its siblings' virtual time with it.
    pub(super) fn spend(&mut self, node: NodeIndex, cost: u64) {
        if self.stands_by_time(node) {
            return;
        }
        let parent = self.nodes[node].parent;
        let is_queued = self.nodes[node].state == State::Queued;
        if is_queued {
            self.remove_from_order(node);
        } else {
            self.align(node, matches!(self.nodes[node].state, State::Held { .. }));
        }
        let (mut turn, weight) = (self.nodes[node].turn, self.nodes[node].share.weight);
        let start = turn.tag;
        match self.settings.discipline {
            Discipline::Sfq | Discipline::Twins(_) | Discipline::Sw(_) => {
                sfq::spend(&mut turn, cost, weight);
            }
            Discipline::Drr => drr::spend(&mut turn, cost, self.settings.quantum, weight),
        }
        self.nodes[node].turn = turn;
        // Virtual time is the lowest start tag of those that want to go. What leaves out of turn
        // must not move it past the others, and what leaves while nobody waits must move it.
        let first = self.first_child(parent, 0).map_or(start, |(tag, _)| tag.min(start));
        let family = &mut self.nodes[parent].family;
        family.virtual_time = family.virtual_time.max(first);
        family.tag_max = family.tag_max.max(turn.tag);
        if is_queued {
            self.insert_in_order(node);
        }
    }

    /// Whether it is time that says where the node stands, not what it has had.
    fn stands_by_time(&self, node: NodeIndex) -> bool {
        matches!(self.nodes[node].name, Name::Window(_))
            || matches!(self.settings.discipline, Discipline::Sw(_))
    }

    /// Under SW: puts a class where its front says.
    pub(super) fn refile_front(&mut self, node: NodeIndex) {
        let is_queued = self.nodes[node].state == State::Queued;
        if is_queued {
            self.remove_from_order(node);
        }
        self.align(node, false);
        if is_queued {
            self.insert_in_order(node);
        }
    }

    /// Takes back a part of what the node was charged.
    pub(super) fn give_back(&mut self, node: NodeIndex, cost: u64) {
        if self.stands_by_time(node) {
            return;
        }
        let virtual_time = self.nodes[self.nodes[node].parent].family.virtual_time;
        let is_queued = self.nodes[node].state == State::Queued;
        if is_queued {
            self.remove_from_order(node);
        }
        let (quantum, weight) = (self.settings.quantum, self.nodes[node].share.weight);
        let turn = &mut self.nodes[node].turn;
        match self.settings.discipline {
            Discipline::Sfq | Discipline::Twins(_) | Discipline::Sw(_) => {
                sfq::give_back(turn, virtual_time, cost, weight);
            }
            Discipline::Drr => drr::give_back(turn, virtual_time, cost, quantum, weight),
        }
        if is_queued {
            self.insert_in_order(node);
        }
    }

    /// Gives the node another weight from now on.
    pub(super) fn reweigh(&mut self, node: NodeIndex, weight: u32) {
        let this = &mut self.nodes[node];
        drr::reweigh(&mut this.turn, self.settings.quantum, this.share.weight, weight);
        this.share.weight = weight;
    }

    /// Nothing is ready or in flight below `parent`: nobody owes anybody anything.
    pub(super) fn settle(&mut self, parent: NodeIndex) {
        let family = &mut self.nodes[parent].family;
        if family.ready == 0 && family.in_flight == 0 {
            family.virtual_time = family.virtual_time.max(family.tag_max.saturating_add(1));
        }
    }

    /// Files a throttled node under the moment at which its limits let it go.
    pub(super) fn refile_sleeper(&mut self, now: Timestamp, node: NodeIndex) {
        if let State::Throttled { since, .. } = self.nodes[node].state {
            let until = self.nodes[node].buckets.free_at().max(now + Nanos(1));
            self.set_state(now, node, State::Throttled { until, since });
        }
    }

    /// Files the throttled children of a node anew, once it may borrow or no longer may; O(n log n).
    pub(super) fn refile_children(&mut self, now: Timestamp, parent: NodeIndex) {
        let nodes: Vec<NodeIndex> = self.names.iter().map(|(_, node)| node).collect();
        for node in nodes {
            if self.nodes[node].parent == parent {
                self.refile_sleeper(now, node);
            }
        }
    }

    /// Files the node's reservation, and its group's, under the moment when it is due.
    pub(super) fn refile_due(&mut self, node: NodeIndex) {
        let this = &self.nodes[node];
        let (parent, filed) = (this.parent, this.due);
        let wanted = match this.name {
            _ if this.state != State::Queued => None,
            _ if self.settings.discipline.has_windows() => None,
            Name::Class(_) => (this.reservation.per_second > 0).then_some(this.reservation.due),
            _ => self.first_due(node).map(|(at, _)| at),
        };
        if wanted == filed {
            return;
        }
        if let Some(at) = filed {
            self.due.remove(Due { parent, at, node });
        }
        if let Some(at) = wanted {
            self.due.insert(Due { parent, at, node }, ());
        }
        self.nodes[node].due = wanted;
        if parent != ROOT {
            self.refile_due(parent);
        }
    }

    /// A node that leaves gives up what is left of its turn.
    fn end_turn(&mut self, node: NodeIndex) {
        let virtual_time = self.nodes[self.nodes[node].parent].family.virtual_time;
        if self.settings.discipline == Discipline::Drr {
            let this = &mut self.nodes[node];
            drr::leave(&mut this.turn, virtual_time, self.settings.quantum, this.share.weight);
        }
    }

    /// Whether a node that comes back takes its old place among those of the same tag. In DRR one that
    /// has had its turn in this round must: at the end of the next, others would have two turns before it.
    fn keeps_place(&self, node: NodeIndex, was_held: bool) -> bool {
        let Node { turn, parent, .. } = self.nodes[node];
        let virtual_time = self.nodes[parent].family.virtual_time;
        turn.tag > virtual_time || (was_held && turn.tag == virtual_time)
    }

    /// Brings a node that was away to its siblings' virtual time.
    fn align(&mut self, node: NodeIndex, was_held: bool) {
        let virtual_time = self.nodes[self.nodes[node].parent].family.virtual_time;
        let quantum = self.settings.quantum;
        let this = &mut self.nodes[node];
        match (this.name, self.settings.discipline) {
            (Name::Window(target), _) => this.turn.tag = u128::from(target),
            (Name::Class(class), Discipline::Sw(windows)) => {
                this.turn.tag = sw::tag(windows.window_of(this.front), class);
            }
            (_, Discipline::Sw(_)) => {}
            (_, Discipline::Sfq | Discipline::Twins(_)) => {
                sfq::enter(&mut this.turn, virtual_time, if was_held { quantum } else { 0 });
            }
            (_, Discipline::Drr) => {
                drr::enter(&mut this.turn, virtual_time, quantum, this.share.weight);
            }
        }
    }

    /// Changes the state, and with it the node's place among the sleepers.
    fn set_state(&mut self, now: Timestamp, node: NodeIndex, state: State) {
        let this = &mut self.nodes[node];
        let (old, parent) = (core::mem::replace(&mut this.state, state), this.parent);
        this.since = now;
        if let State::Held { until } | State::Throttled { until, .. } = old {
            self.sleepers.remove(Sleeper { until, node });
            self.borrowers.remove(Sleeper { until, node });
        }
        if let State::Throttled { since, .. } = old
            && !matches!(state, State::Throttled { .. })
        {
            this.stats.throttled_time += now - since;
        }
        match state {
            State::Held { until } if this.is_class() => {
                self.sleepers.insert(Sleeper { until, node }, ());
            }
            State::Throttled { until, .. } => {
                self.sleepers.insert(Sleeper { until, node }, ());
                let may_borrow = this.is_soft() && self.nodes[parent].is_soft();
                if may_borrow && self.settings.discipline.lends() {
                    self.borrowers.insert(Sleeper { until, node }, ());
                }
            }
            State::Away | State::Queued | State::Held { .. } => {}
        }
    }

    #[cfg(test)]
    pub(super) fn siblings(
        &self,
        parent: NodeIndex,
    ) -> impl Iterator<Item = (u128, NodeIndex)> + '_ {
        let of_parent = self.order.iter_from(Place { parent, tag: 0, seq: 0 });
        of_parent
            .take_while(move |(place, _)| place.parent == parent)
            .map(|(place, node)| (place.tag, node))
    }

    /// How many stand in the order, sleep, and are filed with a reservation.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.order.len(), self.sleepers.len(), self.due.len()]
    }

    fn place(&self, node: NodeIndex) -> Place {
        let this = &self.nodes[node];
        Place { parent: this.parent, tag: this.turn.tag, seq: this.turn.seq }
    }

    fn insert_in_order(&mut self, node: NodeIndex) {
        self.order.insert(self.place(node), node);
    }

    fn remove_from_order(&mut self, node: NodeIndex) {
        let place = self.place(node);
        let removed = self.order.remove(place);
        debug_assert_eq!(removed, Some(node), "a queued node stands in the order");
    }
}
