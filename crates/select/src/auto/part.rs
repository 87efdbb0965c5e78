//! All requests, or those of one class: what was seen of them, and their bandit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use forebay_sched::{PolicyName, Request};
use forebay_units::{Bytes, ClassId, Nanos, Timestamp};

use super::load::Load;
use super::{Part, Switch};
use crate::bandit::memory::Memory;
use crate::bandit::{Bandit, Sight};
use crate::detector::{Detector, DetectorOptions, Offsets};
use crate::features::Features;
use crate::pattern::Pattern;
use crate::profile::DeviceProfile;
use crate::tree::Tree;

/// Most parts. One takes some tens of kilobytes, most of them the detector's.
pub(crate) const PARTS_MAX: usize = 64;
/// Places in the table of classes: never more than a quarter of them in use.
const TABLE: usize = 4 * PARTS_MAX;
/// Between two looks: while something is being found out, and otherwise.
const LOOK_SOON: Nanos = Nanos::millis(10);
const LOOK_EVERY: Nanos = Nanos::millis(50);
/// Switches that are remembered.
const SWITCHES_MAX: usize = 16;
const NEVER: Timestamp = Timestamp(u64::MAX);

/// What a part is told when it is looked at.
pub(crate) struct Look<'a> {
    pub(crate) now: Timestamp,
    pub(crate) device: &'a DeviceProfile,
    pub(crate) tree: &'a Tree,
    pub(crate) pinned: Option<PolicyName>,
    pub(crate) may_explore: bool,
    pub(crate) epoch_min: Nanos,
}

/// All requests, or those of one class.
#[derive(Debug)]
pub(crate) struct PartState {
    pub(crate) part: Part,
    pub(crate) load: Load,
    pub(crate) bandit: Bandit,
    /// The last that was seen, and what the tree was asked then.
    pub(crate) seen: Option<(Pattern, Features)>,
    pub(crate) switches: Vec<(Timestamp, Switch)>,
    detector: Detector,
    due: Timestamp,
    used: Timestamp,
    /// Whether the scheduler may have another policy than the bandit believes, as after a part of
    /// the same class was forgotten.
    is_unannounced: bool,
}

impl PartState {
    pub(crate) fn new(part: Part, start: PolicyName, stripe: Bytes) -> Self {
        Self {
            part,
            load: Load::default(),
            bandit: Bandit::new(start),
            seen: None,
            switches: Vec::new(),
            detector: Detector::new(DetectorOptions { stripe, offsets: Offsets::Whole }),
            due: NEVER,
            used: Timestamp(0),
            is_unannounced: false,
        }
    }

    #[inline]
    pub(crate) fn submitted(&mut self, now: Timestamp, request: &Request) {
        self.load.submitted(now);
        self.detector.arrived(now, request);
        self.used = now;
        if self.due == NEVER {
            self.due = now + LOOK_SOON;
        }
    }

    /// Before then there is nothing to look for.
    #[inline]
    pub(crate) fn due(&self) -> Timestamp {
        self.due
    }

    /// Has it looked at next.
    pub(crate) fn hurry(&mut self) {
        self.due = Timestamp(0);
    }

    pub(crate) fn look(&mut self, look: &Look<'_>, memory: &mut Memory) -> Option<Switch> {
        let now = look.now;
        self.load.advance(now);
        if let Some(pattern) = self.detector.pattern(now) {
            self.seen = Some((pattern, Features::new(&pattern, look.device)));
        }
        let leaf = self.seen.as_ref().map(|(_, features)| look.tree.leaf(features).0);
        let sight = Sight {
            now,
            load: &self.load,
            tree: look.tree,
            leaf,
            pinned: look.pinned,
            may_explore: look.may_explore,
            epoch_min: look.epoch_min,
        };
        let is_other = self.bandit.look(&sight, memory);
        self.due = match (self.load.outstanding(), self.bandit.is_in_a_hurry()) {
            (0, _) => NEVER,
            (_, true) => now + LOOK_SOON,
            (_, false) => now + LOOK_EVERY,
        };
        if !core::mem::take(&mut self.is_unannounced) && !is_other {
            return None;
        }
        let Bandit { policy, reason, .. } = self.bandit;
        let switch = Switch { part: self.part, policy, reason };
        if self.switches.len() == SWITCHES_MAX {
            self.switches.remove(0);
        }
        self.switches.push((now, switch));
        Some(switch)
    }
}

/// All parts, found by class in O(1).
#[derive(Debug)]
pub(crate) struct Parts {
    parts: Vec<Box<PartState>>,
    /// Where a class's part is, plus 1; 0 where there is none. Open addressing.
    table: [u8; TABLE],
    /// The class that was asked for last, and where it is: most often it is asked for again.
    last: (ClassId, usize),
    /// Parts were forgotten: a class may come back whose policy is not the first one.
    has_forgotten: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self { parts: Vec::new(), table: [0; TABLE], last: NOBODY, has_forgotten: false }
    }
}

const NOBODY: (ClassId, usize) = (ClassId(0), usize::MAX);

/// Where a class is looked for first: multiplicative hashing (Knuth, volume 3, 6.4).
fn home(class: ClassId) -> usize {
    (class.0.wrapping_mul(0x9e37_79b1) >> (u32::BITS - TABLE.ilog2())) as usize
}

impl Parts {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PartState> {
        self.parts.iter().map(|part| &**part)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PartState> {
        self.parts.iter_mut().map(|part| &mut **part)
    }

    /// The only one, where there are no classes.
    #[inline]
    pub(crate) fn first(&mut self) -> &mut PartState {
        &mut self.parts[0]
    }

    pub(crate) fn insert(&mut self, part: PartState) {
        self.parts.push(Box::new(part));
        self.index(self.parts.len() - 1);
    }

    #[inline]
    pub(crate) fn of_class(
        &mut self,
        class: ClassId,
        fresh: impl FnOnce() -> PartState,
    ) -> &mut PartState {
        if self.last.0 != class || self.last.1 >= self.parts.len() {
            self.last = (class, self.find(class).unwrap_or_else(|| self.admit(fresh())));
        }
        &mut self.parts[self.last.1]
    }

    fn find(&self, class: ClassId) -> Option<usize> {
        let mut place = home(class);
        loop {
            let index = usize::from(self.table[place]).checked_sub(1)?;
            if self.parts[index].part == Part::Class(class) {
                return Some(index);
            }
            place = (place + 1) % TABLE;
        }
    }

    fn index(&mut self, index: usize) {
        let Part::Class(class) = self.parts[index].part else { return };
        let mut place = home(class);
        while self.table[place] != 0 {
            place = (place + 1) % TABLE;
        }
        self.table[place] = index as u8 + 1;
    }

    /// Makes room if there is none: the part goes that was idle longest, or else the least used.
    fn admit(&mut self, mut part: PartState) -> usize {
        if self.parts.len() >= PARTS_MAX {
            let by_use = |part: &PartState| (part.load.outstanding() > 0, part.used);
            let oldest = (0..self.parts.len()).min_by_key(|index| by_use(&self.parts[*index]));
            self.remove_at(oldest.unwrap_or_default());
        }
        part.is_unannounced = self.has_forgotten;
        self.insert(part);
        self.parts.len() - 1
    }

    pub(crate) fn remove(&mut self, class: ClassId) {
        if let Some(index) = self.find(class) {
            self.remove_at(index);
        }
    }

    fn remove_at(&mut self, index: usize) {
        self.parts.swap_remove(index);
        self.has_forgotten = true;
        self.last = NOBODY;
        self.table = [0; TABLE];
        (0..self.parts.len()).for_each(|index| self.index(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(parts: &mut Parts, number: u32) -> &mut PartState {
        let class = ClassId(number);
        let fresh = || PartState::new(Part::Class(class), PolicyName::To, Bytes::kib(64));
        parts.of_class(class, fresh)
    }

    #[test]
    fn a_class_too_many_displaces_the_one_that_was_idle_longest() {
        let mut parts = Parts::default();
        for number in 0..PARTS_MAX as u32 {
            let part = class(&mut parts, number * 1000);
            part.used = Timestamp(u64::from(number));
            assert!(!part.is_unannounced);
        }
        // The first two have requests here; the third is idle.
        (0..2).for_each(|number| class(&mut parts, number * 1000).load.submitted(Timestamp(1)));
        assert!(class(&mut parts, 77).is_unannounced);
        assert_eq!(parts.iter().count(), PARTS_MAX);
        let has = |parts: &Parts, number| parts.find(ClassId(number)).is_some();
        assert!(has(&parts, 0) && has(&parts, 1000) && !has(&parts, 2000) && has(&parts, 77));
        parts.remove(ClassId(0));
        assert!(!has(&parts, 0) && has(&parts, 63_000) && parts.iter().count() == PARTS_MAX - 1);
    }
}
