//! SW: server-side windows, in each window of arrival the classes one after the other.
//!
//! Source:      Song, Yin, Chen, Sun 2011, "Server-side I/O coordination for parallel file
//!              systems", section 3; SW in the AGIOS library.
//! Idea:        time is cut into windows. Requests that arrived in an earlier window go first;
//!              within a window all requests of one class go before those of the next, in the
//!              order of the classes' numbers. If all data servers do that, they serve the same
//!              program at about the same time without talking to each other.
//! Units:       `window` in nanoseconds.
//! Cost:        add and select O(log g) for g pairs of window and class that have requests,
//!              O(log n) for a request that the guard released late; 20 bytes a request.
//! Deviations:  1. The key is (window, class, `seq`) as three numbers. AGIOS packs window and
//!                 class into 32 bits, which overflows, and never stores the key.
//!              2. Windows are counted from the clock's zero, so servers with one clock agree.
//! Loses when:  there is one class only, or the embedder shares the store between classes, which
//!              gives each class a policy of its own: it is then TO at a higher price.

use alloc::vec::Vec;

use forebay_units::{ClassId, Nanos, Timestamp};

use crate::ordered_map::OrderedMap;
use crate::policy::{Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::slot_list::{SlotList, SlotLists};

/// Parameters of [`Sw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwSettings {
    /// Length of a window of arrival: 1 us to 60 s, by default 1 s.
    pub window: Nanos,
}

impl Default for SwSettings {
    fn default() -> Self {
        Self { window: Nanos::secs(1) }
    }
}

/// The policy SW.
///
/// Bound: a request waits only for requests that arrived before the end of its own window.
#[derive(Clone, Debug)]
pub struct Sw {
    settings: SwSettings,
    lists: SlotLists,
    /// What came in the order of `seq`, by window and class.
    groups: OrderedMap<Group, SlotList>,
    /// What the guard released behind younger requests of its group.
    late: OrderedMap<(Group, u64), RequestId>,
}

/// A window of arrival, and a class.
type Group = (u64, ClassId);

impl Sw {
    /// Nothing queued.
    ///
    /// # Panics
    /// If the window is not in its range.
    pub fn new(settings: SwSettings) -> Self {
        assert!(
            (Nanos::micros(1)..=Nanos::secs(60)).contains(&settings.window),
            "window is 1 us to 60 s"
        );
        Self {
            settings,
            lists: SlotLists::default(),
            groups: OrderedMap::new(),
            late: OrderedMap::new(),
        }
    }

    fn group_of(&self, request: &Accepted) -> Group {
        (request.arrived.0 / self.settings.window.0, request.request.class)
    }

    /// The smallest key among those in lists, and its id.
    fn first_listed(&self) -> Option<((Group, u64), RequestId)> {
        let (group, list) = self.groups.first()?;
        let (seq, id) = self.lists.first(list)?;
        Some(((group, seq), id))
    }

    /// Takes a request out of the list of its group.
    fn unlist(&mut self, group: Group, id: RequestId) -> bool {
        let Some(list) = self.groups.get_mut(group) else { return false };
        let was_there = self.lists.remove(list, id);
        if list.is_empty() {
            self.groups.remove(group);
        }
        was_there
    }
}

impl Policy for Sw {
    fn name(&self) -> &'static str {
        "SW"
    }

    fn add(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) {
        let group = self.group_of(request);
        if let Some(list) = self.groups.get_mut(group) {
            match self.lists.last_seq(*list) {
                Some(last) if last > request.seq => {
                    self.late.insert((group, request.seq), request.id);
                }
                _ => self.lists.push(list, request),
            }
            return;
        }
        let mut list = SlotList::EMPTY;
        self.lists.push(&mut list, request);
        self.groups.insert(group, list);
    }

    fn select(
        &mut self,
        _now: Timestamp,
        _: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let late = self.late.first();
        match self.first_listed() {
            Some((key, id)) if late.is_none_or(|(other, _)| key < other) => {
                self.unlist(key.0, id);
                batch.push(id);
            }
            _ => match self.late.pop_first() {
                Some((_, id)) => batch.push(id),
                None => return Selection::Idle,
            },
        }
        Selection::Batch
    }

    fn cancel(&mut self, _now: Timestamp, _: &Requests<'_>, request: &Accepted) -> bool {
        let group = self.group_of(request);
        self.late.remove((group, request.seq)).is_some() || self.unlist(group, request.id)
    }

    fn drain(&mut self, _: &Requests<'_>, into: &mut Vec<RequestId>) {
        let mut queued: Vec<(u64, RequestId)> =
            self.late.iter().map(|((_, seq), id)| (seq, id)).collect();
        let mut listed = Vec::new();
        self.lists.drain(&mut listed);
        queued.extend(listed.iter().map(|id| (self.lists.seq(*id), *id)));
        queued.sort_unstable();
        into.extend(queued.iter().map(|(_, id)| *id));
        self.groups.clear();
        self.late.clear();
    }

    fn queued_count(&self) -> usize {
        self.lists.count() + self.late.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Kept;
    use crate::request::{Access, Request};
    use alloc::vec;
    use forebay_units::{ByteRange, Bytes, ClientId, FileIndex, Offset};

    fn request(seq: u64, arrived_ms: u64, class: u32) -> Accepted {
        Accepted {
            id: RequestId(seq),
            seq,
            arrived: Timestamp(Nanos::millis(arrived_ms).0),
            request: Request {
                tag: seq,
                file: FileIndex(0),
                access: Access::Read,
                range: ByteRange::new(Offset(seq * 8), Bytes(8)),
                client: ClientId(0),
                class: ClassId(class),
            },
        }
    }

    fn order(requests: &[Accepted]) -> Vec<u64> {
        let mut sw = Sw::new(SwSettings { window: Nanos::millis(10) });
        let mut kept = Kept::default();
        requests.iter().for_each(|request| kept.keep(request));
        requests.iter().for_each(|request| sw.add(Timestamp(0), &kept.requests(), request));
        let mut batch = Vec::new();
        while sw.select(Timestamp(0), &kept.requests(), &mut batch) == Selection::Batch {}
        batch.iter().map(|id| id.0).collect()
    }

    #[test]
    fn within_a_window_classes_go_one_after_the_other() {
        let all = [(0, 1, 2), (1, 2, 1), (2, 9, 2), (3, 10, 0), (4, 11, 1), (5, 5, 1)];
        assert_eq!(order(&all.map(|(seq, at, class)| request(seq, at, class))), [1, 5, 0, 2, 3, 4]);
    }

    #[test]
    fn a_request_released_late_goes_to_its_place() {
        let all = [(1, 1, 0), (4, 1, 0), (5, 20, 0), (2, 1, 0), (3, 1, 0)];
        assert_eq!(order(&all.map(|(seq, at, class)| request(seq, at, class))), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn numbers_that_overflow_32_bits_keep_their_order() {
        let year_ms = 365 * 24 * 3_600_000;
        let all = vec![request(0, year_ms * 300, u32::MAX), request(1, year_ms * 301, 0)];
        assert_eq!(order(&all), [0, 1]);
    }
}
