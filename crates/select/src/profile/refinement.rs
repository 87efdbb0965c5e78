//! A profile that keeps learning from the batches that are dispatched anyway.
//!
//! Source:      `scheduling.md` 5.3: the regression of the probe, with forgetting, over dispatched
//!              batches; sequential if a batch starts where the last one ended, random otherwise.
//! Idea:        The curve at the start is a line with bends: `t0(L) = line0(L) · bend(L)`. What a
//!              batch took is divided by `t0(L)`, and least squares find the line `a + b · L` for
//!              which `a / line0(L) + b · L / line0(L)` is nearest to these quotients: a device that
//!              is as it was leaves the line as it was. Quotients are weighed by the square of what
//!              is expected of them, over its mean: relative errors weigh the same.
//!              The curve's knots, as samples that are never forgotten, keep the lengths in place
//!              that no batch has; a knot that is known well is worth many of them.
//! Units:       nanoseconds of busy time, bytes.
//! Cost:        some twenty multiplications a batch, no allocation.
//! Deviations:  with more than one batch in flight a device's time for one is not seen: it is
//!              taken to begin when the batch before it was completed (busy time per batch).
//! Loses when:  requests overlap in a device of many channels: there, busy time is the time of its
//!              throughput and not of one request alone, which is the one that counts then.

use forebay_units::{ByteRange, Bytes, Direction, Timestamp};

use super::curve::{Curve, ERROR_MAX, KNOTS_MAX, Line, Sums, TIME_NS_MAX};
use super::knot::Knot;
use super::{DeviceProfile, Order};
use crate::math::sqrt;

/// Of one batch, relative to its mean: half a turn of a disk more or less, and the noise of a
/// computer. What a knot's error is compared with to say how many batches it is worth.
const BATCH_DEVIATION: f64 = 0.3;

/// However exactly a knot was measured: as many batches at its length outweigh it.
const KNOT_BATCHES_MAX: f64 = 64.0;

/// Each batch takes this part of the older ones' weight: they count as the last thousand.
const FADE: f64 = 1.0 - 1.0 / 1024.0;

/// Batches of one operation and order from which on their say is worth a profile.
const BATCHES_MIN: f64 = 64.0;

/// A batch that took so many times more or less than expected counts as if it had been this:
/// a stall moves little, a device that has changed is followed step by step.
const SURPRISE_MAX: f64 = 4.0;

/// The line of a part that has seen enough is found anew after so many batches.
const SOLVE_EVERY: u8 = 16;

/// Each batch's part in the mean of what is expected.
const MEAN_SHARE: f64 = 1.0 / 64.0;

/// The most that a batch of one length weighs over one of another.
const WEIGHT_MAX: f64 = 64.0;

/// A device is never taken for more than a million times as fast as it was.
const FACTOR_MIN: f64 = 1e-6;

/// A batch on its way, to be given back when it is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatched {
    at: Timestamp,
    direction: Direction,
    order: Order,
    length: Bytes,
}

/// A profile and what batches have said of it since.
#[derive(Clone, Debug)]
pub struct Refinement {
    parts: [Part; 4],
    /// File and end of the batch dispatched last.
    last: Option<(Direction, u64, u64)>,
    completed: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    start: Curve,
    start_line: Line,
    /// The knots as samples.
    prior: Sums,
    seen: Sums,
    line: Line,
    /// Faded number of batches, and sum of the squares of what they were off by.
    batches: f64,
    squares: f64,
    /// Of late, what was expected of batches, over what the start says.
    mean_factor: f64,
    /// Batches since the line was found.
    unsolved: u8,
}

impl Refinement {
    /// Begins with what is known.
    pub fn new(profile: &DeviceProfile) -> Self {
        let parts = DeviceProfile::PARTS
            .map(|(direction, order)| Part::new(*profile.curve(direction, order)));
        Self { parts, last: None, completed: Timestamp(0) }
    }

    /// A batch goes to the device: of this file (a number that tells files of the device apart)
    /// and range. Keep what is returned until the batch is completed.
    pub fn dispatched(
        &mut self,
        now: Timestamp,
        direction: Direction,
        file: u64,
        range: ByteRange,
    ) -> Dispatched {
        let continues = self.last == Some((direction, file, range.start.0));
        self.last = Some((direction, file, range.end.0));
        let order = if continues { Order::Sequential } else { Order::Random };
        Dispatched { at: now, direction, order, length: range.length() }
    }

    /// A batch is back with all its bytes. One that failed, or that no device was asked for (a read
    /// from the page cache), is not told.
    pub fn completed(&mut self, now: Timestamp, batch: Dispatched) {
        let busy = now - batch.at.max(self.completed);
        self.completed = self.completed.max(now);
        if busy.0 == 0 || batch.length == Bytes::ZERO {
            return;
        }
        let idx = part_index(batch.direction, batch.order);
        self.parts[idx].learn(batch.length, busy.0 as f64);
    }

    /// The profile as it is now; `None` until some part of it has seen enough. Parts that have not
    /// are as they were at the start.
    pub fn profile(&self) -> Option<DeviceProfile> {
        self.parts.iter().any(Part::is_sure).then(|| {
            DeviceProfile::from_parts(|direction, order| {
                self.parts[part_index(direction, order)].curve()
            })
        })
    }
}

/// In the order of [`DeviceProfile::PARTS`].
fn part_index(direction: Direction, order: Order) -> usize {
    2 * usize::from(direction == Direction::Write) + usize::from(order == Order::Random)
}

impl Part {
    fn new(start: Curve) -> Self {
        let start_line = start.fitted();
        let mut prior = Sums::default();
        for knot in start.knots() {
            let (u, v) = parts_of(&start_line, knot.length);
            let exactness = BATCH_DEVIATION / knot.error.max(1e-3);
            // The line's own quotient is 1 everywhere: that is what the start says.
            prior.add(u, v, 1.0, (exactness * exactness).min(KNOT_BATCHES_MAX));
        }
        let (batches, squares) = (0.0, 0.0);
        let (seen, line, mean_factor, unsolved) = (Sums::default(), start_line, 1.0, 0);
        Self { start, start_line, prior, seen, line, batches, squares, mean_factor, unsolved }
    }

    fn learn(&mut self, length: Bytes, busy_ns: f64) {
        let (u, v) = parts_of(&self.start_line, length);
        let expected = self.factor(u, v);
        let quotient = busy_ns / self.start.time_ns(length).max(1.0);
        let surprise = (quotient / expected).clamp(1.0 / SURPRISE_MAX, SURPRISE_MAX);
        self.mean_factor += (expected - self.mean_factor) * MEAN_SHARE;
        let weight = self.mean_factor / expected;
        let weight = (weight * weight).clamp(1.0 / WEIGHT_MAX, WEIGHT_MAX);
        self.seen.fade(FADE);
        self.seen.add(u, v, expected * surprise, weight);
        self.batches = self.batches * FADE + 1.0;
        self.squares = self.squares * FADE + (surprise - 1.0) * (surprise - 1.0);
        self.unsolved += 1;
        if self.unsolved >= SOLVE_EVERY || !self.is_sure() {
            self.unsolved = 0;
            self.line = self.prior.plus(&self.seen).solve();
        }
    }

    /// Of the start's time, what the line now says.
    fn factor(&self, u: f64, v: f64) -> f64 {
        (self.line.fixed_ns * u + self.line.byte_ns * v).max(FACTOR_MIN)
    }

    fn is_sure(&self) -> bool {
        self.batches >= BATCHES_MIN
    }

    /// The start's curve, moved as its line was.
    fn curve(&self) -> Curve {
        if !self.is_sure() {
            return self.start;
        }
        let mut knots = [Knot { length: Bytes(1), time_ns: 1.0, error: 0.0 }; KNOTS_MAX];
        let start = self.start.knots();
        for (knot, old) in knots.iter_mut().zip(start) {
            *knot = self.moved(old);
        }
        Curve::through(&knots[..start.len()]).unwrap_or(self.start)
    }

    fn moved(&self, old: &Knot) -> Knot {
        let (u, v) = parts_of(&self.start_line, old.length);
        let factor = self.factor(u, v);
        // The variance of a regression's value at (u, v): that of a sample of weight 1 times the
        // form of the inverse of the sums.
        let sums = self.prior.plus(&self.seen);
        let determinant = sums.determinant();
        let leverage = if determinant > 0.0 {
            (sums.vv * u * u - 2.0 * sums.uv * u * v + sums.uu * v * v) / determinant
        } else {
            u * u / sums.uu
        };
        let variance = (self.squares / self.batches).max(BATCH_DEVIATION * BATCH_DEVIATION / 9.0);
        let error = (sqrt(variance * leverage) * self.mean_factor / factor).min(ERROR_MAX);
        let time_ns = (old.time_ns * factor).min(TIME_NS_MAX);
        Knot { length: old.length, time_ns, error }
    }
}

/// The fixed and the bytes' part of a line at a length, for a quotient to the line's time.
fn parts_of(line: &Line, length: Bytes) -> (f64, f64) {
    let time_ns = line.time_ns(length).max(1.0);
    (1.0 / time_ns, length.0 as f64 / time_ns)
}

#[cfg(test)]
mod tests {
    use forebay_units::{Nanos, Offset};

    use super::*;

    const READ: Direction = Direction::Read;

    /// A device to learn from: 5 ms to position, 20 ns a byte.
    fn disk() -> DeviceProfile {
        DeviceProfile::from_parts(|_, order| match order {
            Order::Sequential => Curve::line(0.0, 20.0),
            Order::Random => Curve::line(5e6, 20.0),
        })
    }

    fn flat() -> DeviceProfile {
        DeviceProfile::from_parts(|_, _| Curve::line(100_000.0, 5.0)).with_error(0.5)
    }

    /// Batches one at a time, as fast as `device` is; every other one sequential.
    fn run(refinement: &mut Refinement, device: &DeviceProfile, lengths: &[Bytes], batches: usize) {
        let (mut now, mut start) = (refinement.completed, refinement.completed.0 << 20);
        for idx in 0..batches {
            let length = lengths[idx % lengths.len()];
            let order = if idx % 2 == 1 { Order::Sequential } else { Order::Random };
            start += if order == Order::Random { 1 << 30 } else { 0 };
            let batch = refinement.dispatched(now, READ, 7, ByteRange::new(Offset(start), length));
            assert_eq!(batch.order, order);
            start += length.0;
            now = now + device.curve(READ, order).time(length);
            refinement.completed(now, batch);
        }
    }

    #[test]
    fn nothing_is_said_before_enough_was_seen() {
        let mut refinement = Refinement::new(&flat());
        run(&mut refinement, &disk(), &[Bytes::kib(8)], 126);
        assert_eq!(refinement.profile(), None);
        run(&mut refinement, &disk(), &[Bytes::kib(8)], 20);
        assert!(refinement.profile().is_some());
    }

    #[test]
    fn a_device_that_is_as_it_was_stays_as_it_was() {
        let mut refinement = Refinement::new(&disk());
        run(&mut refinement, &disk(), &[Bytes::kib(8), Bytes::mib(1)], 2_000);
        let profile = refinement.profile().unwrap();
        for length in [Bytes::kib(4), Bytes::kib(64), Bytes::mib(8)] {
            let (before, after) = (disk().ratio(READ, length), profile.ratio(READ, length));
            assert!((after / before - 1.0).abs() < 0.01, "{length:?}: {before} {after}");
        }
        assert_eq!(profile.random_write, disk().random_write, "it was not written to");
    }

    #[test]
    fn a_device_that_was_only_assumed_is_learned() {
        let mut refinement = Refinement::new(&flat());
        let lengths = [4, 8, 64, 256, 1024].map(Bytes::kib);
        run(&mut refinement, &disk(), &lengths, 3_000);
        let profile = refinement.profile().unwrap();
        for length in lengths {
            let (true_ratio, found) =
                (disk().ratio(READ, length), profile.ratio_with_bounds(READ, length));
            assert!((found.value / true_ratio - 1.0).abs() < 0.1, "{true_ratio} {found:?}");
            assert!(found.low < true_ratio && true_ratio < found.high, "{true_ratio} {found:?}");
        }
    }

    #[test]
    fn a_length_that_no_batch_has_keeps_its_doubts() {
        let mut refinement = Refinement::new(&flat());
        run(&mut refinement, &disk(), &[Bytes::kib(8)], 3_000);
        let profile = refinement.profile().unwrap();
        let spread = |length| {
            let ratio = profile.ratio_with_bounds(READ, length);
            ratio.high / ratio.low
        };
        assert!(spread(Bytes::kib(8)) < 1.5, "{}", spread(Bytes::kib(8)));
        assert!(spread(Bytes::mib(8)) > 3.0, "{}", spread(Bytes::mib(8)));
    }

    #[test]
    fn a_device_that_changes_is_followed() {
        let mut refinement = Refinement::new(&disk());
        let twice = DeviceProfile::from_parts(|_, order| match order {
            Order::Sequential => Curve::line(0.0, 20.0),
            Order::Random => Curve::line(10e6, 20.0),
        });
        run(&mut refinement, &twice, &[Bytes::kib(8)], 8_000);
        let found = refinement.profile().unwrap().ratio(READ, Bytes::kib(8));
        let expected = twice.ratio(READ, Bytes::kib(8));
        assert!((found / expected - 1.0).abs() < 0.1, "{expected} {found}");
    }

    #[test]
    fn a_stall_of_a_minute_moves_little() {
        let mut refinement = Refinement::new(&disk());
        run(&mut refinement, &disk(), &[Bytes::kib(8)], 2_000);
        let before = refinement.profile().unwrap().ratio(READ, Bytes::kib(8));
        let range = ByteRange::new(Offset(1 << 50), Bytes::kib(8));
        let now = refinement.completed;
        let batch = refinement.dispatched(now, READ, 7, range);
        refinement.completed(now + Nanos::secs(60), batch);
        let after = refinement.profile().unwrap().ratio(READ, Bytes::kib(8));
        assert!((after / before - 1.0).abs() < 0.01, "{before} {after}");
    }

    #[test]
    fn with_several_in_flight_each_has_the_time_since_the_one_before() {
        let mut refinement = Refinement::new(&disk());
        let length = Bytes::kib(8);
        let service = disk().random_read.time(length);
        let (mut now, mut in_flight) = (Timestamp(0), alloc::collections::VecDeque::new());
        for idx in 0..1_000_u64 {
            let range = ByteRange::new(Offset(idx << 30), length);
            in_flight.push_back(refinement.dispatched(now, READ, 1, range));
            if in_flight.len() == 8 {
                now = now + service;
                refinement.completed(now, in_flight.pop_front().unwrap());
            }
        }
        let found = refinement.profile().unwrap().random_read.time(length);
        assert!(found.0.abs_diff(service.0) < service.0 / 50, "{service:?} {found:?}");
    }

    #[test]
    fn what_continues_another_file_or_the_other_way_is_random() {
        let mut refinement = Refinement::new(&disk());
        let mut order = |direction, file, start| {
            let range = ByteRange::new(Offset(start), Bytes(10));
            refinement.dispatched(Timestamp(0), direction, file, range).order
        };
        assert_eq!(order(READ, 1, 0), Order::Random);
        assert_eq!(order(READ, 1, 10), Order::Sequential);
        assert_eq!(order(READ, 2, 20), Order::Random);
        assert_eq!(order(READ, 2, 30), Order::Sequential);
        assert_eq!(order(Direction::Write, 2, 40), Order::Random);
        assert_eq!(order(Direction::Write, 2, 51), Order::Random);
    }

    #[test]
    fn a_batch_without_bytes_or_time_says_nothing() {
        let mut refinement = Refinement::new(&disk());
        for length in [0, 8192].repeat(200) {
            let range = ByteRange::new(Offset(0), Bytes(length));
            let batch = refinement.dispatched(Timestamp(5), READ, 1, range);
            refinement.completed(Timestamp(5 + u64::from(length == 0)), batch);
        }
        assert_eq!(refinement.profile(), None);
    }
}
