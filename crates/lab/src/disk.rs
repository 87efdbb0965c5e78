//! A disk, and setting it up.
//!
//! ```text
//!   directory, owned ─► daemon (FUSE) ─► loop device ─► mkfs ─► mount ─► queue ─► charge
//! ```
//!
//! What goes down, and how, is in [`teardown`](crate::teardown).

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open, syncfs};
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

use crate::control::{self, Command};
use crate::daemon;
use crate::error::Error;
use crate::owner::{self, Claim};
use crate::places::Places;
use crate::settings::{RUN_DIRECTORY, Settings};
use crate::stack::loop_device::LoopDevice;
use crate::stack::queue::{self, Queue};
use crate::stack::{require_programs, run};
use crate::state::{require_root, state};
use crate::statistics::Statistics;
use crate::teardown::{take_down, take_down_claimed};

const FUSE_DEVICE: &str = "/dev/fuse";
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
const FILE_SYSTEM: &str = "ext4";
const SHOWN_BY_EXT4: &str = "/proc/fs/ext4";

/// Everything is written when the file system is made, nothing later while something is measured.
const MKFS: &[&str] = &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];

/// An emulated disk with a file system on it. It is taken down when dropped.
#[derive(Debug)]
pub struct Disk {
    places: Places,
    device: LoopDevice,
    /// What makes it this process's own; none if it is not.
    owner: Option<Claim>,
}

/// What a disk is, as the kernel and the daemon say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadBack {
    /// What was asked for.
    pub settings: Settings,
    /// The block device.
    pub block_device: PathBuf,
    /// Its queue, as read from the kernel just now.
    pub queue: Queue,
    /// The file system and how it was made.
    pub file_system: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The kernel's version.
    pub kernel: String,
}

impl Disk {
    /// Sets up a disk: afterwards it is empty, mounted, and takes the time of its model.
    ///
    /// # Errors
    /// If this is not root, something is missing, a setting makes no sense or is not to be had, or
    /// a disk of this name is there already. Whatever was begun is taken away again. What is left of
    /// a process that was killed before it could take its disk down is taken down first.
    pub fn up(settings: &Settings) -> Result<Self, Error> {
        settings.check()?;
        require_root()?;
        require_programs()?;
        if !Path::new(FUSE_DEVICE).exists() {
            return Err(Error::fix(format!(
                "{FUSE_DEVICE} is missing: load the kernel's module fuse"
            )));
        }
        require_memory(settings.bytes)?;
        let places = Places::of(&settings.name);
        if let Some(claim) = owner::claim_abandoned(&places) {
            take_down_claimed(&places, claim).map_err(|error| {
                let text = "left behind by a process that did not end by itself";
                Error::failed(format!("disk \"{}\", {text}: {error}", settings.name))
            })?;
        }
        make_run_directory(Path::new(RUN_DIRECTORY))?;
        let owner = owner::alone(|| {
            make_directory(&places, settings)?;
            owner::own(&places)
        })?;
        match begin(&places, settings) {
            Ok(device) => Ok(Self { places, device, owner: Some(owner) }),
            Err(error) => {
                // What failed is said; what could not be taken away shows in `status`.
                let _ = take_down_claimed(&places, owner);
                Err(error)
            }
        }
    }

    /// A disk that somebody has set up; it stays when this is dropped.
    ///
    /// # Errors
    /// If there is none of this name, or it is not whole.
    pub fn find(name: &str) -> Result<Self, Error> {
        let state = state(name)?;
        if !state.is_whole() {
            let said = match &state.daemon_said[..] {
                [] => String::new(),
                lines => format!(", having said: {}", lines.join("; ")),
            };
            let remedy = format!("`forebay lab disk down {name}` takes away what is left");
            let text = format!("disk \"{name}\" is not whole: {}{said}; {remedy}", state.fault());
            return Err(Error::fix(text));
        }
        let places = Places::of(name);
        let devices = LoopDevice::of(&places)?;
        let device = devices.into_iter().next().expect("a whole disk has a device");
        Ok(Self { places, device, owner: None })
    }

    /// Leaves it standing when this is dropped.
    ///
    /// # Errors
    /// If it still looks like this process's own.
    pub fn keep(mut self) -> Result<(), Error> {
        match self.owner.take() {
            Some(owner) => owner.give_up().map_err(Error::file(&self.places.owner())),
            None => Ok(()),
        }
    }

    /// Where its file system is mounted.
    pub fn mount_point(&self) -> PathBuf {
        self.places.mount_point()
    }

    /// The file behind the block device: the device model without elevator or cache.
    pub fn file(&self) -> PathBuf {
        self.places.file()
    }

    /// The block device.
    pub fn block_device(&self) -> PathBuf {
        self.device.path()
    }

    /// What it is, with the queue as the kernel has it now.
    ///
    /// # Errors
    /// If the kernel does not say, or has something else than what was set: a result would be of
    /// another disk than it says.
    pub fn settings_read_back(&self) -> Result<ReadBack, Error> {
        let settings = self.places.read_settings()?;
        let queue = queue::verify(&self.device, &settings)?;
        Ok(ReadBack {
            settings,
            block_device: self.block_device(),
            queue,
            file_system: format!(
                "{FILE_SYSTEM}, mkfs {}, mounted noatime, nosuid, nodev",
                MKFS.join(" ")
            ),
            mount_point: self.mount_point(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        })
    }

    /// Changes read-ahead and elevator of a disk that is up; the depth stays as it is.
    ///
    /// # Errors
    /// If the kernel does not take them.
    pub fn set_queue(&self, read_ahead_kib: u32, elevator: &str) -> Result<(), Error> {
        let settings = self.places.read_settings()?;
        let settings = Settings { read_ahead_kib, elevator: elevator.into(), ..settings };
        queue::set(&self.device, &settings)?;
        self.places.write_settings(&settings)
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        let text = control::tell(&self.places, Command::Statistics)?;
        let path = self.places.control();
        serde_json::from_slice(&text)
            .map_err(|error| Error::failed(format!("{}: {error}", path.display())))
    }

    /// Whether requests take the model's time. Free is for preparing what is measured later;
    /// what has reached the drive before is finished at its pace.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn charge(&self, is_charged: bool) -> Result<(), Error> {
        self.tell(if is_charged { Command::Charge } else { Command::Free })
    }

    /// Lets the maxima in the statistics begin anew.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn forget_maxima(&self) -> Result<(), Error> {
        self.tell(Command::ForgetMaxima)
    }

    /// Writes everything back and empties the machine's page cache, so that what is read comes from the disk.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn drop_caches(&self) -> Result<(), Error> {
        drop_caches(&self.mount_point())
    }

    /// Takes it down.
    ///
    /// # Errors
    /// If something still uses it; then it stays as far as it is in use.
    pub fn down(mut self) -> Result<(), Error> {
        match self.owner.take() {
            Some(owner) => take_down_claimed(&self.places, owner),
            None => take_down(&self.places.name()),
        }
    }

    fn tell(&self, command: Command) -> Result<(), Error> {
        control::tell(&self.places, command).map(drop)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        if let Err(error) = take_down_claimed(&self.places, owner) {
            eprintln!("forebay: the emulated disk stays: {error}");
        }
    }
}

/// Sets up all that stands on the directory.
fn begin(places: &Places, settings: &Settings) -> Result<LoopDevice, Error> {
    daemon::start(places)?;
    let device = LoopDevice::attach(places)?;
    let path = device.path();
    let mut arguments = MKFS.to_vec();
    let text = path.to_string_lossy();
    arguments.push(&text);
    run("mkfs.ext4", "e2fsprogs", &arguments)?;
    // What runs on it may be told who asks by others: nothing of that may make somebody root.
    let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
    mount(&path, places.mount_point(), FILE_SYSTEM, flags, None)
        .map_err(Error::io(format!("mounting {}", path.display())))?;
    read_bitmaps(&device);
    // Not before: mounting makes the kernel think of a read-ahead of its own.
    queue::set(&device, settings)?;
    drop_caches(&places.mount_point())?;
    control::tell(places, Command::Charge)?;
    Ok(device)
}

/// Has the file system read its block bitmaps now, while it takes no time. It would do so by
/// itself some seconds later, while something is measured.
fn read_bitmaps(device: &LoopDevice) {
    // Showing them all reads them all. Where there is no such file, they are read later.
    let _ = fs::read(Path::new(SHOWN_BY_EXT4).join(device.name()).join("mb_groups"));
}

fn drop_caches(point: &Path) -> Result<(), Error> {
    let directory = open(point, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    directory.and_then(syncfs).map_err(Error::file(point))?;
    // 3: pages, and what names and attributes take.
    fs::write(DROP_CACHES, "3").map_err(Error::io(DROP_CACHES))
}

/// A disk as large as memory would end in the middle of a run.
fn require_memory(bytes: u64) -> Result<(), Error> {
    let table = fs::read_to_string("/proc/meminfo").map_err(Error::io("/proc/meminfo"))?;
    let available = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    match kib.map(|kib| kib << 10) {
        Some(available) if bytes > available => Err(Error::fix(format!(
            "size {} MiB: its contents are in memory, and only {} MiB are available",
            bytes >> 20,
            available >> 20
        ))),
        _ => Ok(()),
    }
}

fn make_directory(places: &Places, settings: &Settings) -> Result<(), Error> {
    make_private(&places.directory).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let name = &settings.name;
            let remedy = format!("`forebay lab disk down {name}` takes it down");
            Error::fix(format!("there is a disk \"{name}\" already; {remedy}"))
        }
        _ => Error::file(&places.directory)(error),
    })?;
    for path in [places.fuse(), places.mount_point()] {
        make_private(&path).map_err(Error::file(&path))?;
    }
    places.write_settings(settings)
}

/// What the disks' directory may be asked is root's alone; what is above it may be asked by all,
/// whatever the caller's umask.
fn make_run_directory(directory: &Path) -> Result<(), Error> {
    if let Some(above) = directory.parent().filter(|above| !above.exists()) {
        fs::create_dir_all(above).map_err(Error::file(above))?;
        fs::set_permissions(above, Permissions::from_mode(0o755)).map_err(Error::file(above))?;
    }
    match make_private(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        outcome => outcome.map_err(Error::file(directory))?,
    }
    // One that was there already may have been made by an earlier version.
    fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(Error::file(directory))
}

/// Makes a directory for root alone.
fn make_private(directory: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(directory)
}
