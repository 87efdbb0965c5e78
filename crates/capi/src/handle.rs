//! A controller as C holds it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_controller::{
    Controller, Delivery, Detail, Error, FileKey, Hint, Notice, Snapshot, Submission, Ticket,
};
use forebay_sched::sharing::GroupId;
use forebay_sched::{Access, ClassError, ClassStats, Policy, PolicyName, PolicySource, Scheduler};
use forebay_trace::{Adjustment, Header, Totals};
use forebay_units::{ByteRange, ClassId, ClientId, Nanos, OFFSET_MAX, Offset, Timestamp};

use crate::abi::*;
use crate::delivery::CallBacks;
use crate::failure::Failure;
use crate::options::{Made, REQUESTS_MAX, SECOND, choose, class_share, within};
use crate::outside::{self, Outside};
use crate::settings::{COMMON, Choice, Settings, Subject, class_of, number};
use crate::statistics;

/// One scheduler and what belongs to it. Any number of threads may use one, and a process may have
/// any number of them.
#[allow(non_camel_case_types)]
pub struct forebay {
    controller: Controller,
    settings: Mutex<(u64, Settings)>,
}

impl forebay {
    /// A controller as `options` want it; `call_backs` are theirs.
    pub(crate) fn create(
        options: &forebay_options,
        policy: &str,
        text: &str,
        call_backs: Option<CallBacks>,
    ) -> Result<Box<Self>, Failure> {
        let delivery = match (options.delivery, &call_backs) {
            (FOREBAY_DELIVER_CALL_BACK, Some(call_backs)) => {
                Delivery::CallBack(Box::new(call_backs.clone()))
            }
            (FOREBAY_DELIVER_CALL_BACK, None) => Delivery::Wait,
            (FOREBAY_DELIVER_POLL, None) => Delivery::Poll,
            (FOREBAY_DELIVER_POLL, Some(_)) => {
                return Err(Failure::invalid(
                    "on_batch, on_request: not used by polling; leave them NULL",
                ));
            }
            (other, _) => {
                return Err(Failure::invalid(format_args!("delivery = {other}: not from 0 to 1")));
            }
        };
        let Made { settings, within, classes, of_classes } = Made::read(options, policy, text)?;
        let controller = match &classes {
            None => Controller::new(&within, settings.policy()?, delivery)?,
            Some(classes) => {
                Controller::with_classes(&within, classes, settings.source()?, delivery)?
            }
        };
        if let Some(selection) = settings.selection() {
            controller.choose("policy", policy, Some(selection), |_, _| Some(()))?;
        }
        let this = Box::new(Self { controller, settings: Mutex::new((0, settings)) });
        if let Err(failure) = this.complete(&of_classes) {
            this.close()?;
            return Err(failure);
        }
        if let Some(call_backs) = call_backs {
            call_backs.introduce(&this);
        }
        Ok(this)
    }

    /// Settles what can only be told to a controller that is there.
    fn complete(&self, of_classes: &[(String, String)]) -> Result<(), Failure> {
        let clock_base_ns = self.controller.clock_base_ns();
        if self.settings().1.sharing.is_some() {
            self.change_settings("sharing", "aligned", |settings| {
                let mut settings = settings.clone();
                settings.sharing.iter_mut().for_each(|to| to.clock_base_ns = clock_base_ns);
                Ok((settings, Subject::Sharing))
            })?;
        }
        of_classes.iter().try_for_each(|(key, value)| self.set(key, value))
    }

    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    pub(crate) fn submit(&self, request: &forebay_request) -> Result<Ticket, Failure> {
        Ok(self.controller.submit(&submission(request)?)?)
    }

    /// Changes a setting.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), Failure> {
        if key == "depth" {
            let depth = number(key, value, 1, REQUESTS_MAX)?;
            return Ok(self.controller.set_depth(depth as usize)?);
        }
        self.change_settings(key, value, |settings| settings.with(key, value))?;
        if let (Some(class), COMMON) = (class_of(key)?, value) {
            // Unless somebody has given it another one meanwhile.
            return self.change_settings(key, value, |settings| {
                let has_own = settings.classes.contains_key(&class);
                let subject = if has_own { Subject::Nothing } else { Subject::Place(class) };
                Ok((settings.clone(), subject))
            });
        }
        if key != "device" {
            return Ok(());
        }
        // It may be of both: of what chooses the policy, and of what a batch costs.
        let settings = self.settings().1.clone();
        let has_other_cost = settings.sharing.is_some_and(|sharing| sharing.depends_on_device());
        match has_other_cost && matches!(settings.choice, Choice::Auto) {
            true => self
                .change_settings(key, value, |settings| Ok((settings.clone(), Subject::Sharing))),
            false => Ok(()),
        }
    }

    /// Puts a policy of the program in charge.
    pub(crate) fn use_policy(&self, outside: Outside) -> Result<(), Failure> {
        let (name, outside) = (outside.name().to_owned(), Arc::new(outside));
        self.change_settings("policy", &name, |settings| {
            let choice = Choice::Outside(Arc::clone(&outside));
            Ok((Settings { choice, ..settings.clone() }, Subject::Policies))
        })
    }

    fn change_settings(
        &self,
        key: &str,
        value: &str,
        change: impl Fn(&Settings) -> Result<(Settings, Subject), Failure>,
    ) -> Result<(), Failure> {
        // Who held our own lock when a process forked is not there to let go of it.
        self.controller.check_process()?;
        loop {
            // Neither lock is held while a policy is made: that may be the program's own code.
            let (version, before) = self.settings().clone();
            let (after, subject) = change(&before)?;
            if subject == Subject::Nothing || self.switch(key, value, version, after, subject)? {
                return Ok(());
            }
        }
    }

    /// Puts settings in charge, unless others were meanwhile; whether it did.
    fn switch(
        &self,
        key: &str,
        value: &str,
        version: u64,
        after: Settings,
        subject: Subject,
    ) -> Result<bool, Failure> {
        let (selection, sharing) = (after.selection(), after.sharing());
        let (key, value) = &after.spelled(subject, key, value);
        // The old policies are dropped by nobody who holds a lock; so are new ones that came late.
        let mut policies = Policies::of(&after, subject)?;
        let mut old = Vec::new();
        let mut done = Ok(false);
        self.controller.choose(key, value, selection, |scheduler, now| {
            let mut settings = self.settings();
            if settings.0 != version {
                return None;
            }
            let switched = match (subject, sharing) {
                (Subject::Sharing, Some(sharing)) => {
                    scheduler.switch_sharing(now, sharing).map(|()| true)
                }
                (Subject::Place(class), _) => scheduler.release_policy(now, ClassId(class)),
                _ => policies.switch(scheduler, now, &mut old).map(|()| true),
            };
            done = switched.map(|_| true).map_err(class_failure);
            let has_changed = matches!(switched, Ok(true));
            has_changed.then(|| *settings = (version + 1, after))
        })?;
        done
    }

    fn settings(&self) -> MutexGuard<'_, (u64, Settings)> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of the policy in charge.
    pub(crate) fn policy_name(&self, state: &Snapshot) -> String {
        match &self.settings().1.choice {
            Choice::Outside(outside) if state.policy_fault.is_none() => outside.name().to_owned(),
            // It is replaced for its fault, with classes at least in one of them.
            Choice::Outside(_) => PolicyName::To.to_string(),
            Choice::Known(_) | Choice::Auto => state.policy.to_owned(),
        }
    }

    /// Everything that can be said in numbers, as JSON.
    pub(crate) fn statistics(&self) -> Result<String, Failure> {
        let state = self.controller.snapshot(Detail::Accounts)?;
        let settings = self.settings().1.clone();
        let policy_of = |class: &'_ ClassStats| match settings.choice_of(class.class.0) {
            Choice::Outside(outside) if class.policy == outside::POLICY => outside.name(),
            _ => class.policy,
        };
        let sharing = settings.sharing.map(|sharing| (sharing.text(settings.device), policy_of));
        Ok(statistics::text(&state, &self.policy_name(&state), sharing))
    }

    pub(crate) fn set_class(
        &self,
        class: u32,
        share: Option<&forebay_share>,
    ) -> Result<(), Failure> {
        let share = share.map(class_share).transpose()?;
        self.controller.check_process()?;
        if share.is_none() && self.settings().1.classes.contains_key(&class) {
            self.set(&format!("class.{class}.policy"), COMMON)?;
        }
        self.adjust(&Adjustment::Class(ClassId(class), share))
    }

    pub(crate) fn set_group(
        &self,
        group: u32,
        share: Option<&forebay_share>,
    ) -> Result<(), Failure> {
        if share.is_some_and(|share| share.has_group != 0 || share.reserved_per_second != 0) {
            let text = "has_group, reserved_per_second: not for groups; leave them 0";
            return Err(Failure::invalid(text));
        }
        let share = share.map(class_share).transpose()?.map(|class| class.share);
        self.adjust(&Adjustment::Group(GroupId(group), share))
    }

    fn adjust(&self, adjustment: &Adjustment) -> Result<(), Failure> {
        self.controller.adjust(adjustment)?.map_err(class_failure)
    }

    pub(crate) fn hint(
        &self,
        hint: u32,
        file: Option<forebay_file>,
        ns: u64,
    ) -> Result<(), Failure> {
        let hint = match (hint, file) {
            (FOREBAY_HINT_MORE, _) => Hint::MoreFollows(Nanos(within("ns", ns, 0, SECOND)?)),
            (FOREBAY_HINT_NO_MORE, _) => Hint::NoMore,
            (FOREBAY_HINT_FORGET, Some(file)) => Hint::Forget(key_of(file)),
            (FOREBAY_HINT_FORGET, None) => {
                return Err(Failure::invalid("file = NULL: name the file that is to be forgotten"));
            }
            (other, _) => {
                return Err(Failure::invalid(format_args!("hint = {other}: not from 1 to 3")));
            }
        };
        Ok(self.controller.hint(hint)?)
    }

    pub(crate) fn record(&self, path: &str, memory: u64) -> Result<(), Failure> {
        let memory = within("memory", memory, 128 << 10, 1 << 30)?;
        self.controller.check_process()?;
        loop {
            let (version, settings) = self.settings().clone();
            let (options, classes) = self.controller.made_with();
            let state = self.controller.snapshot(Detail::Counters)?;
            let header = Header {
                source: format!("libforebay {}", env!("CARGO_PKG_VERSION")),
                clock_base_ns: self.controller.clock_base_ns(),
                settings: settings.entries(&self.policy_name(&state), options, classes),
            };
            let own = match settings.told_classes() {
                Some(own) => own.iter().map(|to| (to.key(), to.value())).collect(),
                None => vec![("parameters".to_owned(), "of its own".to_owned())],
            };
            let (to, memory) = (Path::new(path), memory as usize);
            self.controller.record_with(to, &header, memory, &own).map_err(|error| {
                Failure::new(Failure::from(error).errno(), format_args!("{path}: {error}"))
            })?;
            if self.settings().0 == version {
                return Ok(());
            }
            // The header may tell of settings that were not in charge any more when it began.
            match self.controller.end_record() {
                Ok(_) => {}
                // Somebody else has ended it: it has begun, so that was asked for.
                Err(Error::NotRecorded) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn end_record(&self) -> Result<Totals, Failure> {
        Ok(self.controller.end_record()?)
    }

    /// Takes no more requests, for ever, if there is none.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        Ok(self.controller.close()?)
    }
}

/// Policies that are to be put in charge.
enum Policies {
    /// Of all requests.
    One(Option<Box<dyn Policy>>),
    /// Of every class, but of those that have their own.
    Each(Option<PolicySource>, Own),
}

/// Classes with the policies of their own.
type Own = Vec<(u32, Box<dyn Policy>)>;

impl Policies {
    fn of(settings: &Settings, subject: Subject) -> Result<Self, Failure> {
        let own = |class| settings.class_policy(class).map(|policy| (class, policy));
        match subject {
            Subject::Sharing | Subject::Place(_) | Subject::Nothing => {
                Ok(Self::Each(None, Own::new()))
            }
            Subject::Class(class) => Ok(Self::Each(None, vec![own(class)?])),
            Subject::Policies if settings.sharing.is_none() => {
                Ok(Self::One(Some(settings.policy()?)))
            }
            Subject::Policies => {
                let all: Result<Own, Failure> = settings.classes.keys().copied().map(own).collect();
                Ok(Self::Each(Some(settings.source()?), all?))
            }
        }
    }

    /// Puts them in charge, and those that were into `old`.
    fn switch(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        old: &mut Vec<Box<dyn Policy>>,
    ) -> Result<(), ClassError> {
        match self {
            Self::One(policy) => {
                let policy = policy.take();
                old.extend(policy.map(|policy| scheduler.switch_policy(now, policy)));
            }
            Self::Each(source, own) => {
                if let Some(source) = source.take() {
                    old.extend(scheduler.switch_policies(now, source)?);
                }
                for (class, policy) in own.drain(..) {
                    old.push(scheduler.switch_class_policy(now, ClassId(class), policy)?);
                }
            }
        }
        Ok(())
    }
}

/// Nanoseconds to wait; for ever if negative.
pub(crate) fn timeout(ns: i64) -> Option<Duration> {
    u64::try_from(ns).ok().map(Duration::from_nanos)
}

fn class_failure(error: ClassError) -> Failure {
    Failure::invalid(error)
}

pub(crate) fn key_of(file: forebay_file) -> FileKey {
    FileKey { high: file.high, low: file.low }
}

const ACCESSES: [Access; 4] = [Access::Read, Access::Write, Access::Alone, Access::Sync];

/// The number of an operation.
pub(crate) fn operation_of(access: Access) -> u32 {
    match access {
        Access::Read => FOREBAY_READ,
        Access::Write => FOREBAY_WRITE,
        Access::Alone => FOREBAY_ALONE,
        Access::Sync => FOREBAY_SYNC,
    }
}

fn submission(request: &forebay_request) -> Result<Submission, Failure> {
    let access = choose("operation", request.operation, &ACCESSES)?;
    let notice = choose("flags", request.flags, &[Notice::Deliver, Notice::Wait])?;
    if request.class_id == u32::MAX {
        return Err(Failure::invalid(
            "class_id = 2^32 - 1: that stands for all classes without a place",
        ));
    }
    let start = Offset(request.offset);
    let range = match access {
        Access::Sync => ByteRange::default(),
        Access::Alone if request.length == 0 && start <= OFFSET_MAX => ByteRange::from_start(start),
        _ => {
            let end = request.offset.checked_add(request.length).map(Offset);
            let end = end.filter(|end| *end <= OFFSET_MAX).ok_or_else(|| {
                Failure::new(
                    libc::EOVERFLOW,
                    format_args!(
                        "offset {} + length {} is beyond 2^63 - 1",
                        request.offset, request.length
                    ),
                )
            })?;
            ByteRange { start, end }
        }
    };
    Ok(Submission {
        id: request.id,
        file: key_of(request.file),
        access,
        range,
        client: ClientId(request.client),
        class: ClassId(request.class_id),
        notice,
    })
}

#[cfg(test)]
mod tests;
