//! What the scheduler tells its ledger and its classes, and what it says about them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use forebay_stats::{Account, Ledger, LedgerOptions, Live, Snapshot, Stage};
use forebay_units::{ClassId, FileIndex, Nanos, Timestamp};

use crate::book::Book;
use crate::classes::Class;
use crate::request::Access;
use crate::scheduler::Scheduler;
use crate::table::State;

/// Of those that hold a request up, so many are looked at when it is asked who does.
const BLOCKERS_MAX: usize = 16;
/// How long a chain of cancelled requests that hold each other up is followed.
const DEPTH_MAX: usize = 8;

/// By file with a blocked sync: its oldest write, and the oldest of those that are cancelled and have
/// not had their turn yet, as (seq, slot).
type OldestWrites = BTreeMap<FileIndex, [Option<(u64, u32)>; 2]>;

impl Scheduler {
    /// Keeps a ledger from now on; requests already in flight are not counted in it. Without one,
    /// nothing is counted by file, and keeping none costs nothing.
    pub fn keep_ledger(&mut self, options: LedgerOptions) {
        self.book = Some(Box::new(Book::new(options, self.next_seq)));
    }

    /// The ledger, if one is kept: to name files, or to forget a class.
    pub fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        self.book.as_deref_mut().map(|book| &mut book.ledger)
    }

    /// A copy of the ledger, with what is alive now, who holds up what is blocked, and what limits
    /// have held back until now; O(rows + classes + the most requests that were ever alive at a time).
    pub fn snapshot(&self, now: Timestamp) -> Option<Snapshot> {
        let book = self.book.as_deref()?;
        let (writes, mut blockers) = (self.oldest_writes(), Vec::new());
        let alive = self.table.slots().filter_map(|slot| {
            let stage = match self.table.state(slot) {
                State::Free | State::Tombstone => return None,
                State::Blocked => {
                    let by = self.find_blocker(slot, &writes, &mut blockers);
                    Stage::Blocked { by: by.map(|slot| self.table.class(slot)) }
                }
                State::InPolicy | State::InLane => Stage::Queued,
                _ => Stage::InFlight,
            };
            let (class, file) = (self.table.class(slot), self.table.file(slot));
            Some(Live { class, file, arrived: self.table.arrived(slot), stage })
        });
        let mut snapshot = book.ledger.snapshot(now, alive);
        self.add_throttling(now, &mut snapshot);
        Some(snapshot)
    }

    /// The oldest of those that hold a blocked request up and are not cancelled. With many of them,
    /// it is the oldest of a few.
    fn find_blocker(
        &self,
        slot: u32,
        writes: &OldestWrites,
        blockers: &mut Vec<u32>,
    ) -> Option<u32> {
        let mut at = slot;
        for _ in 0..DEPTH_MAX {
            blockers.clear();
            match self.table.access(at) {
                Access::Sync => {
                    let seq = self.table.seq(at);
                    let known = writes.get(&self.table.file(at)).into_iter().flatten().flatten();
                    let mut before = known.filter(|(write, _)| *write < seq);
                    blockers.extend(before.next().map(|(_, slot)| *slot));
                }
                _ => self.guard.blockers(&self.table, at, BLOCKERS_MAX, blockers),
            }
            let is_cancelled = |slot| self.table.state(slot) == State::Tombstone;
            at =
                *blockers.iter().min_by_key(|&&slot| (is_cancelled(slot), self.table.seq(slot)))?;
            if !is_cancelled(at) {
                return Some(at);
            }
        }
        None
    }

    /// What blocked syncs wait for: the guard counts the writes before them and lists them not.
    fn oldest_writes(&self) -> OldestWrites {
        let mut oldest: OldestWrites = BTreeMap::new();
        let table = &self.table;
        if self.counts.blocked == 0 {
            return oldest;
        }
        let syncs =
            table.slots_in(State::Blocked).filter(|slot| table.access(*slot) == Access::Sync);
        oldest.extend(syncs.map(|slot| (table.file(slot), [None; 2])));
        if oldest.is_empty() {
            return oldest;
        }
        for slot in table.slots().filter(|slot| table.state(*slot) != State::Free) {
            if matches!(table.access(slot), Access::Write | Access::Alone)
                && let Some(known) = oldest.get_mut(&table.file(slot))
            {
                let known = &mut known[usize::from(table.state(slot) == State::Tombstone)];
                let write = (table.seq(slot), slot);
                *known = Some(known.map_or(write, |known| known.min(write)));
            }
        }
        oldest
    }

    /// Adds the time of throttlings that the ledger has not been told yet.
    fn add_throttling(&self, now: Timestamp, snapshot: &mut Snapshot) {
        let Some(classes) = self.classes.as_deref() else { return };
        let untold = |index| {
            let class = classes.of(index).id;
            (u64::from(class.0), classes.shares.untaken_throttled(now, class))
        };
        let mut untold: BTreeMap<u64, Nanos> =
            classes.indices().map(untold).filter(|(_, time)| *time > Nanos::ZERO).collect();
        let add = |account: &mut Account, time| {
            account.throttled += 1;
            account.throttled_time += time;
        };
        for row in &mut snapshot.classes.rows {
            if let Some(time) = untold.remove(&row.key) {
                add(&mut row.account.account, time);
            }
        }
        for time in untold.into_values() {
            add(&mut snapshot.classes.other.account, time);
        }
    }

    /// Whether a class has as many requests waiting as it may.
    pub(super) fn is_class_full(&self, index: u16) -> bool {
        self.classes
            .as_deref()
            .is_some_and(|classes| classes.of(index).queued() >= classes.options.class_requests_max)
    }

    /// How many requests of a class wait; 0 for one that has no place of its own.
    pub fn queued_count_of(&self, class: ClassId) -> usize {
        let classes = self.classes.as_deref();
        classes.map_or(0, |all| all.place(class).map_or(0, |index| all.of(index).queued()))
    }

    /// A blocked request may go: the one of class `by` that has ended was the last to hold it up.
    pub(super) fn note_unblocked(&mut self, now: Timestamp, slot: u32, by: u16, by_class: ClassId) {
        let time = now - self.table.arrived(slot);
        if let Some(classes) = &mut self.classes {
            let index = self.table.class_index(slot);
            let class = classes.of_mut(index);
            class.blocked -= 1;
            class.count_blocked(time, index != by);
        }
        if let Some(book) = &mut self.book {
            let (class, file) = (self.table.class(slot), self.table.file(slot));
            book.ledger.blocked(class, file, Some(by_class), time);
        }
    }

    /// A request that was not in flight has been cancelled or drained.
    pub(super) fn note_taken_back(&mut self, now: Timestamp, index: u16, state: State) {
        let Some(classes) = &mut self.classes else { return };
        let class = classes.of_mut(index);
        class.counts.cancelled += 1;
        class.blocked -= usize::from(state == State::Blocked);
        classes.let_go(now, index);
    }

    /// A blocked request is about to be cancelled; it has waited as if it had been let go.
    pub(super) fn note_given_up(&mut self, now: Timestamp, slot: u32) {
        let time = now - self.table.arrived(slot);
        let by = match self.table.access(slot) {
            // The guard does not know without a look at every request.
            Access::Sync => None,
            _ => {
                let mut blockers = core::mem::take(&mut self.blockers);
                let by = self.find_blocker(slot, &BTreeMap::new(), &mut blockers);
                self.blockers = blockers;
                by
            }
        };
        if let Some(classes) = &mut self.classes {
            let index = self.table.class_index(slot);
            let is_others = by.is_some_and(|by| self.table.class_index(by) != index);
            classes.of_mut(index).count_blocked(time, is_others);
        }
        if let Some(book) = &mut self.book {
            let (class, file) = (self.table.class(slot), self.table.file(slot));
            book.ledger.blocked(class, file, by.map(|by| self.table.class(by)), time);
        }
    }

    /// A class's policy has waited.
    pub(super) fn note_wait(&mut self, index: u16, waited: Nanos) {
        if let Some(classes) = &mut self.classes {
            classes.of_mut(index).counts.waits += 1;
            classes.of_mut(index).counts.waited += waited;
        }
        if let Some(book) = &mut self.book {
            let class = self.classes.as_deref().map_or(ClassId(0), |classes| classes.of(index).id);
            book.ledger.waited(class, waited);
        }
    }

    /// Tells the ledger how long a limit has held a class back since it was told last.
    pub(super) fn note_throttling(&mut self, now: Timestamp, index: u16) {
        let (Some(classes), Some(book)) = (&mut self.classes, &mut self.book) else { return };
        let &Class { id: class, was_limited, .. } = classes.of(index);
        if !was_limited {
            return;
        }
        let time = classes.shares.take_throttled(now, class);
        if time > Nanos::ZERO {
            book.ledger.throttled(class, time);
        }
    }
}
