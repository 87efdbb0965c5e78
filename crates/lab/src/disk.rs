//! A disk from up to down.
//!
//! ```text
//!   up    directory ─► daemon (FUSE) ─► loop device ─► mkfs ─► mount ─► queue ─► charge
//!   down  unmount ─► detach ─► unmount FUSE ─► daemon ends ─► directory goes
//! ```
//!
//! `down` looks at what is there and takes it away from the top, so it repairs whatever a crash
//! of the daemon, of `up` or of an earlier `down` has left.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open, syncfs};
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

use crate::daemon::{self, Places};
use crate::error::Error;
use crate::server::{COMMAND_FILE, Command, DISK_FILE, STATISTICS_FILE};
use crate::settings::{RUN_DIRECTORY, Settings, check_name, directory_of};
use crate::stack::loop_device::LoopDevice;
use crate::stack::queue::{self, Queue};
use crate::stack::{fuse_mount, mount_table, require_programs, run, wait_until};
use crate::statistics::Statistics;

const FUSE_DEVICE: &str = "/dev/fuse";
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
const FILE_SYSTEM: &str = "ext4";

/// Everything is written when the file system is made, nothing later while something is measured.
const MKFS: &[&str] = &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];

/// After its file system is unmounted a daemon has nothing left to do.
const DAEMON_END_MAX: Duration = Duration::from_secs(10);

/// An emulated disk with a file system on it. It is taken down when dropped.
#[derive(Debug)]
pub struct Disk {
    places: Places,
    device: LoopDevice,
    /// Locked, so that others see whose disk it is; none if nobody's.
    owner: Option<File>,
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

/// What there is of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Whether a daemon serves it.
    pub is_served: bool,
    /// Whether the daemon's file system is mounted.
    pub has_fuse: bool,
    /// The loop devices on it.
    pub block_devices: Vec<PathBuf>,
    /// Whether its file system is mounted.
    pub is_mounted: bool,
}

impl State {
    /// Whether it can be used; otherwise only taken down.
    pub fn is_whole(&self) -> bool {
        self.is_served && self.has_fuse && self.block_devices.len() == 1 && self.is_mounted
    }
}

/// Root is needed for mounting and for loop devices.
///
/// # Errors
/// If this is not root.
pub fn require_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::fix(
        "the emulated disk needs root: it mounts file systems and attaches a loop device",
    ))
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
        let places = Places { directory: settings.directory() };
        if is_abandoned(&places) {
            take_down(&settings.name).map_err(|error| {
                let text = "left behind by a process that did not end by itself";
                Error::failed(format!("disk \"{}\", {text}: {error}", settings.name))
            })?;
        }
        make_directory(&places, settings)?;
        let begun = begin(&places, settings);
        begun.inspect_err(|_| {
            // What failed is said; what could not be taken away shows in `status`.
            let _ = take_down(&settings.name);
        })
    }

    /// A disk that somebody has set up; it stays when this is dropped.
    ///
    /// # Errors
    /// If there is none of this name, or it is not whole.
    pub fn find(name: &str) -> Result<Self, Error> {
        let state = state(name)?;
        if !state.is_whole() {
            let text = format!("disk \"{name}\" is not whole: {state:?}");
            return Err(Error::fix(format!(
                "{text}; take it down (`forebay lab disk down {name}`)"
            )));
        }
        let places = Places { directory: directory_of(name) };
        let devices = LoopDevice::attached_to(&places.fuse().join(DISK_FILE))?;
        let device = devices.into_iter().next().expect("a whole disk has a device");
        Ok(Self { places, device, owner: None })
    }

    /// Leaves it standing when this is dropped.
    ///
    /// # Errors
    /// If it still looks like this process's own.
    pub fn keep(mut self) -> Result<(), Error> {
        self.owner = None;
        fs::remove_file(self.places.owner()).map_err(Error::file(&self.places.owner()))
    }

    /// Where its file system is mounted.
    pub fn mount_point(&self) -> PathBuf {
        self.places.mount_point()
    }

    /// The file behind the block device: the device model without elevator or cache.
    pub fn file(&self) -> PathBuf {
        self.places.fuse().join(DISK_FILE)
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
        write_settings(&self.places, &settings)
    }

    /// What it has done so far.
    ///
    /// # Errors
    /// If the daemon does not answer.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        let path = self.places.fuse().join(STATISTICS_FILE);
        let text = fs::read(&path).map_err(Error::file(&path))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::failed(format!("{}: {error}", path.display())))
    }

    /// Whether requests take the model's time. Free is for preparing what is measured later; only
    /// an idle disk changes at once.
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
        let point = self.mount_point();
        let directory = open(&point, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        directory.and_then(syncfs).map_err(Error::file(&point))?;
        // 3: pages, and what names and attributes take.
        fs::write(DROP_CACHES, "3").map_err(Error::io(DROP_CACHES))
    }

    /// Takes it down.
    ///
    /// # Errors
    /// If something still uses it; then it stays as far as it is in use.
    pub fn down(mut self) -> Result<(), Error> {
        self.owner = None;
        take_down(&name_of(&self.places))
    }

    fn tell(&self, command: Command) -> Result<(), Error> {
        let path = self.places.fuse().join(COMMAND_FILE);
        fs::write(&path, command.as_str()).map_err(Error::file(&path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.owner.is_none() {
            return;
        }
        if let Err(error) = take_down(&name_of(&self.places)) {
            eprintln!("forebay: the emulated disk stays: {error}");
        }
    }
}

/// The disks that there is anything of.
///
/// # Errors
/// If their directory cannot be read.
pub fn names() -> Result<Vec<String>, Error> {
    let folder = Path::new(RUN_DIRECTORY);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::file(folder))?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| check_name(name).is_ok()).collect();
    names.sort();
    Ok(names)
}

/// What there is of a disk, without asking its daemon.
///
/// # Errors
/// If there is nothing of it.
pub fn state(name: &str) -> Result<State, Error> {
    check_name(name)?;
    let places = Places { directory: directory_of(name) };
    if !places.directory.exists() {
        let text = format!("there is no disk \"{name}\"; `forebay lab disk up {name}` sets it up");
        return Err(Error::fix(text));
    }
    let devices = LoopDevice::attached_to(&places.fuse().join(DISK_FILE))?;
    Ok(State {
        name: name.to_owned(),
        is_served: places.is_served(),
        has_fuse: mount_table::at(&places.fuse())?.is_some(),
        block_devices: devices.iter().map(LoopDevice::path).collect(),
        is_mounted: mount_table::at(&places.mount_point())?.is_some(),
    })
}

/// Takes away what there is of a disk, from the top; nothing is left of what a crash has left.
///
/// # Errors
/// If there is nothing, or something is still in use; what was above it is gone then.
pub fn take_down(name: &str) -> Result<(), Error> {
    require_root()?;
    let found = state(name)?;
    let places = Places { directory: directory_of(name) };
    if found.has_fuse && !found.is_served {
        // Everything that waits for the daemon, and unmounting what is above, would wait for ever.
        fuse_mount::abort(&places.fuse())?;
    }
    while mount_table::at(&places.mount_point())?.is_some() {
        mount_table::unmount_at(&places.mount_point())?;
    }
    let file = places.fuse().join(DISK_FILE);
    for device in LoopDevice::attached_to(&file)? {
        device.detach(&file)?;
    }
    while mount_table::at(&places.fuse())?.is_some() {
        mount_table::unmount_at(&places.fuse())?;
    }
    if !wait_until(DAEMON_END_MAX, || !places.is_served()) {
        let text = format!("the daemon of disk \"{name}\" does not end although nothing uses it");
        return Err(Error::failed(text));
    }
    remove_directory(&places)
}

fn begin(places: &Places, settings: &Settings) -> Result<Disk, Error> {
    let owner = own(places)?;
    daemon::start(places)?;
    let device = LoopDevice::attach(&places.fuse().join(DISK_FILE))?;
    let path = device.path();
    let mut arguments = MKFS.to_vec();
    let text = path.to_string_lossy();
    arguments.push(&text);
    run("mkfs.ext4", "e2fsprogs", &arguments)?;
    // What runs on it may be told who asks by others: nothing of that may make somebody root.
    let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
    mount(&path, places.mount_point(), FILE_SYSTEM, flags, None)
        .map_err(Error::io(format!("mounting {}", path.display())))?;
    // Not before: mounting makes the kernel think of a read-ahead of its own.
    queue::set(&device, settings)?;
    let disk = Disk { places: places.clone(), device, owner: Some(owner) };
    disk.drop_caches()?;
    disk.charge(true)?;
    Ok(disk)
}

/// Marks a disk as this process's own until it ends, however it does.
fn own(places: &Places) -> Result<File, Error> {
    let (next, path) = (places.next_owner(), places.owner());
    let owner = File::create(&next).map_err(Error::file(&next))?;
    flock(&owner, FlockOperation::NonBlockingLockExclusive).map_err(Error::file(&next))?;
    fs::rename(&next, &path).map_err(Error::file(&path))?;
    Ok(owner)
}

/// Whether there is a disk whose owner has ended without taking it down.
fn is_abandoned(places: &Places) -> bool {
    let Ok(owner) = File::open(places.owner()) else { return false };
    flock(&owner, FlockOperation::NonBlockingLockExclusive).is_ok()
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
    make_run_directory(Path::new(RUN_DIRECTORY))?;
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
    write_settings(places, settings)
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

fn write_settings(places: &Places, settings: &Settings) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(settings).expect("settings have string keys only");
    fs::write(places.settings(), text).map_err(Error::file(&places.settings()))
}

/// Removes what the lab has put there and nothing else: should something be mounted below, it stays.
fn remove_directory(places: &Places) -> Result<(), Error> {
    let absent = |outcome: std::io::Result<()>, path: &Path| match outcome {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(Error::file(path)),
    };
    let locks = [places.lock(), places.owner(), places.next_owner()];
    for path in [places.settings(), places.log()].into_iter().chain(locks) {
        absent(fs::remove_file(&path), &path)?;
    }
    for path in [places.fuse(), places.mount_point(), places.directory.clone()] {
        absent(fs::remove_dir(&path), &path)?;
    }
    Ok(())
}

fn name_of(places: &Places) -> String {
    places.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
