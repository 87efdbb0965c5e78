//! Requests found by name. Of equal names, the one that was put in first is found.
//!
//! A table of buckets, each a list of slots, oldest first; there are at least as many buckets as
//! requests. A request is also known by its slot's number, and taken out by that without a search. So
//! every operation costs the same however many requests there are, and however many of one name.

use crate::name::Name;

/// No slot.
const NONE: u32 = u32::MAX;

/// The least number of buckets.
const BUCKETS_MIN: usize = 64;

/// Requests, each with a `T`.
#[derive(Debug)]
pub(crate) struct ByName<T> {
    slots: Vec<Slot<T>>,
    /// First of the free slots, which are chained by `younger`.
    free: u32,
    /// None, or a power of two.
    buckets: Vec<Bucket>,
    count: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` in a free slot.
    held: Option<(Name, T)>,
    /// Neighbours in the bucket.
    older: u32,
    younger: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    oldest: u32,
    youngest: u32,
}

impl<T> ByName<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, buckets: Vec::new(), count: 0 }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Puts a request in; the number of its slot.
    pub(crate) fn insert(&mut self, name: Name, value: T) -> u32 {
        if self.count == self.buckets.len() {
            self.grow();
        }
        self.count += 1;
        let held = Some((name, value));
        let slot = if self.free == NONE {
            self.slots.push(Slot { held, older: NONE, younger: NONE });
            u32::try_from(self.slots.len() - 1).expect("far fewer than 2^32 requests are alive")
        } else {
            let slot = self.free;
            let entry = &mut self.slots[slot as usize];
            self.free = entry.younger;
            entry.held = held;
            slot
        };
        self.link(slot, name.hash());
        slot
    }

    /// The slot of the first request of that name.
    pub(crate) fn find(&self, name: &Name) -> Option<u32> {
        let mut slot = self.buckets.get(self.bucket(name.hash()))?.oldest;
        while slot != NONE {
            let entry = &self.slots[slot as usize];
            if entry.held.as_ref().is_some_and(|(found, _)| found == name) {
                return Some(slot);
            }
            slot = entry.younger;
        }
        None
    }

    /// Takes out what is in a slot, which holds a request.
    pub(crate) fn take(&mut self, slot: u32) -> (Name, T) {
        let free = core::mem::replace(&mut self.free, slot);
        let entry = &mut self.slots[slot as usize];
        let held = entry.held.take().expect("the slot holds a request");
        let (older, younger) = (entry.older, entry.younger);
        entry.younger = free;
        let bucket = self.bucket(held.0.hash());
        match older {
            NONE => self.buckets[bucket].oldest = younger,
            _ => self.slots[older as usize].younger = younger,
        }
        match younger {
            NONE => self.buckets[bucket].youngest = older,
            _ => self.slots[younger as usize].older = older,
        }
        self.count -= 1;
        held
    }

    /// Takes out the first request of that name.
    pub(crate) fn take_named(&mut self, name: &Name) -> Option<T> {
        let slot = self.find(name)?;
        Some(self.take(slot).1)
    }

    /// What is in a slot, which holds a request.
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut T {
        let held = self.slots[slot as usize].held.as_mut();
        &mut held.expect("the slot holds a request").1
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    /// Puts a slot at the end of its bucket.
    fn link(&mut self, slot: u32, hash: u64) {
        let bucket = self.bucket(hash);
        let older = core::mem::replace(&mut self.buckets[bucket].youngest, slot);
        match older {
            NONE => self.buckets[bucket].oldest = slot,
            _ => self.slots[older as usize].younger = slot,
        }
        let entry = &mut self.slots[slot as usize];
        (entry.older, entry.younger) = (older, NONE);
    }

    /// Twice as many buckets.
    fn grow(&mut self) {
        let empty = Bucket { oldest: NONE, youngest: NONE };
        let count = (2 * self.buckets.len()).max(BUCKETS_MIN);
        let before = core::mem::replace(&mut self.buckets, vec![empty; count]);
        // Two buckets take the requests of one, in the order in which that had them.
        for bucket in before {
            let mut slot = bucket.oldest;
            while slot != NONE {
                let Slot { held, younger, .. } = &self.slots[slot as usize];
                let (name, _) = held.as_ref().expect("a linked slot holds a request");
                let (hash, next) = (name.hash(), *younger);
                self.link(slot, hash);
                slot = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_controller::FileKey;
    use forebay_units::{Bytes, Direction, Offset};
    use proptest::prelude::*;

    use super::*;

    fn name(number: u64) -> Name {
        let file = FileKey { high: 0, low: number % 2 };
        Name::new(file, Direction::Read, Offset(number / 2), Bytes(1))
    }

    #[test]
    fn of_equal_requests_the_one_put_in_first_is_found() {
        let mut requests = ByName::new();
        let slots: Vec<u32> = (0..4).map(|value| requests.insert(name(0), value)).collect();
        assert_eq!(requests.find(&name(1)), None);
        assert_eq!(requests.take(slots[1]), (name(0), 1));
        assert_eq!(requests.take_named(&name(0)), Some(0));
        requests.insert(name(0), 4);
        let rest: Vec<i32> = std::iter::from_fn(|| requests.take_named(&name(0))).collect();
        assert_eq!(rest, [2, 3, 4]);
        assert_eq!(requests.count(), 0);
    }

    #[derive(Clone, Debug)]
    enum Call {
        Insert(u64),
        Take(usize),
        TakeNamed(u64),
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            3 => (0..200_u64).prop_map(Call::Insert),
            1 => any::<usize>().prop_map(Call::Take),
            1 => (0..200_u64).prop_map(Call::TakeNamed),
        ]
    }

    proptest! {
        /// Against a plain queue of (number, value, slot).
        #[test]
        fn it_is_a_queue_by_name(calls in proptest::collection::vec(call(), 0..600)) {
            let mut requests = ByName::new();
            let mut expected: Vec<(u64, usize, u32)> = Vec::new();
            for (value, call) in calls.into_iter().enumerate() {
                match call {
                    Call::Insert(number) => {
                        let slot = requests.insert(name(number), value);
                        prop_assert!(expected.iter().all(|(.., taken)| *taken != slot));
                        prop_assert_eq!(*requests.get_mut(slot), value);
                        expected.push((number, value, slot));
                    }
                    Call::Take(choice) if !expected.is_empty() => {
                        let (number, value, slot) = expected.remove(choice % expected.len());
                        prop_assert_eq!(requests.take(slot), (name(number), value));
                    }
                    Call::Take(_) => {}
                    Call::TakeNamed(number) => {
                        let at = expected.iter().position(|(found, ..)| *found == number);
                        let found = at.map(|at| expected.remove(at).1);
                        prop_assert_eq!(requests.take_named(&name(number)), found);
                    }
                }
                prop_assert_eq!(requests.count(), expected.len());
                prop_assert!(requests.buckets.len() >= requests.count());
            }
        }
    }
}
