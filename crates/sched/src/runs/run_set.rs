//! Runs of all queues in an order of the policy's choosing.

use alloc::vec::Vec;

use super::{Joined, QueueIndex, RunIndex, Runs};
use crate::ordered_map::OrderedMap;
use crate::request::Accepted;

const NIL: u32 = u32::MAX;

/// Runs of many queues, each queue's ordered by a key of the policy's choice: arrival, need, …
///
/// With many files most queues have one run. It stands with its queue, and only the second one
/// takes both to the map that all queues share.
#[derive(Clone, Debug, Default)]
pub struct RunSet {
    queues: Vec<Only>,
    runs: OrderedMap<u128, ()>,
}

/// What a queue has: nothing, one run here, or so many in the map.
#[derive(Clone, Copy, Debug)]
struct Only {
    key: u64,
    run: u32,
    in_map: u32,
}

impl Only {
    const EMPTY: Self = Self { key: 0, run: NIL, in_map: 0 };
}

impl RunSet {
    /// Files `run` under `key`.
    pub fn insert(&mut self, queue: QueueIndex, key: u64, run: RunIndex) {
        let index = queue.0 as usize;
        if index >= self.queues.len() {
            self.queues.resize(index + 1, Only::EMPTY);
        }
        let only = &mut self.queues[index];
        if only.run == NIL && only.in_map == 0 {
            (only.key, only.run) = (key, run.0);
            return;
        }
        if only.run != NIL {
            self.runs.insert(entry_of(queue, only.key, RunIndex(only.run)), ());
            (only.run, only.in_map) = (NIL, 1);
        }
        only.in_map += 1;
        let fresh = self.runs.insert(entry_of(queue, key, run), ());
        assert!(fresh.is_none(), "a run is filed once");
    }

    /// Takes `run`, filed under `key`, out again.
    pub fn remove(&mut self, queue: QueueIndex, key: u64, run: RunIndex) {
        let only = &mut self.queues[queue.0 as usize];
        if (only.key, only.run) == (key, run.0) {
            only.run = NIL;
            return;
        }
        let there = self.runs.remove(entry_of(queue, key, run));
        assert!(there.is_some(), "a run is unfiled under the key it was filed under");
        only.in_map -= 1;
    }

    /// Files anew, by the arrival of its oldest request, what [`Runs::join`] changed.
    pub fn refile<R: Copy + Default, Q: Copy + Default>(
        &mut self,
        runs: &Runs<R, Q>,
        joined: &Joined<R>,
    ) {
        let run = runs.run(joined.run);
        if let Some((index, absorbed)) = &joined.absorbed {
            self.remove(run.queue, absorbed.min_seq, *index);
        }
        let old = joined.before.map(|before| before.min_seq);
        if old == Some(run.min_seq) {
            return;
        }
        if let Some(age) = old {
            self.remove(run.queue, age, joined.run);
        }
        self.insert(run.queue, run.min_seq, joined.run);
    }

    /// Takes a request out of `runs`, all of whose runs are filed here by the arrival of their oldest request.
    pub fn cancel<R: Copy + Default, Q: Copy + Default>(
        &mut self,
        runs: &mut Runs<R, Q>,
        request: &Accepted,
    ) -> bool {
        let Some(run) = runs.find(request.id) else { return false };
        let old = *runs.run(run);
        self.remove(old.queue, old.min_seq, run);
        for part in runs.remove(request).into_iter().flat_map(super::Removed::parts) {
            self.insert(old.queue, runs.run(part).min_seq, part);
        }
        true
    }

    /// The smallest key of a queue, and its run.
    pub fn first(&self, queue: QueueIndex) -> Option<(u64, RunIndex)> {
        let only = self.queues.get(queue.0 as usize)?;
        if only.run != NIL {
            return Some((only.key, RunIndex(only.run)));
        }
        if only.in_map == 0 {
            return None;
        }
        let (entry, ()) = self.runs.at_or_after(entry_of(queue, 0, RunIndex(0)))?;
        debug_assert_eq!(QueueIndex((entry >> 96) as u32), queue);
        Some(((entry >> 32) as u64, RunIndex(entry as u32)))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.queues.iter_mut().for_each(|only| *only = Only::EMPTY);
        self.runs.clear();
    }
}

fn entry_of(queue: QueueIndex, key: u64, run: RunIndex) -> u128 {
    u128::from(queue.0) << 96 | u128::from(key) << 32 | u128::from(run.0)
}
