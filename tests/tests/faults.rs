//! Errors, full disks and short I/O at every kind of call at the store: the caller, or its sync,
//! gets exactly that error, a short count is short and no more, and the next call goes on.

use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_client::{Bytes, Error, Handle};
use forebay_forwarder::settings::Bypass;
use forebay_tests::{Client, Random, Running, Through, finish, forebay, range};
use rustix::fs::OFlags;
use rustix::io::Errno;

const ERRNOS: [(&str, Errno); 3] =
    [("EIO", Errno::IO), ("ENOSPC", Errno::NOSPC), ("EDQUOT", Errno::DQUOT)];

fn faulty(rules: &str) -> Running {
    Running::start(|settings| {
        settings.store.faults = Some(rules.into());
        settings.scheduler.bypass = Bypass::Never;
    })
}

/// A call, and what it says: bytes, or nothing.
type Call = fn(&mut Client, Handle, Handle) -> Result<usize, Error>;

/// Name of the kind at the store, what asks for it, and how many bytes that moves.
const CALLS: &[(&str, Call, usize)] = &[
    ("stat", |client, file, _| client.connection.stat(file).map(|_| 0), 0),
    ("read", |client, file, _| client.read(file, 10, &mut [0; 5000]), 5000),
    ("read", |client, file, _| client.read(file, 10, &mut vec![0; 3 << 20]), 3 << 20),
    (
        "read",
        |client, file, _| client.read_list(file, &[(10, 500), (9000, 500)], &mut [0; 1000]),
        1000,
    ),
    ("write", |client, file, _| client.write(file, 10, &[1; 5000]), 5000),
    ("write", |client, file, _| client.write(file, 10, &vec![1; 500_000]), 500_000),
    ("write", |client, file, _| client.write(file, 10, &vec![1; 5 << 20]), 5 << 20),
    (
        "write",
        |client, file, _| client.write_list(file, &[(10, 500), (9000, 500)], &[1; 1000]),
        1000,
    ),
    (
        "append",
        |client, _, log| client.append(log, &[1; 5000]).map(|written| written.bytes.0 as usize),
        5000,
    ),
    (
        "append",
        |client, _, log| {
            client.append(log, &vec![1; 3 << 20]).map(|written| written.bytes.0 as usize)
        },
        3 << 20,
    ),
    ("sync", |client, file, _| client.connection.sync(file).map(|()| 0), 0),
    ("data-sync", |client, file, _| client.connection.data_sync(file).map(|()| 0), 0),
    ("truncate", |client, file, _| client.connection.truncate(file, Bytes(8 << 20)).map(|()| 0), 0),
    (
        "allocate",
        |client, file, _| client.connection.allocate(file, 0, range(0, 100)).map(|()| 0),
        0,
    ),
    ("advise", |client, file, _| client.connection.hint(file, 3, range(0, 0)).map(|()| 0), 0),
];

/// A client with a file of 8 MiB, open for reading and writing, and another for appending.
fn client_of(running: &Running, way: Through) -> (Client, Handle, Handle) {
    std::fs::write(running.folder().join("a"), vec![7; 8 << 20]).unwrap();
    let mut client = running.connect(way);
    let (_, file) = client.open("a");
    let (_, log) = client.open_to_append("log");
    (client, file, log)
}

#[test]
fn every_error_of_every_call_reaches_its_caller_unchanged() {
    for way in Through::ALL {
        for (kind, call, bytes) in CALLS {
            for (name, errno) in ERRNOS {
                let running = faulty(&format!("{kind}:{name}@1"));
                let (mut client, file, log) = client_of(&running, way);
                let what = format!("{way:?}, {kind} of {bytes} bytes, {name}");
                assert_eq!(call(&mut client, file, log), Err(Error::Errno(errno)), "{what}");
                assert_eq!(call(&mut client, file, log), Ok(*bytes), "{what}: the next one");
                drop(client);
                running.wait_until_quiet(0);
            }
        }
    }
}

#[test]
fn an_error_of_every_open_reaches_its_caller_unchanged() {
    for way in Through::ALL {
        for (name, errno) in ERRNOS {
            let running = faulty(&format!("open:{name}@1"));
            std::fs::write(running.folder().join("a"), b"abc").unwrap();
            let file = std::fs::File::open(running.folder().join("a")).unwrap();
            let mut client = running.connect(way);
            assert_eq!(
                client.attach(&file, "a", OFlags::RDONLY),
                Err(Error::Errno(errno)),
                "{way:?}"
            );
            let handle = client.attach(&file, "a", OFlags::RDONLY).unwrap();
            assert_eq!(client.read(handle, 0, &mut [0; 10]), Ok(3));
        }
    }
}

/// What moved before the error counts, without a gap, and the error meets whoever asks for the rest.
#[test]
fn an_error_in_the_middle_makes_a_short_count_and_then_an_error() {
    const CHUNK: usize = 1 << 20;
    for way in Through::ALL {
        for failing in 2..=5 {
            let running = faulty(&format!("write:ENOSPC@{failing}+"));
            let (mut client, file, _) = client_of(&running, way);
            let bytes = Random::new(failing as u64).bytes(5 * CHUNK);
            let written = client.write(file, 0, &bytes).unwrap();
            // Chunks go out side by side: one of the first that were let through may be a later one.
            assert!(
                written % CHUNK == 0 && written < failing * CHUNK,
                "{way:?}, call {failing}: {written}"
            );
            let mut seen = vec![0; written];
            let on_disk = std::fs::File::open(running.folder().join("a")).unwrap();
            on_disk.read_exact_at(&mut seen, 0).unwrap();
            assert!(seen == bytes[..written], "{way:?}, call {failing}");
            let rest = client.write(file, written as u64, &bytes[written..]);
            assert_eq!(rest, Err(Error::Errno(Errno::NOSPC)), "{way:?}, call {failing}");
        }
    }
}

#[test]
fn an_append_that_fails_in_the_middle_ends_where_it_says() {
    for way in Through::ALL {
        let running = faulty("append:ENOSPC@3");
        let (mut client, _, log) = client_of(&running, way);
        let written = client.append(log, &vec![1; 5 << 20]).unwrap();
        assert_eq!((written.bytes.0, written.end.0), (2 << 20, 2 << 20), "{way:?}");
        assert_eq!(std::fs::metadata(running.folder().join("log")).unwrap().len(), 2 << 20);
        assert_eq!(client.append(log, b"abc").unwrap().end.0, (2 << 20) + 3);
    }
}

#[test]
fn short_calls_move_what_they_say_and_programs_that_go_on_get_everything() {
    for way in Through::ALL {
        for rules in ["any:short,seed=1", "any:short@30%,any:delay=100us@10%,seed=2"] {
            let running = faulty(rules);
            let (mut client, file, log) = client_of(&running, way);
            for (n, length) in
                [1, 2, 100, 5000, 100_000, 300_000, 2_500_000].into_iter().enumerate()
            {
                let bytes = Random::new(n as u64).bytes(length);
                let mut done = 0;
                while done < length {
                    let count = client.write(file, done as u64, &bytes[done..]).unwrap();
                    assert!(count > 0, "{way:?}, {rules}, write {length} at {done}");
                    done += count;
                }
                let (mut seen, mut done) = (vec![0; length], 0);
                while done < length {
                    let count = client.read(file, done as u64, &mut seen[done..]).unwrap();
                    assert!(count > 0, "{way:?}, {rules}, read {length} at {done}");
                    done += count;
                }
                assert!(seen == bytes, "{way:?}, {rules}, {length} bytes");
                let before = std::fs::metadata(running.folder().join("log")).unwrap().len();
                let mut done = 0;
                while done < length {
                    let written = client.append(log, &bytes[done..]).unwrap();
                    done += written.bytes.0 as usize;
                    assert_eq!(written.end.0, before + done as u64);
                }
                let appended = std::fs::read(running.folder().join("log")).unwrap();
                assert!(appended[before as usize..] == bytes, "{way:?}, {rules}, append {length}");
            }
        }
    }
}

/// Runs `script` under `forebay run` with faults at the store; its output and its exit code.
fn under_faults(
    way: Through,
    rules: &str,
    folder: &Path,
    command: &[&str],
) -> (String, Option<i32>) {
    let mut run = forebay();
    run.args([
        "run",
        "--on-failure",
        "fail",
        "--scheduler-bypass",
        "never",
        "--store-faults",
        rules,
    ]);
    run.arg("--path").arg(folder);
    if way == Through::Tcp {
        run.arg("--tcp");
    }
    run.arg("--").args(command).current_dir(folder).env("LC_ALL", "C");
    let output = finish(&mut run);
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code())
}

const PROGRAM: &str = r"
import os
def say(what, call):
    try: print(what, call())
    except OSError as error: print(what, 'errno', error.errno)
fd = os.open('a', os.O_RDWR | os.O_CREAT, 0o644)
position = lambda: os.lseek(fd, 0, 1)
for n in range(4): say('write', lambda: os.write(fd, b'x' * 1000)); say('at', position)
os.lseek(fd, 0, 0)
for n in range(4): say('read', lambda: len(os.read(fd, 1000))); say('at', position)
say('fsync', lambda: os.fsync(fd)); say('fsync', lambda: os.fsync(fd)); say('fdatasync', lambda: os.fdatasync(fd))
say('truncate', lambda: os.ftruncate(fd, 10)); say('truncate', lambda: os.ftruncate(fd, 10)); say('size', lambda: os.fstat(fd).st_size)
log = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
for n in range(3): say('append', lambda: os.write(log, b'y' * 100))
say('log', lambda: os.fstat(log).st_size)
";

#[test]
fn a_program_sees_each_error_once_and_where_it_happened() {
    let rules = "write:ENOSPC@2,read:EIO@3,sync:EIO@1,truncate:EDQUOT@1,append:EFBIG@2";
    let expected = "write 1000\nat 1000\nwrite errno 28\nat 1000\nwrite 1000\nat 2000\nwrite 1000\nat 3000\n\
        read 1000\nat 1000\nread 1000\nat 2000\nread errno 5\nat 2000\nread 1000\nat 3000\n\
        fsync errno 5\nfsync None\nfdatasync None\ntruncate errno 122\ntruncate None\nsize 10\n\
        append 100\nappend errno 27\nappend 100\nlog 200\n";
    for way in Through::ALL {
        let folder = tempfile::tempdir().unwrap();
        let (text, code) = under_faults(way, rules, folder.path(), &["python3", "-c", PROGRAM]);
        assert!(text.starts_with(expected), "{way:?}: {text}");
        assert_eq!(code, Some(0));
    }
}

#[test]
fn programs_say_what_the_kernel_would_have_made_them_say() {
    for way in Through::ALL {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("from"), Random::new(1).bytes(3 << 20)).unwrap();
        let cases: [(&str, &[&str], &str, i32); 3] = [
            (
                "write:ENOSPC@3+",
                &["cp", "--reflink=never", "--sparse=never", "from", "to"],
                "No space left on device",
                1,
            ),
            (
                "sync:EIO",
                &["dd", "if=from", "of=to", "bs=64k", "conv=fsync", "status=none"],
                "Input/output error",
                1,
            ),
            (
                "read:EIO@2",
                &["dd", "if=from", "of=to", "bs=64k", "status=none"],
                "error reading 'from'",
                1,
            ),
        ];
        for (rules, command, message, expected) in cases {
            let (text, code) = under_faults(way, rules, folder.path(), command);
            assert!(text.contains(message), "{way:?}, {rules}: {text}");
            assert_eq!(code, Some(expected), "{way:?}, {rules}: {text}");
        }
        let whole = ["dd", "if=from", "of=to", "bs=256k", "iflag=fullblock", "status=none"];
        let (text, code) = under_faults(way, "any:short@40%,seed=3", folder.path(), &whole);
        assert_eq!(code, Some(0), "{way:?}: {text}");
        let [from, to] =
            ["from", "to"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
        assert!(from == to, "{way:?}: short reads and writes lose nothing");
    }
}
