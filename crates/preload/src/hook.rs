//! The C symbols that stand before the C library's, by family.

pub(crate) mod next {
    pub(crate) mod sys;
}
mod close {
    mod sys;
}
mod data {
    mod sys;
}
mod file {
    mod sys;
}
mod open {
    mod sys;
}
mod process {
    mod sys;
}
mod stdio {
    mod sys;
}

use rustix::io::Errno;

use crate::forward::Outcome;
use crate::sys::set_errno;

/// A call's result as C functions return it: the kernel's if it is to carry the call out.
fn answer(outcome: Outcome, next: impl FnOnce() -> isize) -> isize {
    match outcome {
        Outcome::Moved(count) => count.cast_signed(),
        Outcome::Failed(errno) => failed(errno),
        Outcome::Native => next(),
    }
}

/// As [`answer`], for functions that return an `int`.
fn answer_int(outcome: Outcome, next: impl FnOnce() -> i32) -> i32 {
    match outcome {
        Outcome::Moved(_) => 0,
        Outcome::Failed(errno) => {
            failed(errno);
            -1
        }
        Outcome::Native => next(),
    }
}

fn failed(errno: Errno) -> isize {
    set_errno(errno);
    -1
}
