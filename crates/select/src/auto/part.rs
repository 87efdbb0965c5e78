//! All requests, or those of one class: what was seen of them, and their bandit.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use forebay_sched::{PolicyName, Request};
use forebay_units::{Bytes, ClassId, Nanos, Timestamp};

use super::load::Load;
use super::{Part, Switch, SwitchReason};
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
/// How long a class has had no request before its part goes to another one.
const IDLE_MIN: Nanos = Nanos::secs(1);

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

    /// Has it say what it has, whether that is another policy or not.
    pub(crate) fn announce(&mut self) {
        self.is_unannounced = true;
        self.hurry();
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
        let was_pinned = self.bandit.reason == SwitchReason::Pinned;
        // The same policy may be pinned with other parameters than it would be chosen with.
        let is_other = self.bandit.look(&sight, memory) || was_pinned != look.pinned.is_some();
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

/// A class for which there is no part: nothing is seen of it, so it has TO or what is pinned.
#[derive(Debug, Default)]
pub(crate) struct Unwatched {
    /// What its scheduler has, as far as known.
    pub(crate) policy: Option<PolicyName>,
    is_pinned: bool,
    /// What is here of it, so that a part of its own begins with that.
    load: Load,
}

/// All parts, found by class in O(1), and the classes that have none.
#[derive(Debug)]
pub(crate) struct Parts {
    parts: Vec<Box<PartState>>,
    unwatched: BTreeMap<ClassId, Unwatched>,
    /// Those of them that may have another policy than they are to have.
    unsettled: BTreeSet<ClassId>,
    /// Until then no part is looked for that could go.
    full_until: Timestamp,
    /// Where a class's part is, plus 1; 0 where there is none. Open addressing.
    table: [u8; TABLE],
    /// The class that was asked for last, and where it is: most often it is asked for again.
    last: (ClassId, usize),
    /// Parts were forgotten: a class may come back whose policy is not the first one.
    has_forgotten: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            unwatched: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            full_until: Timestamp(0),
            table: [0; TABLE],
            last: NOBODY,
            has_forgotten: false,
        }
    }
}

impl Unwatched {
    pub(crate) fn reason(&self) -> SwitchReason {
        if self.is_pinned { SwitchReason::Pinned } else { SwitchReason::Unwatched }
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

    /// The part of a class, or a new one if there is room: a place, or a part idle for a while.
    #[inline]
    pub(crate) fn of_class(
        &mut self,
        now: Timestamp,
        class: ClassId,
        fresh: impl FnOnce() -> PartState,
    ) -> Option<&mut PartState> {
        let place = match self.place(class) {
            Some(place) => place,
            None => {
                let place = self.admit(now, class, fresh)?;
                self.last = (class, place);
                place
            }
        };
        Some(&mut self.parts[place])
    }

    /// What is counted of a class that was met.
    #[inline]
    pub(crate) fn load(&mut self, class: ClassId) -> Option<&mut Load> {
        match self.place(class) {
            Some(place) => Some(&mut self.parts[place].load),
            None => self.unwatched.get_mut(&class).map(|unwatched| &mut unwatched.load),
        }
    }

    /// A request of a class for which there is no part; whether it is a new one.
    pub(crate) fn submitted_unwatched(&mut self, now: Timestamp, class: ClassId) -> bool {
        let is_new = !self.unwatched.contains_key(&class);
        self.unwatched.entry(class).or_default().load.submitted(now);
        if is_new {
            self.unsettled.insert(class);
        }
        is_new
    }

    /// The classes without a part, and what each has.
    pub(crate) fn unwatched(&self) -> impl Iterator<Item = (ClassId, &Unwatched)> {
        self.unwatched.iter().map(|(class, unwatched)| (*class, unwatched))
    }

    /// Has the classes without a part that `concerns` says of be seen to.
    pub(crate) fn unsettle(&mut self, concerns: impl Fn(ClassId) -> bool) {
        self.unsettled.extend(self.unwatched.keys().copied().filter(|class| concerns(*class)));
    }

    /// What the classes without a part have is not known any more.
    pub(crate) fn unsettle_all(&mut self) {
        self.unwatched.values_mut().for_each(|unwatched| unwatched.policy = None);
        self.unsettle(|_| true);
    }

    /// What the next class without a part is to have, if that is another policy.
    pub(crate) fn settle(
        &mut self,
        pinned: impl Fn(ClassId) -> Option<PolicyName>,
    ) -> Option<Switch> {
        while let Some(class) = self.unsettled.pop_first() {
            let Some(unwatched) = self.unwatched.get_mut(&class) else { continue };
            let pinned = pinned(class);
            let policy = pinned.unwrap_or(PolicyName::To);
            let had = unwatched.policy.replace(policy);
            let was_pinned = core::mem::replace(&mut unwatched.is_pinned, pinned.is_some());
            if had != Some(policy) || was_pinned || pinned.is_some() {
                let reason = unwatched.reason();
                return Some(Switch { part: Part::Class(class), policy, reason });
            }
        }
        None
    }

    #[inline]
    fn place(&mut self, class: ClassId) -> Option<usize> {
        if self.last.0 != class || self.last.1 >= self.parts.len() {
            self.last = (class, self.find(class)?);
        }
        Some(self.last.1)
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

    /// A new part. If there is no place, that of the class goes that was idle longest; if none was
    /// idle for long enough, there is none, and the next try is some time later.
    fn admit(
        &mut self,
        now: Timestamp,
        class: ClassId,
        fresh: impl FnOnce() -> PartState,
    ) -> Option<usize> {
        if self.parts.len() >= PARTS_MAX {
            if now < self.full_until {
                return None;
            }
            let is_idle =
                |part: &PartState| part.load.outstanding() == 0 && now - part.used >= IDLE_MIN;
            let idle = (0..self.parts.len()).filter(|index| is_idle(&self.parts[*index]));
            let Some(oldest) = idle.min_by_key(|index| self.parts[*index].used) else {
                self.full_until = now + LOOK_EVERY;
                return None;
            };
            self.evict(oldest);
        }
        let mut part = fresh();
        part.is_unannounced = self.has_forgotten;
        if let Some(unwatched) = self.unwatched.remove(&class) {
            part.load = unwatched.load.afresh();
            part.is_unannounced = true;
        }
        self.insert(part);
        Some(self.parts.len() - 1)
    }

    /// The class of a part has none from now on.
    fn evict(&mut self, index: usize) {
        if let PartState { part: Part::Class(class), bandit, .. } = &*self.parts[index] {
            let is_pinned = bandit.reason == SwitchReason::Pinned;
            let policy = Some(bandit.policy).filter(|_| !self.parts[index].is_unannounced);
            let class = *class;
            self.unwatched.insert(class, Unwatched { policy, is_pinned, load: Load::default() });
            self.unsettled.insert(class);
        }
        self.remove_at(index);
    }

    pub(crate) fn remove(&mut self, class: ClassId) {
        self.unwatched.remove(&class);
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

    fn class(parts: &mut Parts, now: u64, number: u32) -> Option<&mut PartState> {
        let class = ClassId(number);
        let fresh = || PartState::new(Part::Class(class), PolicyName::To, Bytes::kib(64));
        parts.of_class(Timestamp(now), class, fresh)
    }

    #[test]
    fn a_class_too_many_displaces_the_one_that_was_idle_longest_or_has_no_part() {
        let mut parts = Parts::default();
        for number in 0..PARTS_MAX as u32 {
            let part = class(&mut parts, 0, number * 1000).expect("there is room");
            part.used = Timestamp(u64::from(number));
            assert!(!part.is_unannounced);
        }
        let has = |parts: &Parts, number| parts.find(ClassId(number)).is_some();
        // The first two have requests here; the third is idle, but not for long enough.
        for number in 0..2 {
            class(&mut parts, 0, number * 1000).unwrap().load.submitted(Timestamp(1));
        }
        assert!(class(&mut parts, IDLE_MIN.0, 77).is_none());
        assert!(parts.submitted_unwatched(Timestamp(IDLE_MIN.0), ClassId(77)));
        assert!(!parts.submitted_unwatched(Timestamp(IDLE_MIN.0), ClassId(77)));
        let later = IDLE_MIN.0 + LOOK_EVERY.0;
        let part = class(&mut parts, later, 77).expect("a part was idle");
        assert!(part.is_unannounced);
        assert_eq!(part.load.outstanding(), 2, "what is here of it is known");
        assert_eq!(parts.iter().count(), PARTS_MAX);
        assert!(has(&parts, 0) && has(&parts, 1000) && !has(&parts, 2000) && has(&parts, 77));
        assert_eq!(parts.unwatched().map(|(class, _)| class).collect::<Vec<_>>(), [ClassId(2000)]);
        parts.remove(ClassId(0));
        parts.remove(ClassId(2000));
        assert!(!has(&parts, 0) && has(&parts, 63_000) && parts.iter().count() == PARTS_MAX - 1);
        assert_eq!(parts.unwatched().count(), 0);
    }
}
