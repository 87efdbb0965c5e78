//! Where records are kept: one file for each device.
//!
//! `$XDG_CACHE_HOME/forebay/devices` where that is set; else `/var/cache/forebay/devices` for root,
//! readable for all, and `~/.cache/forebay/devices` for others. Whoever finds none of their own
//! looks at root's.

use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::error::Error;
use crate::identity::Identity;
use crate::record::{Record, read};

const SYSTEM: &str = "/var/cache/forebay/devices";

/// A directory of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    directory: PathBuf,
    is_for_all: bool,
}

impl Cache {
    /// The one that this user writes to.
    ///
    /// # Errors
    /// If neither `XDG_CACHE_HOME` nor `HOME` says where that is.
    pub fn own() -> Result<Self, Error> {
        let absolute =
            |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        if let Some(cache) = absolute("XDG_CACHE_HOME") {
            return Ok(Self { directory: cache.join("forebay/devices"), is_for_all: false });
        }
        if geteuid().is_root() {
            return Ok(Self::of_system());
        }
        let home = absolute("HOME").ok_or_else(|| {
            Error::fix("no place for profiles: set XDG_CACHE_HOME or HOME to a directory")
        })?;
        Ok(Self { directory: home.join(".cache/forebay/devices"), is_for_all: false })
    }

    fn of_system() -> Self {
        Self { directory: SYSTEM.into(), is_for_all: true }
    }

    /// Where a device's record is, if it is.
    pub fn path_of(&self, device: &Identity) -> PathBuf {
        self.directory.join(device.file_name())
    }

    /// Keeps a record in the place of an older one.
    ///
    /// # Errors
    /// What the file system says.
    pub fn save(&self, record: &Record) -> Result<PathBuf, Error> {
        let path = self.path_of(&record.device);
        let about = |error: io::Error| Error::failed(format!("{}: {error}", path.display()));
        let (directory_mode, mode) = if self.is_for_all { (0o755, 0o644) } else { (0o700, 0o600) };
        create(&self.directory, directory_mode).map_err(about)?;
        // Written beside it and renamed: a reader finds the old one or the new one. No other
        // program has the name, also not on another machine that shares the directory.
        let written = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&self.directory)
            .and_then(|mut fresh| {
                fresh.as_file().set_permissions(Permissions::from_mode(mode))?;
                fresh.write_all(record.encode().as_bytes())?;
                fresh.persist(&path).map_err(|error| error.error)
            });
        written.map_err(about)?;
        Ok(path)
    }

    /// A device's record, if there is one.
    ///
    /// # Errors
    /// What the file system says; a record that is not one, with where it is.
    pub fn load(&self, device: &Identity) -> Result<Option<Record>, Error> {
        let path = self.path_of(device);
        let bytes = match read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let remedy = "make it readable, or set XDG_CACHE_HOME to another directory";
                return Err(Error::failed(format!("{}: {error}; {remedy}", path.display())));
            }
        };
        let record = Record::decode(&bytes).map_err(|error| {
            let remedy = "remove it, or measure again with forebay probe --force";
            Error::corrupt(format!("{}: {error}; {remedy}", path.display()))
        })?;
        // Two keys may have one sum.
        Ok(Some(record).filter(|record| record.device.key == device.key))
    }
}

/// Creates what is missing of a directory's path, with that mode whatever the umask says.
fn create(directory: &Path, mode: u32) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        create(parent, mode)?;
    }
    match DirBuilder::new().mode(mode).create(directory) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        created => {
            created.and_then(|()| fs::set_permissions(directory, Permissions::from_mode(mode)))
        }
    }
}

/// The record of the device that a path is on: this user's, or root's. One that cannot be read is
/// told to `unreadable`, and is as if it were not there.
///
/// # Errors
/// If the path does not exist.
pub fn load_record(path: &Path, unreadable: impl FnMut(Error)) -> Result<Option<Record>, Error> {
    let device = Identity::of(path)?;
    // A daemon may have no home; root's records are there all the same.
    let own = Cache::own().ok().filter(|own| *own != Cache::of_system());
    Ok(first(own.into_iter().chain([Cache::of_system()]), &device, unreadable))
}

/// The first record of a device that can be read.
fn first(
    caches: impl IntoIterator<Item = Cache>,
    device: &Identity,
    mut unreadable: impl FnMut(Error),
) -> Option<Record> {
    caches.into_iter().find_map(|cache| {
        cache.load(device).unwrap_or_else(|error| {
            unreadable(error);
            None
        })
    })
}

#[cfg(test)]
mod tests {
    use forebay_select::profile::Knot;
    use forebay_select::{DeviceProfile, Order};
    use forebay_units::{Bytes, Direction};

    use super::*;
    use crate::error::ErrorKind;
    use crate::measure::Point;
    use crate::test_file::Access;

    fn record(key: &str, time_ns: f64) -> Record {
        let device = Identity { key: key.into(), name: "disk".into(), is_rotating: None };
        let points = DeviceProfile::PARTS.map(|(direction, order)| Point {
            direction,
            order,
            knot: Knot { length: Bytes::kib(4), time_ns, error: 0.1 },
            runs: 3,
        });
        Record::new(device, 1, Access::Direct, Bytes::mib(64), points.to_vec()).unwrap()
    }

    fn time(record: &Record) -> u64 {
        record.profile().curve(Direction::Read, Order::Random).time(Bytes::kib(4)).0
    }

    #[test]
    fn the_newest_record_of_a_device_is_kept_and_no_other_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a/b");
        let cache = Cache { directory: directory.clone(), is_for_all: false };
        let (one, other) = (record("one", 100.0), record("other", 200.0));
        assert_eq!(cache.load(&one.device).unwrap(), None);
        for saved in [&one, &other, &record("one", 300.0)] {
            let path = cache.save(saved).unwrap();
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(time(&cache.load(&one.device).unwrap().unwrap()), 300);
        assert_eq!(time(&cache.load(&other.device).unwrap().unwrap()), 200);
        assert_eq!(fs::read_dir(directory).unwrap().count(), 2, "nothing else is left there");
    }

    #[test]
    fn a_shared_record_may_be_read_by_all_whatever_the_umask_is() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { directory: folder.path().join("a/b"), is_for_all: true };
        let before = rustix::process::umask(0o077.into());
        let saved = cache.save(&record("one", 100.0));
        rustix::process::umask(before);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&saved.unwrap()), 0o644);
        assert_eq!(["a", "a/b"].map(|name| mode(&folder.path().join(name))), [0o755; 2]);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_told_and_the_next_one_taken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = |name: &str| Cache { directory: folder.path().join(name), is_for_all: false };
        let (damaged, blocked, good) = (cache("damaged"), cache("blocked"), cache("good"));
        let one = record("one", 100.0);
        good.save(&one).unwrap();
        fs::write(damaged.save(&one).unwrap(), "{}").unwrap();
        // What is no regular file is not waited for.
        fs::create_dir_all(blocked.path_of(&one.device)).unwrap();
        let mut told = Vec::new();
        let all = [damaged.clone(), blocked.clone(), cache("missing"), good];
        let found = first(all, &one.device, |error| told.push(error.to_string()));
        assert_eq!(found, Some(one.clone()));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("damaged/disk-") && told[0].contains("--force"), "{told:?}");
        assert!(
            told[1].contains("blocked/disk-") && told[1].contains("XDG_CACHE_HOME"),
            "{told:?}"
        );
        assert_eq!(first([damaged, blocked], &one.device, drop), None);
    }

    #[test]
    fn what_is_not_a_record_is_refused_with_its_place_and_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { directory: folder.path().to_owned(), is_for_all: false };
        let device = record("one", 100.0).device;
        fs::write(cache.path_of(&device), "{\"version\": 1}").unwrap();
        let error = cache.load(&device).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
        let text = error.to_string();
        assert!(text.contains("disk-") && text.contains("--force"), "{text}");
    }

    #[test]
    fn a_record_of_another_device_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { directory: folder.path().to_owned(), is_for_all: false };
        let (one, other) = (record("one", 100.0), record("other", 100.0));
        let path = cache.save(&one).unwrap();
        fs::rename(path, cache.path_of(&other.device)).unwrap();
        assert_eq!(cache.load(&other.device).unwrap(), None);
    }
}
