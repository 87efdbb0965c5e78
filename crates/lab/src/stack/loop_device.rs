//! Loop devices: attached by `losetup`, found in sysfs.
//!
//! Containers see each other's loop devices, and may have files of the same name: a device is a
//! disk's if it says the path of the disk's file and is attached to that very file, by device and
//! inode. These are written down when the file comes into being, so that nobody has to ask the
//! file itself, whose daemon may hang.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::sys::Backing;
use super::{run, wait_until};
use crate::error::Error;
use crate::places::Places;

const BLOCK_DEVICES: &str = "/sys/block";
const PACKAGE: &str = "mount";

/// A detached device is free when its last opener has closed it.
const DETACH_MAX: Duration = Duration::from_secs(30);

/// A loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopDevice {
    name: String,
}

impl LoopDevice {
    /// Attaches a free device to a disk's file, around the page cache of the file system that the file is on.
    ///
    /// # Errors
    /// What `losetup` says, or if the kernel keeps using the page cache.
    pub(crate) fn attach(places: &Places) -> Result<Self, Error> {
        let file = places.file();
        let metadata = std::fs::metadata(&file).map_err(Error::file(&file))?;
        let identity = format!("{} {}", metadata.dev(), metadata.ino());
        std::fs::write(places.identity(), identity).map_err(Error::file(&places.identity()))?;
        let path = file.to_string_lossy();
        let device = run("losetup", PACKAGE, &["--find", "--show", "--direct-io=on", &path])?;
        let name = device.strip_prefix("/dev/").unwrap_or(&device).to_owned();
        let device = Self { name };
        match device.read("loop/dio")?.as_str() {
            "1" => Ok(device),
            _ => {
                let text = "the kernel refuses direct I/O on the emulated disk's file";
                Err(Error::failed(format!("{}: {text}", device.path().display())))
            }
        }
    }

    /// All devices that are attached to a disk's file.
    pub(crate) fn of(places: &Places) -> Result<Vec<Self>, Error> {
        let Some(wanted) = backing_of(places) else { return Ok(Vec::new()) };
        let folder = Path::new(BLOCK_DEVICES);
        let entries = std::fs::read_dir(folder).map_err(Error::file(folder))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let devices = names.filter(|name| name.starts_with("loop")).map(|name| Self { name });
        Ok(devices.filter(|device| device.is_attached_to(&places.file(), wanted)).collect())
    }

    /// Detaches it and waits until it is.
    pub(crate) fn detach(&self, places: &Places) -> Result<(), Error> {
        let path = self.path();
        run("losetup", PACKAGE, &["--detach", &path.to_string_lossy()])?;
        let Some(wanted) = backing_of(places) else { return Ok(()) };
        if wait_until(DETACH_MAX, || !self.is_attached_to(&places.file(), wanted)) {
            return Ok(());
        }
        Err(Error::fix(format!("{0} is in use; end what uses it (`fuser -v {0}`)", path.display())))
    }

    /// `loopN`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// `/dev/loopN`.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    fn is_attached_to(&self, file: &Path, wanted: Backing) -> bool {
        // The path as it was when it was attached; the kernel adds a word if the file is gone.
        let backing = self.read("loop/backing_file").unwrap_or_default();
        let backing = backing.strip_suffix(" (deleted)").unwrap_or(&backing);
        // One that cannot be opened here, or has just been detached, is not this disk's.
        Path::new(backing) == file
            && File::open(self.path()).is_ok_and(|device| Backing::of(&device) == Ok(wanted))
    }

    /// An attribute in sysfs.
    pub(crate) fn read(&self, attribute: &str) -> Result<String, Error> {
        let path = self.attribute(attribute);
        let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
        Ok(text.trim().to_owned())
    }

    /// Sets an attribute in sysfs.
    pub(crate) fn write(&self, attribute: &str, value: &str) -> Result<(), Error> {
        let path = self.attribute(attribute);
        std::fs::write(&path, value)
            .map_err(Error::io(format!("writing \"{value}\" to {}", path.display())))
    }

    fn attribute(&self, attribute: &str) -> PathBuf {
        Path::new(BLOCK_DEVICES).join(&self.name).join(attribute)
    }
}

/// The file that a disk's devices are attached to; none if none has been attached yet.
fn backing_of(places: &Places) -> Option<Backing> {
    let text = std::fs::read_to_string(places.identity()).ok()?;
    let (device, inode) = text.split_once(' ')?;
    Some(Backing { device: device.parse().ok()?, inode: inode.parse().ok()? })
}
