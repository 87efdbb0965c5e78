//! What a forwarder says while it runs: a line on standard error, nothing secret in it.

use std::fmt::Arguments;

/// Something that an operator may want to act on.
pub(crate) fn warn(text: Arguments<'_>) {
    eprintln!("forebay: {text}");
}
