//! What is counted of a part's requests: how busy, how much to order, how much was moved.

use forebay_units::{Bytes, Nanos, Timestamp};

/// Counters that only grow, apart from what is here now. O(1) for each event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    now: Timestamp,
    pub(crate) queued: u32,
    pub(crate) in_flight: u32,
    /// Of those in flight, how many would wait if none were merged: what a batch has beyond its
    /// first. A policy that merges well empties the queue, and is no light load.
    merged: u32,
    /// Time with at least one request here.
    pub(crate) busy: Nanos,
    /// Time with at least two to choose among.
    pub(crate) ready: Nanos,
    /// `busy` at the last end of a request.
    pub(crate) busy_at_end: Nanos,
    pub(crate) bytes: u64,
    /// Requests that ended after they were dispatched.
    pub(crate) ended: u64,
}

impl Load {
    /// Time passes; it does not run backwards.
    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let passed = now - self.now;
        self.now = self.now.max(now);
        if self.queued + self.in_flight > 0 {
            self.busy += passed;
            if self.queued + self.merged >= 2 {
                self.ready += passed;
            }
        }
    }

    #[inline]
    pub(crate) fn submitted(&mut self, now: Timestamp) {
        self.advance(now);
        self.queued = self.queued.saturating_add(1);
    }

    #[inline]
    pub(crate) fn dispatched(&mut self, now: Timestamp, requests: u32) {
        self.advance(now);
        let requests = requests.min(self.queued);
        self.queued -= requests;
        self.in_flight += requests;
        self.merged += requests.saturating_sub(1);
    }

    #[inline]
    pub(crate) fn ended(&mut self, now: Timestamp, moved: Bytes, was_dispatched: bool) {
        self.advance(now);
        if !was_dispatched {
            self.queued = self.queued.saturating_sub(1);
            return;
        }
        // Which batch it was of is not known: each member takes its part with it.
        self.merged -= self.merged / self.in_flight.max(1);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.merged = self.merged.min(self.in_flight);
        self.busy_at_end = self.busy;
        self.bytes = self.bytes.saturating_add(moved.0);
        self.ended += 1;
    }

    /// What is here, with nothing counted yet.
    pub(crate) fn afresh(&self) -> Self {
        let Self { now, queued, in_flight, merged, .. } = *self;
        Self { now, queued, in_flight, merged, ..Self::default() }
    }

    /// Requests that are here.
    pub(crate) fn outstanding(&self) -> u32 {
        self.queued + self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_merging_empties_is_no_light_load() {
        let mut load = Load::default();
        (0..8).for_each(|_| load.submitted(Timestamp(0)));
        load.dispatched(Timestamp(100), 8);
        load.advance(Timestamp(300));
        assert_eq!((load.busy, load.ready, load.queued), (Nanos(300), Nanos(300), 0));
        (0..8).for_each(|_| load.ended(Timestamp(300), Bytes(10), true));
        load.advance(Timestamp(1000));
        assert_eq!((load.busy, load.ready, load.merged), (Nanos(300), Nanos(300), 0));
        assert_eq!((load.bytes, load.ended, load.outstanding()), (80, 8, 0));
    }

    #[test]
    fn one_at_a_time_is_a_light_load() {
        let mut load = Load::default();
        for number in 0..100 {
            load.submitted(Timestamp(number * 10));
            load.dispatched(Timestamp(number * 10), 1);
            load.ended(Timestamp(number * 10 + 9), Bytes(1), true);
        }
        assert_eq!((load.busy, load.ready), (Nanos(900), Nanos(0)));
    }

    #[test]
    fn numbers_that_do_not_fit_together_do_no_harm() {
        let mut load = Load::default();
        load.ended(Timestamp(5), Bytes(u64::MAX), true);
        load.dispatched(Timestamp(3), 7);
        load.ended(Timestamp(1), Bytes(u64::MAX), false);
        load.ended(Timestamp(u64::MAX), Bytes(u64::MAX), true);
        assert_eq!((load.outstanding(), load.bytes), (0, u64::MAX));
    }
}
