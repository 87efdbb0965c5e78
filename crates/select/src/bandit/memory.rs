//! What was learned, by leaf of the tree and arm: shared by all parts, since they share the device.

use alloc::vec::Vec;

use forebay_sched::PolicyName;
use forebay_units::{Nanos, Timestamp};

use super::posterior::{BOUND_DEVIATIONS, Belief, Posterior};
use crate::auto::Learned;
use crate::math::sqrt;
use crate::tree::Leaf;

/// Most leaves that are remembered; beyond them the one is forgotten that was not asked for longest.
pub(crate) const LEAVES_MAX: usize = 256;
/// How long an arm is left alone after it was killed for the first time; doubled every time.
pub(crate) const QUARANTINE: Nanos = Nanos::secs(60);
const KILLS_MAX: u32 = 12;
const ARMS: usize = PolicyName::ALL.len();
/// Epochs of TO count less the older they are: as of so many.
const BASELINE_EPOCHS: f64 = 8.0;
const BASELINE_DEVIATION_MIN: f64 = 0.02;

/// An arm at a leaf.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arm {
    pub(crate) posterior: Posterior,
    /// Blocks of this run and, after a restart, of those before.
    pub(crate) blocks: u32,
    pub(crate) quarantined_until: Option<Timestamp>,
    /// How often it was killed.
    kills: u32,
}

/// How fast TO is here, in logarithms of bytes a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Baseline {
    epochs: f64,
    pub(crate) mean: f64,
    variance: f64,
}

/// A leaf.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    arms: [Arm; ARMS],
    pub(crate) baseline: Baseline,
}

/// All leaves that were met, the one that was asked for last at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    places: Vec<(usize, Place)>,
}

impl Arm {
    pub(crate) fn is_quarantined(&self, now: Timestamp) -> bool {
        self.quarantined_until.is_some_and(|until| now < until)
    }

    pub(crate) fn kill(&mut self, now: Timestamp) {
        self.quarantined_until = Some(now + Nanos(QUARANTINE.0 << self.kills.min(KILLS_MAX)));
        self.kills = self.kills.saturating_add(1);
    }

    /// It was not to blame.
    pub(crate) fn acquit(&mut self) {
        self.quarantined_until = None;
        self.kills = self.kills.saturating_sub(1);
    }
}

impl Baseline {
    /// An epoch of TO; `weight` of a whole one.
    pub(crate) fn add(&mut self, speed: f64, weight: f64) {
        let epochs = (self.epochs + weight).min(BASELINE_EPOCHS);
        let share = weight / epochs;
        let deviation = speed - self.mean;
        self.mean += share * deviation;
        self.variance = (1.0 - share) * (self.variance + share * deviation * deviation);
        self.epochs = epochs;
    }

    pub(crate) fn reset(&mut self, speed: f64) {
        *self = Self { epochs: 1.0, mean: speed, variance: 0.0 };
    }

    /// What TO is at least, by all that is known; nothing if it was not measured.
    pub(crate) fn low(&self) -> Option<f64> {
        let deviation = sqrt(self.variance).max(BASELINE_DEVIATION_MIN);
        // A part of an epoch says less.
        let few = sqrt(1.0 / self.epochs.clamp(1e-3, 1.0));
        (self.epochs > 0.0).then_some(self.mean - BOUND_DEVIATIONS * deviation * few)
    }
}

impl Place {
    pub(crate) fn arm(&self, policy: PolicyName) -> &Arm {
        &self.arms[policy as usize]
    }

    pub(crate) fn arm_mut(&mut self, policy: PolicyName) -> &mut Arm {
        &mut self.arms[policy as usize]
    }

    /// What is believed of a policy; nothing if it is no arm here, because the training had no
    /// word for it.
    pub(crate) fn belief(&self, leaf: &Leaf, policy: PolicyName) -> Option<Belief> {
        match policy {
            PolicyName::To => Some(Belief::BASELINE),
            _ => Some(self.arm(policy).posterior.belief(leaf.log_speedup(policy)?)),
        }
    }

    /// What is believed of all arms.
    pub(crate) fn beliefs(&self, leaf: &Leaf) -> impl Iterator<Item = (PolicyName, Belief)> {
        PolicyName::ALL
            .into_iter()
            .filter_map(move |policy| Some((policy, self.belief(leaf, policy)?)))
    }

    /// Whether anything was seen here.
    pub(crate) fn has_blocks(&self) -> bool {
        self.arms.iter().any(|arm| arm.posterior.blocks > 0.0)
    }
}

impl Memory {
    /// What is known of a leaf, to be read.
    pub(crate) fn find(&self, leaf: usize) -> Option<&Place> {
        self.places.iter().find(|(other, _)| *other == leaf).map(|(_, place)| place)
    }

    /// What is known of a leaf.
    pub(crate) fn place(&mut self, leaf: usize) -> &mut Place {
        match self.places.iter().rposition(|(other, _)| *other == leaf) {
            Some(index) => {
                let last = self.places.len() - 1;
                self.places[index..=last].rotate_left(1);
            }
            None => {
                if self.places.len() >= LEAVES_MAX {
                    self.places.remove(0);
                }
                self.places.push((leaf, Place::default()));
            }
        }
        let last = self.places.len() - 1;
        &mut self.places[last].1
    }

    /// By leaf and arm.
    pub(crate) fn learned(&self) -> Vec<Learned> {
        let mut learned: Vec<Learned> = Vec::new();
        for (leaf, place) in &self.places {
            for policy in PolicyName::ALL {
                let Posterior { mean, blocks, .. } = place.arm(policy).posterior;
                if blocks > 0.0 {
                    learned.push(Learned { leaf: *leaf, policy, mean, blocks });
                }
            }
        }
        learned.sort_by_key(|one| (one.leaf, one.policy));
        learned
    }

    pub(crate) fn restore(&mut self, learned: &Learned) {
        let posterior = Posterior::restored(learned.mean, learned.blocks);
        if posterior.blocks > 0.0 && learned.policy != PolicyName::To {
            let blocks = posterior.blocks as u32;
            let arm = Arm { posterior, blocks, ..Arm::default() };
            *self.place(learned.leaf).arm_mut(learned.policy) = arm;
        }
    }
}
