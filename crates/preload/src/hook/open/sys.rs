//! Calls that give out a descriptor number: what was known of the number is forgotten. What the
//! new one is, is found out when data moves through it, so that opening costs nothing.

use core::ffi::{c_char, c_int};

use libc::mode_t;

use crate::descriptor;
use crate::hook::next::sys::hook;

fn renewed(number: c_int) -> c_int {
    if number >= 0 {
        descriptor::renewed(number);
    }
    number
}

hook! {
    /// `open(2)`.
    fn open(path: *const c_char, flags: c_int; mode: mode_t) -> c_int = -1, |next| { renewed(next()) }

    /// `open(2)`.
    fn open64(path: *const c_char, flags: c_int; mode: mode_t) -> c_int = -1, |next| { renewed(next()) }

    /// `openat(2)`.
    fn openat(folder: c_int, path: *const c_char, flags: c_int; mode: mode_t) -> c_int = -1, |next| {
        renewed(next())
    }

    /// `openat(2)`.
    fn openat64(folder: c_int, path: *const c_char, flags: c_int; mode: mode_t) -> c_int = -1, |next| {
        renewed(next())
    }

    /// `open(2)` without a mode, in programs compiled with `_FORTIFY_SOURCE`.
    fn __open_2(path: *const c_char, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// As [`__open_2`].
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// As [`__open_2`], for `openat(2)`.
    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// As [`__open_2`], for `openat(2)`.
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `creat(2)`.
    fn creat(path: *const c_char, mode: mode_t) -> c_int = -1, |next| { renewed(next()) }

    /// `creat(2)`.
    fn creat64(path: *const c_char, mode: mode_t) -> c_int = -1, |next| { renewed(next()) }

    /// `mkstemp(3)`.
    fn mkstemp(template: *mut c_char) -> c_int = -1, |next| { renewed(next()) }

    /// `mkstemp(3)`.
    fn mkstemp64(template: *mut c_char) -> c_int = -1, |next| { renewed(next()) }

    /// `mkostemp(3)`.
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `mkostemp(3)`.
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `mkstemps(3)`.
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `mkstemps(3)`.
    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `mkostemps(3)`.
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `mkostemps(3)`.
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `dup(2)`.
    fn dup(number: c_int) -> c_int = -1, |next| { renewed(next()) }

    /// `fcntl(2)`, of which only duplicating gives out a number.
    fn fcntl(number: c_int, command: c_int; argument: usize) -> c_int = -1, |next| {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => renewed(next()),
            _ => next(),
        }
    }

    /// As [`fcntl`].
    fn fcntl64(number: c_int, command: c_int; argument: usize) -> c_int = -1, |next| {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => renewed(next()),
            _ => next(),
        }
    }
}
