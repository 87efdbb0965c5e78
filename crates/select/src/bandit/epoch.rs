//! An epoch: from when the requests that a switch found have ended until enough others have.

use forebay_units::Nanos;

use crate::auto::load::Load;
use crate::math::{exp, ln};

/// Requests that end in an epoch.
const REQUESTS: u64 = 256;
/// An epoch with fewer of them is no measurement.
const REQUESTS_MIN: u64 = 16;
/// Longer ones end with what they have.
const BUSY_MAX: Nanos = Nanos::secs(60);
/// In an epoch that counts there is something to choose among for this part of the time.
const READY_SHARE: f64 = 0.2;
/// An epoch that takes this times as long as was expected has shown enough.
const PATIENCE: u64 = 3;

/// When an epoch is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    busy: Nanos,
    requests: u64,
    busy_max: Nanos,
    pub(crate) length: Length,
}

/// How much an epoch is to show. Of a policy of which nothing is known but the tree's word, the
/// first question is whether it is a disaster, and that takes little; the second whether it hurts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// As much as costs almost nothing: each client has a turn.
    Glance,
    /// Each client has two turns or more.
    Short,
    /// 256 requests, and a second.
    Whole,
}

impl Length {
    /// What it counts, of a block.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Self::Glance => 0.1,
            Self::Short => 0.25,
            Self::Whole => 1.0,
        }
    }

    /// A policy is suspicious if TO is faster by this, in logarithms: by a quarter, a ninth.
    pub(crate) fn alarm(self) -> f64 {
        match self {
            Self::Glance => 0.223_143_551_314_209_76,
            Self::Short | Self::Whole => -super::HURTS,
        }
    }
}

impl Goal {
    pub(crate) fn new(length: Length, epoch_min: Nanos, outstanding: u32) -> Self {
        let outstanding = u64::from(outstanding);
        let (part, requests) = match length {
            Length::Glance => (40, outstanding.clamp(32, REQUESTS)),
            Length::Short => (20, (2 * outstanding).clamp(96, REQUESTS)),
            Length::Whole => (1, REQUESTS),
        };
        Self { busy: Nanos(epoch_min.0 / part), requests, busy_max: BUSY_MAX, length }
    }

    /// How long it will take if requests end as in `last`, slower by a factor of e^`slower`.
    pub(crate) fn expected(&self, last: &Measured, slower: f64, load: &Load) -> Nanos {
        let each = last.busy.0 as f64 / last.requests.max(1) as f64 * exp(slower.clamp(-3.0, 3.0));
        let settling = each * settling(load, self.length) as f64;
        let counted = (each * self.requests as f64).max(self.busy.0 as f64);
        Nanos((settling + counted) as u64)
    }

    /// The same, which ends long after the expected time in any case.
    pub(crate) fn at_most(self, expected: Nanos) -> Self {
        Self { busy_max: BUSY_MAX.min(Nanos(expected.0.saturating_mul(PATIENCE))), ..self }
    }
}

/// What an epoch has shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) requests: u64,
    bytes: u64,
    /// Between two ends of requests.
    pub(crate) busy: Nanos,
    ready_share: f64,
}

impl Measured {
    /// ln of bytes a second of busy time.
    pub(crate) fn speed(&self) -> f64 {
        ln(self.bytes.max(1) as f64 * 1e9 / self.busy.0.max(1) as f64)
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.requests >= REQUESTS_MIN
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.ready_share >= READY_SHARE
    }
}

/// Counters as they were at some moment.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    busy: Nanos,
    busy_at_end: Nanos,
    ready: Nanos,
    bytes: u64,
    ended: u64,
}

impl Mark {
    fn of(load: &Load) -> Self {
        let Load { busy, busy_at_end, ready, bytes, ended, .. } = *load;
        Self { busy, busy_at_end, ready, bytes, ended }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Epoch {
    start: Mark,
    /// It begins when so many requests have ended.
    settles_at: Option<u64>,
}

impl Epoch {
    /// After a change: what the policy before has dispatched has to end first, and in whole epochs
    /// what it has put in order as well.
    pub(crate) fn unsettled(load: &Load, length: Length) -> Self {
        let settles_at = Some(load.ended + settling(load, length));
        Self { start: Mark::of(load), settles_at }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settles_at.is_none()
    }

    /// Whether it is over now.
    pub(crate) fn is_over(&mut self, load: &Load, goal: &Goal) -> bool {
        if let Some(settles_at) = self.settles_at {
            let is_stuck = load.busy - self.start.busy >= goal.busy_max;
            if load.ended < settles_at && load.outstanding() > 0 && !is_stuck {
                return false;
            }
            *self = Self { start: Mark::of(load), settles_at: None };
            return is_stuck && goal.busy_max < BUSY_MAX;
        }
        let done = load.ended - self.start.ended >= goal.requests
            && load.busy_at_end - self.start.busy_at_end >= goal.busy;
        done || load.busy - self.start.busy >= goal.busy_max
    }

    /// What it has shown; the next one begins.
    pub(crate) fn end(&mut self, load: &Load) -> Measured {
        let (start, end) = (self.start, Mark::of(load));
        *self = Self { start: end, settles_at: None };
        let (busy, ready) = (end.busy - start.busy, end.ready - start.ready);
        let requests = end.ended - start.ended;
        let until_end = end.busy_at_end - start.busy_at_end;
        Measured {
            requests,
            bytes: end.bytes - start.bytes,
            // One in which hardly anything ended was as long as it was.
            busy: if requests < REQUESTS_MIN { busy } else { until_end },
            ready_share: ready.0 as f64 / busy.0.max(1) as f64,
        }
    }
}

/// Requests that have to end before an epoch begins.
fn settling(load: &Load, length: Length) -> u64 {
    u64::from(if length == Length::Whole { load.outstanding() } else { load.in_flight })
}

/// Whether that is enough to choose among.
pub(crate) fn is_ready(ready: Nanos, busy: Nanos) -> bool {
    ready.0 as f64 >= READY_SHARE * busy.0 as f64
}
