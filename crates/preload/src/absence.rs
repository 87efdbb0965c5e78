//! What happens when there is no forwarder, or when it goes away in the middle of a call.
//!
//! Either the call fails with `EIO`, or it goes to the kernel as if Forebay were not there; both
//! are said once, loudly. After a failure, calls do not try again at once: the pause doubles up to
//! a limit, so that a dead forwarder costs next to nothing.

use core::fmt::Arguments;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use forebay_client::Error;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::say;
use crate::settings::{OnFailure, Settings};

/// The first pause.
const PAUSE_MS_MIN: u64 = 100;

/// The longest pause.
const PAUSE_MS_MAX: u64 = 10_000;

/// When to try again, in milliseconds of the monotonic clock.
static AGAIN_AT_MS: AtomicU64 = AtomicU64::new(0);
static PAUSE_MS: AtomicU64 = AtomicU64::new(0);
static SAID: AtomicBool = AtomicBool::new(false);

/// What becomes of a call that cannot be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The kernel carries it out.
    Kernel,
    /// It fails.
    Fail(Errno),
}

/// Whether it is too early to try again.
pub(crate) fn is_pausing() -> bool {
    let again_at = AGAIN_AT_MS.load(Ordering::Relaxed);
    again_at != 0 && now_ms() < again_at
}

/// A connection was made.
pub(crate) fn connected() {
    AGAIN_AT_MS.store(0, Ordering::Relaxed);
    PAUSE_MS.store(0, Ordering::Relaxed);
}

/// What becomes of calls while it is too early to try again.
pub(crate) fn policy(settings: &Settings) -> Instead {
    match settings.on_failure {
        OnFailure::Fail => Instead::Fail(Errno::IO),
        OnFailure::Direct => Instead::Kernel,
    }
}

/// A connection failed: says so, starts a pause, and says what becomes of the call.
#[cold]
pub(crate) fn failed(error: &Error, settings: &Settings) -> Instead {
    let pause = (PAUSE_MS.load(Ordering::Relaxed) * 2).clamp(PAUSE_MS_MIN, PAUSE_MS_MAX);
    PAUSE_MS.store(pause, Ordering::Relaxed);
    AGAIN_AT_MS.store(now_ms() + pause, Ordering::Relaxed);
    match settings.on_failure {
        OnFailure::Fail => {
            say_once(settings, error, format_args!("calls fail with EIO (FOREBAY_ON_FAILURE=fail)"))
        }
        OnFailure::Direct => say_once(
            settings,
            error,
            format_args!("going direct, unscheduled (FOREBAY_ON_FAILURE=direct)"),
        ),
    }
    policy(settings)
}

/// A write was lost in a way that nobody can tell whether, or when, it will still happen.
#[cold]
pub(crate) fn ambiguous(error: &Error, settings: &Settings) {
    failed(error, settings);
    say(format_args!("a change got no answer ({error}) and may or may not have happened: EIO"));
}

fn say_once(settings: &Settings, error: &Error, consequence: Arguments<'_>) {
    if SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    if !settings.problem.is_empty() {
        let problem = core::str::from_utf8(settings.problem.as_bytes()).unwrap_or("bad settings");
        say(format_args!("{problem}; {consequence}"));
    } else if let Some(endpoint) = &settings.endpoint {
        say(format_args!("forwarder at {endpoint}: {error}; {consequence}"));
    }
}

fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec.unsigned_abs() * 1_000 + now.tv_nsec.unsigned_abs() / 1_000_000
}
