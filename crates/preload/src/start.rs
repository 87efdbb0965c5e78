//! Starting the node's forwarder when it is first needed, as in the 2005 paper.

mod sys;

use core::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::nanosleep;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::say;
use crate::settings::Settings;

/// Whether this process has started one already.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Starts a forwarder, if the settings say how and this process has not done so before.
pub(crate) fn launch(settings: &Settings) -> bool {
    let Some(command) = settings.start.as_c_str().filter(|command| !command.is_empty()) else {
        return false;
    };
    if STARTED.swap(true, Ordering::Relaxed) {
        return false;
    }
    match sys::spawn_shell(command) {
        Ok(()) => true,
        Err(errno) => {
            say(format_args!("cannot start a forwarder: {errno}"));
            false
        }
    }
}

/// Repeats `attempt` until it succeeds, fails for another reason than `is_not_there`, or the
/// time-out has passed: a forwarder that was started needs a moment until it listens.
pub(crate) fn retry<T, E>(
    settings: &Settings,
    mut attempt: impl FnMut() -> Result<T, E>,
    is_not_there: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let end = clock_gettime(ClockId::Monotonic) + settings_timeout(settings);
    loop {
        match attempt() {
            Err(error) if is_not_there(&error) && clock_gettime(ClockId::Monotonic) < end => {
                let _ = nanosleep(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 });
            }
            outcome => return outcome,
        }
    }
}

fn settings_timeout(settings: &Settings) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(settings.timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(settings.timeout.subsec_nanos()),
    }
}
