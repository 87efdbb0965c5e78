//! The loop that dispatches: decide under the lock, let go of it, call back, look again.
//!
//! ```text
//!   a thread that finds the lock taken          the one that has it
//!   publishes its operation                     lets go
//!   (fence)                                     (fence)
//!   tries the lock: taken, so it goes           looks into the ring: sees the operation
//! ```
//!
//! Both sides write first and look after a sequentially consistent fence, so at least one of them
//! sees the other: an operation that was left is always found.

use core::sync::atomic::{Ordering, fence};
use std::sync::{Arc, MutexGuard, Weak};

use forebay_units::{Nanos, Timestamp};

use crate::active::Active;
use crate::controller::{Controller, Shared, batch};
use crate::error::Error;
use crate::locked::{Decided, Kind, Locked};
use crate::operation::{Delivery, Turn};

/// How long a caller dispatches for others before the alarm's thread takes over.
const TURN_MAX: Nanos = Nanos::millis(5);

impl Controller {
    /// Dispatches as long as there is something to dispatch and nobody else does.
    pub(crate) fn pump(&self, active: &mut Active) -> Result<(), Error> {
        fence(Ordering::SeqCst);
        let shared = &*self.shared;
        let Some(mut locked) = shared.try_lock()? else { return Ok(()) };
        let now = shared.now();
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
        mut locked: MutexGuard<'a, Locked>,
        began: Timestamp,
        mut decided: Decided,
        active: &mut Active,
    ) -> Result<(), Error> {
        let shared = &*self.shared;
        let mut now = began;
        loop {
            self.ring_timer(&locked, now);
            self.unlock(locked, active);
            match decided {
                Decided::Dispatch(kind) => self.deliver(kind, active),
                Decided::Wait(until) => self.set_alarm(until)?,
                Decided::Nothing => {}
            }
            let is_over = !matches!(decided, Decided::Dispatch(_)) && !shared.ring.has_published();
            if is_over {
                return Ok(());
            }
            if now - began > TURN_MAX && !active.is_alarm {
                return self.set_alarm(now);
            }
            let Some(again) = shared.try_lock()? else { return Ok(()) };
            locked = again;
            now = shared.now();
            locked.take_along(shared, now);
            decided = self.decide(&mut locked, now, active);
        }
    }

    /// Lets go of the lock inside a call-back. What the call-back asked for is dispatched by the
    /// loop that called it; what others have left meanwhile must not wait that long.
    pub(crate) fn leave_to_loop(
        &self,
        locked: MutexGuard<'_, Locked>,
        now: Timestamp,
        has_taken: bool,
    ) -> Result<(), Error> {
        self.ring_timer(&locked, now);
        drop(locked);
        fence(Ordering::SeqCst);
        match has_taken || self.shared.ring.has_published() {
            true => self.set_alarm(now),
            false => Ok(()),
        }
    }

    /// Lets go of the lock, and tells those who sleep what has changed for them.
    pub(crate) fn unlock(&self, mut locked: MutexGuard<'_, Locked>, active: &mut Active) {
        let shared = &*self.shared;
        let publishes = core::mem::take(&mut locked.is_publishing_wanted);
        if publishes {
            shared.published.set(locked.snapshot());
        }
        let is_quiet = shared.quiet_wanted.load(Ordering::SeqCst) > 0 && locked.is_quiet();
        drop(locked);
        fence(Ordering::SeqCst);
        if publishes {
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
    fn deliver(&self, kind: Kind, active: &mut Active) {
        if let Delivery::CallBack(call_back) = &self.shared.delivery {
            let mut turns: &[Turn] = &active.turns;
            while !turns.is_empty() {
                let (piece, rest) = turns.split_at(piece_length(turns));
                call_back.deliver(self, &batch(kind, piece));
                turns = rest;
            }
        }
        active.turns.clear();
    }

    /// Has the alarm's thread look at `until`.
    fn set_alarm(&self, until: Timestamp) -> Result<(), Error> {
        if !self.dispatches_by_itself() {
            return Ok(());
        }
        let shared = Arc::downgrade(&self.shared);
        self.shared.sleeper.set(self.shared.clock, until, move || look_again(&shared))
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
        // A broken scheduler is reported to those who call it.
        _ = controller.pump(&mut active);
    }
    true
}
