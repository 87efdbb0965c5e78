//! Which engine carries calls out, and what happens where io_uring is forbidden.

use forebay_engine::store::{Operation, Store};
use forebay_store::{PosixEngine, PosixOptions, PosixStore};
use forebay_units::{Bytes, Offset};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::rig::{Rig, say_not_tested};
use crate::sys::forbid_io_uring;

#[test]
fn where_io_uring_is_forbidden_threads_do_the_work() {
    let forbidden = std::thread::spawn(|| {
        if let Err(error) = forbid_io_uring() {
            return say_not_tested(&format!("forbidden io_uring: seccomp: {error}"));
        }
        let asked_for = PosixOptions { engine: PosixEngine::IoUring, ..PosixOptions::default() };
        assert_eq!(PosixStore::new(asked_for).unwrap_err(), Errno::PERM);
        let mut rig = Rig::new(PosixEngine::Auto).unwrap();
        assert_eq!(rig.store.name(), "posix(threads)");
        let file = rig.open("f", OFlags::RDWR);
        assert_eq!(rig.write(&[file], Operation::Write(Offset(0)), b"bytes"), Ok(Bytes(5)));
        assert_eq!(rig.read(file, 1, 9), Ok(b"ytes".to_vec()));
    });
    forbidden.join().unwrap();
}

#[test]
fn the_engine_asked_for_is_the_one_that_is_named() {
    let name = |engine| Rig::new(engine).map(|rig| rig.store.name());
    assert_eq!(name(PosixEngine::Threads).as_deref(), Some("posix(threads)"));
    if let Some(name) = name(PosixEngine::IoUring) {
        assert_eq!(name, "posix(io_uring)");
    }
}

#[test]
fn a_depth_of_none_is_refused() {
    let options = PosixOptions { depth: 0, ..PosixOptions::default() };
    assert_eq!(PosixStore::new(options).unwrap_err(), Errno::INVAL);
}
