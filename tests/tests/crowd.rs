//! A thousand connections with 64 MiB each against a pool of 128 MiB: all finish, and the
//! forwarder's memory stays what it was told.
//!
//! Every byte travels: 62.5 GiB a direction. All write the same 64 MiB of a file in memory, each
//! block with the same content, so that neither a disk nor 62.5 GiB of it are needed; the guard is
//! off, or they would form a queue and never be there together.

use std::io::IoSlice;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use forebay_client::{Connection, Limits, Offset, Place, Source, Who};
use forebay_tests::{Random, Raw, Served, Through, range};
use forebay_wire::{Read, Request};
use rustix::fs::OFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CONNECTIONS: usize = 1000;
const REQUEST_BYTES: usize = 64 << 20;
const POOL_BYTES: u64 = 128 << 20;

/// What the forwarder may need besides the pool: the file in memory, its program, and for each
/// connection what the protocol needs.
const REST_BYTES: u64 = REQUEST_BYTES as u64 + (64 << 20) + CONNECTIONS as u64 * (64 << 10);

#[test]
fn a_thousand_large_requests_pass_through_a_small_pool() {
    make_room_for_descriptors();
    let served = Served::start(&[
        "--store-kind=memory",
        "--pool-bytes=128MiB",
        "--scheduler-guard=none",
        // A busy machine is no reason to drop anybody.
        "--session-idle-timeout=600s",
    ]);
    let content = Random::new(1).bytes(REQUEST_BYTES);
    let ready = Barrier::new(CONNECTIONS + 1);
    let start = thread::scope(|scope| {
        for n in 0..CONNECTIONS {
            let (served, content, ready) = (&served, &content, &ready);
            let body = move || one_of_many(served, n, content, ready);
            thread::Builder::new()
                .stack_size(512 << 10)
                .spawn_scoped(scope, body)
                .expect("a thread");
        }
        ready.wait();
        Instant::now()
    });
    let resident = served.resident_bytes_max();
    let status = served.status();
    println!(
        "{} MiB in {:?}, {} MiB resident, {} MiB of the pool at most",
        (status.calls.read_bytes + status.calls.written_bytes) >> 20,
        start.elapsed(),
        resident >> 20,
        status.pool.peak_bytes >> 20,
    );
    assert!(resident <= POOL_BYTES + REST_BYTES, "{} MiB resident", resident >> 20);
    assert!(status.pool.peak_bytes <= POOL_BYTES);
    let moved = CONNECTIONS as u64 * REQUEST_BYTES as u64;
    assert_eq!((status.calls.written_bytes, status.calls.read_bytes), (moved, moved));
}

/// Writes all of it in one request, and reads all of it in another.
fn one_of_many(served: &Served, n: usize, content: &[u8], ready: &Barrier) {
    let way = Through::ALL[n % 2];
    {
        let limits =
            Limits { connect: Duration::from_secs(60), progress: Duration::from_secs(600) };
        let connection = Connection::connect(served.endpoint(way), &Who::default(), limits);
        let mut connection = connection.expect("there is room");
        let opened = connection.open(None, b"shared", OFlags::RDWR).expect("a file in memory");
        ready.wait();
        let slices = [IoSlice::new(content)];
        let written =
            connection.write(opened.handle, Place::At(Offset(0)), &Source::from(&slices[..]));
        assert_eq!(written.expect("it finishes").bytes.0, content.len() as u64);
    }
    // Reading by hand, so that 1,000 answers do not need 62.5 GiB here.
    let mut raw = Raw::greeted(served.endpoint(way));
    let handle = raw.open_path("shared");
    raw.ask(&Request::Read(Read { handle, range: range(0, content.len()) }));
    assert_eq!(raw.compared(content), content.len() as u64, "it finishes");
}

fn make_room_for_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = CONNECTIONS as u64 * 2 + 200;
    assert!(
        limit.maximum.is_none_or(|most| most >= wanted),
        "the test needs {wanted} descriptors: ulimit -Hn"
    );
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
            .expect("it is below the most");
    }
}
