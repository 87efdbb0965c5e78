//! What is counted for one class or one file.

use core::ops::AddAssign;

use forebay_units::{Bytes, Direction, Nanos};

use crate::histogram::{Histogram, Sample};
use crate::top::{Row, Top};

/// Requests of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Requests completed.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: Bytes,
}

impl AddAssign for Flow {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

/// What was counted for one class or one file. Everything only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Completed reads.
    pub reads: Flow,
    /// Completed writes, syncs, appends and truncations.
    pub writes: Flow,
    /// Of the completed, those that went at once because nothing was queued.
    pub bypassed: u64,
    /// Batches of which the first request has completed; one with requests of several classes counts
    /// for the class of its first.
    pub batches: u64,
    /// Requests in those batches.
    pub batched_requests: u64,
    /// Decisions to wait for a better batch.
    pub waits: u64,
    /// Time of those waits.
    pub waited: Nanos,
    /// Times that a limit kept ready requests back although the store had room.
    pub throttled: u64,
    /// Time of that.
    pub throttled_time: Nanos,
    /// Requests that waited for earlier conflicting ones, until they were ready or cancelled.
    pub blocked: u64,
    /// Time of that, summed over requests.
    pub blocked_time: Nanos,
    /// From arrival to dispatch.
    pub queue_time: Histogram,
    /// From dispatch to completion.
    pub device_time: Histogram,
}

impl Account {
    /// Completed requests.
    pub const fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests
    }

    /// Bytes moved.
    pub fn bytes(&self) -> Bytes {
        self.reads.bytes + self.writes.bytes
    }

    /// Requests a batch, in hundredths: 100 when nothing was merged, and when there was no batch.
    pub const fn merge_percent(&self) -> u64 {
        match (self.batched_requests * 100).checked_div(self.batches) {
            Some(percent) => percent,
            None => 100,
        }
    }

    /// Counts a completed request.
    #[inline]
    pub(crate) fn count(&mut self, flow: Flow, direction: Direction, device: Sample) {
        match direction {
            Direction::Read => self.reads += flow,
            Direction::Write => self.writes += flow,
        }
        self.device_time.add(device);
    }
}

impl Row for Account {
    fn absorb(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bypassed += other.bypassed;
        self.batches += other.batches;
        self.batched_requests += other.batched_requests;
        self.waits += other.waits;
        self.waited += other.waited;
        self.throttled += other.throttled;
        self.throttled_time += other.throttled_time;
        self.blocked += other.blocked;
        self.blocked_time += other.blocked_time;
        self.queue_time.merge(&other.queue_time);
        self.device_time.merge(&other.device_time);
    }

    fn clear(&mut self) {
        // Only what was counted is wiped: an account is mostly empty buckets.
        self.queue_time.clear();
        self.device_time.clear();
        let Self {
            reads,
            writes,
            bypassed,
            batches,
            batched_requests,
            waits,
            waited,
            throttled,
            throttled_time,
            blocked,
            blocked_time,
            queue_time: _,
            device_time: _,
        } = self;
        (*reads, *writes) = (Flow::default(), Flow::default());
        for count in [bypassed, batches, batched_requests, waits, throttled, blocked] {
            *count = 0;
        }
        for time in [waited, throttled_time, blocked_time] {
            *time = Nanos::ZERO;
        }
    }
}

/// Which classes a class waited for are told apart, at most.
pub(crate) const BLOCKERS_MAX: usize = 8;

/// What was counted for one class.
#[derive(Clone, Debug)]
pub struct ClassAccount {
    /// As for files.
    pub account: Account,
    /// By class that was waited for: how long (weight, in ns) and how many requests.
    pub blockers: Top<u64>,
}

impl Default for ClassAccount {
    fn default() -> Self {
        Self { account: Account::default(), blockers: Top::new(BLOCKERS_MAX) }
    }
}

impl Row for ClassAccount {
    /// Who blocked is not added up: the blockers of many classes together name nobody.
    fn absorb(&mut self, other: &Self) {
        self.account.absorb(&other.account);
    }

    fn clear(&mut self) {
        self.account.clear();
        self.blockers = Top::new(BLOCKERS_MAX);
    }
}
