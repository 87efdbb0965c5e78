//! A queue in arrival order that also takes requests which come late, and gives up any of them.
//!
//! Nearly every request arrives in `seq` order, so the queue is a ring sorted by `seq`. A request
//! that the guard held back arrives behind younger ones; those few go to an ordered map, and the
//! older of the two heads leaves first. A request taken out of the middle leaves an empty place,
//! and the ring is swept once half of its places are empty.

use alloc::collections::VecDeque;

use crate::ordered_map::OrderedMap;
use crate::request::Accepted;

#[derive(Clone, Copy, Debug)]
struct Place {
    accepted: Accepted,
    is_empty: bool,
}

/// Requests by `seq`, cheapest when they come in order.
#[derive(Debug, Default)]
pub(crate) struct SeqQueue {
    /// Sorted by `seq`; the first place is never empty.
    in_order: VecDeque<Place>,
    late: OrderedMap<u64, Accepted>,
    empty_places: usize,
}

impl SeqQueue {
    /// Puts a request at the place that its `seq` gives it.
    pub(crate) fn insert(&mut self, accepted: Accepted) {
        match self.in_order.back() {
            Some(last) if last.accepted.seq > accepted.seq => {
                self.late.insert(accepted.seq, accepted);
            }
            _ => self.in_order.push_back(Place { accepted, is_empty: false }),
        }
    }

    /// The oldest request.
    pub(crate) fn first(&self) -> Option<Accepted> {
        let in_order = self.in_order.front().map(|place| place.accepted);
        let late = self.late.first().map(|(_, accepted)| accepted);
        match (in_order, late) {
            (Some(a), Some(b)) => Some(if a.seq < b.seq { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// Takes out the oldest request.
    pub(crate) fn pop_first(&mut self) -> Option<Accepted> {
        if self.late.is_empty() {
            let place = self.in_order.pop_front()?;
            self.tidy();
            return Some(place.accepted);
        }
        let first = self.first()?;
        self.remove(first.seq)
    }

    /// Takes out the request with this `seq`, if it is here.
    pub(crate) fn remove(&mut self, seq: u64) -> Option<Accepted> {
        if let Some(accepted) = self.late.remove(seq) {
            return Some(accepted);
        }
        let index = self.in_order.binary_search_by_key(&seq, |place| place.accepted.seq).ok()?;
        let place = &mut self.in_order[index];
        if core::mem::replace(&mut place.is_empty, true) {
            return None;
        }
        let accepted = place.accepted;
        self.empty_places += 1;
        self.tidy();
        Some(accepted)
    }

    /// Forgets everything and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.in_order.clear();
        self.late.clear();
        self.empty_places = 0;
    }

    /// How many requests are queued.
    pub(crate) fn count(&self) -> usize {
        self.in_order.len() - self.empty_places + self.late.len()
    }

    /// Keeps the first place occupied and at least half of the places in use.
    fn tidy(&mut self) {
        while self.in_order.front().is_some_and(|place| place.is_empty) {
            self.in_order.pop_front();
            self.empty_places -= 1;
        }
        if self.empty_places > 16 && self.empty_places * 2 > self.in_order.len() {
            self.in_order.retain(|place| !place.is_empty);
            self.empty_places = 0;
        }
    }
}
