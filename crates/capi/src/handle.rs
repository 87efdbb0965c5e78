//! A controller as C holds it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_controller::{
    Controller, Delivery, Detail, FileKey, Hint, Notice, Options, Snapshot, Storage, Submission,
    Ticket,
};
use forebay_sched::policies::aioli::AioliSettings;
use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, GroupId, Rate, Share, SharingSettings, TwinsSettings,
    WindowIdle,
};
use forebay_sched::{
    Access, Bypass, ClassError, ClassOptions, GuardMode, Limits, PolicyName, PolicySettings,
    SchedulerOptions,
};
use forebay_stats::LedgerOptions;
use forebay_trace::{Adjustment, Header, Totals};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, Nanos, OFFSET_MAX, Offset, Timestamp};

use crate::abi::*;
use crate::delivery::CallBacks;
use crate::failure::Failure;
use crate::outside::Outside;
use crate::settings::{Choice, Settings, number};
use crate::statistics;

/// One scheduler and what belongs to it. Any number of threads may use one, and a process may have
/// any number of them.
#[allow(non_camel_case_types)]
pub struct forebay {
    controller: Controller,
    settings: Mutex<(u64, Settings)>,
    has_classes: bool,
}

/// A choice by number, or what is wrong with it.
fn choose<T: Copy>(key: &str, value: u32, all: &[T]) -> Result<T, Failure> {
    all.get(value as usize).copied().ok_or_else(|| {
        Failure::invalid(format_args!("{key} = {value}: not from 0 to {}", all.len() - 1))
    })
}

fn within(key: &str, value: u64, least: u64, most: u64) -> Result<u64, Failure> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Failure::invalid(format_args!("{key} = {value}: not from {least} to {most}")))
}

const REQUESTS_MAX: u64 = 1 << 24;
const SECOND: u64 = 1_000_000_000;

impl forebay {
    /// A controller as `options` want it; `call_backs` are theirs.
    pub(crate) fn create(
        options: &forebay_options,
        policy: &str,
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
        let settings = read_settings(options, policy)?;
        let within_controller = read_options(options)?;
        let classes = read_classes(options)?;
        let controller = match &classes {
            None => Controller::new(&within_controller, settings.policy()?, delivery)?,
            Some(classes) => {
                Controller::with_classes(&within_controller, classes, settings.source()?, delivery)?
            }
        };
        if let Some(selection) = settings.selection() {
            controller.choose("policy", policy, Some(selection), |_, _| Some(()))?;
        }
        let this = Box::new(Self {
            controller,
            settings: Mutex::new((0, settings)),
            has_classes: classes.is_some(),
        });
        if let Some(call_backs) = call_backs {
            call_backs.introduce(&this);
        }
        Ok(this)
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
        self.change_settings(key, value, |settings| settings.with(key, value))
    }

    /// Puts a policy of the program in charge.
    pub(crate) fn use_policy(&self, outside: Outside) -> Result<(), Failure> {
        let (name, outside) = (outside.name().to_owned(), Arc::new(outside));
        self.change_settings("policy", &name, |settings| {
            Ok(Settings { choice: Choice::Outside(Arc::clone(&outside)), ..settings.clone() })
        })
    }

    fn change_settings(
        &self,
        key: &str,
        value: &str,
        change: impl Fn(&Settings) -> Result<Settings, Failure>,
    ) -> Result<(), Failure> {
        // Who held our own lock when a process forked is not there to let go of it.
        self.controller.check_process()?;
        loop {
            // Neither lock is held while a policy is made: that may be the program's own code.
            let (version, before) = self.settings().clone();
            let after = change(&before)?;
            if self.switch(key, value, version, after)? {
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
    ) -> Result<bool, Failure> {
        let keep = |after: Settings| {
            let mut settings = self.settings();
            let is_latest = settings.0 == version;
            if is_latest {
                *settings = (version + 1, after);
            }
            is_latest
        };
        let selection = after.selection();
        let (key, value) = &after.spelled(key, value);
        if !self.has_classes {
            let mut policy = Some(after.policy()?);
            // The old policy is dropped by nobody who holds a lock.
            let old = self.controller.choose(key, value, selection, |scheduler, now| {
                keep(after)
                    .then(|| policy.take().map(|policy| scheduler.switch_policy(now, policy)))
            })?;
            return Ok(old.is_some());
        }
        let source = after.source()?;
        let switched = self.controller.choose(key, value, selection, |scheduler, now| {
            keep(after).then(|| scheduler.switch_policies(now, source))
        })?;
        switched.transpose().map_err(class_failure).map(|done| done.is_some())
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
        Ok(statistics::text(&state, &self.policy_name(&state)))
    }

    pub(crate) fn set_class(
        &self,
        class: u32,
        share: Option<&forebay_share>,
    ) -> Result<(), Failure> {
        let share = share.map(class_share).transpose()?;
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
            if self.settings().0 == version {
                return match settings.can_be_told() {
                    true => Ok(()),
                    false => {
                        Ok(self.controller.configure("parameters", "of its own", |_, _| ())?)
                    }
                };
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

fn read_settings(options: &forebay_options, policy: &str) -> Result<Settings, Failure> {
    let limits = Limits {
        run_bytes_max: Bytes(within("run_bytes_max", options.run_bytes_max, 4 << 10, 1 << 30)?),
        run_requests_max: within("run_requests_max", options.run_requests_max.into(), 1, 65_536)?
            as u32,
        batch_bytes_max: Bytes(within(
            "batch_bytes_max",
            options.batch_bytes_max,
            4 << 10,
            4 << 30,
        )?),
        wait_max: Nanos(within("wait_ns", options.wait_ns, 0, SECOND)?),
    };
    let aioli = AioliSettings::default();
    // A quantum beyond the largest run means the same as that run.
    let quantum_bytes = aioli.quantum_bytes.min(limits.run_bytes_max);
    let quantum_bytes_min = aioli.quantum_bytes_min.min(quantum_bytes);
    let parameters = PolicySettings {
        aioli: AioliSettings { quantum_bytes, quantum_bytes_min, ..aioli },
        ..PolicySettings::from(limits)
    };
    let settings = Settings { choice: Choice::read(policy)?, device: Storage::Disk, parameters };
    settings.check()?;
    Ok(settings)
}

fn read_options(options: &forebay_options) -> Result<Options, Failure> {
    let guards = [GuardMode::Overlap, GuardMode::Client, GuardMode::File, GuardMode::None];
    let queue = within("queue_requests_max", options.queue_requests_max, 1, REQUESTS_MAX)?;
    let rows = within("account_rows", options.account_rows.into(), 0, 65_536)? as usize;
    Ok(Options {
        scheduler: SchedulerOptions {
            guard: choose("guard", options.guard, &guards)?,
            large_bytes: (options.large_bytes > 0).then_some(Bytes(options.large_bytes)),
            bypass: choose("no_bypass", options.no_bypass, &[Bypass::WhenIdle, Bypass::Never])?,
            queue_requests_max: queue as usize,
        },
        depth: within("depth", options.depth, 1, REQUESTS_MAX)? as usize,
        idle_files_max: within("idle_files_max", options.idle_files_max, 0, REQUESTS_MAX)? as usize,
        ledger: (rows > 0).then_some(LedgerOptions { classes_max: rows, files_max: rows }),
    })
}

fn read_classes(options: &forebay_options) -> Result<Option<ClassOptions>, Failure> {
    let twins = |idle| -> Result<Discipline, Failure> {
        let window = within("twins_window_ns", options.twins_window_ns, 1_000, 60 * SECOND)?;
        let targets = within("twins_targets", options.twins_targets.into(), 1, 65_000)?;
        Ok(Discipline::Twins(TwinsSettings {
            window: Nanos(window),
            targets: targets as u32,
            shift: 0,
            start: Timestamp(0),
            idle,
        }))
    };
    let discipline = match options.sharing {
        FOREBAY_SHARE_NONE => return Ok(None),
        FOREBAY_SHARE_SFQ => Discipline::Sfq,
        FOREBAY_SHARE_DRR => Discipline::Drr,
        FOREBAY_SHARE_TWINS_STRICT => twins(WindowIdle::Strict)?,
        FOREBAY_SHARE_TWINS => {
            let idle = within("twins_idle_ns", options.twins_idle_ns, 0, 60 * SECOND)?;
            twins(WindowIdle::LendAfter(Nanos(idle)))?
        }
        other => return Err(Failure::invalid(format_args!("sharing = {other}: not from 0 to 4"))),
    };
    let defaults = ClassOptions::default();
    Ok(Some(ClassOptions {
        sharing: SharingSettings { discipline, ..SharingSettings::default() },
        classes_max: within("classes_max", options.classes_max.into(), 1, 65_000)? as usize,
        class_requests_max: within(
            "class_requests_max",
            options.class_requests_max,
            1,
            REQUESTS_MAX,
        )? as usize,
        ..defaults
    }))
}

fn class_share(share: &forebay_share) -> Result<ClassShare, Failure> {
    let rate = |per_second, burst| (per_second > 0).then_some(Rate { per_second, burst });
    let in_group = choose("has_group", share.has_group, &[false, true])?;
    Ok(ClassShare {
        share: Share {
            weight: share.weight,
            ops: rate(share.requests_per_second, share.requests_burst),
            bytes: rate(share.bytes_per_second, share.bytes_burst),
            cost: None,
            at_limit: choose("at_limit", share.at_limit, &[AtLimit::Borrow, AtLimit::Wait])?,
        },
        reservation: share.reserved_per_second,
        group: in_group.then_some(GroupId(share.group)),
    })
}

#[cfg(test)]
mod tests {
    use forebay_trace::{Checker, Event, PolicyChoice, Reader, Setup, Summary};

    use super::*;
    use crate::defaults::{default_options, default_share};

    fn polled(policy: &str, options: forebay_options) -> Box<forebay> {
        let options = forebay_options { delivery: FOREBAY_DELIVER_POLL, ..options };
        forebay::create(&options, policy, None).unwrap()
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
