//! Reservations: a class gets its reserved part first, and weights share what is over.
//!
//! Source:      mClock (Gulati, Merchant, Varman, OSDI 2010), section 3, and its form in Ceph's dmclock.
//! Idea:        a class with a reservation has a clock that says when its next reserved batch is
//!              due. Whoever is due goes first, the most overdue before the others; otherwise
//!              weights decide. The limit tag of dmClock is a token bucket by cost.
//! Units:       cost a second; with nanoseconds of device time as cost, 10^9 is the whole device.
//!              Time in nanoseconds, rounded up by less than one a batch.
//! Cost:        O(log n) a decision for n classes; 16 bytes a class.
//! Deviations:  1. What leaves by weight does not use up the reservation (as there), and what leaves by
//!                 reservation does not move the weight's tag (there it does): what is over is shared
//!                 by weight exactly, with SFQ(D)'s bound.
//!              2. A clock is set to the present when its class comes back, not at each batch: a class
//!                 that always wants makes up for batches that were late, up to one second.
//!              3. No idle scan, since virtual time is SFQ's; no anticipation time after a completion,
//!                 and no part for what other servers have given a class.
//!              4. Reservations that together exceed the capacity are scaled down in proportion.
//!              5. A reserved batch waits for the limits of its class and group.
//! Loses when:  costs are guesses: a reservation is kept in cost, not in requests or seconds. On a
//!              device that is slower than its stated capacity nothing but reservations is served.
//!
//! Bound: a class that always wants gets at least `r · t − (D + 1) · Max − Max`; one with a limit at
//! most `burst + l · t + Max`; what is over is shared by weight.

use forebay_units::{Nanos, Timestamp};

/// How far a clock may fall behind before what it is owed is forgotten.
const LAG_MAX: Nanos = Nanos::secs(1);

/// A class's reservation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reservation {
    /// Cost a second; 0 for none.
    pub(super) per_second: u64,
    /// When the next reserved batch is due.
    pub(super) due: Timestamp,
}

/// What all reservations together take of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Their sum, cost a second.
    pub(super) total: u128,
    /// What the device carries, cost a second, if that is known.
    pub(super) capacity: Option<u64>,
}

impl Load {
    /// Whether more is reserved than there is.
    pub(super) fn is_overcommitted(self) -> bool {
        self.capacity.is_some_and(|capacity| self.total > u128::from(capacity))
    }
}

impl Reservation {
    /// The class comes back: time that has passed is not owed to it.
    pub(super) fn enter(&mut self, now: Timestamp) {
        self.due = self.due.max(now);
    }

    /// The class has had `cost` by its reservation.
    pub(super) fn spend(&mut self, now: Timestamp, cost: u64, load: Load) {
        let second = u128::from(Nanos::secs(1).0);
        let (mut time, mut rate) = (u128::from(cost) * second, u128::from(self.per_second));
        if let (true, Some(capacity)) = (load.is_overcommitted(), load.capacity) {
            time = time.saturating_mul(load.total);
            rate *= u128::from(capacity.max(1));
        }
        let time = u64::try_from(time.div_ceil(rate)).unwrap_or(u64::MAX);
        let oldest = Timestamp(now.0.saturating_sub(LAG_MAX.0));
        self.due = self.due.max(oldest) + Nanos(time);
    }
}
