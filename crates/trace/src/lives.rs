//! The lives of requests: what several events say about one request, put together.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use forebay_sched::Request;
use forebay_units::{Bytes, Nanos, Timestamp};

use crate::catalog::Catalog;
use crate::event::{Event, Fate, Record};

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It was carried out, or its store failed it.
    Completed,
    /// It was answered at once, without the scheduler.
    Immediate,
    /// It was refused.
    Refused,
    /// It was taken back.
    Cancelled,
    /// It was handed back with all others.
    Drained,
    /// The trace does not say.
    Open,
}

impl End {
    /// One word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Immediate => "immediate",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Drained => "drained",
            Self::Open => "open",
        }
    }
}

/// A request from its arrival to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Its number; `None` for what the scheduler has not accepted.
    pub seq: Option<u64>,
    /// What was asked; the file is its place in the [`Catalog`].
    pub request: Request,
    /// When it came.
    pub arrived: Timestamp,
    /// Whether it had to wait for earlier conflicting requests at first.
    pub was_blocked: bool,
    /// When the last of those had ended.
    pub ready: Option<Timestamp>,
    /// When it was let go.
    pub dispatched: Option<Timestamp>,
    /// The number of its batch, counted from 0; `None` for one that went at once on its own.
    pub batch: Option<u64>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Bytes moved.
    pub moved: Bytes,
    /// The error number of its store, 0 for success.
    pub errno: u16,
    /// What became of it.
    pub end: End,
}

impl Life {
    /// From arrival to end.
    pub fn latency(&self) -> Option<Nanos> {
        self.ended.map(|ended| ended - self.arrived)
    }

    /// From arrival to dispatch.
    pub fn queue_time(&self) -> Option<Nanos> {
        self.dispatched.map(|dispatched| dispatched - self.arrived)
    }

    /// From dispatch to end.
    pub fn device_time(&self) -> Option<Nanos> {
        Some(self.ended? - self.dispatched?)
    }

    /// From arrival until no earlier conflicting request was left.
    pub fn blocked_time(&self) -> Option<Nanos> {
        self.ready.filter(|_| self.was_blocked).map(|ready| ready - self.arrived)
    }
}

/// Puts the events of a trace together. To be told every event, in order.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    /// Names, and files told apart.
    pub catalog: Catalog,
    /// Not dispatched; apart from the others, so that a drain touches only what it ends.
    waiting: BTreeMap<u64, Life>,
    dispatched: BTreeMap<u64, Life>,
    batches_count: u64,
}

impl Lives {
    /// Takes an event in; `ended` is given what ended with it.
    pub fn take(&mut self, record: &Record<'_>, mut ended: impl FnMut(&Catalog, &Life)) {
        let now = record.time;
        self.catalog.take(&record.event);
        match record.event {
            Event::Submit(submit) => {
                let mut life = self.begin(now, submit.request);
                life.seq = submit.seq;
                life.was_blocked = submit.fate == Fate::Blocked;
                life.dispatched = (submit.fate == Fate::Bypassed).then_some(now);
                match submit.seq {
                    Some(seq) if life.dispatched.is_some() => {
                        self.dispatched.insert(seq, life);
                    }
                    Some(seq) => _ = self.waiting.insert(seq, life),
                    None => {
                        (life.end, life.ended) = (End::Refused, Some(now));
                        ended(&self.catalog, &life);
                    }
                }
            }
            Event::Refused { request } => {
                let life = self.begin(now, request);
                ended(&self.catalog, &Life { end: End::Refused, ended: Some(now), ..life });
            }
            Event::Immediate { request, moved } => {
                let life = self.begin(now, request);
                let (end, ended_at) = (End::Immediate, Some(now));
                let life = Life { dispatched: Some(now), moved, end, ended: ended_at, ..life };
                ended(&self.catalog, &life);
            }
            Event::Dispatch { members, continues, .. } => {
                for seq in members.iter() {
                    if let Some(life) = self.waiting.remove(&seq) {
                        let batch = Some(self.batches_count);
                        self.dispatched.insert(seq, Life { dispatched: Some(now), batch, ..life });
                    }
                }
                self.batches_count += u64::from(!continues);
            }
            Event::Ready { seq } => {
                if let Some(life) = self.waiting.get_mut(&seq) {
                    life.ready = Some(now);
                }
            }
            Event::Complete { seq, errno, moved } => {
                if let Some(life) = self.take_open(seq) {
                    let (end, ended_at) = (End::Completed, Some(now));
                    ended(&self.catalog, &Life { moved, errno, end, ended: ended_at, ..life });
                }
            }
            Event::Cancel { seq } => {
                if let Some(life) = self.take_open(seq) {
                    let (end, ended_at) = (End::Cancelled, Some(now));
                    ended(&self.catalog, &Life { end, ended: ended_at, ..life });
                }
            }
            Event::Drain => {
                for life in core::mem::take(&mut self.waiting).into_values() {
                    let (end, ended_at) = (End::Drained, Some(now));
                    ended(&self.catalog, &Life { end, ended: ended_at, ..life });
                }
            }
            _ => {}
        }
    }

    /// What has not ended when the trace does, or whose end the trace has lost, in order of arrival.
    pub fn open(&self) -> impl Iterator<Item = &Life> {
        let mut open: Vec<_> = self.waiting.iter().chain(&self.dispatched).collect();
        open.sort_unstable_by_key(|(seq, _)| **seq);
        open.into_iter().map(|(_, life)| life)
    }

    /// A request that has not ended.
    pub fn find(&self, seq: u64) -> Option<&Life> {
        self.waiting.get(&seq).or_else(|| self.dispatched.get(&seq))
    }

    fn take_open(&mut self, seq: u64) -> Option<Life> {
        self.waiting.remove(&seq).or_else(|| self.dispatched.remove(&seq))
    }

    fn begin(&mut self, now: Timestamp, request: Request) -> Life {
        let file = self.catalog.place_of(request.file);
        let request = Request { file, ..request };
        if matches!(request.access, forebay_sched::Access::Read | forebay_sched::Access::Write) {
            let size = &mut self.catalog.files[file.0 as usize].size;
            *size = (*size).max(Bytes(request.range.end.0));
        }
        Life {
            seq: None,
            request,
            arrived: now,
            was_blocked: false,
            ready: None,
            dispatched: None,
            batch: None,
            ended: None,
            moved: Bytes::ZERO,
            errno: 0,
            end: End::Open,
        }
    }
}
