//! What may be spent on learning: of time, and of what was earned over TO.

use forebay_units::Nanos;

use super::SAFE;

/// Of busy time, for comparisons: at first, and after so many of them. Thousandths.
const SHARE_FIRST: u64 = 50;
const SHARE: u64 = 20;
const BLOCKS_FIRST: u32 = 20;
/// Busy time before which nothing is compared, and of which nothing may be spent later. A run that
/// is over by then could not use what it learned, and leaves its clients in step; one whose tree is
/// wrong loses this long what the tree is wrong by.
const GRACE: Nanos = Nanos::secs(2);

/// The accounts of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    counter: Nanos,
    busy: Nanos,
    /// Of that, with a policy in force in order to learn about it.
    explored: Nanos,
    /// Comparisons.
    pub(crate) blocks: u32,
    /// What was earned over TO: speeds in logarithms times seconds.
    earned: f64,
    /// For how long that of the policy in charge was only believed; seconds.
    unverified: f64,
}

impl Budget {
    /// The counter of busy time is at `counter`; what has passed since it was read last counts if
    /// there was something to choose.
    pub(crate) fn spend(&mut self, counter: Nanos, counts: bool, is_trying: bool) {
        let passed = counter - core::mem::replace(&mut self.counter, counter);
        if counts {
            self.busy += passed;
        }
        if counts && is_trying {
            self.explored += passed;
        }
    }

    /// An epoch has earned so much over TO.
    pub(crate) fn earn(&mut self, busy: Nanos, log_speedup: f64) {
        self.earned += busy.0 as f64 / 1e9 * log_speedup.clamp(-3.0, 3.0);
    }

    /// The same, of the policy in charge before it was compared with TO.
    pub(crate) fn earn_unverified(&mut self, busy: Nanos, believed: f64) {
        self.earn(busy, believed);
        self.unverified += busy.0 as f64 / 1e9;
    }

    /// Another policy is in charge.
    pub(crate) fn forget_unverified(&mut self) {
        self.unverified = 0.0;
    }

    /// What was believed of the policy in charge was wrong by so much.
    pub(crate) fn correct(&mut self, error: f64) {
        self.earned += self.unverified * error.clamp(-3.0, 0.0);
        self.unverified = 0.0;
    }

    /// What comparisons may have taken by now.
    fn allowed(&self) -> Nanos {
        let share = if self.blocks < BLOCKS_FIRST { SHARE_FIRST } else { SHARE };
        Nanos((self.busy - GRACE).0 / 1000 * share)
    }

    /// Whether a comparison that is expected to take so long is within the share of time.
    pub(crate) fn has_time(&self, time: Nanos) -> bool {
        self.explored + time <= self.allowed()
    }

    /// Whether at least 95 % of what TO would have done is sure to remain after so long with an arm
    /// that is at worst so good.
    pub(crate) fn can_afford(&self, time: Nanos, low: f64) -> bool {
        let seconds = time.0 as f64 / 1e9;
        self.earned + low * seconds >= SAFE * (self.busy.0 as f64 / 1e9 + seconds)
    }

    /// Whether more was spent than may be.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.explored > self.allowed()
    }
}
