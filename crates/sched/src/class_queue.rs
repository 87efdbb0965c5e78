//! What waits of one class and may go: its policy, and its part of the lane.
//!
//! Without sharing there is one such queue for all requests.
//!
//! # Who goes first, policy or lane
//!
//! Whoever has dispatched fewer bytes since both had something to do; the lane on a tie. While
//! both stay busy the lane is ahead by at most one lane request and behind by at most one batch,
//! so neither starves the other. A policy that waits loses what it was behind.
//!
//! # Windows of arrival
//!
//! Where classes share by SW, policy and lane have requests of one window at a time; what came in
//! later ones waits outside until both are empty. So whatever the policy does, all of a window
//! leaves before the next, and what the class has queued need not be searched for its oldest. What
//! the guard releases after its window was let in goes first, alone, in the order of arrival.
//!
//! # Names
//!
//! Policies keep what they know about a request in arrays by slot, the low half of its id. With
//! many classes each would need an array as long as all classes together. So a policy then knows
//! its requests under slots of its own, as few as its class ever had at a time.

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_units::{Bytes, Nanos, Timestamp};

use crate::arm::Arm;
use crate::lane::{Lane, charge};
use crate::ordered_map::OrderedMap;
use crate::policies::checked::Fault;
use crate::policies::sw::SwSettings;
use crate::policy::{Policy, Requests, Selection};
use crate::request::{Accepted, Access, RequestId};
use crate::table::{State, Table, slot_of};

/// Ready requests of one class.
pub(crate) struct ClassQueue {
    policy: Box<dyn Policy>,
    lane: Lane,
    in_policy: usize,
    /// Bytes by which the lane is ahead of the policy since both had something to do.
    lane_lead_bytes: i64,
    waiting_since: Option<Timestamp>,
    names: Names,
    /// What the policy has just chosen.
    selected: Vec<RequestId>,
    /// The windows by which requests are let in, under SW.
    windows: Option<SwSettings>,
    /// When one of those came that policy and lane have: all of them came in one window.
    inside: Timestamp,
    /// What came in other windows, by `seq`; nothing while policy and lane have nothing.
    outside: OrderedMap<u64, Outside>,
}

/// A request that policy and lane do not know.
#[derive(Clone, Copy, Debug)]
struct Outside {
    slot: u32,
    arrived: Timestamp,
    is_for_lane: bool,
}

/// Whether the lane takes part in a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneView {
    Open,
    Closed,
}

/// What one queue answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The policy's batch.
    Policy,
    /// One request of the lane.
    Lane,
    /// The policy waits.
    Wait { until: Timestamp },
    /// Nothing in view.
    Idle,
}

impl ClassQueue {
    pub(crate) fn new(policy: Box<dyn Policy>, names: Names) -> Self {
        Self {
            policy,
            lane: Lane::default(),
            in_policy: 0,
            lane_lead_bytes: 0,
            waiting_since: None,
            names,
            selected: Vec::new(),
            windows: None,
            inside: Timestamp(0),
            outside: OrderedMap::new(),
        }
    }

    /// The same, with requests let in window by window; it is empty.
    pub(crate) fn with_windows(self, windows: Option<SwSettings>) -> Self {
        Self { windows, ..self }
    }

    pub(crate) fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// What the policy did wrong, if it has been replaced for that.
    pub(crate) fn policy_fault(&self) -> Option<Fault> {
        self.policy.fault()
    }

    /// Requests that may go, those of other windows included.
    pub(crate) fn ready_count(&self) -> usize {
        self.inside_count() + self.outside.len()
    }

    /// Requests that may go and are in view, without those of later windows.
    pub(crate) fn count_in_view(&self, lane: LaneView) -> usize {
        match self.late() {
            Some((_, late)) => usize::from(lane == LaneView::Open || !late.is_for_lane),
            None if lane == LaneView::Open => self.inside_count(),
            None => self.in_policy,
        }
    }

    /// Under SW: when the oldest request came that it has, or another one of the same window.
    pub(crate) fn front(&self) -> Option<Timestamp> {
        let has_some = self.windows.is_some() && self.inside_count() > 0;
        has_some.then(|| self.late().map_or(self.inside, |(_, late)| late.arrived))
    }

    fn inside_count(&self) -> usize {
        self.in_policy + self.lane.count()
    }

    /// The oldest request of those whose window was over here when the guard released them.
    fn late(&self) -> Option<(u64, Outside)> {
        let (windows, first) = (self.windows?, self.outside.first()?);
        let is_earlier = windows.window_of(first.1.arrived) < windows.window_of(self.inside);
        is_earlier.then_some(first)
    }

    /// Takes a ready request into the policy.
    pub(crate) fn add(&mut self, now: Timestamp, table: &mut Table, slot: u32) {
        table.set_state(slot, State::InPolicy);
        self.take_in(now, table, slot);
    }

    /// Takes a ready request into the lane.
    pub(crate) fn add_to_lane(&mut self, now: Timestamp, table: &mut Table, slot: u32) {
        table.set_state(slot, State::InLane);
        self.take_in(now, table, slot);
    }

    /// Lets a request in that has its state; if it came in another window, it stays outside.
    fn take_in(&mut self, now: Timestamp, table: &mut Table, slot: u32) {
        if let Some(windows) = self.windows {
            let arrived = table.arrived(slot);
            if self.inside_count() == 0 {
                self.inside = arrived;
            } else if windows.window_of(arrived) != windows.window_of(self.inside) {
                let is_for_lane = table.state(slot) == State::InLane;
                self.outside.insert(table.seq(slot), Outside { slot, arrived, is_for_lane });
                return;
            }
        }
        self.let_in(now, table, slot);
    }

    fn let_in(&mut self, now: Timestamp, table: &mut Table, slot: u32) {
        if table.state(slot) == State::InLane {
            self.lane.insert(&table.accepted(slot));
            return;
        }
        self.in_policy += 1;
        let accepted = self.names.give(table, slot);
        self.policy.add(now, &self.names.requests(table), &accepted);
    }

    /// Once policy and lane have nothing left, they get the next window.
    fn open_next(&mut self, now: Timestamp, table: &mut Table) {
        if self.outside.is_empty() || self.inside_count() > 0 {
            return;
        }
        let Some(windows) = self.windows else { return };
        self.inside = self.outside.first().map_or(self.inside, |(_, next)| next.arrived);
        while let Some((seq, next)) = self.outside.first()
            && windows.window_of(next.arrived) == windows.window_of(self.inside)
        {
            self.outside.remove(seq);
            self.let_in(now, table, next.slot);
        }
    }

    /// Decides what goes next; puts it in flight and into `batch`, which is empty on entry.
    pub(crate) fn select(
        &mut self,
        now: Timestamp,
        table: &mut Table,
        lane: LaneView,
        arm: &Arm,
        batch: &mut Vec<Accepted>,
    ) -> Turn {
        if let Some((seq, late)) = self.late() {
            self.outside.remove(seq);
            table.set_state(late.slot, State::InFlightSkipped);
            batch.push(table.accepted(late.slot));
            return Turn::Lane;
        }
        let turn = self.decide(now, table, lane, arm, batch);
        self.open_next(now, table);
        turn
    }

    fn decide(
        &mut self,
        now: Timestamp,
        table: &mut Table,
        lane: LaneView,
        arm: &Arm,
        batch: &mut Vec<Accepted>,
    ) -> Turn {
        let lane = if lane == LaneView::Open { self.lane.count() } else { 0 };
        if lane == 0 || self.in_policy == 0 {
            self.lane_lead_bytes = 0;
        }
        if lane > 0 && (self.in_policy == 0 || self.lane_lead_bytes <= 0) {
            return self.dispatch_from_lane(table, arm, batch);
        }
        if self.in_policy == 0 {
            return Turn::Idle;
        }
        self.selected.clear();
        match self.policy.select(now, &self.names.requests(table), &mut self.selected) {
            Selection::Batch => self.dispatch_from_policy(table, batch),
            Selection::Wait { .. } if lane > 0 => {
                self.lane_lead_bytes = 0;
                self.dispatch_from_lane(table, arm, batch)
            }
            Selection::Wait { until } => {
                debug_assert!(until > now, "a policy waits into the past");
                self.waiting_since = Some(now);
                Turn::Wait { until }
            }
            Selection::Idle => unreachable!("{} is idle with requests queued", self.policy.name()),
        }
    }

    /// How long the wait was that this question ends, if there was one.
    pub(crate) fn end_wait(&mut self, now: Timestamp) -> Option<Nanos> {
        self.waiting_since.take().map(|since| now - since)
    }

    fn dispatch_from_lane(
        &mut self,
        table: &mut Table,
        arm: &Arm,
        batch: &mut Vec<Accepted>,
    ) -> Turn {
        let end_of = |file| arm.end_of(file);
        let accepted =
            self.lane.pop(table, arm.last_file(), end_of).expect("the lane is not empty");
        self.lead(charge(&accepted), Turn::Lane);
        table.set_state(slot_of(accepted.id), State::InFlightSkipped);
        batch.push(accepted);
        Turn::Lane
    }

    fn dispatch_from_policy(&mut self, table: &mut Table, batch: &mut Vec<Accepted>) -> Turn {
        let mut bytes = Bytes::ZERO;
        for name in &self.selected {
            let slot = self.names.slot(*name);
            table.set_in_flight_by_policy(slot);
            let accepted = table.accepted(slot);
            bytes += accepted.request.range.length();
            batch.push(accepted);
        }
        self.in_policy -= batch.len();
        self.lead(bytes, Turn::Policy);
        Turn::Policy
    }

    fn lead(&mut self, bytes: Bytes, side: Turn) {
        let bytes = i64::try_from(bytes.0).unwrap_or(i64::MAX);
        self.lane_lead_bytes = match side {
            Turn::Lane => self.lane_lead_bytes.saturating_add(bytes),
            _ => self.lane_lead_bytes.saturating_sub(bytes),
        };
    }

    /// Notes that a request of this class in flight has ended.
    pub(crate) fn complete(
        &mut self,
        now: Timestamp,
        table: &Table,
        accepted: &Accepted,
        state: State,
        moved: Bytes,
    ) {
        if state == State::InFlightByPolicy {
            match self.names {
                Names::Same => self.policy.complete(now, accepted, moved),
                Names::Own { .. } => {
                    let slot = slot_of(accepted.id);
                    self.policy.complete(now, &self.names.named(table, slot), moved);
                    self.names.take_back(table, slot);
                }
            }
        }
        if accepted.request.access == Access::Alone {
            // How much an append moves is known only now, so it is charged now.
            self.lead(moved, Turn::Lane);
        }
    }

    /// Takes out a request that is ready and has not left.
    pub(crate) fn remove(&mut self, now: Timestamp, table: &mut Table, slot: u32) {
        if self.outside.remove(table.seq(slot)).is_some() {
            return;
        }
        if table.state(slot) == State::InLane {
            self.lane.remove(&table.accepted(slot));
        } else {
            let named = self.names.named(table, slot);
            let was_queued = self.policy.cancel(now, &self.names.requests(table), &named);
            assert!(was_queued, "{} has lost a request", self.policy.name());
            self.names.take_back(table, slot);
            self.in_policy -= 1;
        }
        self.open_next(now, table);
    }

    /// Forgets everything that waits; the caller has the requests.
    pub(crate) fn clear(&mut self, table: &mut Table) {
        let mut names = Vec::new();
        self.policy.drain(&self.names.requests(table), &mut names);
        for name in names {
            self.names.take_back(table, self.names.slot(name));
        }
        self.lane.clear();
        self.outside.clear();
        self.in_policy = 0;
    }

    /// Lets requests in by other windows from now on. `slots` is all that it has, in the order of
    /// arrival.
    pub(crate) fn set_windows(
        &mut self,
        now: Timestamp,
        table: &mut Table,
        windows: Option<SwSettings>,
        slots: &[u32],
    ) {
        debug_assert_eq!(slots.len(), self.ready_count(), "all that it has");
        self.clear(table);
        self.windows = windows;
        for &slot in slots {
            self.take_in(now, table, slot);
        }
    }

    /// Puts another policy in charge, with everything that the old one held, and returns the old
    /// one. What the old one has in flight is the caller's to mark.
    pub(crate) fn switch(
        &mut self,
        now: Timestamp,
        table: &Table,
        policy: Box<dyn Policy>,
    ) -> Box<dyn Policy> {
        debug_assert_eq!(policy.queued_count(), 0, "the new policy starts empty");
        let mut old = core::mem::replace(&mut self.policy, policy);
        let mut queued = Vec::with_capacity(self.in_policy);
        let held = self.names.requests(table);
        old.drain(&held, &mut queued);
        debug_assert!(queued.is_sorted_by_key(|name| table.seq(self.names.slot(*name))));
        for name in queued {
            self.policy.add(now, &held, &self.names.named(table, self.names.slot(name)));
        }
        old
    }

    /// Lets go of the name of a request in flight that its policy will hear nothing of any more.
    pub(crate) fn disown(&mut self, table: &mut Table, slot: u32) {
        self.names.take_back(table, slot);
        table.set_state(slot, State::InFlightSkipped);
    }

    pub(crate) fn retire(&mut self, file: forebay_units::FileIndex) {
        self.policy.retire(file);
    }
}

/// How a policy calls its requests.
#[derive(Debug)]
pub(crate) enum Names {
    /// As everybody does.
    Same,
    /// By slots of its own.
    Own {
        /// By name: the slot.
        slots: Vec<u32>,
        free: Vec<u32>,
    },
}

impl Names {
    pub(crate) const fn own() -> Self {
        Self::Own { slots: Vec::new(), free: Vec::new() }
    }

    /// Names a request, and returns it under that name.
    fn give(&mut self, table: &mut Table, slot: u32) -> Accepted {
        if let Self::Own { slots, free } = self {
            let name = match free.pop() {
                Some(name) => {
                    slots[name as usize] = slot;
                    name
                }
                None => {
                    slots.push(slot);
                    // Room for taking everything back is made now, so that that never allocates.
                    free.reserve(slots.capacity());
                    slots.len() as u32 - 1
                }
            };
            table.set_name(slot, name);
        }
        self.named(table, slot)
    }

    /// A request under its name.
    fn named(&self, table: &Table, slot: u32) -> Accepted {
        let accepted = table.accepted(slot);
        match self {
            Self::Same => accepted,
            Self::Own { .. } => {
                let id = accepted.id.0 >> 32 << 32 | u64::from(table.name(slot));
                Accepted { id: RequestId(id), ..accepted }
            }
        }
    }

    /// What the policy may look up.
    fn requests<'a>(&'a self, table: &'a Table) -> Requests<'a> {
        match self {
            Self::Same => Requests::new(table, None),
            Self::Own { slots, .. } => Requests::new(table, Some(slots)),
        }
    }

    fn slot(&self, name: RequestId) -> u32 {
        match self {
            Self::Same => slot_of(name),
            Self::Own { slots, .. } => slots[slot_of(name) as usize],
        }
    }

    fn take_back(&mut self, table: &Table, slot: u32) {
        if let Self::Own { free, .. } = self {
            free.push(table.name(slot));
        }
    }
}
