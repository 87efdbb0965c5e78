//! Which pause between two messages of a stream means that the application asked anew.
//!
//! Idea: what an application asks for at once is sent at once, so its messages come at the pace of
//! links and processors; the next request comes after an answer. A histogram of pauses, in half
//! octaves, shows both as heaps with an empty valley between them, and the limit is put into it.
//! Where pauses on both sides of the limit run into each other, or no end of a burst comes at all,
//! nothing can be told, and each message counts as a request.

use forebay_units::Nanos;

/// Two buckets an octave, up to 2^40 ns.
const BUCKETS: usize = 80;
/// Messages between two looks for the valley.
const LOOK_EVERY: u16 = 512;
/// The limit is looked for between 2^10 and 2^18 ns, about 1 and 262 us: quicker than any pause
/// between requests, and slower than messages that are sent together.
const SEARCHED: core::ops::Range<usize> = 20..36;
/// A valley is at least so wide: one and a half octaves.
const WIDTH_MIN: usize = 3;
/// And has at most this part of all pauses in each of its buckets.
const FLOOR_PART: u32 = 128;
/// Where no valley is, so large a part of all pauses within an octave of the limit means that it
/// cuts through a heap.
const NEAR_PART: u32 = 3;
/// So often in a row: when many clients begin at once, it is that way for a while.
const DOUBTS_MAX: u8 = 8;
/// Before anything is known.
const FIRST_LIMIT: Nanos = Nanos::micros(50);

#[derive(Clone, Debug)]
pub(super) struct Pauses {
    counts: [u16; BUCKETS],
    until_look: u16,
    limit: Nanos,
    /// Looks in a row at which it cut through a heap.
    doubts: u8,
}

impl Pauses {
    pub(super) const fn new() -> Self {
        Self { counts: [0; BUCKETS], until_look: LOOK_EVERY, limit: FIRST_LIMIT, doubts: 0 }
    }

    /// Messages that follow each other at most this far apart belong together.
    pub(super) const fn limit(&self) -> Nanos {
        self.limit
    }

    #[inline]
    pub(super) fn add(&mut self, pause: Nanos) {
        self.counts[bucket(pause)] += 1;
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look();
        }
    }

    /// Messages followed each other without end: pauses tell nothing, until there is a valley.
    pub(super) fn no_end(&mut self) {
        (self.limit, self.doubts) = (Nanos::ZERO, 0);
    }

    /// Puts the limit into the widest valley, and forgets most of what was seen.
    #[cold]
    fn look(&mut self) {
        self.until_look = LOOK_EVERY;
        let sum = |counts: &[u16]| counts.iter().map(|count| u32::from(*count)).sum::<u32>();
        let total = sum(&self.counts);
        let floor = total / FLOOR_PART;
        let mut below = sum(&self.counts[..SEARCHED.start]);
        // Width and first bucket of the widest valley, and of the one that is being crossed.
        let (mut widest, mut valley) = ((0, 0), (0, SEARCHED.start));
        for bucket in SEARCHED {
            let count = u32::from(self.counts[bucket]);
            below += count;
            let is_empty = count <= floor;
            valley = if is_empty { (valley.0 + 1, valley.1) } else { (0, bucket + 1) };
            let has_sides = below * 32 >= total && (total - below) * 512 >= total && below < total;
            if valley.0 > widest.0 && has_sides {
                widest = valley;
            }
        }
        if let (width, first) = widest
            && width >= WIDTH_MIN
        {
            self.limit = Nanos(1 << ((2 * first + width) / 4));
            self.doubts = 0;
        } else {
            let bucket = bucket(self.limit);
            let near = sum(&self.counts[bucket.saturating_sub(2)..bucket + 2]);
            let is_in_doubt = near * NEAR_PART >= total && self.limit > Nanos::ZERO;
            self.doubts = if is_in_doubt { self.doubts + 1 } else { 0 };
            if self.doubts == DOUBTS_MAX {
                self.no_end();
            }
        }
        self.counts.iter_mut().for_each(|count| *count /= 4);
    }
}

#[inline]
fn bucket(pause: Nanos) -> usize {
    let pause = pause.0 | 2;
    let octave = pause.ilog2();
    // The octave's number, and the bit below the highest one.
    let bucket = 2 * octave as usize + (pause >> (octave - 1)) as usize - 2;
    bucket.min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(pauses: &[(u64, u32)]) -> Nanos {
        let mut seen = Pauses::new();
        for _ in 0..5_000 {
            for (pause, count) in pauses {
                (0..*count).for_each(|_| seen.add(Nanos(*pause)));
            }
        }
        seen.limit()
    }

    #[test]
    fn the_limit_lies_between_messages_sent_together_and_requests() {
        let between = |limit: Nanos, low, high| (low..high).contains(&limit.0);
        assert!(between(limit(&[(5_500, 7), (400_000, 1)]), 6_000, 400_000));
        assert!(between(limit(&[(5_500, 31), (9_000_000, 1)]), 6_000, 9_000_000));
        assert!(between(limit(&[(2_000, 1), (30_000, 1)]), 2_001, 30_000));
        assert!(between(limit(&[(90_000, 3), (4_000_000, 1)]), 90_001, 4_000_000));
    }

    #[test]
    fn requests_of_one_message_are_told_apart_whatever_the_pause() {
        assert!(limit(&[(1_000_000, 1)]) < Nanos(1_000_000));
        assert!(limit(&[(30_000, 1), (40_000, 1), (55_000, 1), (70_000, 1)]) < Nanos(30_000));
        let mut endless = Pauses::new();
        endless.no_end();
        (0..5_000).for_each(|_| endless.add(Nanos(3_000)));
        assert_eq!(endless.limit(), Nanos::ZERO);
    }
}
