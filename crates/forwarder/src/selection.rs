//! Policy `auto`: what the selector is made of, and what it has learned from one run to the next.
//!
//! ```text
//! settings ─► device profile, tree, state file ─► Auto, beside the engine's scheduler
//!                                 ▲                 │ every minute and at the end
//!                                 └── learned ◄─────┘
//! ```

pub(crate) mod device;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use forebay_engine::Engine;
use forebay_prior::{check_place, default_tree, load_state, load_tree, save_state, set_aside};
use forebay_select::{Auto, AutoOptions, Learned, Tree};
use forebay_trace::PolicyChoice;
use forebay_units::{Bytes, Nanos, Timestamp};

use crate::Error;
use crate::settings::{Level, Settings};

use device::Device;

/// How often what was learned is saved.
const SAVE_EVERY: Nanos = Nanos::secs(60);

/// From this size on the application's requests count as large: the stripe of AGIOS 2015, section 5,
/// which the tree was trained with.
const STRIPE: Bytes = Bytes::kib(32);

/// What a selector is made of.
pub(crate) struct Selection {
    device: Device,
    tree: Arc<Tree>,
    state: Option<PathBuf>,
    /// What was learned, by earlier selectors.
    known: Vec<Learned>,
    /// What of it the state file has.
    saved: Vec<Learned>,
    next_save: Timestamp,
    saver: Option<Saver>,
    /// The last attempt to save failed; that was told.
    is_failing: bool,
}

/// Writes the state file, and says whether it could; the loop waits for no disk.
struct Saver {
    thread: JoinHandle<bool>,
    learned: Vec<Learned>,
}

impl Selection {
    /// Of what the settings name.
    ///
    /// # Errors
    /// A profile or a tree that cannot be used, or a place where no state can be kept.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let device = Device::of(settings)?;
        let tree = match &settings.select.tree {
            None => default_tree(),
            Some(path) => Arc::new(load_tree(path).map_err(|error| Error::Setting {
                key: "select.tree",
                text: format!("{error}; name a tree that forebay train wrote"),
            })?),
        };
        let state = settings.select.state.clone();
        let known = match &state {
            None => Vec::new(),
            Some(path) => known(path, &device.key, &tree)?,
        };
        let saved = known.clone();
        let (next_save, saver, is_failing) = (Timestamp(0), None, false);
        Ok(Self { device, tree, state, known, saved, next_save, saver, is_failing })
    }

    /// Makes it anew: what was measured since then is known now. What was learned stays while device
    /// and tree do.
    ///
    /// # Errors
    /// As [`new`](Self::new); then it is as it was.
    pub(crate) fn renew(&mut self, settings: &Settings) -> Result<(), Error> {
        self.save_at_end(None);
        let mut new = Self::new(settings)?;
        if new.device.key == self.device.key && new.tree == self.tree {
            new.known = std::mem::take(&mut self.known);
        }
        *self = new;
        Ok(())
    }

    /// A selector that knows what was learned earlier. Policies wait at most `wait_max`.
    pub(crate) fn auto(&self, settings: &Settings, wait_max: Nanos) -> Auto {
        let mut auto = Auto::new(AutoOptions {
            device: self.device.profile,
            tree: Arc::clone(&self.tree),
            stripe: STRIPE,
            by_class: settings.sharing.level != Level::None,
            wait_max,
        });
        auto.restore(&self.known);
        auto
    }

    /// Has a selector choose from now on; `base` has what it begins with.
    pub(crate) fn begin(&self, engine: &mut Engine, auto: Auto, base: PolicyChoice) {
        engine.select(auto, base);
        engine.refine(&self.device.profile, self.device.refined);
    }

    /// Keeps what a selector has learned, for the next one.
    pub(crate) fn keep(&mut self, auto: &Auto) {
        self.known = auto.learned();
    }

    /// Saves what was learned, now and then, beside the loop.
    pub(crate) fn save_now_and_then(&mut self, now: Timestamp, auto: &Auto) {
        let is_writing = self.saver.as_ref().is_some_and(|saver| !saver.thread.is_finished());
        if now < self.next_save || is_writing || self.state.is_none() {
            return;
        }
        self.next_save = now + SAVE_EVERY;
        self.finish_saving();
        self.keep(auto);
        if self.known == self.saved {
            return;
        }
        let work = self.save();
        // Without a thread it is saved a minute later, or at the end.
        let thread = thread::Builder::new().name("state".into()).spawn(work).ok();
        self.saver = thread.map(|thread| Saver { thread, learned: self.known.clone() });
    }

    /// Saves what was learned, and waits until that is done.
    pub(crate) fn save_at_end(&mut self, auto: Option<&Auto>) {
        self.finish_saving();
        if let Some(auto) = auto {
            self.keep(auto);
        }
        // A run that learned nothing leaves no file.
        if self.known != self.saved && self.save()() {
            self.saved.clone_from(&self.known);
        }
    }

    fn finish_saving(&mut self) {
        let Some(Saver { thread, learned }) = self.saver.take() else { return };
        self.is_failing = !thread.join().is_ok_and(|is_saved| is_saved);
        if !self.is_failing {
            self.saved = learned;
        }
    }

    /// What writes the state file, and says whether it could. One warning is enough while it cannot.
    fn save(&self) -> impl FnOnce() -> bool + Send + use<> {
        let (key, tree) = (self.device.key.clone(), Arc::clone(&self.tree));
        let (state, known, is_told) = (self.state.clone(), self.known.clone(), self.is_failing);
        move || {
            let Some(path) = state else { return true };
            let saved = save_state(&path, &key, &tree, &known);
            if let (Err(error), false) = (&saved, is_told) {
                crate::log::warn(format_args!(
                    "what was learned is not saved: select.state = {error}; it is tried again \
                     every minute while the forwarder runs"
                ));
            }
            saved.is_ok()
        }
    }
}

/// What a state file has of a device and a tree. One that is damaged is only a memory: it is set
/// aside, and learning starts anew.
fn known(path: &Path, device_key: &str, tree: &Tree) -> Result<Vec<Learned>, Error> {
    let unusable = |error: forebay_prior::Error| Error::Setting {
        key: "select.state",
        text: format!("{error}; name a file in a folder that exists and can be written"),
    };
    let known = match load_state(path, device_key, tree) {
        Err(error @ forebay_prior::Error::Text(_)) => {
            let aside = set_aside(path).map_err(unusable)?;
            let aside = aside.display();
            crate::log::warn(format_args!(
                "select.state = {error}; it is {aside} now, and learning starts anew"
            ));
            Vec::new()
        }
        loaded => loaded.map_err(unusable)?,
    };
    check_place(path).map_err(unusable)?;
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::StoreKind;
    use forebay_sched::PolicyName;
    use forebay_select::Node;
    use std::fs;

    fn settings(state: &Path) -> Settings {
        let mut settings = Settings::default();
        settings.scheduler.policy = "auto".into();
        settings.store.kind = StoreKind::Memory;
        settings.select.state = Some(state.into());
        settings
    }

    fn learned(tree: &Tree) -> Vec<Learned> {
        let leaf = tree.nodes().iter().position(|node| matches!(node, Node::Leaf(_))).unwrap();
        vec![Learned { leaf, policy: PolicyName::Sjf, mean: 0.1, blocks: 4.0 }]
    }

    #[test]
    fn what_could_not_be_saved_is_saved_later() {
        let home = tempfile::tempdir().unwrap();
        let (folder, away) = (home.path().join("folder"), home.path().join("away"));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("state");
        let settings = settings(&path);
        let mut selection = Selection::new(&settings).unwrap();
        selection.known = learned(&selection.tree);
        let auto = selection.auto(&settings, Nanos::ZERO);
        assert_eq!(auto.learned(), selection.known);
        let mut now = Timestamp(0);
        let mut save = |selection: &mut Selection| {
            selection.save_now_and_then(now, &auto);
            selection.finish_saving();
            now = now + SAVE_EVERY;
            (selection.is_failing, selection.saved.len())
        };
        fs::rename(&folder, &away).unwrap();
        for _ in 0..2 {
            assert_eq!(save(&mut selection), (true, 0));
        }
        selection.save_at_end(Some(&auto));
        fs::rename(&away, &folder).unwrap();
        assert_eq!(save(&mut selection), (false, 1));
        let kept = || load_state(&path, "memory", &selection.tree).unwrap();
        assert_eq!(kept(), auto.learned());
        assert_eq!(Selection::new(&settings).unwrap().known, auto.learned());
    }

    #[test]
    fn what_one_selector_kept_is_written_though_the_next_adds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let settings = settings(&path);
        let mut selection = Selection::new(&settings).unwrap();
        selection.save_at_end(None);
        assert!(!path.exists(), "nothing was learned");
        selection.known = learned(&selection.tree);
        let auto = selection.auto(&settings, Nanos::ZERO);
        selection.keep(&auto);
        selection.save_now_and_then(Timestamp(0), &auto);
        selection.finish_saving();
        assert_eq!(load_state(&path, "memory", &selection.tree).unwrap(), auto.learned());
    }

    #[test]
    fn a_damaged_state_is_set_aside_and_a_place_for_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        fs::write(&path, "not a state").unwrap();
        assert_eq!(Selection::new(&settings(&path)).unwrap().known, []);
        assert!(!path.exists());
        assert_eq!(fs::read(folder.path().join("state.damaged")).unwrap(), b"not a state");
        for (path, part) in [("no/state", "exists"), (".", "regular file")] {
            let path = folder.path().join(path);
            let error = Selection::new(&settings(&path)).err().unwrap().to_string();
            assert!(error.contains("select.state") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn made_anew_it_knows_a_profile_that_came_meanwhile_and_what_was_learned() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings(&folder.path().join("state"));
        settings.select.state = None;
        let mut selection = Selection::new(&settings).unwrap();
        selection.known = learned(&selection.tree);
        selection.renew(&settings).unwrap();
        assert_eq!(selection.known, learned(&selection.tree));
        settings.store.kind = StoreKind::Modelled("ssd".into());
        selection.renew(&settings).unwrap();
        assert!(selection.device.about.contains("ssd"), "{}", selection.device.about);
        assert_eq!(selection.known, [], "it was of another device");
    }
}
