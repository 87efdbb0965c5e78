//! Calls that close a descriptor number, or replace what it means.

use core::ffi::{c_int, c_uint};

use rustix::io::Errno;

use crate::descriptor::{self, Claim};
use crate::hook::next::sys::hook;
use crate::sys::{self, set_errno};

fn fail(errno: Errno) -> c_int {
    set_errno(errno);
    -1
}

/// Frees a number that is about to mean something else.
fn replaced(number: c_int, replace: impl FnOnce() -> c_int) -> c_int {
    if let Err(errno) = descriptor::vacate(number) {
        return fail(errno);
    }
    // As with the kernel's own `dup2`, an error of this implied close has nobody to be told to.
    let _ = descriptor::released(number);
    replace()
}

hook! {
    /// `close(2)`. Our own sockets are not open as far as the program is concerned.
    fn close(number: c_int) -> c_int = -1, |next| {
        if descriptor::claim(number) != Claim::Program {
            return fail(Errno::BADF);
        }
        let late = descriptor::released(number);
        match (next(), late) {
            (0, Err(errno)) => fail(errno),
            (result, _) => result,
        }
    }

    /// `dup2(2)`.
    fn dup2(number: c_int, wanted: c_int) -> c_int = -1, |next| {
        if number == wanted { next() } else { replaced(wanted, next) }
    }

    /// `dup3(2)`.
    fn dup3(number: c_int, wanted: c_int, flags: c_int) -> c_int = -1, |next| {
        if number == wanted { next() } else { replaced(wanted, next) }
    }

    /// `close_range(2)`, around our own sockets.
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int = -1, |next| {
        const CLOSE_ON_EXEC: c_int = 1 << 2;
        if first > last || flags & CLOSE_ON_EXEC != 0 {
            return next();
        }
        match descriptor::released_range(first, last, |first, last| sys::close_range(first, last, flags)) {
            Ok(()) => 0,
            Err(errno) => fail(errno),
        }
    }

    /// `closefrom(3)`.
    fn closefrom(first: c_int) -> () = (), |next| {
        let first = c_uint::try_from(first).unwrap_or(0);
        if descriptor::released_range(first, c_uint::MAX, |first, last| sys::close_range(first, last, 0)).is_err() {
            // A kernel without `close_range`: the C library has another way.
            next();
        }
    }
}
