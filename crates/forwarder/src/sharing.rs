//! Who shares the store, and how: the door between identities and settings on one side and the
//! scheduler's classes on the other.
//!
//! ```text
//!  connection ── Identity ──► classes ──► engine: shares, limits, policies
//!  Control, settings ───────────┘             │
//!  status ◄── names ◄── ledger ◄──────────────┘
//! ```

mod classes;
mod ledger;

use std::fs::read_link;
use std::ops::Range;
use std::os::fd::AsRawFd as _;

use forebay_engine::store::OpenHow;
use forebay_engine::{Engine, Ranges};
use forebay_sched::sharing::SharingSettings;
use forebay_select::Part;
use forebay_trace::{Adjustment, Named, PolicyChoice};
use forebay_units::{ClassId, FileId, Offset, Timestamp};

use crate::assemble;
use crate::control::{self, Answer};
use crate::selection::Selection;
use crate::settings::definition::{AUTO, NO_PIN};
use crate::settings::{self, Discipline, Level, Settings, Store, Windows};
use crate::status;

use classes::{Classes, Entered, Told};
use ledger::Names;

pub(crate) use classes::Identity;

/// How the store is shared now.
pub(crate) struct Sharing {
    /// As they are now; what cannot change is as it was at the start.
    settings: Settings,
    classes: Classes,
    class_names: Names,
    file_names: Names,
    /// What policy `auto` is made of, if it has been in charge.
    selection: Option<Selection>,
    /// Whether the device below the store does, as far as the kernel knows.
    is_rotating: Option<bool>,
    /// The wall clock at time 0.
    wall_base_ns: u64,
}

impl Sharing {
    /// As the settings say; nobody has been told yet.
    pub(crate) fn new(
        settings: &Settings,
        selection: Option<Selection>,
        is_rotating: Option<bool>,
    ) -> Self {
        Self {
            is_rotating,
            wall_base_ns: 0,
            classes: Classes::new(settings),
            class_names: Names::new(settings.sharing.class_count_max),
            file_names: Names::new(settings.sharing.file_count_max),
            settings: settings.clone(),
            selection,
        }
    }

    /// Tells the scheduler what holds before anybody has come; a recording begins before.
    pub(crate) fn begin(&mut self, engine: &mut Engine, wall_base_ns: u64) {
        self.wall_base_ns = wall_base_ns;
        if matches!(self.settings.sharing.discipline, Discipline::Twins | Discipline::Sw) {
            // They were made before the clock was.
            if let Some(sharing) = note(self.made(&self.settings)) {
                note(engine.adjust(Timestamp(0), &Adjustment::Sharing(sharing)));
            }
        }
        self.name_targets(engine, 0..self.targets());
        self.settings.warnings().iter().for_each(|text| crate::log::warn(format_args!("{text}")));
        self.tell_users(engine, Timestamp(0));
        self.classes.all_told().iter().for_each(|told| self.tell(engine, Timestamp(0), told, None));
        self.pin_all(engine);
    }

    /// Somebody has connected: the class that the requests are of.
    pub(crate) fn enter(
        &mut self,
        engine: &mut Engine,
        now: Timestamp,
        identity: Identity,
    ) -> ClassId {
        let Entered { class, new, gone } =
            self.classes.enter(identity, |class| engine.is_class_busy(now, class));
        if let Some(gone) = gone {
            release(engine, now, gone);
        }
        if let Some((told, name)) = new {
            engine.note_name(Named::Class(class), &name);
            self.class_names.note(u64::from(class.0), name, || {
                let places = self.classes.ids().map(|class| u64::from(class.0));
                keys_of_classes(engine).chain(places).collect()
            });
            self.tell(engine, now, &told, None);
        }
        class
    }

    /// The class of a call on a connection of `class`. Where data servers share, it is the one that
    /// its first byte is on.
    pub(crate) fn class_of(&self, class: ClassId, ranges: &Ranges) -> ClassId {
        match self.settings.sharing.level {
            Level::Target => {
                let start = match ranges {
                    Ranges::One(range) => range.start,
                    Ranges::Many(ranges) => ranges.first().map_or(Offset(0), |range| range.start),
                };
                let Store { targets, stripe_bytes, .. } = &self.settings.store;
                ClassId((start.0 / stripe_bytes.0 % u64::from(*targets)) as u32)
            }
            Level::None | Level::User | Level::Job => class,
        }
    }

    /// Data servers that are classes.
    fn targets(&self) -> u32 {
        match self.settings.sharing.level {
            Level::Target => self.settings.store.targets,
            Level::None | Level::User | Level::Job => 0,
        }
    }

    fn name_targets(&mut self, engine: &mut Engine, targets: Range<u32>) {
        for target in targets {
            let name = format!("target:{target}");
            engine.note_name(Named::Class(ClassId(target)), &name);
            self.class_names.note(u64::from(target), name, || keys_of_classes(engine).collect());
        }
    }

    /// What the scheduler shares by, as these settings say.
    fn made(&self, settings: &Settings) -> Result<SharingSettings, crate::Error> {
        assemble::sharing(settings, self.is_rotating, self.wall_base_ns)
    }

    /// A connection of a class has gone.
    pub(crate) fn leave(&mut self, class: ClassId) {
        self.classes.leave(class);
    }

    /// A file was opened, by this name.
    pub(crate) fn opened(&mut self, engine: &Engine, id: FileId, name: String) {
        self.file_names.note(id.mixed(), name, || {
            let open = engine.open_files().map(FileId::mixed);
            keys_of_files(engine).chain(open).collect()
        });
    }

    /// Does what words of a `Control` frame say, or nothing.
    pub(crate) fn control(&mut self, engine: &mut Engine, now: Timestamp, text: &[u8]) -> Answer {
        let Ok(text) = std::str::from_utf8(text) else {
            return Answer::Wrong("words that are not UTF-8".to_owned());
        };
        let words: Vec<&str> = text.split('\n').filter(|word| !word.is_empty()).collect();
        let changed = control::changed(&self.settings, &words);
        match changed.and_then(|changed| self.prepare(&changed.0).map(|()| changed)) {
            Ok((settings, mut lines)) => {
                let known = self.settings.warnings();
                self.change(engine, now, settings);
                let new = self.settings.warnings().into_iter();
                lines.extend(new.filter(|text| !known.contains(text)));
                Answer::Set(lines)
            }
            Err(text) => Answer::Wrong(text),
        }
    }

    /// Sees to what a selector needs, if one is to be put in charge.
    fn prepare(&mut self, settings: &Settings) -> Result<(), String> {
        if !settings.is_auto() || self.settings.is_auto() {
            return Ok(());
        }
        let made = match &mut self.selection {
            Some(selection) => selection.renew(settings),
            none => Selection::new(settings).map(|made| *none = Some(made)),
        };
        made.map_err(|error| error.to_string())
    }

    fn change(&mut self, engine: &mut Engine, now: Timestamp, settings: Settings) {
        let targets_before = self.targets();
        let old = std::mem::replace(&mut self.settings, settings);
        let is_scheduler_new = old.scheduler != self.settings.scheduler;
        if is_scheduler_new {
            self.change_policy(engine, now);
        }
        self.classes.number_by_name(self.settings.sharing.discipline == Discipline::Sw);
        // Every turn begins anew then: only if something is different for the scheduler.
        if self.settings.sharing.level != Level::None
            && let Some(sharing) = note(self.made(&self.settings))
            && self.made(&old).ok() != Some(sharing)
        {
            note(engine.adjust(now, &Adjustment::Sharing(sharing)));
        }
        self.name_targets(engine, targets_before..self.targets());
        (self.targets()..targets_before).for_each(|gone| release(engine, now, ClassId(gone)));
        let changed = self.classes.change(&self.settings);
        match is_scheduler_new {
            // A policy for all has taken the place of those that single classes had.
            true => {
                let all = self.classes.all_told();
                all.iter().for_each(|told| self.tell(engine, now, told, None));
            }
            false => {
                let told = changed.iter();
                told.for_each(|(told, had)| self.tell(engine, now, told, had.as_deref()));
            }
        }
        self.pin_all(engine);
        if old.classes != self.settings.classes {
            self.tell_users(engine, now);
        }
    }

    /// Puts the policy in charge that the settings name. A selector that is in charge stays, with
    /// all that it has seen; one that was goes on with what was learned.
    fn change_policy(&mut self, engine: &mut Engine, now: Timestamp) {
        if self.settings.is_auto() && engine.selector().is_some() {
            let Some(setup) = note(assemble::setup(&self.settings, self.is_rotating)) else {
                return;
            };
            note(engine.rebuild(now, setup.choice(), setup.limits.wait_max));
            return;
        }
        if let (Some(selection), Some(auto)) = (&mut self.selection, engine.end_selection()) {
            selection.keep(&auto);
        }
        let Some(mut setup) = note(assemble::setup(&self.settings, self.is_rotating)) else {
            return;
        };
        let made = self.selection.as_ref().filter(|_| self.settings.is_auto());
        let auto = made.map(|made| made.auto(&self.settings, setup.limits.wait_max));
        if let Some(auto) = &auto {
            setup.policy = auto.start();
        }
        note(engine.adjust(now, &Adjustment::Policy(setup.choice())));
        if let (Some(made), Some(auto)) = (made, auto) {
            made.begin(engine, auto, setup.choice());
        }
    }

    /// Pins what is to be used for all requests that no class of theirs says otherwise of.
    fn pin_all(&self, engine: &mut Engine) {
        let pin = &self.settings.select.pin;
        engine.pin(Part::All, (pin != NO_PIN).then(|| self.built(pin)).flatten());
    }

    /// What a policy is built with.
    fn built(&self, policy: &str) -> Option<PolicyChoice> {
        let mut settings = self.settings.clone();
        policy.clone_into(&mut settings.scheduler.policy);
        note(assemble::setup(&settings, self.is_rotating)).map(|setup| setup.choice())
    }

    /// Tells the scheduler about a class, which had a policy of its own or, with `None`, has that of
    /// all. A policy stays, with all that it has seen, unless another one is to be used.
    fn tell(&self, engine: &mut Engine, now: Timestamp, told: &Told, had: Option<&str>) {
        let Told { class, share, policy, waits_at_limit } = told;
        engine.answer_at_once(*class, !waits_at_limit);
        note(engine.adjust(now, &Adjustment::Class(*class, Some(*share))));
        if self.settings.is_auto() {
            let own = policy.as_ref().filter(|policy| *policy != AUTO);
            engine.pin(Part::Class(*class), own.and_then(|policy| self.built(policy)));
        } else if policy.as_deref() != had {
            // A class of which it was taken back has what all have.
            let policy = policy.as_ref().unwrap_or(&self.settings.scheduler.policy);
            if let Some(choice) = self.built(policy) {
                note(engine.adjust(now, &Adjustment::ClassPolicy(*class, choice)));
            }
        }
    }

    fn tell_users(&self, engine: &mut Engine, now: Timestamp) {
        for (user, share) in self.classes.users() {
            note(engine.adjust(now, &Adjustment::Group(user, Some(share))));
        }
    }

    /// For the status: which policies are in force, and why; `None` unless they are chosen here.
    pub(crate) fn selection(&self, engine: &Engine, now: Timestamp) -> Option<status::Selection> {
        let (selection, auto) = (self.selection.as_ref()?, engine.selector()?);
        let name = |key| self.class_names.find(key).unwrap_or_else(|| self.classes.rest_name());
        Some(selection.report(auto, now, |key| name(key).to_owned()))
    }

    /// Saves what was learned, now and then, and beside the loop.
    pub(crate) fn save_now_and_then(&mut self, engine: &Engine, now: Timestamp) {
        if let (Some(selection), Some(auto)) = (&mut self.selection, engine.selector()) {
            selection.save_now_and_then(now, auto);
        }
    }

    /// Saves what was learned.
    pub(crate) fn save_at_end(&mut self, engine: &Engine) {
        if let Some(selection) = &mut self.selection {
            selection.save_at_end(engine.selector());
        }
    }

    /// For the status: how it is shared, and what classes and files have had.
    pub(crate) fn report(
        &self,
        engine: &Engine,
        now: Timestamp,
    ) -> (String, Vec<status::Class>, Vec<status::File>) {
        let sharing = &self.settings.sharing;
        let how = match sharing.level {
            Level::None => "none".to_owned(),
            level => {
                let has_windows = matches!(sharing.discipline, Discipline::Twins | Discipline::Sw);
                let is_strict = has_windows && sharing.windows == Windows::Strict;
                let windows = if is_strict { "strict " } else { "" };
                let settings::Sharing { discipline, cost, .. } = sharing;
                format!("{windows}{discipline:?} among {level:?}s by {cost:?}").to_lowercase()
            }
        };
        let Some(snapshot) = engine.snapshot(now) else {
            return (how, Vec::new(), Vec::new());
        };
        let classes = ledger::classes(&snapshot.classes, &self.classes, &self.class_names, now);
        let files =
            ledger::files(&snapshot, &self.classes, &self.class_names, &self.file_names, now);
        (how, classes, files)
    }
}

/// A file's path, for people: the kernel's word where a descriptor came.
pub(crate) fn name_of(how: &OpenHow) -> String {
    match how {
        OpenHow::Beneath { path, .. } => path.display().to_string(),
        OpenHow::Descriptor(descriptor) => {
            let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
            read_link(link).map_or_else(|_| "?".to_owned(), |path| path.display().to_string())
        }
    }
}

/// A class has given up its place, or there is no such data server any more.
fn release(engine: &mut Engine, now: Timestamp, class: ClassId) {
    engine.answer_at_once(class, true);
    note(engine.adjust(now, &Adjustment::Class(class, None)));
}

fn keys_of_classes(engine: &Engine) -> impl Iterator<Item = u64> {
    // Whose rows there are does not depend on the time.
    let snapshot = engine.snapshot(Timestamp(0));
    snapshot.map_or_else(Vec::new, |snapshot| snapshot.classes.keys().collect()).into_iter()
}

fn keys_of_files(engine: &Engine) -> impl Iterator<Item = u64> {
    let snapshot = engine.snapshot(Timestamp(0));
    snapshot.map_or_else(Vec::new, |snapshot| snapshot.files.keys().collect()).into_iter()
}

/// Says what could not be told: the settings were checked, so it is worth a look.
fn note<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    if let Err(error) = &result {
        crate::log::warn(format_args!("what was set does not hold: {error}"));
    }
    result.ok()
}

#[cfg(test)]
mod tests;
