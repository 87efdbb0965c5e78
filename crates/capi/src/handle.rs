//! A controller as C holds it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_controller::{
    Controller, Delivery, Detail, FileKey, Hint, Notice, Snapshot, Submission, Ticket,
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
use crate::settings::{COMMON, Choice, Settings, Subject, number};
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
            if self.switch(key, value, version, after, subject)? {
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
        let mut refused = Ok(());
        let switched = self.controller.choose(key, value, selection, |scheduler, now| {
            let mut settings = self.settings();
            if settings.0 != version {
                return None;
            }
            let switched = match (subject, sharing) {
                (Subject::Sharing, Some(sharing)) => scheduler.switch_sharing(now, sharing),
                _ => policies.switch(scheduler, now, &mut old),
            };
            if let Err(error) = switched {
                refused = Err(class_failure(error));
                return None;
            }
            *settings = (version + 1, after);
            Some(())
        })?;
        refused.map(|()| switched.is_some())
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
            let recorded = self.controller.record(Path::new(path), &header, memory as usize);
            recorded.map_err(|error| {
                Failure::new(Failure::from(error).errno(), format_args!("{path}: {error}"))
            })?;
            match settings.told_classes() {
                Some(own) => own.iter().try_for_each(|adjustment| {
                    self.controller.configure(&adjustment.key(), &adjustment.value(), |_, _| ())
                })?,
                None => self.controller.configure("parameters", "of its own", |_, _| ())?,
            }
            if self.settings().0 == version {
                return Ok(());
            }
            // The header may tell of settings that were not in charge any more when it began.
            self.end_record()?;
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
            Subject::Sharing => Ok(Self::Each(None, Own::new())),
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
mod tests {
    use forebay_trace::{Checker, Event, PolicyChoice, Reader, Setup, Summary};

    use super::*;
    use crate::defaults::{default_options, default_share};

    fn polled(policy: &str, options: forebay_options) -> Box<forebay> {
        let options = forebay_options { delivery: FOREBAY_DELIVER_POLL, ..options };
        forebay::create(&options, policy, "", None).unwrap()
    }

    /// Submits what merges partly, of three classes, and carries it out.
    fn work(on: &forebay) {
        for number in 0..60_u64 {
            let asked = forebay_request {
                id: number,
                file: forebay_file { high: 1, low: number % 2 },
                offset: (number * 7 % 60) << 13,
                length: 8 << 10,
                operation: FOREBAY_READ,
                flags: 0,
                client: 0,
                class_id: number as u32 % 3,
            };
            on.submit(&asked).unwrap();
        }
        let mut turns = Vec::new();
        while on.controller().poll(64, &mut turns).unwrap().is_some() {
            for turn in &turns {
                let moved = forebay_controller::Outcome::Moved(turn.length);
                on.controller().complete(turn.ticket, moved).unwrap();
            }
        }
    }

    /// The trace of what `during` does, checked decision by decision as far as that is possible.
    fn traced(on: &forebay, during: impl Fn()) -> (Vec<u8>, Result<u64, String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        on.record(path.to_str().unwrap(), 1 << 20).unwrap();
        during();
        assert_eq!(on.end_record().unwrap().lost_events, 0);
        let bytes = std::fs::read(path).unwrap();
        let mut reader = Reader::new(&bytes).unwrap();
        let setup = Setup::of(reader.header()).unwrap();
        let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
        let checked = reader.try_for_each(|record| {
            checker.check(&record.unwrap()).map_err(|divergence| divergence.text)
        });
        (bytes, checked.map(|()| checker.decisions_count()))
    }

    #[test]
    fn a_trace_tells_all_that_it_takes_to_decide_the_same_again() {
        let options = forebay_options { sharing: FOREBAY_SHARE_SFQ, ..default_options() };
        let on = polled("SJF", options);
        // Before and during the recording.
        let share = |weight| forebay_share { weight, ..default_share() };
        on.set_group(9, Some(&share(2))).unwrap();
        on.set_class(1, Some(&forebay_share { group: 9, has_group: 1, ..share(5) })).unwrap();
        let (bytes, checked) = traced(&on, || {
            work(&on);
            on.set_class(2, Some(&share(7))).unwrap();
            on.set("policy", "aIOLi").unwrap();
            work(&on);
            on.set("run_requests_max", "3").unwrap();
            work(&on);
            on.set_class(2, None).unwrap();
            work(&on);
        });
        assert!(checked.unwrap() > 240, "every submission and every batch");
        let summary = Summary::read(Reader::new(&bytes).unwrap(), 0);
        assert_eq!(summary.policy.as_deref(), Some("SJF"));
        assert!(summary.sharing.is_some_and(|text| text.starts_with("discipline=sfq")));
        let keys: Vec<&str> = summary.changes.iter().map(|change| change.key.as_str()).collect();
        assert_eq!(keys, ["group.9", "class.1", "class.2", "policy", "policy", "class.2"]);
        let reader = Reader::new(&bytes).unwrap();
        assert!(reader.header().clock_base_ns > 0);
        assert_eq!(reader.header().setting("policy"), Some("SJF"));
    }

    #[test]
    fn a_trace_tells_how_classes_share_and_which_have_a_policy_of_their_own() {
        let options = forebay_options { sharing: FOREBAY_SHARE_SFQ, ..default_options() };
        let options = forebay_options { delivery: FOREBAY_DELIVER_POLL, ..options };
        let text = "sharing.cost=time device=flash\n class.1.policy=SJF";
        let on = forebay::create(&options, "aIOLi", text, None).unwrap();
        on.set("sharing.quantum", "4096").unwrap();
        let (bytes, checked) = traced(&on, || {
            work(&on);
            on.set("sharing.discipline", "drr").unwrap();
            work(&on);
            on.set("device", "disk").unwrap();
            on.set("class.2.policy", "HBRR").unwrap();
            work(&on);
            on.set_class(1, None).unwrap();
            work(&on);
        });
        assert_eq!(checked.map(|count| count > 240), Ok(true));
        let sharing = Summary::read(Reader::new(&bytes).unwrap(), 0).sharing.unwrap();
        assert!(sharing.contains("discipline=sfq cost_read=65536,0,1048576"), "{sharing}");
        assert!(sharing.contains("quantum=4096"), "{sharing}");
        let classes = |on: &forebay| {
            let text: serde_json::Value = serde_json::from_str(&on.statistics().unwrap()).unwrap();
            let policies = text["classes"].as_array().unwrap().iter();
            let policies: Vec<String> =
                policies.map(|class| class["policy"].as_str().unwrap().to_owned()).collect();
            assert_eq!(text["sharing"]["cost_read"]["per_batch"], 512 << 10);
            policies
        };
        assert_eq!(classes(&on), ["aIOLi", "aIOLi", "HBRR", "aIOLi"]);
        // What changes for all leaves a class its own.
        on.set("policy", "MLF").unwrap();
        on.set("run_requests_max", "3").unwrap();
        assert_eq!(classes(&on), ["MLF", "MLF", "HBRR", "MLF"]);
    }

    #[test]
    fn a_trace_of_auto_tells_the_policy_in_charge_and_each_other_one() {
        let on = polled("auto", default_options());
        let (bytes, checked) = traced(&on, || work(&on));
        assert!(checked.unwrap() > 60);
        let reader = Reader::new(&bytes).unwrap();
        assert_eq!(reader.header().setting("policy"), Some("auto"));
        let start = Setup::of(reader.header()).unwrap();
        let told = reader.map(|record| record.unwrap()).find_map(|record| match record.event {
            Event::Setting { key, value } => Adjustment::read(key, value),
            _ => None,
        });
        let choice = PolicyChoice { policy: start.policy, ..start.choice() };
        assert_eq!(told, Some(Adjustment::Policy(choice)));
    }

    #[test]
    fn a_parameter_that_a_trace_has_no_words_for_ends_the_check_and_nothing_else() {
        let on = polled("SJF", default_options());
        let (_, checked) = traced(&on, || {
            work(&on);
            on.set("sjf.age_ns", "1000000").unwrap();
            work(&on);
        });
        assert!(checked.unwrap_err().starts_with("sjf.age_ns = 1000000 was set"));
        let (_, checked) = traced(&on, || work(&on));
        assert!(checked.is_err(), "what was set before is not forgotten");
    }
}
