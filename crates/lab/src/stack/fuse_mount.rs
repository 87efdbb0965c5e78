//! Cutting the connection of a daemon that has died.

use std::path::Path;

use rustix::mount::{MountFlags, mount};

use super::mount_table;
use crate::error::Error;

/// Where the kernel lists FUSE connections, once its file system for that is mounted.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Lets everything that still waits for a dead daemon fail, rather than wait for ever.
pub(crate) fn abort(point: &Path) -> Result<(), Error> {
    let Some(found) = mount_table::at(point)? else { return Ok(()) };
    let connections = Path::new(CONNECTIONS);
    if mount_table::at(connections)?.is_none() {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("fusectl", connections, "fusectl", flags, None).map_err(Error::file(connections))?;
    }
    let switch = connections.join(found.minor.to_string()).join("abort");
    match std::fs::write(&switch, "1") {
        // A connection whose daemon has closed it is no longer listed everywhere.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(Error::file(&switch)),
    }
}
