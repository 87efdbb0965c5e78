//! Every way to the files, on a small and quick disk: the same bytes, from the disk, and nothing left behind.
//!
//! Needs root, `/dev/fuse`, loop devices, NFS-Ganesha and built programs; says so where they are missing.

use std::path::Path;
use std::time::Duration;

use forebay_lab::{Settings, names};
use forebay_units::{Bytes, Direction};

use super::workload::{Job, Workload};
use super::{Caching, Forebay, Ganesha, Least, Local, Peer, Stage, Transport};
use crate::programs::Programs;

const FILE: &str = "shared";
const SEED: u64 = 1;
const FILE_BYTES: u64 = 2 << 20;

/// Why this cannot be tested here, if it cannot.
fn obstacle(programs: &Programs) -> Option<String> {
    let wanted = ["/dev/fuse", "/dev/loop-control", "/usr/bin/ganesha.nfsd", "/usr/sbin/rpcbind"];
    let missing = wanted.into_iter().find(|path| !Path::new(path).exists());
    if !rustix::process::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    let unbuilt = [programs.forebay().err(), programs.preload().err(), programs.strides().err()];
    let unbuilt = unbuilt.into_iter().flatten().next().map(|error| error.to_string());
    missing.map(|path| format!("no {path}")).or(unbuilt)
}

fn peers() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(Local { caching: Caching::Buffered }),
        Box::new(Local { caching: Caching::Direct }),
        Box::new(Ganesha::new(32 << 10)),
        Box::new(Ganesha::new(1 << 20)),
        Box::new(Forebay::new(Transport::Unix, Caching::Buffered, &[])),
        Box::new(Forebay::new(Transport::Tcp, Caching::Buffered, &[])),
        Box::new(Forebay::new(Transport::Unix, Caching::Direct, &["--scheduler-policy=sjf"])),
    ]
}

fn strided(direction: Direction, seed: u64) -> Job {
    Job::strided("job", direction, FILE, seed, 4, Bytes::kib(64), FILE_BYTES)
}

#[test]
fn every_peer_reads_and_writes_the_same_file_on_the_disk() {
    let programs = Programs::beside_this().unwrap();
    if let Some(reason) = obstacle(&programs) {
        assert!(std::env::var_os("REQUIRE_LAB").is_none(), "{reason}");
        println!("skipped: {reason}");
        return;
    }
    let name = format!("test-peers-{}", std::process::id());
    let settings =
        Settings { name: name.clone(), bytes: 128 << 20, time_scale: 0.1, ..Settings::default() };
    let stage = Stage::up(&programs, &settings).unwrap();
    stage.make_file(FILE, SEED, FILE_BYTES).unwrap();
    for (idx, mut peer) in peers().into_iter().enumerate() {
        // Readers compare what they get with what the last writer has written.
        let (before, after) = (SEED + idx as u64, SEED + idx as u64 + 1);
        let read = Workload::of(strided(Direction::Read, before));
        let measured = stage.run(&mut *peer, &read).unwrap();
        assert_eq!((measured.peer, measured.bytes), (peer.name(), FILE_BYTES));
        assert!(measured.disk.bytes_read >= FILE_BYTES, "{}: {:?}", peer.name(), measured.disk);
        assert!(measured.seconds > 0.0 && measured.jobs.len() == 1);

        let write = Workload::of(strided(Direction::Write, after));
        let measured = stage.run(&mut *peer, &write).unwrap();
        assert!(measured.disk.bytes_written >= FILE_BYTES, "{}: {:?}", peer.name(), measured.disk);
        assert!(measured.others_share.is_some_and(|share| (0.0..=1.0).contains(&share)));
    }
    let unshared = Forebay::new(Transport::Unix, Caching::Buffered, &["--sharing-level=none"]);
    let settings = &unshared.settings(&programs).unwrap()["settings"];
    assert_eq!(
        (&settings["sharing.level"], &settings["store.kind"]),
        (&"none".into(), &"posix".into())
    );
    every_run_begins_alike(&stage);
    what_is_in_a_cache_is_an_error(&stage);
    two_jobs(&stage, SEED + peers().len() as u64);
    stage.down().unwrap();
    assert!(!names().unwrap().contains(&name));
}

/// Whatever was read last, the first read is a seek: a file that lies where the arm was left has no
/// advantage.
fn every_run_begins_alike(stage: &Stage<'_>) {
    let files = [("one", 8), ("next", 9)];
    for (file, seed) in files {
        stage.make_file(file, seed, FILE_BYTES).unwrap();
    }
    for (file, seed) in files.into_iter().cycle().take(4) {
        let cat = Job::sequential("cat", Direction::Read, file, seed, Bytes::kib(32), FILE_BYTES);
        let mut peer = Local { caching: Caching::Buffered };
        let measured = stage.run(&mut peer, &Workload::of(cat)).unwrap();
        assert!(measured.disk.seeks >= 1, "{file}: {:?}", measured.disk);
    }
}

/// A run that the disk had no part in says so.
fn what_is_in_a_cache_is_an_error(stage: &Stage<'_>) {
    let least = Least { bytes_read: FILE_BYTES, bytes_written: 0 };
    let outcome = stage.watched(least, || Ok(()));
    assert!(outcome.is_err_and(|error| error.to_string().contains("in a cache")));
}

/// Jobs have times of their own, and the later one's begins when it starts.
fn two_jobs(stage: &Stage<'_>, seed: u64) {
    const LATER: Duration = Duration::from_millis(200);
    let cat = Job::sequential("cat", Direction::Read, FILE, seed, Bytes::kib(32), FILE_BYTES);
    let jobs = vec![strided(Direction::Read, seed), cat.after(LATER)];
    let mut peer = Local { caching: Caching::Buffered };
    let measured = stage.run(&mut peer, &Workload { jobs }).unwrap();
    let names: Vec<&str> = measured.jobs.iter().map(|job| job.name).collect();
    assert_eq!((names, measured.bytes), (vec!["job", "cat"], 2 * FILE_BYTES));
    assert!(measured.seconds >= LATER.as_secs_f64() + measured.jobs[1].seconds);
}
