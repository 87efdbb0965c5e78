//! What happened when, in a fixed number of slices of time, however long it takes: when time runs
//! beyond the last slice, two become one.

use alloc::vec::Vec;

use forebay_units::{Bytes, Timestamp};
use serde::Serialize;

/// Slices at most; half as many at least, once time has run far enough.
const SLICES: usize = 128;

/// The shortest slice: a microsecond.
const SHORTEST_NS: u64 = 1_000;

/// A slice of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// Its beginning, since the first event.
    pub from_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Requests that came.
    pub arrived: u64,
    /// Requests that ended.
    pub ended: u64,
    /// Bytes moved by those that ended.
    pub bytes: u64,
    /// The sum of their times from arrival to end; over `length_ns` it is how many were there at
    /// a time (Little's law), as far as those that ended tell.
    pub latency_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    start: Option<Timestamp>,
    /// Each of `2^doublings` times the shortest.
    slices: Vec<Moment>,
    doublings: u32,
}

impl Timeline {
    pub(crate) fn arrive(&mut self, at: Timestamp) {
        self.slice(at).arrived += 1;
    }

    pub(crate) fn end(&mut self, arrived: Timestamp, at: Timestamp, moved: Bytes) {
        let latency = (at - arrived).0;
        let slice = self.slice(at);
        slice.ended += 1;
        slice.bytes = slice.bytes.saturating_add(moved.0);
        slice.latency_ns = slice.latency_ns.saturating_add(latency);
    }

    pub(crate) fn moments(mut self) -> Vec<Moment> {
        let length_ns = self.length_ns();
        for (number, slice) in self.slices.iter_mut().enumerate() {
            (slice.from_ns, slice.length_ns) = (number as u64 * length_ns, length_ns);
        }
        self.slices
    }

    fn length_ns(&self) -> u64 {
        SHORTEST_NS << self.doublings
    }

    fn slice(&mut self, at: Timestamp) -> &mut Moment {
        let start = *self.start.get_or_insert(at);
        let since = (at - start).0;
        while since / self.length_ns() >= SLICES as u64 {
            self.double();
        }
        let number = (since / self.length_ns()) as usize;
        if number >= self.slices.len() {
            self.slices.resize(number + 1, Moment::default());
        }
        &mut self.slices[number]
    }

    fn double(&mut self) {
        self.doublings += 1;
        let pairs = self.slices.chunks(2).map(|pair| {
            pair.iter().fold(Moment::default(), |sum, one| Moment {
                arrived: sum.arrived + one.arrived,
                ended: sum.ended + one.ended,
                bytes: sum.bytes.saturating_add(one.bytes),
                latency_ns: sum.latency_ns.saturating_add(one.latency_ns),
                ..sum
            })
        });
        self.slices = pairs.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_when_slices_become_one() {
        let mut timeline = Timeline::default();
        for second in 0..1_000_u64 {
            let at = Timestamp(5 + second * 1_000_000_000);
            timeline.arrive(at);
            timeline.end(Timestamp(at.0.saturating_sub(10)), at, Bytes(3));
        }
        let moments = timeline.moments();
        assert!((SLICES / 2 - 1..=SLICES).contains(&moments.len()), "{}", moments.len());
        let sum = |of: fn(&Moment) -> u64| moments.iter().map(of).sum::<u64>();
        assert_eq!((sum(|m| m.arrived), sum(|m| m.ended), sum(|m| m.bytes)), (1_000, 1_000, 3_000));
        let length = moments[0].length_ns;
        assert!(moments.iter().enumerate().all(|(n, m)| m.from_ns == n as u64 * length));
        assert!(moments.last().unwrap().from_ns <= 999_000_000_000);
    }

    #[test]
    fn the_longest_time_fits() {
        let mut timeline = Timeline::default();
        timeline.arrive(Timestamp(0));
        timeline.arrive(Timestamp(u64::MAX));
        assert_eq!(timeline.moments().iter().map(|m| m.arrived).sum::<u64>(), 2);
    }
}
