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
//!              2. Windows are counted from a stated moment, so servers with one clock agree.
//!              3. Requests leave at once by default. Strict, those of a window leave only after
//!                 it has ended: only then is it certain that nothing comes that goes before them.
//! Loses when:  there is one class only, or the embedder shares the store between classes, which
//!              gives each class a policy of its own: it is then TO at a higher price, and the
//!              discipline of the same name in `sharing` is what is wanted.

use alloc::vec::Vec;

use forebay_units::{ClassId, Nanos, Timestamp};

use crate::ordered_map::OrderedMap;
use crate::policy::{Policy, Requests, Selection};
use crate::request::{Accepted, RequestId};
use crate::slot_list::{SlotList, SlotLists};

/// Windows of arrival: of the policy [`Sw`], and of the discipline
/// [`Discipline::Sw`](crate::sharing::Discipline::Sw) among classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwSettings {
    /// Length of a window of arrival: 1 us to 60 s, by default 1 s.
    pub window: Nanos,
    /// When window 0 begins; what came before is of it. The same on all servers, modulo `window`,
    /// has them agree.
    pub start: Timestamp,
    /// Whether requests of a window leave only after it has ended, so that a class comes before
    /// another one also where its requests come later; else they leave at once. What steps around
    /// a policy does not wait for it: strict wants [`Bypass::Never`](crate::Bypass::Never) beside
    /// the policy, and nothing beside the discipline, which lets nothing step around it.
    pub is_strict: bool,
}

impl SwSettings {
    pub(crate) const DEFAULT: Self =
        Self { window: Nanos::secs(1), start: Timestamp(0), is_strict: false };

    /// The shortest window.
    pub const WINDOW_MIN: Nanos = Nanos::micros(1);
    /// The longest window.
    pub const WINDOW_MAX: Nanos = Nanos::secs(60);

    /// The number of the window that `time` is in.
    pub fn window_of(&self, time: Timestamp) -> u64 {
        (time - self.start).0 / self.window.0
    }

    /// When a window is over: what came in it has come earlier.
    pub fn end_of(&self, window: u64) -> Timestamp {
        self.start + Nanos(window.saturating_add(1).saturating_mul(self.window.0))
    }

    /// Until when what came in a window has to wait, if it has to.
    pub fn wait_of(&self, now: Timestamp, window: u64) -> Option<Timestamp> {
        Some(self.end_of(window)).filter(|end| self.is_strict && *end > now)
    }

    /// # Panics
    /// If the window is not in its range.
    pub(crate) fn check(&self) {
        assert!(
            (Self::WINDOW_MIN..=Self::WINDOW_MAX).contains(&self.window),
            "window is 1 us to 60 s"
        );
    }
}

impl Default for SwSettings {
    /// Windows of 1 s, work-conserving.
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The policy SW.
///
/// Bound: a request waits only for requests that arrived before the end of its own window, and
/// strict, for that end.
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
        settings.check();
        Self {
            settings,
            lists: SlotLists::default(),
            groups: OrderedMap::new(),
            late: OrderedMap::new(),
        }
    }

    fn group_of(&self, request: &Accepted) -> Group {
        (self.settings.window_of(request.arrived), request.request.class)
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
        now: Timestamp,
        _: &Requests<'_>,
        batch: &mut Vec<RequestId>,
    ) -> Selection {
        let (listed, late) = (self.first_listed(), self.late.first());
        let is_late = match (&listed, &late) {
            (Some((listed, _)), Some((late, _))) => late < listed,
            _ => late.is_some(),
        };
        let Some((key, id)) = (if is_late { late } else { listed }) else {
            return Selection::Idle;
        };
        let (group, _) = key;
        if let Some(until) = self.settings.wait_of(now, group.0) {
            return Selection::Wait { until };
        }
        if is_late {
            self.late.remove(key);
        } else {
            self.unlist(group, id);
        }
        batch.push(id);
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

    fn ms(count: u64) -> Timestamp {
        Timestamp(Nanos::millis(count).0)
    }

    fn order(requests: &[Accepted]) -> Vec<u64> {
        let mut sw = Sw::new(SwSettings { window: Nanos::millis(10), ..SwSettings::default() });
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
    fn strict_windows_are_served_after_they_have_ended() {
        let settings = SwSettings { window: Nanos::millis(10), start: ms(3), is_strict: true };
        let mut sw = Sw::new(settings);
        let mut kept = Kept::default();
        let mut add = |sw: &mut Sw, seq, at_ms, class| {
            let request = request(seq, at_ms, class);
            kept.keep(&request);
            sw.add(ms(at_ms), &kept.requests(), &request);
        };
        add(&mut sw, 0, 4, 2);
        add(&mut sw, 1, 6, 1);
        add(&mut sw, 2, 12, 0);
        add(&mut sw, 3, 13, 0);
        let mut batch = Vec::new();
        let mut ask = |sw: &mut Sw, at: Timestamp| sw.select(at, &kept.requests(), &mut batch);
        assert_eq!(ask(&mut sw, ms(12)), Selection::Wait { until: ms(13) });
        for _ in 0..3 {
            assert_eq!(ask(&mut sw, ms(13)), Selection::Batch);
        }
        assert_eq!(ask(&mut sw, ms(13)), Selection::Wait { until: ms(23) });
        assert_eq!(ask(&mut sw, ms(23)), Selection::Batch);
        assert_eq!(ask(&mut sw, ms(23)), Selection::Idle);
        assert_eq!(batch.iter().map(|id| id.0).collect::<Vec<_>>(), [2, 1, 0, 3]);
    }

    #[test]
    fn numbers_that_overflow_32_bits_keep_their_order() {
        let year_ms = 365 * 24 * 3_600_000;
        let all = vec![request(0, year_ms * 300, u32::MAX), request(1, year_ms * 301, 0)];
        assert_eq!(order(&all), [0, 1]);
    }
}
