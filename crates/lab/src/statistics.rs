//! What a disk has done since it was set up: the daemon's answer, and differences between two of them.

use serde::{Deserialize, Serialize};

/// What a disk has done. Times are the device's own (virtual) nanoseconds unless the name says otherwise.
///
/// All but [`depth_max`](Self::depth_max) and [`oversleep_max_real_ns`](Self::oversleep_max_real_ns)
/// only grow, so a run is the difference of two readings ([`since`](Self::since)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// The device's clock.
    pub now_ns: u64,
    /// When the last request that it has begun with is done.
    pub busy_until_ns: u64,
    /// Transfers begun; a large one reaches the device in pieces of up to 1 MiB, each of which counts.
    pub requests: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that wrote.
    pub writes: u64,
    /// Flushes of a write cache, which the device does not have: they wait and cost nothing.
    pub syncs: u64,
    /// Bytes that reads moved.
    pub bytes_read: u64,
    /// Bytes that writes moved.
    pub bytes_written: u64,
    /// Transfers for which the arm had to move.
    pub seeks: u64,
    /// Transfers that continued the one before.
    pub sequential: u64,
    /// Time in which the device was at work.
    pub busy_ns: u64,
    /// Sum over time of the requests at the device: over the elapsed time, the mean queue depth.
    pub depth_ns: u64,
    /// The most requests that were at the device at once since the maximum was last forgotten.
    pub depth_max: u64,
    /// Answers given.
    pub answers: u64,
    /// Sum of the real time by which answers were late: the daemon awoke that much after they were due.
    pub oversleep_real_ns: u64,
    /// The latest answer since the maximum was last forgotten.
    pub oversleep_max_real_ns: u64,
    /// Requests answered at once while the model was switched off.
    pub free: u64,
    /// Memory that the contents take.
    pub resident_bytes: u64,
}

impl Statistics {
    /// What happened after `earlier`; maxima and the clock's readings stay as they are.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            syncs: self.syncs - earlier.syncs,
            bytes_read: self.bytes_read - earlier.bytes_read,
            bytes_written: self.bytes_written - earlier.bytes_written,
            seeks: self.seeks - earlier.seeks,
            sequential: self.sequential - earlier.sequential,
            busy_ns: self.busy_ns - earlier.busy_ns,
            depth_ns: self.depth_ns - earlier.depth_ns,
            answers: self.answers - earlier.answers,
            oversleep_real_ns: self.oversleep_real_ns - earlier.oversleep_real_ns,
            free: self.free - earlier.free,
            ..*self
        }
    }

    /// The share of `elapsed_ns` in which the device was at work.
    pub fn busy_share(&self, elapsed_ns: u64) -> f64 {
        over(self.busy_ns, elapsed_ns)
    }

    /// Requests at the device, on average over `elapsed_ns`.
    pub fn depth_mean(&self, elapsed_ns: u64) -> f64 {
        over(self.depth_ns, elapsed_ns)
    }

    /// How late an answer was, on average, in real nanoseconds.
    pub fn oversleep_mean_real_ns(&self) -> f64 {
        over(self.oversleep_real_ns, self.answers)
    }
}

fn over(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_rates_of_its_own_time() {
        let first = Statistics { busy_ns: 10, depth_ns: 100, now_ns: 50, ..Default::default() };
        let last = Statistics { busy_ns: 60, depth_ns: 300, now_ns: 150, ..first };
        let between = last.since(&first);
        assert_eq!((between.busy_share(100), between.depth_mean(100)), (0.5, 2.0));
        assert_eq!(between.oversleep_mean_real_ns(), 0.0);
        assert_eq!(between.now_ns, 150);
    }
}
