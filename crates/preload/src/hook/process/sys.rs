//! The beginning and the end of processes.
//!
//! `vfork` cannot be hooked (it returns twice into its caller's frame) and need not be: a child
//! that runs in its parent's memory is recognised, see [`crate::process`]. The variadic `execl`
//! family needs no hook either: sockets close by themselves when a program is replaced, only the
//! goodbye with its counters is not sent.

use core::ffi::{c_char, c_int};

use libc::pid_t;

use crate::hook::next::sys::hook;
use crate::{process, report};

hook! {
    /// `fork(2)`: the child gives up its copies of the parent's sockets at once.
    fn fork() -> pid_t = -1, |next| {
        let child = next();
        if child == 0 {
            process::has_state();
        }
        child
    }

    /// `_Fork(3)`, as [`fork`].
    fn _Fork() -> pid_t = -1, |next| {
        let child = next();
        if child == 0 {
            process::has_state();
        }
        child
    }

    /// `daemon(3)`, which goes on in a child.
    fn daemon(stays: c_int, keeps_output: c_int) -> c_int = -1, |next| {
        let result = next();
        process::has_state();
        result
    }

    /// `execve(2)`.
    fn execve(
        path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int = -1, |next| {
        report::leave();
        next()
    }

    /// `execv(3)`.
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int = -1, |next| {
        report::leave();
        next()
    }

    /// `execvp(3)`.
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int = -1, |next| {
        report::leave();
        next()
    }

    /// `execvpe(3)`.
    fn execvpe(
        file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int = -1, |next| {
        report::leave();
        next()
    }

    /// `fexecve(3)`.
    fn fexecve(
        number: c_int, arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int = -1, |next| {
        report::leave();
        next()
    }

    /// `execveat(2)`.
    fn execveat(
        folder: c_int, path: *const c_char, arguments: *const *const c_char,
        environment: *const *const c_char, flags: c_int
    ) -> c_int = -1, |next| {
        report::leave();
        next()
    }

    /// `_exit(2)`.
    fn _exit(status: c_int) -> () = (), |next| {
        report::leave();
        next()
    }

    /// `_Exit(3)`.
    fn _Exit(status: c_int) -> () = (), |next| {
        report::leave();
        next()
    }
}

/// Runs when the library has been loaded, before the program.
#[cfg(not(test))]
mod constructor {
    use core::ffi::{CStr, c_char, c_int};

    #[used]
    #[unsafe(link_section = ".init_array")]
    static ENTER: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = enter;

    #[used]
    #[unsafe(link_section = ".fini_array")]
    static LEAVE: extern "C" fn() = leave;

    /// Reads the settings; everything else waits until it is needed.
    extern "C" fn enter(_: c_int, _: *const *const c_char, environment: *const *const c_char) {
        let mut next = environment;
        crate::settings::load(core::iter::from_fn(|| {
            if next.is_null() {
                return None;
            }
            // SAFETY: the C library passes the process's environment, an array that ends with null.
            let entry = unsafe { *next };
            if entry.is_null() {
                return None;
            }
            // SAFETY: not the end yet, so there is a next entry.
            next = unsafe { next.add(1) };
            // SAFETY: each entry is a C string of the block that the kernel made.
            Some(unsafe { CStr::from_ptr(entry) }.to_bytes())
        }));
    }

    extern "C" fn leave() {
        crate::report::leave();
    }
}
