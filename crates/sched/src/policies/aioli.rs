//! aIOLi: large requests from what many processes ask for, in offset order, with quanta that learn.
//!
//! Source:      Lebre, Huard, Denneulin, Sowa 2006, sections 3.3-3.4; the waits after AGIOS 2015,
//!              section 2.1.
//! Idea:        every run starts with a quantum of nothing and earns `quantum_bytes` of its queue at
//!              each step, a step being a batch of any queue. Queues with a run that has earned its
//!              size go by the age of the oldest such run; inside a queue the sweep decides. How
//!              well a batch used its quantum doubles or halves `quantum_bytes`. When the sweep
//!              would have to jump although a process that was just served may yet bring the
//!              continuation, the queue waits for it, briefly, while other queues go on.
//! Units:       quanta in bytes, waits in nanoseconds, `passes_max` in batches.
//! Cost:        add O(log n), select O(log n + log M) amortised for n requests in M queues.
//! Deviations:  1. Queues go by their oldest eligible run, not by the run that would be served: the
//!                 lowest offset can always be younger than a starving run, and no bound holds then.
//!              2. Inside the chosen queue, the run that continues the last batch goes even if it
//!                 has not earned its size: it costs no seek, and serving what lies behind it first
//!                 would cost two.
//!              3. One rule replaces AGIOS' two waits (shift, better aggregation), which both tried to
//!                 predict the same arrival: before the sweep jumps, wait for the request that
//!                 continues the last batch, or until everybody who was served is back. It needs
//!                 somebody who is not back, and it disarms itself: a wait that brought nothing in
//!                 front of the jump halves the trust in waits, and without trust only one in 1,
//!                 2, 4, … 64 jumps waits (see `continuation`).
//!              4. While batches of the queue are in flight, the wait goes on until those are complete,
//!                 for `hold_max` at most, and only then for `wait_max`: on a device that seeks the
//!                 next batch could hardly start earlier, and the process that is waited for may be
//!                 one of those being served. Otherwise two groups of processes that have drifted
//!                 apart never come together again at a depth above one.
//!              5. Where the queue's batches are sequential, a jump goes to its lowest run, eligible or
//!                 not: who is behind must catch up, or the stream stays split for ever. Where they
//!                 are not, it goes upwards to the next eligible run (C-LOOK): shorter seeks.
//!              6. Thresholds of the adaptation are ours; the paper gives none.
//!              7. Every so often a queue's oldest eligible run goes first (see `sweep`).
//!              8. A sweep looks at no more than 32 runs for an eligible one; then the oldest goes.
//! Loses when:  the device gains nothing from order (waits are then off, but not the bookkeeping), or
//!              processes stop at every jump: each failed wait costs up to `wait_max`.

mod settings;

use alloc::vec::Vec;

use forebay_units::{ByteRange, Bytes, FileIndex, Nanos, Offset, Timestamp};

use crate::continuation::{Arrival, Continuation};
use crate::ordered_map::OrderedMap;
use crate::policy::{Limits, Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::runs::{Joined, Note, QueueIndex, Removed, Run, RunIndex, RunSet, Runs};
use crate::sweep::{SCAN_MAX, Sweep};

pub use self::settings::{AioliSettings, SynchronousWait, effective_wait};

/// The policy aIOLi.
///
/// Bounds, with A = `run_bytes_max`, B = `passes_max`, W = `wait_max`:
/// - a run is eligible within ⌈A / `quantum_bytes_min`⌉ steps of the arrival of its oldest request;
/// - between two batches of a queue there is one wait, of at most W after its last batch in flight
///   is complete, and of at most `hold_max` + W in all;
/// - a run with k older ones in its queue is passed over by at most (k + 1) · (B + 1) batches of it;
/// - with P requests queued when a request arrives, at most (P + 1) · (B + 1) + ⌈A / `quantum_bytes_min`⌉
///   batches leave up to and including its own. (The synchronous wait, if on, lets other queues
///   wait for up to `batch_bytes_max` more at each of them.)
#[derive(Clone, Debug)]
pub struct Aioli {
    settings: AioliSettings,
    limits: Limits,
    runs: Runs<Need, Memory>,
    /// Batches dispatched, plus steps that were skipped because nothing could have happened in them.
    step: u64,
    /// Runs that have not earned their size, by need.
    maturing: RunSet,
    /// Runs that have, by the arrival of their oldest request.
    eligible: RunSet,
    /// Queues by the step at which their next run matures; those that wait are not here.
    coming: OrderedMap<(u64, u32), ()>,
    /// Queues by their oldest eligible run; those that wait are not here.
    ready: OrderedMap<u64, u32>,
    /// Queues that wait, by the end of the wait.
    waits: OrderedMap<(Timestamp, u32), ()>,
    turn: Turn,
}

/// How much the growth of the queue must reach for a run to be eligible; eligible runs are marked.
///
/// A maturing run is filed under its need. One that is joined needs more, and is filed anew only when
/// the old need is reached: arrivals at its end cost nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Need(u64);

impl Note for Need {
    type One = Self;

    fn of_one(one: Self) -> Self {
        one
    }

    fn one(self) -> Self {
        self
    }
}

/// Under which need a maturing run is filed.
fn filed(runs: &Runs<Need, Memory>, run: RunIndex) -> u64 {
    runs.filed(run).unwrap_or(runs.note(run).0)
}

fn filed_before(run: &Run<Need>) -> u64 {
    run.filed.unwrap_or(run.note.0)
}

/// What is kept about a queue, also while it is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    growth: Growth,
    sweep: Sweep,
    continuation: Continuation,
    coming: Option<u64>,
    ready: Option<u64>,
    wait: Option<Timestamp>,
}

/// What a request present for ever would have earned by each step. One line for a whole queue:
/// when `quantum_bytes` changes, no run of the queue changes its place in the order of needs.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    earned: u64,
    at_step: u64,
    quantum_bytes: u64,
}

/// The queue served last, and how much it got in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    queue: Option<QueueIndex>,
    bytes: Bytes,
    /// Until when the device is kept for it.
    kept_until: Option<Timestamp>,
}

impl Growth {
    fn at(&self, step: u64) -> u64 {
        self.earned.saturating_add(self.quantum_bytes.saturating_mul(step - self.at_step))
    }

    /// The first step at which growth reaches `need`.
    fn step_of(&self, need: u64) -> u64 {
        self.at_step + need.saturating_sub(self.earned).div_ceil(self.quantum_bytes)
    }

    fn change(&mut self, step: u64, quantum_bytes: u64) {
        *self = Self { earned: self.at(step), at_step: step, quantum_bytes };
    }
}

impl Aioli {
    /// Nothing queued, nothing learned.
    pub fn new(limits: &Limits, settings: AioliSettings) -> Self {
        assert!(
            Bytes(512) <= settings.quantum_bytes_min
                && settings.quantum_bytes_min <= settings.quantum_bytes,
            "quantum_bytes_min is 512 to quantum_bytes"
        );
        assert!((1..=1024).contains(&settings.passes_max), "passes_max is 1 to 1,024");
        assert!(settings.hold_max <= Nanos::secs(1), "hold_max is 0 to 1 s");
        let cap = |bytes: Bytes| bytes.min(limits.run_bytes_max.max(Bytes(512)));
        let settings = AioliSettings {
            quantum_bytes: cap(settings.quantum_bytes),
            quantum_bytes_min: cap(settings.quantum_bytes_min),
            ..settings
        };
        Self {
            settings,
            limits: *limits,
            runs: Runs::new(limits),
            step: 0,
            maturing: RunSet::default(),
            eligible: RunSet::default(),
            coming: OrderedMap::new(),
            ready: OrderedMap::new(),
            waits: OrderedMap::new(),
            turn: Turn::default(),
        }
    }

    fn unfile(&mut self, held: &Requests<'_>, run: &Run<Need>) {
        let (runs, age) = (&mut self.runs, |runs: &Runs<_, _>, run| runs.min_seq(held, run));
        match run.is_marked {
            true => self.eligible.remove(runs, run, run.min_seq, age),
            false => self.maturing.remove(runs, run, filed_before(run), filed),
        }
    }

    /// Files a run by what it needs.
    fn file(&mut self, queue: QueueIndex, index: RunIndex, growth: u64) {
        self.maturing.insert(&mut self.runs, queue, growth, index);
        self.runs.set_note(index, Need(growth));
        self.runs.set_filed(index, growth);
        self.runs.mark(index, false);
    }

    /// What the queue of a run has earned by now.
    fn earned(&self, queue: QueueIndex) -> u64 {
        self.runs.queue(queue).note.growth.at(self.step)
    }

    /// What `run` has earned by now.
    fn quantum(&self, run: &Run<Need>) -> u64 {
        self.earned(run.queue).saturating_add(run.bytes().0).saturating_sub(run.note.0)
    }

    /// Files a run that a request has joined. Its quantum is the sum of its parts', so its need
    /// is what it was, plus the bytes that came, less what the absorbed run had earned.
    fn file_joined(&mut self, held: &Requests<'_>, joined: &Joined<Need>, run: &Run<Need>) {
        let earned = self.earned(run.queue);
        let Some(before) = &joined.before else {
            let need = earned.saturating_add(run.bytes().0);
            self.file(run.queue, run.index, need);
            return self.bring_forward(run.queue, need);
        };
        match before.is_marked {
            true => self.eligible.rename(&mut self.runs, before, before.min_seq, run.index),
            false => {
                self.maturing.rename(&mut self.runs, before, filed_before(before), run.index);
            }
        }
        let inherited = joined.absorbed.map_or(0, |absorbed| {
            self.unfile(held, &absorbed);
            self.quantum(&absorbed)
        });
        let came = (run.bytes() - before.bytes()).0;
        let growth = before.note.0.saturating_add(came).saturating_sub(inherited);
        let stays = match before.is_marked {
            true => growth <= earned && run.min_seq == before.min_seq,
            false => growth >= filed_before(before),
        };
        if stays {
            self.runs.set_note(run.index, Need(growth));
        } else {
            // Its neighbours may have changed.
            let mut unfiled = self.runs.run(held, run.index);
            unfiled.min_seq = before.min_seq;
            self.unfile(held, &unfiled);
            self.file(run.queue, run.index, growth);
        }
        if !stays || joined.absorbed.is_some() {
            self.refile(run.queue);
        }
    }

    /// Files `queue` under the step at which growth reaches `need`, if that comes before what is due there.
    fn bring_forward(&mut self, queue: QueueIndex, need: u64) {
        let memory = self.runs.queue_note_mut(queue);
        let step = memory.growth.step_of(need);
        if memory.wait.is_none() && memory.coming.is_none_or(|coming| step < coming) {
            if let Some(old) = memory.coming.replace(step) {
                self.coming.remove((old, queue.0));
            }
            self.coming.insert((step, queue.0), ());
        }
    }

    /// Files `queue` anew after its runs, its growth or its wait have changed.
    fn refile(&mut self, queue: QueueIndex) {
        let note = self.runs.queue(queue).note;
        let is_free = note.wait.is_none();
        let coming = self
            .maturing
            .first(queue)
            .filter(|_| is_free)
            .map(|(need, _)| note.growth.step_of(need));
        let ready = self.eligible.first(queue).filter(|_| is_free).map(|(seq, _)| seq);
        if coming != note.coming {
            note.coming.map(|step| self.coming.remove((step, queue.0)));
            coming.map(|step| self.coming.insert((step, queue.0), ()));
        }
        if ready != note.ready {
            note.ready.map(|seq| self.ready.remove(seq));
            ready.map(|seq| self.ready.insert(seq, queue.0));
        }
        let memory = self.runs.queue_note_mut(queue);
        (memory.coming, memory.ready) = (coming, ready);
    }

    /// Makes eligible whatever has earned its size by this step.
    fn mature(&mut self, held: &Requests<'_>) {
        while let Some(((_, queue), ())) =
            self.coming.first().filter(|((step, _), ())| *step <= self.step)
        {
            let queue = QueueIndex(queue);
            let earned = self.runs.queue(queue).note.growth.at(self.step);
            while let Some((need, run)) =
                self.maturing.first(queue).filter(|(need, _)| *need <= earned)
            {
                let run = self.runs.run(held, run);
                self.maturing.remove(&mut self.runs, &run, need, filed);
                if run.note.0 > earned {
                    self.file(queue, run.index, run.note.0);
                    continue;
                }
                self.eligible.insert(&mut self.runs, queue, run.min_seq, run.index);
                self.runs.mark(run.index, true);
            }
            self.refile(queue);
        }
    }

    fn candidate(&self, queue: QueueIndex) -> RunIndex {
        let oldest = || self.eligible.first(queue).expect("a ready queue has an eligible run").1;
        let Memory { sweep, continuation, .. } = self.runs.queue(queue).note;
        if sweep.is_oldest_due(self.settings.passes_max) {
            return oldest();
        }
        if let Some(next) = continuation.end().and_then(|end| self.runs.starting_at(queue, end)) {
            return next;
        }
        let eligible = |from| {
            self.runs.iter_from(queue, from).take(SCAN_MAX).find(|run| self.runs.is_marked(*run))
        };
        if continuation.is_ordered() {
            return self.runs.first_from(queue, Offset(0)).unwrap_or_else(oldest);
        }
        eligible(sweep.position).or_else(|| eligible(Offset(0))).unwrap_or_else(oldest)
    }

    /// Starts a wait if serving `run` next would be a jump that may be saved.
    fn try_wait(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        queue: QueueIndex,
        run: RunIndex,
    ) -> bool {
        let start = self.runs.range(held, run).start;
        let Memory { sweep, mut continuation, .. } = self.runs.queue(queue).note;
        if continuation.continues(start) || sweep.is_oldest_due(self.settings.passes_max) {
            return false;
        }
        let wait = continuation.wait(now, start, self.limits.wait_max, self.settings.hold_max);
        let memory = self.runs.queue_note_mut(queue);
        (memory.continuation, memory.wait) = (continuation, wait);
        if let Some(until) = wait {
            self.waits.insert((until, queue.0), ());
            self.refile(queue);
        }
        wait.is_some()
    }

    fn end_wait(&mut self, queue: QueueIndex) {
        let memory = self.runs.queue_note_mut(queue);
        if let Some(until) = memory.wait.take() {
            memory.continuation.end_wait();
            self.waits.remove((until, queue.0));
            self.refile(queue);
        }
    }

    fn expire_waits(&mut self, now: Timestamp) {
        while let Some(((_, queue), ())) =
            self.waits.first().filter(|((until, _), ())| *until <= now)
        {
            self.end_wait(QueueIndex(queue));
        }
    }

    /// Sends `first` and, within what it has earned, the runs that continue it.
    fn dispatch(
        &mut self,
        held: &Requests<'_>,
        queue: QueueIndex,
        first: RunIndex,
        batch: &mut Vec<RequestId>,
    ) {
        let oldest = self.runs.queue(queue).note.ready;
        let run = self.runs.run(held, first);
        let quantum = self.quantum(&run);
        let room = quantum.min(self.limits.batch_bytes_max.0);
        let mut sent = ByteRange::new(run.range.start, Bytes::ZERO);
        let (mut run_count, mut was_oldest) = (0, false);
        let mut next = Some(first);
        while let Some(index) = next {
            let run = self.runs.take(held, index, batch);
            self.unfile(held, &run);
            was_oldest |= oldest == Some(run.min_seq);
            sent.end = run.range.end;
            run_count += 1;
            next = self.runs.starting_at(queue, sent.end).filter(|next| {
                sent.length() + self.runs.range(held, *next).length() <= Bytes(room)
            });
        }
        self.step += 1;
        let quantum_bytes = self.adapted(queue, sent.length().0, quantum, run_count);
        let memory = self.runs.queue_note_mut(queue);
        memory.sweep.advance(sent, was_oldest);
        memory.continuation.dispatch(sent, batch.len() as u32);
        memory.growth.change(self.step, quantum_bytes);
        self.refile(queue);
        let in_a_row = if self.turn.queue == Some(queue) { self.turn.bytes } else { Bytes::ZERO };
        self.turn = Turn { queue: Some(queue), bytes: in_a_row + sent.length(), kept_until: None };
    }

    /// The `quantum_bytes` that follows from how much of `quantum` a batch used; section 3.4.2.
    fn adapted(&self, queue: QueueIndex, used: u64, quantum: u64, run_count: u32) -> u64 {
        let now = self.runs.queue(queue).note.growth.quantum_bytes;
        let most = (now * 2).min(self.limits.run_bytes_max.0).max(now);
        let usual = self.settings.quantum_bytes.0;
        let percent = u128::from(used) * 100 / u128::from(quantum.max(1));
        match percent {
            // Large or synchronous access.
            _ if run_count > 1 => most,
            90.. => most,
            50.. => now,
            // The end of the file, most likely.
            ..5 if now > usual => usual,
            // Small accesses, or some that have stayed long.
            _ => (now / 2).max(self.settings.quantum_bytes_min.0),
        }
    }

    /// The run for which the device was kept, once it is there.
    fn kept_run(&mut self) -> Option<RunIndex> {
        let queue = self.turn.queue.filter(|_| self.turn.kept_until.is_some())?;
        let end = self.runs.queue(queue).note.continuation.end()?;
        self.runs.starting_at(queue, end)
    }
}

impl Aioli {
    /// Keeps the device for the queue just served, if its reader is synchronous and other files would be next.
    fn try_keep(&mut self, now: Timestamp, queue: QueueIndex) {
        let entry = self.runs.queue(queue);
        let may = self.settings.synchronous_wait == SynchronousWait::On
            && self.limits.wait_max > Nanos::ZERO
            && self.turn.queue == Some(queue)
            && self.turn.bytes < self.limits.batch_bytes_max
            && entry.run_count == 0
            && entry.note.continuation.is_expected();
        self.turn.kept_until = may.then(|| now + self.limits.wait_max);
    }

    /// Gives the device free after the reader for which it was kept did not come.
    fn end_turn(&mut self) {
        if let Some(queue) = self.turn.queue {
            self.runs.queue_note_mut(queue).continuation.end_wait();
        }
        self.turn = Turn::default();
    }
}

impl Policy for Aioli {
    fn name(&self) -> &'static str {
        "aIOLi"
    }

    fn add(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) {
        let joined = self.runs.join(held, request);
        let run = self.runs.run(held, joined.run);
        let queue = run.queue;
        let (step, usual) = (self.step, self.settings.quantum_bytes.0);
        let memory = self.runs.queue_note_mut(queue);
        if memory.growth.quantum_bytes == 0 {
            memory.growth.change(step, usual);
        }
        let arrival = memory.continuation.arrive(request.request.range, run.range);
        self.file_joined(held, &joined, &run);
        if self.turn.queue == Some(queue) && arrival != Arrival::Continues {
            self.turn.kept_until = None;
        }
        if arrival != Arrival::Other {
            self.end_wait(queue);
        }
    }

    fn select(
        &mut self,
        now: Timestamp,
        held: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        self.expire_waits(now);
        if let Some(run) = self.kept_run() {
            self.dispatch(held, self.runs.queue_of_run(held, run), run, batch);
            return Selection::Batch;
        }
        if let Some(until) = self.turn.kept_until.filter(|_| self.runs.queued_count() > 0) {
            if until > now {
                return Selection::Wait { until };
            }
            self.end_turn();
        }
        loop {
            self.mature(held);
            let Some((_, queue)) = self.ready.first() else {
                if let Some(((step, _), ())) = self.coming.first() {
                    self.step = step;
                    continue;
                }
                let wait = self.waits.first().map(|((until, _), ())| Selection::Wait { until });
                return wait.unwrap_or(Selection::Idle);
            };
            let queue = QueueIndex(queue);
            let run = self.candidate(queue);
            if !self.try_wait(now, held, queue, run) {
                self.dispatch(held, queue, run, batch);
                return Selection::Batch;
            }
        }
    }

    fn complete(&mut self, now: Timestamp, request: &Accepted, moved: Bytes) {
        let Some(queue) = self.runs.queue_of(&request.request) else { return };
        let usual = self.settings.quantum_bytes.0;
        let (step, wait_max) = (self.step, self.limits.wait_max);
        let memory = self.runs.queue_note_mut(queue);
        let is_last = memory.continuation.complete();
        if moved < request.request.range.length() {
            memory.continuation.forget();
            memory.growth.change(step, usual);
            self.refile(queue);
        }
        if !is_last {
            return;
        }
        // A wait that was held for batches in flight goes on for the usual time only.
        let memory = self.runs.queue_note_mut(queue);
        if let Some(until) = memory.wait.filter(|until| *until > now + wait_max) {
            memory.wait = Some(now + wait_max);
            self.waits.remove((until, queue.0));
            self.waits.insert((now + wait_max, queue.0), ());
        }
        self.try_keep(now, queue);
    }

    fn cancel(&mut self, _now: Timestamp, held: &Requests<'_>, request: &Accepted) -> bool {
        let Some(index) = self.runs.find(held, request.id) else { return false };
        let run = self.runs.run(held, index);
        let (quantum, earned) = (self.quantum(&run), self.earned(run.queue));
        self.unfile(held, &run);
        for part in self.runs.remove(held, request).into_iter().flat_map(Removed::parts) {
            let bytes = self.runs.range(held, part).length().0;
            self.file(run.queue, part, earned.saturating_add(bytes).saturating_sub(quantum));
        }
        self.refile(run.queue);
        if self.runs.queue(run.queue).run_count == 0 {
            self.end_wait(run.queue);
        }
        true
    }

    fn drain(&mut self, held: &Requests<'_>, into: &mut Vec<RequestId>) {
        self.runs.drain(held, into);
        self.maturing.clear();
        self.eligible.clear();
        self.coming.clear();
        self.ready.clear();
        self.waits.clear();
        self.turn = Turn::default();
        self.runs.each_queue_note(|memory| {
            (memory.coming, memory.ready, memory.wait) = (None, None, None)
        });
    }

    fn retire(&mut self, file: FileIndex) {
        self.turn = Turn::default();
        self.runs.retire(file);
    }

    fn queued_count(&self) -> usize {
        self.runs.queued_count()
    }
}

#[cfg(test)]
mod tests;
