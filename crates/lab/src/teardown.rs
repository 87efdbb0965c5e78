//! Taking a disk down, in the one order that is safe.
//!
//! ```text
//!   claim ─► (abort FUSE, if the daemon is dead or hangs) ─► stop charging ─► unmount ─► detach
//!         ─► unmount FUSE ─► daemon ends ─► directory goes ─► claim ends
//! ```
//!
//! It looks at what is there and takes it away from the top, so it repairs whatever a crash of the
//! daemon, of `up` or of an earlier `down` has left. Who does it: the owner when it ends; if it was
//! killed, the daemon, which waits for the owner's lock ([`attend`]); if that was killed too,
//! `forebay lab disk down`, or the next `up` of the same name.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::control::{self, Command};
use crate::error::Error;
use crate::owner::{self, Claim};
use crate::places::Places;
use crate::stack::loop_device::LoopDevice;
use crate::stack::{fuse_mount, mount_table, wait_until};
use crate::state::state;

/// A disk's file system that is in use for longer is not so for a moment.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// The daemon's file is in nobody's hands but a detached loop device's, which on a busy machine
/// takes its time.
const FILE_RELEASE_MAX: Duration = Duration::from_secs(10);

/// After its file system is unmounted a daemon has nothing left to do, but may have to wait for a
/// processor.
const DAEMON_END_MAX: Duration = Duration::from_secs(30);

/// How long to let whatever uses an abandoned disk go on before it is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Takes away what there is of a disk, from the top; nothing is left of what a crash has left.
/// What is not yet written to the disk is dropped with it, in no time.
///
/// # Errors
/// If this is not root, there is nothing, its owner lives, or something is still in use; what was
/// above that is gone then.
pub fn take_down(name: &str) -> Result<(), Error> {
    state(name)?;
    let places = Places::of(name);
    let claim = owner::claim(&places)?;
    take_down_claimed(&places, claim)
}

/// The same, even if its owner lives, which then fails.
///
/// # Errors
/// As [`take_down`], but for the owner.
pub fn take_down_by_force(name: &str) -> Result<(), Error> {
    take_away(&Places::of(name))
}

/// The same, for whoever has the claim.
pub(crate) fn take_down_claimed(places: &Places, claim: Claim) -> Result<(), Error> {
    let outcome = take_away(places);
    drop(claim);
    outcome
}

fn take_away(places: &Places) -> Result<(), Error> {
    let found = state(&places.name())?;
    if found.has_fuse && !found.answers {
        // Everything that waits for the daemon, and unmounting what is above, would wait for ever.
        fuse_mount::abort(&places.fuse())?;
    }
    // Nobody will read what is written back now: it need not take the model's time.
    let is_free = found.answers && control::tell(places, Command::Free).is_ok();
    while mount_table::at(&places.mount_point())?.is_some() {
        mount_table::unmount_at(&places.mount_point(), RELEASE_MAX).inspect_err(|_| {
            if is_free {
                // Who still uses it has a disk that takes its time; that it is in use is what is said.
                let _ = control::tell(places, Command::Charge);
            }
        })?;
    }
    for device in LoopDevice::of(places)? {
        device.detach(places)?;
    }
    while mount_table::at(&places.fuse())?.is_some() {
        mount_table::unmount_at(&places.fuse(), FILE_RELEASE_MAX)?;
    }
    end_daemon(places, found.answers)?;
    owner::alone(|| remove_directory(places))
}

/// Waits until the daemon has ended. One that hangs is killed: there is nothing on it any more.
fn end_daemon(places: &Places, answers: bool) -> Result<(), Error> {
    if !answers && places.is_served() {
        let number = fs::read_to_string(places.lock()).unwrap_or_default();
        let process = number.parse().ok().and_then(Pid::from_raw);
        if let Some(process) = process.filter(|_| places.is_daemon(&number)) {
            // It may have ended by itself meanwhile.
            let _ = kill_process(process, Signal::KILL);
        }
    }
    if wait_until(DAEMON_END_MAX, || !places.is_served()) {
        return Ok(());
    }
    let name = places.name();
    Err(Error::failed(format!(
        "the daemon of disk \"{name}\" does not end although nothing uses it"
    )))
}

/// Removes what the lab has put there and nothing else: should something be mounted below, it stays.
fn remove_directory(places: &Places) -> Result<(), Error> {
    let absent = |outcome: std::io::Result<()>, path: &Path| match outcome {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(Error::file(path)),
    };
    for path in places.files() {
        absent(fs::remove_file(&path), &path)?;
    }
    for path in [places.fuse(), places.mount_point()] {
        absent(fs::remove_dir(&path), &path)?;
    }
    absent(fs::remove_file(places.owner()), &places.owner())?;
    absent(fs::remove_dir(&places.directory), &places.directory)
}

/// Waits for the end of the disk's owner, and takes the disk down if that has not: what a thread
/// of the daemon does. `is_begun` is set when the daemon has to let it finish.
pub(crate) fn attend(places: &Places, is_begun: &AtomicBool) {
    let mut complaint = String::new();
    while owner::wait_for_end(places) {
        if let Some(claim) = owner::claim_abandoned(places) {
            is_begun.store(true, Ordering::Release);
            let Err(error) = take_down_claimed(places, claim) else { return };
            is_begun.store(false, Ordering::Release);
            if complaint != error.to_string() {
                complaint = error.to_string();
                eprintln!("left behind by its owner, and not yet taken down: {complaint}");
            }
        }
        std::thread::sleep(TRY_AGAIN_AFTER);
    }
}
