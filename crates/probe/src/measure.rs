//! Measures: runs of requests, one at a time, for each operation, order and length.
//!
//! ```text
//!   pilot of every point ─► five runs of every pair, in turn ─► runs of the pair whose ratio is
//!   (how many requests      (three, if the budget is spent)     least sure, until all are sure
//!    make a run)                                                or the budget is spent
//! ```
//!
//! A run is some requests in a row; its result is their mean, since what is to be predicted is
//! throughput, and a drive that reads ahead answers most requests at once and a few late. A point's
//! time is the median of its runs ([`Knot::of_runs`]). A sequential run and a random one of the same
//! operation and length are a pair and follow each other, and pairs take turns: what disturbs the
//! device or the computer for a while disturbs both sides of a ratio, and few runs of each.
//!
//! A sequential run begins somewhere, after one request that brings the device there and is not
//! timed. A run of writes ends with a sync that is, so that a cache that is only being filled is
//! not taken for the device.

use forebay_device::SplitMix64;
use forebay_engine::store::{Operation, Store, StoreFile};
use forebay_select::profile::Knot;
use forebay_select::{Curve, DeviceProfile, Order};
use forebay_units::{Bytes, Direction, Nanos, Timestamp};

use crate::clock::Clock;
use crate::error::Error;
use crate::one::{LENGTH_MAX, One};

/// Lengths that are measured: what programs ask for and what schedulers make of it.
pub const LENGTHS: [Bytes; 7] = [
    Bytes::kib(4),
    Bytes::kib(16),
    Bytes::kib(64),
    Bytes::kib(128),
    Bytes::kib(256),
    Bytes::mib(1),
    LENGTH_MAX,
];

/// Runs of each point before any has more: the fewest whose median ignores two that were disturbed.
const RUNS_MIN: usize = 5;

/// Runs of each point however little the budget: the fewest whose median ignores one.
const RUNS_LEAST: usize = 3;

/// A run need not be longer: then a disk has turned a dozen times.
const RUN_TIME_MAX: Nanos = Nanos::millis(100);

/// Runs after which a point is left alone: then the median's error is a tenth of a run's.
const RUNS_MAX: usize = 150;

/// A pair whose ratio is as sure as this needs no more runs.
const ERROR_ENOUGH: f64 = 0.03;

/// Into so many parts the budget goes for each point: the fewest runs, and as much again for the
/// pilot, positioning and what turns out to need more.
const SHARES_OF_A_POINT: u64 = 10;

/// Before a sequential run: enough for every member of a striped device to be in place.
const LEAD: Bytes = Bytes::mib(1);

/// What is written to fill a file is unlike what is written to measure.
pub(crate) const FILL_SEED: u64 = 0x5eed;

/// What is contiguous in a file that is not full; sequential runs stay within one.
pub const PIECE: Bytes = Bytes::mib(32);

/// The smallest file on which random requests are apart.
pub const SPAN_MIN: Bytes = Bytes(2 * PIECE.0);

/// What is measured: open files of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Read, if anything is.
    pub read: Option<Extent>,
    /// Written all over, if anything is. What it holds is lost.
    pub write: Option<Extent>,
    /// Whether the operating system's cache is between, and has to be emptied.
    pub is_cached: bool,
}

/// A file, and which of its bytes are used: all of them, or some [`PIECE`]s spread over it, so that
/// requests are far apart in a file of which only a part had to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    file: StoreFile,
    pieces: u64,
    /// From one piece to the next in the order of use.
    step: u64,
    used: u64,
}

impl Extent {
    /// All of a file of so many bytes, as far as pieces are whole.
    pub fn whole(file: StoreFile, size: Bytes) -> Self {
        let pieces = size.0 / PIECE.0;
        // The golden section of them, or the next number below that has no common divisor with it.
        let wanted = pieces * 618 / 1000;
        let step = (1..=wanted).rev().find(|step| common_divisor(*step, pieces) == 1);
        Self { file, pieces, step: step.unwrap_or(1), used: pieces }
    }

    /// The first so many pieces, in the order of [`piece`](Self::piece).
    pub(crate) fn with_used(self, used: u64) -> Self {
        Self { used: used.min(self.pieces), ..self }
    }

    /// How far apart requests may be.
    pub fn span(&self) -> Bytes {
        Bytes(self.pieces * PIECE.0)
    }

    /// Where a piece begins: the first ones of any number are spread evenly over the file.
    pub(crate) fn piece(&self, idx: u64) -> u64 {
        idx * self.step % self.pieces * PIECE.0
    }
}

/// Euclid's.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// How it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Time to spend; a slow device takes longer, a steady one less.
    pub budget: Nanos,
    /// Of the random places and of what is written.
    pub seed: u64,
}

/// A length of an operation and order, and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Read or written.
    pub direction: Direction,
    /// How the requests followed each other.
    pub order: Order,
    /// Length, time and error.
    pub knot: Knot,
    /// Runs that were timed.
    pub runs: usize,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Of the test file that is being filled.
    Filling {
        /// Bytes that are there.
        done: Bytes,
        /// Bytes that shall be, if the time suffices.
        size: Bytes,
    },
    /// A run is over.
    Measuring {
        /// Read or written.
        direction: Direction,
        /// In which order.
        order: Order,
        /// Requests of this length.
        length: Bytes,
        /// Each took so long.
        time: Nanos,
        /// The largest error of a pair's ratio; at least 1 as long as one has fewer than two runs.
        worst_error: f64,
        /// Of the budget.
        spent: Nanos,
    },
}

/// Measures what there is, telling `progress` after every run.
///
/// # Errors
/// What the store says; a file that is too small.
pub fn measure(
    store: &mut dyn Store,
    clock: &mut dyn Clock,
    subject: &Subject,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Vec<Point>, Error> {
    let mut one = One::new(store, clock, options.seed)?;
    let points = points(subject)?;
    let share = options.budget.0 / (SHARES_OF_A_POINT * points.len().max(1) as u64);
    let began = one.now();
    let mut bench = Bench {
        random: SplitMix64::new(options.seed),
        is_cached: subject.is_cached,
        run_time: RUN_TIME_MAX.min(Nanos(share)),
        one: &mut one,
        points,
    };
    for idx in 0..bench.points.len() {
        bench.pilot(idx)?;
    }
    while let Some(pair) = bench.next(began, options.budget) {
        for idx in [pair, pair + 1] {
            let time_ns = bench.run(idx)?;
            let Job { direction, order, length, .. } = bench.points[idx];
            progress(&Progress::Measuring {
                direction,
                order,
                length,
                time: Nanos(time_ns as u64),
                worst_error: bench.pairs().map(|pair| bench.error(pair)).fold(0.0, f64::max),
                spent: bench.one.now() - began,
            });
        }
    }
    bench.points.into_iter().map(Job::finish).collect()
}

/// The curves through the points. What was not measured is taken to be like the other operation,
/// with doubt: `None` if nothing was, or if an operation's points make no curves.
pub fn profile(points: &[Point]) -> Option<DeviceProfile> {
    let curves = |direction| {
        let curve = |order| {
            let its = |point: &&Point| (point.direction, point.order) == (direction, order);
            let knots: Vec<Knot> = points.iter().filter(its).map(|point| point.knot).collect();
            Curve::through(&knots)
        };
        Some([curve(Order::Sequential)?, curve(Order::Random)?])
    };
    let has = |direction| points.iter().any(|point| point.direction == direction);
    let curves_of = |direction, other| {
        if has(direction) {
            return curves(direction);
        }
        curves(other).map(|curves| curves.map(|curve| curve.with_error(UNLIKE_ERROR)))
    };
    let [sequential_read, random_read] = curves_of(Direction::Read, Direction::Write)?;
    let [sequential_write, random_write] = curves_of(Direction::Write, Direction::Read)?;
    Some(DeviceProfile { sequential_read, random_read, sequential_write, random_write })
}

/// How far writes are from reads, by a standard error, where only one of them was measured.
const UNLIKE_ERROR: f64 = 0.5;

/// What there is to measure: pairs of a sequential and a random point.
fn points(subject: &Subject) -> Result<Vec<Job>, Error> {
    let mut points = Vec::new();
    for (direction, extent) in [(Direction::Read, subject.read), (Direction::Write, subject.write)]
    {
        let Some(extent) = extent else { continue };
        if extent.span() < SPAN_MIN || extent.used == 0 {
            let (span, min) = (extent.span().0, SPAN_MIN.0);
            let text = format!("a file of {span} bytes is too small to measure: at least {min}");
            return Err(Error::fix(text));
        }
        for length in LENGTHS {
            for order in [Order::Sequential, Order::Random] {
                let (requests, times_ns, error) = (1, Vec::new(), 1.0);
                points.push(Job { direction, order, length, extent, requests, times_ns, error });
            }
        }
    }
    Ok(points)
}

/// A point on its way.
#[derive(Debug)]
struct Job {
    direction: Direction,
    order: Order,
    length: Bytes,
    extent: Extent,
    /// Of a run.
    requests: u64,
    times_ns: Vec<f64>,
    error: f64,
}

struct Bench<'a, 'b> {
    one: &'a mut One<'b>,
    points: Vec<Job>,
    random: SplitMix64,
    is_cached: bool,
    /// How long a run should take.
    run_time: Nanos,
}

impl Bench<'_, '_> {
    /// Where each pair begins.
    fn pairs(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.points.len()).step_by(2)
    }

    /// How sure the ratio of a pair is.
    fn error(&self, pair: usize) -> f64 {
        self.points[pair].error.hypot(self.points[pair + 1].error)
    }

    /// The pair whose turn it is; `None` when all is done.
    fn next(&self, began: Timestamp, budget: Nanos) -> Option<usize> {
        let runs = |pair: &usize| self.points[*pair].times_ns.len();
        let fewest = self.pairs().min_by_key(runs)?;
        let is_over = self.one.now() - began >= budget;
        if runs(&fewest) < if is_over { RUNS_LEAST } else { RUNS_MIN } {
            return Some(fewest);
        }
        if is_over {
            return None;
        }
        let is_open = |pair: &usize| self.error(*pair) > ERROR_ENOUGH && runs(pair) < RUNS_MAX;
        let by_error = |a: &usize, b: &usize| self.error(*a).total_cmp(&self.error(*b));
        self.pairs().filter(is_open).max_by(by_error)
    }

    /// Finds out how many requests make a run.
    fn pilot(&mut self, idx: usize) -> Result<(), Error> {
        let most = self.requests_max(idx);
        loop {
            let requests = self.points[idx].requests;
            let took = self.time(idx)? * requests as f64;
            let wanted = self.run_time.0 as f64 / took.max(1.0) * requests as f64;
            // What is much too short says little: a few requests more, and again.
            let is_enough = took * 4.0 >= self.run_time.0 as f64 || requests == most;
            let next = if is_enough { wanted as u64 } else { requests * 4 };
            self.points[idx].requests = next.clamp(1, most);
            if is_enough {
                return Ok(());
            }
        }
    }

    /// A sequential run stays within a piece.
    fn requests_max(&self, idx: usize) -> u64 {
        (PIECE.0 - LEAD.0) / self.points[idx].length.0
    }

    fn run(&mut self, idx: usize) -> Result<f64, Error> {
        let time_ns = self.time(idx)?;
        let job = &mut self.points[idx];
        job.times_ns.push(time_ns);
        job.error = Knot::of_runs(job.length, &mut job.times_ns.clone()).map_or(1.0, |it| it.error);
        Ok(time_ns)
    }

    /// The mean time of the requests of a run.
    fn time(&mut self, idx: usize) -> Result<f64, Error> {
        let Job { direction, order, length, extent, requests, .. } = self.points[idx];
        let file = extent.file;
        if self.is_cached {
            self.empty_cache(file, order)?;
        }
        let mut at = 0;
        if order == Order::Sequential {
            let piece = extent.piece(self.random.below(extent.used));
            // Aligned to the request's length, as file systems and striped devices have it.
            let first = LEAD.0.div_ceil(length.0);
            let last = PIECE.0 / length.0 - requests;
            at = piece
                + (first + self.random.below((last + 1).saturating_sub(first).max(1))) * length.0;
            self.transfer(direction, file, at - LEAD.0, LEAD)?;
        }
        let began = self.one.now();
        for _ in 0..requests {
            if order == Order::Random {
                let slot = self.random.below(PIECE.0 / length.0);
                at = extent.piece(self.random.below(extent.used)) + slot * length.0;
            }
            self.transfer(direction, file, at, length)?;
            at += length.0;
        }
        if direction == Direction::Write {
            self.one.call(file, Operation::DataSync)?;
        }
        Ok((self.one.now() - began).0.max(1) as f64 / requests as f64)
    }

    fn transfer(
        &mut self,
        direction: Direction,
        file: StoreFile,
        at: u64,
        length: Bytes,
    ) -> Result<(), Error> {
        match direction {
            Direction::Read => self.one.read(file, at, length),
            Direction::Write => self.one.write(file, at, length),
        }
    }

    /// Has the system forget the file, and read ahead only what is read in order.
    fn empty_cache(&mut self, file: StoreFile, order: Order) -> Result<(), Error> {
        let random = match order {
            Order::Sequential => ADVICE_NORMAL,
            Order::Random => ADVICE_RANDOM,
        };
        for advice in [random, ADVICE_DONT_NEED] {
            let whole =
                Operation::Advise { advice, offset: forebay_units::Offset(0), length: Bytes::ZERO };
            self.one.call(file, whole)?;
        }
        Ok(())
    }
}

/// `POSIX_FADV_NORMAL`, `POSIX_FADV_RANDOM` and `POSIX_FADV_DONTNEED` of Linux.
const ADVICE_NORMAL: u32 = 0;
const ADVICE_RANDOM: u32 = 1;
const ADVICE_DONT_NEED: u32 = 4;

impl Job {
    fn finish(mut self) -> Result<Point, Error> {
        let runs = self.times_ns.len();
        let knot = Knot::of_runs(self.length, &mut self.times_ns)
            .ok_or_else(|| Error::failed("the clock stands still"))?;
        Ok(Point { direction: self.direction, order: self.order, knot, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_visited_once_and_the_first_ones_are_spread() {
        for pieces in [2, 3, 10, 64, 128, 360, 1_000] {
            let extent = Extent::whole(StoreFile(0), Bytes(pieces * PIECE.0 + 5));
            let mut starts: Vec<u64> = (0..pieces).map(|idx| extent.piece(idx)).collect();
            starts.sort_unstable();
            starts.dedup();
            assert_eq!(starts.len() as u64, pieces);
            assert_eq!(starts.last(), Some(&(extent.span().0 - PIECE.0)));
        }
        let extent = Extent::whole(StoreFile(0), Bytes(128 * PIECE.0));
        let mut first: Vec<u64> = (0..13).map(|idx| extent.piece(idx) / PIECE.0).collect();
        first.sort_unstable();
        let gaps = first.windows(2).map(|two| two[1] - two[0]);
        assert!(gaps.clone().max() <= Some(20) && gaps.min() >= Some(3), "{first:?}");
    }
}
