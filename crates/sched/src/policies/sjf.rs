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
use crate::policy::{Limits, Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
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
    /// Queues that have changed since they were filed: a batch's worth of arrivals is filed at once.
    outdated: Vec<QueueIndex>,
}

/// Under which keys a queue is filed, if it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Filed {
    key: Option<(u64, u64)>,
    is_outdated: bool,
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
            outdated: Vec::new(),
        }
    }

    fn touch(&mut self, queue: QueueIndex) {
        if !core::mem::replace(&mut self.runs.queue_note_mut(queue).is_outdated, true) {
            self.outdated.push(queue);
        }
    }

    /// Files anew every queue whose runs have changed.
    fn refile(&mut self) {
        while let Some(queue) = self.outdated.pop() {
            let old = self.runs.queue(queue).note.key;
            let oldest = self.ages.first(queue);
            let new = oldest.map(|(seq, _)| (self.runs.queue(queue).bytes.0, seq));
            *self.runs.queue_note_mut(queue) = Filed { key: new, is_outdated: false };
            if old != new {
                old.map(|key| self.by_size.remove(key));
                new.map(|key| self.by_size.insert(key, queue.0));
            }
            let (old_seq, new_seq) = (old.map(|key| key.1), new.map(|key| key.1));
            if old_seq != new_seq {
                old_seq.map(|seq| self.by_age.remove(seq));
                new_seq.map(|seq| self.by_age.insert(seq, queue.0));
            }
        }
    }

    fn next_run(&self, now: Timestamp, held: &Requests<'_>) -> Option<RunIndex> {
        let (_, queue) = self.by_age.first()?;
        let (_, oldest) = self.ages.first(QueueIndex(queue))?;
        if now - self.runs.arrived(held, oldest) >= self.settings.age_max {
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

    fn add(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        let joined = self.runs.join(held, request);
        self.ages.refile(&mut self.runs, held, &joined);
        self.touch(self.runs.queue_of_run(held, joined.run));
    }

    fn select(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        self.refile();
        let Some(run) = self.next_run(now, held) else { return Selection::Idle };
        let taken = self.runs.take(held, run, batch);
        let age = |runs: &Runs<(), Filed>, run| runs.min_seq(held, run);
        self.ages.remove(&mut self.runs, &taken, taken.min_seq, age);
        self.touch(taken.queue);
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        let found = self.ages.cancel(&mut self.runs, held, request);
        if let Some(queue) = self.runs.queue_of(&request.request) {
            self.touch(queue);
        }
        found
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.runs.drain(held, into);
        self.runs.each_queue_note(|note| *note = Filed::default());
        self.outdated.clear();
        self.by_size.clear();
        self.by_age.clear();
        self.ages.clear();
    }

    fn retire(&mut self, file: FileIndex) {
        self.refile();
        self.runs.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.runs.queued_count()
    }
}
