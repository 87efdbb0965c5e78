//! Failures: a negative errno for programs, and a message for people.

use core::ffi::{c_char, c_int};
use core::fmt::Display;
use std::cell::RefCell;
use std::ffi::CString;

use forebay_controller::Error;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    errno: c_int,
    message: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, message: impl Display) -> Self {
        Self { errno, message: message.to_string() }
    }

    /// A value that is not possible; the message names it and says what is.
    pub(crate) fn invalid(message: impl Display) -> Self {
        Self::new(libc::EINVAL, message)
    }

    pub(crate) fn errno(&self) -> c_int {
        self.errno
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(errno_of(error), error)
    }
}

/// The table in forebay(3), under ERRORS.
fn errno_of(error: Error) -> c_int {
    match error {
        Error::QueueFull => libc::EAGAIN,
        Error::EmptyRange | Error::OutOfRange | Error::WrongDelivery | Error::HasClasses => {
            libc::EINVAL
        }
        Error::RangeTooFar => libc::EOVERFLOW,
        Error::UnknownTicket | Error::NotRecorded => libc::ENOENT,
        Error::NotDispatched | Error::Dispatched | Error::Busy | Error::Recorded => libc::EBUSY,
        Error::Cancelled => libc::ECANCELED,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::InCallBack => libc::EDEADLK,
        Error::Forked => libc::ECHILD,
        Error::Draining => libc::ESHUTDOWN,
        Error::Class(_) => libc::EINVAL,
        Error::Broken => libc::ENOTRECOVERABLE,
        Error::System(errno) => errno,
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps the message of this thread's latest failure.
pub(crate) fn keep(failure: &Failure) {
    let text = CString::new(failure.message.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending keeps no messages.
    _ = MESSAGE.try_with(|message| *message.borrow_mut() = text);
}

/// This thread's latest message, valid until its next failure.
pub(crate) fn latest() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
