//! The controller's clock: monotonic nanoseconds since it was made.
//!
//! Asking the system takes a tenth of a request's time. So the holder of the lock asks it only
//! every few microseconds and counts the processor's own ticks in between. How long a tick is, it
//! learns from the system's answers; a tick counter that jumps, goes back or stands still is wrong
//! for those few microseconds, or a few hundred calls, only.

use std::time::Instant;

use forebay_units::{Nanos, Timestamp};

use crate::sys;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Asks the system.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The longest time that is counted in ticks.
const COUNTED_MAX: Nanos = Nanos::micros(8);

/// How often ticks are counted at most before the system is asked: a counter that stands still would
/// never say that it is time to.
const COUNTS_MAX: u32 = 500;

/// The shortest time from which the length of a tick is learned.
const LEARNED_MIN: Nanos = Nanos::millis(1);

/// Ticks between two answers of the system. Never goes back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    /// The system's latest answer, and the counter then.
    asked: Timestamp,
    ticks: u64,
    /// How often they were counted since.
    counts: u32,
    /// From when on the length of a tick is being learned.
    learning: (Timestamp, u64),
    /// Nanoseconds a tick, times 2^32; 0 while it is not known.
    tick: u64,
    latest: Timestamp,
    /// The counter at the latest time.
    latest_ticks: u64,
    /// What must not be gone behind any more.
    passed: Timestamp,
}

impl Ticks {
    pub(crate) fn now(&mut self, clock: &Clock) -> Timestamp {
        let ticks = sys::ticks();
        let now = self.count(ticks).unwrap_or_else(|| self.ask(clock.now(), ticks));
        self.passed = self.latest;
        (self.latest, self.latest_ticks) = (self.latest.max(now), ticks);
        self.latest
    }

    /// The time at which the counter was there: not later than the latest, and in the order of calls
    /// not before any other that was told. The latest, as long as the length of a tick is not known.
    pub(crate) fn then(&mut self, ticks: u64) -> Timestamp {
        let since = u128::from(self.latest_ticks.saturating_sub(ticks));
        let ago = (since * u128::from(self.tick)) >> 32;
        let ago = u64::try_from(ago).unwrap_or(u64::MAX).min(self.latest.0);
        self.passed = self.passed.max(Timestamp(self.latest.0 - ago));
        self.passed
    }

    /// The latest time that was told.
    pub(crate) fn latest(&self) -> Timestamp {
        self.latest
    }

    /// Whether the length of a tick is known.
    pub(crate) fn are_known(&self) -> bool {
        self.tick > 0
    }

    /// The time by the counter alone, if it is near enough to the system's latest answer.
    fn count(&mut self, ticks: u64) -> Option<Timestamp> {
        let since = u128::from(ticks.wrapping_sub(self.ticks)) * u128::from(self.tick);
        let nanos = u64::try_from(since >> 32).ok()?;
        self.counts += 1;
        let is_near = self.tick > 0 && nanos < COUNTED_MAX.0 && self.counts <= COUNTS_MAX;
        is_near.then(|| self.asked + Nanos(nanos))
    }

    fn ask(&mut self, now: Timestamp, ticks: u64) -> Timestamp {
        let passed = now - self.learning.0;
        if passed >= LEARNED_MIN {
            let counted = ticks.wrapping_sub(self.learning.1);
            let tick = (u128::from(passed.0) << 32).checked_div(u128::from(counted)).unwrap_or(0);
            // Counters run at 1 MHz to 10 GHz; what seems to be anything else has jumped.
            let is_possible = (1 << 28..1000_u128 << 32).contains(&tick);
            self.tick = if is_possible { tick as u64 } else { 0 };
            self.learning = (now, ticks);
        }
        (self.asked, self.ticks, self.counts) = (now, ticks, 0);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of three ticks a nanosecond.
    fn learned() -> Ticks {
        let mut ticks = Ticks::default();
        ticks.ask(Timestamp(0), 1_000);
        ticks.learning = (Timestamp(0), 1_000);
        ticks.ask(Timestamp(2_000_000), 6_001_000);
        ticks
    }

    #[test]
    fn nothing_is_counted_before_a_tick_is_known() {
        let mut ticks = Ticks::default();
        assert_eq!(ticks.count(5), None);
        ticks.ask(Timestamp(10), 30);
        assert_eq!(ticks.count(31), None);
    }

    #[test]
    fn between_two_answers_ticks_are_counted() {
        let mut ticks = learned();
        let mut at = |nanos: u64| ticks.count(6_001_000 + 3 * nanos);
        assert!((at(1_000).unwrap().0).abs_diff(2_001_000) <= 1);
        assert_eq!(at(COUNTED_MAX.0 + 10), None, "the system is asked again");
    }

    #[test]
    fn a_counter_that_jumps_is_not_believed() {
        let mut ticks = learned();
        assert_eq!(ticks.count(6_000_999), None, "back");
        assert_eq!(ticks.count(u64::MAX), None, "far ahead");
        ticks.ask(Timestamp(4_000_000), 6_001_001);
        assert_eq!(ticks.count(6_001_002), None, "it has stood still, so nothing is known");
    }

    #[test]
    fn a_counter_that_stands_still_is_not_counted_for_ever() {
        let mut ticks = learned();
        let counts = (0..10_000).take_while(|_| ticks.count(6_001_000).is_some()).count();
        assert_eq!(counts, COUNTS_MAX as usize);
        ticks.ask(Timestamp(4_000_000), 6_001_000);
        assert_eq!(ticks.count(6_001_000), None, "nothing is known of its length any more");
    }

    #[test]
    fn what_was_counted_before_is_placed_in_time() {
        let mut ticks = learned();
        assert!(ticks.are_known() && !Ticks::default().are_known());
        (ticks.latest, ticks.latest_ticks) = (Timestamp(2_000_000), 6_001_000);
        ticks.passed = Timestamp(1_000_000);
        let then = ticks.then(6_001_000 - 3 * 500_000);
        assert!(then.0.abs_diff(1_500_000) <= 1, "{then:?}");
        assert_eq!(ticks.then(4_000), then, "nothing is placed before what was told");
        assert_eq!(ticks.then(7_000_000), Timestamp(2_000_000), "nor after now");
    }

    #[test]
    fn time_never_goes_back() {
        let (clock, mut ticks) = (Clock::start(), Ticks::default());
        let mut latest = Timestamp(0);
        let deadline = Instant::now() + std::time::Duration::from_millis(20);
        while Instant::now() < deadline {
            let now = ticks.now(&clock);
            assert!(now >= latest);
            latest = now;
        }
        let asked = clock.now();
        assert!(asked - ticks.now(&clock) < Nanos::millis(1));
    }
}
