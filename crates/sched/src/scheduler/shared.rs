//! Decisions among classes: whose turn it is, and who goes in another one's turn.
//!
//! # Boosts
//!
//! A request of one class may hold up those of another, since conflicting requests keep their
//! order whoever sent them. If its own class then has to stand back, the other one would too, and
//! its share would mean nothing. So in the turn of a class with blocked requests, a ready request
//! that holds one of them up, directly or through others, leaves first, alone, if its class is
//! held back by a limit, waits, or has the smaller weight. It is charged to its own class, as debt:
//! nothing is free, and the class whose turn it was has not used it.
//!
//! Chains are followed [`DEPTH_MAX`] deep, and no more than so many steps at a time, so that
//! a decision stays cheap. What is not found waits for its own class's turn, as without boosts.
//! Of the writes that a sync waits for, only those that conflict with nothing themselves are found.
//! With TWINS and SW there are none: the window of the class in front comes in any case.

use forebay_units::{ClassId, Timestamp};

use crate::answer::Decision;
use crate::batch::Batch;
use crate::class_queue::{LaneView, Turn};
use crate::classes::Classes;
use crate::request::RequestId;
use crate::scheduler::Scheduler;
use crate::sharing::Pick;
use crate::table::State;

/// How long a chain of requests that hold each other up is followed.
const DEPTH_MAX: u32 = 8;
/// Steps of one search.
const STEPS_MAX: usize = 32;
/// Blocked requests of a class that are looked at in one decision, the oldest first.
const WAITERS_MAX: usize = 4;
/// Classes with blocked requests that are looked at in one decision beside the one whose turn it is.
const CLASSES_MAX: usize = 8;
/// The end of a wait that only this decision makes.
const NEVER: Timestamp = Timestamp(u64::MAX);

impl Classes {
    /// Under SW: when the oldest came that a class has.
    pub(super) fn note_front(&mut self, index: u16, front: Option<Timestamp>) {
        if let Some(front) = front {
            self.shares.front(self.of(index).id, front);
        }
    }
}

impl Scheduler {
    pub(super) fn classes_mut(&mut self) -> &mut Classes {
        self.classes.as_deref_mut().expect("asked only where there are classes")
    }

    pub(super) fn decide_shared(
        &mut self,
        now: Timestamp,
        batch: &mut Batch,
        lane: LaneView,
    ) -> Decision {
        self.classes_mut().latest = now;
        if lane == LaneView::Open {
            self.classes_mut().open_lane(now);
        }
        self.seek_boosts(now, lane);
        loop {
            match self.classes_mut().shares.pick(now) {
                Pick::Class(class) => {
                    if self.take_turn(now, class, batch, lane) {
                        return Decision::Dispatch;
                    }
                }
                Pick::Wait { until } if until < NEVER => return Decision::Wait { until },
                Pick::Wait { .. } | Pick::Idle => return Decision::Idle,
            }
        }
    }

    /// Lets a class dispatch; if it does not, it is not picked again before something has changed.
    fn take_turn(
        &mut self,
        now: Timestamp,
        class: ClassId,
        batch: &mut Batch,
        lane: LaneView,
    ) -> bool {
        let index = self.classes_mut().find(class).expect("a class that has something has a place");
        self.classes_mut().of_mut(index).is_held = false;
        if let Some(slot) = self.find_boost(now, index, lane) {
            self.boost(now, slot, batch);
            return true;
        }
        let queue = &self.queues[usize::from(index)];
        if queue.ready_count() == 0 {
            // It was there for a boost that is not needed any more.
            self.classes_mut().rest(now, index);
            return false;
        }
        let is_all_in_view = queue.count_in_view(lane) == queue.count_in_view(LaneView::Open);
        if queue.count_in_view(lane) == 0 {
            self.classes_mut().hold(now, index, NEVER);
            self.classes_mut().leave_aside(index);
            return false;
        }
        match self.select(now, index, lane, batch) {
            Turn::Wait { until } => {
                self.classes_mut().hold(now, index, until);
                if !is_all_in_view {
                    self.classes_mut().leave_aside(index);
                }
            }
            Turn::Idle => unreachable!("a class in view has something"),
            Turn::Lane | Turn::Policy => {
                self.note_throttling(now, index);
                self.classes_mut().charge(now, index, &batch.members);
                self.settle(now, index);
                return true;
            }
        }
        false
    }

    /// Tells the shares what a removal has left of a class.
    pub(super) fn settle(&mut self, now: Timestamp, index: u16) {
        let queue = &self.queues[usize::from(index)];
        let (ready, front) = (queue.ready_count(), queue.front());
        let Some(classes) = &mut self.classes else { return };
        classes.note_front(index, front);
        let class = classes.of(index);
        if ready == 0 && class.is_ready {
            classes.rest(now, index);
            self.note_throttling(now, index);
        } else if ready > 0 && class.is_held {
            classes.wake(now, index);
        }
    }

    /// Notes a request that is blocked.
    pub(super) fn note_waiter(&mut self, index: u16, id: RequestId) {
        let Some(classes) = &mut self.classes else { return };
        let class = classes.of_mut(index);
        class.blocked += 1;
        class.counts.blocked += 1;
        if class.waiters.len() > 2 * class.blocked + 16 {
            let table = &self.table;
            class.waiters.retain(|id| table.find_blocked(*id).is_some());
        }
        class.waiters.push_back(id);
        if !core::mem::replace(&mut class.is_wanting, true) {
            classes.wanting.push_back(index);
        }
    }

    /// Gives a turn to classes that have nothing ready, but something to boost.
    fn seek_boosts(&mut self, now: Timestamp, lane: LaneView) {
        for _ in 0..self.classes_mut().wanting.len().min(CLASSES_MAX) {
            let Some(index) = self.classes_mut().wanting.pop_front() else { return };
            if !self.classes_mut().of(index).is_ready && self.find_boost(now, index, lane).is_some()
            {
                self.classes_mut().wake(now, index);
            }
            let class = self.classes_mut().of_mut(index);
            class.is_wanting = !class.waiters.is_empty();
            if class.is_wanting {
                self.classes_mut().wanting.push_back(index);
            }
        }
    }

    /// A ready request that holds up one of the class's, and whose own class has to stand back.
    fn find_boost(&mut self, now: Timestamp, index: u16, lane: LaneView) -> Option<u32> {
        let classes = self.classes.as_deref_mut()?;
        if classes.shares.settings().discipline.has_windows() {
            return None;
        }
        let waiters = &mut classes.of_mut(index).waiters;
        while waiters.front().is_some_and(|id| self.table.find_blocked(*id).is_none()) {
            waiters.pop_front();
        }
        let mut steps = STEPS_MAX;
        for at in 0..WAITERS_MAX {
            let id = *self.classes.as_deref()?.of(index).waiters.get(at)?;
            if let Some(slot) = self.table.find_blocked(id)
                && let Some(found) = self.search(now, index, slot, lane, &mut steps)
            {
                return Some(found);
            }
        }
        None
    }

    /// Follows who holds up `slot`, depth first.
    fn search(
        &mut self,
        now: Timestamp,
        index: u16,
        slot: u32,
        lane: LaneView,
        steps: &mut usize,
    ) -> Option<u32> {
        let mut chain = core::mem::take(&mut self.chain);
        chain.clear();
        chain.push((slot, 0));
        let mut blockers = core::mem::take(&mut self.blockers);
        let mut found = None;
        while let Some((slot, depth)) = chain.pop() {
            blockers.clear();
            self.guard.blockers(&self.table, slot, *steps, &mut blockers);
            for &blocker in &blockers {
                *steps = steps.saturating_sub(1);
                match self.table.state(blocker) {
                    State::InPolicy => found = Some(blocker),
                    State::InLane if lane == LaneView::Open => found = Some(blocker),
                    State::Blocked | State::Tombstone if depth + 1 < DEPTH_MAX => {
                        chain.push((blocker, depth + 1));
                    }
                    _ => {}
                }
                found = found.filter(|found| self.stands_back(now, index, *found));
                if found.is_some() {
                    break;
                }
            }
            if found.is_some() || *steps == 0 {
                break;
            }
        }
        (self.chain, self.blockers) = (chain, blockers);
        found
    }

    /// Whether a request's class has to stand back although `index` would go.
    fn stands_back(&self, now: Timestamp, index: u16, slot: u32) -> bool {
        let owner = self.table.class_index(slot);
        let Some(classes) = self.classes.as_deref() else { return false };
        let other = classes.of(owner);
        owner != index
            && (other.is_held
                || other.weight() < classes.of(index).weight()
                || !classes.admits(now, owner))
    }

    /// Dispatches a ready request alone, in another class's turn.
    fn boost(&mut self, now: Timestamp, slot: u32, batch: &mut Batch) {
        let owner = self.table.class_index(slot);
        self.queues[usize::from(owner)].remove(now, &mut self.table, slot);
        self.table.set_state(slot, State::InFlightSkipped);
        batch.members.push(self.table.accepted(slot));
        self.note_batch(now, Turn::Lane, batch);
        self.classes_mut().charge(now, owner, &batch.members);
        self.classes_mut().of_mut(owner).counts.boosted += 1;
        self.settle(now, owner);
    }
}
