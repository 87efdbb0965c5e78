//! What waits for its turn: the controller, and the requests in it by name.

use std::collections::VecDeque;
use std::time::Instant;

use forebay_controller::{Controller, Error, Next, Outcome, Round, Submission, Ticket, Turn};
use forebay_sched::Access;
use forebay_units::{ByteRange, Bytes, Direction, Nanos, Timestamp};

use crate::by_name::ByName;
use crate::intake::Arrival;
use crate::library::BATCH_REQUESTS_MAX;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::sys::OwnCallBack;

/// See the module's head.
pub(crate) struct Queue {
    pub(crate) controller: Controller,
    pub(crate) book: Book,
}

/// The requests that wait, and the metrics of all.
pub(crate) struct Book {
    requests: ByName<Waiting>,
    /// For these the controller has no room yet: cancelled requests that others are ordered behind
    /// still take places.
    late: VecDeque<Arrival>,
    /// How many were ever put in.
    added: u64,
    pub(crate) metrics: Metrics,
    started: Instant,
    /// What is to be put in.
    pub(crate) arrivals: Vec<Arrival>,
    /// What is to be ended.
    pub(crate) released: Vec<(Ticket, Name)>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ticket: Ticket,
    identifier: i64,
    own: Option<OwnCallBack>,
}

/// A request whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub(crate) ticket: Ticket,
    pub(crate) name: Name,
    pub(crate) identifier: i64,
    pub(crate) own: Option<OwnCallBack>,
}

impl Book {
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            requests: ByName::new(),
            late: VecDeque::new(),
            added: 0,
            metrics: Metrics::default(),
            started,
            arrivals: Vec::new(),
            released: Vec::new(),
        }
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.requests.count() + self.late.len()
    }

    /// How many were ever put in.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// How many of those wait no longer.
    pub(crate) fn left(&self) -> u64 {
        self.added - self.count() as u64
    }

    /// Puts in what has arrived, in that order.
    pub(crate) fn admit_arrivals(&mut self, round: &mut Round<'_>) -> Result<(), Error> {
        while let Some(arrival) = self.late.front().copied()
            && self.admit(round, &arrival)?
        {
            self.late.pop_front();
        }
        let mut arrivals = core::mem::take(&mut self.arrivals);
        self.added += arrivals.len() as u64;
        for arrival in arrivals.drain(..) {
            let when = time_since(self.started, arrival.when);
            let Name { file, direction, offset, length, .. } = arrival.name;
            self.metrics.added(when, file, direction, ByteRange::new(offset, length));
            if !self.late.is_empty() || !self.admit(round, &arrival)? {
                self.late.push_back(arrival);
            }
        }
        self.arrivals = arrivals;
        Ok(())
    }

    /// Hands a request to the controller; whether that has room for it.
    fn admit(&mut self, round: &mut Round<'_>, arrival: &Arrival) -> Result<bool, Error> {
        let Name { file, direction, offset, length, .. } = arrival.name;
        let access = match direction {
            // There is nothing to order about no bytes. As a sync it passes every policy, and
            // still comes after the writes before it.
            _ if length == Bytes::ZERO => Access::Sync,
            Direction::Read => Access::Read,
            Direction::Write => Access::Write,
        };
        let waiting =
            Waiting { ticket: Ticket(0), identifier: arrival.identifier, own: arrival.own };
        let slot = self.requests.insert(arrival.name, waiting);
        let submission = Submission {
            class: arrival.class,
            ..Submission::new(u64::from(slot), file, access, offset, length)
        };
        match round.submit(&submission) {
            Ok(ticket) => {
                self.requests.get_mut(slot).ticket = ticket;
                Ok(true)
            }
            Err(error) => {
                self.requests.take(slot);
                if error == Error::QueueFull { Ok(false) } else { Err(error) }
            }
        }
    }

    /// Ends what was released.
    pub(crate) fn end_released(&mut self, round: &mut Round<'_>) -> Result<(), Error> {
        for (ticket, Name { file, length, .. }) in self.released.drain(..) {
            self.metrics.released(file, length);
            round.complete(ticket, Outcome::Moved(length))?;
        }
        Ok(())
    }

    /// Takes out the first request of that name; whether there was one.
    pub(crate) fn cancel(&mut self, round: &mut Round<'_>, name: &Name) -> Result<bool, Error> {
        if let Some(slot) = self.requests.find(name) {
            round.cancel(self.requests.get_mut(slot).ticket)?;
            self.requests.take(slot);
            return Ok(true);
        }
        let late = self.late.iter().position(|arrival| arrival.name == *name);
        Ok(late.is_some_and(|place| self.late.remove(place).is_some()))
    }

    /// What goes next, into `called`, which is empty; else how long to wait for it. `turns` is room.
    pub(crate) fn next(
        &mut self,
        round: &mut Round<'_>,
        turns: &mut Vec<Turn>,
        called: &mut Vec<Called>,
    ) -> Result<Option<Nanos>, Error> {
        match round.next(BATCH_REQUESTS_MAX, turns)? {
            Next::Batch(batch) => {
                called.extend(batch.turns.iter().map(|turn| {
                    let (name, Waiting { ticket, identifier, own }) =
                        self.requests.take(turn.id as u32);
                    Called { ticket, name, identifier, own }
                }));
                Ok(None)
            }
            Next::Wait(time) => Ok(Some(time)),
            Next::Nothing => Ok(None),
        }
    }
}

/// What a time is called in the metrics.
pub(crate) fn time_since(started: Instant, when: Instant) -> Timestamp {
    let nanos = when.saturating_duration_since(started).as_nanos();
    Timestamp(u64::try_from(nanos).unwrap_or(u64::MAX))
}
