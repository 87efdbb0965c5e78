//! A trace as a test case: its calls made again to a scheduler of the same kind, whose decisions
//! are held against the recorded ones.
//!
//! Everything that a scheduler depends on is in the trace: arrivals with their times and whether
//! the store had room, completions, cancellations, and each time it was asked. Decisions depend on
//! nothing else, so the first difference is a change of behaviour, and its place is told.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use forebay_sched::{
    Admission, Batch, Cancellation, Decision, PolicyName, PolicySettings, Rejected, RequestId,
    Room, Scheduler, build,
};
use forebay_units::Timestamp;

use crate::adjust::Adjustment;
use crate::event::{Asked, Event, Fate, Members, Record, Submit};

/// A decision that differs from the recorded one, or a trace that cannot be checked further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Where in the trace.
    pub position: usize,
    /// When.
    pub time: Timestamp,
    /// What was recorded, and what happened instead.
    pub text: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}, {} ns: {}", self.position, self.time.0, self.text)
    }
}

impl core::error::Error for Divergence {}

/// Makes a trace's calls to a scheduler.
pub struct Checker {
    scheduler: Scheduler,
    settings: PolicySettings,
    /// Live requests by `seq`.
    live: BTreeMap<u64, RequestId>,
    batch: Batch,
    /// What is left of a batch that takes several events.
    rest: Vec<u64>,
    /// What the last call made ready and no event has told yet.
    ready: VecDeque<u64>,
    decisions_count: u64,
}

impl Checker {
    /// A checker with a fresh scheduler; the settings are for policies that the trace switches to.
    pub fn new(scheduler: Scheduler, settings: PolicySettings) -> Self {
        Self {
            scheduler,
            settings,
            live: BTreeMap::new(),
            batch: Batch::new(),
            rest: Vec::new(),
            ready: VecDeque::new(),
            decisions_count: 0,
        }
    }

    /// How many decisions were the same so far: fates of requests, batches, waits.
    pub fn decisions_count(&self) -> u64 {
        self.decisions_count
    }

    /// Makes the call that an event tells of, and compares.
    ///
    /// # Errors
    /// At the first difference, for a trace with missing events, and for a policy or a setting that
    /// has no meaning here.
    pub fn check(&mut self, record: &Record<'_>) -> Result<(), Divergence> {
        let outcome = self.step(record.time, &record.event);
        outcome.map_err(|text| Divergence { position: record.position, time: record.time, text })
    }

    fn step(&mut self, now: Timestamp, event: &Event<'_>) -> Result<(), String> {
        if !matches!(event, Event::Ready { .. }) && !self.ready.is_empty() {
            return Err(format!("requests {:?} became ready, which was not recorded", self.ready));
        }
        match event {
            Event::Submit(submit) => self.submit(now, submit),
            Event::Dispatch { asked, members, continues } => {
                self.dispatch(now, *asked, members, *continues)
            }
            Event::Wait { asked, until } => match self.ask(now, *asked) {
                Decision::Wait { until: now_until } if now_until == *until => Ok(()),
                other => Err(format!("recorded a wait until {} ns, now {other:?}", until.0)),
            },
            Event::Idle { asked } => match self.ask(now, *asked) {
                Decision::Idle => Ok(()),
                other => Err(format!("recorded nothing to do, now {other:?}")),
            },
            Event::Ready { seq } => match self.ready.front() == Some(seq) {
                true => {
                    self.ready.pop_front();
                    Ok(())
                }
                false => Err(format!("recorded request {seq} as ready, now {:?}", self.ready)),
            },
            Event::Complete { seq, errno, moved } => {
                let id = self.take_live(*seq)?;
                let ended = match errno {
                    0 => self.scheduler.complete(now, id, *moved),
                    _ => self.scheduler.fail(now, id, *moved),
                };
                ended.ok_or_else(|| format!("request {seq} ended and was not in flight"))?;
                self.note_ready();
                Ok(())
            }
            Event::Cancel { seq } => {
                let id = self.take_live(*seq)?;
                match self.scheduler.cancel(now, id) {
                    Cancellation::Cancelled => {
                        self.note_ready();
                        Ok(())
                    }
                    other => Err(format!("recorded request {seq} as cancelled, now {other:?}")),
                }
            }
            Event::Drain => {
                let mut drained = Vec::new();
                self.scheduler.drain(&mut drained);
                drained.iter().for_each(|accepted| _ = self.live.remove(&accepted.seq));
                Ok(())
            }
            Event::Switch { .. } if self.scheduler.has_classes() => {
                Err("recorded one policy for all, now each class has its own".into())
            }
            Event::Switch { policy } => {
                let name: PolicyName =
                    policy.parse().map_err(|error| format!("{policy}: {error}"))?;
                self.scheduler.switch_policy(now, build(name, &self.settings));
                Ok(())
            }
            Event::Setting { key, value } => {
                let adjustment = Adjustment::read(key, value).ok_or_else(|| {
                    format!(
                        "{key} = {value} was set, which cannot be done again: it is spelled by \
                         another version, or by a program of its own"
                    )
                })?;
                // What was refused then is refused again.
                _ = adjustment.apply(now, &mut self.scheduler);
                Ok(())
            }
            Event::Retire { file } => self
                .scheduler
                .retire(*file)
                .map_err(|_| format!("file {} was retired and has live requests", file.0)),
            Event::Lost { events, .. } => {
                Err(format!("{events} events are missing; record with more memory for the trace"))
            }
            Event::Immediate { .. }
            | Event::File { .. }
            | Event::Name { .. }
            | Event::Refused { .. }
            | Event::Depth { .. }
            | Event::Hint(_)
            | Event::Unknown { .. } => Ok(()),
        }
    }

    fn submit(&mut self, now: Timestamp, submit: &Submit) -> Result<(), String> {
        let room = if submit.has_room { Room::Free } else { Room::Full };
        let outcome = self.scheduler.submit(now, submit.request, room);
        let fate = match &outcome {
            Ok(Admission::Queued(_)) => Fate::Queued,
            Ok(Admission::Blocked(_)) => Fate::Blocked,
            Ok(Admission::Bypassed(_)) => Fate::Bypassed,
            Err(Rejected::QueueFull) => Fate::QueueFull,
            Err(Rejected::EmptyRange) => Fate::EmptyRange,
        };
        if fate != submit.fate {
            return Err(format!("recorded a request as {:?}, now {fate:?}", submit.fate));
        }
        if let (Ok(admission), Some(seq)) = (outcome, submit.seq) {
            self.live.insert(seq, admission.id());
        }
        self.decisions_count += 1;
        Ok(())
    }

    fn dispatch(
        &mut self,
        now: Timestamp,
        asked: Asked,
        members: &Members<'_>,
        continues: bool,
    ) -> Result<(), String> {
        if self.rest.is_empty() {
            match self.ask(now, asked) {
                Decision::Dispatch => {
                    self.rest.extend(self.batch.members().iter().rev().map(|member| member.seq));
                }
                other => {
                    return Err(format!("recorded a batch of {:?}, now {other:?}", members));
                }
            }
        }
        for seq in members.iter() {
            let found = self.rest.pop();
            if found != Some(seq) {
                let now: Vec<u64> = self.batch.members().iter().map(|member| member.seq).collect();
                return Err(format!("recorded a batch with {members:?}, now {now:?}"));
            }
        }
        match self.rest.is_empty() || continues {
            true => Ok(()),
            false => Err(format!("recorded a batch without {:?}", self.rest)),
        }
    }

    fn ask(&mut self, now: Timestamp, asked: Asked) -> Decision {
        self.decisions_count += 1;
        match asked {
            Asked::Anything => self.scheduler.next(now, &mut self.batch),
            Asked::FromPolicy => self.scheduler.next_from_policy(now, &mut self.batch),
        }
    }

    fn take_live(&mut self, seq: u64) -> Result<RequestId, String> {
        self.live.remove(&seq).ok_or_else(|| format!("request {seq} is not known here"))
    }

    fn note_ready(&mut self) {
        self.ready.extend(self.scheduler.made_ready().map(|accepted| accepted.seq));
    }
}
