//! What is said at the end: to the forwarder, with the goodbye, and to the user, if asked to.

use core::fmt;
use core::time::Duration;

use forebay_client::{Bye, Reason, Reasons};

use crate::counter::{REASON_COUNT, Snapshot};
use crate::slot::{self, SLOTS};
use crate::sys::SignalsWait;
use crate::text::Text;
use crate::{process, say, settings, sys};

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
    for idx in 0..SLOTS {
        if let Some(mut held) = slot::take_one(idx).filter(|held| held.is_connected()) {
            held.bye(&said, settings.timeout.min(GOODBYE));
            // Told once.
            said = Bye { forwarded: 0, native: 0, reasons: Reasons::from(&[][..]) };
        }
    }
    if settings.report && counted.forwarded_calls() + counted.native_calls() > 0 {
        print(&counted);
    }
}

fn print(counted: &Snapshot) {
    let mut program = Text::<64>::new();
    sys::program(|name| program.push(name));
    let program = core::str::from_utf8(program.as_bytes()).unwrap_or("?");
    say(format_args!("{program}[{}]: {}", rustix::process::getpid(), Summary(counted)));
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
