//! The ledger and what it takes to keep it: when each request in flight was dispatched.

use alloc::vec::Vec;

use forebay_stats::{Ledger, LedgerOptions, Route, Served};
use forebay_units::{Bytes, Timestamp};

use crate::request::Accepted;
use crate::table::{State, slot_of};

/// No dispatch that was noted.
const NONE: Dispatched = Dispatched { at: Timestamp(u64::MAX), leads: 0 };

#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) ledger: Ledger,
    /// The first request that came after it was opened.
    first_seq: u64,
    /// By slot, of those that did not bypass.
    dispatched: Vec<Dispatched>,
}

/// When a request was dispatched, and of how many its batch was if it was the first in it.
#[derive(Clone, Copy, Debug)]
struct Dispatched {
    at: Timestamp,
    leads: u32,
}

impl Book {
    pub(crate) fn new(options: LedgerOptions, first_seq: u64) -> Self {
        Self { ledger: Ledger::new(options), first_seq, dispatched: Vec::new() }
    }

    /// Notes the dispatch of a batch.
    pub(crate) fn note_batch(&mut self, now: Timestamp, members: &[Accepted]) {
        let mut leads = members.len() as u32;
        for member in members {
            let slot = slot_of(member.id) as usize;
            if slot >= self.dispatched.len() {
                self.dispatched.resize(slot + 1, NONE);
            }
            self.dispatched[slot] = Dispatched { at: now, leads };
            leads = 0;
        }
    }

    /// Counts a request that has ended; one that was dispatched before the book was opened is left out.
    #[inline]
    pub(crate) fn end(&mut self, now: Timestamp, accepted: &Accepted, state: State, moved: Bytes) {
        let route = if state == State::InFlightBypassed {
            // It left as it came.
            if accepted.seq < self.first_seq {
                return;
            }
            Route::Bypassed
        } else {
            let Some(dispatched) = self.dispatched.get_mut(slot_of(accepted.id) as usize) else {
                return;
            };
            let Dispatched { at: dispatched, leads } = core::mem::replace(dispatched, NONE);
            if dispatched == NONE.at {
                return;
            }
            Route::Batched { dispatched, leads }
        };
        self.ledger.completed(&Served {
            class: accepted.request.class,
            file: accepted.request.file,
            direction: accepted.request.access.direction(),
            bytes: moved,
            arrived: accepted.arrived,
            route,
            ended: now,
        });
    }
}
