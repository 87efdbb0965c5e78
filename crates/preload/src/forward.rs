//! Finding a connection for a call, and what becomes of the call when there is none.

use forebay_client::{Connection, Error, Handle, Loss};
use rustix::io::Errno;

use crate::absence::{self, Instead};
use crate::classify::Match;
use crate::counter::{self, Reason};
use crate::link::Unusable;
use crate::settings::Settings;
use crate::slot::{self, Held};
use crate::table;

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded; for data calls, with so many bytes.
    Moved(usize),
    /// It failed.
    Failed(Errno),
    /// The kernel is to carry it out.
    Native,
}

/// Whether a call may be sent again after its connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Doing it twice is the same as doing it once.
    Always,
    /// Only if nothing of it was sent.
    Unsent,
}

/// A call that did not succeed through the forwarder.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store's answer.
    Errno(Errno),
    /// Never sent: what becomes of it is the kernel's or the settings' business.
    Unsent(Instead),
    /// The program's memory could not be read or written.
    Memory,
    /// Sent, and no answer came.
    Lost(Error),
}

/// Carries out `act` for a file through some connection. If that turns out to have been closed
/// meanwhile (the forwarder was restarted), once more through a new one.
pub(crate) fn forward<T>(
    file: &Match,
    settings: &Settings,
    repeat: Repeat,
    mut act: impl FnMut(&mut Connection, Handle) -> Result<T, Error>,
) -> Result<T, Failure> {
    let mut held = slot::take(table::attached(file.number)).ok_or_else(|| unsent(Reason::Busy))?;
    let mut is_first = held.is_connected();
    loop {
        let error = match attempt(&mut held, file, settings, repeat, &mut act) {
            Ok(done) => return Ok(done),
            Err(Attempt::Answered(failure)) => return Err(failure),
            Err(Attempt::Opening(error)) => {
                if !core::mem::take(&mut is_first) || !error.is_gone() {
                    return Err(Failure::Unsent(instead(absence::failed(&error, settings))));
                }
                error
            }
            Err(Attempt::Acting(error)) => {
                let may_repeat = match error {
                    Error::Lost(Loss::Unsent) => true,
                    _ => error.is_gone() && repeat == Repeat::Always,
                };
                if !core::mem::take(&mut is_first) || !may_repeat {
                    return Err(Failure::Lost(error));
                }
                error
            }
        };
        debug_assert!(error.is_gone());
    }
}

enum Attempt {
    Answered(Failure),
    /// The connection failed before the call was sent.
    Opening(Error),
    /// The connection failed afterwards.
    Acting(Error),
}

fn attempt<T>(
    held: &mut Held,
    file: &Match,
    settings: &Settings,
    repeat: Repeat,
    act: &mut impl FnMut(&mut Connection, Handle) -> Result<T, Error>,
) -> Result<T, Attempt> {
    if !held.is_connected() && absence::is_pausing() {
        return Err(Attempt::Answered(Failure::Unsent(instead(absence::policy(settings)))));
    }
    let (connection, handle) = match held.opened(file, settings) {
        Ok(opened) => opened,
        Err(Unusable::File(reason)) => {
            if matches!(reason, Reason::Refused | Reason::Outside) {
                table::demote(file.number, file.epoch);
            }
            return Err(Attempt::Answered(unsent(reason)));
        }
        Err(Unusable::Connection(error)) => {
            held.disconnect();
            return Err(Attempt::Opening(error));
        }
    };
    // Over TCP, what is sent to a forwarder that has gone seems to be sent all the same.
    if repeat == Repeat::Unsent && !connection.is_quiet() {
        held.disconnect();
        return Err(Attempt::Acting(Error::Lost(Loss::Unsent)));
    }
    let error = match act(connection, handle) {
        Ok(done) => return Ok(done),
        Err(Error::Errno(errno)) => return Err(Attempt::Answered(Failure::Errno(errno))),
        Err(Error::Unsendable(_)) => return Err(Attempt::Answered(unsent(Reason::Busy))),
        Err(error) => error,
    };
    held.disconnect();
    Err(match error {
        Error::Memory => Attempt::Answered(Failure::Memory),
        error => Attempt::Acting(error),
    })
}

fn unsent(reason: Reason) -> Failure {
    counter::native(reason);
    Failure::Unsent(Instead::Kernel)
}

fn instead(instead: Instead) -> Instead {
    if instead == Instead::Kernel {
        counter::native(Reason::Absent);
    }
    instead
}
