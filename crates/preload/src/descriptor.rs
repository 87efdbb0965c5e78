//! The life of descriptor numbers: what is known of them ends here, and our own are protected.

use core::time::Duration;
use std::os::fd::RawFd;

use rustix::io::Errno;

use crate::slot::{self, SLOTS};
use crate::sys::SignalsWait;
use crate::table::{self, State};
use crate::{process, settings};

/// A number has been given out by a call that opens something.
pub(crate) fn renewed(number: RawFd) {
    // Code that we do not hook closed it before, if the forwarder still has it.
    let _ = released(number);
}

/// A number is about to be closed or replaced: the forwarder closes its copy first, so that the
/// last close of a file is the last (locks, "text file busy", space of deleted files). The error is
/// that of a write that failed late.
pub(crate) fn released(number: RawFd) -> Result<(), Errno> {
    let Some(seen) = table::look(number) else { return Ok(()) };
    if seen.state == State::Unknown && table::attached(number) == 0 {
        return Ok(());
    }
    let is_matched = matches!(seen.state, State::Matched(_)) || table::attached(number) != 0;
    if is_matched && !process::has_state() {
        // A `vfork` child closes its own copy only.
        return Ok(());
    }
    let late = if is_matched { detach(number) } else { Ok(()) };
    table::forget(number);
    late
}

fn detach(number: RawFd) -> Result<(), Errno> {
    let _undisturbed = SignalsWait::new();
    let attached = table::attached(number);
    let limit = settings::current().map_or(Duration::ZERO, |settings| settings.timeout);
    let mut late = Ok(());
    for idx in (0..SLOTS).filter(|idx| attached >> idx & 1 == 1) {
        match slot::wait_for(idx, limit) {
            Some(mut held) => late = late.and(held.close(number)),
            None => slot::leave_to_holder(idx),
        }
    }
    late
}

/// What a program may do with a number that it wants to close or replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// As it likes.
    Program,
    /// It is the socket of one of our connections, in this place.
    Ours(usize),
}

/// Whose a number is. A socket of ours that un-hooked code replaced is the program's.
pub(crate) fn claim(number: RawFd) -> Claim {
    if !table::is_ours(number) || !process::has_state() {
        return Claim::Program;
    }
    match slot::with_socket(number) {
        Some(idx) => Claim::Ours(idx),
        None => {
            table::forget(number);
            Claim::Program
        }
    }
}

/// Makes room at a number that the program wants to put something else at: gives up our connection
/// there. The next call makes another one.
pub(crate) fn vacate(number: RawFd) -> Result<(), Errno> {
    let Claim::Ours(idx) = claim(number) else { return Ok(()) };
    // Linux answers EBUSY to a `dup2` that races with an `open`; this is such a race, with a call
    // in progress on that connection.
    slot::take_one(idx).ok_or(Errno::BUSY)?.disconnect();
    Ok(())
}

/// Releases every number in `first..=last` and returns what is left to close: the range without
/// our own sockets, as at most `SLOTS + 1` ranges, handed to `close` in order.
pub(crate) fn released_range(
    first: u32,
    last: u32,
    mut close: impl FnMut(u32, u32) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut from = first;
    if process::has_state() {
        for number in table::touched(first, last) {
            if claim(number) == Claim::Program {
                let _ = released(number);
                continue;
            }
            let ours = number.unsigned_abs();
            if from < ours {
                close(from, ours - 1)?;
            }
            from = ours + 1;
        }
    }
    if from <= last { close(from, last) } else { Ok(()) }
}
