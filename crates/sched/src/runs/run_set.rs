//! Runs of all queues in an order of the policy's choosing.

use alloc::vec::Vec;

use super::record::Links;
use super::{Joined, Note, QueueIndex, Run, RunIndex, Runs};
use crate::ordered_map::OrderedMap;
use crate::policy::Requests;
use crate::request::Accepted;

/// Runs of many queues, each queue's ordered by a key of the policy's choice: arrival, need, …
///
/// Most runs come in the order of their keys. Those stand in a list for each queue, which takes no
/// memory beside the runs' own; the others in a map that all queues share. A run is in one set at a
/// time.
#[derive(Clone, Debug, Default)]
pub struct RunSet {
    lists: Vec<List>,
    late: OrderedMap<u128, ()>,
    /// All queues have one order together.
    is_whole: bool,
}

/// What a queue, or all of them together, has: a list, and so many in the map.
#[derive(Clone, Copy, Debug)]
struct List {
    first_key: u64,
    /// No smaller than the key of the last one.
    last_key: u64,
    first: Option<RunIndex>,
    last: Option<RunIndex>,
    late: u32,
}

impl List {
    const EMPTY: Self = Self { first_key: 0, last_key: 0, first: None, last: None, late: 0 };
}

impl RunSet {
    /// One order for the runs of all queues, as if there were only queue 0.
    pub fn of_all_queues() -> Self {
        Self { is_whole: true, ..Self::default() }
    }

    fn order_of(&self, queue: QueueIndex) -> QueueIndex {
        if self.is_whole { QueueIndex(0) } else { queue }
    }

    /// Files `run` under `key`.
    pub fn insert<R: Note, Q: Copy + Default>(
        &mut self,
        runs: &mut Runs<R, Q>,
        queue: QueueIndex,
        key: u64,
        run: RunIndex,
    ) {
        let queue = self.order_of(queue);
        let index = queue.0 as usize;
        if index >= self.lists.len() {
            self.lists.resize(index + 1, List::EMPTY);
        }
        let list = &mut self.lists[index];
        match list.last {
            None => (list.first, list.first_key) = (Some(run), key),
            Some(last) if list.last_key <= key => {
                runs.links_mut(last, |links| links.set_next(Some(run)));
            }
            Some(_) => {
                list.late += 1;
                let fresh = self.late.insert(entry_of(queue, key, run), ());
                assert!(fresh.is_none(), "a run is filed once");
                return runs.links_mut(run, |links| *links = Links::NONE);
            }
        }
        runs.links_mut(run, |links| *links = Links::new(list.last));
        (list.last, list.last_key) = (Some(run), key);
    }

    /// Takes a run, filed under `key`, out again; `run` may be what it was just before it was taken
    /// or absorbed. `key_of` says under which key another one is filed.
    pub fn remove<R: Note, Q: Copy + Default>(
        &mut self,
        runs: &mut Runs<R, Q>,
        run: &Run<R>,
        key: u64,
        key_of: impl Fn(&Runs<R, Q>, RunIndex) -> u64,
    ) {
        let queue = self.order_of(run.queue);
        let list = &mut self.lists[queue.0 as usize];
        if !run.links.is_listed() {
            let there = self.late.remove(entry_of(queue, key, run.index));
            assert!(there.is_some(), "a run is unfiled under the key it was filed under");
            list.late -= 1;
            return;
        }
        let (prev, next) = (run.links.prev(), run.links.next());
        match prev {
            Some(prev) => runs.links_mut(prev, |links| links.set_next(next)),
            None => {
                list.first = next;
                list.first_key = next.map_or(0, |next| key_of(runs, next));
            }
        }
        match next {
            Some(next) => runs.links_mut(next, |links| links.set_prev(prev)),
            None => list.last = prev,
        }
    }

    /// Follows a run, filed under `key`, that [`Runs::join`] may have given another name.
    pub fn rename<R: Note, Q: Copy + Default>(
        &mut self,
        runs: &mut Runs<R, Q>,
        before: &Run<R>,
        key: u64,
        name: RunIndex,
    ) {
        if before.index == name {
            return;
        }
        runs.set_filed(name, key);
        let queue = self.order_of(before.queue);
        if !before.links.is_listed() {
            self.late.remove(entry_of(queue, key, before.index));
            self.late.insert(entry_of(queue, key, name), ());
            return;
        }
        let list = &mut self.lists[queue.0 as usize];
        if list.first == Some(before.index) {
            list.first = Some(name);
        }
        if list.last == Some(before.index) {
            list.last = Some(name);
        }
    }

    /// Files anew, in a queue's or the policy's only list, by the arrival of its oldest request, what
    /// [`Runs::join`] changed.
    pub fn refile<R: Note, Q: Copy + Default>(
        &mut self,
        runs: &mut Runs<R, Q>,
        held: &Requests<'_>,
        joined: &Joined<R>,
    ) {
        let age = |runs: &Runs<R, Q>, run| runs.min_seq(held, run);
        let Some(before) = &joined.before else {
            let run = runs.run(held, joined.run);
            return self.insert(runs, run.queue, run.min_seq, joined.run);
        };
        self.rename(runs, before, before.min_seq, joined.run);
        if let Some(absorbed) = &joined.absorbed {
            self.remove(runs, absorbed, absorbed.min_seq, age);
        }
        let run = runs.run(held, joined.run);
        if run.min_seq != before.min_seq {
            self.remove(runs, &run, before.min_seq, age);
            self.insert(runs, run.queue, run.min_seq, joined.run);
        }
    }

    /// Takes a request out of `runs`, all of whose runs are filed here by the arrival of their oldest request.
    pub fn cancel<R: Note, Q: Copy + Default>(
        &mut self,
        runs: &mut Runs<R, Q>,
        held: &Requests<'_>,
        request: &Accepted,
    ) -> bool {
        let Some(run) = runs.find(held, request.id) else { return false };
        let old = runs.run(held, run);
        self.remove(runs, &old, old.min_seq, |runs, run| runs.min_seq(held, run));
        for part in runs.remove(held, request).into_iter().flat_map(super::Removed::parts) {
            let age = runs.min_seq(held, part);
            self.insert(runs, old.queue, age, part);
        }
        true
    }

    /// The smallest key of a queue, and its run.
    pub fn first(&self, queue: QueueIndex) -> Option<(u64, RunIndex)> {
        let list = self.lists.get(queue.0 as usize)?;
        let listed = list.first.map(|run| (list.first_key, run));
        if list.late == 0 {
            return listed;
        }
        let (entry, ()) = self.late.at_or_after(entry_of(queue, 0, RunIndex(0)))?;
        debug_assert_eq!(QueueIndex((entry >> 96) as u32), queue);
        let late = ((entry >> 32) as u64, RunIndex(entry as u32));
        Some(listed.map_or(late, |listed| listed.min(late)))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.lists.iter_mut().for_each(|list| *list = List::EMPTY);
        self.late.clear();
    }
}

fn entry_of(queue: QueueIndex, key: u64, run: RunIndex) -> u128 {
    u128::from(queue.0) << 96 | u128::from(key) << 32 | u128::from(run.0)
}
