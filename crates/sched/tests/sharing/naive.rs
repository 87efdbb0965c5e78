//! Naive versions, each with one mistake that is easily made: the checks must tell them from the real thing.

use std::collections::BTreeMap;

use forebay_sched::sharing::{Pick, Work};
use forebay_units::{ClassId, Timestamp};

use crate::bed::Outer;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// None: the checks accept it.
    None,
    /// Who comes back starts at virtual time even if it was ahead.
    ForgetsDebt,
    /// Who comes back starts where it left, however long ago.
    KeepsCredit,
    /// Every batch counts the same.
    CountsBatches,
    /// All weights are 1.
    IgnoresWeights,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    tag: u64,
    is_ready: bool,
}

/// SFQ in thirty lines with 16 fixed-point places, and perhaps a mistake.
pub(crate) struct NaiveSfq {
    weights: Vec<u64>,
    mistake: Mistake,
    classes: BTreeMap<u32, Tags>,
    virtual_time: u64,
}

impl NaiveSfq {
    pub(crate) fn new(weights: &[u64], mistake: Mistake) -> Self {
        Self { weights: weights.to_vec(), mistake, classes: BTreeMap::new(), virtual_time: 0 }
    }
}

impl Outer for NaiveSfq {
    fn ready(&mut self, _now: Timestamp, class: ClassId) {
        let tags = self.classes.entry(class.0).or_default();
        tags.is_ready = true;
        tags.tag = match self.mistake {
            Mistake::ForgetsDebt => self.virtual_time,
            Mistake::KeepsCredit => tags.tag,
            _ => tags.tag.max(self.virtual_time),
        };
    }

    fn empty(&mut self, _now: Timestamp, class: ClassId) {
        self.classes.entry(class.0).or_default().is_ready = false;
    }

    fn pick(&mut self, _now: Timestamp) -> Pick {
        let ready = self.classes.iter().filter(|(_, tags)| tags.is_ready);
        match ready.min_by_key(|(class, tags)| (tags.tag, **class)) {
            Some((class, _)) => Pick::Class(ClassId(*class)),
            None => Pick::Idle,
        }
    }

    fn charge(&mut self, _now: Timestamp, class: ClassId, work: Work) {
        let cost = if self.mistake == Mistake::CountsBatches { 4096 } else { work.bytes.0 };
        let weight = match self.mistake {
            Mistake::IgnoresWeights => 1,
            _ => self.weights[class.0 as usize],
        };
        let tags = self.classes.entry(class.0).or_default();
        self.virtual_time = self.virtual_time.max(tags.tag);
        tags.tag += (cost << 16).div_ceil(weight);
    }

    fn complete(&mut self, _now: Timestamp, _class: ClassId, _requests: u32) {}
}
