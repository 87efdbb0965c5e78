//! Whether the user wants an end before the suite's.
//!
//! A suite has processes, mounts and a loop device of its own. Ending it is an error like any
//! other, on whose way out each is taken away by whoever set it up.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Ends the suite that this process runs, soon and with an error; it may be called at any time,
/// from any thread.
pub fn stop() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// An error once an end is wanted.
pub(crate) fn check() -> Result<(), Error> {
    match IS_WANTED.load(Ordering::Relaxed) {
        true => Err(Error::failed("ended by a signal before it was done")),
        false => Ok(()),
    }
}
