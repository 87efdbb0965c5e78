//! The requests that are alive, found by what AGIOS names them with: file, type, length and offset.
//!
//! Several requests may have all four in common; they form a group. Of a group, the oldest that
//! fits is taken, so that which one is meant does not depend on what else is alive. Every operation
//! is O(1).

use std::collections::hash_map::Entry;

use forebay_controller::{FileKey, Ticket};
use forebay_units::{Bytes, Direction, Offset};

use crate::quick_hash::QuickMap;

/// No slot.
const NONE: u32 = u32::MAX;

/// What AGIOS names a request with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    /// The file.
    pub(crate) file: FileKey,
    /// The type.
    pub(crate) direction: Direction,
    /// Where it starts.
    pub(crate) offset: Offset,
    /// How much it covers.
    pub(crate) length: Bytes,
}

/// Which of its group's lists a request is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not given to the program yet.
    Queued,
    /// With the program, which will release it.
    InFlight,
}

/// Why a request cannot be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is none of that name.
    Unknown,
    /// It is with the program.
    InFlight,
}

/// All live requests, each with `T`.
#[derive(Debug)]
pub(crate) struct Outstanding<T> {
    slots: Vec<Slot<T>>,
    /// First of the free slots, which are chained by `next`.
    free: u32,
    groups: QuickMap<Name, Group>,
    counts: [usize; 2],
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` in a free slot.
    live: Option<Live<T>>,
    previous: u32,
    next: u32,
}

#[derive(Debug)]
struct Live<T> {
    name: Name,
    stage: Stage,
    ticket: Ticket,
    value: T,
}

/// The requests of one name, oldest first.
#[derive(Clone, Copy, Debug)]
struct Group {
    lists: [List; 2],
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE, groups: QuickMap::default(), counts: [0; 2] }
    }
}

impl<T: Copy> Outstanding<T> {
    /// Adds a request; the number by which [`ticket`](Self::ticket) and [`dispatch`](Self::dispatch) know it.
    pub(crate) fn add(&mut self, name: Name, stage: Stage, value: T) -> u32 {
        let live = Some(Live { name, stage, ticket: Ticket(0), value });
        let slot = if self.free == NONE {
            self.slots.push(Slot { live, previous: NONE, next: NONE });
            u32::try_from(self.slots.len() - 1).expect("far fewer than 2^32 requests are alive")
        } else {
            let slot = self.free;
            self.free = self.slots[slot as usize].next;
            self.slots[slot as usize].live = live;
            slot
        };
        self.groups.entry(name).or_insert(Group { lists: [EMPTY; 2] });
        self.link(slot, name, stage);
        slot
    }

    /// Notes the controller's ticket of a request.
    pub(crate) fn set_ticket(&mut self, slot: u32, ticket: Ticket) {
        self.live_mut(slot).ticket = ticket;
    }

    /// A request is given to the program.
    pub(crate) fn dispatch(&mut self, slot: u32) -> T {
        let name = self.live_mut(slot).name;
        self.unlink(slot, name, Stage::Queued);
        let live = self.live_mut(slot);
        live.stage = Stage::InFlight;
        let value = live.value;
        self.link(slot, name, Stage::InFlight);
        value
    }

    /// Takes out the oldest request of that name that is with the program.
    pub(crate) fn release(&mut self, name: &Name) -> Option<Ticket> {
        self.take_first(name, Stage::InFlight)
    }

    /// Takes out the oldest request of that name that is queued.
    pub(crate) fn cancel(&mut self, name: &Name) -> Result<Ticket, Refusal> {
        match self.take_first(name, Stage::Queued) {
            Some(ticket) => Ok(ticket),
            None if self.groups.contains_key(name) => Err(Refusal::InFlight),
            None => Err(Refusal::Unknown),
        }
    }

    /// Takes out a request that was just added.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Live { name, stage, .. } = *self.live_mut(slot);
        self.take(slot, name, stage);
    }

    /// How many requests are at that stage.
    pub(crate) fn count(&self, stage: Stage) -> usize {
        self.counts[stage as usize]
    }

    fn take_first(&mut self, name: &Name, stage: Stage) -> Option<Ticket> {
        let slot = self.groups.get(name)?.lists[stage as usize].first;
        (slot != NONE).then(|| self.take(slot, *name, stage))
    }

    fn take(&mut self, slot: u32, name: Name, stage: Stage) -> Ticket {
        self.unlink(slot, name, stage);
        if let Entry::Occupied(group) = self.groups.entry(name)
            && group.get().lists.iter().all(|list| list.first == NONE)
        {
            group.remove();
        }
        let free = self.free;
        let entry = &mut self.slots[slot as usize];
        entry.next = free;
        self.free = slot;
        entry.live.take().expect("a linked slot is live").ticket
    }

    /// Puts a slot at the end of its list.
    fn link(&mut self, slot: u32, name: Name, stage: Stage) {
        let list =
            &mut self.groups.get_mut(&name).expect("the group is there").lists[stage as usize];
        let last = core::mem::replace(&mut list.last, slot);
        if last == NONE {
            list.first = slot;
        } else {
            self.slots[last as usize].next = slot;
        }
        let entry = &mut self.slots[slot as usize];
        (entry.previous, entry.next) = (last, NONE);
        self.counts[stage as usize] += 1;
    }

    fn unlink(&mut self, slot: u32, name: Name, stage: Stage) {
        let Slot { previous, next, .. } = self.slots[slot as usize];
        let list =
            &mut self.groups.get_mut(&name).expect("the group is there").lists[stage as usize];
        match previous {
            NONE => list.first = next,
            _ => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => list.last = previous,
            _ => self.slots[next as usize].previous = previous,
        }
        self.counts[stage as usize] -= 1;
    }

    fn live_mut(&mut self, slot: u32) -> &mut Live<T> {
        self.slots[slot as usize].live.as_mut().expect("the slot is live")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn name(number: u64) -> Name {
        Name {
            file: FileKey { high: 0, low: number % 2 },
            direction: Direction::Read,
            offset: Offset(number / 2),
            length: Bytes(1),
        }
    }

    #[test]
    fn the_oldest_of_equal_requests_is_meant() {
        let mut outstanding = Outstanding::default();
        let slots: Vec<u32> =
            (0..4).map(|value| outstanding.add(name(0), Stage::Queued, value)).collect();
        for (slot, ticket) in slots.iter().zip(10..) {
            outstanding.set_ticket(*slot, Ticket(ticket));
        }
        assert_eq!(outstanding.release(&name(0)), None, "nothing is in flight");
        assert_eq!(outstanding.dispatch(slots[2]), 2);
        assert_eq!(outstanding.dispatch(slots[1]), 1);
        assert_eq!(outstanding.cancel(&name(0)), Ok(Ticket(10)));
        assert_eq!(outstanding.cancel(&name(0)), Ok(Ticket(13)));
        assert_eq!(outstanding.cancel(&name(0)), Err(Refusal::InFlight));
        assert_eq!(outstanding.release(&name(0)), Some(Ticket(12)));
        assert_eq!(outstanding.release(&name(0)), Some(Ticket(11)));
        assert_eq!(outstanding.cancel(&name(0)), Err(Refusal::Unknown));
    }

    #[derive(Clone, Debug)]
    enum Call {
        Add(u64),
        Dispatch(usize),
        Release(u64),
        Cancel(u64),
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            3 => (0..6_u64).prop_map(Call::Add),
            2 => any::<usize>().prop_map(Call::Dispatch),
            1 => (0..6_u64).prop_map(Call::Release),
            1 => (0..6_u64).prop_map(Call::Cancel),
        ]
    }

    proptest! {
        /// Against two plain queues of (name, ticket, slot).
        #[test]
        fn it_is_two_queues_by_name(calls in proptest::collection::vec(call(), 0..80)) {
            let mut outstanding = Outstanding::default();
            let mut queued = VecDeque::new();
            let mut in_flight = VecDeque::new();
            let take = |queue: &mut VecDeque<(u64, Ticket, u32)>, number: u64| {
                let at = queue.iter().position(|(found, ..)| *found == number)?;
                queue.remove(at).map(|(_, ticket, _)| ticket)
            };
            for (call, ticket) in calls.into_iter().zip(1..) {
                match call {
                    Call::Add(number) => {
                        let slot = outstanding.add(name(number), Stage::Queued, ticket);
                        outstanding.set_ticket(slot, Ticket(ticket));
                        queued.push_back((number, Ticket(ticket), slot));
                    }
                    Call::Dispatch(choice) if !queued.is_empty() => {
                        let (number, ticket, slot) = queued.remove(choice % queued.len()).unwrap();
                        prop_assert_eq!(outstanding.dispatch(slot), ticket.0);
                        in_flight.push_back((number, ticket, slot));
                    }
                    Call::Dispatch(_) => {}
                    Call::Release(number) => {
                        let expected = take(&mut in_flight, number);
                        prop_assert_eq!(outstanding.release(&name(number)), expected);
                    }
                    Call::Cancel(number) => {
                        let is_in_flight = in_flight.iter().any(|(found, ..)| *found == number);
                        let refusal = if is_in_flight { Refusal::InFlight } else { Refusal::Unknown };
                        let expected = take(&mut queued, number).ok_or(refusal);
                        prop_assert_eq!(outstanding.cancel(&name(number)), expected);
                    }
                }
                prop_assert_eq!(outstanding.count(Stage::Queued), queued.len());
                prop_assert_eq!(outstanding.count(Stage::InFlight), in_flight.len());
            }
            let names = queued.iter().chain(&in_flight).map(|(number, ..)| *number);
            let names: std::collections::BTreeSet<u64> = names.collect();
            prop_assert_eq!(outstanding.groups.len(), names.len(), "groups go with their last request");
        }
    }
}
