//! A comparison: the policy in charge, twice another one, and again the one in charge. A linear
//! drift of the load cancels in the difference.

use forebay_sched::PolicyName;

use super::epoch::{Goal, Length};

/// What follows an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Another epoch.
    Continue,
    /// The other one's speed less that of the policy in charge, in logarithms.
    Over(f64),
}

/// A comparison under way.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// What the policy in charge is compared with.
    pub(crate) arm: PolicyName,
    pub(crate) goal: Goal,
    /// Of the policy in charge, before.
    before: f64,
    /// Sum of the other one's.
    speeds: f64,
    epochs: u32,
    /// The other one has had its turn.
    is_played: bool,
}

impl Trial {
    pub(crate) fn new(arm: PolicyName, goal: Goal, before: f64) -> Self {
        Self { arm, goal, before, speeds: 0.0, epochs: 0, is_played: false }
    }

    /// Whether the other one is to be in force.
    pub(crate) fn is_playing(&self) -> bool {
        !self.is_played
    }

    fn is_whole(&self) -> bool {
        self.goal.length == Length::Whole
    }

    /// Of the policy in charge, before.
    pub(crate) fn before(&self) -> f64 {
        self.before
    }

    /// Epochs of the other one.
    pub(crate) fn epochs(&self) -> u64 {
        if self.is_whole() { 2 } else { 1 }
    }

    /// An epoch has ended at this speed; a cut one is the other one's last.
    pub(crate) fn step(&mut self, speed: f64, is_cut: bool) -> Step {
        if self.is_played {
            let own = (self.before + speed) / 2.0;
            return Step::Over(self.mean() - own);
        }
        self.speeds += speed;
        self.epochs += 1;
        self.is_played = is_cut || u64::from(self.epochs) >= self.epochs();
        match self.is_played && !self.is_whole() {
            true => Step::Over(self.mean() - self.before),
            false => Step::Continue,
        }
    }

    fn mean(&self) -> f64 {
        self.speeds / f64::from(self.epochs.max(1))
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Nanos;

    use super::*;

    #[test]
    fn a_linear_drift_cancels() {
        let mut trial =
            Trial::new(PolicyName::Sjf, Goal::new(Length::Whole, Nanos::secs(1), 8), 1.0);
        assert_eq!(trial.step(1.5 + 0.1, false), Step::Continue);
        assert!(trial.is_playing());
        assert_eq!(trial.step(1.5 + 0.2, false), Step::Continue);
        assert!(!trial.is_playing());
        let Step::Over(difference) = trial.step(1.0 + 0.3, false) else { panic!("it is over") };
        assert!((difference - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_short_one_is_over_after_one_epoch() {
        let mut trial =
            Trial::new(PolicyName::To, Goal::new(Length::Short, Nanos::secs(1), 8), 1.0);
        assert_eq!(trial.step(0.25, false), Step::Over(-0.75));
    }
}
