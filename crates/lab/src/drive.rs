//! The drive: requests that have reached it, the one it works on, and which is next.
//!
//! ```text
//!   submit ──► pending (by arrival) ──choose──► at work until `done` ──► take_done
//! ```
//!
//! Everything is virtual time. The next request is chosen at the moment at which the one before
//! is done, from those that had arrived by then; when somebody asks does not matter. So a daemon
//! that wakes late answers late, and the disk is as fast as its model all the same.

use std::collections::VecDeque;

use forebay_device::{Device, Profile};
use forebay_units::{Bytes, Direction, Timestamp};

use crate::settings::Reorder;
use crate::statistics::Statistics;

/// What a drive is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Move bytes.
    Transfer { direction: Direction, position: u64, length: Bytes },
    /// Be done with all that came before.
    Sync,
}

/// A drive with one arm. `T` says what a request is answered with.
#[derive(Debug)]
pub(crate) struct Drive<T> {
    device: Device,
    reorder: Reorder,
    pending: VecDeque<Pending<T>>,
    at_work: Option<(Timestamp, T)>,
    /// First byte after the last transfer: where the arm is.
    head: u64,
    counts: Counts,
}

#[derive(Debug)]
struct Pending<T> {
    arrival: Timestamp,
    operation: Operation,
    ticket: T,
}

/// What the device itself does not count.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reads: u64,
    writes: u64,
    bytes_read: u64,
    bytes_written: u64,
    syncs: u64,
    depth_max: u64,
    /// Sum over time of the requests at the drive.
    depth_ns: u64,
    /// Up to when `depth_ns` is complete.
    depth_until: Timestamp,
}

impl<T> Drive<T> {
    pub(crate) fn new(profile: Profile, reorder: Reorder) -> Self {
        Self {
            device: Device::new(profile),
            reorder,
            pending: VecDeque::new(),
            at_work: None,
            head: 0,
            counts: Counts::default(),
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.at_work.is_none()
    }

    /// When the request at work is done.
    pub(crate) fn next_done(&self) -> Option<Timestamp> {
        self.at_work.as_ref().map(|(done, _)| *done)
    }

    /// A request arrives; arrivals come in order.
    pub(crate) fn submit(&mut self, arrival: Timestamp, operation: Operation, ticket: T) {
        self.count_depth(arrival);
        self.pending.push_back(Pending { arrival, operation, ticket });
        self.counts.depth_max = self.counts.depth_max.max(self.depth());
        self.start();
    }

    /// The request that is done by `now`, and when it was; the next one is at work from then on.
    pub(crate) fn take_done(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        let (done, _) = self.at_work.as_ref()?;
        if *done > now {
            return None;
        }
        let done = *done;
        self.count_depth(done);
        let finished = self.at_work.take();
        self.start();
        finished
    }

    /// What it has done so far, as of `now`; what the daemon knows is left zero.
    pub(crate) fn statistics(&mut self, now: Timestamp) -> Statistics {
        self.count_depth(now);
        let (device, counts) = (self.device.statistics(), &self.counts);
        Statistics {
            now_ns: now.0,
            busy_until_ns: self.device.busy_until().0,
            requests: device.requests,
            reads: counts.reads,
            writes: counts.writes,
            syncs: counts.syncs,
            bytes_read: counts.bytes_read,
            bytes_written: counts.bytes_written,
            seeks: device.seeks,
            sequential: device.sequential,
            busy_ns: device.busy_ns,
            depth_ns: counts.depth_ns,
            depth_max: counts.depth_max,
            ..Statistics::default()
        }
    }

    /// The deepest queue is forgotten, so that the next one is that of a run.
    pub(crate) fn forget_depth_max(&mut self) {
        self.counts.depth_max = self.depth();
    }

    fn depth(&self) -> u64 {
        (self.pending.len() + usize::from(self.at_work.is_some())) as u64
    }

    fn count_depth(&mut self, until: Timestamp) {
        let passed = until - self.counts.depth_until;
        self.counts.depth_ns += passed.0.saturating_mul(self.depth());
        self.counts.depth_until = self.counts.depth_until.max(until);
    }

    /// Begins with the next request, if none is at work.
    fn start(&mut self) {
        if self.at_work.is_some() {
            return;
        }
        let Some(first) = self.pending.front() else { return };
        let start = self.device.busy_until().max(first.arrival);
        let Some(Pending { arrival, operation, ticket }) = self.pending.remove(self.choose(start))
        else {
            return;
        };
        let done = match operation {
            Operation::Sync => {
                self.counts.syncs += 1;
                start
            }
            Operation::Transfer { direction, position, length } => {
                self.count_transfer(direction, length);
                self.head = position.saturating_add(length.0);
                self.device.serve(arrival, direction, position, length)
            }
        };
        self.at_work = Some((done, ticket));
    }

    fn count_transfer(&mut self, direction: Direction, length: Bytes) {
        let counts = &mut self.counts;
        let (requests, bytes) = match direction {
            Direction::Read => (&mut counts.reads, &mut counts.bytes_read),
            Direction::Write => (&mut counts.writes, &mut counts.bytes_written),
        };
        *requests += 1;
        *bytes += length.0;
    }

    /// Which pending request is next, of those that have arrived by `start`. A sync waits until it is the oldest.
    fn choose(&self, start: Timestamp) -> usize {
        let arrived = self.pending.iter().take_while(|pending| pending.arrival <= start);
        let seen = arrived.take(self.reorder.window()).enumerate();
        let places = seen.filter_map(|(idx, pending)| match pending.operation {
            Operation::Transfer { position, .. } => Some((idx, position)),
            Operation::Sync => None,
        });
        let chosen = match self.reorder {
            _ if self.pending.front().is_some_and(|first| first.operation == Operation::Sync) => {
                None
            }
            Reorder::Fifo => None,
            Reorder::Sstf { .. } => places.min_by_key(|(_, position)| position.abs_diff(self.head)),
            // What lies ahead by position, then from the disk's start on.
            Reorder::CLook { .. } => {
                places.min_by_key(|(_, position)| (*position < self.head, *position))
            }
        };
        chosen.map_or(0, |(idx, _)| idx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Nanos;

    const KIB_64: u64 = 64 << 10;

    fn drive(reorder: Reorder) -> Drive<u64> {
        Drive::new(Profile::by_name("hdd-57").unwrap(), reorder)
    }

    /// Requests at these places (in MiB), all there at once; in which order they are served.
    fn order(reorder: Reorder, places: &[u64]) -> Vec<u64> {
        let mut drive = drive(reorder);
        for place in places {
            submit(&mut drive, 0, place << 20, *place);
        }
        std::iter::from_fn(|| drive.take_done(Timestamp(u64::MAX)).map(|(_, place)| place))
            .collect()
    }

    fn submit(drive: &mut Drive<u64>, arrival_ns: u64, position: u64, ticket: u64) {
        let length = Bytes(KIB_64);
        let operation = Operation::Transfer { direction: Direction::Read, position, length };
        drive.submit(Timestamp(arrival_ns), operation, ticket);
    }

    #[test]
    fn the_order_is_the_one_that_was_asked_for() {
        let places = [50, 10, 60, 49, 70, 51];
        assert_eq!(order(Reorder::Fifo, &places), places);
        assert_eq!(order(Reorder::Sstf { window: 32 }, &places), [50, 51, 49, 60, 70, 10]);
        assert_eq!(order(Reorder::CLook { window: 32 }, &places), [50, 51, 60, 70, 10, 49]);
        assert_eq!(order(Reorder::CLook { window: 2 }, &places), [50, 60, 10, 49, 51, 70]);
    }

    #[test]
    fn the_next_is_chosen_when_the_last_is_done_and_not_when_somebody_looks() {
        let mut drive = drive(Reorder::CLook { window: 8 });
        submit(&mut drive, 0, 10 << 20, 0);
        let done = drive.next_done().unwrap();
        submit(&mut drive, 1, 30 << 20, 1);
        // It arrives after the drive has begun with the one at 30 MiB, but before anybody looks.
        submit(&mut drive, done.0 + 1, 20 << 20, 2);
        let late = done + Nanos::secs(1);
        assert_eq!(drive.take_done(late), Some((done, 0)));
        assert_eq!(drive.take_done(late).map(|(_, ticket)| ticket), Some(1));
        assert_eq!(drive.take_done(late).map(|(_, ticket)| ticket), Some(2));
        assert!(drive.is_idle());
    }

    #[test]
    fn a_busy_drive_is_as_fast_as_its_model_however_late_it_is_asked() {
        let mut drive = drive(Reorder::Fifo);
        (0..100).for_each(|idx| submit(&mut drive, 0, idx * KIB_64, idx));
        let mut now = Timestamp(0);
        let mut last = Timestamp(0);
        while let Some(due) = drive.next_done() {
            now = now.max(due) + Nanos::micros(40);
            last = drive.take_done(now).unwrap().0;
        }
        let profile = Profile::by_name("hdd-57").unwrap();
        let rest = profile.sequential_time(Direction::Read, Bytes(KIB_64)).0 * 99;
        let first = last.0 - rest;
        assert!((1_000_000..30_000_000).contains(&first), "{first}");
        let statistics = drive.statistics(last);
        assert_eq!((statistics.seeks, statistics.sequential), (1, 99));
        assert_eq!((statistics.busy_ns, statistics.depth_max), (last.0, 100));
    }

    #[test]
    fn a_sync_waits_for_what_came_before_and_costs_nothing() {
        let mut drive = drive(Reorder::CLook { window: 8 });
        submit(&mut drive, 0, 40 << 20, 0);
        submit(&mut drive, 0, 10 << 20, 1);
        drive.submit(Timestamp(0), Operation::Sync, 2);
        submit(&mut drive, 0, 60 << 20, 3);
        let mut done = Vec::new();
        while let Some((_, ticket)) = drive.take_done(Timestamp(u64::MAX)) {
            done.push(ticket);
        }
        assert_eq!(done, [0, 3, 1, 2]);
        assert_eq!(drive.statistics(Timestamp(0)).syncs, 1);
    }

    #[test]
    fn depth_is_counted_over_time() {
        let mut drive = drive(Reorder::Fifo);
        submit(&mut drive, 0, 0, 0);
        submit(&mut drive, 0, 0, 1);
        let first = drive.next_done().unwrap();
        drive.take_done(first);
        let second = drive.next_done().unwrap();
        drive.take_done(second);
        assert_eq!(drive.statistics(second + Nanos(5)).depth_ns, first.0 + second.0);
    }
}
