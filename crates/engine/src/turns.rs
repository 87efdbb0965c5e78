//! Parts that wait for memory or for room in the scheduler, class by class: whoever is kept waiting
//! for its own class's sake keeps nobody else waiting.
//!
//! Within a class it is first come, first served; the classes take turns.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use forebay_sched::sharing::GroupId;
use forebay_units::ClassId;

use crate::call::PartKey;

/// What became of the first part of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It need not wait any more.
    Done,
    /// It waits, because its class has had its share; the next class may go.
    ClassWaits,
    /// It waits for what everybody waits for; nobody may pass it.
    AllWait,
}

#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// No queue is empty.
    queues: HashMap<ClassId, VecDeque<PartKey>>,
    /// Every class with a queue, once; the first is next.
    turn: VecDeque<ClassId>,
}

impl Turns {
    pub(crate) fn push(&mut self, class: ClassId, part: PartKey) {
        let queue = self.queues.entry(class).or_default();
        if queue.is_empty() {
            self.turn.push_back(class);
        }
        queue.push_back(part);
    }

    /// Whether parts of this class wait, which a new one has to stand behind.
    pub(crate) fn has(&self, class: ClassId) -> bool {
        self.queues.contains_key(&class)
    }

    /// Serves first parts in turn until none can be served; whether that is because all wait.
    pub(crate) fn serve(&mut self, mut serve: impl FnMut(PartKey) -> Served) -> bool {
        let mut passed = 0;
        while passed < self.turn.len() {
            let class = self.turn[0];
            let queue = self.queues.get_mut(&class).expect("a class in turn has a queue");
            match serve(*queue.front().expect("no queue is empty")) {
                Served::AllWait => return true,
                Served::ClassWaits => {
                    passed += 1;
                    self.turn.rotate_left(1);
                }
                Served::Done => {
                    passed = 0;
                    queue.pop_front();
                    self.turn.pop_front();
                    match queue.is_empty() {
                        true => drop(self.queues.remove(&class)),
                        false => self.turn.push_back(class),
                    }
                }
            }
        }
        false
    }
}

/// Who holds something: a class, and the group that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) class: ClassId,
    pub(crate) group: Option<GroupId>,
}

/// How many times what is free the classes of a group may hold together.
const GROUP_FACTOR: u64 = 8;

/// What classes and their groups hold of something that is limited: memory for payload, places in
/// the scheduler.
///
/// Source: A. K. Choudhury, E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
/// Switches", IEEE/ACM Transactions on Networking 6(2), 1998: a queue may grow up to a multiple of
/// what is free. With a factor of 2, one class alone gets two thirds, two get two fifths each, and
/// something is left for whoever comes next, whatever the others hold and however slowly they let go
/// of it. A group may hold up to a multiple too, and its classes up to a multiple of what that leaves
/// the group: so the classes of one user, however many are held back, neither keep out other users
/// nor the user's next class.
///
/// Where it loses: each class that is held back leaves the next one of its group a part less, down
/// to one request at a time, and none once the group holds its multiple in single requests.
#[derive(Debug)]
pub(crate) struct Holdings {
    /// How many times what is free a class may hold.
    class_factor: u64,
    by_class: HashMap<ClassId, u64>,
    by_group: HashMap<GroupId, u64>,
}

impl Holdings {
    /// Nobody holds anything. A small factor leaves more for the next class, a large one gives more to
    /// a class that is alone.
    pub(crate) fn new(class_factor: u64) -> Self {
        Self { class_factor, by_class: HashMap::new(), by_group: HashMap::new() }
    }

    /// Whether somebody may hold `length` more while `free` is free. Who holds nothing, nor the
    /// group, may.
    pub(crate) fn allow(&self, owner: Owner, length: u64, free: u64) -> bool {
        let class_held = self.by_class.get(&owner.class).copied();
        let group_held = owner.group.and_then(|group| self.by_group.get(&group).copied());
        let group_max = free.saturating_mul(GROUP_FACTOR);
        if group_held.is_some_and(|held| held.saturating_add(length) > group_max) {
            return false;
        }
        let room = free.min(group_max - group_held.unwrap_or(0).min(group_max));
        class_held.is_none_or(|held| {
            held.saturating_add(length) <= room.saturating_mul(self.class_factor)
        })
    }

    pub(crate) fn take(&mut self, owner: Owner, length: u64) {
        if length > 0 {
            *self.by_class.entry(owner.class).or_default() += length;
            if let Some(group) = owner.group {
                *self.by_group.entry(group).or_default() += length;
            }
        }
    }

    pub(crate) fn give_back(&mut self, owner: Owner, length: u64) {
        give_back(&mut self.by_class, owner.class, length);
        if let Some(group) = owner.group {
            give_back(&mut self.by_group, group, length);
        }
    }
}

fn give_back<K: Eq + Hash>(holders: &mut HashMap<K, u64>, holder: K, length: u64) {
    if let Entry::Occupied(mut held) = holders.entry(holder) {
        *held.get_mut() -= length;
        if *held.get() == 0 {
            held.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::KeyData;

    fn part(n: u64) -> PartKey {
        PartKey::from(KeyData::from_ffi(1 << 32 | n))
    }

    fn filled() -> Turns {
        let mut turns = Turns::default();
        for (class, n) in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5)] {
            turns.push(ClassId(class), part(n));
        }
        turns
    }

    #[test]
    fn classes_take_turns_and_each_serves_in_order() {
        let mut seen = Vec::new();
        let mut turns = filled();
        let all_wait = turns.serve(|key| {
            seen.push(key);
            Served::Done
        });
        assert_eq!(seen, [1, 4, 5, 2, 3].map(part));
        assert!(turns.turn.is_empty() && !all_wait && !turns.has(ClassId(1)));
    }

    #[test]
    fn a_class_that_waits_is_passed_over_and_keeps_its_order() {
        let mut turns = filled();
        let mut seen = Vec::new();
        turns.serve(|key| match key == part(1) {
            true => Served::ClassWaits,
            false => {
                seen.push(key);
                Served::Done
            }
        });
        assert_eq!(seen, [4, 5].map(part));
        assert!(turns.has(ClassId(1)) && !turns.has(ClassId(2)));
        let mut rest = Vec::new();
        turns.serve(|key| {
            rest.push(key);
            Served::Done
        });
        assert_eq!(rest, [1, 2, 3].map(part));
    }

    #[test]
    fn nobody_passes_one_that_waits_for_what_all_wait_for() {
        let mut turns = filled();
        let mut asked = 0;
        assert!(turns.serve(|_| {
            asked += 1;
            Served::AllWait
        }));
        assert_eq!(asked, 1);
    }

    const ALL: u64 = 90_000;

    fn owner(class: u32, group: Option<u32>) -> Owner {
        Owner { class: ClassId(class), group: group.map(GroupId) }
    }

    /// Takes as much as there is to have, a little at a time.
    fn fill(holdings: &mut Holdings, owner: Owner, free: &mut u64) -> u64 {
        let mut held = 0_u64;
        while holdings.allow(owner, 10, *free) && *free >= 10 {
            holdings.take(owner, 10);
            (held, *free) = (held + 10, *free - 10);
        }
        held
    }

    #[test]
    fn there_is_always_something_left_for_one_class_more() {
        let mut holdings = Holdings::new(2);
        let mut free = ALL;
        for class in 1..=4 {
            let held = fill(&mut holdings, owner(class, None), &mut free);
            assert!(held > 0 && free >= 10, "class {class}: {held} held, {free} free");
            assert!(class > 1 || (held * 3).abs_diff(ALL * 2) < 100, "one alone gets two thirds");
        }
        holdings.give_back(owner(1, None), 10);
        assert!(
            holdings.allow(owner(9, None), 1 << 40, 0),
            "who holds nothing may ask for anything"
        );
    }

    #[test]
    fn the_classes_of_one_group_leave_something_for_the_others() {
        let mut holdings = Holdings::new(2);
        let mut free = ALL;
        let held = [1, 2, 3].map(|class| fill(&mut holdings, owner(class, Some(7)), &mut free));
        assert!(held.iter().all(|held| *held >= 100), "{held:?}");
        for class in 4..1000 {
            fill(&mut holdings, owner(class, Some(7)), &mut free);
        }
        assert!(free * 10 > ALL, "a thousand classes of one group leave a tenth: {free}");
        assert!(fill(&mut holdings, owner(1001, Some(8)), &mut free) * 20 > ALL);
        assert!(free >= 10);
        // What was held is given back to the last.
        let mut all = Holdings::new(2);
        let owner = owner(1, Some(7));
        all.take(owner, 30);
        all.give_back(owner, 30);
        assert!(all.by_class.is_empty() && all.by_group.is_empty());
    }

    #[test]
    fn a_few_places_are_enough_for_four_classes_of_one_group_and_somebody_else() {
        let (mut holdings, mut free) = (Holdings::new(1), 64);
        for (class, group) in [(1, 7), (2, 7), (3, 7), (4, 7), (5, 8)] {
            let owner = owner(class, Some(group));
            let mut held = 0;
            while holdings.allow(owner, 1, free) && free > 0 {
                holdings.take(owner, 1);
                (held, free) = (held + 1, free - 1);
            }
            assert!(held > 0 && free > 0, "class {class}: {held} held, {free} free");
        }
    }
}
