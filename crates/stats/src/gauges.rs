//! What is alive at the moment of a snapshot, of one class or of one file.

use forebay_units::{ClassId, FileIndex, Nanos, Timestamp};

use crate::account::BLOCKERS_MAX;
use crate::top::Top;

/// Where a live request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for its turn.
    Queued,
    /// It waits for an earlier conflicting request.
    Blocked {
        /// Of this class, if that can be said.
        by: Option<ClassId>,
    },
    /// It is dispatched and has not ended.
    InFlight,
}

/// One live request.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Whose.
    pub class: ClassId,
    /// Of which file.
    pub file: FileIndex,
    /// When it arrived.
    pub arrived: Timestamp,
    /// Where it is.
    pub stage: Stage,
}

/// The live requests of one class or one file, together.
#[derive(Clone, Debug)]
pub struct Gauges {
    /// Requests that wait, for whatever reason.
    pub waiting: u64,
    /// When the oldest of them arrived.
    pub oldest_waiting: Option<Timestamp>,
    /// Of those that wait, those that wait for earlier conflicting ones.
    pub blocked: u64,
    /// How long these have been waiting, summed. It is in no account before they are ready or cancelled.
    pub blocked_time: Nanos,
    /// By class that holds them up: how long (weight, in ns) and how many.
    pub blockers: Top<u64>,
    /// Requests dispatched and not ended.
    pub in_flight: u64,
}

impl Default for Gauges {
    fn default() -> Self {
        Self {
            waiting: 0,
            oldest_waiting: None,
            blocked: 0,
            blocked_time: Nanos::ZERO,
            blockers: Top::new(BLOCKERS_MAX),
            in_flight: 0,
        }
    }
}

impl Gauges {
    pub(crate) fn count(&mut self, now: Timestamp, live: &Live) {
        if live.stage == Stage::InFlight {
            self.in_flight += 1;
            return;
        }
        self.waiting += 1;
        self.note_oldest(live.arrived);
        if let Stage::Blocked { by } = live.stage {
            let time = now - live.arrived;
            self.blocked += 1;
            self.blocked_time += time;
            if let Some(by) = by {
                *self.blockers.add(u64::from(by.0), time.0) += 1;
            }
        }
    }

    /// Adds the live requests of another class or file.
    pub fn absorb(&mut self, other: &Self) {
        self.waiting += other.waiting;
        other.oldest_waiting.into_iter().for_each(|arrived| self.note_oldest(arrived));
        self.blocked += other.blocked;
        self.blocked_time += other.blocked_time;
        for row in other.blockers.ranking().rows {
            *self.blockers.add(row.key, row.certain_weight()) += row.account;
        }
        self.in_flight += other.in_flight;
    }

    fn note_oldest(&mut self, arrived: Timestamp) {
        let oldest = self.oldest_waiting.get_or_insert(arrived);
        *oldest = arrived.min(*oldest);
    }
}
