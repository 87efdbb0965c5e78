//! A measured device: how long a request takes, by operation, order and length.
//!
//! Source: SeRRa (AGIOS 2015, section 3.2): linear models from a few probes.

use forebay_units::{Bytes, Direction, Nanos};

/// `t(length) = a + b · length`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Of a request of no length, in nanoseconds.
    pub fixed_ns: f64,
    /// Of each byte, in nanoseconds.
    pub byte_ns: f64,
}

impl Curve {
    /// The time of a request.
    pub fn time(&self, length: Bytes) -> Nanos {
        Nanos((self.fixed_ns + self.byte_ns * length.0 as f64).max(0.0) as u64)
    }
}

/// What a device was measured to do, one request at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceProfile {
    /// Reads that continue the last one.
    pub sequential_read: Curve,
    /// Reads anywhere.
    pub random_read: Curve,
    /// Writes that continue the last one.
    pub sequential_write: Curve,
    /// Writes anywhere.
    pub random_write: Curve,
}

impl DeviceProfile {
    /// Sequential over random throughput with requests of that length; 1 where order does not matter.
    pub fn ratio(&self, direction: Direction, length: Bytes) -> f64 {
        let (sequential, random) = match direction {
            Direction::Read => (&self.sequential_read, &self.random_read),
            Direction::Write => (&self.sequential_write, &self.random_write),
        };
        random.time(length).0 as f64 / sequential.time(length).0.max(1) as f64
    }
}
