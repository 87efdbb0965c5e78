//! The emulated disk on a real kernel: as fast as its model, and gone without a trace, whatever happened.
//!
//! Needs root, `/dev/fuse` and loop devices; without them each test says so and passes,
//! or fails if `REQUIRE_LAB` is set.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use forebay_lab::{
    Changes, Disk, Fault, Owner, Probe, Reorder, Settings, check, names, state, take_down,
    take_down_by_force,
};
use forebay_units::{Bytes, Direction};
use rustix::fs::OFlags;

/// Why no disk can be set up here, if none can.
fn obstacle() -> Option<&'static str> {
    let is_there = |path: &str| Path::new(path).exists();
    if !rustix::process::geteuid().is_root() {
        Some("not root")
    } else if !is_there("/dev/fuse") || !is_there("/dev/loop-control") {
        Some("no /dev/fuse or no loop devices")
    } else {
        None
    }
}

/// Held alone by a test that measures, and shared by all others: their disks, mkfs and emptied page
/// caches would be part of what it finds.
static MACHINE: RwLock<()> = RwLock::new(());

macro_rules! skip_unless_possible {
    () => {
        skip_unless_possible!(read);
    };
    (measures) => {
        skip_unless_possible!(write);
    };
    ($shared_or_alone:ident) => {
        if let Some(reason) = obstacle() {
            assert!(std::env::var_os("REQUIRE_LAB").is_none(), "{reason}");
            println!("skipped: {reason}");
            return;
        }
        let _machine = MACHINE.$shared_or_alone().unwrap_or_else(PoisonError::into_inner);
    };
}

/// A small disk of its own for each test.
fn settings(test: &str) -> Settings {
    let name = format!("test-{}-{test}", std::process::id());
    Settings { name, bytes: 128 << 20, time_scale: 0.1, ..Settings::default() }
}

#[test]
fn the_block_device_is_as_fast_as_its_model_at_every_request_size() {
    skip_unless_possible!(measures);
    // 4 GiB, over which the model's closed form has its random requests.
    let settings = Settings { bytes: 4 << 30, time_scale: 1.0, ..settings("model") };
    let disk = Disk::up(&settings).unwrap();
    let profile = settings.device().unwrap();
    for probe in Probe::all(2) {
        let checked = check(&disk, probe).unwrap();
        println!(
            "{probe:?}: {:.2} MB/s; over the model {:.3}, in real time {:.3}; processors short for {:.1} %, round {}",
            checked.device_mbps(),
            checked.over_predicted(),
            checked.real_over_predicted(1.0),
            checked.waited_ns as f64 / checked.real_ns as f64 * 100.0,
            checked.rounds
        );
        assert_eq!(checked.verdict(settings.time_scale), Ok(()), "{checked:?}");
        let length = Bytes(probe.request_bytes);
        let closed_form = if probe.is_sequential {
            profile.sequential_time(Direction::Read, length)
        } else {
            profile.random_time(Direction::Read, length)
        };
        let over_closed = (closed_form.0 * probe.requests) as f64 / checked.predicted_ns as f64;
        // So few random requests are not yet the mean.
        assert!((over_closed - 1.0).abs() < 0.05, "{checked:?}: {over_closed}");
    }
    disk.down().unwrap();
}

#[test]
fn a_disk_that_is_not_its_model_is_noticed() {
    skip_unless_possible!(measures);
    let slow = Changes { rate: Some(50 << 20), ..Changes::default() };
    let fast = Changes { rate: Some(60 << 20), ..Changes::default() };
    // Random, so that the arm's work does not depend on when the requests come: a busy machine
    // cannot excuse it.
    let probe = Probe { is_sequential: false, request_bytes: 1 << 20, requests: 8 };
    let wanted = Settings { changes: slow, time_scale: 1.0, ..settings("other") };
    let disk = Disk::up(&wanted).unwrap();
    assert_eq!(check(&disk, probe).unwrap().verdict(1.0), Ok(()));
    let claimed = Settings { changes: fast, ..wanted.clone() };
    let path = wanted.directory().join("settings.json");
    fs::write(path, serde_json::to_vec(&claimed).unwrap()).unwrap();
    let fault = check(&disk, probe).unwrap().verdict(1.0).unwrap_err();
    assert_eq!(fault, Fault::LongerAtWork);
    disk.down().unwrap();
}

#[test]
fn no_more_requests_reach_the_drive_than_its_queue_holds() {
    skip_unless_possible!();
    for (elevator, depth) in [("mq-deadline", 4), ("mq-deadline", 7), ("none", 5)] {
        let wanted = Settings {
            elevator: elevator.into(),
            queue_depth: depth,
            time_scale: 1.0,
            ..settings("depth")
        };
        let disk = Disk::up(&wanted).unwrap();
        disk.forget_maxima().unwrap();
        let device = fs::OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::DIRECT.bits().cast_signed())
            .open(disk.block_device())
            .unwrap();
        // Many more readers than that, whose requests take milliseconds each.
        std::thread::scope(|scope| {
            for reader in 0..32 {
                let device = &device;
                scope.spawn(move || {
                    let mut memory = vec![0_u8; 2 * 4096];
                    let start = memory.as_ptr().align_offset(4096);
                    let block = &mut memory[start..start + 4096];
                    for idx in 0..4 {
                        let place = (reader * 7 + idx * 31) % 128;
                        device.read_exact_at(block, place << 20).unwrap();
                    }
                });
            }
        });
        drop(device);
        let depth_max = disk.statistics().unwrap().depth_max;
        assert_eq!(depth_max, u64::from(depth), "{elevator}");
        disk.down().unwrap();
    }
}

#[test]
fn a_disk_is_what_was_asked_for_and_gone_afterwards() {
    skip_unless_possible!(measures);
    let wanted = Settings {
        read_ahead_kib: 256,
        queue_depth: 6,
        elevator: "none".into(),
        reorder: Reorder::CLook { window: 16 },
        ..settings("queue")
    };
    let disk = Disk::up(&wanted).unwrap();
    let read_back = disk.settings_read_back().unwrap();
    assert_eq!(read_back.settings, wanted);
    assert_eq!((read_back.queue.read_ahead_kib, read_back.queue.nr_requests), (256, 6));
    assert_eq!(read_back.queue.elevator, "none");

    let file = disk.mount_point().join("file");
    let data: Vec<u8> = (0..3 << 20).map(|idx: u32| (idx / 4096) as u8).collect();
    fs::write(&file, &data).unwrap();
    disk.drop_caches().unwrap();
    let before = disk.statistics().unwrap();
    assert_eq!(fs::read(&file).unwrap(), data);
    let run = disk.statistics().unwrap().since(&before);
    assert!(run.bytes_read >= 3 << 20 && run.seeks >= 1 && run.busy_ns > 0, "{run:?}");
    assert!(run.depth_max <= 6, "the drive had {} requests at once", run.depth_max);

    let depth = disk.block_device().file_name().unwrap().to_str().unwrap().to_owned();
    let depth = PathBuf::from(format!("/sys/block/{depth}/queue/nr_requests"));
    fs::write(&depth, "5").unwrap();
    let error = disk.settings_read_back().unwrap_err().to_string();
    assert!(error.contains("queue depth"), "{error}");
    fs::write(&depth, "6").unwrap();
    disk.set_queue(128, "mq-deadline").unwrap();
    let queue = disk.settings_read_back().unwrap().queue;
    assert_eq!((queue.read_ahead_kib, queue.elevator.as_str()), (128, "mq-deadline"));
    disk.down().unwrap();
    assert!(state(&wanted.name).is_err() && !wanted.directory().exists());
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    skip_unless_possible!();
    let wanted = Settings { elevator: "lift".into(), ..settings("refused") };
    let error = Disk::up(&wanted).unwrap_err().to_string();
    assert!(error.contains("\"lift\"") && error.contains("mq-deadline"), "{error}");
    assert!(!wanted.directory().exists());

    let wanted = settings("twice");
    let first = Disk::up(&wanted).unwrap();
    let error = Disk::up(&wanted).unwrap_err().to_string();
    assert!(error.contains("already") && error.contains("lab disk down"), "{error}");
    assert!(state(&wanted.name).unwrap().is_whole());
    first.down().unwrap();
}

#[test]
fn a_disk_in_use_stays_whole() {
    skip_unless_possible!();
    let wanted = settings("busy");
    let disk = Disk::up(&wanted).unwrap();
    let file = fs::File::create(disk.mount_point().join("open")).unwrap();
    disk.keep().unwrap();
    let error = take_down(&wanted.name).unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    assert!(state(&wanted.name).unwrap().is_whole());
    drop(file);
    take_down(&wanted.name).unwrap();
}

#[test]
fn what_a_killed_daemon_leaves_is_taken_down() {
    skip_unless_possible!();
    let wanted = settings("killed");
    let disk = Disk::up(&wanted).unwrap();
    let file = disk.mount_point().join("file");
    fs::write(&file, vec![1; 1 << 20]).unwrap();
    disk.keep().unwrap();
    kill("KILL", daemon_of(&wanted.directory()));
    wait_until(|| !state(&wanted.name).unwrap().is_served);
    // Nothing hangs: what is not in the page cache fails.
    assert!(Disk::find(&wanted.name).is_err());
    take_down(&wanted.name).unwrap();
    assert!(!wanted.directory().exists());
    // The name can be used again.
    Disk::up(&wanted).unwrap().down().unwrap();
}

#[test]
fn what_a_half_done_setting_up_leaves_is_taken_down() {
    skip_unless_possible!();
    // As if `up` had been killed before it started the daemon, and after it mounted the disk.
    let wanted = settings("half");
    fs::create_dir_all(wanted.directory().join("fuse")).unwrap();
    take_down(&wanted.name).unwrap();
    assert!(!wanted.directory().exists());

    let disk = Disk::up(&wanted).unwrap();
    let mount_point = disk.mount_point();
    disk.keep().unwrap();
    // A process that another test is just starting may still have open what setting up had.
    wait_until(|| Command::new("umount").arg(&mount_point).status().unwrap().success());
    assert!(!state(&wanted.name).unwrap().is_whole());
    take_down(&wanted.name).unwrap();
    assert!(!wanted.directory().exists());
}

#[test]
fn a_daemon_does_not_leave_a_mounted_disk_because_of_a_signal() {
    skip_unless_possible!();
    let wanted = settings("signals");
    let disk = Disk::up(&wanted).unwrap();
    let daemon = daemon_of(&wanted.directory());
    ["TERM", "INT", "HUP"].iter().for_each(|name| kill(name, daemon));
    let file = disk.mount_point().join("file");
    fs::write(&file, "x").unwrap();
    disk.drop_caches().unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"x");
    disk.down().unwrap();
    wait_until(|| !PathBuf::from(format!("/proc/{daemon}")).exists());
}

/// Also what [`OwnedDisk`] runs in a process of its own: a disk's owner, until its input ends.
#[test]
fn an_owner_takes_its_disk_down_when_it_ends() {
    skip_unless_possible!();
    let Ok(name) = std::env::var(OWNER_OF) else {
        let mut disk = OwnedDisk::up("ends");
        drop(disk.owner.stdin.take());
        assert!(disk.owner.wait().unwrap().success());
        return assert!(disk.is_gone());
    };
    let disk = Disk::up(&Settings { name, ..settings("owner") }).unwrap();
    println!("\n{UP}");
    std::io::stdin().lines().for_each(drop);
    disk.down().unwrap();
}

const OWNER_OF: &str = "FOREBAY_TEST_OWNER_OF";
const UP: &str = "it is up";

/// A disk that belongs to another process.
struct OwnedDisk {
    settings: Settings,
    owner: Child,
}

impl OwnedDisk {
    fn up(test: &str) -> Self {
        let settings = settings(test);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "an_owner_takes_its_disk_down_when_it_ends", "--nocapture"]);
        command.env(OWNER_OF, &settings.name).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut owner = command.spawn().unwrap();
        let output = BufReader::new(owner.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        assert!(lines.any(|line| line == UP), "the owner has no disk");
        // Its further output has a reader for as long as it needs one.
        std::thread::spawn(move || lines.for_each(drop));
        Self { settings, owner }
    }

    fn name(&self) -> &str {
        &self.settings.name
    }

    fn kill(&mut self) {
        self.owner.kill().unwrap();
        self.owner.wait().unwrap();
    }

    fn is_gone(&self) -> bool {
        !self.settings.directory().exists()
    }
}

#[test]
fn what_a_killed_owner_leaves_is_taken_down_by_its_daemon() {
    skip_unless_possible!();
    let mut disk = OwnedDisk::up("killed-owner");
    let daemon = daemon_of(&disk.settings.directory());
    let mount_point = disk.settings.directory().join("mnt");
    let file = fs::File::create(mount_point.join("open")).unwrap();
    assert!(matches!(state(disk.name()).unwrap().owner, Owner::Living(_)));
    disk.kill();
    // As long as something uses it, it stays, and everybody can see whose it was.
    let number = disk.owner.id().to_string();
    let Owner::Gone(process) = state(disk.name()).unwrap().owner else { panic!("not gone") };
    assert!(process.starts_with(&number), "{process}");
    let said = || state(disk.name()).unwrap().daemon_said.join("\n");
    wait_until(|| said().contains("left behind by its owner"));
    assert!(said().contains("in use"), "{}", said());
    file.write_at(b"still there", 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    wait_until(|| disk.is_gone());
    wait_until(|| !PathBuf::from(format!("/proc/{daemon}")).exists());
}

#[test]
fn what_a_killed_owner_and_a_killed_daemon_leave_makes_room_for_one() {
    skip_unless_possible!();
    let mut disk = OwnedDisk::up("both-killed");
    kill("KILL", daemon_of(&disk.settings.directory()));
    disk.kill();
    assert!(matches!(state(disk.name()).unwrap().owner, Owner::Gone(_)));
    // Of several that want the name at once one gets it, and keeps it.
    let wanted = &disk.settings;
    let ups: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| Disk::up(wanted))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (got, refused): (Vec<_>, Vec<_>) = ups.into_iter().partition(Result::is_ok);
    assert_eq!((got.len(), refused.len()), (1, 3));
    for refusal in refused {
        let error = refusal.unwrap_err().to_string();
        assert!(error.contains("already"), "{error}");
    }
    assert!(state(disk.name()).unwrap().is_whole());
    got.into_iter().for_each(|disk| disk.unwrap().down().unwrap());
    assert!(disk.is_gone());
}

#[test]
fn a_disk_whose_owner_lives_is_taken_down_by_that_or_by_force() {
    skip_unless_possible!();
    let mut disk = OwnedDisk::up("living");
    let error = take_down(disk.name()).unwrap_err().to_string();
    let number = disk.owner.id().to_string();
    assert!(error.contains(&format!("process {number} (")) && error.contains("--force"), "{error}");
    assert!(state(disk.name()).unwrap().is_whole());
    assert!(names().unwrap().contains(&disk.settings.name));
    take_down_by_force(disk.name()).unwrap();
    assert!(disk.is_gone());
    // Its owner is told when it comes to take it down.
    drop(disk.owner.stdin.take());
    assert!(!disk.owner.wait().unwrap().success());
}

#[test]
fn a_kept_disk_is_nobodys_and_stays() {
    skip_unless_possible!();
    let wanted = settings("kept");
    let disk = Disk::up(&wanted).unwrap();
    assert!(matches!(state(&wanted.name).unwrap().owner, Owner::Living(_)));
    disk.keep().unwrap();
    assert_eq!(state(&wanted.name).unwrap().owner, Owner::Nobody);
    assert!(Disk::up(&wanted).unwrap_err().to_string().contains("already"));
    drop(Disk::find(&wanted.name).unwrap());
    assert!(state(&wanted.name).unwrap().is_whole());
    take_down(&wanted.name).unwrap();
    assert!(!wanted.directory().exists());
}

#[test]
fn a_daemon_that_hangs_keeps_nobody_waiting() {
    skip_unless_possible!();
    let wanted = settings("hung");
    let disk = Disk::up(&wanted).unwrap();
    fs::write(disk.mount_point().join("file"), vec![1; 4 << 20]).unwrap();
    let daemon = daemon_of(&wanted.directory());
    kill("STOP", daemon);
    let error = disk.statistics().unwrap_err().to_string();
    assert!(error.contains("hangs"), "{error}");
    let found = state(&wanted.name).unwrap();
    assert!(found.is_served && !found.answers && !found.is_whole());
    assert!(Disk::find(&wanted.name).unwrap_err().to_string().contains("its daemon hangs"));
    disk.down().unwrap();
    assert!(!wanted.directory().exists());
    wait_until(|| !PathBuf::from(format!("/proc/{daemon}")).exists());
}

#[test]
fn what_a_daemon_said_before_it_died_is_shown() {
    skip_unless_possible!();
    let wanted = settings("said");
    let disk = Disk::up(&wanted).unwrap();
    disk.keep().unwrap();
    let mut log = fs::OpenOptions::new().append(true).open(wanted.directory().join("log")).unwrap();
    std::io::Write::write_all(&mut log, b"panicked at the platter\n").unwrap();
    kill("KILL", daemon_of(&wanted.directory()));
    wait_until(|| !state(&wanted.name).unwrap().is_served);
    let found = state(&wanted.name).unwrap();
    assert_eq!(found.daemon_said.last().map(String::as_str), Some("panicked at the platter"));
    let error = Disk::find(&wanted.name).unwrap_err().to_string();
    assert!(error.contains("has ended") && error.contains("at the platter"), "{error}");
    take_down(&wanted.name).unwrap();
}

#[test]
fn a_device_on_another_file_of_the_same_name_is_not_this_disks() {
    skip_unless_possible!();
    let wanted = settings("foreign");
    let file = wanted.directory().join("fuse/disk");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let attached = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
    let foreign = String::from_utf8(attached.stdout).unwrap().trim().to_owned();
    fs::remove_dir_all(wanted.directory()).unwrap();

    let disk = Disk::up(&wanted).unwrap();
    let found = state(&wanted.name).unwrap();
    assert_eq!(found.block_devices, [disk.block_device()]);
    assert_ne!(disk.block_device(), Path::new(&foreign));
    disk.down().unwrap();
    let device = Path::new(&foreign).file_name().unwrap();
    assert!(Path::new("/sys/block").join(device).join("loop").exists(), "it was detached");
    assert!(Command::new("losetup").args(["--detach", &foreign]).status().unwrap().success());
}

#[test]
fn a_changed_model_is_the_one_that_is_measured() {
    skip_unless_possible!(measures);
    let changes = Changes {
        rate: Some(10 << 20),
        seek_ns: Some([2_000_000, 12_000_000, 25_000_000]),
        turns_per_minute: Some(5_400),
        ..Changes::default()
    };
    let wanted = Settings { changes, ..settings("changed") };
    let disk = Disk::up(&wanted).unwrap();
    assert_eq!(disk.settings_read_back().unwrap().settings.changes, changes);
    let probe = Probe { is_sequential: true, request_bytes: 1 << 20, requests: 4 };
    let checked = check(&disk, probe).unwrap();
    assert_eq!(checked.verdict(wanted.time_scale), Ok(()), "{checked:?}");
    let model = (4_u64 << 20) * 1_000_000_000 / (10 << 20);
    assert!(checked.predicted_ns.abs_diff(model) < model / 100, "{checked:?}");
    disk.down().unwrap();
}

#[test]
fn nobody_becomes_root_by_a_file_on_a_disk() {
    skip_unless_possible!();
    let wanted = settings("modes");
    let disk = Disk::up(&wanted).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let directory = wanted.directory();
    assert_eq!((mode(directory.parent().unwrap()), mode(&directory)), (0o700, 0o700));
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let point = disk.mount_point();
    let line = table.lines().find(|line| line.split(' ').nth(1) == point.to_str()).unwrap();
    assert!(["nosuid", "nodev"].iter().all(|flag| line.contains(flag)), "{line}");
    disk.down().unwrap();
}

#[test]
fn a_daemon_is_not_killed_for_memory_or_says_that_it_may_be() {
    skip_unless_possible!();
    let wanted = settings("memory");
    let disk = Disk::up(&wanted).unwrap();
    let daemon = daemon_of(&wanted.directory());
    let said = fs::read_to_string(wanted.directory().join("log")).unwrap();
    let score = fs::read_to_string(format!("/proc/{daemon}/oom_score_adj")).unwrap();
    assert!(score.trim() == "-1000" || said.contains("oom_score_adj"), "{score}: {said}");
    disk.down().unwrap();
}

fn daemon_of(directory: &Path) -> u32 {
    let is_it = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.len() >= 2
            && words[0].ends_with(b"forebay-lab-disk")
            && words[1] == directory.as_os_str().as_encoded_bytes()
    };
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let found = processes.into_iter().find(is_it).expect("a daemon runs");
    found.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn kill(signal: &str, process: u32) {
    let status = Command::new("kill").args(["-s", signal, &process.to_string()]).status();
    assert!(status.unwrap().success());
}

fn wait_until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "waited in vain");
        std::thread::yield_now();
    }
}
