//! A policy that is chosen: a selector beside the scheduler, told what that is told.
//!
//! It is asked whenever something is decided, that is after each submission and completion; while
//! neither happens no other policy could do better, so nobody is woken for it. One selector chooses
//! for all classes together: what a class has learned would hold its place for ever.

use forebay_sched::{Accepted, PolicySettings, Request, build, source};
use forebay_select::{Auto, Part, Switch, Why};
use forebay_trace::Traced;
use forebay_units::{Bytes, Timestamp};

use crate::controller::Controller;
use crate::error::Error;

/// A selector, and what its policies are built with.
pub(crate) struct Selection {
    auto: Auto,
    settings: PolicySettings,
}

impl Selection {
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
        if scheduler.has_classes() {
            let policies = source(switch.policy, &self.settings);
            let switched = scheduler.change(now, "policy", switch.policy.as_str(), |scheduler| {
                scheduler.switch_policies(now, policies)
            });
            debug_assert!(switched.is_ok(), "there are classes");
        } else {
            drop(scheduler.switch_policy(now, build(switch.policy, &self.settings)));
        }
    }
}

impl Controller {
    /// Has a selector choose the policy from now on, for all classes together, and builds what it
    /// chooses with `settings`. With `None` the policy stays the one that it is. The selector must
    /// not be one that tells classes apart; the controller must have the policy that it begins with.
    ///
    /// # Errors
    /// Only those of every call: [`Error::Forked`], [`Error::Broken`].
    pub fn choose(&self, auto: Option<Auto>, settings: PolicySettings) -> Result<(), Error> {
        self.check_process()?;
        let selection = auto.map(|auto| Box::new(Selection { auto, settings }));
        self.change(|locked, _| core::mem::replace(&mut locked.selection, selection)).map(drop)
    }

    /// Why the policy is what it is; `None` unless it is chosen.
    ///
    /// # Errors
    /// Only those of every call: [`Error::Forked`], [`Error::Broken`].
    pub fn why(&self) -> Result<Option<Why>, Error> {
        self.check_process()?;
        self.change(|locked, now| {
            let selection = locked.selection.as_ref()?;
            selection.auto.why(now).into_iter().find(|why| why.part == Part::All)
        })
    }
}
