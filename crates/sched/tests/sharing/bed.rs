//! A test bed: classes that want batches of changing size, one device of some depth, virtual time.

use std::collections::BTreeMap;

use forebay_sched::sharing::{Pick, Shares, Work};
use forebay_units::{Bytes, ClassId, Direction, Nanos, Timestamp};

/// A pseudo-random sequence that depends on nothing but its seed (SplitMix64, Steele et al. 2014).
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

/// What the bed drives: the real thing, or a naive version of it.
pub(crate) trait Outer {
    fn ready(&mut self, now: Timestamp, class: ClassId);
    fn empty(&mut self, now: Timestamp, class: ClassId);
    fn pick(&mut self, now: Timestamp) -> Pick;
    fn charge(&mut self, now: Timestamp, class: ClassId, work: Work);
    fn complete(&mut self, now: Timestamp, class: ClassId, requests: u32);
}

impl Outer for Shares {
    fn ready(&mut self, now: Timestamp, class: ClassId) {
        self.ready(now, class);
    }
    fn empty(&mut self, now: Timestamp, class: ClassId) {
        self.empty(now, class);
    }
    fn pick(&mut self, now: Timestamp) -> Pick {
        self.pick(now)
    }
    fn charge(&mut self, now: Timestamp, class: ClassId, work: Work) {
        self.charge(now, class, work);
    }
    fn complete(&mut self, now: Timestamp, class: ClassId, requests: u32) {
        self.complete(now, class, requests);
    }
}

/// A read of so many bytes, one request.
pub(crate) fn read(bytes: u64) -> Work {
    Work { direction: Direction::Read, requests: 1, bytes: Bytes(bytes) }
}

/// What a class of the bed asks for.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// How large its batches are, in bytes.
    pub(crate) sizes: Sizes,
    /// How many batches it wants in a row, and how long it pauses between; always more if `None`.
    pub(crate) spells: Option<(u64, u64)>,
}

/// How large batches are.
#[derive(Clone, Debug)]
pub(crate) enum Sizes {
    /// Anything between the two.
    Between(u64, u64),
    /// Doubled at every batch from the first to the second, and from there again: an adaptive quantum.
    Doubling(u64, u64),
}

impl Sizes {
    fn next(&self, random: &mut Random, count: u64) -> u64 {
        match *self {
            Self::Between(low, high) => random.between(low, high),
            Self::Doubling(low, high) => {
                let steps = u64::from((high / low).ilog2()) + 1;
                low << (count % steps)
            }
        }
    }

    pub(crate) fn max(&self) -> u64 {
        match *self {
            Self::Between(_, high) | Self::Doubling(_, high) => high,
        }
    }
}

/// Something that happened to a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Ready,
    Empty,
    Dispatched(u64),
    Completed(u64),
}

/// When what happened to which class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: u64,
    pub(crate) class: usize,
    pub(crate) what: What,
}

/// The bed.
pub(crate) struct Bed {
    pub(crate) sources: Vec<Source>,
    pub(crate) depth: usize,
    /// Bytes that the device carries in a microsecond, all batches together.
    pub(crate) speed: u64,
    /// Up to so many nanoseconds are added to each batch, so that batches overtake each other.
    pub(crate) jitter: u64,
    pub(crate) seed: u64,
}

impl Bed {
    pub(crate) fn new(sources: Vec<Source>, depth: usize, seed: u64) -> Self {
        Self { sources, depth, speed: 1_000, jitter: 0, seed }
    }

    /// Runs until `count` batches have left or `end` is reached.
    pub(crate) fn run(&self, outer: &mut dyn Outer, count: u64, end: Nanos) -> Vec<Event> {
        let mut random = Random(self.seed);
        let mut log = Vec::new();
        // (when, number) -> class that wakes (no size), or batch that ends.
        let mut events: BTreeMap<(u64, u64), (usize, Option<u64>)> = BTreeMap::new();
        let mut left: Vec<u64> = vec![0; self.sources.len()];
        let mut had: Vec<u64> = vec![0; self.sources.len()];
        let (mut number, mut in_flight, mut device_free, mut dispatched) = (0, 0, 0, 0);
        for class in 0..self.sources.len() {
            number += 1;
            events.insert((0, number), (class, None));
        }
        let mut now = 0;
        while dispatched < count && now <= end.0 {
            while let Some((key, (class, ended))) = events.first_key_value().map(|(k, v)| (*k, *v))
                && key.0 <= now
            {
                events.remove(&key);
                let id = ClassId(class as u32);
                let what = match ended {
                    Some(size) => {
                        in_flight -= 1;
                        outer.complete(Timestamp(now), id, 1);
                        What::Completed(size)
                    }
                    None => {
                        left[class] = match self.sources[class].spells {
                            Some((batches, _)) => random.between(1, batches),
                            None => u64::MAX,
                        };
                        outer.ready(Timestamp(now), id);
                        What::Ready
                    }
                };
                log.push(Event { at: now, class, what });
            }
            let mut ask_at = u64::MAX;
            while in_flight < self.depth && dispatched < count {
                let class = match outer.pick(Timestamp(now)) {
                    Pick::Idle => break,
                    Pick::Wait { until } => {
                        assert!(until.0 > now, "a wait ends later than now");
                        ask_at = until.0;
                        break;
                    }
                    Pick::Class(class) => class.0 as usize,
                };
                assert!(left[class] > 0, "class {class} was picked and has nothing");
                let size = self.sources[class].sizes.next(&mut random, had[class]);
                (had[class], left[class]) = (had[class] + 1, left[class] - 1);
                outer.charge(Timestamp(now), ClassId(class as u32), read(size));
                (in_flight, dispatched) = (in_flight + 1, dispatched + 1);
                log.push(Event { at: now, class, what: What::Dispatched(size) });
                device_free = device_free.max(now) + (size * 1_000).div_ceil(self.speed);
                number += 1;
                let jitter = random.between(0, self.jitter);
                events.insert((device_free + jitter, number), (class, Some(size)));
                if left[class] == 0 {
                    outer.empty(Timestamp(now), ClassId(class as u32));
                    log.push(Event { at: now, class, what: What::Empty });
                    let pause = self.sources[class].spells.map_or(0, |(_, pause)| pause);
                    number += 1;
                    events.insert((now + random.between(0, pause), number), (class, None));
                }
            }
            let next = events.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
            assert!(next.min(ask_at) < u64::MAX, "somebody still wants something");
            now = next.min(ask_at);
        }
        log
    }
}

/// Which part of the log counts as service.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Dispatched,
    Completed,
}

/// The largest difference of service by weight, `|S_f·w_g − S_g·w_f|`, over every interval in which
/// both classes wanted to go all the time.
pub(crate) fn unfairness(
    log: &[Event],
    pair: [usize; 2],
    weights: [u64; 2],
    service: Service,
) -> i128 {
    let mut is_ready = [false; 2];
    let (mut lead, mut lowest, mut highest, mut worst) = (0i128, 0i128, 0i128, 0i128);
    for event in log {
        let Some(side) = pair.iter().position(|class| *class == event.class) else { continue };
        let mut restarts = false;
        match event.what {
            What::Ready => (is_ready[side], restarts) = (true, true),
            What::Empty => is_ready[side] = false,
            What::Dispatched(size) if service == Service::Dispatched => {
                lead += served(size, side, weights);
            }
            What::Completed(size) if service == Service::Completed => {
                lead += served(size, side, weights);
            }
            What::Dispatched(_) | What::Completed(_) => {}
        }
        if restarts {
            (lowest, highest) = (lead, lead);
        }
        if is_ready == [true; 2] {
            (lowest, highest) = (lowest.min(lead), highest.max(lead));
            worst = worst.max(highest - lowest);
        }
    }
    worst
}

fn served(size: u64, side: usize, weights: [u64; 2]) -> i128 {
    let part = i128::from(size) * i128::from(weights[1 - side]);
    if side == 0 { part } else { -part }
}

/// By how much `pair[0]` got ahead of `pair[1]`, `S_f·w_g − S_g·w_f`, over every interval in which the
/// second wanted to go all the time, whatever the first did.
pub(crate) fn advantage(log: &[Event], pair: [usize; 2], weights: [u64; 2]) -> i128 {
    let (mut is_ready, mut lead, mut lowest, mut worst) = (false, 0i128, 0i128, 0i128);
    for event in log {
        let Some(side) = pair.iter().position(|class| *class == event.class) else { continue };
        match event.what {
            What::Ready if side == 1 => (is_ready, lowest) = (true, lead),
            What::Empty if side == 1 => is_ready = false,
            What::Dispatched(size) => lead += served(size, side, weights),
            _ => {}
        }
        if is_ready {
            lowest = lowest.min(lead);
            worst = worst.max(lead - lowest);
        }
    }
    worst
}

/// Bytes dispatched to a class.
pub(crate) fn bytes_of(log: &[Event], class: usize) -> u64 {
    let of_class = log.iter().filter(|event| event.class == class);
    of_class
        .map(|event| match event.what {
            What::Dispatched(size) => size,
            _ => 0,
        })
        .sum()
}

/// `c_f·w_g + c_g·w_f`: one largest batch of each, by weight.
pub(crate) fn one_batch_each(sizes: [u64; 2], weights: [u64; 2]) -> i128 {
    i128::from(sizes[0]) * i128::from(weights[1]) + i128::from(sizes[1]) * i128::from(weights[0])
}
