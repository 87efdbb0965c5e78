//! Who sent what: accounts by class and by file, the heaviest of each, in fixed memory.
//!
//! A scheduler tells its ledger what happened; [`Ledger::snapshot`] says what that was until then. The
//! sums are exact: the rows of a snapshot and its *other* row add up to all that was told.
//! Memory: about 4.5 KiB a row, so at most 9 MiB with the default number of rows.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::{Deref, DerefMut};

use forebay_units::{Bytes, ClassId, Direction, FileId, FileIndex, Nanos, Timestamp};

use crate::account::{Account, ClassAccount, Flow};
use crate::gauges::{Gauges, Live};
use crate::histogram::Sample;
use crate::shared::Shared;
use crate::top::{Ranked, Ranking, Row, Top};

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
    Batched {
        /// Then.
        dispatched: Timestamp,
        /// How many requests the batch had, if this one was its first; else 0.
        leads: u32,
    },
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
    /// When it came.
    pub arrived: Timestamp,
    /// How it came to the store.
    pub route: Route,
    /// When it had ended.
    pub ended: Timestamp,
}

/// What a snapshot says of one class or file, or of all others: what was counted, and what is alive.
#[derive(Clone, Debug, Default)]
pub struct Reading<V> {
    counted: Shared<V>,
    /// What is alive at this moment.
    pub now: Gauges,
}

impl<V> Deref for Reading<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.counted
    }
}

impl<V: Clone> DerefMut for Reading<V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.counted
    }
}

/// Everything a ledger held at one moment, and what was alive then.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By class, heaviest first; a row's key is the `ClassId`.
    pub classes: Ranking<Reading<ClassAccount>>,
    /// By file, heaviest first; a row's key is [`FileId::mixed`] of what [`Ledger::name_file`] said,
    /// else the `FileIndex`.
    pub files: Ranking<Reading<Account>>,
    /// Which file a row's key stands for, where that was said.
    pub file_ids: BTreeMap<u64, FileId>,
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
    /// The key behind each file index.
    names: Vec<u64>,
    /// The files behind keys: of every row and every index, and of some that have neither any more.
    ids: BTreeMap<u64, FileId>,
    /// With how many of them it is time to look which are still needed.
    ids_max: usize,
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
            ids: BTreeMap::new(),
            ids_max: 2 * options.files_max,
        }
    }

    /// Says which file an index stands for from now on. Until that is said an index stands for itself.
    pub fn name_file(&mut self, file: FileIndex, id: FileId) {
        let index = file.0 as usize;
        let unnamed = self.names.len()..=index;
        self.names.extend(unnamed.map(|index| index as u64));
        self.names[index] = id.mixed();
        self.ids.insert(id.mixed(), id);
        if self.ids.len() > self.ids_max {
            let named: BTreeSet<u64> = self.names.iter().copied().collect();
            let files = self.files.get_mut();
            self.ids.retain(|key, _| named.contains(key) || files.has(*key));
            self.ids_max = self.ids_max.max(2 * self.ids.len());
        }
    }

    /// A request has completed.
    #[inline]
    pub fn completed(&mut self, served: &Served) {
        let weight = (served.bytes + REQUEST_WEIGHT).0;
        let file = self.name_of(served.file);
        let class = &mut self.classes.get_mut().add(u64::from(served.class.0), weight).account;
        let file = self.files.get_mut().add(file, weight);
        let dispatched = match served.route {
            Route::Bypassed => {
                for account in [&mut *class, &mut *file] {
                    account.bypassed += 1;
                    account.queue_time.add_zero();
                }
                served.arrived
            }
            Route::Batched { dispatched, leads } => {
                let queued = Sample::new(dispatched - served.arrived);
                for account in [&mut *class, &mut *file] {
                    account.batches += u64::from(leads > 0);
                    account.batched_requests += u64::from(leads);
                    account.queue_time.add(queued);
                }
                dispatched
            }
        };
        let (flow, device) =
            (Flow { requests: 1, bytes: served.bytes }, Sample::new(served.ended - dispatched));
        class.count(flow, served.direction, device);
        file.count(flow, served.direction, device);
    }

    /// A request of `class` has waited `time` for an earlier conflicting one, of class `by` if that
    /// can be said.
    pub fn blocked(&mut self, class: ClassId, file: FileIndex, by: Option<ClassId>, time: Nanos) {
        self.note(class, Some(file), |account| {
            account.blocked += 1;
            account.blocked_time += time;
        });
        if let Some(by) = by {
            let class = self.classes.get_mut().note(u64::from(class.0));
            *class.blockers.add(u64::from(by.0), time.0) += 1;
        }
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

    /// Everything as it is now, with the requests that are alive; whoever has one has a row, if one is
    /// free. Accounts are not copied but [`Shared`]: this takes some 100 ns a row and a live request,
    /// and later changes do not show in it.
    pub fn snapshot(&self, now: Timestamp, alive: impl Iterator<Item = Live>) -> Snapshot {
        let (mut by_class, mut by_file) = (Alive::default(), Alive::default());
        for live in alive {
            by_class.of(u64::from(live.class.0)).count(now, &live);
            by_file.of(self.name_of(live.file)).count(now, &live);
        }
        let files = read(&mut self.files.borrow_mut(), by_file);
        let file_ids = files.keys().filter_map(|key| Some((key, *self.ids.get(&key)?))).collect();
        Snapshot { classes: read(&mut self.classes.borrow_mut(), by_class), files, file_ids }
    }

    #[inline]
    fn name_of(&self, file: FileIndex) -> u64 {
        self.names.get(file.0 as usize).copied().unwrap_or(u64::from(file.0))
    }

    fn note(&mut self, class: ClassId, file: Option<FileIndex>, change: impl Fn(&mut Account)) {
        change(&mut self.classes.get_mut().note(u64::from(class.0)).account);
        if let Some(file) = file {
            let name = self.name_of(file);
            change(self.files.get_mut().note(name));
        }
    }
}

/// What is alive, by key.
#[derive(Default)]
struct Alive {
    places: BTreeMap<u64, usize>,
    gauges: Vec<Gauges>,
    /// The key that was asked for last, and its place.
    recent: Option<(u64, usize)>,
}

impl Alive {
    fn of(&mut self, key: u64) -> &mut Gauges {
        let place = match self.recent {
            Some((recent, place)) if recent == key => place,
            _ => *self.places.entry(key).or_insert(self.gauges.len()),
        };
        self.recent = Some((key, place));
        if place == self.gauges.len() {
            self.gauges.push(Gauges::default());
        }
        &mut self.gauges[place]
    }

    fn take(&mut self, key: u64) -> Option<Gauges> {
        self.places.remove(&key).map(|place| core::mem::take(&mut self.gauges[place]))
    }
}

/// All rows, each with what is alive of its key.
fn read<V: Row>(top: &mut Top<V>, mut alive: Alive) -> Ranking<Reading<V>> {
    alive.places.keys().for_each(|key| top.seat(*key));
    let Ranking { rows, other, weight } = top.share();
    let read = |Ranked { key, weight, error, account }| {
        let now = alive.take(key).unwrap_or_default();
        Ranked { key, weight, error, account: Reading { counted: account, now } }
    };
    let rows = rows.into_iter().map(read).collect();
    let mut now = Gauges::default();
    // Those that a row has taken are empty.
    alive.gauges.iter().for_each(|gauges| now.absorb(gauges));
    Ranking { rows, other: Reading { counted: other, now }, weight }
}
