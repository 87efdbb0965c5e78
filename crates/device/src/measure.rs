//! What a model shows when it is run: the counterpart of the closed forms in [`Profile`].
//!
//! One request at a time, each sent when the one before is finished, in virtual time: the way
//! device ratios are measured (`scheduling.md` 5.3, "at depth 1").

use forebay_units::{Bytes, Direction, Nanos, Timestamp};

use crate::device::Device;
use crate::profile::{Profile, RANDOM_SPAN};
use crate::random::SplitMix64;

/// Where the next request of a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Where the last one ended.
    Sequential,
    /// To a multiple of the length within [`RANDOM_SPAN`], from this seed.
    Random(u64),
}

/// The mean time of `count` requests, after one that is not counted.
///
/// # Panics
/// If `count` or `length` is 0, or `length` is more than [`RANDOM_SPAN`].
pub fn mean_time(
    profile: &Profile,
    order: Order,
    direction: Direction,
    length: Bytes,
    count: u64,
) -> Nanos {
    assert!(length > Bytes::ZERO && length <= RANDOM_SPAN && count > 0);
    let mut device = Device::new(*profile);
    let mut random = SplitMix64::new(match order {
        Order::Sequential => 0,
        Order::Random(seed) => seed,
    });
    let slots = RANDOM_SPAN.0 / length.0;
    let mut position_of = |idx: u64| match order {
        Order::Sequential => idx * length.0,
        Order::Random(_) => random.below(slots) * length.0,
    };
    let first = device.serve(Timestamp(0), direction, position_of(0), length);
    let last =
        (1..=count).fold(first, |now, idx| device.serve(now, direction, position_of(idx), length));
    Nanos((last - first).0 / count)
}

/// Sequential over random throughput in thousandths, from `count` requests each.
///
/// # Panics
/// As [`mean_time`].
pub fn ratio_permille(
    profile: &Profile,
    direction: Direction,
    length: Bytes,
    count: u64,
    seed: u64,
) -> u64 {
    let sequential = mean_time(profile, Order::Sequential, direction, length, count);
    let random = mean_time(profile, Order::Random(seed), direction, length, count);
    random.0 * 1000 / sequential.0.max(1)
}
