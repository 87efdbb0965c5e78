//! What will happen, in order of time; what was posted first goes first at the same moment.

use alloc::collections::BinaryHeap;
use core::cmp::Ordering;

use forebay_units::Timestamp;

/// Everything that can happen. Numbers are places in the tables of the [`World`](crate::world::World).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A client makes its next request.
    Issue(u32),
    /// A recorded request is made.
    Replay(u32),
    /// A client sends further parts of a request.
    Continue(u32),
    /// A part has reached its node.
    Arrive(u32),
    /// An answer of a server has reached the forwarder.
    Return(u32),
    /// A device has finished a batch: node and batch.
    Done(u32, u32),
    /// A node's processor is free and something waits for it.
    Wake(u32),
    /// A node's policy wanted to be asked again.
    Ask(u32),
    /// A node's device stalls.
    Stall(u32),
    /// A client vanishes.
    Vanish(u32),
    /// Schedulers share in another way from now on.
    Adjust(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Timestamp,
    number: u64,
    event: Event,
}

impl Ord for Entry {
    /// The earliest is the greatest, because the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events that have not happened yet.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    heap: BinaryHeap<Entry>,
    posted: u64,
}

impl Calendar {
    pub(crate) fn post(&mut self, at: Timestamp, event: Event) {
        self.heap.push(Entry { at, number: self.posted, event });
        self.posted += 1;
    }

    /// When the next one happens.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.heap.peek().map(|entry| entry.at)
    }

    pub(crate) fn next(&mut self) -> Option<(Timestamp, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_posting() {
        let mut calendar = Calendar::default();
        for (at, client) in [(5, 0), (3, 1), (5, 2), (3, 3), (4, 4)] {
            calendar.post(Timestamp(at), Event::Issue(client));
        }
        let order: alloc::vec::Vec<_> = core::iter::from_fn(|| calendar.next()).collect();
        let expected = [(3, 1), (3, 3), (4, 4), (5, 0), (5, 2)];
        assert_eq!(order, expected.map(|(at, client)| (Timestamp(at), Event::Issue(client))));
    }
}
