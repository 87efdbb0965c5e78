//! The selector beside a scheduler: told what that is told, it says when another policy is due.
//!
//! ```text
//! Auto ─┬─ Part (all, or one for each class): Load, Detector ─► leaf ─► Bandit ─► Switch
//!       └─ Memory: what was learned, by leaf and arm; of all parts together
//! ```
//!
//! A request costs a few counters and the detector. Everything else happens at looks, 20 to 100 a
//! second while something is under way. With classes there are at most 64 parts. Where there are more
//! classes, the part goes that was idle longest, for at least a second; while none is, the classes
//! without a part have TO, or what is pinned.

pub(crate) mod load;
mod part;
mod report;
mod start;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use forebay_sched::{PolicyName, Request};
use forebay_units::{Bytes, ClassId, Nanos, Timestamp};

use self::part::{Look, PartState, Parts};
use crate::bandit::leaf_at;
use crate::bandit::memory::Memory;
use crate::features::Features;
use crate::pattern::Pattern;
use crate::profile::DeviceProfile;
use crate::tree::Tree;

/// The least time of an epoch, in which a comparison shows anything; at least so many waits.
const EPOCH_MIN: Nanos = Nanos::secs(1);
const EPOCH_WAITS: u64 = 20;

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
    /// There are too many classes to watch this one: TO.
    Unwatched,
}

impl SwitchReason {
    /// As reports spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Prior => "prior",
            Self::Explore => "explore",
            Self::Exploit => "exploit",
            Self::Kill => "kill",
            Self::LightLoad => "light-load",
            Self::Pinned => "pinned",
            Self::Unwatched => "unwatched",
        }
    }
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
    start: PolicyName,
    parts: Parts,
    memory: Memory,
    /// Before then nothing is due.
    due: Timestamp,
    may_explore: bool,
    pinned: Option<PolicyName>,
    /// Of classes.
    pins: BTreeMap<ClassId, PolicyName>,
}

impl Auto {
    /// Nothing was seen yet.
    pub fn new(options: AutoOptions) -> Self {
        let start = start::policy(&options.tree, &options.device, options.stripe);
        let mut auto = Self {
            start,
            parts: Parts::default(),
            memory: Memory::default(),
            due: Timestamp(u64::MAX),
            may_explore: true,
            pinned: None,
            pins: BTreeMap::new(),
            options,
        };
        if !auto.options.by_class {
            let all = PartState::new(Part::All, auto.start, auto.options.stripe);
            auto.parts.insert(all);
        }
        auto
    }

    /// What to begin with.
    pub fn start(&self) -> PolicyName {
        self.start
    }

    /// The scheduler accepted a request.
    #[inline]
    pub fn submitted(&mut self, now: Timestamp, request: &Request) {
        let part = if self.options.by_class {
            let part = Part::Class(request.class);
            let (start, stripe) = (self.start, self.options.stripe);
            self.parts.of_class(now, request.class, || PartState::new(part, start, stripe))
        } else {
            Some(self.parts.first())
        };
        let Some(part) = part else { return self.submitted_unwatched(now, request.class) };
        part.submitted(now, request);
        let due = part.due();
        self.due = self.due.min(due);
    }

    #[cold]
    fn submitted_unwatched(&mut self, now: Timestamp, class: ClassId) {
        if self.parts.submitted_unwatched(now, class) {
            self.due = Timestamp(0);
        }
    }

    /// A batch of so many requests of a class was dispatched.
    #[inline]
    pub fn dispatched(&mut self, now: Timestamp, class: ClassId, requests: usize) {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        if let Some(load) = self.load(class) {
            load.dispatched(now, requests);
        }
    }

    /// A request ended after so many bytes, or was cancelled before it was dispatched.
    #[inline]
    pub fn ended(&mut self, now: Timestamp, request: &Request, moved: Bytes, was_dispatched: bool) {
        if let Some(load) = self.load(request.class) {
            load.ended(now, moved, was_dispatched);
        }
    }

    /// What is counted of a class, unless it is forgotten.
    #[inline]
    fn load(&mut self, class: ClassId) -> Option<&mut load::Load> {
        if !self.options.by_class {
            return Some(&mut self.parts.first().load);
        }
        self.parts.load(class)
    }

    /// Whether another policy is due now; to be asked until it says `None`, after completions and
    /// no less often than about ten times a second while anything is queued. Costs a comparison
    /// unless a look is due.
    #[inline]
    pub fn decide(&mut self, now: Timestamp) -> Option<Switch> {
        if now < self.due { None } else { self.look(now) }
    }

    fn look(&mut self, now: Timestamp) -> Option<Switch> {
        let (pinned, pins) = (self.pinned, &self.pins);
        let switch = self.parts.settle(|class| pins.get(&class).copied().or(pinned));
        if switch.is_some() {
            return switch;
        }
        let waits = Nanos(self.options.wait_max.0.saturating_mul(EPOCH_WAITS));
        for part in self.parts.iter_mut().filter(|part| part.due() <= now) {
            let look = Look {
                now,
                device: &self.options.device,
                tree: &self.options.tree,
                pinned: match part.part {
                    Part::All => self.pinned,
                    Part::Class(class) => self.pins.get(&class).copied().or(self.pinned),
                },
                may_explore: self.may_explore,
                epoch_min: EPOCH_MIN.max(waits),
            };
            // Another part may be due as well: it is looked at when this is asked again.
            if let Some(switch) = part.look(&look, &mut self.memory) {
                return Some(switch);
            }
        }
        self.due = self.parts.iter().map(PartState::due).min().unwrap_or(Timestamp(u64::MAX));
        None
    }

    /// The class has gone: what was seen of it, and what was pinned for it, is forgotten.
    pub fn forget(&mut self, class: ClassId) {
        self.pins.remove(&class);
        self.parts.remove(class);
    }

    /// Uses this policy until told otherwise, or, with `None`, chooses again. Takes effect with the
    /// next [`decide`](Self::decide). With classes, [`Part::All`] is every class that has no pin of
    /// its own; without, a pin of a class has no effect.
    pub fn pin(&mut self, part: Part, policy: Option<PolicyName>) {
        match (part, policy) {
            (Part::All, policy) => self.pinned = policy,
            (Part::Class(class), Some(policy)) => _ = self.pins.insert(class, policy),
            (Part::Class(class), None) => _ = self.pins.remove(&class),
        }
        let pins = &self.pins;
        let concerns = |of: Part| match (part, of) {
            (Part::All, Part::Class(class)) => !pins.contains_key(&class),
            (part, of) => part == of,
        };
        for state in self.parts.iter_mut() {
            // It may be the policy that is there, built otherwise.
            match policy.is_some() && concerns(state.part) {
                true => state.announce(),
                false => state.hurry(),
            }
        }
        self.parts.unsettle(|class| concerns(Part::Class(class)));
        self.due = Timestamp(0);
    }

    /// The scheduler was given its policies anew, built otherwise: everybody has
    /// [`start`](Self::start), until the next [`decide`](Self::decide) says again what each is to
    /// have. Policies wait at most `wait_max` from now on. What was learned stays.
    pub fn rebuilt(&mut self, wait_max: Nanos) {
        self.options.wait_max = wait_max;
        self.parts.iter_mut().for_each(PartState::announce);
        self.parts.unsettle_all();
        self.due = Timestamp(0);
    }

    /// Whether policies may be tried in order to learn about them; at first they may. To be taken
    /// back while some class gets less than was promised to it.
    pub fn set_may_explore(&mut self, may_explore: bool) {
        self.may_explore = may_explore;
    }

    /// The device was measured anew. What was learned stays.
    pub fn set_device(&mut self, device: DeviceProfile) {
        self.options.device = device;
    }

    /// Of every part, why its policy is what it is.
    pub fn why(&self, now: Timestamp) -> Vec<Why> {
        let why = |part: &PartState| {
            let pinned = match part.part {
                Part::All => self.pinned,
                Part::Class(class) => self.pins.get(&class).copied().or(self.pinned),
            };
            report::why(part, pinned, &self.options, &self.memory, now)
        };
        let unwatched = self.parts.unwatched().map(|(class, unwatched)| Why {
            part: Part::Class(class),
            policy: unwatched.policy.unwrap_or(self.start),
            reason: unwatched.reason(),
            pinned: self.pins.get(&class).copied().or(self.pinned),
            pattern: None,
            features: None,
            leaf: None,
            arms: Vec::new(),
            switches: Vec::new(),
        });
        self.parts.iter().map(why).chain(unwatched).collect()
    }

    /// What was learned, to be kept; by leaf and arm.
    pub fn learned(&self) -> Vec<Learned> {
        self.memory.learned()
    }

    /// What was learned earlier on this device, with this tree. What is no leaf of it, and numbers
    /// that cannot be true, are left out.
    pub fn restore(&mut self, learned: &[Learned]) {
        for one in learned {
            let leaf = leaf_at(&self.options.tree, one.leaf);
            if leaf.is_some_and(|leaf| leaf.log_speedup(one.policy).is_some()) {
                self.memory.restore(one);
            }
        }
    }
}
