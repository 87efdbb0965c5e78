//! The loop that dispatches: decide under the lock, let go of it, call back, look again.
//!
//! ```text
//!   a thread that finds the lock taken          the one that has it
//!   publishes its operation                     lets go
//!   tries the lock: taken, so it goes           looks into the ring: sees the operation
//!                                               sets the alarm, then calls back
//! ```
//!
//! Both sides write first and then look, all of it sequentially consistent, so at least one of them
//! sees the other: an operation that was left is always found.
//!
//! Nobody relies on a thread that is in a call-back for longer than [`WATCH`]. Who goes into one and
//! leaves something behind, operations in the ring or requests that might go, sets the alarm before.
//! So does who attends: others leave everything to it without trying the lock, until the alarm rings
//! and deposes it. If it is quick it then begins anew.
//!
//! One thing is left on purpose. What has ended stays in its ring if nothing waits and nobody drains:
//! the next call takes it along, and learns from the processor's ticks when it was. So a request that
//! comes alone costs one turn under the lock, not two. That nothing waits is said under the lock and
//! read after publishing, so again one of both sides sees the other.
//! How long such a turn took is not learned. So call-backs that became slow while every request came
//! alone still pass for quick, until a loop attends: that one does not rest before it has learned how
//! long its turn took, even if it was deposed meanwhile. Who left something to it waits for [`WATCH`].

use core::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use forebay_units::{Nanos, Timestamp};

use crate::active::Active;
use crate::controller::{Controller, batch};
use crate::error::Error;
use crate::lock::Held;
use crate::locked::{Decided, Locked};
use crate::operation::{Delivery, Turn};
use crate::ring::Ring;
use crate::shared::Shared;

/// How long a caller dispatches for others before the alarm's thread takes over.
const TURN_MAX: Nanos = Nanos::millis(5);

/// Up to this mean time of a request's turn, other threads leave everything to the one that dispatches:
/// for them to take the lock in its short absences would cost all of them more, since what is known of
/// each request would move from one processor to the other. That alone takes a microsecond or two, so
/// the limit is above it: what is slow because of such moves counts as quick.
const SLOW: Nanos = Nanos::micros(5);

/// With so many requests, or its first batch, a loop that others rely on lets go of the lock. Those
/// behind a call-back that is suddenly slow wait for it.
const REQUESTS_AT_ONCE: usize = 16;

/// How long those wait at most who left something to a loop whose call-back then takes long.
const WATCH: Nanos = Nanos::millis(2);

/// Whether others leave everything to this loop, and under which number.
struct Attending<'a> {
    of: &'a Shared,
    number: Option<usize>,
}

impl Attending<'_> {
    /// Whether others still do.
    fn is_on(&self) -> bool {
        self.number.is_some_and(|number| self.of.has_attendance(number))
    }

    /// Whether others did at some time, and this loop has not said since that they shall not.
    fn has_begun(&self) -> bool {
        self.number.is_some()
    }

    /// Others leave everything from now on; whether that is new.
    fn begin(&mut self) -> bool {
        if self.is_on() {
            return false;
        }
        self.number = self.of.begin_attendance();
        self.number.is_some()
    }

    /// Others do not rely on this loop any more. It looks once more what was left until now.
    fn end(&mut self) {
        if let Some(number) = self.number.take() {
            self.of.end_attendance(number);
        }
    }
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Controller {
    /// Dispatches as long as there is something to dispatch and nobody else does.
    pub(crate) fn pump(&self, active: &mut Active) -> Result<(), Error> {
        let shared = &*self.shared;
        let free = match active.is_alarm {
            true => shared.try_lock()?,
            false => shared.try_attend()?,
        };
        let Some(mut locked) = free else { return Ok(()) };
        let now = locked.now(shared);
        locked.take_along(shared, now);
        let decided = self.decide(&mut locked, now, active);
        self.go_on(locked, now, decided, active)
    }

    pub(crate) fn decide(
        &self,
        locked: &mut Locked,
        now: Timestamp,
        active: &mut Active,
    ) -> Decided {
        match self.dispatches_by_itself() {
            true => locked.decide(&self.shared, now, active),
            false => Decided::Nothing,
        }
    }

    /// Does what was decided, and goes on deciding.
    pub(crate) fn go_on<'a>(
        &'a self,
        mut locked: Held<'a, Locked>,
        began: Timestamp,
        mut decided: Decided,
        active: &mut Active,
    ) -> Result<(), Error> {
        let shared = &*self.shared;
        let mut attending = Attending { of: shared, number: None };
        let mut now = began;
        loop {
            self.ring_timer(&locked, now);
            let is_quick = locked.turn_ns <= SLOW.0;
            let has_no_alarm = is_quick
                && locked.is_sought
                && decided == Decided::Dispatch
                && self.dispatches_by_itself()
                && !active.is_alarm
                && attending.begin()
                && !self.set_alarm(now + WATCH);
            if !is_quick || has_no_alarm {
                attending.end();
            }
            let more = locked.more_at(now);
            self.unlock(locked, active);
            let requests = active.turns.len().max(1) as u64;
            if decided == Decided::Dispatch {
                if !active.turns.is_empty() && !attending.is_on() {
                    let more = if shared.has_left() { Some(now) } else { more };
                    self.leave_to_alarm(more, if is_quick { WATCH } else { Nanos::ZERO }, active);
                }
                self.deliver(active);
                if !attending.has_begun() && shared.may_rest() {
                    return Ok(());
                }
            } else {
                attending.end();
                if self.is_left_to_others(decided, active) {
                    return Ok(());
                }
            }
            if now - began > TURN_MAX && !active.is_alarm {
                attending.end();
                if self.set_alarm(now) {
                    return Ok(());
                }
            }
            let Some(again) = self.lock_again(&mut attending, active)? else { return Ok(()) };
            locked = again;
            let had_company = locked.was_held_after(now);
            let before = core::mem::replace(&mut now, locked.now(shared));
            locked.take_along(shared, now);
            locked.is_sought |= had_company;
            let turn_ns = (now - before).0 / requests;
            locked.turn_ns = (locked.turn_ns * 7 + turn_ns.min(SLOW.0 * 8)) / 8;
            decided = self.decide(&mut locked, now, active);
            while decided == Decided::Dispatch
                && attending.is_on()
                && active.decided_count() < REQUESTS_AT_ONCE
                && self.decide(&mut locked, now, active) == Decided::Dispatch
            {}
        }
    }

    /// Whether this loop may end, having found nothing to dispatch.
    fn is_left_to_others(&self, decided: Decided, active: &Active) -> bool {
        if let Decided::Wait(until) = decided
            && self.dispatches_by_itself()
        {
            if active.is_alarm {
                self.shared.sleeper.set_for_return(until);
                return !self.shared.has_left();
            }
            if self.set_alarm(until) {
                return !self.shared.has_left();
            }
            // With no thread to be had, the wait is the caller's.
            thread::sleep(Duration::from_nanos((until - self.shared.clock.now()).0));
            return false;
        }
        !self.shared.has_left()
    }

    /// The lock once more; `None` if whoever has it, or attends, does what is left.
    fn lock_again(
        &self,
        attending: &mut Attending<'_>,
        active: &Active,
    ) -> Result<Option<Held<'_, Locked>>, Error> {
        let shared = &*self.shared;
        if !attending.is_on() {
            return if active.is_alarm { shared.try_lock() } else { shared.try_attend() };
        }
        if let Some(locked) = shared.try_lock()? {
            return Ok(Some(locked));
        }
        // Who has the lock may have looked at what is left before the latest was left to this loop.
        attending.end();
        if shared.has_left() { shared.try_lock() } else { Ok(None) }
    }

    /// Lets go of the lock inside a call-back. What the call-back asked for is dispatched by the
    /// loop that called it; what others have left meanwhile must not wait that long, nor those who
    /// rely on whoever has the lock.
    pub(crate) fn leave_to_loop(&self, locked: Held<'_, Locked>, now: Timestamp, has_taken: bool) {
        let shared = &*self.shared;
        self.ring_timer(&locked, now);
        locked.note_urgency(shared);
        let more = locked.more_at(now).map(|from| from.max(now + WATCH));
        let is_quiet = shared.quiet_wanted.load(Ordering::SeqCst) > 0 && locked.is_quiet();
        drop(locked);
        if is_quiet {
            shared.quiet.wake();
        }
        if let Some(from) = if has_taken || shared.has_left() { Some(now) } else { more } {
            // Without an alarm it waits for the loop after all.
            _ = self.set_alarm(from);
        }
    }

    /// Before a call-back: what might go `from` then on, or is left in the ring, is seen to within
    /// `grace`, however long the call-back takes.
    fn leave_to_alarm(&self, from: Option<Timestamp>, grace: Nanos, active: &Active) {
        if let Some(from) = from {
            // Without an alarm it waits for this loop after all.
            _ = self.set_alarm(from + grace);
        } else if active.is_alarm {
            let again = self.again();
            self.shared.sleeper.stand_in(self.shared.clock, again);
        }
    }

    /// After publishing inside a call-back: whoever has claimed an entry behind it may have looked
    /// before, and gone.
    pub(crate) fn see_to_followers(&self, ring: &Ring, published: u64) {
        if ring.claimed_count() > published {
            // Without an alarm they wait for the loop after all.
            _ = self.set_alarm(self.shared.clock.now());
        }
    }

    /// Lets go of the lock, and tells those who sleep what has changed for them.
    pub(crate) fn unlock(&self, mut locked: Held<'_, Locked>, active: &mut Active) {
        let shared = &*self.shared;
        let published = locked.wanted.take().map(|detail| {
            let now = locked.now(shared);
            shared.published.set(locked.snapshot(now, detail))
        });
        locked.note_urgency(shared);
        locked.exchange_blocks();
        let is_quiet = shared.quiet_wanted.load(Ordering::SeqCst) > 0 && locked.is_quiet();
        drop(locked);
        if published.is_some() {
            shared.published.announce();
        }
        if is_quiet {
            shared.quiet.wake();
        }
        for slot in active.woken.drain(..) {
            shared.places.of(slot).wake();
        }
    }

    fn ring_timer(&self, locked: &Locked, now: Timestamp) {
        if let Some(timer) = &self.shared.timer {
            match locked.hold_until {
                Some(until) if until > now => timer.ring_at(now, until),
                _ if locked.has_something_to_poll(now) => timer.ring(),
                _ => {}
            }
        }
    }

    /// Calls back, once for each piece without a gap: requests that are waited for leave gaps.
    fn deliver(&self, active: &mut Active) {
        if let Delivery::CallBack(call_back) = &self.shared.delivery {
            let mut start = 0;
            for (kind, end) in &active.batches {
                let mut turns: &[Turn] = &active.turns[start..*end];
                while !turns.is_empty() {
                    let (piece, rest) = turns.split_at(piece_length(turns));
                    call_back.deliver(self, &batch(*kind, piece));
                    turns = rest;
                }
                start = *end;
            }
        }
        active.turns.clear();
        active.batches.clear();
    }

    /// Has the alarm's thread look at `until`; whether there is one.
    fn set_alarm(&self, until: Timestamp) -> bool {
        let shared = &*self.shared;
        self.dispatches_by_itself() && shared.sleeper.set(shared.clock, until, self.again())
    }

    /// What is done when the alarm rings.
    fn again(&self) -> impl Fn() -> bool + Send + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || look_again(&shared)
    }
}

fn piece_length(turns: &[Turn]) -> usize {
    let mut end = turns[0].offset;
    let is_beyond = |turn: &Turn| {
        let leaves_gap = turn.offset > end;
        end = end.max(turn.offset + turn.length);
        leaves_gap
    };
    turns.iter().position(is_beyond).unwrap_or(turns.len())
}

/// The alarm has rung; whether there is still a controller.
fn look_again(shared: &Weak<Shared>) -> bool {
    let Some(shared) = shared.upgrade() else { return false };
    let controller = Controller { shared };
    if let Some(mut active) = Active::enter(controller.shared.slots.key()) {
        active.is_alarm = true;
        controller.shared.depose_attendant();
        // A broken scheduler is reported to those who call it.
        _ = controller.pump(&mut active);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use forebay_sched::{Access, PolicyName, PolicySettings, build};
    use forebay_units::{Bytes, Offset};

    use crate::operation::{Batch, FileKey, Submission};
    use crate::options::Options;
    use crate::ring::Operation;

    /// A call-back claims an entry, somebody else leaves a request behind it and finds that it cannot
    /// be read yet, and the call-back publishes and goes on.
    #[test]
    fn what_was_left_behind_a_claimed_entry_does_not_wait_for_the_claimers_call_back() {
        let (sender, dispatched) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let call_back = move |controller: &Controller, batch: &Batch<'_>| {
            for turn in batch.turns {
                controller.complete(turn.ticket, crate::Outcome::Moved(turn.length)).unwrap();
                sender.lock().unwrap().send(turn.id).unwrap();
            }
        };
        let policy = build(PolicyName::To, &PolicySettings::default());
        let delivery = Delivery::CallBack(Box::new(call_back));
        let controller = Controller::new(&Options::default(), policy, delivery).unwrap();
        let claim = controller.shared.ring.claim().unwrap();
        let file = FileKey { high: 0, low: 1 };
        let left = Submission::new(7, file, Access::Read, Offset(0), Bytes(1));
        controller.submit(&left).unwrap();
        assert!(dispatched.try_recv().is_err(), "it must not overtake what comes before");
        let published = claim.publish(&Operation::Nothing);
        controller.see_to_followers(&controller.shared.ring, published);
        assert_eq!(dispatched.recv_timeout(Duration::from_secs(30)), Ok(7));
    }

    /// The call-back returns only when the alarm's thread has carried out what was left meanwhile, so
    /// after its loop was deposed, and then nothing waits.
    #[test]
    fn a_loop_that_was_deposed_learns_how_slow_its_call_back_was() {
        let (sender, dispatched) = mpsc::channel();
        let shared_receiver = std::sync::Mutex::new(dispatched);
        let call_back = move |controller: &Controller, batch: &Batch<'_>| {
            for turn in batch.turns {
                controller.complete(turn.ticket, crate::Outcome::Moved(turn.length)).unwrap();
                match turn.id {
                    1 => {
                        let dispatched = shared_receiver.lock().unwrap();
                        let other = std::thread::scope(|scope| {
                            let late = Submission::new(2, FILE, Access::Read, Offset(0), Bytes(1));
                            scope.spawn(move || controller.submit(&late)).join().unwrap().unwrap();
                            dispatched.recv_timeout(Duration::from_secs(30))
                        });
                        assert_eq!(other, Ok(2));
                    }
                    id => sender.send(id).unwrap(),
                }
            }
        };
        const FILE: FileKey = FileKey { high: 0, low: 1 };
        let policy = build(PolicyName::To, &PolicySettings::default());
        let delivery = Delivery::CallBack(Box::new(call_back));
        let controller = Controller::new(&Options::default(), policy, delivery).unwrap();
        let shared = &controller.shared;
        let began = std::time::Instant::now();
        while !controller.change(|locked, _| locked.knows_ticks()).unwrap() {
            assert!(began.elapsed() < Duration::from_secs(30), "a loop rests once ticks are known");
        }
        // As if another thread had found the lock taken: the loop is sought, and attends.
        let left = Submission::new(1, FILE, Access::Read, Offset(0), Bytes(1));
        shared.leave(&left).unwrap();
        let mut active = Active::enter(shared.slots.key()).unwrap();
        controller.pump(&mut active).unwrap();
        drop(active);
        let turn_ns = shared.lock_in_turn().unwrap().0.turn_ns;
        assert!(turn_ns >= SLOW.0 / 2, "{turn_ns}");
    }
}
