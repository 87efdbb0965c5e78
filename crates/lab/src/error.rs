//! Why the lab could not do something.

use std::fmt;
use std::io;
use std::path::Path;

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Ask for something else, become root, or install what is missing.
    Fix,
    /// The machine refused something: look at the message.
    Failed,
}

/// Why the lab could not do something.
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

    /// Something went wrong.
    pub(crate) fn failed(context: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, context: context.into(), source: None }
    }

    /// What was tried when a system call failed; for `map_err`.
    pub(crate) fn io<E: Into<io::Error>>(context: impl Into<String>) -> impl FnOnce(E) -> Self {
        let context = context.into();
        move |source| Self { kind: ErrorKind::Failed, context, source: Some(source.into()) }
    }

    /// The same, for a file.
    pub(crate) fn file<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Self {
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
