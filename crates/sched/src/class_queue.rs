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
use crate::policies::checked::Fault;
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
        }
    }

    pub(crate) fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// What the policy did wrong, if it has been replaced for that.
    pub(crate) fn policy_fault(&self) -> Option<Fault> {
        self.policy.fault()
    }

    /// Requests that may go.
    pub(crate) fn ready_count(&self) -> usize {
        self.in_policy + self.lane.count()
    }

    /// Requests that may go and are in view.
    pub(crate) fn count_in_view(&self, lane: LaneView) -> usize {
        if lane == LaneView::Open { self.ready_count() } else { self.in_policy }
    }

    /// Takes a ready request into the policy.
    pub(crate) fn add(&mut self, now: Timestamp, table: &mut Table, slot: u32) {
        table.set_state(slot, State::InPolicy);
        self.in_policy += 1;
        let accepted = self.names.give(table, slot);
        self.policy.add(now, &self.names.requests(table), &accepted);
    }

    /// Takes a ready request into the lane.
    pub(crate) fn add_to_lane(&mut self, table: &mut Table, slot: u32) {
        table.set_state(slot, State::InLane);
        self.lane.insert(&table.accepted(slot));
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
        if table.state(slot) == State::InLane {
            self.lane.remove(&table.accepted(slot));
            return;
        }
        let named = self.names.named(table, slot);
        let was_queued = self.policy.cancel(now, &self.names.requests(table), &named);
        assert!(was_queued, "{} has lost a request", self.policy.name());
        self.names.take_back(table, slot);
        self.in_policy -= 1;
    }

    /// Forgets everything that waits; the caller has the requests.
    pub(crate) fn clear(&mut self, table: &mut Table) {
        let mut names = Vec::new();
        self.policy.drain(&self.names.requests(table), &mut names);
        for name in names {
            self.names.take_back(table, self.names.slot(name));
        }
        self.lane.clear();
        self.in_policy = 0;
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
