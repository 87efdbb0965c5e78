//! A queue in arrival order that also takes requests which come late, and gives up any of them.
//!
//! Nearly every request arrives in `seq` order, so the queue is a ring sorted by `seq`. A request
//! that the guard held back arrives behind younger ones; those few go to an ordered map, and the
//! older of the two heads leaves first. A request taken out of the middle leaves an empty place,
//! and the ring is swept once half of its places are empty.

use alloc::collections::VecDeque;

use crate::ordered_map::OrderedMap;
use crate::request::RequestId;

/// The id in an empty place: its slot half is no slot.
const EMPTY: RequestId = RequestId(u64::MAX);

#[derive(Clone, Copy, Debug)]
struct Place {
    seq: u64,
    id: RequestId,
}

/// Requests by `seq`, cheapest when they come in order.
#[derive(Debug, Default)]
pub(crate) struct SeqQueue {
    /// Sorted by `seq`; the first place is never empty.
    in_order: VecDeque<Place>,
    late: OrderedMap<u64, RequestId>,
    empty_places: usize,
}

impl SeqQueue {
    /// Puts a request at the place that its `seq` gives it.
    pub(crate) fn insert(&mut self, seq: u64, id: RequestId) {
        match self.in_order.back() {
            Some(last) if last.seq > seq => _ = self.late.insert(seq, id),
            _ => self.in_order.push_back(Place { seq, id }),
        }
    }

    /// The oldest request: its `seq` and its id.
    pub(crate) fn first(&self) -> Option<(u64, RequestId)> {
        let in_order = self.in_order.front().map(|place| (place.seq, place.id));
        let late = self.late.first();
        match (in_order, late) {
            (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// Takes out the oldest request.
    pub(crate) fn pop_first(&mut self) -> Option<RequestId> {
        if self.late.is_empty() {
            let place = self.in_order.pop_front()?;
            self.tidy();
            return Some(place.id);
        }
        let (seq, id) = self.first()?;
        self.remove(seq);
        Some(id)
    }

    /// Takes out the request with this `seq`; whether it was here.
    pub(crate) fn remove(&mut self, seq: u64) -> bool {
        if self.late.remove(seq).is_some() {
            return true;
        }
        let Ok(index) = self.in_order.binary_search_by_key(&seq, |place| place.seq) else {
            return false;
        };
        if core::mem::replace(&mut self.in_order[index].id, EMPTY) == EMPTY {
            return false;
        }
        self.empty_places += 1;
        self.tidy();
        true
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
        while self.in_order.front().is_some_and(|place| place.id == EMPTY) {
            self.in_order.pop_front();
            self.empty_places -= 1;
        }
        if self.empty_places > 16 && self.empty_places * 2 > self.in_order.len() {
            self.in_order.retain(|place| place.id != EMPTY);
            self.empty_places = 0;
        }
    }
}
