//! `kill -9` of either side. A client that dies leaves nothing behind and disturbs nobody; a
//! forwarder that dies, or stops answering, is noticed within the time-out by everybody.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_client::{Bytes, Connection, Error, Limits, Loss, Who};
use forebay_tests::{LIMIT, Random, Running, Served, Through, built, kill, wait_until};
use rustix::process::Signal;

const KILLS: u64 = 100;

fn writer(running: &Running, way: Through, name: &str, seed: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_writer"))
        .arg(running.endpoint(way).to_string())
        .arg(running.folder())
        .args([name, &seed.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

#[test]
fn clients_killed_in_mid_write_leave_nothing_behind() {
    let running = Running::start(|settings| settings.pool.bytes = Bytes::mib(16));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (running, over) = (&running, &over);
        let others = Through::ALL.map(|way| scope.spawn(move || undisturbed(running, way, over)));
        let mut watcher = running.connect(Through::Unix);
        let mut random = Random::new(1);
        for n in 0..KILLS {
            let way = Through::ALL[n as usize % 2];
            let before = watcher.status();
            // Half of them write where others do: what they held up must go on.
            let name = if n % 4 < 2 { "shared" } else { "own" };
            let mut child = writer(running, way, name, n);
            let wanted = before.clients.connections_accepted + 1;
            let calls = before.calls.writes + 2 + random.below(30);
            wait_until("it is in the middle of its writes", || {
                let now = watcher.status();
                let is_there =
                    now.clients.connections_accepted >= wanted && now.clients.open_files > 2;
                is_there && now.calls.writes > calls
            });
            kill(&child, Signal::KILL);
            child.wait().expect("it was killed");
            wait_until("it is gone at the forwarder too", || {
                watcher.status().clients.connections == 3
            });
            wait_until("what it held is back", || {
                let status = watcher.status();
                status.pool.used_bytes <= 2 * OTHERS_BYTES_MAX && status.clients.open_files == 4
            });
        }
        over.store(true, Ordering::Relaxed);
        for other in others {
            assert!(other.join().expect("it saw nothing but its own bytes") > 0);
        }
    });
    running.wait_until_quiet(0);
    let status = running.stop();
    assert_eq!((status.clients.violations, status.clients.stalled), (0, 0));
}

/// The longest request of those who are not killed, rounded up to what it takes of the pool.
const OTHERS_BYTES_MAX: u64 = 128 << 10;

/// Writes and reads until the others are over, checks every byte, and says how often.
fn undisturbed(running: &Running, way: Through, over: &AtomicBool) -> u64 {
    let mut client = running.connect(way);
    let (_, handle) = client.open(&format!("{way:?}"));
    // Just opened, for writing without the content mattering: the killed ones write there too.
    let (_, shared) = client.open("shared");
    let mut random = Random::new(way as u64);
    let mut rounds = 0;
    while !over.load(Ordering::Relaxed) {
        let bytes = random.bytes(1 + random.clone().below(100_000) as usize);
        let at = random.below(1 << 20);
        let start = Instant::now();
        assert_eq!(client.write(handle, at, &bytes), Ok(bytes.len()));
        let mut seen = vec![0; bytes.len()];
        assert_eq!(client.read(handle, at, &mut seen), Ok(seen.len()));
        assert!(seen == bytes, "{way:?}, round {rounds}");
        assert_eq!(client.write(shared, at, &bytes[..1]), Ok(1));
        assert!(start.elapsed() < Duration::from_secs(20), "held up for {:?}", start.elapsed());
        rounds += 1;
    }
    rounds
}

/// Clients in threads, writing until an error; what error, and how long after `since` was set.
fn errors_of_clients(
    served: &Served,
    way: Through,
    limit: Duration,
    end: impl Fn(),
) -> Vec<(Error, Duration)> {
    let limits = Limits { connect: limit, progress: limit };
    let going = std::sync::Barrier::new(9);
    thread::scope(|scope| {
        let (going, limits) = (&going, &limits);
        let threads: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || {
                    let mut client = served.connect(way);
                    client.connection.limit_progress(limits.progress);
                    let (_, handle) = client.open(&format!("{n}"));
                    let bytes = vec![n; if n % 2 == 0 { 8 << 20 } else { 5000 }];
                    client.write(handle, 0, &bytes).expect("it is still there");
                    going.wait();
                    loop {
                        let start = Instant::now();
                        if let Err(error) = client.write(handle, 0, &bytes) {
                            return (error, start.elapsed());
                        }
                    }
                })
            })
            .collect();
        going.wait();
        end();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn a_killed_forwarder_is_noticed_at_once() {
    for way in Through::ALL {
        let served = Served::start(&[]);
        let limit = Duration::from_secs(30);
        let errors = errors_of_clients(&served, way, limit, || served.signal(Signal::KILL));
        for (error, took) in errors {
            assert!(error.is_gone(), "{way:?}: {error:?}");
            assert!(took < Duration::from_secs(10), "{way:?}: {took:?}");
        }
        let again = Connection::connect(served.endpoint(way), &Who::default(), Limits::default());
        assert!(matches!(again, Err(Error::Connect(_) | Error::Lost(_))), "{again:?}");
    }
}

#[test]
fn a_forwarder_that_stops_answering_is_noticed_after_the_time_out() {
    for way in Through::ALL {
        let served = Served::start(&[]);
        let limit = Duration::from_millis(500);
        let errors = errors_of_clients(&served, way, limit, || served.signal(Signal::STOP));
        for (error, took) in errors {
            assert_eq!(error, Error::Lost(Loss::TimedOut), "{way:?}");
            assert!(took >= limit && took < Duration::from_secs(10), "{way:?}: {took:?}");
        }
    }
}

/// Writes 4,000 blocks with and without the shared offset, reads them back and syncs; one line when
/// it is under way, and one for each of these.
const PROGRAM: &str = r"
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
block = lambda n: bytes([n % 251]) * 3000
try:
    for n in range(4000):
        if n % 2: assert os.pwrite(fd, block(n), n * 3000) == 3000
        else: os.lseek(fd, n * 3000, 0); assert os.write(fd, block(n)) == 3000
        if n == 200: print('going', flush=True); sys.stdin.read(1)
    for n in range(4000): assert os.pread(fd, 3000, n * 3000) == block(n), n
    print('all there', flush=True)
    os.fsync(fd)
    print('done', flush=True)
except OSError as error:
    print('errno', error.errno, flush=True)
";

/// The program, beneath the preload library, and how it ends when `end` happens in its middle:
/// what it printed after that, what it said on standard error, and how long it took from there.
fn preloaded(
    served: &Served,
    way: Through,
    on_failure: &str,
    end: impl Fn(),
) -> (String, String, Duration, std::path::PathBuf) {
    let folder = served.folder();
    let path = folder.join("out");
    let mut child = Command::new("python3")
        .args(["-c", PROGRAM])
        .arg(&path)
        .env("LD_PRELOAD", built("libforebay_preload.so"))
        .env("FOREBAY_ENDPOINT", served.endpoint(way).to_string())
        .env("FOREBAY_PATHS", &folder)
        .env("FOREBAY_EXPORT", &folder)
        .env("FOREBAY_ON_FAILURE", on_failure)
        .env("FOREBAY_TIMEOUT_MS", "1000")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it speaks");
    assert_eq!(line.trim(), "going");
    assert!(served_writes(served) >= 200, "it goes through the forwarder");
    end();
    let start = Instant::now();
    drop(child.stdin.take());
    let (mut last, mut errors) = (String::new(), String::new());
    let watchdog = watch(&child);
    output.read_to_string(&mut last).expect("it speaks");
    child.stderr.take().expect("it is piped").read_to_string(&mut errors).expect("it speaks");
    let took = start.elapsed();
    child.wait().expect("it ends");
    drop(watchdog);
    (last.trim().to_owned(), errors, took, path)
}

fn served_writes(served: &Served) -> u64 {
    served.status().calls.writes
}

/// Kills a child that hangs, so that the test fails and does not hang with it.
fn watch(child: &Child) -> std::sync::mpsc::Sender<()> {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let pid = i32::try_from(child.id()).expect("a pid");
    thread::spawn(move || {
        if receiver.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid).expect("a pid"),
                Signal::KILL,
            );
        }
    });
    sender
}

fn is_whole(path: &Path) -> bool {
    let file = File::open(path).expect("the program made it");
    (0..4000_u32).all(|n| {
        let mut seen = vec![0; 3000];
        file.read_exact_at(&mut seen, u64::from(n) * 3000).is_ok()
            && seen.iter().all(|byte| u32::from(*byte) == n % 251)
    })
}

#[test]
fn programs_go_direct_when_the_forwarder_is_killed() {
    for way in Through::ALL {
        let served = Served::start(&[]);
        let (last, said, took, path) =
            preloaded(&served, way, "direct", || served.signal(Signal::KILL));
        // Over TCP what was written may have been in another node's memory: then a sync must not succeed.
        let synced = if way == Through::Unix { "done" } else { "errno 5" };
        assert_eq!(last, format!("all there\n{synced}"), "{way:?}: {said}");
        assert!(is_whole(&path), "{way:?}");
        assert_eq!(said.matches("going direct").count(), 1, "{way:?}: loudly, once: {said}");
        assert!(took < Duration::from_secs(20), "{way:?}: {took:?}");
    }
}

#[test]
fn programs_fail_when_the_forwarder_is_killed_and_that_is_wanted() {
    for way in Through::ALL {
        let served = Served::start(&[]);
        let (last, said, took, _) = preloaded(&served, way, "fail", || served.signal(Signal::KILL));
        assert_eq!(last, "errno 5", "{way:?}: {said}");
        assert_eq!(said.matches("calls fail with EIO").count(), 1, "{way:?}: {said}");
        assert!(took < Duration::from_secs(10), "{way:?}: {took:?}");
    }
}

#[test]
fn programs_do_not_hang_when_the_forwarder_does() {
    for way in Through::ALL {
        for on_failure in ["direct", "fail"] {
            let served = Served::start(&[]);
            let (last, said, took, _) =
                preloaded(&served, way, on_failure, || served.signal(Signal::STOP));
            // The write that got no answer may still happen: whoever goes direct would be overwritten by it.
            assert_eq!(last, "errno 5", "{way:?}, {on_failure}: {said}");
            assert!(took < Duration::from_secs(10), "{way:?}, {on_failure}: {took:?}");
        }
    }
}
