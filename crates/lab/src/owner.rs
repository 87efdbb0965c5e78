//! Whose a disk is, and who may take it down.
//!
//! A disk's `owner` file is locked by the process that has set it up, for as long as that lives,
//! and names it; a disk that is kept is nobody's, and the file empty. The kernel lets go of the
//! lock however the process ends, so a name without a lock is a disk that was left behind; who
//! claims it writes that beside the name first, so that nobody who looks takes it for the owner.
//!
//! Whoever takes a disk down holds the same lock until nothing is left of it ([`Claim`]); so no
//! two do, and none takes down what another has just set up. What finds or changes who holds it
//! does so under a lock of the directory of all disks, which is held for moments only.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lock::{self, Try};
use crate::places::Places;
use crate::settings::RUN_DIRECTORY;

/// What stands behind the name of an owner that has ended without taking its disk down.
const LEFT: &str = "\nleft behind";

/// A program's arguments are cut here.
const PROGRAM_LENGTH_MAX: usize = 120;

/// Whose a disk is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Nobody's: it was set up to be kept.
    Nobody,
    /// A running process's (number and program), which takes it down when it ends.
    Living(String),
    /// It was that process's, which has ended without taking it down. Its daemon does so as soon
    /// as nothing uses it.
    Gone(String),
}

/// The right to take a disk down, until dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
}

impl Claim {
    /// The disk becomes nobody's.
    pub(crate) fn give_up(self) -> std::io::Result<()> {
        self.file.set_len(0)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that another thread is just starting has it
        // open too, and with it the lock, until it runs its program.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Keeps others from claiming, making or removing any disk; for moments.
pub(crate) fn alone<T>(what: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let folder = Path::new(RUN_DIRECTORY);
    let lock = File::open(folder).map_err(Error::file(folder))?;
    flock(&lock, FlockOperation::LockExclusive).map_err(Error::file(folder))?;
    what()
}

/// A new disk's owner: this process. Only [`alone`].
pub(crate) fn own(places: &Places) -> Result<Claim, Error> {
    let path = places.owner();
    let mut file = File::create_new(&path).map_err(Error::file(&path))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(Error::file(&path))?;
    file.write_all(this_process().as_bytes()).map_err(Error::file(&path))?;
    Ok(Claim { file })
}

/// Claims a disk that nobody holds.
///
/// # Errors
/// If there is none, or its owner lives, or somebody else takes it down.
pub(crate) fn claim(places: &Places) -> Result<Claim, Error> {
    let path = places.owner();
    let mut claimed = None;
    lock::take(|| {
        alone(|| {
            let (file, outcome) = try_claim(&path).map_err(Error::file(&path))?;
            if outcome == Try::Taken {
                claimed = Some(Claim { file });
            }
            Ok(outcome)
        })
    })?;
    claimed.ok_or_else(|| {
        let holder = match named_in(&path) {
            Some(Named { process, is_left: false }) => {
                format!("belongs to process {process}, which takes it down itself")
            }
            _ => "is being taken down by somebody else".to_owned(),
        };
        let name = places.name();
        let remedy = format!("`forebay lab disk down {name} --force` does it nevertheless");
        Error::fix(format!("disk \"{name}\" {holder}; {remedy}"))
    })
}

/// Tries once to claim the disk with this owner's file. Only [`alone`].
fn try_claim(path: &Path) -> std::io::Result<(File, Try)> {
    // Setting it up may have ended before anybody owned it.
    let file = File::options().read(true).append(true).create(true).open(path)?;
    let outcome = lock::try_take(&file, || match named_in(path) {
        // In one piece and behind the name: whoever reads it sees all of it or nothing.
        Some(Named { is_left: false, .. }) => (&file).write_all(LEFT.as_bytes()),
        _ => Ok(()),
    })?;
    Ok((file, outcome))
}

/// Claims a disk whose owner has ended without taking it down, if it is that.
pub(crate) fn claim_abandoned(places: &Places) -> Option<Claim> {
    if !matches!(of(places), Owner::Gone(_)) {
        return None;
    }
    let claim = claim(places).ok()?;
    // Somebody may have had it, and given it up, in between.
    named_in(&places.owner()).map(|_| claim)
}

/// Whose a disk is now.
pub(crate) fn of(places: &Places) -> Owner {
    let Ok(file) = File::open(places.owner()) else { return Owner::Nobody };
    let is_free = !lock::is_held(&file);
    match named_in(&places.owner()) {
        None => Owner::Nobody,
        Some(Named { process, is_left }) if is_free || is_left => Owner::Gone(process),
        Some(Named { process, .. }) => Owner::Living(process),
    }
}

/// Waits until a disk's owner has ended or given it up; whether it is abandoned.
pub(crate) fn wait_for_end(places: &Places) -> bool {
    let Ok(file) = File::open(places.owner()) else { return false };
    while flock(&file, FlockOperation::LockShared) == Err(Errno::INTR) {}
    drop(file);
    matches!(of(places), Owner::Gone(_))
}

/// What an owner's file says.
struct Named {
    process: String,
    /// Whether somebody has found that it has ended without taking its disk down.
    is_left: bool,
}

/// What an owner's file says; none if the disk is nobody's.
fn named_in(path: &Path) -> Option<Named> {
    let text = fs::read_to_string(path).ok()?;
    if text.is_empty() {
        return None;
    }
    let (process, is_left) = match text.strip_suffix(LEFT) {
        Some(process) => (process.to_owned(), true),
        None => (text, false),
    };
    Some(Named { process, is_left })
}

/// Number and program of this process.
fn this_process() -> String {
    let line = fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let short: String = line.trim().chars().take(PROGRAM_LENGTH_MAX).collect();
    format!("{} ({short})", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn while_a_dead_owners_disk_is_claimed_everybody_sees_that_it_is_dead() {
        let directory = std::env::temp_dir().join(format!("forebay-owner-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let places = Places { directory };
        for _ in 0..1_000 {
            fs::write(places.owner(), "7 (a program)").unwrap();
            let is_claimed = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while try_claim(&places.owner()).unwrap().1 != Try::Taken {}
                    is_claimed.store(true, Ordering::Relaxed);
                });
                while !is_claimed.load(Ordering::Relaxed) {
                    assert_eq!(of(&places), Owner::Gone("7 (a program)".into()));
                    std::thread::yield_now();
                }
            });
            assert!(named_in(&places.owner()).unwrap().is_left);
        }
        fs::remove_dir_all(&places.directory).unwrap();
    }
}
