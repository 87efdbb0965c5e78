//! Streams of the C library. Its reads and writes happen inside it, natively, at the same file
//! positions; here they are only counted, and closing one closes its descriptor.

use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use libc::FILE;

use crate::counter::Reason;
use crate::hook::next::sys::hook;
use crate::sys::{self, set_errno};
use crate::{descriptor, file};

/// The descriptor of a stream, or -1.
fn number_of(stream: *mut FILE) -> c_int {
    if stream.is_null() {
        return -1;
    }
    // SAFETY: the program's stream, or one just made.
    sys::keeping_errno(|| unsafe { libc::fileno(stream) })
}

fn opened(stream: *mut FILE) -> *mut FILE {
    let number = number_of(stream);
    if number >= 0 {
        descriptor::renewed(number);
        file::note(number, Reason::Stdio);
    }
    stream
}

hook! {
    /// `fopen(3)`.
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE = null_mut(), |next| { opened(next()) }

    /// `fopen(3)`.
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = null_mut(), |next| { opened(next()) }

    /// `fdopen(3)`.
    fn fdopen(number: c_int, mode: *const c_char) -> *mut FILE = null_mut(), |next| {
        let stream = next();
        if !stream.is_null() {
            file::note(number, Reason::Stdio);
        }
        stream
    }

    /// `freopen(3)`, which closes first and may put the new file at another number.
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE = null_mut(), |next| {
        let _ = descriptor::released(number_of(stream));
        opened(next())
    }

    /// As [`freopen`].
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE = null_mut(), |next| {
        let _ = descriptor::released(number_of(stream));
        opened(next())
    }

    /// `fclose(3)`.
    fn fclose(stream: *mut FILE) -> c_int = libc::EOF, |next| {
        let late = descriptor::released(number_of(stream));
        match (next(), late) {
            (0, Err(errno)) => {
                set_errno(errno);
                libc::EOF
            }
            (result, _) => result,
        }
    }
}
