//! What the scheduler tells its ledger and its classes, and what it says about them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use forebay_stats::{Account, Ledger, LedgerOptions, Snapshot, Waiting};
use forebay_units::{ClassId, Nanos, Timestamp};

use crate::book::Book;
use crate::scheduler::Scheduler;
use crate::table::State;

impl Scheduler {
    /// Keeps a ledger from now on; requests already in flight are not counted in it. Without one,
    /// nothing is counted by file, and keeping none costs nothing.
    pub fn keep_ledger(&mut self, options: LedgerOptions) {
        self.book = Some(Box::new(Book::new(options)));
    }

    /// The ledger, if one is kept: to name files, or to forget a class.
    pub fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        self.book.as_deref_mut().map(|book| &mut book.ledger)
    }

    /// A copy of the ledger, with what waits now and what limits have held back until now;
    /// O(live requests + rows + classes).
    pub fn snapshot(&self, now: Timestamp) -> Option<Snapshot> {
        let waits = |slot: &u32| {
            matches!(self.table.state(*slot), State::Blocked | State::InPolicy | State::InLane)
        };
        let waiting = self.table.slots().filter(waits).map(|slot| Waiting {
            class: self.table.class(slot),
            arrived: self.table.arrived(slot),
        });
        let mut snapshot = self.book.as_deref()?.ledger.snapshot(waiting);
        self.add_throttling(now, &mut snapshot);
        Some(snapshot)
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
            class.counts.blocked_time += time;
            if index != by {
                class.counts.blocked_by_others_time += time;
            }
        }
        if let Some(book) = &mut self.book {
            let (class, file) = (self.table.class(slot), self.table.file(slot));
            book.ledger.blocked(class, file, by_class, time);
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
        let class = classes.of(index).id;
        let time = classes.shares.take_throttled(now, class);
        if time > Nanos::ZERO {
            book.ledger.throttled(class, time);
        }
    }
}
