//! The private directory of one run, where its socket is; gone when the run is over.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::{Failure, RUN_FAILED};

/// A socket's path has at most this many bytes (`sun_path`, less the final zero).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A directory that only its owner may enter: the socket in it needs no other check.
pub(super) struct Home {
    directory: TempDir,
}

impl Home {
    /// Makes one in `XDG_RUNTIME_DIR`, or in `/tmp` when there is none or it is too deep for a socket.
    pub(super) fn create() -> Result<Self, Failure> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let preferred =
            runtime.filter(|path| path.is_dir()).and_then(|path| Self::within(&path).ok());
        match preferred {
            Some(home) if home.socket().as_os_str().len() <= SOCKET_PATH_BYTES_MAX => Ok(home),
            _ => Self::within(Path::new("/tmp")).map_err(|error| {
                Failure::new(
                    RUN_FAILED,
                    format!("cannot make a directory for the socket in /tmp: {error}"),
                )
            }),
        }
    }

    fn within(parent: &Path) -> std::io::Result<Self> {
        let owner_only = Permissions::from_mode(0o700);
        let directory = tempfile::Builder::new()
            .prefix("forebay-")
            .permissions(owner_only)
            .tempdir_in(parent)?;
        Ok(Self { directory })
    }

    /// Where the forwarder listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_may_enter_and_nothing_stays_behind() {
        let home = Home::create().unwrap();
        let directory = home.directory.path().to_owned();
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        drop(home);
        assert!(!directory.exists());
    }
}
