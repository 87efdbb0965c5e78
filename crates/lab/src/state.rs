//! What there is of a disk: found by looking, without touching what may hang.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::control::{self, Command};
use crate::error::Error;
use crate::owner::{self, Owner};
use crate::places::Places;
use crate::settings::{RUN_DIRECTORY, check_name};
use crate::stack::loop_device::LoopDevice;
use crate::stack::mount_table;

/// What there is of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub owner: Owner,
    /// Whether a daemon serves it.
    pub is_served: bool,
    /// Whether that daemon answers within five seconds; otherwise it hangs.
    pub answers: bool,
    /// Whether the daemon's file system is mounted.
    pub has_fuse: bool,
    /// The loop devices on it.
    pub block_devices: Vec<PathBuf>,
    /// Whether its file system is mounted.
    pub is_mounted: bool,
    /// The last lines that the daemon had to say. One that was killed could not say so.
    pub daemon_said: Vec<String>,
}

impl State {
    /// Whether it can be used; otherwise only taken down.
    pub fn is_whole(&self) -> bool {
        let stands = self.has_fuse && self.block_devices.len() == 1 && self.is_mounted;
        self.is_served && self.answers && stands
    }

    /// What keeps it from being used, if it is not whole.
    pub fn fault(&self) -> &'static str {
        match self {
            Self { is_served: false, .. } => "its daemon has ended",
            Self { answers: false, .. } => "its daemon hangs",
            _ => "a part of it is missing",
        }
    }
}

/// Root is needed for mounting and for loop devices, and the disks' directory is root's alone.
///
/// # Errors
/// If this is not root.
pub fn require_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::fix(
        "the emulated disk needs root: it mounts file systems, attaches a loop device, \
         and shows itself to root alone",
    ))
}

/// The disks that there is anything of.
///
/// # Errors
/// If this is not root, or their directory cannot be read.
pub fn names() -> Result<Vec<String>, Error> {
    require_root()?;
    let folder = Path::new(RUN_DIRECTORY);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::file(folder))?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| check_name(name).is_ok()).collect();
    names.sort();
    Ok(names)
}

/// What there is of a disk.
///
/// # Errors
/// If this is not root, or there is nothing of it.
pub fn state(name: &str) -> Result<State, Error> {
    check_name(name)?;
    require_root()?;
    let places = Places::of(name);
    if !places.directory.exists() {
        let text = format!("there is no disk \"{name}\"; `forebay lab disk up {name}` sets it up");
        return Err(Error::fix(text));
    }
    let is_served = places.is_served();
    Ok(State {
        name: name.to_owned(),
        owner: owner::of(&places),
        is_served,
        answers: is_served && control::tell(&places, Command::Statistics).is_ok(),
        has_fuse: mount_table::at(&places.fuse())?.is_some(),
        block_devices: LoopDevice::of(&places)?.iter().map(LoopDevice::path).collect(),
        is_mounted: mount_table::at(&places.mount_point())?.is_some(),
        daemon_said: places.last_words(),
    })
}
