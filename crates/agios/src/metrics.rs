//! What was asked for: the figures behind `agios_get_metrics_and_reset`.
//!
//! All figures are exact sums; means are divided once, when they are read.

use forebay_controller::FileKey;
use forebay_units::{ByteRange, Bytes, Direction, Timestamp};

use crate::quick_hash::QuickMap;

/// The figures since the last reset; field by field what `struct agios_metrics_t` holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Snapshot {
    /// Requests added.
    pub(crate) total_reqnb: i64,
    /// Reads added.
    pub(crate) reads: i64,
    /// Writes added.
    pub(crate) writes: i64,
    /// Mean time between two requests, in nanoseconds.
    pub(crate) avg_time_between_requests: i64,
    /// Mean size in bytes.
    pub(crate) avg_request_size: i64,
    /// Largest size in bytes.
    pub(crate) max_request_size: i64,
    /// Files of which requests were added or released.
    pub(crate) filenb: i64,
    /// Mean distance in bytes between the end of a request and the start of the next one of its
    /// file and direction; of those means, the mean.
    pub(crate) avg_offset_distance: i64,
    /// Bytes released.
    pub(crate) served_bytes: i64,
}

/// Most files that are told apart between two resets. With more, those met so far are summed up and
/// told apart no longer: one that comes back is counted once more.
pub(crate) const FILES_MAX: usize = 1 << 16;

/// The figures of all files.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    reads: u64,
    writes: u64,
    first: Timestamp,
    last: Timestamp,
    bytes: u128,
    largest: Bytes,
    served: u128,
    files: QuickMap<FileKey, [Sequence; 2]>,
    /// Files that are not told apart any longer.
    summed_up: u64,
    /// Their distances.
    distances: Distances,
}

/// Requests of one file and direction, in arrival order.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    requests: u64,
    /// Where the last request ended.
    end: u64,
    /// From the end of each request to the start of the next.
    distance: u128,
}

/// Mean distances of several sequences.
#[derive(Clone, Copy, Debug, Default)]
struct Distances {
    sum: u128,
    count: u64,
}

impl Distances {
    fn add(&mut self, sequences: &[Sequence; 2]) {
        for sequence in sequences.iter().filter(|sequence| sequence.requests > 1) {
            self.sum += sequence.distance / u128::from(sequence.requests - 1);
            self.count += 1;
        }
    }
}

impl Metrics {
    /// A request was added.
    pub(crate) fn added(
        &mut self,
        now: Timestamp,
        file: FileKey,
        direction: Direction,
        range: ByteRange,
    ) {
        if self.reads + self.writes == 0 {
            self.first = now;
        }
        self.last = self.last.max(now);
        *match direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        } += 1;
        let length = range.length();
        self.bytes += u128::from(length.0);
        self.largest = self.largest.max(length);
        let sequence = &mut self.sequences(file)[direction as usize];
        sequence.requests += 1;
        if sequence.requests > 1 {
            sequence.distance += u128::from(range.start.0.abs_diff(sequence.end));
        }
        sequence.end = range.end.0;
    }

    /// A request was released.
    pub(crate) fn released(&mut self, file: FileKey, length: Bytes) {
        self.sequences(file);
        self.served += u128::from(length.0);
    }

    /// The figures; they start anew.
    pub(crate) fn take(&mut self) -> Snapshot {
        self.sum_up();
        let requests = self.reads + self.writes;
        let between = (self.last - self.first).0.checked_div(requests.saturating_sub(1));
        let snapshot = Snapshot {
            total_reqnb: signed(requests.into()),
            reads: signed(self.reads.into()),
            writes: signed(self.writes.into()),
            avg_time_between_requests: signed(between.unwrap_or(0).into()),
            avg_request_size: mean(self.bytes, requests),
            max_request_size: signed(self.largest.0.into()),
            filenb: signed(self.summed_up.into()),
            avg_offset_distance: mean(self.distances.sum, self.distances.count),
            served_bytes: signed(self.served),
        };
        *self = Self { files: core::mem::take(&mut self.files), ..Self::default() };
        snapshot
    }

    /// What is known of a file, which now counts as met.
    fn sequences(&mut self, file: FileKey) -> &mut [Sequence; 2] {
        if self.files.len() == FILES_MAX && !self.files.contains_key(&file) {
            self.sum_up();
        }
        self.files.entry(file).or_default()
    }

    fn sum_up(&mut self) {
        self.summed_up += self.files.len() as u64;
        for (_, sequences) in self.files.drain() {
            self.distances.add(&sequences);
        }
    }
}

fn mean(sum: u128, count: u64) -> i64 {
    signed(sum.checked_div(u128::from(count)).unwrap_or(0))
}

fn signed(count: u128) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use forebay_units::Offset;

    use super::*;

    /// Adds (time in ns, file, direction, offset, length).
    fn add(metrics: &mut Metrics, of: (u64, u64, Direction, u64, u64)) {
        let (now, file, direction, offset, length) = of;
        let range = ByteRange::new(Offset(offset), Bytes(length));
        metrics.added(Timestamp(now), key(file), direction, range);
    }

    fn key(file: u64) -> FileKey {
        FileKey { high: 0, low: file }
    }

    #[test]
    fn the_figures_are_those_of_the_requests() {
        let mut metrics = Metrics::default();
        for of in [
            (100, 0, Direction::Read, 0, 10),
            (110, 0, Direction::Read, 30, 10), // 20 bytes from the end of the one before
            (150, 0, Direction::Read, 0, 10),  // 40 bytes back
            (190, 1, Direction::Write, 500, 70),
            (200, 1, Direction::Write, 570, 1), // contiguous
        ] {
            add(&mut metrics, of);
        }
        metrics.released(key(0), Bytes(10));
        metrics.released(key(2), Bytes(7));
        let expected = Snapshot {
            total_reqnb: 5,
            reads: 3,
            writes: 2,
            avg_time_between_requests: 25,
            avg_request_size: 20,
            max_request_size: 70,
            filenb: 3,
            avg_offset_distance: 15, // of 30 and 0
            served_bytes: 17,
        };
        assert_eq!(metrics.take(), expected);
        assert_eq!(metrics.take(), Snapshot::default());
    }

    #[test]
    fn distances_and_times_count_from_the_second_request_after_a_reset() {
        let mut metrics = Metrics::default();
        add(&mut metrics, (0, 0, Direction::Read, 0, 10));
        metrics.take();
        add(&mut metrics, (50, 0, Direction::Read, 100, 10));
        add(&mut metrics, (90, 0, Direction::Read, 111, 10));
        let snapshot = metrics.take();
        assert_eq!((snapshot.filenb, snapshot.avg_offset_distance), (1, 1));
        assert_eq!(snapshot.avg_time_between_requests, 40);
    }

    #[test]
    fn memory_is_bounded_however_many_files_there_are() {
        let mut metrics = Metrics::default();
        let files = 3 * FILES_MAX as u64;
        for file in 0..files {
            for offset in [0, 14] {
                add(&mut metrics, (0, file, Direction::Read, offset, 10));
            }
            assert!(metrics.files.len() <= FILES_MAX);
        }
        let snapshot = metrics.take();
        assert_eq!((snapshot.filenb as u64, snapshot.avg_offset_distance), (files, 4));
    }

    #[test]
    fn sums_do_not_wrap() {
        let mut metrics = Metrics::default();
        for now in 0..4 {
            add(&mut metrics, (now, 0, Direction::Write, 0, i64::MAX as u64));
            metrics.released(key(0), Bytes(i64::MAX as u64));
        }
        let snapshot = metrics.take();
        assert_eq!((snapshot.avg_request_size, snapshot.served_bytes), (i64::MAX, i64::MAX));
    }
}
