//! Rounds: everything that one thread has to say and to ask, under one lock and at one time.
//!
//! A service with a thread of its own that dispatches does not want to be called back, and has many
//! things to say at once: what arrived and what ended since it last looked. Each as a call of its own
//! costs more than what the scheduler does for it.

use core::sync::atomic::Ordering;

use forebay_units::{Nanos, Timestamp};

use crate::active::Active;
use crate::controller::{Controller, batch, check};
use crate::error::Error;
use crate::lock::Held;
use crate::locked::{Decided, Locked};
use crate::operation::{Batch, Delivery, Outcome, Submission, Ticket, Turn};
use crate::shared::Shared;

/// What goes next.
#[derive(Clone, Copy, Debug)]
pub enum Next<'a> {
    /// These may go now.
    Batch(Batch<'a>),
    /// Nothing; to be asked again after this time, or when something has changed.
    Wait(Nanos),
    /// Nothing, until something is submitted, completed, cancelled or configured.
    Nothing,
}

/// A controller's lock, until this is dropped: a submission of another thread is left, and taken along
/// then or before what is said here later; its other calls wait. So it is not to be kept while anything
/// is waited for, and the thread that has it calls nothing of [`Controller`] meanwhile. All of it happens
/// at the time at which it began, or last took something along.
pub struct Round<'a> {
    controller: &'a Controller,
    /// There until it is dropped.
    locked: Option<Held<'a, Locked>>,
    now: Timestamp,
    active: Active,
}

impl Controller {
    /// Begins a round. For controllers made with [`Delivery::Rounds`].
    ///
    /// # Errors
    /// [`Error::WrongDelivery`], [`Error::InCallBack`] inside another round.
    pub fn round(&self) -> Result<Round<'_>, Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        if !matches!(shared.delivery, Delivery::Rounds) {
            return Err(Error::WrongDelivery);
        }
        let active = Active::enter(shared.slots.key()).ok_or(Error::InCallBack)?;
        let (locked, now, _) = shared.lock_in_turn()?;
        Ok(Round { controller: self, locked: Some(locked), now, active })
    }
}

impl Round<'_> {
    /// As [`Controller::submit`].
    ///
    /// # Errors
    /// As there.
    pub fn submit(&mut self, submission: &Submission) -> Result<Ticket, Error> {
        let (shared, now, locked) = self.parts();
        check(submission, &shared.delivery)?;
        if shared.draining.load(Ordering::Relaxed) > 0 {
            return Err(Error::Draining);
        }
        locked.submit(shared, now, submission, None).map(|(ticket, _)| ticket)
    }

    /// As [`Controller::complete`].
    ///
    /// # Errors
    /// As there.
    pub fn complete(&mut self, ticket: Ticket, outcome: Outcome) -> Result<(), Error> {
        let (shared, now, locked) = self.parts();
        let found = shared.slots.live(ticket).ok_or(Error::UnknownTicket)?;
        let slot = shared.slots.begin_ending(found)?;
        locked.end(shared, now, slot, outcome.into());
        Ok(())
    }

    /// As [`Controller::cancel`].
    ///
    /// # Errors
    /// As there.
    pub fn cancel(&mut self, ticket: Ticket) -> Result<(), Error> {
        let (shared, now, locked) = self.parts();
        // Nobody waits for one of these.
        locked.cancel(shared, now, ticket).map(|_| ())
    }

    /// What may go now: at most `most` requests, of one batch, into `turns`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if `most` is 0.
    pub fn next<'a>(&mut self, most: usize, turns: &'a mut Vec<Turn>) -> Result<Next<'a>, Error> {
        if most == 0 {
            return Err(Error::OutOfRange);
        }
        turns.clear();
        let locked = self.locked.as_mut().expect("it is not dropped");
        let shared = &self.controller.shared;
        let decided = locked.decide_some(shared, self.now, most, &mut self.active);
        Ok(match decided {
            Decided::Wait(until) => Next::Wait(until - self.now),
            Decided::Nothing => Next::Nothing,
            Decided::Dispatch => {
                let (kind, _) = self.active.batches.pop().expect("it has just been decided");
                turns.append(&mut self.active.turns);
                Next::Batch(batch(kind, turns))
            }
        })
    }

    /// For something that is said, after what others had left by then.
    fn parts(&mut self) -> (&Shared, Timestamp, &mut Locked) {
        let locked = &mut **self.locked.as_mut().expect("it is not dropped");
        let shared = &self.controller.shared;
        if !shared.ring.is_empty() {
            self.now = shared.catch_up(locked);
        }
        (shared, self.now, locked)
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let Some(locked) = self.locked.take() else { return };
        if locked.is_breaking() {
            // The lock breaks, as wherever else somebody panics under it.
            return;
        }
        self.controller.unlock(locked, &mut self.active);
        if self.controller.shared.has_left() {
            // A broken scheduler is reported to those who call it.
            _ = self.controller.pump(&mut self.active);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use forebay_sched::{Access, PolicyName, PolicySettings, build};
    use forebay_units::{Bytes, Offset};

    use crate::operation::{FileKey, Hint};
    use crate::options::Options;
    use crate::statistics::Detail;

    fn controller(delivery: Delivery) -> Controller {
        let policy = build(PolicyName::To, &PolicySettings::default());
        Controller::new(&Options::default(), policy, delivery).unwrap()
    }

    fn request(id: u64, access: Access) -> Submission {
        Submission::new(id, FileKey { high: 0, low: 1 }, access, Offset(0), Bytes(10))
    }

    /// The identifiers of what may go now.
    fn going(round: &mut Round<'_>) -> Vec<u64> {
        match round.next(16, &mut Vec::new()).unwrap() {
            Next::Batch(batch) => batch.turns.iter().map(|turn| turn.id).collect(),
            Next::Wait(_) | Next::Nothing => Vec::new(),
        }
    }

    #[test]
    fn a_round_submits_dispatches_cancels_and_completes() {
        let controller = controller(Delivery::Rounds);
        let mut round = controller.round().unwrap();
        let moved = Outcome::Moved(Bytes(10));
        let write = round.submit(&request(1, Access::Write)).unwrap();
        let read = round.submit(&request(2, Access::Read)).unwrap();
        let late = round.submit(&request(3, Access::Write)).unwrap();
        assert_eq!(round.complete(write, moved), Err(Error::NotDispatched));
        assert_eq!(going(&mut round), [1]);
        assert!(going(&mut round).is_empty(), "the read waits for the write before it");
        assert_eq!(round.cancel(write), Err(Error::Dispatched));
        round.cancel(late).unwrap();
        assert_eq!(round.cancel(late), Err(Error::UnknownTicket));
        round.complete(write, moved).unwrap();
        assert_eq!(round.complete(write, moved), Err(Error::UnknownTicket));
        assert_eq!(going(&mut round), [2]);
        round.complete(read, Outcome::Failed(0)).unwrap();
        assert_eq!(round.next(0, &mut Vec::new()).err(), Some(Error::OutOfRange));
        drop(round);
        let counted = controller.snapshot(Detail::Counters).unwrap().scheduler;
        assert_eq!((counted.completed, counted.cancelled), (2, 1));
        controller.close().unwrap();
    }

    #[test]
    fn a_round_gives_a_long_batch_in_pieces_and_says_how_long_to_wait() {
        let policy = build(PolicyName::ToAgg, &PolicySettings::default());
        let controller = Controller::new(&Options::default(), policy, Delivery::Rounds).unwrap();
        let mut round = controller.round().unwrap();
        let file = FileKey { high: 0, low: 1 };
        for id in 0..5 {
            let request = Submission::new(id, file, Access::Read, Offset(id * 10), Bytes(10));
            round.submit(&request).unwrap();
        }
        let mut turns = Vec::new();
        let mut lengths = Vec::new();
        while let Next::Batch(batch) = round.next(2, &mut turns).unwrap() {
            lengths.push((batch.extent.start.0, batch.turns.len()));
        }
        assert_eq!(lengths, [(0, 2), (20, 2), (40, 1)]);
        drop(round);
        controller.hint(Hint::MoreFollows(Nanos::millis(500))).unwrap();
        let mut round = controller.round().unwrap();
        round.submit(&request(9, Access::Read)).unwrap();
        let next = round.next(2, &mut turns).unwrap();
        let Next::Wait(time) = next else { panic!("{next:?}") };
        assert!(time > Nanos::ZERO && time <= Nanos::millis(500), "{time:?}");
    }

    #[test]
    fn what_others_leave_during_a_round_is_there_after_it() {
        let controller = controller(Delivery::Rounds);
        let mut round = controller.round().unwrap();
        assert_eq!(controller.round().err(), Some(Error::InCallBack));
        std::thread::scope(|scope| {
            let submitted = scope.spawn(|| controller.submit(&request(7, Access::Read)));
            // It does not wait for the round.
            submitted.join().unwrap().unwrap();
        });
        assert!(going(&mut round).is_empty());
        drop(round);
        assert!(!controller.shared.has_left());
        assert_eq!(going(&mut controller.round().unwrap()), [7]);
    }

    #[test]
    fn what_others_left_during_a_round_comes_before_what_it_says_next() {
        let controller = controller(Delivery::Rounds);
        let mut round = controller.round().unwrap();
        let leave = |asked: Submission| {
            std::thread::scope(|scope| {
                scope.spawn(|| controller.submit(&asked)).join().unwrap().unwrap()
            })
        };
        let older = leave(request(1, Access::Write));
        let younger = round.submit(&request(2, Access::Write)).unwrap();
        assert_eq!(going(&mut round), [1]);
        assert!(going(&mut round).is_empty(), "the younger write waits for the older one");
        round.complete(older, Outcome::Moved(Bytes(10))).unwrap();
        assert_eq!(going(&mut round), [2]);
        let left = leave(request(3, Access::Read));
        assert_eq!(round.complete(left, Outcome::Failed(0)), Err(Error::NotDispatched));
        let left = leave(request(4, Access::Read));
        assert_eq!(round.cancel(left), Ok(()));
        round.complete(younger, Outcome::Moved(Bytes(10))).unwrap();
        assert_eq!(going(&mut round), [3]);
    }

    #[test]
    fn a_drain_ends_with_the_round_that_ends_the_last_request() {
        let controller = controller(Delivery::Rounds);
        let mut round = controller.round().unwrap();
        let ticket = round.submit(&request(1, Access::Read)).unwrap();
        assert_eq!(going(&mut round), [1]);
        drop(round);
        std::thread::scope(|scope| {
            let drained = scope.spawn(|| controller.drain(None));
            while controller.shared.quiet_wanted.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let mut round = controller.round().unwrap();
            assert_eq!(round.submit(&request(2, Access::Read)), Err(Error::Draining));
            round.complete(ticket, Outcome::Moved(Bytes(10))).unwrap();
            drop(round);
            drained.join().unwrap().unwrap();
        });
    }

    #[test]
    fn who_panics_in_a_round_breaks_the_controller() {
        let controller = controller(Delivery::Rounds);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _round = controller.round().unwrap();
            panic!("as planned");
        }));
        assert!(panicked.is_err());
        assert_eq!(controller.round().err(), Some(Error::Broken));
    }

    #[test]
    fn a_round_that_begins_and_ends_during_a_panic_is_like_any_other() {
        struct Last<'a>(&'a Controller);
        impl Drop for Last<'_> {
            fn drop(&mut self) {
                let round = self.0.round().unwrap();
                std::thread::scope(|scope| {
                    let late = || self.0.submit(&request(7, Access::Read));
                    scope.spawn(late).join().unwrap().unwrap();
                });
                drop(round);
            }
        }
        let controller = controller(Delivery::Rounds);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _last = Last(&controller);
            panic!("as planned");
        }));
        assert!(panicked.is_err());
        assert!(!controller.shared.has_left(), "it was taken along");
        assert_eq!(going(&mut controller.round().unwrap()), [7]);
    }

    #[test]
    fn only_a_controller_made_for_rounds_has_them() {
        for delivery in [Delivery::Wait, Delivery::Poll] {
            assert_eq!(controller(delivery).round().err(), Some(Error::WrongDelivery));
        }
        let controller = controller(Delivery::Rounds);
        assert_eq!(controller.poll(1, &mut Vec::new()).err(), Some(Error::WrongDelivery));
        assert_eq!(controller.descriptor().err(), Some(Error::WrongDelivery));
    }
}
