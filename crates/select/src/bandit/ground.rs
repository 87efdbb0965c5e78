//! The leaf to act on: what patterns say from look to look, without its flicker.

use forebay_units::{Nanos, Timestamp};

/// How long another leaf has to fit better: at first, and at most.
const PATIENCE: Nanos = Nanos::millis(100);
const PATIENCE_MAX: Nanos = Nanos::secs(5);
/// For each time like this without a change, one is forgotten.
const SETTLED: Nanos = Nanos::secs(5);
/// What a look counts at most, whenever the last one was.
const LOOK_MAX: Nanos = Nanos::millis(100);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ground {
    leaf: Option<usize>,
    since: Timestamp,
    seen_at: Timestamp,
    /// Another leaf, and how much longer it was seen than the one to act on.
    rival: Option<(usize, Nanos)>,
    /// Changes that are not forgotten yet, and when one was last.
    unrest: u32,
    calmed_at: Timestamp,
}

impl Ground {
    pub(crate) fn leaf(&self) -> Option<usize> {
        self.leaf
    }

    /// This leaf fits now; whether it is to be acted on from now on, and was not before.
    pub(crate) fn see(&mut self, now: Timestamp, leaf: usize) -> bool {
        let passed = (now - self.seen_at).min(LOOK_MAX);
        self.seen_at = now;
        let Some(current) = self.leaf else { return self.settle(now, leaf) };
        if now - self.since.max(self.calmed_at) >= SETTLED {
            (self.unrest, self.calmed_at) = (self.unrest.saturating_sub(1), now);
        }
        if leaf == current {
            self.rival = self.rival.map(|(rival, time)| (rival, time - passed));
            return false;
        }
        let time = match self.rival {
            Some((rival, time)) if rival == leaf => time + passed,
            // The first sight of it counts nothing: when it began is not known.
            _ => Nanos::ZERO,
        };
        self.rival = Some((leaf, time));
        let needed = Nanos(PATIENCE.0 << self.unrest.min(10)).min(PATIENCE_MAX);
        if time < needed {
            return false;
        }
        self.unrest += 1;
        self.settle(now, leaf)
    }

    fn settle(&mut self, now: Timestamp, leaf: usize) -> bool {
        (self.leaf, self.since, self.rival) = (Some(leaf), now, None);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 50 ms at the leaves given; how often the leaf to act on changes.
    fn changes(ground: &mut Ground, from: u64, leaves: impl Iterator<Item = usize>) -> u32 {
        let looks = (from..).zip(leaves);
        looks.map(|(n, leaf)| u32::from(ground.see(Timestamp(n * 50_000_000), leaf))).sum()
    }

    #[test]
    fn the_first_leaf_is_taken_at_once_and_the_next_after_a_tenth_of_a_second() {
        let mut ground = Ground::default();
        assert_eq!(changes(&mut ground, 0, [7; 200].into_iter()), 1);
        assert_eq!(changes(&mut ground, 200, [3, 3].into_iter()), 0);
        assert_eq!(changes(&mut ground, 202, [3].into_iter()), 1);
        assert_eq!(ground.leaf(), Some(3));
    }

    #[test]
    fn flicker_is_not_followed() {
        let mut ground = Ground::default();
        assert_eq!(changes(&mut ground, 0, (0..10_000).map(|n| n % 2)), 1);
        let bursts = (0..10_000).map(|n| usize::from(n % 20 < 6));
        assert!(changes(&mut Ground::default(), 0, bursts) < 250);
    }
}
