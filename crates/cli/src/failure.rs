//! Why a command failed, and the exit code that says so.

use std::fmt;

/// The command could not do its work.
pub(crate) const FAILED: u8 = 1;
/// The command line, a setting or a file of settings is wrong.
pub(crate) const USAGE: u8 = 2;
/// `forebay run` failed before the program was started.
pub(crate) const RUN_FAILED: u8 = 125;
/// `forebay run` found the program but may not start it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `forebay run` did not find the program.
pub(crate) const NOT_FOUND: u8 = 127;

/// A message for the user and an exit code for the caller.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code, one of this module's constants.
    pub(crate) code: u8,
    message: String,
}

impl Failure {
    /// A failure with its exit code; the message is lower case, with values and the remedy.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
