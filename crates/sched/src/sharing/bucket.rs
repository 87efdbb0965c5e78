//! Token bucket: a limit that is exact over any interval.
//!
//! Source:      the generic cell rate algorithm (ITU-T I.371, annex A, virtual scheduling); limits by
//!              job as in Lustre's token bucket filter (Qian et al. 2017).
//! Idea:        instead of tokens that are refilled, one moment: when the bucket would be full
//!              again if nothing more were taken. What is missing until then is the *level*; whoever
//!              finds a level of at most the burst may take, as much as it likes, and waits afterwards.
//! Units:       requests, bytes or cost; rate in units a second, burst in units, level in units
//!              times 10^9. Time in nanoseconds.
//! Cost:        every operation O(1), no timer; 40 bytes.
//! Deviations:  1. Lustre counts requests and refills by timer steps, which loses what a step does
//!                 not divide; here the remainder of the division is kept, so nothing is lost.
//!              2. A batch larger than the burst goes when the level allows, and leaves debt; Lustre
//!                 knows no sizes.
//! Loses when:  the device is shared with something that it does not see: a limit is no guarantee.
//!
//! Bound: in any interval of length `t`, what is taken is at most `burst + rate · t` and one batch.
//! One that always wants takes at least `rate · t − burst` less one batch; with no burst it loses less
//! than a nanosecond a batch, and whatever time it is asked too late. A new rate keeps the level.

use forebay_units::{Nanos, Timestamp};

use super::settings::Rate;

const SECOND: u128 = 1_000_000_000;

/// A limit and how far it is used up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// When the bucket is full again, apart from `remainder / rate` nanoseconds (the "theoretical arrival time").
    full_at: Timestamp,
    /// Below `rate`.
    remainder: u64,
    /// From when on something may be taken: the first nanosecond at which no more than the burst is missing.
    free_at: Timestamp,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate, full_at: Timestamp(0), remainder: 0, free_at: Timestamp(0) }
    }

    /// Changes rate and burst; what is missing stays missing.
    pub(super) fn set_rate(&mut self, now: Timestamp, rate: Rate) {
        let level = self.level(now);
        self.rate = rate;
        self.set_level(now, level);
    }

    /// From when on something may be taken.
    pub(super) fn free_at(&self) -> Timestamp {
        self.free_at
    }

    /// Takes `units`, whether or not it may.
    pub(super) fn take(&mut self, now: Timestamp, units: u64) {
        self.set_level(now, self.level(now) + u128::from(units) * SECOND);
    }

    /// Gives `units` back; a full bucket stays full.
    pub(super) fn give_back(&mut self, now: Timestamp, units: u64) {
        self.set_level(now, self.level(now).saturating_sub(u128::from(units) * SECOND));
    }

    /// Forgives what would take longer than `debt` to pay, beyond the burst.
    pub(super) fn forgive(&mut self, now: Timestamp, debt: Nanos) {
        let debt = u128::from(debt.0) * u128::from(self.rate.per_second);
        self.set_level(now, self.level(now).min(self.burst() + debt));
    }

    /// Whether nothing is missing.
    pub(super) fn is_full(&self, now: Timestamp) -> bool {
        self.level(now) == 0
    }

    /// What is missing, in units times 10^9.
    fn level(&self, now: Timestamp) -> u128 {
        if self.full_at < now {
            return 0;
        }
        let left = u128::from((self.full_at - now).0);
        left * u128::from(self.rate.per_second) + u128::from(self.remainder)
    }

    fn set_level(&mut self, now: Timestamp, level: u128) {
        let rate = u128::from(self.rate.per_second);
        self.full_at = now + nanos(level / rate);
        self.remainder = (level % rate) as u64;
        self.free_at = match self.burst().checked_sub(u128::from(self.remainder)) {
            Some(spare) => Timestamp(self.full_at.0.saturating_sub(nanos(spare / rate).0)),
            None => self.full_at + Nanos(1),
        };
    }

    /// The level up to which something may be taken.
    fn burst(&self) -> u128 {
        u128::from(self.rate.burst) * SECOND
    }
}

fn nanos(count: u128) -> Nanos {
    Nanos(u64::try_from(count).unwrap_or(u64::MAX))
}
