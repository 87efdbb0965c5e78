//! Opening: what is refused, what cannot be left, and what makes two opens the same file.

use std::fs::File;
use std::os::unix::fs::symlink;

use forebay_engine::store::{OpenHow, Operation, Store};
use forebay_store::{PosixEngine, PosixOptions, PosixStore};
use forebay_units::{Bytes, Offset};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;

use crate::rig::{Rig, pattern, say_not_tested};

fn rig() -> Rig {
    Rig::new(PosixEngine::Threads).expect("threads are never forbidden")
}

#[test]
fn a_path_beneath_the_export_opens_with_its_access_mode() {
    let mut rig = rig();
    std::fs::create_dir_all(rig.path("a/b")).unwrap();
    std::fs::write(rig.path("a/b/f"), pattern(1_000, 1)).unwrap();
    symlink("b/../b/f", rig.path("a/link")).unwrap();
    for path in ["a/b/f", "./a/../a/b/f", "a/link"] {
        let file = rig.open_beneath(path, OFlags::RDONLY).unwrap().file;
        assert_eq!(rig.read(file, 0, 1_000), Ok(pattern(1_000, 1)), "{path}");
        assert_eq!(rig.write(&[file], Operation::Write(Offset(0)), b"x"), Err(Errno::BADF));
    }
    let append = rig.open_beneath("a/link", OFlags::WRONLY | OFlags::APPEND).unwrap().file;
    let buffers = rig.filled(b"end", 3);
    let io = rig.run_io(&[append], Operation::Append, buffers);
    assert_eq!((io.outcome, io.end), (Ok(Bytes(3)), Offset(1_003)));
}

#[test]
fn opening_never_creates_or_truncates() {
    let mut rig = rig();
    std::fs::write(rig.path("f"), b"kept").unwrap();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::EXCL | OFlags::TMPFILE;
    assert!(rig.open_beneath("f", flags).is_ok());
    assert_eq!(rig.open_beneath("absent", flags).unwrap_err(), Errno::NOENT);
    assert_eq!(std::fs::read(rig.path("f")).unwrap(), b"kept");
    assert!(!rig.path("absent").exists());
}

#[test]
fn the_export_cannot_be_left() {
    let mut rig = rig();
    let outside = tempfile::NamedTempFile::new().unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    std::fs::create_dir(rig.path("d")).unwrap();
    symlink(outside.path(), rig.path("absolute")).unwrap();
    symlink("../../../../../../../etc/passwd", rig.path("d/relative")).unwrap();
    symlink("..", rig.path("d/up")).unwrap();
    symlink("loop", rig.path("loop")).unwrap();
    let absolute = outside.path().to_str().unwrap();
    let beside = format!("../{name}");
    let through_a_link = format!("d/up/../{name}");
    for path in [
        absolute,
        "/etc/passwd",
        "..",
        &beside,
        "d/../../x",
        "absolute",
        "d/relative",
        &through_a_link,
    ] {
        assert_eq!(rig.open_beneath(path, OFlags::RDONLY).unwrap_err(), Errno::XDEV, "{path}");
    }
    assert_eq!(rig.open_beneath("loop", OFlags::RDONLY).unwrap_err(), Errno::LOOP);
    assert_eq!(rig.open_beneath("", OFlags::RDONLY).unwrap_err(), Errno::NOENT);
    assert_eq!(rig.open_beneath("a\0b", OFlags::RDONLY).unwrap_err(), Errno::INVAL);
}

#[test]
fn magic_links_are_refused() {
    let options = PosixOptions {
        export: Some("/proc/self".into()),
        engine: PosixEngine::Threads,
        depth: 1,
        ..PosixOptions::default()
    };
    let mut store = PosixStore::new(options).unwrap();
    for path in ["exe", "root/etc/passwd", "cwd/Cargo.toml"] {
        let refused = store.open(OpenHow::Beneath { path: path.into(), flags: 0 }).unwrap_err();
        assert_eq!(refused, Errno::LOOP, "{path}");
    }
}

#[test]
fn what_is_not_a_regular_file_is_refused_without_waiting_for_it() {
    let mut rig = rig();
    std::fs::create_dir(rig.path("d")).unwrap();
    mknodat(CWD, rig.path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(rig.path("socket")).unwrap();
    for (path, flags) in [
        (".", OFlags::RDONLY),
        ("d", OFlags::RDONLY),
        ("d", OFlags::RDWR),
        ("socket", OFlags::RDWR),
    ] {
        assert_eq!(rig.open_beneath(path, flags).unwrap_err(), Errno::INVAL, "{path}");
    }
    for flags in [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR] {
        assert_eq!(rig.open_beneath("fifo", flags).unwrap_err(), Errno::INVAL, "fifo");
    }
    let null = rustix::fs::makedev(1, 3);
    match mknodat(CWD, rig.path("null"), FileType::CharacterDevice, Mode::RWXU, null) {
        Ok(()) => assert_eq!(rig.open_beneath("null", OFlags::RDONLY).unwrap_err(), Errno::INVAL),
        Err(errno) => say_not_tested(&format!("a device beneath the export: mknod: {errno}")),
    }
    let descriptors = [File::open("/dev/null").unwrap(), File::open(rig.directory.path()).unwrap()];
    for descriptor in descriptors {
        assert_eq!(rig.open_descriptor(descriptor).unwrap_err(), Errno::INVAL);
    }
    let (reader, _writer) = rustix::pipe::pipe().unwrap();
    assert_eq!(rig.open_descriptor(reader).unwrap_err(), Errno::INVAL);
    std::fs::write(rig.path("f"), b"").unwrap();
    let path_only = rustix::fs::open(rig.path("f"), OFlags::PATH, Mode::empty()).unwrap();
    assert_eq!(rig.open_descriptor(path_only).unwrap_err(), Errno::BADF);
}

#[test]
fn without_an_export_no_path_opens() {
    let mut store = PosixStore::new(PosixOptions::default()).unwrap();
    let refused = store.open(OpenHow::Beneath { path: "f".into(), flags: 0 });
    assert_eq!(refused.unwrap_err(), Errno::ACCESS);
}

fn say_no_generations(rig: &Rig) {
    /// `EXT4_SUPER_MAGIC`.
    const EXT4: u64 = 0xEF53;
    let kind = rustix::fs::statfs(rig.directory.path()).unwrap().f_type as u64;
    assert_ne!(kind, EXT4, "ext4 has generations");
    say_not_tested(&format!("inode generations: file system {kind:#x} has none"));
}

#[test]
fn one_file_has_one_identity_however_it_is_reached() {
    let mut rig = rig();
    std::fs::write(rig.path("f"), b"").unwrap();
    std::fs::write(rig.path("g"), b"").unwrap();
    std::fs::hard_link(rig.path("f"), rig.path("hard")).unwrap();
    let id = rig.open_beneath("f", OFlags::RDONLY).unwrap().id;
    assert_eq!(rig.open_beneath("hard", OFlags::WRONLY).unwrap().id, id);
    assert_eq!(rig.open_descriptor(File::open(rig.path("f")).unwrap()).unwrap().id, id);
    assert_ne!(rig.open_beneath("g", OFlags::RDONLY).unwrap().id, id);
    assert_ne!(id.inode, 0);
    if id.generation == 0 {
        say_no_generations(&rig);
    }
}

#[test]
fn a_used_inode_number_is_told_from_the_old_file() {
    let mut rig = rig();
    let mut seen = std::collections::HashMap::new();
    for _ in 0..50 {
        std::fs::write(rig.path("f"), b"").unwrap();
        let opened = rig.open_beneath("f", OFlags::RDONLY).unwrap();
        rig.store.close(opened.file);
        std::fs::remove_file(rig.path("f")).unwrap();
        if opened.id.generation == 0 {
            return say_no_generations(&rig);
        }
        let earlier = seen.insert(opened.id.inode, opened.id);
        assert_ne!(earlier, Some(opened.id));
        if earlier.is_some() {
            return;
        }
    }
    say_not_tested("a used inode number: 50 files in a row got new ones");
}
