//! Policy `auto`: what the selector is made of, and what it has learned from one run to the next.
//!
//! ```text
//! settings ─► device profile, tree, state file ─► Auto, beside the engine's scheduler
//!                                 ▲                 │ every minute and at the end
//!                                 └── learned ◄─────┘
//! ```

pub(crate) mod device;
mod report;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use forebay_engine::Engine;
use forebay_prior::{TREE_BYTES_MAX, default_tree, load_state, read_tree, save_state};
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
    /// What was learned earlier, as the state file has it.
    known: Vec<Learned>,
    next_save: Timestamp,
    /// Writes the state file; the loop waits for no disk.
    saver: Option<JoinHandle<bool>>,
}

/// A tree in a file.
fn tree(path: &Path) -> Result<Tree, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // One byte too many is refused as such.
    let read = file.take(TREE_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    read_tree(&text).map_err(|error| error.to_string())
}

impl Selection {
    /// Of what the settings name.
    ///
    /// # Errors
    /// A profile, a tree or a state that cannot be used.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let device = Device::of(settings)?;
        let tree = match &settings.select.tree {
            None => default_tree(),
            Some(path) => Arc::new(tree(path).map_err(|text| Error::Setting {
                key: "select.tree",
                text: format!("{}: {text}; name a tree that forebay train wrote", path.display()),
            })?),
        };
        let state = settings.select.state.clone();
        let known = match &state {
            None => Vec::new(),
            Some(path) => load_state(path, &device.key, &tree).map_err(|error| {
                let text =
                    format!("{}: {error}; remove it, and learning starts anew", path.display());
                Error::Setting { key: "select.state", text }
            })?,
        };
        Ok(Self { device, tree, state, known, next_save: Timestamp(0), saver: None })
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
        let is_writing = self.saver.as_ref().is_some_and(|saver| !saver.is_finished());
        if now < self.next_save || is_writing || self.state.is_none() {
            return;
        }
        self.next_save = now + SAVE_EVERY;
        let learned = auto.learned();
        if learned == self.known {
            return;
        }
        self.finish_saving();
        self.known = learned;
        let work = self.save();
        // Without a thread it is saved a minute later, or at the end.
        self.saver = thread::Builder::new().name("state".into()).spawn(work).ok();
    }

    /// Saves what was learned, and waits until that is done.
    pub(crate) fn save_at_end(&mut self, auto: Option<&Auto>) {
        self.finish_saving();
        if let Some(auto) = auto {
            self.keep(auto);
        }
        // A run that learned nothing leaves no file.
        if !self.known.is_empty() {
            self.save()();
        }
    }

    fn finish_saving(&mut self) {
        if let Some(saver) = self.saver.take()
            && saver.join().is_ok_and(|is_saved| !is_saved)
        {
            // It was told; one warning is enough.
            self.state = None;
        }
    }

    /// What writes the state file, and says whether it could.
    fn save(&self) -> impl FnOnce() -> bool + Send + use<> {
        let (key, tree) = (self.device.key.clone(), Arc::clone(&self.tree));
        let (state, known) = (self.state.clone(), self.known.clone());
        move || {
            let Some(path) = state else { return true };
            let saved = save_state(&path, &key, &tree, &known);
            if let Err(error) = &saved {
                let path = path.display();
                crate::log::warn(format_args!(
                    "what was learned is not kept: select.state = {path}: {error}; name a file \
                     that can be written"
                ));
            }
            saved.is_ok()
        }
    }
}
