//! Which device a path is on: a key that stays the same over restarts and mounts.
//!
//! For a block device its number, model and serial number as `/sys/dev/block` has them (a partition
//! is its disk); for any other file system what `/proc/self/mountinfo` says is mounted there. What
//! may be called the same on another machine is told apart by the machine: its users' homes, and so
//! their records, may be shared.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use forebay_device::{Medium, Profile};
use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Longer names and keys are cut off.
const TEXT_MAX: usize = 256;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// What tells it from all others, of this machine and of those that share its users' homes.
    pub key: String,
    /// What people call it.
    pub name: String,
    /// Whether it has something that turns, as far as the kernel knows.
    pub is_rotating: Option<bool>,
}

/// What of a block device's attributes tells it from another one that has its number later, and
/// whether no device of another machine has the same.
const MARKS: [(&str, bool); 8] = [
    ("device/model", false),
    ("device/serial", true),
    ("serial", true),
    ("wwid", true),
    ("device/wwid", true),
    ("dm/uuid", true),
    ("md/uuid", true),
    ("size", false),
];

impl Identity {
    /// Of the device that a path is on.
    ///
    /// # Errors
    /// If the path does not exist.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let metadata = fs::metadata(path)
            .map_err(|error| Error::fix(format!("{}: {error}", path.display())))?;
        let number = metadata.dev();
        Ok(Self::of_block(number).unwrap_or_else(|| Self::of_mount(number)))
    }

    /// Of a device model, which is the same everywhere.
    pub fn of_model(model: &Profile) -> Self {
        Self {
            key: format!("model {}", model.name),
            name: format!("modelled {}", model.name),
            is_rotating: Some(matches!(model.medium, Medium::Disk(_))),
        }
    }

    /// The name of its file in a cache: what of its key a file name may have, and a sum of all of it.
    pub fn file_name(&self) -> String {
        let sum = sum(&self.key);
        let fits = |c: &char| c.is_ascii_alphanumeric();
        let head: String = self.name.chars().filter(fits).take(32).collect();
        format!("{head}-{sum:016x}.json")
    }

    fn of_block(number: u64) -> Option<Self> {
        let node = PathBuf::from(format!("/sys/dev/block/{}:{}", major(number), minor(number)));
        let node = node.canonicalize().ok()?;
        let disk = if node.join("partition").exists() { node.parent()?.to_owned() } else { node };
        Self::of_disk(&disk, &machine())
    }

    /// Of a block device's directory in `/sys`.
    fn of_disk(disk: &Path, machine: &str) -> Option<Self> {
        let read = |name: &str| {
            let text = fs::read_to_string(disk.join(name)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let kernel_name = disk.file_name()?.to_string_lossy().into_owned();
        let mut key = format!("block {}", read("dev")?);
        let mut is_only_one = false;
        for (mark, is_unique) in MARKS {
            if let Some(value) = read(mark) {
                key.push_str(&format!(" {mark}={value}"));
                is_only_one |= is_unique;
            }
        }
        if !is_only_one {
            key.push_str(machine);
        }
        // A loop device is what it lies on; its number is the next one's tomorrow.
        if let Some(file) = read("loop/backing_file") {
            let place = fs::metadata(&file).map_or((0, 0), |it| (it.dev(), it.ino()));
            key.push_str(&format!(" loop={file} {}:{}", place.0, place.1));
        }
        let name = match read("device/model") {
            Some(model) => format!("{kernel_name} ({model})"),
            None => kernel_name,
        };
        let is_rotating = read("queue/rotational").map(|text| text == "1");
        Some(Self { key: cut(key), name: cut(name), is_rotating })
    }

    /// File systems without a device of their own: on a network, in memory, of several devices.
    fn of_mount(number: u64) -> Self {
        let device = format!("{}:{}", major(number), minor(number));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let Some(mount) = mounts.lines().find_map(|line| Mount::parse(line, &device)) else {
            let name = format!("device {device}");
            return Self { key: format!("{name}{}", machine()), name, is_rotating: None };
        };
        // Btrfs has a number of its own and says which device it is on.
        let source = fs::metadata(mount.source).ok();
        let block = source.filter(|it| it.file_type().is_block_device());
        if let Some(identity) = block.and_then(|it| Self::of_block(it.rdev())) {
            return identity;
        }
        // A server's export is itself wherever it is mounted; what is only called `tmpfs` is not.
        let key = if mount.source.contains([':', '/']) {
            format!("mount {} {}", mount.kind, mount.source)
        } else {
            format!("mount {} {} {}{}", mount.kind, mount.source, mount.point, machine())
        };
        let name = format!("{} {}", mount.kind, mount.source);
        Self { key: cut(key), name: cut(name), is_rotating: None }
    }
}

/// A line of mountinfo (`proc_pid_mountinfo(5)`).
struct Mount<'a> {
    point: &'a str,
    kind: &'a str,
    source: &'a str,
}

impl<'a> Mount<'a> {
    /// The line, if it is of that device.
    fn parse(line: &'a str, device: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(2);
        if before.next()? != device {
            return None;
        }
        let point = before.nth(1)?;
        let mut after = after.split(' ');
        Some(Self { point, kind: after.next()?, source: after.next()? })
    }
}

/// This machine (`machine-id(5)`), as a part of a key; nothing if it has no name. The name itself is
/// not to be told to everybody.
fn machine() -> String {
    let name = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    match name.trim() {
        "" | "uninitialized" => String::new(),
        name => format!(" machine={:016x}", sum(&format!("forebay {name}"))),
    }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
fn sum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_of_a_file_system_are_on_one_device() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let one = Identity::of(folder.path()).unwrap();
        assert_eq!(one, Identity::of(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap());
        assert!(!one.key.is_empty() && one.file_name().ends_with(".json"));
    }

    #[test]
    fn a_disk_without_a_serial_number_is_its_machines() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("dev", "252:0\n");
        put("size", "2048\n");
        let keys =
            || [" machine=1", " machine=2"].map(|it| Identity::of_disk(folder.path(), it).unwrap());
        let [one, other] = keys();
        assert_ne!(one.file_name(), other.file_name());
        assert_eq!(one.key, "block 252:0 size=2048 machine=1");
        put("serial", "S1\n");
        let [one, other] = keys();
        assert_eq!(one, other);
        assert_eq!(one.key, "block 252:0 serial=S1 size=2048");
    }

    #[test]
    fn what_is_not_on_a_block_device_is_what_is_mounted() {
        let process = Identity::of(Path::new("/proc/self")).unwrap();
        assert!(process.key.starts_with("mount proc"), "{process:?}");
        assert_eq!(process.is_rotating, None);
        let line = "36 35 0:98 /mnt1 /mnt2 rw,noatime master:1 - nfs4 host:/export rw,vers=4";
        let mount = Mount::parse(line, "0:98").unwrap();
        assert_eq!((mount.point, mount.kind, mount.source), ("/mnt2", "nfs4", "host:/export"));
        assert!(Mount::parse(line, "0:9").is_none() && Mount::parse("", "0:9").is_none());
    }

    #[test]
    fn a_file_name_is_plain_and_tells_keys_apart() {
        let of = |key: &str| {
            let name = "../sda (a/b c)".to_owned();
            Identity { key: key.to_owned(), name, is_rotating: None }.file_name()
        };
        assert!(of("a").starts_with("sdaabc-") && !of("a").contains(['/', ' ']), "{}", of("a"));
        assert_ne!(of("a"), of("b"));
    }
}
