//! The guarded bandit of one part: which policy has its turn, from paired epochs.
//!
//! Source:      the recommended design of `scheduling.md` 5.5, of three things: trees as in AGIOS 2015;
//!              conservative bandits (Wu, Shariff, Lattimore, Szepesvári 2016, CLUCB: explore only
//!              while what was earned stays above 1 - α of the baseline's); blocked comparisons
//!              ABBA, in which linear drift cancels.
//! Idea:        time order (TO) is the baseline, and every arm is judged by its difference from it in
//!              the logarithm of bytes over busy time. The leaf of the tree says what to begin with.
//!              Now and then another arm has two epochs between two of the one in charge; TO itself
//!              too, so that it is known what it would do. An arm that is 10 % slower than TO is
//!              found out by two epochs, stopped, and left alone for a while.
//! Units:       times are busy time: with at least one request here. Speeds are natural logarithms.
//! Cost:        nothing for a request; a look takes well under a microsecond, the end of an epoch a
//!              few: the arms of one leaf, at most eight.
//! Deviations:  1. The first two comparisons of an arm are short, parts of an epoch: while nothing is
//!              known of TO nothing can be noticed to hurt. 2. A killed policy is judged again by TO's
//!              next epoch: if TO is as slow, the load has changed, and the policy was not to blame.
//!              3. If the arm that was tried is killed, the one in charge goes on, of which at
//!              least as much is known as that it is no worse than TO. 4. No bound on the 99th
//!              percentile of latency: ends of requests do not say when these arrived, and to
//!              remember that would cost each request more than the rest of this together.
//!              5. The tree's word counts eight blocks only while blocks do not contradict it: with
//!              a fixed weight a policy that is 10 % slower than TO, and was believed to be twice as
//!              fast, would stay in charge for ten minutes.
//! Loses when:  the tree has no good word for the arm that is best here: an arm that is believed to
//!              be 5 % slower than TO is never tried. Runs of a few seconds have the tree's choice
//!              and nothing else. Phases shorter than an epoch never end a comparison.

mod budget;
mod epoch;
mod ground;
mod light;
pub(crate) mod memory;
pub(crate) mod posterior;
mod trial;

use forebay_sched::PolicyName;
use forebay_units::{Nanos, Timestamp};

use self::budget::Budget;
use self::epoch::{Epoch, Goal, Length, Measured};
use self::ground::Ground;
use self::light::Light;
use self::memory::{Memory, Place};
use self::posterior::Belief;
use self::trial::{Step, Trial};
use crate::auto::SwitchReason;
use crate::auto::load::Load;
use crate::tree::{Leaf, Node, Tree};

/// ln 0.95: what an arm may at worst be believed to be in order to be tried.
pub(crate) const SAFE: f64 = -0.051_293_294_387_550_58;
/// ln 0.9: what is slower than this, of TO, hurts.
const HURTS: f64 = -0.105_360_515_657_826_3;
/// By how much another policy has to be better: 5 %.
const HYSTERESIS: f64 = 0.048_790_164_169_432;
/// How long a policy stays in charge, unless it hurts or the pattern changes.
const DWELL: Nanos = Nanos::secs(5);
/// Comparisons of other arms between two with TO.
const TRIALS_A_CHECK: u32 = 2;

/// What a bandit is told at a look.
pub(crate) struct Sight<'a> {
    pub(crate) now: Timestamp,
    pub(crate) load: &'a Load,
    pub(crate) tree: &'a Tree,
    /// The leaf that fits what is seen; nothing before enough was seen.
    pub(crate) leaf: Option<usize>,
    pub(crate) pinned: Option<PolicyName>,
    pub(crate) may_explore: bool,
    /// An epoch takes at least this.
    pub(crate) epoch_min: Nanos,
}

/// A policy that was stopped, to be judged by what TO does next.
#[derive(Clone, Copy, Debug)]
struct Accused {
    policy: PolicyName,
    speed: f64,
}

/// Which policy a part has, and what it is doing to find a better one.
#[derive(Clone, Debug)]
pub(crate) struct Bandit {
    /// What is in force, and why.
    pub(crate) policy: PolicyName,
    pub(crate) reason: SwitchReason,
    /// What is in charge when nothing is tried.
    incumbent: PolicyName,
    because: SwitchReason,
    since: Timestamp,
    ground: Ground,
    light: Light,
    epoch: Epoch,
    trial: Option<Trial>,
    trials_since_check: u32,
    accused: Option<Accused>,
    strikes: u32,
    budget: Budget,
}

impl Bandit {
    pub(crate) fn new(start: PolicyName) -> Self {
        Self {
            policy: start,
            reason: SwitchReason::Start,
            incumbent: start,
            because: SwitchReason::Start,
            since: Timestamp(0),
            ground: Ground::default(),
            light: Light::default(),
            epoch: Epoch::default(),
            trial: None,
            trials_since_check: 0,
            accused: None,
            strikes: 0,
            budget: Budget::default(),
        }
    }

    /// The leaf that it acts on.
    pub(crate) fn leaf(&self) -> Option<usize> {
        self.ground.leaf()
    }

    /// Whether it wants to be asked soon again.
    pub(crate) fn is_in_a_hurry(&self) -> bool {
        self.is_free()
            && (self.trial.is_some() || self.leaf().is_none() || !self.epoch.is_settled())
    }

    /// Whether it may choose: nothing is pinned, and there is enough to order.
    fn is_free(&self) -> bool {
        ![SwitchReason::Pinned, SwitchReason::LightLoad].contains(&self.reason)
    }

    /// Looks at what has happened; whether another policy is to be in force now.
    pub(crate) fn look(&mut self, sight: &Sight<'_>, memory: &mut Memory) -> bool {
        self.budget.spend(sight.load.busy, self.is_free(), self.is_trying());
        let (policy, reason) = self.choose(sight, memory);
        self.reason = reason;
        if policy == self.policy {
            return false;
        }
        self.policy = policy;
        let length = self.trial.as_ref().map_or(Length::Whole, |trial| trial.goal.length);
        self.epoch = Epoch::unsettled(sight.load, length);
        true
    }

    /// Whether a policy is in force in order to learn about it.
    fn is_trying(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| trial.is_playing())
    }

    fn choose(&mut self, sight: &Sight<'_>, memory: &mut Memory) -> (PolicyName, SwitchReason) {
        let is_light = self.light.look(sight.now, sight.load);
        let is_new = match sight.leaf {
            Some(index) => self.ground.see(sight.now, index),
            None => false,
        };
        // Another leaf than the one that fits at this very moment may be the one to act on.
        let known = self.leaf().and_then(|index| Some((index, leaf_at(sight.tree, index)?)));
        if let (true, Some((index, leaf))) = (is_new, known) {
            self.arrive(sight, memory.place(index), leaf);
        }
        if let Some(policy) = sight.pinned {
            self.give_up(sight);
            return (policy, SwitchReason::Pinned);
        }
        if is_light {
            self.give_up(sight);
            return (PolicyName::To, SwitchReason::LightLoad);
        }
        if let Some((index, leaf)) = known {
            if self.is_trying() && !sight.may_explore {
                self.give_up(sight);
            }
            self.watch(sight, memory.place(index), leaf);
        }
        match &self.trial {
            Some(trial) if trial.is_playing() => (trial.arm, SwitchReason::Explore),
            _ => (self.incumbent, self.because),
        }
    }

    /// Whatever was being compared cannot be compared any more.
    fn give_up(&mut self, sight: &Sight<'_>) {
        self.trial = None;
        self.accused = None;
        self.strikes = 0;
        self.epoch = Epoch::unsettled(sight.load, Length::Whole);
    }

    /// The pattern is another one: what is known of it decides.
    fn arrive(&mut self, sight: &Sight<'_>, place: &mut Place, leaf: &Leaf) {
        self.give_up(sight);
        self.trials_since_check = 0;
        let best = best(place, leaf, sight.now);
        let mut policy = best.0;
        if !place.has_blocks() && !place.arm(leaf.policy).is_quarantined(sight.now) {
            // The training may have preferred a simpler one that is as good.
            let given = place.belief(leaf, leaf.policy);
            if given.is_some_and(|it| it.low >= 0.0 && best.1.mean - it.mean < HYSTERESIS) {
                policy = leaf.policy;
            }
        }
        self.promote(sight.now, place, policy);
    }

    fn promote(&mut self, now: Timestamp, place: &Place, policy: PolicyName) {
        self.incumbent = policy;
        self.because = match place.has_blocks() {
            true => SwitchReason::Exploit,
            false => SwitchReason::Prior,
        };
        self.since = now;
        self.strikes = 0;
        self.budget.forget_unverified();
    }

    /// Ends an epoch that is over.
    fn watch(&mut self, sight: &Sight<'_>, place: &mut Place, leaf: &Leaf) {
        if self.is_trying() && self.budget.is_overdrawn() {
            // Slower than it was believed to be: what was seen until now has to do.
            self.end_epoch(sight, place, leaf, true);
        } else if self.epoch.is_over(sight.load, &self.goal(sight, place)) {
            self.end_epoch(sight, place, leaf, false);
        }
    }

    fn goal(&self, sight: &Sight<'_>, place: &Place) -> Goal {
        if let Some(trial) = &self.trial {
            return trial.goal;
        }
        // A policy of which little is known is looked at more often, to be found out soon.
        let length = match sureness(place, self.incumbent) {
            Length::Whole => Length::Whole,
            Length::Glance | Length::Short => Length::Short,
        };
        Goal::new(length, sight.epoch_min, sight.load.outstanding())
    }

    fn end_epoch(&mut self, sight: &Sight<'_>, place: &mut Place, leaf: &Leaf, is_cut: bool) {
        let measured = self.epoch.end(sight.load);
        if !measured.is_loaded() || measured.requests == 0 && !self.is_trying() {
            // Of no use to compare with.
            self.trial = None;
            return;
        }
        let speed = measured.speed();
        let weight = self.goal(sight, place).length.weight();
        let baseline = place.baseline.low();
        match (self.policy, baseline) {
            (PolicyName::To, _) => {}
            (_, Some(_)) => self.budget.earn(measured.busy, speed - place.baseline.mean),
            (policy, None) => {
                let believed = place.belief(leaf, policy).map_or(0.0, |belief| belief.low);
                self.budget.earn_unverified(measured.busy, believed);
            }
        }
        if self.policy == PolicyName::To && measured.is_enough() {
            match self.accused.take() {
                Some(accused) => self.judge(accused, speed, place, leaf),
                None => place.baseline.add(speed, weight),
            }
        }
        let hurts = self.policy != PolicyName::To
            && baseline.is_some_and(|baseline| speed < baseline + HURTS);
        self.strikes = if hurts { self.strikes + 1 } else { 0 };
        match self.trial.take() {
            Some(trial) => self.proceed(trial, speed, is_cut, sight, place, leaf),
            None if self.strikes >= 2 => self.kill(sight.now, place, speed),
            None => {
                self.reconsider(sight.now, place, leaf);
                if self.incumbent == self.policy && self.accused.is_none() {
                    self.try_another(&measured, sight, place, leaf);
                }
            }
        }
    }

    /// Stops the policy in charge.
    fn kill(&mut self, now: Timestamp, place: &mut Place, speed: f64) {
        place.arm_mut(self.incumbent).kill(now);
        self.accused = Some(Accused { policy: self.incumbent, speed });
        (self.incumbent, self.because) = (PolicyName::To, SwitchReason::Kill);
        (self.since, self.strikes) = (now, 0);
    }

    /// TO's first epoch after a policy was stopped says whether that policy was to blame.
    fn judge(&mut self, accused: Accused, speed: f64, place: &mut Place, leaf: &Leaf) {
        let difference = accused.speed - speed;
        let Some(prior) = leaf.log_speedup(accused.policy) else { return };
        let believed = place.arm(accused.policy).posterior.belief(prior).low;
        self.budget.correct(difference - believed);
        let is_acquitted = difference >= SAFE;
        let arm = place.arm_mut(accused.policy);
        // What was found twice counts twice.
        arm.posterior.add(difference, if is_acquitted { 1.0 } else { 2.0 }, prior);
        arm.blocks += 1;
        if is_acquitted {
            arm.acquit();
            // Nor is TO what it was.
            place.baseline.reset(speed);
            self.since = Timestamp(0);
        } else {
            place.baseline.add(speed, 1.0);
        }
    }

    /// An epoch of a comparison is over.
    fn proceed(
        &mut self,
        mut trial: Trial,
        speed: f64,
        is_cut: bool,
        sight: &Sight<'_>,
        place: &mut Place,
        leaf: &Leaf,
    ) {
        match trial.step(speed, is_cut) {
            Step::Continue => self.trial = Some(trial),
            Step::Over(difference) => {
                self.budget.blocks += 1;
                self.strikes = 0;
                self.record(&trial, difference, sight.now, place, leaf);
                let length = trial.goal.length;
                let is_suspicious = length != Length::Whole && difference > length.alarm();
                if trial.arm == PolicyName::To && is_suspicious {
                    // TO goes on; what is certainly no loss shows who was right.
                    return self.kill(sight.now, place, trial.before());
                }
                self.reconsider(sight.now, place, leaf);
            }
        }
    }

    /// What a comparison says of an arm against TO.
    fn record(
        &mut self,
        trial: &Trial,
        difference: f64,
        now: Timestamp,
        place: &mut Place,
        leaf: &Leaf,
    ) {
        let weight = trial.goal.length.weight();
        let (arm, difference, weight) = match (self.incumbent, trial.arm) {
            (incumbent, PolicyName::To) => (incumbent, -difference, weight),
            (PolicyName::To, arm) => (arm, difference, weight),
            (incumbent, arm) => {
                // Over two legs: what is not known of the one in charge is not known of the other.
                let middle = place.belief(leaf, incumbent).map_or(0.0, |belief| belief.mean);
                (arm, difference + middle, weight / 2.0)
            }
        };
        let Some(prior) = leaf.log_speedup(arm) else { return };
        if arm == self.incumbent {
            let believed = place.arm(arm).posterior.belief(prior).low;
            self.budget.correct(difference - believed);
        }
        let it = place.arm_mut(arm);
        it.posterior.add(difference, weight, prior);
        it.blocks += 1;
        if arm == trial.arm && difference < -trial.goal.length.alarm() {
            it.kill(now);
        }
    }

    /// Puts the best arm in charge, if it is better by enough.
    fn reconsider(&mut self, now: Timestamp, place: &Place, leaf: &Leaf) {
        if self.accused.is_some() || now - self.since < DWELL {
            return;
        }
        let current = place.belief(leaf, self.incumbent).unwrap_or(Belief::BASELINE);
        let is_bad = self.incumbent != PolicyName::To
            && (current.low < 0.0 || place.arm(self.incumbent).is_quarantined(now));
        let (policy, belief) = best(place, leaf, now);
        // What the tree promises is no reason to leave a policy that was seen to be good: where it
        // promised too much of one, it did of others. A comparison will show.
        let is_seen = place.arm(policy).posterior.blocks > 0.0;
        let is_free = is_bad || self.incumbent == PolicyName::To || is_seen;
        if policy == self.incumbent || !is_free {
            return;
        }
        if is_bad || belief.mean - current.mean >= HYSTERESIS {
            self.promote(now, place, policy);
        }
    }

    /// Begins to compare the policy in charge with another one, if there is one that is worth it
    /// and the budget has room.
    fn try_another(&mut self, last: &Measured, sight: &Sight<'_>, place: &Place, leaf: &Leaf) {
        if !sight.may_explore || self.policy != self.incumbent {
            return;
        }
        let Some((arm, belief)) = self.candidate(sight.now, place, leaf) else { return };
        let current = place.belief(leaf, self.incumbent).unwrap_or(Belief::BASELINE);
        let is_check = arm == PolicyName::To;
        let length = sureness(place, if is_check { self.incumbent } else { arm });
        let goal = Goal::new(length, sight.epoch_min, sight.load.outstanding());
        // At a glance nothing is believed yet, not even that TO is slower; the budget cuts it short.
        let slower = match length {
            Length::Glance => 0.0,
            _ if is_check && place.baseline.low().is_some() => last.speed() - place.baseline.mean,
            Length::Short | Length::Whole => current.mean - belief.mean,
        };
        let epoch = goal.expected(last, slower, sight.load);
        let trial = Trial::new(arm, goal.at_most(epoch), last.speed());
        let time = Nanos(epoch.0 * trial.epochs());
        // TO costs nothing of what has to stay of TO's speed.
        if self.budget.has_time(time) && (is_check || self.budget.can_afford(time, belief.low)) {
            self.trials_since_check = if is_check { 0 } else { self.trials_since_check + 1 };
            self.trial = Some(trial);
        }
    }

    /// What to compare the policy in charge with.
    fn candidate(
        &self,
        now: Timestamp,
        place: &Place,
        leaf: &Leaf,
    ) -> Option<(PolicyName, Belief)> {
        let baseline = (PolicyName::To, Belief::BASELINE);
        let current = place.belief(leaf, self.incumbent).unwrap_or(Belief::BASELINE);
        let check = (self.incumbent != PolicyName::To).then_some(baseline);
        let is_unsure = place.arm(self.incumbent).posterior.blocks < 1.0;
        if check.is_some() && (is_unsure || self.trials_since_check >= TRIALS_A_CHECK) {
            return check;
        }
        let others = place.beliefs(leaf).filter(|(policy, belief)| {
            ![self.incumbent, PolicyName::To].contains(policy)
                && belief.low >= SAFE
                && belief.high > current.mean
                && !place.arm(*policy).is_quarantined(now)
        });
        others.reduce(|a, b| if b.1.high > a.1.high { b } else { a }).or(check)
    }
}

/// The leaf of that number.
pub(crate) fn leaf_at(tree: &Tree, index: usize) -> Option<&Leaf> {
    match tree.nodes().get(index) {
        Some(Node::Leaf(leaf)) => Some(leaf),
        _ => None,
    }
}

/// How long the next comparison of an arm has to be, by what was seen of it.
fn sureness(place: &Place, arm: PolicyName) -> Length {
    let blocks = place.arm(arm).posterior.blocks;
    if arm == PolicyName::To || blocks >= Length::Short.weight() {
        Length::Whole
    } else if blocks > 0.0 {
        Length::Short
    } else {
        Length::Glance
    }
}

/// The arm of which the most is certain, of those that were seen to be better than TO; if there
/// are none, of those that the tree believes to be; else TO.
fn best(place: &Place, leaf: &Leaf, now: Timestamp) -> (PolicyName, Belief) {
    let baseline = (PolicyName::To, Belief::BASELINE);
    let of = |is_seen: bool| {
        let good = place.beliefs(leaf).filter(|(policy, belief)| {
            let arm = place.arm(*policy);
            belief.low >= 0.0 && !arm.is_quarantined(now) && (arm.posterior.blocks > 0.0) == is_seen
        });
        good.fold(baseline, |a, b| if b.1.low > a.1.low { b } else { a })
    };
    match of(true) {
        (PolicyName::To, _) => of(false),
        seen => seen,
    }
}
