//! Who is in the tree: nodes come, move to another parent, and go once they owe nothing.

use alloc::vec::Vec;

use forebay_units::{ClassId, Timestamp};

use super::drr;
use super::node::{Family, Name, Node, NodeIndex, State, Turn};
use super::settings::{Discipline, GroupId, SharingSettings};
use super::tree::{ROOT, Tree};

impl Tree {
    /// The node of a class, if there is one.
    pub(super) fn find(&self, class: ClassId) -> Option<NodeIndex> {
        let (name, recent) = (Name::Class(class), self.recent.of(class));
        if self.nodes[recent].name == name { Some(recent) } else { self.names.get(name) }
    }

    /// A new node below `parent`.
    pub(super) fn insert(&mut self, name: Name, parent: NodeIndex) -> NodeIndex {
        let node = self.nodes.insert(Node::new(name, parent));
        self.nodes[node].turn.seq = self.take_seq();
        self.names.insert(name, node);
        self.nodes[parent].family.children += 1;
        node
    }

    /// The group or window of that name; one that is made stays while it has children.
    pub(super) fn node_below_root(&mut self, name: Name) -> NodeIndex {
        if let Some(node) = self.names.get(name) {
            return node;
        }
        let node = self.insert(name, ROOT);
        self.nodes[node].is_leaving = true;
        node
    }

    /// Below whom a class stands under this discipline.
    pub(super) fn parent_for(&mut self, class: ClassId, group: Option<GroupId>) -> NodeIndex {
        match (self.settings.discipline, group) {
            (Discipline::Twins(twins), _) => {
                self.node_below_root(Name::Window(class.0 % twins.targets))
            }
            (Discipline::Sw(_), _) | (_, None) => ROOT,
            (_, Some(group)) => self.node_below_root(Name::Group(group)),
        }
    }

    /// Puts a class below another parent; what it is behind or ahead of its siblings it keeps.
    pub(super) fn move_below(&mut self, now: Timestamp, node: NodeIndex, parent: NodeIndex) {
        let old = self.nodes[node].parent;
        if old == parent {
            return;
        }
        let was_queued = self.nodes[node].state == State::Queued;
        if was_queued {
            self.leave(now, node, State::Away);
        }
        self.take_out(node);
        let Family { ready, in_flight, .. } = self.nodes[node].family;
        for (at, comes) in [(old, false), (parent, true)] {
            let family = &mut self.nodes[at].family;
            let sign: i64 = if comes { 1 } else { -1 };
            family.children = family.children.wrapping_add_signed(sign as i32);
            if at != ROOT {
                family.ready = (i64::from(family.ready) + sign * i64::from(ready)) as u32;
                family.in_flight =
                    (i64::from(family.in_flight) + sign * i64::from(in_flight)) as u32;
            }
        }
        let debt = self.nodes[node].turn.tag.saturating_sub(self.nodes[old].family.virtual_time);
        let tag = self.nodes[parent].family.virtual_time.saturating_add(debt);
        self.nodes[parent].family.tag_max = self.nodes[parent].family.tag_max.max(tag);
        self.nodes[node].turn.tag = tag;
        self.nodes[node].parent = parent;
        if was_queued {
            self.enter(now, node);
        }
        self.settle(old);
        self.settle(parent);
        self.list_if_childless(old);
    }

    /// Restarts all turns under another discipline.
    pub(super) fn switch(&mut self, now: Timestamp, settings: SharingSettings) {
        let mut queued = Vec::new();
        let all: Vec<(Name, NodeIndex)> = self.names.iter().collect();
        let classes = all.iter().filter_map(|(name, node)| match name {
            Name::Class(class) => Some((*class, *node)),
            _ => None,
        });
        for (_, node) in classes.clone() {
            if self.nodes[node].state == State::Queued {
                self.leave(now, node, State::Away);
                queued.push(node);
            }
        }
        self.settings = settings;
        for node in all.iter().map(|(_, node)| *node).chain(core::iter::once(ROOT)) {
            self.take_out(node);
            self.nodes[node].turn = Turn { seq: self.nodes[node].turn.seq, ..Turn::default() };
            let family = &mut self.nodes[node].family;
            (family.virtual_time, family.tag_max) = (0, 0);
        }
        for (class, node) in classes {
            let parent = self.parent_for(class, self.nodes[node].group);
            self.move_below(now, node, parent);
        }
        queued.sort_unstable_by_key(|node| self.nodes[*node].turn.seq);
        for node in queued {
            self.enter(now, node);
        }
        self.settle(ROOT);
        for (_, node) in self.names.iter().collect::<Vec<_>>() {
            self.refile_sleeper(now, node);
            if !self.nodes[node].is_class() {
                self.settle(node);
            }
        }
    }

    /// Counts a class in or out among those that have something.
    pub(super) fn count_ready(&mut self, node: NodeIndex, by: i32) {
        for at in self.line(node).chain(core::iter::once(ROOT)) {
            let family = &mut self.nodes[at].family;
            family.ready = family.ready.wrapping_add_signed(by);
        }
    }

    /// Has the node looked at until it can be forgotten.
    pub(super) fn list_leaving(&mut self, node: NodeIndex) {
        if !core::mem::replace(&mut self.nodes[node].is_listed, true) {
            self.leaving.push_back(node);
        }
    }

    fn list_if_childless(&mut self, node: NodeIndex) {
        let this = &self.nodes[node];
        if node != ROOT && this.is_leaving && this.family.children == 0 {
            self.list_leaving(node);
        }
    }

    /// Looks at one node that is leaving; returns it if it is gone now.
    pub(super) fn sweep_one(&mut self, now: Timestamp) -> Option<Node> {
        let node = self.leaving.pop_front()?;
        self.nodes[node].is_listed = false;
        let this = self.nodes[node];
        if !this.is_leaving || this.family.children > 0 {
            return None;
        }
        if !self.owes_nothing(now, &this) {
            self.list_leaving(node);
            return None;
        }
        self.leave(now, node, State::Away);
        self.take_out(node);
        self.names.remove(this.name);
        if let Name::Class(class) = this.name {
            self.recent.forget(class);
        }
        self.nodes.free(node);
        self.nodes[this.parent].family.children -= 1;
        self.list_if_childless(this.parent);
        Some(this)
    }

    /// Whether a node that came back as a new one would not be better off.
    fn owes_nothing(&self, now: Timestamp, node: &Node) -> bool {
        let virtual_time = self.nodes[node.parent].family.virtual_time;
        let is_behind = match self.settings.discipline {
            Discipline::Sw(_) => true,
            _ if node.stats.batches == 0 || matches!(node.name, Name::Window(_)) => true,
            Discipline::Drr => {
                let is_whole = drr::is_whole(&node.turn, self.settings.quantum, node.share.weight);
                node.turn.tag < virtual_time || (node.turn.tag == virtual_time && is_whole)
            }
            Discipline::Sfq | Discipline::Twins(_) => node.turn.tag <= virtual_time,
        };
        node.family.ready == 0
            && node.family.in_flight == 0
            && is_behind
            && node.buckets.are_full(now)
            && node.reservation.due <= now
    }
}
