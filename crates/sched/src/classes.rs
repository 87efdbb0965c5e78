//! Which classes there are: their shares, their counters, and who is forgotten when.
//!
//! A class is known from its first request on, and gets a queue with a policy of its own. One that
//! was given a share or a policy stays until that is taken back; any other is forgotten once it
//! has been idle for `idle_max`, or earlier when its place is needed. Forgetting is no loss and no
//! gain to it: what it owes, [`Shares`] remembers until it is paid.
//!
//! When all `classes_max` places are taken by classes that are not idle, requests of further
//! classes go to [`OTHER_CLASS`], which shares like any class and whose members are served in the
//! order of its policy. A request stays where it was put, even if its class gets a place later.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use forebay_units::{Bytes, ClassId, FileIndex, Nanos, Timestamp};

use crate::class_queue::{ClassQueue, Names};
use crate::ordered_map::OrderedMap;
use crate::policies::checked::Fault;
use crate::policies::noop::Noop;
use crate::policy::Policy;
use crate::recent::Recent;
use crate::request::{Accepted, Access, RequestId};
use crate::sharing::{ClassShare, ShareError, ShareStats, Shares, SharingSettings, Work};

/// The class of all requests whose own class has no place. It can be configured like any other.
pub const OTHER_CLASS: ClassId = ClassId(u32::MAX);

/// Most classes that can be told apart at a time, [`OTHER_CLASS`] not counted.
pub const CLASSES_MAX: usize = 65_000;

/// Makes the policy of each class.
pub type PolicySource = Box<dyn FnMut() -> Box<dyn Policy> + Send>;

/// How classes share the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassOptions {
    /// The discipline, the cost model and the rest.
    pub sharing: SharingSettings,
    /// Classes that are told apart at a time, [`OTHER_CLASS`] not counted: 1 to [`CLASSES_MAX`].
    pub classes_max: usize,
    /// After how long an idle class may be forgotten.
    pub idle_max: Nanos,
    /// Most requests of one class that wait at a time; more are refused. At least 1. It keeps a
    /// class that a limit holds back from filling the queue for all.
    pub class_requests_max: usize,
}

impl Default for ClassOptions {
    /// 1,024 classes, forgotten after 600 s (as in dmClock), 2^18 requests each.
    fn default() -> Self {
        Self {
            sharing: SharingSettings::default(),
            classes_max: 1024,
            idle_max: Nanos::secs(600),
            class_requests_max: 1 << 18,
        }
    }
}

/// Why a class was not configured; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassError {
    /// The scheduler was made without classes.
    NoSharing,
    /// All places are taken by classes that are configured or not idle.
    TooMany {
        /// How many places there are.
        classes_max: usize,
    },
    /// The share is not possible.
    Share(ShareError),
}

impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSharing => f.write_str("this scheduler does not share among classes"),
            Self::TooMany { classes_max } => write!(
                f,
                "all {classes_max} classes are configured or busy; raise classes_max or take a share back"
            ),
            Self::Share(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ClassError {}

impl From<ShareError> for ClassError {
    fn from(error: ShareError) -> Self {
        Self::Share(error)
    }
}

/// What is known about one class; counters only grow while the class is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassStats {
    /// Which one.
    pub class: ClassId,
    /// Its share.
    pub share: ClassShare,
    /// The name of its policy.
    pub policy: &'static str,
    /// What a checked policy of it did wrong; TO has taken its place then.
    pub policy_fault: Option<Fault>,
    /// Gauge: requests that may go.
    pub ready: usize,
    /// Gauge: requests that wait for earlier conflicting ones.
    pub blocked: usize,
    /// Gauge: requests in flight.
    pub in_flight: usize,
    /// Counters of its requests.
    pub counts: ClassCounts,
    /// What it was charged.
    pub served: ShareStats,
}

/// Counters of one class's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Accepted.
    pub submitted: u64,
    /// Completed or failed.
    pub completed: u64,
    /// Cancelled or drained.
    pub cancelled: u64,
    /// Of the accepted, those that went at once because nothing else was ready.
    pub bypassed: u64,
    /// Of the accepted, those that went in the turn of another class, which waited for them.
    pub boosted: u64,
    /// Of the accepted, those that had to wait for an earlier conflicting request.
    pub blocked: u64,
    /// For how long, summed over those that are ready by now or were cancelled.
    pub blocked_time: Nanos,
    /// Of that, for requests of other classes.
    pub blocked_by_others_time: Nanos,
    /// Decisions of its policy to wait.
    pub waits: u64,
    /// Time of those waits.
    pub waited: Nanos,
}

/// A class that has a place.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) id: ClassId,
    share: ClassShare,
    pub(crate) has_share: bool,
    pub(crate) has_policy: bool,
    /// Whether it has ever had a limit: without one, none has held it back.
    pub(crate) was_limited: bool,
    /// Blocked, ready or in flight.
    live: usize,
    pub(crate) blocked: usize,
    pub(crate) in_flight: usize,
    used: Timestamp,
    /// Whether `shares` counts it among those that have something.
    pub(crate) is_ready: bool,
    /// Whether its policy waits, or what it has is not in view.
    pub(crate) is_held: bool,
    /// Whether it stands in [`Classes::aside`].
    is_aside: bool,
    /// Its blocked requests in the order of arrival, and some that are not blocked any more.
    pub(crate) waiters: VecDeque<RequestId>,
    pub(crate) is_wanting: bool,
    pub(crate) counts: ClassCounts,
}

impl Class {
    fn new(id: ClassId, now: Timestamp) -> Self {
        Self {
            id,
            share: ClassShare::default(),
            has_share: false,
            has_policy: false,
            was_limited: false,
            live: 0,
            blocked: 0,
            in_flight: 0,
            used: now,
            is_ready: false,
            is_held: false,
            is_aside: false,
            waiters: VecDeque::new(),
            is_wanting: false,
            counts: ClassCounts::default(),
        }
    }

    fn may_be_forgotten(&self) -> bool {
        self.live == 0 && !self.has_share && !self.has_policy && self.id != OTHER_CLASS
    }

    /// A request of it has been blocked for `time`, at the end by one of another class or its own.
    pub(crate) fn count_blocked(&mut self, time: Nanos, is_others: bool) {
        self.counts.blocked_time += time;
        if is_others {
            self.counts.blocked_by_others_time += time;
        }
    }

    /// How many of its requests wait.
    pub(crate) fn queued(&self) -> usize {
        self.live - self.in_flight
    }

    pub(crate) fn weight(&self) -> u32 {
        self.share.share.weight
    }
}

/// How a request in flight has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As asked, or with less to read than asked for.
    Done,
    /// The store could not do it.
    Failed,
}

/// What a request costs at least that asked for as much and moved less. Without it, reads beyond the
/// end of a file would pass a limit of bytes as often as somebody likes.
const LEAST_BYTES: Bytes = Bytes(4096);

/// The index of [`OTHER_CLASS`].
const OTHER: u16 = 0;

/// All classes, and whose turn it is.
pub(crate) struct Classes {
    pub(crate) options: ClassOptions,
    pub(crate) shares: Shares,
    source: PolicySource,
    /// By index; a free place keeps its last class's record.
    places: Vec<Class>,
    free: Vec<u16>,
    by_id: OrderedMap<u32, u16>,
    recent: Recent,
    /// When idle classes are looked for next, and when a place for another one is.
    next_sweep: Timestamp,
    next_search: Timestamp,
    /// Classes with waiters, looked at in turn.
    pub(crate) wanting: VecDeque<u16>,
    /// The latest moment that anything here was told.
    pub(crate) latest: Timestamp,
    /// By file: the class whose policy has seen it, [`NO_USER`] or [`MANY_USERS`].
    users: Vec<u16>,
    /// Classes that have something in the lane while that is closed.
    aside: Vec<u16>,
}

/// No class's policy has seen the file. Places are numbered below this.
const NO_USER: u16 = u16::MAX;
/// More than one class's policy has seen it.
const MANY_USERS: u16 = u16::MAX - 1;

/// A full table is searched for somebody to forget no more often than this.
const SEARCH_EVERY: Nanos = Nanos::millis(1);

impl Classes {
    pub(crate) fn new(options: ClassOptions, source: PolicySource) -> Self {
        assert!((1..=CLASSES_MAX).contains(&options.classes_max), "classes_max is 1 to 65,000");
        assert!(options.class_requests_max > 0, "class_requests_max is at least 1");
        let mut by_id = OrderedMap::new();
        by_id.insert(OTHER_CLASS.0, OTHER);
        Self {
            options,
            shares: Shares::new(options.sharing),
            source,
            places: alloc::vec![Class::new(OTHER_CLASS, Timestamp(0))],
            free: Vec::new(),
            by_id,
            recent: Recent::new(),
            next_sweep: Timestamp(0),
            next_search: Timestamp(0),
            wanting: VecDeque::new(),
            latest: Timestamp(0),
            users: Vec::new(),
            aside: Vec::new(),
        }
    }

    /// A queue with a fresh policy.
    pub(crate) fn new_queue(&mut self) -> ClassQueue {
        let windows = self.options.sharing.discipline.sw();
        ClassQueue::new((self.source)(), Names::own()).with_windows(windows)
    }

    pub(crate) fn set_source(&mut self, source: PolicySource) {
        self.source = source;
        self.places.iter_mut().for_each(|class| class.has_policy = false);
    }

    pub(crate) fn of(&self, index: u16) -> &Class {
        &self.places[usize::from(index)]
    }

    pub(crate) fn of_mut(&mut self, index: u16) -> &mut Class {
        &mut self.places[usize::from(index)]
    }

    /// The place of a class that has one.
    pub(crate) fn place(&self, class: ClassId) -> Option<u16> {
        let recent = self.recent.of(class) as u16;
        if self.of(recent).id == class { Some(recent) } else { self.by_id.get(class.0) }
    }

    /// The same, remembered for the next time.
    pub(crate) fn find(&mut self, class: ClassId) -> Option<u16> {
        let index = self.place(class)?;
        self.recent.note(class, u32::from(index));
        Some(index)
    }

    /// Every class that has a place, by its number.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u16> + '_ {
        self.by_id.iter().map(|(_, index)| index)
    }

    /// The place where a request of `class` belongs.
    pub(crate) fn place_of(
        &mut self,
        now: Timestamp,
        class: ClassId,
        queues: &mut Vec<ClassQueue>,
    ) -> u16 {
        if let Some(index) = self.find(class) {
            return index;
        }
        self.open(now, class, queues).unwrap_or(OTHER)
    }

    /// Gives a class a place, if there is one.
    fn open(
        &mut self,
        now: Timestamp,
        class: ClassId,
        queues: &mut Vec<ClassQueue>,
    ) -> Option<u16> {
        if now >= self.next_sweep {
            self.next_sweep = now + Nanos((self.options.idle_max.0 / 8).max(1));
            self.sweep(now, queues);
        }
        if self.by_id.len() > self.options.classes_max && now >= self.next_search {
            self.next_search = now + SEARCH_EVERY;
            self.make_room(now, queues);
        }
        if self.by_id.len() > self.options.classes_max {
            return None;
        }
        let queue = self.new_queue();
        let index = match self.free.pop() {
            Some(index) => {
                // The place may still stand in a list.
                let Class { is_wanting, is_aside, .. } = self.places[usize::from(index)];
                self.places[usize::from(index)] =
                    Class { is_wanting, is_aside, ..Class::new(class, now) };
                queues[usize::from(index)] = queue;
                index
            }
            None => {
                self.places.push(Class::new(class, now));
                queues.push(queue);
                self.places.len() as u16 - 1
            }
        };
        self.by_id.insert(class.0, index);
        self.recent.note(class, u32::from(index));
        Some(index)
    }

    /// Forgets every class that has been idle for long.
    fn sweep(&mut self, now: Timestamp, queues: &mut [ClassQueue]) {
        let is_old = |index: &u16| {
            let class = self.of(*index);
            class.may_be_forgotten() && now - class.used >= self.options.idle_max
        };
        let old: Vec<u16> = self.indices().filter(is_old).collect();
        old.into_iter().for_each(|index| self.forget(now, index, queues));
    }

    /// Forgets the class that has been idle longest.
    fn make_room(&mut self, now: Timestamp, queues: &mut [ClassQueue]) {
        let idle = self.indices().filter(|index| self.of(*index).may_be_forgotten());
        if let Some(index) = idle.min_by_key(|index| self.of(*index).used) {
            self.forget(now, index, queues);
        }
    }

    fn forget(&mut self, now: Timestamp, index: u16, queues: &mut [ClassQueue]) {
        debug_assert!(!self.of(index).is_ready, "a class without requests has no turn");
        let id = self.of(index).id;
        self.shares.remove(now, id);
        self.by_id.remove(id.0);
        self.free.push(index);
        self.recent.forget(id);
        // Its policy goes, and what that had learned.
        queues[usize::from(index)] = ClassQueue::new(Box::new(Noop::new()), Names::own());
    }

    /// Gives a class its share.
    pub(crate) fn configure(
        &mut self,
        now: Timestamp,
        class: ClassId,
        share: ClassShare,
        queues: &mut Vec<ClassQueue>,
    ) -> Result<(), ClassError> {
        share.check()?;
        let index = self.reserve(now, class, queues)?;
        self.shares.configure(now, class, share)?;
        let entry = self.of_mut(index);
        (entry.share, entry.has_share) = (share, true);
        entry.was_limited |= share.share.ops.or(share.share.bytes).or(share.share.cost).is_some();
        Ok(())
    }

    /// The place of a class that is to keep it; made if need be, and marked by the caller.
    pub(crate) fn reserve(
        &mut self,
        now: Timestamp,
        class: ClassId,
        queues: &mut Vec<ClassQueue>,
    ) -> Result<u16, ClassError> {
        let known = self.find(class).or_else(|| {
            // Somebody asks who can read the answer, so the search is not put off.
            self.next_search = now;
            self.open(now, class, queues)
        });
        known.ok_or(ClassError::TooMany { classes_max: self.options.classes_max })
    }

    /// Takes share and policy of its own back; whether the class was known.
    pub(crate) fn release(&mut self, now: Timestamp, class: ClassId) -> bool {
        let Some(index) = self.find(class) else { return false };
        let in_range = self.shares.configure(now, class, ClassShare::default());
        debug_assert!(in_range.is_ok(), "the default share is possible");
        let entry = self.of_mut(index);
        (entry.share, entry.has_share, entry.has_policy) = (ClassShare::default(), false, false);
        true
    }

    /// A request has been accepted.
    pub(crate) fn accept(&mut self, now: Timestamp, index: u16) {
        self.latest = now;
        let class = self.of_mut(index);
        class.live += 1;
        class.used = now;
        class.counts.submitted += 1;
    }

    /// A request has ended or was taken back.
    pub(crate) fn let_go(&mut self, now: Timestamp, index: u16) {
        let class = self.of_mut(index);
        class.live -= 1;
        class.used = now;
    }

    /// A class's policy sees a file.
    pub(crate) fn note_file(&mut self, index: u16, file: FileIndex) {
        let at = file.0 as usize;
        if at >= self.users.len() {
            self.users.resize(at + 1, NO_USER);
        }
        let user = &mut self.users[at];
        *user = if *user == NO_USER || *user == index { index } else { MANY_USERS };
    }

    /// Forgets a file, where it has been seen: with many files that is one class, mostly.
    pub(crate) fn retire(&mut self, file: FileIndex, queues: &mut [ClassQueue]) {
        let Some(user) = self.users.get_mut(file.0 as usize) else { return };
        match core::mem::replace(user, NO_USER) {
            NO_USER => {}
            MANY_USERS => queues.iter_mut().for_each(|queue| queue.retire(file)),
            index => queues[usize::from(index)].retire(file),
        }
    }

    /// Something may go that may not have gone before, or the policy may have changed its mind.
    pub(crate) fn wake(&mut self, now: Timestamp, index: u16) {
        self.latest = now;
        let class = &mut self.places[usize::from(index)];
        if !class.is_ready || class.is_held {
            (class.is_ready, class.is_held) = (true, false);
            self.shares.ready(now, class.id);
        }
    }

    /// Nothing of it may go any more.
    pub(crate) fn rest(&mut self, now: Timestamp, index: u16) {
        self.latest = now;
        let class = &mut self.places[usize::from(index)];
        (class.is_ready, class.is_held) = (false, false);
        self.shares.empty(now, class.id);
    }

    /// It has something that is not in view: it is woken when the lane opens.
    pub(crate) fn leave_aside(&mut self, index: u16) {
        if !core::mem::replace(&mut self.of_mut(index).is_aside, true) {
            self.aside.push(index);
        }
    }

    /// The lane is open: whoever has been left aside may go.
    pub(crate) fn open_lane(&mut self, now: Timestamp) {
        while let Some(index) = self.aside.pop() {
            let class = self.of_mut(index);
            class.is_aside = false;
            if class.is_held {
                self.wake(now, index);
            }
        }
    }

    /// Its policy waits, or what it has is not in view.
    pub(crate) fn hold(&mut self, now: Timestamp, index: u16, until: Timestamp) {
        self.latest = now;
        let class = &mut self.places[usize::from(index)];
        class.is_held = true;
        self.shares.hold(now, class.id, until);
    }

    /// Charges a dispatch.
    pub(crate) fn charge(&mut self, now: Timestamp, index: u16, members: &[Accepted]) {
        self.latest = now;
        let bytes = members.iter().fold(Bytes::ZERO, |sum, member| sum + charged(member).bytes);
        let work = Work { bytes, requests: members.len() as u32, ..charged(&members[0]) };
        let class = &mut self.places[usize::from(index)];
        class.in_flight += members.len();
        self.shares.charge(now, class.id, work);
    }

    /// A request in flight has ended, after `moved` bytes.
    ///
    /// One that failed stays charged: the device has had its work with it. One that moved less
    /// than it asked for is charged what it moved, but no less than [`LEAST_BYTES`].
    pub(crate) fn complete(
        &mut self,
        now: Timestamp,
        index: u16,
        accepted: &Accepted,
        moved: Bytes,
        outcome: Outcome,
    ) {
        self.latest = now;
        let class = &mut self.places[usize::from(index)];
        class.in_flight -= 1;
        class.counts.completed += 1;
        let charged = charged(accepted);
        let is_sync = accepted.request.access == Access::Sync;
        let actual = match outcome {
            _ if is_sync => charged.bytes,
            Outcome::Done => moved.max(charged.bytes.min(LEAST_BYTES)),
            Outcome::Failed => moved.max(charged.bytes),
        };
        if actual != charged.bytes {
            self.shares.amend(now, class.id, charged, Work { bytes: actual, ..charged });
        }
        self.shares.complete(now, class.id, 1);
    }

    /// Whether no limit holds a class back.
    pub(crate) fn admits(&self, now: Timestamp, index: u16) -> bool {
        self.shares.admits(now, self.of(index).id)
    }

    pub(crate) fn stats(&self, now: Timestamp, index: u16, queue: &ClassQueue) -> ClassStats {
        let class = self.of(index);
        ClassStats {
            class: class.id,
            share: class.share,
            policy: queue.policy_name(),
            policy_fault: queue.policy_fault(),
            ready: queue.ready_count(),
            blocked: class.blocked,
            in_flight: class.in_flight,
            counts: class.counts,
            served: self.shares.stats(now, class.id).unwrap_or_default(),
        }
    }
}

/// What one request is charged as. How much an append moves is known only when it has ended.
fn charged(accepted: &Accepted) -> Work {
    let bytes = match accepted.request.access {
        Access::Read | Access::Write => accepted.request.range.length(),
        Access::Alone | Access::Sync => Bytes::ZERO,
    };
    Work { direction: accepted.request.access.direction(), requests: 1, bytes }
}
