//! A scheduler whose calls are taken down: the one place where everything passes that a trace tells.
//!
//! It stands where a [`Scheduler`] would and answers as that does. Without a recorder it costs a
//! comparison a call.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;

use forebay_sched::{
    Accepted, Access, Admission, Batch, Cancellation, ClassError, Decision, FileBusy, Policy,
    Rejected, Request, RequestId, Room, Scheduler,
};
use forebay_units::{Bytes, FileId, FileIndex, Timestamp};

use crate::adjust::Adjustment;
use crate::event::{Asked, Event, Fate, Hinted, Named, Submit};
use crate::recorder::Recorder;

/// A scheduler, and what takes its calls down. Questions go to the scheduler as they are.
pub struct Traced {
    scheduler: Scheduler,
    recorder: Option<Box<Recorder>>,
    /// That there was nothing is recorded, for this question, and nothing has been queued since,
    /// and no append has ended.
    /// To ask again changes nothing in a scheduler without classes, so it is not recorded again.
    idle: Option<Asked>,
}

impl Deref for Traced {
    type Target = Scheduler;

    fn deref(&self) -> &Scheduler {
        &self.scheduler
    }
}

impl From<Scheduler> for Traced {
    /// Not recorded yet.
    fn from(scheduler: Scheduler) -> Self {
        Self { scheduler, recorder: None, idle: None }
    }
}

impl Traced {
    /// Records from now on. The recorder must have been made with the number of requests that the
    /// scheduler has accepted so far, its [`Stats::submitted`](forebay_sched::Stats::submitted).
    pub fn attach(&mut self, recorder: Recorder) {
        self.recorder = Some(Box::new(recorder));
        self.idle = None;
    }

    /// Records no more.
    pub fn detach(&mut self) -> Option<Recorder> {
        self.recorder.take().map(|recorder| *recorder)
    }

    /// Whether calls are taken down.
    pub fn is_recorded(&self) -> bool {
        self.recorder.is_some()
    }

    /// What takes the calls down, to take finished blocks from.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.recorder.as_deref_mut()
    }

    #[inline]
    fn record(&mut self, now: Timestamp, event: &Event<'_>) {
        self.idle = None;
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, event);
        }
    }

    /// As [`Scheduler::submit`].
    ///
    /// # Errors
    /// As [`Scheduler::submit`].
    #[inline]
    pub fn submit(
        &mut self,
        now: Timestamp,
        request: Request,
        room: Room,
    ) -> Result<Admission, Rejected> {
        let outcome = self.scheduler.submit(now, request, room);
        if let Some(recorder) = &mut self.recorder {
            let fate = match &outcome {
                Ok(Admission::Queued(_)) => Fate::Queued,
                Ok(Admission::Blocked(_)) => Fate::Blocked,
                Ok(Admission::Bypassed(_)) => Fate::Bypassed,
                Err(Rejected::QueueFull) => Fate::QueueFull,
                Err(Rejected::EmptyRange) => Fate::EmptyRange,
            };
            if matches!(fate, Fate::Queued | Fate::Blocked) {
                self.idle = None;
            }
            let submit = Submit { seq: None, request, has_room: room == Room::Free, fate };
            recorder.record(now, &Event::Submit(submit));
        }
        outcome
    }

    /// As [`Scheduler::next`].
    #[inline]
    pub fn next(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        let decision = self.scheduler.next(now, batch);
        self.record_decision(now, Asked::Anything, decision, batch);
        decision
    }

    /// As [`Scheduler::next_from_policy`].
    #[inline]
    pub fn next_from_policy(&mut self, now: Timestamp, batch: &mut Batch) -> Decision {
        let decision = self.scheduler.next_from_policy(now, batch);
        self.record_decision(now, Asked::FromPolicy, decision, batch);
        decision
    }

    #[inline]
    fn record_decision(&mut self, now: Timestamp, asked: Asked, decision: Decision, batch: &Batch) {
        match decision {
            Decision::Dispatch => {
                let members = batch.members().into();
                self.record(now, &Event::Dispatch { asked, members, continues: false });
            }
            Decision::Wait { until } => self.record(now, &Event::Wait { asked, until }),
            Decision::Idle if self.idle == Some(asked) => {}
            Decision::Idle => {
                self.record(now, &Event::Idle { asked });
                self.idle = (!self.scheduler.has_classes()).then_some(asked);
            }
        }
    }

    /// As [`Scheduler::complete`] or, with an `errno` other than 0, [`Scheduler::fail`].
    #[inline]
    pub fn complete(
        &mut self,
        now: Timestamp,
        id: RequestId,
        moved: Bytes,
        errno: u16,
    ) -> Option<Accepted> {
        let accepted = match errno {
            0 => self.scheduler.complete(now, id, moved)?,
            _ => self.scheduler.fail(now, id, moved)?,
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, &Event::Complete { seq: accepted.seq, errno, moved });
            if accepted.request.access == Access::Alone {
                // What an append moved is charged at its end, and the next question settles it.
                self.idle = None;
            }
        }
        self.record_ready(now);
        Some(accepted)
    }

    /// As [`Scheduler::cancel`].
    pub fn cancel(&mut self, now: Timestamp, id: RequestId) -> Cancellation {
        let seq = self.scheduler.find(id).map(|accepted| accepted.seq);
        let outcome = self.scheduler.cancel(now, id);
        if let (Cancellation::Cancelled, Some(seq)) = (outcome, seq) {
            self.record(now, &Event::Cancel { seq });
            self.record_ready(now);
        }
        outcome
    }

    /// What the last completion or cancellation made ready.
    #[inline]
    fn record_ready(&mut self, now: Timestamp) {
        if let Some(recorder) = &mut self.recorder {
            for accepted in self.scheduler.made_ready() {
                self.idle = None;
                recorder.record(now, &Event::Ready { seq: accepted.seq });
            }
        }
    }

    /// As [`Scheduler::drain`].
    pub fn drain(&mut self, now: Timestamp, into: &mut Vec<Accepted>) {
        self.scheduler.drain(into);
        self.record(now, &Event::Drain);
    }

    /// As [`Scheduler::switch_policy`].
    pub fn switch_policy(&mut self, now: Timestamp, policy: Box<dyn Policy>) -> Box<dyn Policy> {
        self.record(now, &Event::Switch { policy: policy.name() });
        self.scheduler.switch_policy(now, policy)
    }

    /// As [`Scheduler::retire`].
    ///
    /// # Errors
    /// As [`Scheduler::retire`].
    pub fn retire(&mut self, file: FileIndex) -> Result<(), FileBusy> {
        self.scheduler.retire(file)?;
        self.note(&Event::Retire { file });
        Ok(())
    }

    /// Notes a read that was answered without the scheduler.
    #[inline]
    pub fn note_immediate(&mut self, now: Timestamp, request: Request, moved: Bytes) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, &Event::Immediate { request, moved });
        }
    }

    /// Notes a request that was refused before it came to the scheduler, because as many wait as may.
    pub fn note_refused(&mut self, now: Timestamp, request: Request) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, &Event::Refused { request });
        }
    }

    /// Notes how many requests may be in flight from now on, at least 1.
    pub fn note_depth(&mut self, now: Timestamp, depth: u32) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, &Event::Depth { depth });
        }
    }

    /// Notes what was said ahead of time.
    pub fn note_hint(&mut self, now: Timestamp, hint: Hinted) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(now, &Event::Hint(hint));
        }
    }

    /// Notes which file an index stands for from now on, in the scheduler's ledger too.
    pub fn note_file(&mut self, file: FileIndex, id: FileId) {
        if let Some(ledger) = self.scheduler.ledger_mut() {
            ledger.name_file(file, id);
        }
        self.note(&Event::File { file, id });
    }

    /// Notes a name for people.
    pub fn note_name(&mut self, of: Named, text: &str) {
        self.note(&Event::Name { of, text });
    }

    /// Records what has no time of its own: as late as the event before.
    fn note(&mut self, event: &Event<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(recorder.now(), event);
        }
    }

    /// Changes how the scheduler shares and orders.
    ///
    /// # Errors
    /// As [`Adjustment::apply`].
    pub fn adjust(&mut self, now: Timestamp, adjustment: &Adjustment) -> Result<(), ClassError> {
        if let Some(recorder) = &mut self.recorder {
            let (key, value) = (adjustment.key(), adjustment.value());
            self.idle = None;
            recorder.record(now, &Event::Setting { key: &key, value: &value });
        }
        adjustment.apply(now, &mut self.scheduler)
    }

    /// Changes something at the scheduler in a way that no [`Adjustment`] has, and takes down which
    /// setting was given which value. Such a trace cannot be checked beyond that place.
    pub fn change<R>(
        &mut self,
        now: Timestamp,
        key: &str,
        value: &str,
        change: impl FnOnce(&mut Scheduler) -> R,
    ) -> R {
        self.record(now, &Event::Setting { key, value });
        change(&mut self.scheduler)
    }

    /// As [`change`](Self::change), for what may turn out not to be possible: then nothing is
    /// taken down.
    pub fn try_change<R>(
        &mut self,
        now: Timestamp,
        key: &str,
        value: &str,
        change: impl FnOnce(&mut Scheduler) -> Option<R>,
    ) -> Option<R> {
        let changed = change(&mut self.scheduler)?;
        self.record(now, &Event::Setting { key, value });
        Some(changed)
    }
}
