//! The outer level as one value: what the scheduler asks whose turn it is.

use forebay_units::{ClassId, Nanos, Timestamp};

use super::node::{Name, Node, NodeIndex, State};
use super::reservation::Load;
use super::settings::{
    ClassShare, Discipline, GroupId, Share, ShareError, SharingSettings, TwinsSettings, WindowIdle,
    Work,
};
use super::stats::ShareStats;
use super::sw;
use super::tree::{ROOT, Tree};

/// The most debt that borrowing leaves, beyond the burst: how long a class may have to stand back
/// for others after it had the device to itself.
const BORROWED_MAX: Nanos = Nanos::millis(100);

/// Who may dispatch now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This class.
    Class(ClassId),
    /// Nobody yet: ask again at `until`, or after the next `ready`, `complete` or `configure`.
    Wait {
        /// When to ask again at the latest; later than `now`.
        until: Timestamp,
    },
    /// No class has anything.
    Idle,
}

/// What is promised of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The sum of all reservations, cost a second.
    pub total: u64,
    /// Whether that is more than [`SharingSettings::capacity`]; each is scaled down then.
    pub is_overcommitted: bool,
}

/// Why a picked class may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Weight,
    Reserved,
    Borrowed,
}

/// Shares one device among classes. See the [module](super) for the order of calls.
///
/// A class that is mentioned for the first time has [`ClassShare::default`]: weight 1, no limit, no
/// group. Every call is O(log n) for n classes, `switch` and changing whether a group borrows excepted;
/// a class takes less than 1 KiB.
#[derive(Debug)]
pub struct Shares {
    tree: Tree,
    picked: Option<(NodeIndex, Phase)>,
    reserved: u128,
}

impl Shares {
    /// No class yet.
    ///
    /// # Panics
    /// If `quantum`, `lend_below`, `window` or `targets` of the settings is 0, or the window of SW
    /// is not in its range.
    pub fn new(settings: SharingSettings) -> Self {
        check(&settings);
        Self { tree: Tree::new(settings), picked: None, reserved: 0 }
    }

    /// What it was made with, or switched to.
    pub fn settings(&self) -> &SharingSettings {
        &self.tree.settings
    }

    /// Gives a class its share, now and for later. What it owes and what is used up of a limit that
    /// stays is kept, in units; so changing a rate n times neither makes nor loses anything.
    pub fn configure(
        &mut self,
        now: Timestamp,
        class: ClassId,
        wanted: ClassShare,
    ) -> Result<(), ShareError> {
        wanted.check()?;
        let node = self.class_node(class);
        let parent = self.parent_for(class, wanted.group);
        self.tree.move_below(now, node, parent);
        let this = &mut self.tree.nodes[node];
        (this.is_leaving, this.group) = (false, wanted.group);
        self.reserved -= u128::from(this.reservation.per_second);
        self.reserved += u128::from(wanted.reservation);
        this.reservation.per_second = wanted.reservation;
        this.reservation.enter(now);
        self.configure_node(now, node, wanted.share);
        self.tree.refile_due(node);
        Ok(())
    }

    /// Gives a group its share. A group that only classes have named has [`Share::default`].
    pub fn configure_group(
        &mut self,
        now: Timestamp,
        group: GroupId,
        share: Share,
    ) -> Result<(), ShareError> {
        share.check()?;
        let node = self.tree.node_below_root(Name::Group(group));
        self.tree.nodes[node].is_leaving = false;
        self.configure_node(now, node, share);
        Ok(())
    }

    /// Forgets a class as soon as it has nothing, nothing in flight, and owes nothing; if it comes
    /// back before, it has its share and its debts still. Returns what it has had, `None` if unknown.
    pub fn remove(&mut self, now: Timestamp, class: ClassId) -> Option<ShareStats> {
        self.remove_name(now, Name::Class(class))
    }

    /// Takes a group's share back: from now on it has [`Share::default`], and is forgotten as soon as
    /// it has no classes. Returns what it has had, `None` if unknown.
    pub fn remove_group(&mut self, now: Timestamp, group: GroupId) -> Option<ShareStats> {
        let node = self.tree.names.get(Name::Group(group))?;
        self.configure_node(now, node, Share::default());
        self.remove_name(now, Name::Group(group))
    }

    /// Changes discipline, cost model and the rest. Limits keep what is used up; the turns start anew.
    /// O(n log n) for n classes.
    ///
    /// # Panics
    /// As [`new`](Shares::new).
    pub fn switch(&mut self, now: Timestamp, settings: SharingSettings) {
        check(&settings);
        self.picked = None;
        self.tree.switch(now, settings);
    }

    /// The class has something that could be dispatched. To be called whenever something is added:
    /// it also ends a [`hold`](Shares::hold), since what came may be what the policy waits for.
    pub fn ready(&mut self, now: Timestamp, class: ClassId) {
        let node = self.class_node(class);
        let this = &mut self.tree.nodes[node];
        this.is_leaving = false;
        if this.family.ready == 0 {
            this.front = now;
            self.tree.count_ready(node, 1);
        }
        if matches!(self.tree.nodes[node].state, State::Away | State::Held { .. }) {
            self.tree.enter(now, node);
        }
    }

    /// The oldest request that the class could dispatch came at `arrived`. Only SW asks for it: to be
    /// called after `ready`, and whenever it is another one. Without it, a class counts from when it
    /// became ready.
    pub fn front(&mut self, class: ClassId, arrived: Timestamp) {
        let Some(windows) = self.tree.settings.discipline.sw() else { return };
        let Some(node) = self.find(class) else { return };
        let before = core::mem::replace(&mut self.tree.nodes[node].front, arrived);
        if windows.window_of(before) != windows.window_of(arrived) {
            self.picked = None;
            self.tree.refile_front(node);
        }
    }

    /// The class has nothing left that could be dispatched.
    pub fn empty(&mut self, now: Timestamp, class: ClassId) {
        let Some(node) = self.find(class) else { return };
        self.picked = None;
        if self.tree.nodes[node].family.ready > 0 {
            self.tree.leave(now, node, State::Away);
            self.tree.count_ready(node, -1);
            self.settle(node);
        }
    }

    /// The class's policy waits for a better batch: leave it out until then, or until it is `ready`
    /// again. It keeps its turn, and of what it is behind in virtual time at most one quantum. With
    /// `Timestamp(u64::MAX)` it is the store that has no room for it: its reservation goes on.
    pub fn hold(&mut self, now: Timestamp, class: ClassId, until: Timestamp) {
        debug_assert!(until > now, "a policy waits into the past");
        let Some(node) = self.find(class) else { return };
        self.picked = None;
        if self.tree.nodes[node].family.ready > 0 {
            let until = until.max(now + Nanos(1));
            self.tree.leave(now, node, State::Held { until });
            self.tree.nodes[node].stats.held += 1;
        }
    }

    /// Says whose turn it is. Asked again without a change in between, it answers the same.
    pub fn pick(&mut self, now: Timestamp) -> Pick {
        self.tree.wake(now);
        self.picked = self.choose(now);
        if self.picked.is_none() {
            self.picked = self.borrower(now).map(|node| (node, Phase::Borrowed));
        }
        if let Some((node, _)) = self.picked {
            let Name::Class(class) = self.tree.nodes[node].name else {
                unreachable!("only classes are picked");
            };
            return Pick::Class(class);
        }
        if self.tree.nodes[ROOT].family.ready == 0 {
            return Pick::Idle;
        }
        let waits = [self.tree.first_wake(), self.windowed(now).and_then(|first| first.err()?)];
        let until = waits.into_iter().flatten().min();
        Pick::Wait {
            until: until.expect("who is ready and not picked sleeps or waits for a window"),
        }
    }

    /// Charges a class for what was dispatched, picked or not.
    ///
    /// What was not picked is charged to the weight: it delays the class's next turn, and its limits
    /// take it as debt.
    pub fn charge(&mut self, now: Timestamp, class: ClassId, work: Work) {
        let cost = self.tree.settings.cost.cost(work);
        let node = self.class_node(class);
        let phase = match self.picked.take() {
            Some((picked, phase)) if picked == node => phase,
            _ => Phase::Weight,
        };
        for at in self.tree.line(node) {
            let this = &mut self.tree.nodes[at];
            this.buckets.take(now, units(work, cost));
            if phase == Phase::Borrowed && matches!(this.state, State::Throttled { .. }) {
                this.buckets.forgive(now, BORROWED_MAX);
            }
            this.stats.batches += 1;
            this.stats.requests += u64::from(work.requests);
            this.stats.bytes += work.bytes;
            this.stats.cost = this.stats.cost.saturating_add(cost);
            this.stats.reserved += u64::from(phase == Phase::Reserved);
            this.stats.borrowed += u64::from(phase == Phase::Borrowed);
            this.family.in_flight += work.requests;
            if phase != Phase::Reserved {
                self.tree.spend(at, cost);
            }
            self.tree.refile_sleeper(now, at);
        }
        self.tree.nodes[ROOT].family.in_flight += work.requests;
        if phase == Phase::Reserved {
            let load = self.load();
            self.tree.nodes[node].reservation.spend(now, cost, load);
            self.tree.refile_due(node);
        }
        self.sweep(now);
    }

    /// So many requests of the class, charged before, have ended.
    pub fn complete(&mut self, now: Timestamp, class: ClassId, requests: u32) {
        let Some(node) = self.find(class) else {
            debug_assert!(false, "a class with requests in flight is not forgotten");
            return;
        };
        for at in self.tree.line(node).chain(core::iter::once(ROOT)) {
            let family = &mut self.tree.nodes[at].family;
            debug_assert!(family.in_flight >= requests, "what ends was charged");
            family.in_flight = family.in_flight.saturating_sub(requests);
        }
        self.settle(node);
        self.sweep(now);
    }

    /// Corrects a charge once it is known what it was for: an append's length, a short read, a
    /// failure. `charged` is what was given to [`charge`](Shares::charge).
    pub fn amend(&mut self, now: Timestamp, class: ClassId, charged: Work, actual: Work) {
        let model = self.tree.settings.cost;
        let Some(node) = self.find(class) else { return };
        let (before, after) = (model.cost(charged), model.cost(actual));
        for at in self.tree.line(node) {
            let this = &mut self.tree.nodes[at];
            this.buckets.correct(now, units(charged, before), units(actual, after));
            this.stats.bytes = this.stats.bytes + actual.bytes - charged.bytes;
            this.stats.cost = this.stats.cost.saturating_add(after).saturating_sub(before);
            if after > before {
                self.tree.spend(at, after - before);
            } else {
                self.tree.give_back(at, before - after);
            }
            self.tree.refile_sleeper(now, at);
        }
        self.settle(node);
    }

    /// Whether limits and windows would let the class dispatch now; a question for what does not
    /// wait to be picked. It says nothing about turns.
    pub fn admits(&self, now: Timestamp, class: ClassId) -> bool {
        match self.tree.settings.discipline {
            // It would be of the window that is on.
            Discipline::Sw(windows) if windows.is_strict => return false,
            Discipline::Twins(twins) if twins.target_at(now) != class.0 % twins.targets => {
                return false;
            }
            _ => {}
        }
        let Some(node) = self.find(class) else { return true };
        self.tree.line(node).all(|at| self.conforms(now, at))
    }

    /// How many requests are charged and not completed.
    pub fn in_flight_count(&self) -> u32 {
        self.tree.nodes[ROOT].family.in_flight
    }

    /// How many classes, groups and windows are known, those included that are about to be forgotten.
    pub fn known_count(&self) -> usize {
        self.tree.names.len()
    }

    /// What the class has had; `None` if it is not known.
    pub fn stats(&self, now: Timestamp, class: ClassId) -> Option<ShareStats> {
        self.find(class).map(|node| self.tree.nodes[node].stats_at(now))
    }

    /// Throttled time of the class since this was asked last.
    pub(crate) fn take_throttled(&mut self, now: Timestamp, class: ClassId) -> Nanos {
        let time = self.untaken_throttled(now, class);
        if let Some(node) = self.find(class) {
            self.tree.nodes[node].throttled_taken += time;
        }
        time
    }

    /// The same, to be asked again.
    pub(crate) fn untaken_throttled(&self, now: Timestamp, class: ClassId) -> Nanos {
        self.find(class).map_or(Nanos::ZERO, |node| {
            let node = &self.tree.nodes[node];
            node.stats_at(now).throttled_time - node.throttled_taken
        })
    }

    /// What the group has had, all its classes together; `None` if it is not known.
    pub fn group_stats(&self, now: Timestamp, group: GroupId) -> Option<ShareStats> {
        let node = self.tree.names.get(Name::Group(group))?;
        Some(self.tree.nodes[node].stats_at(now))
    }

    /// For how long the reservation that is due first has been due, of the classes that have something
    /// to dispatch.
    pub fn overdue(&self, now: Timestamp) -> Nanos {
        self.tree.first_due(ROOT).map_or(Nanos::ZERO, |(due, _)| now - due)
    }

    /// What is promised of the device.
    pub fn reserved(&self) -> Reserved {
        let load = self.load();
        let total = u64::try_from(load.total).unwrap_or(u64::MAX);
        Reserved { total, is_overcommitted: load.is_overcommitted() }
    }
}

/// What the three limits count.
fn units(work: Work, cost: u64) -> [u64; 3] {
    [u64::from(work.requests), work.bytes.0, cost]
}

/// A broken setting is a mistake of the program around, not of its user.
fn check(settings: &SharingSettings) {
    assert!(settings.quantum > 0, "quantum is at least 1");
    assert!(settings.lend_below > 0, "lend_below is at least 1");
    match settings.discipline {
        Discipline::Twins(twins) => {
            assert!(twins.window > Nanos::ZERO, "a window has a length");
            assert!(twins.targets > 0, "there is at least one target");
        }
        Discipline::Sw(windows) => windows.check(),
        Discipline::Sfq | Discipline::Drr => {}
    }
}

impl Shares {
    #[cfg(test)]
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    #[cfg(test)]
    pub(super) fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Where windows decide: who may go, limits not looked at, or when somebody may.
    fn windowed(&mut self, now: Timestamp) -> Option<Result<NodeIndex, Option<Timestamp>>> {
        match self.tree.settings.discipline {
            Discipline::Sfq | Discipline::Drr => None,
            Discipline::Twins(twins) => Some(self.window(now, &twins)),
            Discipline::Sw(windows) => {
                let Some((tag, node)) = self.tree.first_child(ROOT) else {
                    return Some(Err(None));
                };
                Some(match windows.wait_of(now, sw::window_of(tag)) {
                    Some(until) => Err(Some(until)),
                    None => Ok(node),
                })
            }
        }
    }

    fn load(&self) -> Load {
        Load { total: self.reserved, capacity: self.tree.settings.capacity }
    }

    fn find(&self, class: ClassId) -> Option<NodeIndex> {
        self.tree.find(class)
    }

    /// The class's node; made if need be.
    fn class_node(&mut self, class: ClassId) -> NodeIndex {
        let node = self.find(class).unwrap_or_else(|| {
            let parent = self.parent_for(class, None);
            self.tree.insert(Name::Class(class), parent)
        });
        self.tree.recent.note(class, node);
        node
    }

    fn parent_for(&mut self, class: ClassId, group: Option<GroupId>) -> NodeIndex {
        self.tree.parent_for(class, group)
    }

    fn configure_node(&mut self, now: Timestamp, node: NodeIndex, share: Share) {
        // What was picked was picked under the old share.
        self.picked = None;
        self.tree.reweigh(node, share.weight);
        let this = &mut self.tree.nodes[node];
        let was_soft = this.is_soft();
        this.share = share;
        this.buckets.configure(now, &share);
        self.tree.refile_sleeper(now, node);
        let this = &self.tree.nodes[node];
        if !this.is_class() && this.is_soft() != was_soft {
            self.tree.refile_children(now, node);
        }
    }

    fn remove_name(&mut self, now: Timestamp, name: Name) -> Option<ShareStats> {
        let node = self.tree.names.get(name)?;
        let stats = self.tree.nodes[node].stats_at(now);
        self.tree.nodes[node].is_leaving = true;
        self.tree.list_leaving(node);
        self.sweep(now);
        Some(stats)
    }

    /// Forgets a few nodes that are leaving and owe nothing.
    fn sweep(&mut self, now: Timestamp) {
        for _ in 0..2 {
            if self.tree.leaving.is_empty() {
                return;
            }
            if let Some(gone) = self.tree.sweep_one(now) {
                self.reserved -= u128::from(gone.reservation.per_second);
                self.picked = None;
            }
        }
    }

    fn settle(&mut self, node: NodeIndex) {
        let parent = self.tree.nodes[node].parent;
        self.tree.settle(parent);
        self.tree.settle(ROOT);
    }

    fn conforms(&self, now: Timestamp, node: NodeIndex) -> bool {
        self.tree.nodes[node].buckets.free_at() <= now
    }

    /// The node's turn has come and a limit holds it back.
    fn throttle(&mut self, now: Timestamp, node: NodeIndex) {
        let until = self.tree.nodes[node].buckets.free_at();
        self.tree.nodes[node].stats.throttled += 1;
        self.tree.leave(now, node, State::Throttled { until, since: now });
    }

    /// Whose turn it is within the limits; whoever is found beyond one goes to sleep.
    fn choose(&mut self, now: Timestamp) -> Option<(NodeIndex, Phase)> {
        loop {
            let (mut node, phase) = self.first(now)?;
            if self.conforms(now, node) && !self.tree.nodes[node].is_class() {
                let child = match phase {
                    Phase::Reserved => self.tree.first_due(node).map(|(_, child)| child),
                    _ => self.tree.first_child(node).map(|(_, child)| child),
                };
                node = child.expect("a group in the order has a child in the order");
            }
            if !self.conforms(now, node) {
                self.throttle(now, node);
            } else {
                return Some((node, phase));
            }
        }
    }

    /// Whose turn it is at the top, limits not looked at.
    fn first(&mut self, now: Timestamp) -> Option<(NodeIndex, Phase)> {
        if let Some(first) = self.windowed(now) {
            return first.ok().map(|node| (node, Phase::Weight));
        }
        match self.tree.first_due(ROOT) {
            Some((at, node)) if at <= now => Some((node, Phase::Reserved)),
            _ => self.tree.first_child(ROOT).map(|(_, node)| (node, Phase::Weight)),
        }
    }

    /// The server that may go, or when the next one may.
    fn window(
        &mut self,
        now: Timestamp,
        twins: &TwinsSettings,
    ) -> Result<NodeIndex, Option<Timestamp>> {
        let target = twins.target_at(now);
        let next = self.tree.child_from(ROOT, u128::from(target));
        let Some((tag, node)) = next.or_else(|| self.tree.first_child(ROOT)) else {
            return Err(None);
        };
        if tag == u128::from(target) {
            return Ok(node);
        }
        let turn = twins.next_start(now, tag as u32);
        let WindowIdle::LendAfter(idle) = twins.idle else { return Err(Some(turn)) };
        let owner = self.tree.names.get(Name::Window(target));
        let since = owner.map_or(Timestamp(0), |owner| self.tree.nodes[owner].since);
        let lent = since.max(twins.window_start(now)) + idle;
        if lent <= now { Ok(node) } else { Err(Some(lent.min(turn))) }
    }

    /// Who goes on credit: a class at a soft limit, while the device would idle.
    fn borrower(&mut self, now: Timestamp) -> Option<NodeIndex> {
        if self.in_flight_count() >= self.tree.settings.lend_below {
            return None;
        }
        loop {
            let node = self.tree.first_borrower()?;
            if self.tree.nodes[node].is_class() {
                return Some(node);
            }
            let Some((_, child)) = self.tree.first_child(node) else {
                self.tree.leave(now, node, State::Away);
                continue;
            };
            if self.conforms(now, child) || self.tree.nodes[child].is_soft() {
                return Some(child);
            }
            self.throttle(now, child);
        }
    }
}

impl Node {
    /// The counters, with the time of a throttling that is on.
    fn stats_at(&self, now: Timestamp) -> ShareStats {
        let mut stats = self.stats;
        if let State::Throttled { since, .. } = self.state {
            stats.throttled_time += now - since;
        }
        stats
    }
}
