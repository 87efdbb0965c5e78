//! A measured device: how long a request takes, by operation, order and length.
//!
//! Source:      SeRRa, as AGIOS 2015, section 3.2 uses it: a few probes of sequential and random
//!              reads and writes, a line through each, and from the lines the ratio at any size.
//! Idea:        [`Knot`] is what the requests of one length took, [`Curve`] the lines from knot to
//!              knot, [`DeviceProfile`] the four curves of a device. A device whose time is
//!              `a + b · length` has curves that are one line; most have bends, see ADR 16.
//!              [`Refinement`] keeps a profile in step with what dispatched batches take.
//! Units:       bytes, nanoseconds; errors are relative standard errors (0.1: a tenth).
//! Cost:        a question is one pass over at most [`KNOTS_MAX`] knots of two curves; no allocation.
//! Deviations:  SeRRa fits one line to each curve; here it is a line for each pair of measured
//!              lengths, because one line misses striped devices by up to a half at 8 KiB.

mod curve;
mod knot;
mod refinement;

use core::fmt;

use forebay_units::{Bytes, Direction, Nanos};

use crate::math::sqrt;

pub use curve::{Curve, KNOTS_MAX, Line};
pub use knot::Knot;
pub use refinement::{Dispatched, Refinement};

/// Lengths at which a model is asked for its times: all that a stripe of up to 128 KiB bends, and
/// one far out.
const MODEL_LENGTHS: [Bytes; KNOTS_MAX] = [
    Bytes::kib(4),
    Bytes::kib(8),
    Bytes::kib(16),
    Bytes::kib(32),
    Bytes::kib(64),
    Bytes::kib(128),
    Bytes::kib(256),
    Bytes::mib(8),
];

/// Standard errors to each side within which 95 % of what is measured lies.
const NORMAL_95: f64 = 1.96;

/// Where a request is in relation to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// It continues the last one.
    Sequential,
    /// It is anywhere.
    Random,
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

/// A ratio of sequential to random throughput, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The best guess; 1 where order does not matter, below 1 where random is the faster one.
    pub value: f64,
    /// Below this with a probability of 2.5 %.
    pub low: f64,
    /// Above this with a probability of 2.5 %.
    pub high: f64,
}

impl DeviceProfile {
    /// Operation and order of each curve, in the order of the fields.
    pub const PARTS: [(Direction, Order); 4] = [
        (Direction::Read, Order::Sequential),
        (Direction::Read, Order::Random),
        (Direction::Write, Order::Sequential),
        (Direction::Write, Order::Random),
    ];

    /// Of a model that says what a request takes; without error.
    pub fn of_model(time: impl Fn(Direction, Order, Bytes) -> Nanos) -> Self {
        Self::from_parts(|direction, order| {
            let knots = MODEL_LENGTHS.map(|length| Knot {
                length,
                time_ns: time(direction, order, length).0.max(1) as f64,
                error: 0.0,
            });
            Curve::through(&knots).expect("lengths ascend and times are positive")
        })
    }

    /// From a curve for each operation and order.
    pub fn from_parts(mut curve: impl FnMut(Direction, Order) -> Curve) -> Self {
        let [sequential_read, random_read, sequential_write, random_write] =
            Self::PARTS.map(|(direction, order)| curve(direction, order));
        Self { sequential_read, random_read, sequential_write, random_write }
    }

    /// One of the curves.
    pub fn curve(&self, direction: Direction, order: Order) -> &Curve {
        match (direction, order) {
            (Direction::Read, Order::Sequential) => &self.sequential_read,
            (Direction::Read, Order::Random) => &self.random_read,
            (Direction::Write, Order::Sequential) => &self.sequential_write,
            (Direction::Write, Order::Random) => &self.random_write,
        }
    }

    /// The same times, known less well: every error at least this, as of a device that is only
    /// assumed to be like another.
    pub fn with_error(&self, error: f64) -> Self {
        Self::from_parts(|direction, order| self.curve(direction, order).with_error(error))
    }

    /// Sequential over random throughput with requests of that length; 1 where order does not matter.
    pub fn ratio(&self, direction: Direction, length: Bytes) -> f64 {
        let time_ns = |order| self.curve(direction, order).time_ns(length).max(1.0);
        time_ns(Order::Random) / time_ns(Order::Sequential)
    }

    /// The same, with the interval in which it lies with a probability of 95 %.
    pub fn ratio_with_bounds(&self, direction: Direction, length: Bytes) -> Ratio {
        let sequential = self.curve(direction, Order::Sequential).at(length);
        let random = self.curve(direction, Order::Random).at(length);
        let value = self.ratio(direction, length);
        // Relative errors of a quotient's parts add as squares. An interval that is as wide in
        // ratios on both sides never goes below nothing.
        let variance = sequential.error * sequential.error + random.error * random.error;
        let factor = 1.0 + NORMAL_95 * sqrt(variance);
        Ratio { value, low: value / factor, high: value * factor }
    }
}

impl Order {
    /// As tables and files write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Random => "random",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
