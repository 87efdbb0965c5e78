//! SJF: the file with the least queued goes first, unless something has waited too long.
//!
//! Source:      AGIOS 2015, section 2.3 (SJF); aging after the read expiry of Linux' mq-deadline.
//! Idea:        a "job" is what one queue (file, class, direction) holds right now; nothing about
//!              the future is known or guessed. The smallest queue is served next, its run of the
//!              lowest offset. Once the oldest request of any queue has waited for `age_max`, the
//!              run with the oldest of all goes instead.
//! Units:       `age_max` in nanoseconds.
//! Cost:        add and select O(log n + log M) for n requests in M queues.
//! Deviations:  1. Aging: the paper's SJF starves a large queue for as long as small ones arrive.
//!              2. Ordered sets instead of the paper's walk over all queues, O(2M).
//! Loses when:  queues are equally long (the order is then nearly arbitrary and costs seeks), or a
//!              large job matters: it waits for `age_max` again and again.

use alloc::vec::Vec;

use forebay_units::{FileIndex, Nanos, Offset, Timestamp};

use crate::ordered_map::OrderedMap;
use crate::policy::{Limits, Policy, Selection};
use crate::request::Accepted;
use crate::runs::{QueueIndex, RunIndex, RunSet, Runs};

/// Parameters of [`Sjf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SjfSettings {
    /// How long a request may wait before age goes over size: 1 ms to 60 s, by default 500 ms.
    pub age_max: Nanos,
}

impl Default for SjfSettings {
    fn default() -> Self {
        Self { age_max: Nanos::millis(500) }
    }
}

/// The policy SJF.
///
/// Bounds: without an aged request the chosen queue holds the fewest bytes of all. From the moment
/// a request has aged, only runs with an older request leave before its own.
#[derive(Clone, Debug)]
pub struct Sjf {
    settings: SjfSettings,
    runs: Runs<(), Filed>,
    /// Queues by (bytes queued, arrival of the oldest request).
    by_size: OrderedMap<(u64, u64), u32>,
    /// Queues by the arrival of their oldest request.
    by_age: OrderedMap<u64, u32>,
    /// The runs of each queue by the arrival of their oldest request.
    ages: RunSet,
}

/// Under which keys a queue is filed, if it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Filed {
    key: Option<(u64, u64)>,
}

impl Sjf {
    /// Nothing queued.
    pub fn new(limits: &Limits, settings: SjfSettings) -> Self {
        assert!(
            (Nanos::millis(1)..=Nanos::secs(60)).contains(&settings.age_max),
            "age_max is 1 ms to 60 s"
        );
        Self {
            settings,
            runs: Runs::new(limits),
            by_size: OrderedMap::new(),
            by_age: OrderedMap::new(),
            ages: RunSet::default(),
        }
    }

    /// Files `queue` anew after its runs have changed.
    fn refile(&mut self, queue: QueueIndex) {
        let old = self.runs.queue(queue).note.key;
        let bytes = self.runs.queue(queue).bytes.0;
        let new = self.ages.first(queue).map(|(oldest, _)| (bytes, oldest));
        if let Some(key) = old.filter(|_| old != new) {
            self.by_size.remove(key);
        }
        if let Some(key) = new.filter(|_| old != new) {
            self.by_size.insert(key, queue.0);
        }
        let (old_age, new_age) = (old.map(|key| key.1), new.map(|key| key.1));
        if let Some(age) = old_age.filter(|_| old_age != new_age) {
            self.by_age.remove(age);
        }
        if let Some(age) = new_age.filter(|_| old_age != new_age) {
            self.by_age.insert(age, queue.0);
        }
        self.runs.queue_note_mut(queue).key = new;
    }

    fn next_run(&self, now: Timestamp) -> Option<RunIndex> {
        let (_, oldest_queue) = self.by_age.first()?;
        let (_, oldest) = self.ages.first(QueueIndex(oldest_queue))?;
        if now - self.runs.run(oldest).arrived >= self.settings.age_max {
            return Some(oldest);
        }
        let (_, smallest) = self.by_size.first()?;
        self.runs.first_from(QueueIndex(smallest), Offset(0))
    }
}

impl Policy for Sjf {
    fn name(&self) -> &'static str {
        "SJF"
    }

    fn add(&mut self, _now: Timestamp, request: &Accepted) {
        let joined = self.runs.join(request);
        self.ages.refile(&self.runs, &joined);
        let queue = self.runs.run(joined.run).queue;
        self.refile(queue);
    }

    fn select(&mut self, now: Timestamp, batch: &mut Vec<Accepted>) -> Selection {
        let Some(run) = self.next_run(now) else { return Selection::Idle };
        let taken = self.runs.take(run, batch);
        self.ages.remove(taken.queue, taken.min_seq, run);
        self.refile(taken.queue);
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, request: &Accepted) -> bool {
        let found = self.ages.cancel(&mut self.runs, request.id);
        if let Some(queue) = self.runs.queue_of(&request.request) {
            self.refile(queue);
        }
        found
    }

    fn drain(&mut self, into: &mut Vec<Accepted>) {
        self.runs.drain(into);
        self.runs.each_queue_note(|note| note.key = None);
        self.by_size.clear();
        self.by_age.clear();
        self.ages.clear();
    }

    fn retire(&mut self, file: FileIndex) {
        self.runs.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.runs.queued_count()
    }
}
