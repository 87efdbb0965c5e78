//! What is believed of an arm: its speed over TO's in logarithms, from the tree and from blocks.

use crate::math::sqrt;

/// The tree's word counts as much as this many blocks, as long as blocks do not contradict it...
const PRIOR_BLOCKS: f64 = 8.0;
/// ...by more than it usually errs (a standard deviation, in logarithms).
const TREE_ERROR: f64 = 0.15;
/// No block is more exact than this, whatever the last ones say (standard deviation).
const DEVIATION_MIN: f64 = 0.02;
/// Standard deviations from the mean to the bounds.
pub(crate) const BOUND_DEVIATIONS: f64 = 2.0;
/// Of a surprise this many times what an arm was seen to be slower than TO makes it dangerous: a
/// tree that promised much and was contradicted by an arm just below TO is not trusted at all.
const DANGER: f64 = 8.0;
/// More blocks than this do not make it surer: what is old fades.
const BLOCKS_MAX: f64 = 64.0;
/// Differences are cut to this: a factor of e^3 = 20 in speed.
pub(crate) const DIFFERENCE_MAX: f64 = 3.0;
/// Page–Hinkley, in standard deviations of a block: what is no change, and what is one (with these
/// a false alarm comes every 465 blocks: Page 1954, Siegmund 1985).
const CHANGE_SLACK: f64 = 0.5;
const CHANGE_ALARM: f64 = 5.0;

/// What blocks have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Posterior {
    /// Mean of the differences.
    pub(crate) mean: f64,
    /// Of how many blocks.
    pub(crate) blocks: f64,
    /// Sum of the squares of their deviations from it.
    squares: f64,
    /// Page–Hinkley: how far differences have been above the mean of late, and below.
    above: f64,
    below: f64,
}

/// A mean with bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Belief {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Belief {
    /// TO over TO.
    pub(crate) const BASELINE: Self = Self { mean: 0.0, low: 0.0, high: 0.0 };
}

impl Posterior {
    /// What was learned in another run. What it said of itself does not matter: it is made usable.
    pub(crate) fn restored(mean: f64, blocks: f64) -> Self {
        if !mean.is_finite() || !blocks.is_finite() || blocks <= 0.0 {
            return Self::default();
        }
        Self {
            mean: mean.clamp(-DIFFERENCE_MAX, DIFFERENCE_MAX),
            blocks: blocks.min(BLOCKS_MAX),
            ..Self::default()
        }
    }

    /// The variance of a block, from those seen, from how far they are from what the tree said, and
    /// from a floor: a tree that was wrong once is trusted less (normal-inverse-gamma).
    fn variance(&self, trust: f64, surprise: f64) -> f64 {
        let all = trust + self.blocks;
        let between = trust * self.blocks / all * surprise * surprise;
        let floor = DEVIATION_MIN * DEVIATION_MIN;
        ((trust * floor + self.squares + between) / all).max(floor)
    }

    /// How many blocks the tree's word counts: less, the more it has been contradicted. What is true
    /// of a device unlike all that it was trained on is learned in a few blocks, not in dozens.
    fn trust(&self, surprise: f64) -> f64 {
        let errors = surprise / TREE_ERROR;
        PRIOR_BLOCKS / (1.0 + errors * errors * self.blocks.min(1.0))
    }

    /// With what the tree says. A surprise moves the bound on its own side only: what was better than
    /// was thought is not for that reason more dangerous. Nor is what gains less than was thought,
    /// as long as it is not slower than TO.
    pub(crate) fn belief(&self, prior: f64) -> Belief {
        let surprise = self.mean - prior;
        let trust = self.trust(surprise);
        let all = trust + self.blocks;
        let mean = (trust * prior + self.blocks * self.mean) / all;
        let danger = surprise.max(DANGER * self.mean).min(0.0);
        let bound = |surprise| BOUND_DEVIATIONS * sqrt(self.variance(trust, surprise) / all);
        Belief { mean, low: mean - bound(danger), high: mean + bound(surprise.max(0.0)) }
    }

    /// A block has ended, `weight` of a whole one. Whether that shows that things have changed;
    /// then nothing but this block is known.
    pub(crate) fn add(&mut self, difference: f64, weight: f64, prior: f64) -> bool {
        let difference = difference.clamp(-DIFFERENCE_MAX, DIFFERENCE_MAX);
        let deviation = difference - self.mean;
        if self.blocks >= 2.0 {
            let surprise = self.mean - prior;
            let usual = sqrt(self.variance(self.trust(surprise), surprise));
            let normal = deviation / usual * weight;
            self.above = (self.above + normal - CHANGE_SLACK).max(0.0);
            self.below = (self.below - normal - CHANGE_SLACK).max(0.0);
            if self.above.max(self.below) > CHANGE_ALARM {
                *self = Self { mean: difference, blocks: weight, ..Self::default() };
                return true;
            }
        }
        let blocks = self.blocks + weight;
        self.mean += deviation * weight / blocks;
        self.squares += weight * deviation * (difference - self.mean);
        self.blocks = blocks;
        if blocks > BLOCKS_MAX {
            self.squares *= BLOCKS_MAX / blocks;
            self.blocks = BLOCKS_MAX;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_blocks_the_tree_is_believed_closely() {
        let belief = Posterior::default().belief(0.3);
        assert!((belief.mean - 0.3).abs() < 1e-12 && belief.low > 0.28 && belief.high < 0.32);
    }

    #[test]
    fn one_block_against_the_tree_is_enough_to_doubt_and_two_to_leave_the_safe_set() {
        let mut posterior = Posterior::default();
        posterior.add(-0.7, 1.0, 0.3);
        assert!(posterior.belief(0.3).low < 0.0, "{:?}", posterior.belief(0.3));
        posterior.add(-0.7, 1.0, 0.3);
        assert!(posterior.belief(0.3).low < -0.051, "{:?}", posterior.belief(0.3));
    }

    #[test]
    fn a_few_blocks_prove_an_arm_that_the_tree_thought_nothing_of() {
        let mut posterior = Posterior::default();
        let blocks = (1..).find(|_| {
            posterior.add(0.5, 1.0, 0.0);
            posterior.belief(0.0).low >= 0.0
        });
        assert!(blocks.is_some_and(|blocks| blocks <= 2), "{blocks:?}");
        assert!(posterior.belief(0.0).high > 0.4, "what it may be at best is open");
    }

    #[test]
    fn bounds_close_in_with_blocks_and_not_below_what_is_remembered() {
        let mut posterior = Posterior::default();
        let mut widths = [0.0; 3];
        for (width, blocks) in widths.iter_mut().zip([4, 60, 1000]) {
            for block in 0..blocks {
                posterior.add(0.2 + if block % 2 == 0 { 0.1 } else { -0.1 }, 1.0, 0.2);
            }
            let belief = posterior.belief(0.2);
            assert!((belief.mean - 0.2).abs() < 0.02);
            *width = belief.high - belief.low;
        }
        assert!(widths[0] > widths[1] && posterior.blocks == BLOCKS_MAX, "{widths:?}");
    }

    #[test]
    fn a_change_is_seen_within_a_few_blocks_and_noise_is_none() {
        let mut posterior = Posterior::default();
        for block in 0..200 {
            let noise = [0.03, -0.02, 0.01, -0.03, 0.0][block % 5];
            assert!(!posterior.add(0.3 + noise, 1.0, 0.3), "block {block}");
        }
        let seen = (1..10).find(|_| posterior.add(-0.3, 1.0, 0.3));
        assert!(seen.is_some_and(|blocks| blocks <= 3), "{seen:?}");
        assert_eq!((posterior.mean, posterior.blocks), (-0.3, 1.0));
    }
}
