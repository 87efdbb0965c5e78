//! A policy that is chosen: a selector beside the scheduler, told what that is told.
//!
//! It is asked whenever something is decided, that is after each submission and completion; while
//! neither happens no other policy could do better, so nobody is woken for it. One selector chooses
//! for all classes together: what a class has learned would hold its place for ever.

use forebay_device::Profile;
use forebay_prior::default_tree;
use forebay_sched::{Accepted, PolicyName, PolicySettings, Request, Scheduler, build, source};
use forebay_select::profile::Order;
use forebay_select::{Auto, AutoOptions, DeviceProfile, Part, Switch, Why};
use forebay_trace::{Adjustment, PolicyChoice, Traced};
use forebay_units::{Bytes, Timestamp};

use crate::controller::Controller;
use crate::error::Error;

/// From this size on a request counts as large: the stripe that the tree was trained with.
const STRIPE: Bytes = Bytes::kib(32);

/// How far storage may be from what it is taken for: by half, as a standard error.
const STORAGE_ERROR: f64 = 0.5;

/// What carries requests out, as far as somebody who embeds a controller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// It has an arm that moves.
    Disk,
    /// It has none.
    Flash,
}

impl Storage {
    /// What it is taken for.
    fn profile(self) -> DeviceProfile {
        let name = if self == Self::Disk { "hdd-57" } else { "ssd" };
        let model = Profile::by_name(name).expect("both are among the models");
        let times = DeviceProfile::of_model(|direction, order, length| match order {
            Order::Sequential => model.sequential_time(direction, length),
            Order::Random => model.random_time(direction, length),
        });
        times.with_error(STORAGE_ERROR)
    }
}

/// A selector, and what its policies are built with.
pub struct Selection {
    auto: Auto,
    storage: Storage,
    settings: PolicySettings,
}

impl Selection {
    /// One that has seen nothing yet, in front of this storage.
    pub fn new(storage: Storage, settings: PolicySettings) -> Self {
        let auto = Auto::new(AutoOptions {
            device: storage.profile(),
            tree: default_tree(),
            stripe: STRIPE,
            by_class: false,
            wait_max: settings.limits.wait_max,
        });
        Self { auto, storage, settings }
    }

    /// The policy that it begins with.
    pub fn start(&self) -> PolicyName {
        self.auto.start()
    }

    /// Goes on where another one stands: of other storage, with what it has learned.
    fn follow(&mut self, other: &mut Self) {
        if self.storage == other.storage {
            core::mem::swap(&mut self.auto, &mut other.auto);
            self.auto.rebuilt(self.settings.limits.wait_max);
        } else {
            self.auto.restore(&other.auto.learned());
        }
    }

    /// A request was accepted.
    pub(crate) fn submitted(&mut self, now: Timestamp, request: &Request, is_bypassed: bool) {
        self.auto.submitted(now, request);
        if is_bypassed {
            self.auto.dispatched(now, request.class, 1);
        }
    }

    /// A batch was dispatched, which is of one class.
    pub(crate) fn dispatched(&mut self, now: Timestamp, members: &[Accepted]) {
        if let Some(first) = members.first() {
            self.auto.dispatched(now, first.request.class, members.len());
        }
    }

    /// Why the policy is what it is.
    pub(crate) fn why(&self, now: Timestamp) -> Option<Why> {
        self.auto.why(now).into_iter().find(|why| why.part == Part::All)
    }

    /// A request is over, or was taken back before it was dispatched.
    pub(crate) fn ended(
        &mut self,
        now: Timestamp,
        request: &Request,
        moved: Bytes,
        was_dispatched: bool,
    ) {
        self.auto.ended(now, request, moved, was_dispatched);
    }

    /// Carries out what is due.
    #[inline]
    pub(crate) fn choose(&mut self, now: Timestamp, scheduler: &mut Traced) {
        while let Some(switch) = self.auto.decide(now) {
            self.carry_out(now, &switch, scheduler);
        }
    }

    #[cold]
    fn carry_out(&self, now: Timestamp, switch: &Switch, scheduler: &mut Traced) {
        debug_assert_eq!(switch.part, Part::All, "it is told to choose for all together");
        if let Some(choice) = PolicyChoice::of(switch.policy, &self.settings) {
            let switched = scheduler.adjust(now, &Adjustment::Policy(choice));
            debug_assert!(switched.is_ok(), "there are classes, or they are not asked for");
            return;
        }
        scheduler.change(now, "policy", switch.policy.as_str(), |scheduler| {
            match scheduler.has_classes() {
                true => {
                    let switched =
                        scheduler.switch_policies(now, source(switch.policy, &self.settings));
                    debug_assert!(switched.is_ok(), "there are classes");
                }
                false => {
                    drop(scheduler.switch_policy(now, build(switch.policy, &self.settings)));
                }
            }
        });
    }

    /// Says in a trace that begins which policy is in charge.
    pub(crate) fn note_policy(&self, now: Timestamp, scheduler: &mut Traced) {
        let name = scheduler.policy_name();
        let choice = name.parse().ok().and_then(|name| PolicyChoice::of(name, &self.settings));
        if let Some(adjustment) = choice.map(Adjustment::Policy) {
            scheduler.change(now, &adjustment.key(), &adjustment.value(), |_| ());
        }
    }
}

impl Controller {
    /// Changes something at the scheduler as [`configure`](Self::configure) does and, unless that
    /// answers `None`, has `selection` choose the policy from then on, for all classes together; it
    /// goes on where the one before stands. Without a selection the policy stays as `change` leaves it.
    /// `change` is to put the policy in charge that the selector begins with.
    ///
    /// # Errors
    /// Only those of every call: [`Error::Forked`], [`Error::Broken`].
    pub fn choose<R>(
        &self,
        key: &str,
        value: &str,
        selection: Option<Selection>,
        change: impl FnOnce(&mut Scheduler, Timestamp) -> Option<R>,
    ) -> Result<Option<R>, Error> {
        self.check_process()?;
        let mut selection = selection.map(Box::new);
        let (changed, old) = self.change(|locked, now| {
            let changed =
                locked.scheduler.try_change(now, key, value, |scheduler| change(scheduler, now));
            if changed.is_some() {
                locked.changed.forget_policies();
                if let (Some(new), Some(old)) = (&mut selection, &mut locked.selection) {
                    new.follow(old);
                }
                core::mem::swap(&mut locked.selection, &mut selection);
            }
            (changed, selection)
        })?;
        // Not under the lock.
        drop(old);
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use forebay_sched::Access;
    use forebay_units::{ByteRange, ClassId, ClientId, FileIndex, Nanos, Offset};

    use super::*;

    #[test]
    fn another_parameter_loses_nothing_of_what_was_seen_and_other_storage_does() {
        let settings = PolicySettings::default();
        let mut old = Selection::new(Storage::Disk, settings);
        let mut now = Timestamp(0);
        for number in 0..300 {
            let request = Request {
                tag: 0,
                file: FileIndex(0),
                access: Access::Read,
                range: ByteRange::new(Offset(number * 8192), Bytes(8192)),
                client: ClientId(0),
                class: ClassId(0),
            };
            old.submitted(now, &request, true);
            now = now + Nanos::millis(1);
            old.ended(now, &request, Bytes(8192), true);
            while old.auto.decide(now).is_some() {}
        }
        let has_pattern = |selection: &Selection| selection.auto.why(now)[0].pattern.is_some();
        assert!(has_pattern(&old));
        let mut other = Selection::new(Storage::Flash, settings);
        other.follow(&mut old);
        assert!(!has_pattern(&other) && has_pattern(&old));
        let mut new = Selection::new(Storage::Disk, settings);
        new.follow(&mut old);
        assert!(has_pattern(&new));
        assert!(new.auto.decide(now).is_some(), "it says what is to be built anew");
    }
}
