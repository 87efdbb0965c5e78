//! Runs of all queues in an order of the policy's choosing.

use super::{Joined, QueueIndex, Removed, RunIndex, Runs};
use crate::ordered_map::OrderedMap;
use crate::request::Accepted;

/// Runs of many queues, each queue's ordered by a key of the policy's choice: arrival, need, …
#[derive(Clone, Debug, Default)]
pub struct RunSet {
    runs: OrderedMap<u128, ()>,
}

impl RunSet {
    /// Files `run` under `key`.
    pub fn insert(&mut self, queue: QueueIndex, key: u64, run: RunIndex) {
        let fresh = self.runs.insert(entry_of(queue, key, run), ());
        assert!(fresh.is_none(), "a run is filed once");
    }

    /// Takes `run`, filed under `key`, out again.
    pub fn remove(&mut self, queue: QueueIndex, key: u64, run: RunIndex) {
        let there = self.runs.remove(entry_of(queue, key, run));
        assert!(there.is_some(), "a run is unfiled under the key it was filed under");
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
        for part in runs.remove(request).into_iter().flat_map(Removed::parts) {
            self.insert(old.queue, runs.run(part).min_seq, part);
        }
        true
    }

    /// The smallest key of a queue, and its run.
    pub fn first(&self, queue: QueueIndex) -> Option<(u64, RunIndex)> {
        let (entry, ()) = self.runs.at_or_after(entry_of(queue, 0, RunIndex(0)))?;
        let found = ((entry >> 32) as u64, RunIndex(entry as u32));
        (QueueIndex((entry >> 96) as u32) == queue).then_some(found)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.runs.clear();
    }
}

fn entry_of(queue: QueueIndex, key: u64, run: RunIndex) -> u128 {
    u128::from(queue.0) << 96 | u128::from(key) << 32 | u128::from(run.0)
}
