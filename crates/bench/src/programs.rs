//! Where the programs are that a suite starts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::sys::end_with_this;

/// Names the preload library to use instead of the installed one, as `forebay run` reads it.
const PRELOAD_VARIABLE: &str = "FOREBAY_PRELOAD";

/// What the loader puts into every program.
const LOADED: &str = "LD_PRELOAD";

/// The programs that a suite starts, all of one build.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// Where the running program is, and where an installation keeps what is not run by hand.
    folders: [PathBuf; 2],
}

impl Programs {
    /// The programs that were built or installed with the running one.
    pub(crate) fn beside_this() -> Result<Self, Error> {
        let program = std::env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(Error::io("cannot find out where this program is"))?;
        let folder = program.parent().unwrap_or(Path::new("/"));
        // Tests run one folder below the programs that they start.
        let folder =
            if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
        Ok(Self { folders: [folder.to_owned(), folder.join("../lib/forebay")] })
    }

    fn find(&self, name: &str) -> Result<PathBuf, Error> {
        let mut candidates = self.folders.iter().map(|folder| folder.join(name));
        candidates.find_map(|candidate| candidate.canonicalize().ok()).ok_or_else(|| {
            let [here, installed] = &self.folders;
            let places = format!("{} or {}", here.display(), installed.display());
            Error::fix(format!("{name} is not in {places}; build it with `make build`"))
        })
    }

    /// The `forebay` command.
    pub(crate) fn forebay(&self) -> Result<Command, Error> {
        self.find("forebay").map(plain)
    }

    /// The plain reader and writer.
    pub(crate) fn strides(&self) -> Result<Command, Error> {
        self.find("forebay-bench-strides").map(plain)
    }

    /// The other end of a raw socket.
    pub(crate) fn socket(&self) -> Result<Command, Error> {
        self.find("forebay-bench-socket").map(plain)
    }

    /// One case of the scheduler alone.
    pub(crate) fn core(&self) -> Result<PathBuf, Error> {
        self.find("forebay-bench-core")
    }

    /// A library that programs are linked with.
    pub(crate) fn linked(&self, name: &str) -> Result<PathBuf, Error> {
        let installed = self.folders[0].join("../lib").join(name);
        installed.canonicalize().or_else(|_| self.find(name))
    }

    /// The library that is loaded into programs.
    pub(crate) fn preload(&self) -> Result<PathBuf, Error> {
        match std::env::var_os(PRELOAD_VARIABLE) {
            Some(path) => Path::new(&path).canonicalize().map_err(Error::io(PRELOAD_VARIABLE)),
            None => self.find("libforebay_preload.so"),
        }
    }
}

/// A program that ends with this one, without settings or libraries that the user's environment
/// may hold: a suite measures what it says.
pub(crate) fn plain(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in hindering(std::env::vars_os().map(|(name, _)| name)) {
        command.env_remove(name);
    }
    end_with_this(&mut command);
    command
}

/// Of these variables, those that change what a program does.
fn hindering(names: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    names.filter(|name| name == LOADED || name.as_encoded_bytes().starts_with(b"FOREBAY_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_has_set_for_forebay_or_the_loader_reaches_no_program() {
        let names = ["PATH", "LD_PRELOAD", "FOREBAY_PATHS", "FOREBAY_JOB", "XFOREBAY_"];
        let found: Vec<OsString> = hindering(names.into_iter().map(OsString::from)).collect();
        assert_eq!(found, ["LD_PRELOAD", "FOREBAY_PATHS", "FOREBAY_JOB"]);
    }
}
