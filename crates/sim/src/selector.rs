//! Who says which policy is in charge of a node: the caller once and for all, or a selector beside
//! the node's scheduler.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use forebay_device::Profile;
use forebay_sched::{Policy, PolicyName, PolicySettings, Request, Scheduler, build};
use forebay_select::{Auto, AutoOptions, DeviceProfile, Learned, Order, Part, Switch, Tree};
use forebay_units::{Bytes, ClassId, Nanos, Timestamp};

use crate::scenario::Scenario;

/// Who says which policy is in charge.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Always this one.
    Fixed(PolicyName),
    /// A selector beside the scheduler of every node.
    Auto(Automatic),
}

/// What selectors are made of.
#[derive(Clone, Debug)]
pub struct Automatic {
    /// What the training found.
    pub tree: Arc<Tree>,
    /// What the device is believed to be; the scenario's, measured without error, if `None`.
    pub device: Option<Box<DeviceProfile>>,
    /// What earlier runs have learned.
    pub learned: Vec<Learned>,
}

impl From<PolicyName> for Choice {
    fn from(policy: PolicyName) -> Self {
        Self::Fixed(policy)
    }
}

impl Automatic {
    /// With a tree, on the scenario's device, without experience.
    pub fn new(tree: Arc<Tree>) -> Self {
        Self { tree, device: None, learned: Vec::new() }
    }
}

impl Choice {
    /// What outcomes call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fixed(policy) => policy.as_str(),
            Self::Auto(_) => "auto",
        }
    }
}

/// What measuring a device without error would find: its closed forms.
pub fn device_profile(device: &Profile) -> DeviceProfile {
    DeviceProfile::of_model(|direction, order, length| match order {
        Order::Sequential => device.sequential_time(direction, length),
        Order::Random => device.random_time(direction, length),
    })
}

/// The policies of a node, and what changes them.
pub(crate) struct Selector {
    auto: Option<Auto>,
    settings: PolicySettings,
    by_class: bool,
    /// What everybody begins with.
    start: PolicyName,
    /// Since when each part has had its policy.
    parts: BTreeMap<Part, (PolicyName, Timestamp)>,
    last: PolicyName,
    times: BTreeMap<PolicyName, Nanos>,
    pub(crate) switches: u64,
}

impl Selector {
    /// With `wait_max` as the longest wait of a policy.
    pub(crate) fn new(choice: &Choice, scenario: &Scenario, settings: PolicySettings) -> Self {
        let by_class = scenario.scheduler.sharing != crate::scenario::Sharing::None;
        let auto = match choice {
            Choice::Fixed(_) => None,
            Choice::Auto(automatic) => {
                let device = automatic.device.as_deref().copied();
                let mut auto = Auto::new(AutoOptions {
                    device: device.unwrap_or_else(|| device_profile(&scenario.servers.device)),
                    tree: Arc::clone(&automatic.tree),
                    stripe: scenario.servers.stripe,
                    by_class,
                    wait_max: settings.limits.wait_max,
                });
                auto.restore(&automatic.learned);
                Some(auto)
            }
        };
        let start = match (choice, &auto) {
            (Choice::Fixed(policy), _) => *policy,
            (_, Some(auto)) => auto.start(),
            (Choice::Auto(_), None) => PolicyName::To,
        };
        Self::starting_with(auto, start, by_class, settings)
    }

    /// One policy for ever.
    pub(crate) fn fixed(policy: PolicyName, settings: PolicySettings) -> Self {
        Self::starting_with(None, policy, false, settings)
    }

    fn starting_with(
        auto: Option<Auto>,
        start: PolicyName,
        by_class: bool,
        settings: PolicySettings,
    ) -> Self {
        Self {
            auto,
            settings,
            by_class,
            start,
            parts: BTreeMap::new(),
            last: start,
            times: BTreeMap::new(),
            switches: 0,
        }
    }

    pub(crate) fn auto(&self) -> Option<&Auto> {
        self.auto.as_ref()
    }

    pub(crate) fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// What everybody begins with.
    pub(crate) fn start(&self) -> PolicyName {
        self.start
    }

    /// The policy of a class.
    pub(crate) fn policy_of(&self, class: ClassId) -> PolicyName {
        match self.auto {
            Some(_) => self.parts.get(&self.part(class)).map_or(self.start, |(policy, _)| *policy),
            None => self.start,
        }
    }

    fn part(&self, class: ClassId) -> Part {
        if self.by_class { Part::Class(class) } else { Part::All }
    }

    pub(crate) fn submitted(&mut self, now: Timestamp, request: &Request) {
        let part = self.part(request.class);
        if let Some(auto) = &mut self.auto {
            self.parts.entry(part).or_insert((self.start, now));
            auto.submitted(now, request);
        }
    }

    pub(crate) fn dispatched(&mut self, now: Timestamp, class: ClassId, requests: usize) {
        if let Some(auto) = &mut self.auto {
            auto.dispatched(now, class, requests);
        }
    }

    pub(crate) fn ended(
        &mut self,
        now: Timestamp,
        request: &Request,
        moved: Bytes,
        was_dispatched: bool,
    ) {
        if let Some(auto) = &mut self.auto {
            auto.ended(now, request, moved, was_dispatched);
        }
    }

    /// Carries out what the selector decides.
    pub(crate) fn decide(&mut self, now: Timestamp, scheduler: &mut Scheduler) {
        let Some(auto) = &mut self.auto else { return };
        while let Some(Switch { part, policy, .. }) = auto.decide(now) {
            let fresh: Box<dyn Policy> = build(policy, &self.settings);
            match part {
                Part::All => _ = scheduler.switch_policy(now, fresh),
                // A class too many shares a place, and a policy, with others.
                Part::Class(class) => _ = scheduler.switch_class_policy(now, class, fresh),
            }
            let (before, since) =
                self.parts.insert(part, (policy, now)).unwrap_or((self.start, now));
            *self.times.entry(before).or_default() += now - since;
            (self.last, self.switches) = (policy, self.switches + 1);
        }
    }

    /// The policy that had its turn last.
    pub(crate) fn last(&self) -> PolicyName {
        self.last
    }

    /// How long each policy was in charge until `end`; classes' times are added up.
    pub(crate) fn times(&self, end: Timestamp) -> BTreeMap<&'static str, u64> {
        let mut times = self.times.clone();
        for (policy, since) in self.parts.values() {
            *times.entry(*policy).or_default() += end - *since;
        }
        if self.auto.is_none() {
            times.insert(self.start, end - Timestamp(0));
        }
        times.into_iter().map(|(policy, time)| (policy.as_str(), time.0)).collect()
    }
}
