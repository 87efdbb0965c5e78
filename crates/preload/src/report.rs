//! What is said at the end: to the forwarder, with the goodbye, and to the user, if asked to.

use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use core::time::Duration;
use std::os::fd::RawFd;

use forebay_client::{Bye, Reason, Reasons};

use crate::counter::{REASON_COUNT, Snapshot};
use crate::link::Purpose;
use crate::settings::{self, Settings};
use crate::slot::{self, SLOTS};
use crate::sys::{self, SignalsWait};
use crate::table::Identity;
use crate::text::Text;
use crate::{STANDARD_ERROR, absence, process, say_at};

/// How long a process that ends waits for the forwarder at most.
const GOODBYE: Duration = Duration::from_secs(1);

/// Says goodbye on every connection that no call is using, and prints the report. Called when the
/// process exits or is about to become another program; if that fails, connections are made again.
pub(crate) fn leave() {
    let Some(settings) = settings::current().filter(|_| process::has_state()) else { return };
    let _undisturbed = SignalsWait::new();
    let counted = Snapshot::take();
    let mut reasons = [Reason { reason: 0, calls: 0 }; REASON_COUNT];
    let count = counted
        .reasons()
        .zip(&mut reasons)
        .map(|((reason, calls), room)| *room = Reason { reason: reason as u8, calls })
        .count();
    let mut said = Bye {
        forwarded: counted.forwarded_calls(),
        native: counted.native_calls(),
        reasons: Reasons::from(&reasons[..count]),
    };
    let has_counted = said.forwarded + said.native > 0;
    let limit = settings.timeout.min(GOODBYE);
    let mut is_told = !has_counted;
    for idx in 0..SLOTS {
        if let Some(mut held) = slot::take_one(idx).filter(|held| held.is_connected()) {
            held.bye(&said, limit);
            said = Bye { forwarded: 0, native: 0, reasons: Reasons::from(&[][..]) };
            is_told = true;
        }
    }
    // What never went through a connection is worth telling too: that is how a user learns of it.
    if !is_told
        && !absence::is_pausing()
        && let Some(mut held) = slot::take(0)
        && held.connect(settings, Purpose::Goodbye(limit)).is_ok()
    {
        held.bye(&said, limit);
    }
    if settings.report && has_counted {
        print(&counted);
    }
}

/// The number of our own copy of standard error, -1 if there is none.
static COPY: AtomicI32 = AtomicI32::new(-1);
static COPY_DEVICE: AtomicU64 = AtomicU64::new(0);
static COPY_INODE: AtomicU64 = AtomicU64::new(0);

/// Keeps a copy of standard error for the report, which many programs close before they end.
/// Called when the first file matches.
pub(crate) fn keep_standard_error(settings: &Settings) {
    if !settings.report || COPY.load(Ordering::Relaxed) >= 0 {
        return;
    }
    let copied = sys::descriptor(STANDARD_ERROR)
        .and_then(|descriptor| sys::copy_above(descriptor, crate::link::number_min()).ok())
        .and_then(|number| Some((number, identity(number)?)));
    if let Some((number, Identity { device, inode })) = copied {
        COPY_DEVICE.store(device, Ordering::Relaxed);
        COPY_INODE.store(inode, Ordering::Relaxed);
        COPY.store(number, Ordering::Release);
    }
}

/// Our copy of standard error, if the program has not put something else there; else its own.
fn standard_error() -> RawFd {
    let number = COPY.load(Ordering::Acquire);
    let copied = Identity {
        device: COPY_DEVICE.load(Ordering::Relaxed),
        inode: COPY_INODE.load(Ordering::Relaxed),
    };
    if identity(number) == Some(copied) { number } else { STANDARD_ERROR }
}

fn identity(number: RawFd) -> Option<Identity> {
    rustix::fs::fstat(sys::descriptor(number)?).ok().map(|stat| Identity::of(&stat))
}

fn print(counted: &Snapshot) {
    let mut program = Text::<64>::new();
    sys::program(|name| program.push(name));
    let program = core::str::from_utf8(program.as_bytes()).unwrap_or("?");
    let pid = rustix::process::getpid();
    say_at(standard_error(), format_args!("{program}[{pid}]: {}", Summary(counted)));
}

/// One line: what was forwarded, and what was not and why.
struct Summary<'a>(&'a Snapshot);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Snapshot { calls, bytes, .. } = self.0;
        write!(
            f,
            "forwarded {} reads ({} bytes), {} writes ({} bytes), {} other calls",
            calls[0], bytes[0], calls[1], bytes[1], calls[2]
        )?;
        for (position, (reason, count)) in self.0.reasons().enumerate() {
            let lead = if position == 0 { "; not forwarded:" } else { "," };
            write!(f, "{lead} {count} {}", reason.text())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Reason;

    #[test]
    fn the_summary_names_what_was_not_forwarded() {
        let mut counted = Snapshot { calls: [3, 1, 0], bytes: [30, 10, 0], ..Snapshot::default() };
        counted.native[Reason::Stdio as usize] = 2;
        counted.native[Reason::Mapping as usize] = 1;
        assert_eq!(
            Summary(&counted).to_string(),
            "forwarded 3 reads (30 bytes), 1 writes (10 bytes), 0 other calls; \
             not forwarded: 2 opened by stdio, 1 mapped"
        );
    }
}
