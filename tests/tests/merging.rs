//! Requests of different clients for one file become one call at the store, and each client gets
//! its own answer.

use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::thread;

use forebay_client::{Bytes, Offset, Place, Source, Transfers};
use forebay_forwarder::Status;
use forebay_forwarder::settings::{Bypass, Settings, StoreKind};
use forebay_tests::{Random, Running, Through};

const CLIENTS: u64 = 32;
const BLOCK: usize = 4096;
const ROUNDS: u64 = 8;

/// 32 clients, each with a connection and an open of its own, write adjacent blocks of one file:
/// client `n` writes block `n` of each round. What the forwarder says afterwards.
fn adjacent_writes(way: Through, change: impl Fn(&mut Settings)) -> Status {
    let running = Running::start(change);
    let start = Barrier::new(CLIENTS as usize);
    thread::scope(|scope| {
        for n in 0..CLIENTS {
            let (running, start) = (&running, &start);
            scope.spawn(move || {
                let mut client = running.connect(way);
                let (_, handle) = client.open("shared");
                for round in 0..ROUNDS {
                    start.wait();
                    let at = (round * CLIENTS + n) * BLOCK as u64;
                    assert_eq!(
                        client.write(handle, at, &block(round * CLIENTS + n)).unwrap(),
                        BLOCK
                    );
                }
            });
        }
    });
    let file = std::fs::File::open(running.folder().join("shared")).unwrap();
    for n in 0..CLIENTS * ROUNDS {
        let mut seen = vec![0; BLOCK];
        file.read_exact_at(&mut seen, n * BLOCK as u64).unwrap();
        assert!(seen == block(n), "block {n}");
    }
    running.wait_until_quiet(0);
    running.stop()
}

fn block(n: u64) -> Vec<u8> {
    Random::new(n).bytes(BLOCK)
}

/// A store that takes its time, so that a queue builds up behind its first request.
fn slow_store(settings: &mut Settings) {
    settings.store.depth = 1;
    settings.store.faults = Some("write:delay=20ms".into());
}

/// A modelled disk, one request at a time.
fn disk(settings: &mut Settings) {
    settings.store.kind = StoreKind::Modelled("hdd-57".into());
    settings.store.depth = 1;
}

#[test]
fn adjacent_writes_of_32_clients_take_an_eighth_of_the_calls() {
    for policy in ["to-agg", "sjf", "mlf", "aioli", "hbrr", "hbrr-bytes"] {
        for way in Through::ALL {
            let status = adjacent_writes(way, |settings| {
                slow_store(settings);
                settings.scheduler.policy = policy.into();
            });
            let (requests, calls) = (status.calls.writes, status.calls.store_calls);
            println!("{policy}, {way:?}: {requests} requests, {calls} calls at the store");
            assert_eq!(requests, CLIENTS * ROUNDS);
            assert!(
                calls * 8 <= requests,
                "{policy}, {way:?}: {calls} calls for {requests} requests"
            );
        }
    }
}

#[test]
fn time_order_merges_nothing() {
    let status = adjacent_writes(Through::Unix, |settings| {
        disk(settings);
        settings.scheduler.policy = "to".into();
    });
    assert_eq!(status.calls.store_calls, CLIENTS * ROUNDS);
}

#[test]
fn a_disk_is_slow_enough_for_merging() {
    let status = adjacent_writes(Through::Unix, disk);
    let (requests, calls) = (status.calls.writes, status.calls.store_calls);
    assert!(calls * 2 <= requests, "{calls} calls for {requests} requests");
}

#[test]
fn a_merged_call_that_fails_fails_only_whom_it_should() {
    // The second call is the first merged one; it fails as a whole, its members are tried alone,
    // and the third of those fails for good.
    let running = Running::start(|settings| {
        settings.store.depth = 1;
        settings.scheduler.bypass = Bypass::Never;
        settings.store.faults = Some("write:delay=300ms@1,write:EIO@2,write:EIO@5".into());
    });
    let mut first = running.connect(Through::Unix);
    let (_, handle) = first.open("shared");
    let slices = [std::io::IoSlice::new(&[7; BLOCK])];
    let mut transfers = One(&slices);
    // Holds the store while the others queue up.
    first
        .connection
        .start_write(handle, Place::At(Offset(1 << 20)), Bytes(BLOCK as u64), &mut transfers)
        .unwrap();
    thread::scope(|scope| {
        let others: Vec<_> = (0..8)
            .map(|n| {
                let mut client = running.connect(Through::Unix);
                let (_, handle) = client.open("shared");
                scope.spawn(move || client.write(handle, n * BLOCK as u64, &block(n)))
            })
            .collect();
        first.connection.next(&mut transfers).unwrap().result.unwrap();
        let results: Vec<_> = others.into_iter().map(|thread| thread.join().unwrap()).collect();
        let failed = results.iter().filter(|result| result.is_err()).count();
        assert_eq!(failed, 1, "{results:?}");
        let file = std::fs::File::open(running.folder().join("shared")).unwrap();
        for (n, result) in results.iter().enumerate().filter(|(_, result)| result.is_ok()) {
            assert_eq!(*result, Ok(BLOCK));
            let mut seen = vec![0; BLOCK];
            file.read_exact_at(&mut seen, (n * BLOCK) as u64).unwrap();
            assert!(seen == block(n as u64), "block {n}");
        }
    });
}

/// The memory of the only request in progress.
struct One<'a>(&'a [std::io::IoSlice<'a>]);

impl Transfers for One<'_> {
    fn memory(&mut self, _: forebay_client::Ticket) -> forebay_client::Memory<'_> {
        forebay_client::Memory::From(Source::from(self.0))
    }
}

#[test]
fn merged_reads_give_each_client_its_own_bytes_up_to_the_end_of_the_file() {
    for faults in [None, Some("read:short@30%,seed=3")] {
        let running = Running::start(|settings| {
            disk(settings);
            settings.store.faults = faults.map(Into::into);
        });
        let length = 20 * BLOCK - 1000;
        let content = Random::new(9).bytes(length);
        std::fs::write(running.folder().join("shared"), &content).unwrap();
        let start = Barrier::new(CLIENTS as usize);
        thread::scope(|scope| {
            for n in 0..CLIENTS as usize {
                let (running, start, content) = (&running, &start, &content);
                scope.spawn(move || {
                    let mut client = running.connect(Through::Unix);
                    let (_, handle) = client.open("shared");
                    for round in 0..10 {
                        start.wait();
                        let at = (n + round) % CLIENTS as usize * BLOCK;
                        let mut seen = vec![0; BLOCK];
                        let mut done = 0;
                        // Programs read on after a short read, until nothing comes.
                        while done < BLOCK {
                            let count =
                                client.read(handle, (at + done) as u64, &mut seen[done..]).unwrap();
                            if count == 0 {
                                break;
                            }
                            done += count;
                        }
                        let expected = &content[at.min(length)..(at + BLOCK).min(length)];
                        assert!(
                            &seen[..done] == expected,
                            "client {n}, round {round}: {done} bytes"
                        );
                    }
                });
            }
        });
        let calls = running.status().calls;
        assert!(calls.store_calls < calls.reads, "{calls:?}");
    }
}
