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
use std::os::fd::AsRawFd as _;

use forebay_engine::Engine;
use forebay_engine::store::OpenHow;
use forebay_trace::{Adjustment, Named};
use forebay_units::{ClassId, FileId, Timestamp};

use crate::assemble;
use crate::control::{self, Answer};
use crate::settings::{Level, Settings};
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
}

impl Sharing {
    /// As the settings say; nobody has been told yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            classes: Classes::new(&settings.sharing, settings.classes.clone()),
            class_names: Names::new(settings.sharing.class_count_max),
            file_names: Names::new(settings.sharing.file_count_max),
            settings: settings.clone(),
        }
    }

    /// Tells the scheduler what holds before anybody has come; a recording begins before.
    pub(crate) fn begin(&self, engine: &mut Engine) {
        self.settings
            .classes
            .warnings()
            .iter()
            .for_each(|text| crate::log::warn(format_args!("{text}")));
        self.tell_users(engine, Timestamp(0));
        self.classes.told_other().iter().for_each(|told| self.tell(engine, Timestamp(0), told));
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
            engine.answer_at_once(gone, true);
            note(engine.adjust(now, &Adjustment::Class(gone, None)));
        }
        if let Some((told, name)) = new {
            engine.note_name(Named::Class(class), &name);
            self.class_names.note(u64::from(class.0), name, || {
                let places = self.classes.ids().map(|class| u64::from(class.0));
                keys_of_classes(engine).chain(places).collect()
            });
            self.tell(engine, now, &told);
        }
        class
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
        match control::changed(&self.settings, &words) {
            Ok((settings, mut lines)) => {
                let known = self.settings.classes.warnings();
                self.change(engine, now, settings);
                let new = self.settings.classes.warnings().into_iter();
                lines.extend(new.filter(|text| !known.contains(text)));
                Answer::Set(lines)
            }
            Err(text) => Answer::Wrong(text),
        }
    }

    fn change(&mut self, engine: &mut Engine, now: Timestamp, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        let new = &self.settings;
        if old.scheduler != new.scheduler
            && let Some(setup) = note(assemble::setup(new))
        {
            note(engine.adjust(now, &Adjustment::Policy(setup.choice())));
        }
        if old.sharing != new.sharing
            && let Some(sharing) = note(assemble::sharing(new))
        {
            note(engine.adjust(now, &Adjustment::Sharing(sharing)));
        }
        // A policy for all has taken the place of those that single classes had.
        let told = match old.scheduler != new.scheduler {
            true => self.classes.all_told(),
            false => self.classes.change(new.classes.clone()),
        };
        told.iter().for_each(|told| self.tell(engine, now, told));
        if old.classes != self.settings.classes {
            self.tell_users(engine, now);
        }
    }

    /// Tells the scheduler about a class.
    fn tell(&self, engine: &mut Engine, now: Timestamp, told: &Told) {
        let Told { class, share, policy, waits_at_limit } = told;
        engine.answer_at_once(*class, !waits_at_limit);
        note(engine.adjust(now, &Adjustment::Class(*class, Some(*share))));
        if let Some(policy) = policy {
            let mut settings = self.settings.clone();
            settings.scheduler.policy.clone_from(policy);
            if let Some(setup) = note(assemble::setup(&settings)) {
                note(engine.adjust(now, &Adjustment::ClassPolicy(*class, setup.choice())));
            }
        }
    }

    fn tell_users(&self, engine: &mut Engine, now: Timestamp) {
        for (user, share) in self.classes.users() {
            note(engine.adjust(now, &Adjustment::Group(user, Some(share))));
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
            level => format!("{:?} among {:?}s by {:?}", sharing.discipline, level, sharing.cost)
                .to_lowercase(),
        };
        let Some(snapshot) = engine.snapshot(now) else {
            return (how, Vec::new(), Vec::new());
        };
        let classes = ledger::classes(&snapshot.classes, &self.classes, &self.class_names, now);
        (how, classes, ledger::files(&snapshot, &self.file_names))
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
        crate::log::warn(format_args!("a share was not set: {error}"));
    }
    result.ok()
}
