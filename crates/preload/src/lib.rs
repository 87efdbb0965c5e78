//! The POSIX door: a library for `LD_PRELOAD` that sends a program's data calls to a forwarder.
//!
//! The program holds real kernel descriptors, opened by itself. Only calls that move data are
//! looked at, and of those only the ones on regular files under a configured prefix; everything
//! else, and everything that is not hooked (stdio's inner calls, `mmap`, `sendfile`, io_uring),
//! goes the kernel's way and is right, merely unscheduled.
//!
//! ```text
//!  hook/*/sys.rs   the C symbols                      settings   the environment
//!  data, file      what becomes of a call             prefix     which paths
//!  forward         a connection for it, or not        classify   what a descriptor is
//!  slot, link      32 places for connections          table      what is known of each number
//!  position        the shared file offset             process    fork and vfork
//!  descriptor      close, dup2, close_range           absence    no forwarder
//!  counter, report what was and was not forwarded     start      starting a forwarder
//! ```
//!
//! The rules of the house: a program may call any of this in a signal handler, in a forked or
//! vforked child, or with arguments that make no sense. So nothing allocates, locks, or calls the
//! C library's I/O; `errno` changes only when a call fails; a call that cannot be served as the
//! kernel would serve it is left to the kernel.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod absence;
mod classify;
mod counter;
mod data;
mod descriptor;
mod descriptor_path;
mod file;
mod forward;
mod hook;
mod link;
mod position;
mod prefix;
mod process;
mod report;
mod settings;
mod slot;
mod start;
mod sys;
mod table;
mod text;

use core::fmt::{Arguments, Write};

use text::Text;

/// Where messages go.
const STANDARD_ERROR: i32 = 2;

/// Says something to the user.
fn say(what: Arguments<'_>) {
    say_at(STANDARD_ERROR, what);
}

/// Says something to the user at a descriptor, unless that is one of the files we carry.
fn say_at(number: i32, what: Arguments<'_>) {
    let mut line = Text::<1024>::new();
    let _ = line.write_fmt(format_args!("forebay: {what}\n"));
    let is_file =
        table::look(number).is_some_and(|seen| matches!(seen.state, table::State::Matched(_)));
    if let Some(descriptor) = sys::descriptor(number).filter(|_| !is_file) {
        let _ = rustix::io::write(descriptor, line.as_bytes());
    }
}
