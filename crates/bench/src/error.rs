//! Why a suite could not be run.

use std::fmt;
use std::io;
use std::path::Path;

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Ask for something else, or install what is missing.
    Fix,
    /// The machine refused something, or what was measured is broken: look at the message.
    Failed,
    /// The data that came back is not the data that was written. Report it.
    Corrupt,
}

/// Why a suite could not be run.
#[derive(Debug)]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    context: String,
    source: Option<io::Error>,
}

impl Error {
    /// The caller's to mend.
    pub(crate) fn fix(context: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Fix, context: context.into(), source: None }
    }

    /// Something went wrong while measuring.
    pub(crate) fn failed(context: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, context: context.into(), source: None }
    }

    /// Wrong data.
    pub(crate) fn corrupt(context: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Corrupt, context: context.into(), source: None }
    }

    /// What was tried when a system call failed; for `map_err`.
    pub(crate) fn io(context: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let context = context.into();
        move |source| Self { kind: ErrorKind::Failed, context, source: Some(source) }
    }

    /// The same error, of the case that it ended.
    pub(crate) fn of(self, case: &str) -> Self {
        Self { context: format!("{case}: {}", self.context), ..self }
    }

    /// The same, for a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io(path.display().to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.context),
            None => f.write_str(&self.context),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
