//! The selector beside a scheduler: told what that is told, it says when another policy is due.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use forebay_sched::{PolicyName, Request};
use forebay_units::{Bytes, ClassId, Nanos, Timestamp};

use crate::features::Features;
use crate::pattern::Pattern;
use crate::profile::DeviceProfile;
use crate::tree::Tree;

/// What an [`Auto`] is made of.
#[derive(Clone, Debug)]
pub struct AutoOptions {
    /// The device in front of which it decides.
    pub device: DeviceProfile,
    /// What the training found.
    pub tree: Arc<Tree>,
    /// Requests of at least this are large.
    pub stripe: Bytes,
    /// Whether each class has a policy of its own.
    pub by_class: bool,
    /// The longest wait of a policy; an epoch is at least twenty of them.
    pub wait_max: Nanos,
}

/// What a [`Switch`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// All requests.
    All,
    /// Those of one class.
    Class(ClassId),
}

/// Why a policy has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchReason {
    /// Nothing was seen yet: what the device alone suggests.
    Start,
    /// What the tree says of the pattern.
    Prior,
    /// To learn what it does here.
    Explore,
    /// It was seen to be the best.
    Exploit,
    /// The other one was seen to hurt.
    Kill,
    /// There is too little to order.
    LightLoad,
    /// Somebody said so.
    Pinned,
}

/// Another policy is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// For whom.
    pub part: Part,
    /// Which.
    pub policy: PolicyName,
    /// Why.
    pub reason: SwitchReason,
}

/// An arm as a person may read it.
#[derive(Clone, Debug, PartialEq)]
pub struct ArmReport {
    /// The policy.
    pub policy: PolicyName,
    /// Its speed over TO's: what is believed, and the bounds of that.
    pub speedup: f64,
    /// Lower bound.
    pub speedup_low: f64,
    /// Upper bound.
    pub speedup_high: f64,
    /// What the tree says.
    pub speedup_prior: f64,
    /// Blocks of paired epochs in which it was tried here.
    pub blocks: u32,
    /// Not tried before then.
    pub quarantined_until: Option<Timestamp>,
}

/// Why the policy of a part is what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// Of whom.
    pub part: Part,
    /// The policy now.
    pub policy: PolicyName,
    /// Why.
    pub reason: SwitchReason,
    /// What was pinned.
    pub pinned: Option<PolicyName>,
    /// What was seen.
    pub pattern: Option<Pattern>,
    /// What the tree was asked.
    pub features: Option<Features>,
    /// The index of the leaf, and the questions on the way.
    pub leaf: Option<(usize, Vec<String>)>,
    /// All arms.
    pub arms: Vec<ArmReport>,
    /// The last switches, the newest last.
    pub switches: Vec<(Timestamp, Switch)>,
}

/// What was learned about an arm at a leaf: what outlives a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// The leaf.
    pub leaf: usize,
    /// The arm.
    pub policy: PolicyName,
    /// Mean of the paired differences of the logarithm of speed.
    pub mean: f64,
    /// Blocks that it is the mean of.
    pub blocks: f64,
}

/// Detector, tree and bandits of all parts.
#[derive(Debug)]
pub struct Auto {
    options: AutoOptions,
}

impl Auto {
    /// Nothing was seen yet.
    pub fn new(options: AutoOptions) -> Self {
        Self { options }
    }

    /// What to begin with.
    pub fn start(&self) -> PolicyName {
        PolicyName::To
    }

    /// The scheduler accepted a request.
    #[inline]
    pub fn submitted(&mut self, now: Timestamp, request: &Request) {
        _ = (now, request);
    }

    /// A batch of so many requests of a class was dispatched.
    #[inline]
    pub fn dispatched(&mut self, now: Timestamp, class: ClassId, requests: usize) {
        _ = (now, class, requests);
    }

    /// A request ended after so many bytes, or was cancelled before it was dispatched.
    #[inline]
    pub fn ended(&mut self, now: Timestamp, request: &Request, moved: Bytes, was_dispatched: bool) {
        _ = (now, request, moved, was_dispatched);
    }

    /// Whether another policy is due now; to be asked until it says `None`, after completions and
    /// no less often than about ten times a second while anything is queued. Costs a comparison
    /// unless an epoch is over.
    #[inline]
    pub fn decide(&mut self, now: Timestamp) -> Option<Switch> {
        _ = (now, &self.options);
        None
    }

    /// The class has gone: what was seen of it is forgotten.
    pub fn forget(&mut self, class: ClassId) {
        _ = class;
    }

    /// Uses this policy until told otherwise, or, with `None`, chooses again. Takes effect with the
    /// next [`decide`](Self::decide).
    pub fn pin(&mut self, part: Part, policy: Option<PolicyName>) {
        _ = (part, policy);
    }

    /// The device was measured anew.
    pub fn set_device(&mut self, device: DeviceProfile) {
        self.options.device = device;
    }

    /// Of every part, why its policy is what it is.
    pub fn why(&self, now: Timestamp) -> Vec<Why> {
        _ = now;
        Vec::new()
    }

    /// What was learned, to be kept.
    pub fn learned(&self) -> Vec<Learned> {
        Vec::new()
    }

    /// What was learned earlier on this device, with this tree.
    pub fn restore(&mut self, learned: &[Learned]) {
        _ = learned;
    }
}
