//! Why a device was not measured, or a profile not read.

use std::fmt;

/// What the caller should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Ask for something else: the message says what.
    Fix,
    /// Nothing that was asked for is wrong; the device or the system is.
    Failed,
    /// A file of the cache is not what was written there: measuring again replaces it.
    Corrupt,
}

/// An error with its message: lower case, with values and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What to do.
    pub kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn fix(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Fix, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, message: message.into() }
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Corrupt, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
