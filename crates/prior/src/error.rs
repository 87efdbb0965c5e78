//! What can be wrong with a tree or a state, with what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a tree or a state could not be read or written.
#[derive(Debug)]
pub enum Error {
    /// The operating system says no.
    File {
        /// To which file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// The text is not what it should be: what, and what would be right.
    Text(String),
}

impl Error {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File { path: path.into(), source }
    }

    /// The same, with the file's name before it.
    pub(crate) fn within(self, path: &Path) -> Self {
        match self {
            Self::Text(text) => Self::Text(format!("{}: {text}", path.display())),
            file => file,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            Self::Text(_) => None,
        }
    }
}
