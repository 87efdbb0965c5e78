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
//!
//! Nor is a node moved before it comes to the front: until then it may stand too early, or without
//! wanting to go any more. So one that alternates between something and nothing, as short queues
//! do, is moved once a turn instead of four times. Few may stand so, lest one turn has to move many.

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

/// How many nodes may stand too early, and with them the most that a decision moves beside its own.
const LOOSE_MAX: usize = 16;

/// The node above all others.
pub(super) const ROOT: NodeIndex = 0;

/// Where a node stands in the order: its parent, tag and number of arrival, as one large number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    high: u128,
    low: u128,
}

impl Place {
    fn new(parent: NodeIndex, tag: u128, seq: u64) -> Self {
        Self { high: u128::from(parent) << 96 | tag >> 32, low: tag << 96 | u128::from(seq) }
    }
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
    /// How many nodes stand too early, and how many may.
    loose_count: usize,
    loose_max: usize,
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
            loose_count: 0,
            loose_max: LOOSE_MAX,
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

    /// The first child in the order, and its tag.
    pub(super) fn first_child(&mut self, parent: NodeIndex) -> Option<(u128, NodeIndex)> {
        self.child_from(parent, 0)
    }

    /// The same of those with this tag or a higher one: of a window's server, and of those behind it.
    pub(super) fn child_from(&mut self, parent: NodeIndex, tag: u128) -> Option<(u128, NodeIndex)> {
        loop {
            let (_, node) = match (parent, tag) {
                // Those below the root come before all others.
                (ROOT, 0) => self.order.first()?,
                _ => self.order.at_or_after(Place::new(parent, tag, 0))?,
            };
            let this = &self.nodes[node];
            if this.parent != parent {
                return None;
            }
            if !this.is_loose {
                return Some((this.turn.tag, node));
            }
            self.fasten(node);
        }
    }

    /// The child whose reservation is due first, and when.
    pub(super) fn first_due(&self, parent: NodeIndex) -> Option<(Timestamp, NodeIndex)> {
        if self.due.is_empty() {
            return None;
        }
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
        self.file(node);
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
        if was_queued && !matches!(state, State::Held { .. }) {
            self.end_turn(node);
        }
        self.set_state(now, node, state);
        self.loosen(node);
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
        if self.nodes[node].state != State::Queued {
            self.align(node, matches!(self.nodes[node].state, State::Held { .. }));
        }
        let (quantum, discipline) = (self.settings.quantum, self.settings.discipline);
        let start = self.nodes[node].turn.tag;
        // Virtual time is the lowest start tag of those that want to go. What leaves out of turn
        // must not move it past the others, and what leaves while nobody waits must move it.
        let first = self.first_child(parent).map_or(start, |(tag, _)| tag.min(start));
        let Node { turn, share, .. } = &mut self.nodes[node];
        match discipline {
            Discipline::Sfq | Discipline::Twins(_) | Discipline::Sw(_) => {
                sfq::spend(turn, cost, share.weight);
            }
            Discipline::Drr => drr::spend(turn, cost, quantum, share.weight),
        }
        let tag = turn.tag;
        let family = &mut self.nodes[parent].family;
        family.virtual_time = family.virtual_time.max(first);
        family.tag_max = family.tag_max.max(tag);
        self.loosen(node);
    }

    /// Whether it is time that says where the node stands, not what it has had.
    fn stands_by_time(&self, node: NodeIndex) -> bool {
        matches!(self.nodes[node].name, Name::Window(_))
            || matches!(self.settings.discipline, Discipline::Sw(_))
    }

    /// Under SW: puts a class where its front says.
    pub(super) fn refile_front(&mut self, node: NodeIndex) {
        self.align(node, false);
        if self.nodes[node].state == State::Queued {
            self.file(node);
        }
    }

    /// Takes back a part of what the node was charged.
    pub(super) fn give_back(&mut self, node: NodeIndex, cost: u64) {
        if self.stands_by_time(node) {
            return;
        }
        let virtual_time = self.nodes[self.nodes[node].parent].family.virtual_time;
        let (quantum, weight) = (self.settings.quantum, self.nodes[node].share.weight);
        let turn = &mut self.nodes[node].turn;
        match self.settings.discipline {
            Discipline::Sfq | Discipline::Twins(_) | Discipline::Sw(_) => {
                sfq::give_back(turn, virtual_time, cost, weight);
            }
            Discipline::Drr => drr::give_back(turn, virtual_time, cost, quantum, weight),
        }
        if self.nodes[node].state == State::Queued {
            self.file(node);
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

    /// Where the node belongs.
    fn place(&self, node: NodeIndex) -> Place {
        let this = &self.nodes[node];
        Place::new(this.parent, this.turn.tag, this.turn.seq)
    }

    /// A queued node's turn may have changed. Only if it has to stand earlier is it moved at once.
    fn file(&mut self, node: NodeIndex) {
        let (place, this) = (self.place(node), &mut self.nodes[node]);
        match this.stands {
            None => {
                this.stands = Some(place);
                self.order.insert(place, node);
            }
            Some(stands) if place < stands => self.fasten(node),
            Some(_) => self.loosen(node),
        }
    }

    /// Lets a node stand where it does, which is no later than where it belongs, if it belongs there at all.
    fn loosen(&mut self, node: NodeIndex) {
        let this = &mut self.nodes[node];
        if this.stands.is_none() || core::mem::replace(&mut this.is_loose, true) {
            return;
        }
        self.loose_count += 1;
        if self.loose_count > self.loose_max {
            self.fasten(node);
        }
    }

    /// Puts a node that stands in the order where it belongs, or takes it out.
    fn fasten(&mut self, node: NodeIndex) {
        let place = self.place(node);
        let this = &mut self.nodes[node];
        self.loose_count -= usize::from(core::mem::take(&mut this.is_loose));
        let Some(stands) = this.stands else { return };
        if this.state == State::Queued {
            this.stands = Some(place);
            if place != stands {
                self.order.rekey(stands, place);
            }
        } else {
            this.stands = None;
            self.order.remove(stands);
        }
    }

    /// Takes a node that cannot be picked out of the order: it goes elsewhere.
    pub(super) fn take_out(&mut self, node: NodeIndex) {
        debug_assert!(self.nodes[node].state != State::Queued, "it has left");
        self.fasten(node);
    }

    /// A queued node stands no later than where it belongs, and there unless it is loose.
    #[cfg(test)]
    pub(super) fn check_place(&self, node: NodeIndex) {
        let (this, place) = (&self.nodes[node], self.place(node));
        let stands = this.stands;
        assert_eq!(stands.and_then(|stands| self.order.get(stands)), stands.map(|_| node));
        let is_queued = this.state == State::Queued;
        if is_queued {
            assert!(stands.is_some_and(|stands| stands <= place), "{:?}", this.name);
        }
        if !this.is_loose {
            assert_eq!(stands, is_queued.then_some(place), "{:?}", this.name);
        }
    }

    /// At most so many nodes stand too early from now on; none do yet.
    #[cfg(test)]
    pub(super) fn limit_loose(&mut self, loose_max: usize) {
        assert_eq!(self.loose_count, 0, "it is new");
        self.loose_max = loose_max;
    }

    /// How many stand in the order, do so too early, sleep, and are filed with a reservation.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 4] {
        assert!(self.loose_count <= self.loose_max);
        [self.order.len(), self.loose_count, self.sleepers.len(), self.due.len()]
    }
}
