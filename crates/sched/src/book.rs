//! The ledger and what it takes to keep it: when each request in flight was dispatched.

use alloc::vec::Vec;

use forebay_stats::{Ledger, LedgerOptions, Route, Served};
use forebay_units::{Bytes, Timestamp};

use crate::request::Accepted;
use crate::table::{State, slot_of};

/// No dispatch that was noted.
const NONE: Timestamp = Timestamp(u64::MAX);

#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) ledger: Ledger,
    /// By slot.
    dispatched: Vec<Timestamp>,
}

impl Book {
    pub(crate) fn new(options: LedgerOptions) -> Self {
        Self { ledger: Ledger::new(options), dispatched: Vec::new() }
    }

    pub(crate) fn note_batch(&mut self, now: Timestamp, members: &[Accepted]) {
        members.iter().for_each(|member| self.note(now, member));
        let first = &members[0].request;
        self.ledger.batch(first.class, first.file, members.len() as u64);
    }

    /// Notes a dispatch.
    pub(crate) fn note(&mut self, now: Timestamp, accepted: &Accepted) {
        let slot = slot_of(accepted.id) as usize;
        if slot >= self.dispatched.len() {
            self.dispatched.resize(slot + 1, NONE);
        }
        self.dispatched[slot] = now;
    }

    /// Counts a request that has ended; one that was dispatched before the book was opened is left out.
    pub(crate) fn end(&mut self, now: Timestamp, accepted: &Accepted, state: State, moved: Bytes) {
        let Some(dispatched) = self.dispatched.get_mut(slot_of(accepted.id) as usize) else {
            return;
        };
        let dispatched = core::mem::replace(dispatched, NONE);
        if dispatched == NONE {
            return;
        }
        let request = &accepted.request;
        let is_bypassed = state == State::InFlightBypassed;
        self.ledger.completed(&Served {
            class: request.class,
            file: request.file,
            direction: request.access.direction(),
            bytes: moved,
            queued: dispatched - accepted.arrived,
            device: now - dispatched,
            route: if is_bypassed { Route::Bypassed } else { Route::Batched },
        });
    }
}
