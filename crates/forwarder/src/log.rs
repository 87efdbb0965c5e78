//! What a forwarder says while it runs: a line on standard error, nothing secret in it.

use std::fmt::Arguments;
use std::io::Write as _;

/// Something that an operator may want to act on.
pub(crate) fn warn(text: Arguments<'_>) {
    // Nobody may be reading; that is no reason to stop serving.
    let _ = writeln!(std::io::stderr(), "forebay: {text}");
}
