//! Parts that wait for memory or for room in the scheduler, class by class: whoever is kept waiting
//! for its own class's sake keeps nobody else waiting.
//!
//! Within a class it is first come, first served; the classes take turns.

use std::collections::{HashMap, VecDeque};

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

    pub(crate) fn is_empty(&self) -> bool {
        self.turn.is_empty()
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

/// How many times the memory that is free a class may hold.
const FREE_FACTOR: u64 = 4;

/// Memory that classes hold for payload.
///
/// Source: A. K. Choudhury, E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
/// Switches", IEEE/ACM Transactions on Networking 6(2), 1998: a queue may grow up to a multiple of
/// what is free. So one class alone gets four fifths, two get four ninths each, and something is
/// left for whoever comes next, whatever the others hold and however slowly they let go of it.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    by_class: HashMap<ClassId, u64>,
}

impl Holdings {
    /// Whether a class may hold `length` bytes more while `free` are free. One that holds nothing may.
    pub(crate) fn allow(&self, class: ClassId, length: u64, free: u64) -> bool {
        let held = self.by_class.get(&class);
        held.is_none_or(|held| held.saturating_add(length) <= free.saturating_mul(FREE_FACTOR))
    }

    pub(crate) fn take(&mut self, class: ClassId, length: u64) {
        *self.by_class.entry(class).or_default() += length;
    }

    pub(crate) fn give_back(&mut self, class: ClassId, length: u64) {
        if let Some(held) = self.by_class.get_mut(&class) {
            *held -= length;
            if *held == 0 {
                self.by_class.remove(&class);
            }
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
        assert!(turns.is_empty() && !all_wait && !turns.has(ClassId(1)));
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

    #[test]
    fn there_is_always_something_left_for_one_class_more() {
        const ALL: u64 = 90_000;
        let mut holdings = Holdings::default();
        let mut free = ALL;
        for class in 1..=4 {
            let mut held = 0_u64;
            while holdings.allow(ClassId(class), 10, free) {
                holdings.take(ClassId(class), 10);
                (held, free) = (held + 10, free - 10);
            }
            assert!(held > 0 && free >= 10, "class {class}: {held} held, {free} free");
            assert!(class > 1 || (held * 5).abs_diff(ALL * 4) < 100, "one alone gets four fifths");
        }
        holdings.give_back(ClassId(1), 10);
        assert!(holdings.allow(ClassId(9), 1 << 40, 0), "who holds nothing may ask for anything");
    }
}
