//! HBRR: handle-based round robin, the files take turns of a few ranges each.
//!
//! Source:      IOFSL 2010 (Ohta, Kimpe, Cope, Iskra, Ross, Ishikawa), section on the request
//!              scheduler; the quantum of 8 ranges is IOFSL's `defquantum`.
//! Idea:        active queues (file, class, direction) stand in a circle. The front one may send a
//!              quantum of ranges, a range being a run, in offset order (C-LOOK); then the next.
//! Units:       quantum in ranges, or in bytes; `passes_max` in batches.
//! Cost:        add and select O(log n) for n queued requests.
//! Deviations:  1. A quantum in bytes besides ranges: by ranges, a file with large ranges gets more.
//!                 Bytes are counted as surplus: a turn may overdraw by one batch, and pays next time.
//!              2. Merging is capped; IOFSL merges without bound.
//!              3. Overlapping reads are not merged, only adjacent ones.
//!              4. Every so often a queue's oldest run goes first (see `sweep`); IOFSL's deadline is a stub.
//!              5. IOFSL's cap of 16 requests a batch is the cap of a run here.
//!              6. Children are ordered by offset; IOFSL orders them by pointer.
//! Loses when:  each file's requests are few: the turns then only add seeks (BTIO in the paper was
//!              slower than without), and above 2 MiB a request, where nothing is gained.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use forebay_units::{Bytes, FileIndex, Offset, Timestamp};

use crate::policy::{Limits, Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::runs::{QueueIndex, RunIndex, RunSet, Runs};
use crate::sweep::Sweep;

/// How much a queue may send in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HbrrQuantum {
    /// So many runs: 1 to 1,024.
    Ranges(u32),
    /// So many bytes: 4 KiB to 1 GiB.
    Bytes(Bytes),
}

/// Parameters of [`Hbrr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HbrrSettings {
    /// The budget of a turn; by default 8 ranges, as in IOFSL.
    pub quantum: HbrrQuantum,
    /// Batches of a queue before its oldest run must go: 1 to 1,024, by default 16.
    pub passes_max: u32,
}

impl Default for HbrrSettings {
    fn default() -> Self {
        Self { quantum: HbrrQuantum::Ranges(8), passes_max: 16 }
    }
}

/// The policy HBRR.
///
/// Bound: with M active queues, one of them is served again after at most (M − 1) quanta of
/// ranges, each at most `run_bytes_max`; with a quantum in bytes, after at most
/// (M − 1) · (quantum + `batch_bytes_max`, or + `run_bytes_max` if that is more).
#[derive(Clone, Debug)]
pub struct Hbrr {
    settings: HbrrSettings,
    batch_bytes_max: Bytes,
    runs: Runs<(), Turn>,
    ages: RunSet,
    /// Queues with something queued, in the order of their turns.
    circle: VecDeque<QueueIndex>,
}

const ON_TURN: &str = "a queue whose turn it is has a run";

/// What a queue has left of its turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    is_active: bool,
    has_begun: bool,
    /// Ranges or bytes; bytes may be overdrawn.
    left: i64,
    sweep: Sweep,
}

impl Hbrr {
    /// Nothing queued.
    pub fn new(limits: &Limits, settings: HbrrSettings) -> Self {
        let in_range = match settings.quantum {
            HbrrQuantum::Ranges(count) => (1..=1024).contains(&count),
            HbrrQuantum::Bytes(bytes) => (Bytes::kib(4)..=Bytes::mib(1024)).contains(&bytes),
        };
        assert!(in_range, "a quantum is 1 to 1,024 ranges or 4 KiB to 1 GiB");
        assert!((1..=1024).contains(&settings.passes_max), "passes_max is 1 to 1,024");
        Self {
            settings,
            batch_bytes_max: limits.batch_bytes_max,
            runs: Runs::new(limits),
            ages: RunSet::default(),
            circle: VecDeque::new(),
        }
    }

    /// The queue whose turn it is; a queue that has overdrawn too far sits out.
    fn turn(&mut self) -> Option<QueueIndex> {
        loop {
            let queue = *self.circle.front()?;
            let turn = self.runs.queue_note_mut(queue);
            if !core::mem::replace(&mut turn.has_begun, true) {
                turn.left = match self.settings.quantum {
                    HbrrQuantum::Ranges(count) => i64::from(count),
                    HbrrQuantum::Bytes(bytes) => turn.left.min(0) + bytes.0 as i64,
                };
            }
            if turn.left > 0 {
                return Some(queue);
            }
            self.end_turn(queue);
        }
    }

    fn end_turn(&mut self, queue: QueueIndex) {
        self.circle.pop_front();
        let is_active = self.runs.queue(queue).run_count > 0;
        let turn = self.runs.queue_note_mut(queue);
        (turn.is_active, turn.has_begun) = (is_active, false);
        if is_active {
            self.circle.push_back(queue);
        }
    }

    fn candidate(&self, queue: QueueIndex) -> RunIndex {
        let sweep = self.runs.queue(queue).note.sweep;
        if sweep.is_oldest_due(self.settings.passes_max) {
            return self.ages.first(queue).expect(ON_TURN).1;
        }
        let ahead = self.runs.first_from(queue, sweep.position);
        ahead.or_else(|| self.runs.first_from(queue, Offset(0))).expect(ON_TURN)
    }

    /// Moves one run to the batch and charges it.
    fn send(&mut self, held: &Requests<'_>, run: RunIndex, batch: &mut Vec<RequestId>) {
        let taken = self.runs.take(held, run, batch);
        let (queue, age) = (taken.queue, taken.min_seq);
        let was_oldest = self.ages.first(queue) == Some((age, run));
        self.ages.remove(&mut self.runs, &taken, age, |runs, run| runs.min_seq(held, run));
        let turn = self.runs.queue_note_mut(queue);
        turn.sweep.advance(taken.range, was_oldest);
        turn.left -= match self.settings.quantum {
            HbrrQuantum::Ranges(_) => 1,
            HbrrQuantum::Bytes(_) => taken.bytes().0 as i64,
        };
    }
}

impl Policy for Hbrr {
    fn name(&self) -> &'static str {
        "HBRR"
    }

    fn add(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        let joined = self.runs.join(held, request);
        let queue = self.runs.queue_of_run(held, joined.run);
        self.ages.refile(&mut self.runs, held, &joined);
        if !core::mem::replace(&mut self.runs.queue_note_mut(queue).is_active, true) {
            self.circle.push_back(queue);
        }
    }

    fn select(
        &mut self,
        _now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let Some(queue) = self.turn() else { return Selection::Idle };
        let first = self.candidate(queue);
        let mut room = self.batch_bytes_max;
        let mut next = Some(first);
        while let Some(run) = next {
            let range = self.runs.range(held, run);
            room -= range.length();
            self.send(held, run, batch);
            next = self.runs.starting_at(queue, range.end).filter(|run| {
                self.runs.queue(queue).note.left > 0 && self.runs.range(held, *run).length() <= room
            });
        }
        if self.runs.queue(queue).run_count == 0 || self.runs.queue(queue).note.left <= 0 {
            self.end_turn(queue);
        }
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        let found = self.ages.cancel(&mut self.runs, held, request);
        if let Some(queue) = self.runs.queue_of(&request.request)
            && found
            && self.runs.queue(queue).run_count == 0
        {
            self.circle.retain(|other| *other != queue);
            let turn = self.runs.queue_note_mut(queue);
            (turn.is_active, turn.has_begun) = (false, false);
        }
        found
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.runs.drain(held, into);
        self.ages.clear();
        self.circle.clear();
        self.runs.each_queue_note(|turn| (turn.is_active, turn.has_begun) = (false, false));
    }

    fn retire(&mut self, file: FileIndex) {
        self.runs.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.runs.queued_count()
    }
}
