//! Random numbers that the events need: uniform ones, and log-normal factors.
//!
//! All in integers, so that the same seed gives the same bytes on every machine: a normal number is
//! the sum of twelve uniform ones less six (Irwin-Hall; it never exceeds six standard deviations),
//! and the exponential is a Taylor sum in fixed point.

use forebay_device::SplitMix64;
use forebay_units::Nanos;

/// 1 in fixed point.
const ONE: i64 = 1 << 30;

/// A sequence for one purpose, independent of those for others.
pub(crate) fn stream(seed: u64, purpose: u64, index: u64) -> SplitMix64 {
    let mut mix = SplitMix64::new(seed);
    let mut mix = SplitMix64::new(mix.next_u64() ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    SplitMix64::new(mix.next_u64() ^ index.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

/// A sequence for one purpose and one of the requests of a client: the same in whatever order they are made.
pub(crate) fn of_request(seed: u64, purpose: u64, client: u32, number: u32) -> SplitMix64 {
    let own = stream(seed, purpose, u64::from(client)).next_u64();
    stream(own, purpose, u64::from(number))
}

/// A time from 0 to `most`.
pub(crate) fn up_to(random: &mut SplitMix64, most: Nanos) -> Nanos {
    match most {
        Nanos::ZERO => Nanos::ZERO,
        Nanos(most) => Nanos(random.below(most.saturating_add(1).max(1))),
    }
}

/// Whether something of `permille` happens.
pub(crate) fn happens(random: &mut SplitMix64, permille: u32) -> bool {
    permille > 0 && random.below(1000) < u64::from(permille)
}

/// Factors whose logarithm has a standard deviation of `percent` and whose mean is 1.
#[derive(Clone, Debug)]
pub(crate) struct Noise {
    random: SplitMix64,
    percent: u32,
}

impl Noise {
    pub(crate) fn new(random: SplitMix64, percent: u32) -> Self {
        Self { random, percent }
    }

    /// A duration times the next factor.
    pub(crate) fn applied(&mut self, duration: Nanos) -> Nanos {
        if self.percent == 0 {
            return duration;
        }
        let sigma = i64::from(self.percent) * ONE / 100;
        // The mean of a log-normal variable is exp(mu + sigma^2 / 2): so mu is -sigma^2 / 2.
        let mu = -times(sigma, sigma) / 2;
        let factor = exponential(mu + times(sigma, self.normal()));
        Nanos((u128::from(duration.0) * factor as u128 / ONE as u128) as u64)
    }

    fn normal(&mut self) -> i64 {
        let sum: i64 = (0..12).map(|_| (self.random.next_u64() >> 34) as i64).sum();
        sum - 6 * ONE
    }
}

/// The product of two fixed-point numbers.
fn times(a: i64, b: i64) -> i64 {
    (i128::from(a) * i128::from(b) / i128::from(ONE)) as i64
}

/// e to the x: the Taylor sum of x / 16, four times squared.
fn exponential(x: i64) -> i64 {
    let x = x / 16;
    let (mut term, mut sum) = (ONE, ONE);
    for n in 1..8 {
        term = times(term, x) / n;
        sum += term;
    }
    (0..4).fold(sum, |power, _| times(power, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_right_to_a_millionth() {
        for (x, expected) in
            [(0.0, 1.0), (0.05, 1.051_271_1), (-0.3, 0.740_818_2), (2.0, 7.389_056_1)]
        {
            let got = exponential((x * ONE as f64) as i64) as f64 / ONE as f64;
            assert!((got / expected - 1.0_f64).abs() < 1e-6, "{x}: {got}");
        }
    }

    #[test]
    fn noise_has_the_stated_mean_and_spread() {
        for percent in [5, 30] {
            let mut noise = Noise::new(SplitMix64::new(1), percent);
            let count = 20_000;
            let draws: alloc::vec::Vec<f64> =
                (0..count).map(|_| noise.applied(Nanos(1_000_000)).0 as f64 / 1e6).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(count);
            let logs = draws.iter().map(|draw| draw.ln());
            let log_mean = logs.clone().sum::<f64>() / f64::from(count);
            let variance = logs.map(|log| (log - log_mean).powi(2)).sum::<f64>() / f64::from(count);
            let sigma = f64::from(percent) / 100.0;
            assert!((mean - 1.0).abs() < 0.01, "{percent}: mean {mean}");
            assert!((variance.sqrt() / sigma - 1.0).abs() < 0.03, "{percent}: {}", variance.sqrt());
        }
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let mut firsts: alloc::vec::Vec<u64> = (0..4)
            .flat_map(|purpose| (0..4).map(move |index| stream(7, purpose, index).next_u64()))
            .collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 16);
    }
}
