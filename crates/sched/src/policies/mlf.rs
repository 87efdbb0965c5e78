//! MLF: the files are visited in turn; what waits earns more with every visit, until it may go.
//!
//! Source:      AGIOS 2015, section 2.2 (MLF), which is not the base algorithm that aIOLi 2006,
//!              section 3.4.1, calls a variant of MLF: the order between files is round robin here.
//! Idea:        a run starts with a quantum of nothing, and each visit to its queue adds to it. The
//!              first run in sweep order whose quantum covers its size goes. Small runs leave
//!              soon; large ones stay, and merge, for a bounded number of visits.
//! Units:       quanta in bytes; `passes_max` in batches.
//! Cost:        add and select O(log n + log M) for n requests in M queues.
//! Deviations:  1. Visits that would find nothing are skipped in closed form: every queue is filed
//!                 under the round in which a visit will find something. AGIOS walks and ages.
//!              2. Quanta grow by a fixed amount as in aIOLi 2006; AGIOS' doubling is an option.
//!              3. Every so often a queue's oldest eligible run goes first (see `sweep`).
//!              4. A sweep looks at no more than 32 runs for an eligible one; then the oldest goes.
//! Loses when:  there is one file (it is then a sweep with delays), or requests are large, so that
//!              they wait for rounds in which nothing merges.

use alloc::vec::Vec;

use forebay_units::{Bytes, FileIndex, Offset, Timestamp};

use crate::ordered_map::OrderedMap;
use crate::policy::{Limits, Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::runs::{Joined, Note, QueueIndex, Removed, Run, RunIndex, RunSet, Runs};
use crate::sweep::{SCAN_MAX, Sweep};

/// How the quantum of a run grows with the visits to its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MlfGrowth {
    /// By so many bytes a visit: 4 KiB to 1 GiB.
    Add(Bytes),
    /// To so many bytes at the first visit, and twofold at each after it: 4 KiB to 1 GiB.
    Double(Bytes),
}

impl MlfGrowth {
    /// The first visit at which the quantum covers `bytes`.
    fn eligible_from(self, earned: &Earned, bytes: Bytes) -> u64 {
        match self {
            Self::Add(step) => earned.since + (bytes - earned.quantum).0.div_ceil(step.0),
            Self::Double(first) => {
                earned.since
                    + 1
                    + u64::from(bytes.0.div_ceil(first.0).next_power_of_two().trailing_zeros())
            }
        }
    }

    /// Under which visit a maturing run is filed.
    fn filed(self, run: &Run<Earned>) -> u64 {
        run.filed.unwrap_or_else(|| self.eligible_from(&run.note, run.bytes()))
    }
}

/// Parameters of [`Mlf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MlfSettings {
    /// The growth of quanta; by default 32 KiB a visit, the example in aIOLi 2006.
    pub growth: MlfGrowth,
    /// Batches of a queue before its oldest eligible run must go: 1 to 1,024, by default 16.
    pub passes_max: u32,
}

impl Default for MlfSettings {
    fn default() -> Self {
        Self { growth: MlfGrowth::Add(Bytes::kib(32)), passes_max: 16 }
    }
}

/// The policy MLF.
///
/// Bounds: a run may go within ⌈`run_bytes_max` / quantum⌉ visits of the arrival of its oldest
/// request (`Add`), or 1 + ⌈log2(`run_bytes_max` / quantum)⌉ (`Double`). Between two batches of a
/// queue that always has an eligible run, every other queue sends at most one.
#[derive(Clone, Debug)]
pub struct Mlf {
    settings: MlfSettings,
    runs: Runs<Earned, Visits>,
    /// Runs that may not go yet, by the visit from which they may.
    maturing: RunSet,
    /// Runs that may go, by the arrival of their oldest request.
    eligible: RunSet,
    /// Queues by the visit at which something may go.
    due: OrderedMap<Visit, u32>,
    /// The visit that is going on, or was the last.
    here: Visit,
    /// Places given out in the circle of queues.
    place_count: u64,
}

/// A round of the circle, and a queue's place in it.
type Visit = (u64, u64);

/// What a run has earned: `quantum` at visit `since`; runs that may go are marked.
///
/// A maturing run is filed under the visit from which its quantum covers it. One that is joined needs
/// more visits, and is filed anew only at the old one: arrivals at its end cost nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Earned {
    quantum: Bytes,
    since: u64,
}

impl Note for Earned {
    /// The visit since which it has been there: alone, it has not earned anything before.
    type One = u64;

    fn of_one(since: u64) -> Self {
        Self { quantum: Bytes::ZERO, since }
    }

    fn one(self) -> u64 {
        debug_assert!(self.quantum == Bytes::ZERO, "a quantum is inherited by joining");
        self.since
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Visits {
    /// Where the queue stands in every round.
    place: u64,
    due: Option<Visit>,
    has_eligible: bool,
    sweep: Sweep,
}

impl Mlf {
    /// Nothing queued.
    pub fn new(limits: &Limits, settings: MlfSettings) -> Self {
        let (MlfGrowth::Add(quantum) | MlfGrowth::Double(quantum)) = settings.growth;
        assert!(
            (Bytes::kib(4)..=Bytes::mib(1024)).contains(&quantum),
            "a quantum is 4 KiB to 1 GiB"
        );
        assert!((1..=1024).contains(&settings.passes_max), "passes_max is 1 to 1,024");
        Self {
            settings,
            runs: Runs::new(limits),
            maturing: RunSet::default(),
            eligible: RunSet::default(),
            due: OrderedMap::new(),
            here: (0, 0),
            place_count: 0,
        }
    }

    /// Visits that the place has had so far, this round's included if it was already passed.
    fn visits(&self, place: u64) -> u64 {
        self.here.0 + u64::from(place <= self.here.1)
    }

    fn unfile(&mut self, held: &Requests<'_>, run: &Run<Earned>) {
        let (runs, growth) = (&mut self.runs, self.settings.growth);
        match run.is_marked {
            true => {
                self.eligible.remove(runs, run, run.min_seq, |runs, run| runs.min_seq(held, run));
            }
            false => self.maturing.remove(runs, run, growth.filed(run), |runs, run| {
                runs.filed(run).unwrap_or_else(|| growth.filed(&runs.run(held, run)))
            }),
        }
    }

    fn file(&mut self, held: &Requests<'_>, index: RunIndex, earned: Earned) {
        let from =
            self.settings.growth.eligible_from(&earned, self.runs.range(held, index).length());
        let queue = self.runs.queue_of_run(held, index);
        self.maturing.insert(&mut self.runs, queue, from, index);
        self.runs.set_note(index, earned);
        self.runs.set_filed(index, from);
        self.runs.mark(index, false);
    }

    /// Files a run that a request has joined at visit `now`; whether that may change when the queue is due.
    fn file_joined(
        &mut self,
        held: &Requests<'_>,
        joined: &Joined<Earned>,
        run: &Run<Earned>,
        now: u64,
    ) -> bool {
        let Some(before) = &joined.before else {
            self.file(held, run.index, Earned { quantum: Bytes::ZERO, since: now });
            return true;
        };
        let growth = self.settings.growth;
        match before.is_marked {
            true => self.eligible.rename(&mut self.runs, before, before.min_seq, run.index),
            false => self.maturing.rename(&mut self.runs, before, growth.filed(before), run.index),
        }
        let mut earned = before.note;
        if let Some(absorbed) = &joined.absorbed {
            self.unfile(held, absorbed);
            earned = self.sum(before, absorbed, now);
        }
        let eligible_from = growth.eligible_from(&earned, run.bytes());
        let stays = match before.is_marked {
            true => eligible_from <= now && run.min_seq == before.min_seq,
            false => eligible_from >= growth.filed(before),
        };
        if stays {
            self.runs.set_note(run.index, earned);
        } else {
            // Its neighbours may have changed.
            let mut unfiled = self.runs.run(held, run.index);
            unfiled.min_seq = before.min_seq;
            self.unfile(held, &unfiled);
            self.file(held, run.index, earned);
        }
        !stays || joined.absorbed.is_some()
    }

    /// What two runs have earned that become one: the sum of their quanta (`Add`), or the older one's visits (`Double`).
    fn sum(&self, run: &Run<Earned>, absorbed: &Run<Earned>, now: u64) -> Earned {
        match self.settings.growth {
            MlfGrowth::Add(step) => {
                let earned =
                    |of: &Earned| of.quantum + Bytes(step.0.saturating_mul(now - of.since));
                let quantum = earned(&run.note) + earned(&absorbed.note);
                Earned { quantum, since: now }
            }
            MlfGrowth::Double(_) if absorbed.min_seq < run.min_seq => {
                Earned { since: absorbed.note.since, ..run.note }
            }
            MlfGrowth::Double(_) => run.note,
        }
    }

    /// Files `queue` under the next visit that will find something.
    fn refile(&mut self, queue: QueueIndex) {
        let has_eligible = self.eligible.first(queue).is_some();
        let maturing = self.maturing.first(queue).map(|(visit, _)| visit);
        self.runs.queue_note_mut(queue).has_eligible = has_eligible;
        let coming = self.visits(self.runs.queue(queue).note.place);
        let later = maturing.map(|visit| coming.max(visit.saturating_sub(1)));
        self.set_due(queue, if has_eligible { Some(coming) } else { later });
    }

    fn set_due(&mut self, queue: QueueIndex, round: Option<u64>) {
        let note = self.runs.queue_note_mut(queue);
        let due = round.map(|round| (round, note.place));
        let old = core::mem::replace(&mut note.due, due);
        if due != old {
            old.map(|visit| self.due.remove(visit));
            due.map(|visit| self.due.insert(visit, queue.0));
        }
    }

    /// Goes on to the next visit that finds an eligible run; the oldest of them.
    fn visit(&mut self, held: &Requests<'_>) -> Option<(QueueIndex, RunIndex)> {
        loop {
            let (visit, queue) = self.due.first()?;
            let queue = QueueIndex(queue);
            self.here = visit;
            self.mature(held, queue, self.visits(visit.1));
            match self.eligible.first(queue) {
                Some((_, oldest)) => return Some((queue, oldest)),
                // All that was filed under this visit has been joined since, and needs more.
                None => self.refile(queue),
            }
        }
    }

    /// Lets every run of `queue` mature whose quantum covers it at this visit.
    fn mature(&mut self, held: &Requests<'_>, queue: QueueIndex, visit: u64) {
        while let Some((from, index)) =
            self.maturing.first(queue).filter(|(from, _)| *from <= visit)
        {
            let run = self.runs.run(held, index);
            debug_assert_eq!(from, self.settings.growth.filed(&run));
            self.unfile(held, &run);
            if self.settings.growth.eligible_from(&run.note, run.bytes()) > visit {
                self.file(held, index, run.note);
            } else {
                self.eligible.insert(&mut self.runs, queue, run.min_seq, index);
                self.runs.mark(index, true);
            }
        }
    }

    fn candidate(&self, queue: QueueIndex, oldest: RunIndex) -> RunIndex {
        let sweep = self.runs.queue(queue).note.sweep;
        if sweep.is_oldest_due(self.settings.passes_max) {
            return oldest;
        }
        let eligible = |from| {
            let mut runs = self.runs.iter_from(queue, from).take(SCAN_MAX);
            runs.find(|run| self.runs.is_marked(*run))
        };
        eligible(sweep.position).or_else(|| eligible(Offset(0))).unwrap_or(oldest)
    }
}

impl Policy for Mlf {
    fn name(&self) -> &'static str {
        "MLF"
    }

    fn add(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        let joined = self.runs.join(held, request);
        let run = self.runs.run(held, joined.run);
        let queue = run.queue;
        if self.runs.queue(queue).note.place == 0 {
            self.place_count += 1;
            self.runs.queue_note_mut(queue).place = self.place_count;
        }
        let now = self.visits(self.runs.queue(queue).note.place);
        if !self.file_joined(held, &joined, &run, now) {
            return;
        }
        let Visits { due, has_eligible, .. } = self.runs.queue(queue).note;
        match due {
            // A new run can but bring the next visit forward.
            Some((round, _)) if joined.before.is_none() => {
                let earned = self.runs.note(run.index);
                let from = self.settings.growth.eligible_from(&earned, run.bytes());
                let from = now.max(from.saturating_sub(1));
                self.set_due(queue, Some(if has_eligible { round } else { round.min(from) }));
            }
            _ => self.refile(queue),
        }
    }

    fn select(
        &mut self,
        _now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let Some((queue, oldest)) = self.visit(held) else { return Selection::Idle };
        let run = self.candidate(queue, oldest);
        let was_oldest = run == oldest;
        let taken = self.runs.take(held, run, batch);
        self.unfile(held, &taken);
        self.runs.queue_note_mut(queue).sweep.advance(taken.range, was_oldest);
        self.refile(queue);
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        let Some(index) = self.runs.find(held, request.id) else { return false };
        let run = self.runs.run(held, index);
        self.unfile(held, &run);
        for part in self.runs.remove(held, request).into_iter().flat_map(Removed::parts) {
            self.file(held, part, run.note);
        }
        self.refile(run.queue);
        true
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.runs.drain(held, into);
        self.runs.each_queue_note(|visits| (visits.due, visits.has_eligible) = (None, false));
        self.maturing.clear();
        self.eligible.clear();
        self.due.clear();
    }

    fn retire(&mut self, file: FileIndex) {
        self.runs.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.runs.queued_count()
    }
}
