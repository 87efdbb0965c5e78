//! A node of the tree: a class, a group, a window of TWINS, or the root above them.

use forebay_units::{ClassId, Nanos, Timestamp};

use super::bucket::Bucket;
use super::reservation::Reservation;
use super::settings::{AtLimit, GroupId, Share};
use super::stats::ShareStats;
use super::tree::Place;

/// A node's place in the pool.
pub(super) type NodeIndex = u32;

/// What a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// What all others are below.
    Root,
    /// Classes of one user.
    Group(GroupId),
    /// A data server of TWINS.
    Window(u32),
    /// A class.
    Class(ClassId),
}

/// Where a node stands in virtual time among its siblings; each discipline reads it its own way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// SFQ: the start tag of its next batch. DRR: the round of its next turn. TWINS: the server's number. SW: window and class.
    pub(super) tag: u128,
    /// DRR: what is left of its turn.
    pub(super) deficit: i128,
    /// Breaks ties: when it came.
    pub(super) seq: u64,
}

/// Whether a node can be picked, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has nothing.
    Away,
    /// It stands in its parent's order.
    Queued,
    /// Its policy waits for a better batch.
    Held {
        /// Until then at the latest.
        until: Timestamp,
    },
    /// A limit holds it back.
    Throttled {
        /// Until then.
        until: Timestamp,
        /// For the counters.
        since: Timestamp,
    },
}

/// The three limits of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buckets {
    ops: Option<Bucket>,
    bytes: Option<Bucket>,
    cost: Option<Bucket>,
}

impl Buckets {
    /// Takes over new limits; what was used up of a limit that stays is kept.
    pub(super) fn configure(&mut self, now: Timestamp, share: &Share) {
        let pairs = [
            (&mut self.ops, share.ops),
            (&mut self.bytes, share.bytes),
            (&mut self.cost, share.cost),
        ];
        for (bucket, rate) in pairs {
            match (bucket.as_mut(), rate) {
                (Some(bucket), Some(rate)) => bucket.set_rate(now, rate),
                (_, rate) => *bucket = rate.map(Bucket::new),
            }
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Option<Bucket>> {
        [&mut self.ops, &mut self.bytes, &mut self.cost].into_iter()
    }

    fn all(&self) -> impl Iterator<Item = &Bucket> {
        [&self.ops, &self.bytes, &self.cost].into_iter().flatten()
    }

    /// From when on no limit holds the node back.
    pub(super) fn free_at(&self) -> Timestamp {
        self.all().map(Bucket::free_at).max().unwrap_or_default()
    }

    /// Takes `units` (requests, bytes, cost), whether or not it may.
    pub(super) fn take(&mut self, now: Timestamp, units: [u64; 3]) {
        for (bucket, units) in self.each().zip(units) {
            if let Some(bucket) = bucket {
                bucket.take(now, units);
            }
        }
    }

    /// Takes what is missing, or gives back what is too much, if `taken` should have been `right`.
    pub(super) fn correct(&mut self, now: Timestamp, taken: [u64; 3], right: [u64; 3]) {
        for (bucket, (taken, right)) in self.each().zip(taken.into_iter().zip(right)) {
            match bucket {
                Some(bucket) if right > taken => bucket.take(now, right - taken),
                Some(bucket) if right < taken => bucket.give_back(now, taken - right),
                _ => {}
            }
        }
    }

    /// Forgives debts that would take longer than `debt` to pay.
    pub(super) fn forgive(&mut self, now: Timestamp, debt: Nanos) {
        self.each().flatten().for_each(|bucket| bucket.forgive(now, debt));
    }

    /// Whether nothing of any limit is used up.
    pub(super) fn are_full(&self, now: Timestamp) -> bool {
        self.all().all(|bucket| bucket.is_full(now))
    }
}

/// What a node knows of those below it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Family {
    /// How many there are.
    pub(super) children: u32,
    /// How many of them stand in the order.
    pub(super) queued: u32,
    /// How many classes below have something to dispatch; of a class, itself.
    pub(super) ready: u32,
    /// How many requests of classes below are in flight; of a class, its own.
    pub(super) in_flight: u32,
    /// Virtual time or round among the children; never goes back.
    pub(super) virtual_time: u128,
    /// The largest tag that any child has had.
    pub(super) tag_max: u128,
}

/// A class, a group, a window or the root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) name: Name,
    pub(super) parent: NodeIndex,
    pub(super) share: Share,
    pub(super) group: Option<GroupId>,
    pub(super) buckets: Buckets,
    pub(super) reservation: Reservation,
    /// Under which moment it stands in the order of reservations.
    pub(super) due: Option<Timestamp>,
    pub(super) turn: Turn,
    /// Its place in its parent's order, if it stands there; no later than where it belongs.
    pub(super) stands: Option<Place>,
    /// It may belong elsewhere.
    pub(super) is_loose: bool,
    pub(super) state: State,
    /// Since when it has been in this state.
    pub(super) since: Timestamp,
    /// SW: when the oldest that it has came.
    pub(super) front: Timestamp,
    pub(super) family: Family,
    /// It is to be forgotten once it owes nothing.
    pub(super) is_leaving: bool,
    /// It stands in the queue of those to be forgotten.
    pub(super) is_listed: bool,
    pub(super) stats: ShareStats,
    /// Of its throttled time, what somebody has taken note of.
    pub(super) throttled_taken: Nanos,
}

impl Node {
    pub(super) fn new(name: Name, parent: NodeIndex) -> Self {
        Self {
            name,
            parent,
            share: Share::default(),
            group: None,
            buckets: Buckets::default(),
            reservation: Reservation::default(),
            due: None,
            turn: Turn::default(),
            stands: None,
            is_loose: false,
            state: State::Away,
            since: Timestamp(0),
            front: Timestamp(0),
            family: Family::default(),
            is_leaving: false,
            is_listed: false,
            stats: ShareStats::default(),
            throttled_taken: Nanos::ZERO,
        }
    }

    pub(super) fn is_class(&self) -> bool {
        matches!(self.name, Name::Class(_))
    }

    pub(super) fn is_soft(&self) -> bool {
        self.share.at_limit == AtLimit::Borrow
    }
}
