//! What is mounted where, without touching it: looking at a mount point whose daemon hangs would hang too.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::wait_until;
use crate::error::Error;

const TABLE: &str = "/proc/self/mountinfo";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The device's minor number: for FUSE, the connection's name.
    pub(crate) minor: u32,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
}

/// What is mounted on `point`, if anything is.
pub(crate) fn at(point: &Path) -> Result<Option<Mount>, Error> {
    let table = std::fs::read_to_string(TABLE).map_err(Error::io(TABLE))?;
    // The last one hides the others.
    Ok(table.lines().filter_map(parse).rfind(|mount| mount.point == point))
}

/// A line, `36 35 98:0 /root /mount/point options …`; a space in a path is `\040`.
fn parse(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ');
    let (_, minor) = fields.nth(2)?.split_once(':')?;
    let point = PathBuf::from(fields.nth(1)?.replace("\\040", " "));
    Some(Mount { minor: minor.parse().ok()?, point })
}

/// Unmounts `point`. What is in use for no longer than `release_max` is waited for: a loop device
/// lets go of its file a little after it was detached, and a process that is just being started
/// holds what its parent had open.
///
/// # Errors
/// `EBUSY` with the remedy, else what the kernel says.
pub(crate) fn unmount_at(point: &Path, release_max: Duration) -> Result<(), Error> {
    let mut outcome = Ok(());
    wait_until(release_max, || {
        outcome = unmount(point, UnmountFlags::NOFOLLOW);
        outcome != Err(Errno::BUSY)
    });
    outcome.map_err(|errno| match errno {
        Errno::BUSY => Error::fix(format!(
            "{0} is in use; end what uses it (`fuser -vm {0}` lists it) and take it down again",
            point.display()
        )),
        _ => Error::io(format!("unmounting {}", point.display()))(errno),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_the_point_and_the_minor_number() {
        let line = "98 26 0:45 / /run/forebay/lab/a\\040b rw,relatime shared:1 - fuse x rw";
        let expected = Mount { minor: 45, point: "/run/forebay/lab/a b".into() };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn the_root_is_mounted_and_nonsense_is_not() {
        assert!(at(Path::new("/")).unwrap().is_some());
        assert_eq!(at(Path::new("/nowhere/at all")).unwrap(), None);
    }
}
