//! Where runs begin: an ordered index of the runs of all queues, each queue's by offset.
//!
//! A queue's only run stands beside the queue; the second one takes both to the map that all
//! queues share. So with many files, most of which have one run, the map stays empty.

use alloc::vec::Vec;

use super::{QueueIndex, queue_and_start};
use crate::ordered_map::{Neighbours, OrderedMap};

const NIL: u32 = u32::MAX;

/// Runs by place; a place begins with the number of its queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    queues: Vec<Only>,
    map: OrderedMap<u128, u32>,
}

/// What a queue has: nothing, one run here, or so many in the map.
#[derive(Clone, Copy, Debug)]
struct Only {
    place: u128,
    run: u32,
    in_map: u32,
}

impl Only {
    const EMPTY: Self = Self { place: 0, run: NIL, in_map: 0 };

    fn entry(self) -> Option<(u128, u32)> {
        (self.run != NIL).then_some((self.place, self.run))
    }
}

fn queue_of(place: u128) -> QueueIndex {
    queue_and_start(place).0
}

impl Index {
    /// Enters a run; returns the one that was at its place before.
    pub(super) fn insert(&mut self, place: u128, run: u32) -> Option<u32> {
        let queue = queue_of(place).0 as usize;
        if queue >= self.queues.len() {
            self.queues.resize(queue + 1, Only::EMPTY);
        }
        let only = &mut self.queues[queue];
        match only.entry() {
            None if only.in_map == 0 => {
                (only.place, only.run) = (place, run);
                return None;
            }
            Some((at, old)) if at == place => {
                only.run = run;
                return Some(old);
            }
            Some((at, old)) => {
                self.map.insert(at, old);
                (only.run, only.in_map) = (NIL, 1);
            }
            None => {}
        }
        let old = self.map.insert(place, run);
        only.in_map += u32::from(old.is_none());
        old
    }

    /// Takes out the run at a place.
    pub(super) fn remove(&mut self, place: u128) {
        let only = &mut self.queues[queue_of(place).0 as usize];
        if only.run != NIL && only.place == place {
            only.run = NIL;
        } else {
            only.in_map -= u32::from(self.map.remove(place).is_some());
        }
    }

    /// The first run of the place's queue that is there or behind it.
    pub(super) fn at_or_after(&self, place: u128) -> Option<(u128, u32)> {
        let queue = queue_of(place);
        let only = self.queues.get(queue.0 as usize)?;
        if only.in_map == 0 {
            return only.entry().filter(|(at, _)| *at >= place);
        }
        self.map.at_or_after(place).filter(|(at, _)| queue_of(*at) == queue)
    }

    /// The runs of the place's queue next to it.
    pub(super) fn around(&self, place: u128) -> Neighbours<u128, u32> {
        let queue = queue_of(place);
        let only = self.queues.get(queue.0 as usize).copied().unwrap_or(Only::EMPTY);
        if only.in_map == 0 {
            let entry = only.entry();
            return Neighbours {
                below: entry.filter(|(at, _)| *at < place),
                at_or_above: entry.filter(|(at, _)| *at >= place),
            };
        }
        let near = self.map.around(place);
        let is_own = |(at, _): &(u128, u32)| queue_of(*at) == queue;
        Neighbours {
            below: near.below.filter(is_own),
            at_or_above: near.at_or_above.filter(is_own),
        }
    }

    /// The runs of the place's queue from there on, in order.
    pub(super) fn iter_from(&self, place: u128) -> impl Iterator<Item = (u128, u32)> + '_ {
        let queue = queue_of(place);
        let only = self.queues.get(queue.0 as usize).copied().unwrap_or(Only::EMPTY);
        let many = (only.in_map > 0).then(|| self.map.iter_from(place));
        let many = many.into_iter().flatten().take_while(move |(at, _)| queue_of(*at) == queue);
        only.entry().filter(|(at, _)| *at >= place).into_iter().chain(many)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.queues.iter_mut().for_each(|only| *only = Only::EMPTY);
        self.map.clear();
    }

    #[cfg(test)]
    pub(super) fn bytes_in_use(&self) -> usize {
        self.map.bytes_in_use()
    }
}
