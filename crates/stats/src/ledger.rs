//! Who sent what: accounts by class and by file, the heaviest of each, in fixed memory.
//!
//! A scheduler tells its ledger what happened; [`Ledger::snapshot`] says what that was until then. The
//! sums are exact: the rows of a snapshot and its *other* row add up to all that was told.
//! Memory: about 4.5 KiB a row, so at most 9 MiB with the default number of rows.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;

use forebay_units::{Bytes, ClassId, Direction, FileIndex, Nanos, Timestamp};

use crate::account::{Account, ClassAccount};
use crate::histogram::Sample;
use crate::shared::Shared;
use crate::top::{Ranking, Row, Top};

/// What a request weighs beside its bytes when the heaviest are ranked: many small requests hurt
/// storage more than their bytes say.
pub const REQUEST_WEIGHT: Bytes = Bytes::kib(4);

/// How many rows a ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerOptions {
    /// Classes; at least 1.
    pub classes_max: usize,
    /// Files; at least 1.
    pub files_max: usize,
}

impl Default for LedgerOptions {
    fn default() -> Self {
        Self { classes_max: 1024, files_max: 1024 }
    }
}

/// How a request came to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// At once, because nothing was queued.
    Bypassed,
    /// In a batch, of one or more.
    Batched,
}

/// One completed request.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// Whose.
    pub class: ClassId,
    /// Of which file.
    pub file: FileIndex,
    /// Which way.
    pub direction: Direction,
    /// How much it moved; 0 if it failed.
    pub bytes: Bytes,
    /// From arrival to dispatch.
    pub queued: Nanos,
    /// From dispatch to completion.
    pub device: Nanos,
    /// How it came to the store.
    pub route: Route,
}

/// One request that waits, for a snapshot's gauges.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Whose.
    pub class: ClassId,
    /// When it arrived.
    pub arrived: Timestamp,
}

/// Everything a ledger held at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By class, heaviest first; a row's key is the `ClassId`.
    pub classes: Ranking<Shared<ClassAccount>>,
    /// By file, heaviest first; a row's key is the name from [`Ledger::name_file`], else the `FileIndex`.
    pub files: Ranking<Shared<Account>>,
}

impl Snapshot {
    /// Everything together; exact.
    pub fn total(&self) -> Account {
        let mut total = self.classes.other.account.clone();
        self.classes.rows.iter().for_each(|row| total.absorb(&row.account.account));
        total
    }
}

/// The accounts of one scheduler.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// In cells, because a snapshot changes what is behind an account and not what it says.
    classes: RefCell<Top<ClassAccount>>,
    files: RefCell<Top<Account>>,
    /// What stands behind each file index.
    names: Vec<u64>,
}

impl Ledger {
    /// Empty accounts.
    ///
    /// # Panics
    /// If a number of rows is 0 or above 2^24.
    pub fn new(options: LedgerOptions) -> Self {
        Self {
            classes: RefCell::new(Top::new(options.classes_max)),
            files: RefCell::new(Top::new(options.files_max)),
            names: Vec::new(),
        }
    }

    /// Says which file an index stands for from now on, by any number that stays the file's own
    /// when the index is given to another. Without a name, an index is its own name.
    pub fn name_file(&mut self, file: FileIndex, name: u64) {
        let index = file.0 as usize;
        let unnamed = self.names.len()..=index;
        self.names.extend(unnamed.map(|index| index as u64));
        self.names[index] = name;
    }

    /// A request has completed.
    #[inline]
    pub fn completed(&mut self, served: &Served) {
        let (queued, device) = (Sample::new(served.queued), Sample::new(served.device));
        let weight = (served.bytes + REQUEST_WEIGHT).0;
        let bypassed = u64::from(served.route == Route::Bypassed);
        let file = self.name_of(served.file);
        let class = &mut self.classes.get_mut().add(u64::from(served.class.0), weight).account;
        for account in [class, self.files.get_mut().add(file, weight)] {
            let flow = account.flow(served.direction);
            flow.requests += 1;
            flow.bytes += served.bytes;
            account.bypassed += bypassed;
            account.queue_time.add(queued);
            account.device_time.add(device);
        }
    }

    /// A batch of `requests` has left for the store; `class` is that of its first request.
    #[inline]
    pub fn batch(&mut self, class: ClassId, file: FileIndex, requests: u64) {
        self.note(class, Some(file), |account| {
            account.batches += 1;
            account.batched_requests += requests;
        });
    }

    /// A request of `class` has waited `time` for an earlier conflicting one of class `by`.
    pub fn blocked(&mut self, class: ClassId, file: FileIndex, by: ClassId, time: Nanos) {
        self.note(class, Some(file), |account| {
            account.blocked += 1;
            account.blocked_time += time;
        });
        *self.classes.get_mut().note(u64::from(class.0)).blockers.add(u64::from(by.0), time.0) += 1;
    }

    /// A limit has kept ready requests of a class back for `time`.
    pub fn throttled(&mut self, class: ClassId, time: Nanos) {
        self.note(class, None, |account| {
            account.throttled += 1;
            account.throttled_time += time;
        });
    }

    /// A policy has waited `time` for a better batch of a class.
    pub fn waited(&mut self, class: ClassId, time: Nanos) {
        self.note(class, None, |account| {
            account.waits += 1;
            account.waited += time;
        });
    }

    /// A class number is given to somebody else: what it has counted goes to *other*.
    pub fn forget_class(&mut self, class: ClassId) {
        self.classes.get_mut().forget(u64::from(class.0));
    }

    /// Everything as it is now; `waiting` names the requests that wait now. Accounts are not copied
    /// but [`Shared`]: this takes some 100 ns a row, and later changes do not show in it.
    pub fn snapshot(&self, waiting: impl Iterator<Item = Waiting>) -> Snapshot {
        let mut gauges = BTreeMap::new();
        for Waiting { class, arrived } in waiting {
            let (count, oldest) = gauges.entry(u64::from(class.0)).or_insert((0_u64, arrived));
            (*count, *oldest) = (*count + 1, arrived.min(*oldest));
        }
        let mut classes = self.classes.borrow_mut().share();
        for row in &mut classes.rows {
            if let Some((count, oldest)) = gauges.remove(&row.key) {
                row.account.add_waiting(count, oldest);
            }
        }
        for (count, oldest) in gauges.into_values() {
            classes.other.add_waiting(count, oldest);
        }
        Snapshot { classes, files: self.files.borrow_mut().share() }
    }

    #[inline]
    fn name_of(&self, file: FileIndex) -> u64 {
        self.names.get(file.0 as usize).copied().unwrap_or(u64::from(file.0))
    }

    #[inline]
    fn note(&mut self, class: ClassId, file: Option<FileIndex>, change: impl Fn(&mut Account)) {
        change(&mut self.classes.get_mut().note(u64::from(class.0)).account);
        if let Some(file) = file {
            let name = self.name_of(file);
            change(self.files.get_mut().note(name));
        }
    }
}
