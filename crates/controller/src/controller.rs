//! The controller's calls.

use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_sched::{Access, ClassError, Policy, Scheduler};
use forebay_trace::Adjustment;
use forebay_units::{ByteRange, Nanos, OFFSET_MAX, Timestamp};

use crate::active::{self, Active};
use crate::alarm::Timer;
use crate::error::Error;
use crate::lock::Held;
use crate::locked::{Decided, Kind, Locked};
use crate::operation::{Batch, Delivery, Hint, Notice, Outcome, Submission, Ticket, Turn};
use crate::options::REQUESTS_MAX;
use crate::ring::{Ended, Operation};
use crate::shared::Shared;
use crate::slots::{Slot, Stage, Word};

/// The longest that [`Hint::MoreFollows`] may hold dispatch back.
const HOLD_MAX: Nanos = Nanos::secs(1);

/// One scheduler, shared by any number of threads. Cheap to clone; all clones are one controller.
///
/// # Call-backs
///
/// A call-back may submit, complete, cancel, hint and switch. What follows from that is dispatched
/// after it has returned, by the same thread at the latest. So it may not wait for it: [`wait`](Self::wait),
/// [`drain`](Self::drain) and [`close`](Self::close) answer [`Error::InCallBack`]. A call-back that takes long holds up
/// the thread that happens to run it, not the controller: no lock is held.
#[derive(Clone)]
pub struct Controller {
    pub(crate) shared: Arc<Shared>,
}

impl Controller {
    /// Whether this is the process that made the controller.
    ///
    /// # Errors
    /// [`Error::Forked`], as every other call would say.
    pub fn check_process(&self) -> Result<(), Error> {
        self.shared.check_process()
    }

    /// Takes over a request. It may be dispatched, and even complete, before this returns.
    ///
    /// # Errors
    /// [`Error::EmptyRange`], [`Error::RangeTooFar`], [`Error::QueueFull`], [`Error::Draining`],
    /// [`Error::WrongDelivery`] if its turn could not be made known as it asks.
    pub fn submit(&self, submission: &Submission) -> Result<Ticket, Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        check(submission, &shared.delivery)?;
        if shared.draining.load(Ordering::Relaxed) > 0 {
            return Err(Error::Draining);
        }
        let mut active = Active::enter(shared.slots.key());
        if let Some(active) = &mut active
            && let Some(mut locked) = shared.try_attend()?
        {
            let now = locked.now(shared);
            locked.take_along(shared, now);
            if shared.ring.is_empty() {
                return self.submit_and_go_on(locked, now, submission, active);
            }
            // Somebody is leaving something older; this must not overtake what is behind it.
        }
        if let Some((ticket, published)) = shared.leave(submission) {
            match &mut active {
                Some(active) => self.pump(active)?,
                None => self.see_to_followers(&shared.ring, published),
            }
            return Ok(ticket);
        }
        let (mut locked, now, has_taken) = shared.lock_in_turn()?;
        let Some(active) = &mut active else {
            let submitted = locked.submit(shared, now, submission, None);
            self.leave_to_loop(locked, now, has_taken);
            return submitted.map(|(ticket, _)| ticket);
        };
        self.submit_and_go_on(locked, now, submission, active)
    }

    fn submit_and_go_on(
        &self,
        mut locked: Held<'_, Locked>,
        now: Timestamp,
        submission: &Submission,
        active: &mut Active,
    ) -> Result<Ticket, Error> {
        let may_dispatch = self.dispatches_by_itself().then_some(&mut *active);
        let submitted = locked.submit(&self.shared, now, submission, may_dispatch);
        let decided = match submitted {
            Ok((_, Decided::Dispatch)) => Decided::Dispatch,
            _ => self.decide(&mut locked, now, active),
        };
        self.go_on(locked, now, decided, active)?;
        submitted.map(|(ticket, _)| ticket)
    }

    /// A dispatched request is over.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`] if it was over already, is another controller's, or never was;
    /// [`Error::NotDispatched`] if it still waits: cancel it instead.
    pub fn complete(&self, ticket: Ticket, outcome: Outcome) -> Result<(), Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        let slot = shared.slots.begin_ending(self.find(ticket)?)?;
        let ended = Ended::from(outcome);
        let mut active = Active::enter(shared.slots.key());
        if let Some(active) = &mut active
            && let Some(mut locked) = shared.try_attend()?
        {
            let now = locked.now(shared);
            locked.take_along(shared, now);
            locked.end(shared, now, slot, ended);
            let decided = self.decide(&mut locked, now, active);
            return self.go_on(locked, now, decided, active);
        }
        match shared.ends.claim() {
            Some(claim) => {
                let ended = Operation::End(slot, ended, shared.ticks_of_end());
                let published = claim.publish(&ended);
                match &mut active {
                    Some(active) => self.pump(active),
                    None => {
                        self.see_to_followers(&shared.ends, published);
                        Ok(())
                    }
                }
            }
            None => self.under_lock(active, |locked, now| locked.end(shared, now, slot, ended)),
        }
    }

    /// Takes back a request that has not been dispatched.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`], or [`Error::Dispatched`] if it is too late: it is to be completed.
    pub fn cancel(&self, ticket: Ticket) -> Result<(), Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        let active = Active::enter(shared.slots.key());
        let awaited =
            self.under_lock(active, |locked, now| locked.cancel(shared, now, ticket))??;
        if let Some(slot) = awaited {
            shared.places.of(slot).wake();
        }
        Ok(())
    }

    /// Sleeps until it is the turn of a request submitted with [`Notice::Wait`]. It is in flight
    /// then, and to be completed by the caller.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after `timeout`; the request still waits and may be waited for again.
    /// [`Error::Cancelled`] if it was cancelled meanwhile, [`Error::UnknownTicket`] if it was before.
    /// [`Error::WrongDelivery`] for a request that is delivered, [`Error::InCallBack`].
    pub fn wait(&self, ticket: Ticket, timeout: Option<Duration>) -> Result<(), Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        let (slot, _, word) = self.find(ticket)?;
        if !word.is_waited_for() {
            return Err(Error::WrongDelivery);
        }
        if word.stage() == Stage::InFlight {
            return Ok(());
        }
        if active::is_active(shared.slots.key()) {
            return Err(Error::InCallBack);
        }
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let turned = shared.places.of(slot).sleep(until, || match shared.slots.live(ticket) {
            None => Some(Err(Error::Cancelled)),
            Some((_, _, word)) if word.stage() == Stage::InFlight => Some(Ok(())),
            Some(_) => shared.is_broken().then_some(Err(Error::Broken)),
        });
        turned.unwrap_or(Err(Error::TimedOut))
    }

    /// What may go now: at most `most` requests, of one batch, into `turns`. The answer holds their
    /// extent; `None` if nothing may go. For controllers made with [`Delivery::Poll`].
    ///
    /// # Errors
    /// [`Error::WrongDelivery`], [`Error::OutOfRange`] if `most` is 0.
    pub fn poll<'a>(
        &self,
        most: usize,
        turns: &'a mut Vec<Turn>,
    ) -> Result<Option<Batch<'a>>, Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        let Some(timer) = &shared.timer else { return Err(Error::WrongDelivery) };
        if most == 0 {
            return Err(Error::OutOfRange);
        }
        turns.clear();
        let mut active = Active::enter(shared.slots.key()).ok_or(Error::InCallBack)?;
        let (mut locked, now, _) = shared.lock_in_turn()?;
        let decided = locked.decide_some(shared, now, most, &mut active);
        locked.has_answered = decided != Decided::Dispatch;
        match decided {
            Decided::Dispatch => {}
            Decided::Wait(until) => timer.ring_at(now, until),
            Decided::Nothing => timer.silence(),
        }
        self.unlock(locked, &mut active);
        self.pump(&mut active)?;
        let Some((kind, _)) = active.batches.pop() else { return Ok(None) };
        turns.append(&mut active.turns);
        Ok(Some(batch(kind, turns)))
    }

    /// A descriptor that is readable when [`poll`](Self::poll) may find something. It is not to be read.
    ///
    /// # Errors
    /// [`Error::WrongDelivery`] unless the controller was made with [`Delivery::Poll`].
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.shared.check_process()?;
        self.shared.timer.as_deref().map(Timer::descriptor).ok_or(Error::WrongDelivery)
    }

    /// Takes in nothing more, dispatches what waits, and sleeps until nothing is alive. After that
    /// requests are taken again.
    ///
    /// # Errors
    /// [`Error::TimedOut`] after `timeout`: requests are alive, and new ones are taken again.
    /// [`Error::InCallBack`].
    pub fn drain(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        if active::is_active(shared.slots.key()) {
            return Err(Error::InCallBack);
        }
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let _intake = Raised::new(&shared.draining);
        let _wanted = Raised::new(&shared.quiet_wanted);
        self.change(|locked, now| {
            if locked.hold_until.is_some() {
                locked.hold(now, None);
            }
        })?;
        let quiet =
            shared.quiet.sleep(until, || match self.change(|locked, _| locked.is_quiet()) {
                Ok(true) => Some(Ok(())),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            });
        quiet.unwrap_or(Err(Error::TimedOut))
    }

    /// Takes back everything that has not been dispatched, in arrival order. Those who wait for
    /// one of these requests are told that it is cancelled.
    ///
    /// # Errors
    /// Only those of every call: [`Error::Forked`], [`Error::Broken`].
    pub fn take_back(&self) -> Result<Vec<Turn>, Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        let turns = self.change(|locked, now| locked.take_back(shared, now))?;
        shared.places.wake_all();
        Ok(turns)
    }

    /// Says something ahead of time.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a hold of more than a second.
    pub fn hint(&self, hint: Hint) -> Result<(), Error> {
        self.shared.check_process()?;
        match hint {
            Hint::MoreFollows(time) if time > HOLD_MAX => Err(Error::OutOfRange),
            Hint::MoreFollows(time) => {
                self.change(|locked, now| locked.hold(now, Some(now + time)))
            }
            Hint::NoMore => self.change(|locked, now| locked.hold(now, None)),
            Hint::Forget(file) => self.change(|locked, now| locked.close_file(now, file)),
        }
    }

    /// Puts another policy in charge; what waits goes over in arrival order.
    ///
    /// # Errors
    /// [`Error::HasClasses`] if each class has a policy of its own: then [`configure`](Self::configure) it.
    pub fn switch_policy(&self, policy: Box<dyn Policy>) -> Result<(), Error> {
        self.shared.check_process()?;
        // The old one is dropped without the lock: it may be somebody else's code.
        self.change(|locked, now| match locked.scheduler.has_classes() {
            true => Err(Error::HasClasses),
            false => {
                locked.changed.forget_policies();
                Ok(locked.scheduler.switch_policy(now, policy))
            }
        })?
        .map(drop)
    }

    /// Changes how the scheduler shares and orders; a trace tells it so that it can be done again.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Broken`]; inside, what the scheduler says.
    pub fn adjust(&self, adjustment: &Adjustment) -> Result<Result<(), ClassError>, Error> {
        self.shared.check_process()?;
        self.change(|locked, now| {
            let adjusted = locked.scheduler.adjust(now, adjustment);
            if adjusted.is_ok() {
                locked.changed.note(adjustment);
            }
            adjusted
        })
    }

    /// Changes something at the scheduler in a way that no [`Adjustment`] has. `key` and `value` say
    /// in a trace what it was. Requests are not to be touched.
    ///
    /// # Errors
    /// Only those of every call: [`Error::Forked`], [`Error::Broken`].
    pub fn configure<R>(
        &self,
        key: &str,
        value: &str,
        change: impl FnOnce(&mut Scheduler, Timestamp) -> R,
    ) -> Result<R, Error> {
        self.shared.check_process()?;
        self.change(|locked, now| {
            if key == "policy" {
                locked.changed.forget_policies();
            }
            locked.scheduler.change(now, key, value, |scheduler| change(scheduler, now))
        })
    }

    /// Changes the dispatch depth.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless it is from 1 to 2^24.
    pub fn set_depth(&self, depth: usize) -> Result<(), Error> {
        self.shared.check_process()?;
        if !(1..=REQUESTS_MAX).contains(&depth) {
            return Err(Error::OutOfRange);
        }
        self.change(|locked, now| locked.set_depth(now, depth))
    }

    /// Takes no more requests, for ever, and ends the recording and every thread of the controller.
    ///
    /// # Errors
    /// [`Error::Busy`] while requests are alive, [`Error::InCallBack`]; [`Error::System`] if the
    /// trace could not be written to its end: it is over, and the next call closes.
    pub fn close(&self) -> Result<(), Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        if active::is_active(shared.slots.key()) {
            return Err(Error::InCallBack);
        }
        let closing = Raised::new(&shared.draining);
        if !self.change(|locked, _| locked.is_quiet())? {
            return Err(Error::Busy);
        }
        match self.end_record() {
            Ok(_) | Err(Error::NotRecorded) => {}
            Err(error) => return Err(error),
        }
        shared.sleeper.end();
        core::mem::forget(closing);
        Ok(())
    }

    /// The live request that a ticket names; one that is still in the ring is taken out of it.
    fn find(&self, ticket: Ticket) -> Result<(u32, &Slot, Word), Error> {
        let slots = &self.shared.slots;
        if let Some(found) = slots.live(ticket) {
            return Ok(found);
        }
        self.change(|_, _| ())?;
        slots.live(ticket).ok_or(Error::UnknownTicket)
    }

    /// Whether dispatch follows from what is submitted and completed, rather than from who asks.
    pub(crate) fn dispatches_by_itself(&self) -> bool {
        matches!(self.shared.delivery, Delivery::CallBack(_) | Delivery::Wait)
    }

    /// Changes something under the lock, and dispatches what follows from it.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Locked, Timestamp) -> T,
    ) -> Result<T, Error> {
        self.under_lock(Active::enter(self.shared.slots.key()), change)
    }

    fn under_lock<T>(
        &self,
        active: Option<Active>,
        change: impl FnOnce(&mut Locked, Timestamp) -> T,
    ) -> Result<T, Error> {
        let (mut locked, now, has_taken) = self.shared.lock_in_turn()?;
        let changed = change(&mut locked, now);
        locked.note_change(&self.shared);
        match active {
            Some(mut active) => {
                let decided = self.decide(&mut locked, now, &mut active);
                self.go_on(locked, now, decided, &mut active)?;
            }
            None => self.leave_to_loop(locked, now, has_taken),
        }
        Ok(changed)
    }
}

/// A counter that is one higher while this is alive.
struct Raised<'a>(&'a AtomicU32);

impl<'a> Raised<'a> {
    fn new(counter: &'a AtomicU32) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(counter)
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn batch(kind: Kind, turns: &[Turn]) -> Batch<'_> {
    let end = turns.iter().map(|turn| turn.offset + turn.length).max().unwrap_or_default();
    let start = turns.first().map(|turn| turn.offset).unwrap_or_default();
    Batch { file: kind.file, access: kind.access, extent: ByteRange { start, end }, turns }
}

pub(crate) fn check(submission: &Submission, delivery: &Delivery) -> Result<(), Error> {
    let is_sync = submission.access == Access::Sync;
    if submission.range.is_empty() && !is_sync {
        return Err(Error::EmptyRange);
    }
    // The offset of an append is not known, nor where a truncation ends.
    let is_open = submission.access == Access::Alone && submission.range.end.0 == u64::MAX;
    if submission.range.end > OFFSET_MAX && !is_open {
        return Err(Error::RangeTooFar);
    }
    let is_known = match delivery {
        Delivery::CallBack(_) => true,
        Delivery::Poll | Delivery::Rounds => submission.notice == Notice::Deliver,
        Delivery::Wait => submission.notice == Notice::Wait,
    };
    if is_known { Ok(()) } else { Err(Error::WrongDelivery) }
}
