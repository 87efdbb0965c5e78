//! A forwarder in this process, real sockets, real clients: every call does to the file what it
//! says, over descriptors and over paths, whatever its size and whoever else is there.

use std::os::unix::fs::FileExt;
use std::thread;

use forebay_client::{Bytes, Error};
use forebay_forwarder::settings::definition::POLICIES;
use forebay_forwarder::settings::{Bypass, Settings, StoreEngine, StoreKind};
use forebay_tests::{Client, Random, Running, Through, range, seeds};
use forebay_wire::{Bye, Reasons};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Runs `test` over both kinds of connection.
fn both_ways(change: impl Fn(&mut Settings), test: impl Fn(&Running, Through)) {
    for way in Through::ALL {
        let running = Running::start(&change);
        test(&running, way);
        running.wait_until_quiet(0);
        running.stop();
    }
}

#[test]
fn every_call_does_what_it_says() {
    both_ways(
        |_| {},
        |running, way| {
            let mut client = running.connect(way);
            let (file, handle) = client.open("a");
            let content = Random::new(1).bytes(300_000);
            assert_eq!(client.write(handle, 0, &content).unwrap(), content.len());
            let mut seen = vec![0; content.len()];
            file.read_exact_at(&mut seen, 0).unwrap();
            assert!(seen == content, "{way:?}: what was written is in the file");

            let mut part = vec![0; 70_001];
            assert_eq!(client.read(handle, 99_999, &mut part).unwrap(), part.len());
            assert!(part == content[99_999..][..70_001]);
            assert_eq!(
                client.read(handle, 299_990, &mut part).unwrap(),
                10,
                "a short read at the end"
            );
            assert_eq!(client.read(handle, 300_000, &mut part).unwrap(), 0, "nothing at the end");
            assert_eq!(client.read(handle, 9_000_000, &mut part).unwrap(), 0, "nothing behind it");

            assert_eq!(
                client.append(handle, b"x"),
                Err(Error::Errno(Errno::INVAL)),
                "not open for it"
            );
            let (_, appending) = client.open_to_append("a");
            let written = client.append(appending, b"and more").unwrap();
            assert_eq!((written.bytes.0, written.end.0), (8, 300_008));
            client.connection.sync(handle).unwrap();
            client.connection.data_sync(handle).unwrap();
            assert_eq!(client.connection.stat(handle).unwrap().size, Bytes(300_008));
            client.connection.truncate(handle, Bytes(1000)).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 1000);
            client.connection.allocate(handle, 0, range(0, 5000)).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 5000);
            client.connection.hint(handle, 0, range(0, 0)).unwrap();
            client.connection.close(handle).unwrap();
            let refused = client.read(handle, 0, &mut part).unwrap_err();
            assert!(format!("{refused}").contains("not open"), "{refused}");
        },
    );
}

#[test]
fn a_bye_is_answered_when_everything_is_closed() {
    both_ways(
        |_| {},
        |running, way| {
            let mut client = running.connect(way);
            let files: Vec<_> = (0..5).map(|n| client.open(&format!("{n}"))).collect();
            client.write(files[0].1, 0, b"abc").unwrap();
            assert_eq!(running.status().clients.open_files, 5);
            client
                .connection
                .bye(&Bye { forwarded: 1, native: 2, reasons: Reasons::from(&[][..]) })
                .unwrap();
            assert_eq!(running.status().clients.open_files, 0);
        },
    );
}

#[test]
fn errors_are_the_kernels() {
    both_ways(
        |_| {},
        |running, way| {
            let mut client = running.connect(way);
            std::fs::write(running.folder().join("a"), b"abc").unwrap();
            let file = std::fs::File::open(running.folder().join("a")).unwrap();
            let handle = client.attach(&file, "a", OFlags::RDONLY).unwrap();
            assert_eq!(client.write(handle, 0, b"x"), Err(Error::Errno(Errno::BADF)));
            assert_eq!(client.write(handle, 0, &vec![1; 3 << 20]), Err(Error::Errno(Errno::BADF)));
            assert_eq!(
                client.connection.truncate(handle, Bytes(1)),
                Err(Error::Errno(Errno::INVAL))
            );
            assert_eq!(std::fs::read(running.folder().join("a")).unwrap(), b"abc");
            if way == Through::Tcp {
                let mut open = |path: &[u8]| client.connection.open(None, path, OFlags::RDONLY);
                assert_eq!(open(b"absent"), Err(Error::Errno(Errno::NOENT)));
                assert_eq!(open(b"../socket"), Err(Error::Errno(Errno::XDEV)));
            }
        },
    );
}

#[test]
fn lists_move_their_ranges_in_the_order_given() {
    both_ways(
        |_| {},
        |running, way| {
            let mut client = running.connect(way);
            let (file, handle) = client.open("a");
            // Many small ranges, sent with the request; the same, too long for that; a few long ones.
            for (count, length) in
                [(3_usize, 10_usize), (300, 100), (4096, 16), (300, 3000), (5, 2_500_000)]
            {
                let mut random = Random::new(count as u64);
                let mut ranges: Vec<_> =
                    (0..count).map(|n| ((n * (length + 7)) as u64, length)).collect();
                for n in (1..count).rev() {
                    ranges.swap(n, random.below(n as u64 + 1) as usize);
                }
                let bytes = random.bytes(count * length);
                let what = format!("{way:?}, {count} ranges of {length}");
                assert_eq!(
                    client.write_list(handle, &ranges, &bytes).unwrap(),
                    bytes.len(),
                    "{what}"
                );
                let mut seen = vec![0; length];
                for ((at, _), expected) in ranges.iter().zip(bytes.chunks(length)) {
                    file.read_exact_at(&mut seen, *at).unwrap();
                    assert!(seen == expected, "{what}, at {at}");
                }
                let mut read = vec![0; bytes.len()];
                assert_eq!(
                    client.read_list(handle, &ranges, &mut read).unwrap(),
                    bytes.len(),
                    "{what}"
                );
                assert!(read == bytes, "{what}");
            }
        },
    );
}

#[test]
fn a_list_that_names_a_byte_twice_writes_it_twice_in_order() {
    both_ways(
        |_| {},
        |running, way| {
            let mut client = running.connect(way);
            let (file, handle) = client.open("a");
            let bytes: Vec<u8> = (0..200).flat_map(|n| [n; 10]).collect();
            let ranges: Vec<_> = (0..200).map(|n| (n % 7, 10)).collect();
            assert_eq!(client.write_list(handle, &ranges, &bytes).unwrap(), 2000);
            let mut model = vec![0; 16];
            for ((at, length), part) in ranges.iter().zip(bytes.chunks(10)) {
                model[*at as usize..][..*length].copy_from_slice(part);
            }
            let mut seen = vec![0; 16];
            file.read_exact_at(&mut seen, 0).unwrap();
            assert_eq!(seen, model, "{way:?}");
        },
    );
}

#[test]
fn a_request_larger_than_the_pool_completes() {
    both_ways(
        |settings| settings.pool.bytes = Bytes::mib(8),
        |running, way| {
            let mut client = running.connect(way);
            let (file, handle) = client.open("a");
            let bytes = Random::new(2).bytes(64 << 20);
            assert_eq!(client.write(handle, 4097, &bytes).unwrap(), bytes.len());
            let mut seen = vec![0; bytes.len()];
            file.read_exact_at(&mut seen, 4097).unwrap();
            assert!(seen == bytes, "{way:?}: written");
            seen.fill(0);
            assert_eq!(client.read(handle, 4097, &mut seen).unwrap(), bytes.len());
            assert!(seen == bytes, "{way:?}: read");
            let (_, appending) = client.open_to_append("a");
            let written = client.append(appending, &bytes[..20 << 20]).unwrap();
            assert_eq!((written.bytes.0, written.end.0), (20 << 20, 4097 + (84 << 20)), "{way:?}");
            file.read_exact_at(&mut seen[..20 << 20], 4097 + (64 << 20)).unwrap();
            assert!(seen[..20 << 20] == bytes[..20 << 20], "{way:?}: appended");
            assert!(running.status().pool.peak_bytes <= 8 << 20);
        },
    );
}

#[test]
fn many_large_requests_share_a_small_pool() {
    both_ways(
        |settings| settings.pool.bytes = Bytes::mib(4),
        |running, way| {
            thread::scope(|scope| {
                for n in 0..12 {
                    scope.spawn(move || {
                        let mut client = running.connect(way);
                        let (_, handle) = client.open("a");
                        let bytes = Random::new(n).bytes(5_000_000);
                        let at = n * 5_000_000;
                        assert_eq!(client.write(handle, at, &bytes).unwrap(), bytes.len());
                        let mut seen = vec![0; bytes.len()];
                        assert_eq!(client.read(handle, at, &mut seen).unwrap(), bytes.len());
                        assert!(seen == bytes, "{way:?}, client {n}");
                        for small in 0..50 {
                            let at = at + small * 70_000;
                            assert_eq!(client.write(handle, at, &bytes[..60_000]).unwrap(), 60_000);
                        }
                    });
                }
            });
        },
    );
}

#[test]
fn chunks_may_be_as_small_as_a_page() {
    both_ways(
        |settings| {
            settings.session.chunk_bytes_max = Bytes::kib(4);
            settings.session.eager_bytes_max = Bytes::kib(4);
        },
        |running, way| {
            let mut client = running.connect(way);
            let (_, handle) = client.open("a");
            let bytes = Random::new(3).bytes(300_000);
            for length in [1, 4096, 4097, 65_536, 65_537, 300_000] {
                assert_eq!(client.write(handle, 5, &bytes[..length]).unwrap(), length);
                let mut seen = vec![0; length];
                assert_eq!(client.read(handle, 5, &mut seen).unwrap(), length);
                assert!(seen == bytes[..length], "{way:?}, {length} bytes");
            }
        },
    );
}

#[test]
fn the_memory_store_keeps_what_it_is_given() {
    let running = Running::start(|settings| settings.store.kind = StoreKind::Memory);
    // Without files of its own a memory store opens by name only.
    let mut client = running.connect(Through::Tcp);
    let (_, handle) = client.open("a");
    let bytes = Random::new(4).bytes(10 << 20);
    assert_eq!(client.write(handle, 0, &bytes).unwrap(), bytes.len());
    let mut seen = vec![0; bytes.len()];
    assert_eq!(client.read(handle, 0, &mut seen).unwrap(), bytes.len());
    assert!(seen == bytes);
    assert_eq!(client.append(handle, b"x").unwrap().end.0, (10 << 20) + 1);
}

/// Clients with a region each, and a model of it; they check every byte that they read.
fn random_operations(running: &Running, way: Through, seed: u64, clients: u64, operations: u64) {
    const REGION: u64 = 3 << 20;
    println!("replay with FOREBAY_SEED={seed} cargo test -p forebay-tests --test forwarder");
    thread::scope(|scope| {
        for n in 0..clients {
            scope.spawn(move || {
                let mut client = running.connect(way);
                let mut random = Random::new(seed * 1000 + n);
                // Two clients a file: neighbours in one file merge, and must not mix.
                let (_, handle) = client.open(&format!("file-{}", n / 2));
                let base = n % 2 * REGION;
                let mut model = vec![0; REGION as usize];
                let written = client.write(handle, base, &model).unwrap();
                assert_eq!(written, model.len());
                for step in 0..operations {
                    random_operation(&mut client, handle, base, &mut model, &mut random, &|| {
                        format!("seed {seed}, client {n}, operation {step}, {way:?}")
                    });
                }
                let mut seen = vec![0; model.len()];
                assert_eq!(client.read(handle, base, &mut seen).unwrap(), seen.len());
                assert!(seen == model, "seed {seed}, client {n}: the file at the end");
                client.connection.close(handle).unwrap();
            });
        }
    });
}

fn random_operation(
    client: &mut Client,
    handle: forebay_client::Handle,
    base: u64,
    model: &mut [u8],
    random: &mut Random,
    what: &dyn Fn() -> String,
) {
    let region = model.len() as u64;
    let length = 1 + match random.below(8) {
        0..4 => random.below(9000),
        4..7 => random.below(100_000),
        _ => random.below(2_500_000),
    };
    let at = random.below(region - length);
    let (start, count) = (at as usize, length as usize);
    match random.below(10) {
        0..4 => {
            let mut seen = vec![0; count];
            assert_eq!(client.read(handle, base + at, &mut seen).unwrap(), count, "{}", what());
            assert!(seen == model[start..start + count], "{}: read", what());
        }
        4..8 => {
            let bytes = random.bytes(count);
            assert_eq!(client.write(handle, base + at, &bytes).unwrap(), count, "{}", what());
            model[start..start + count].copy_from_slice(&bytes);
        }
        8 => {
            let ranges: Vec<_> = (0..1 + random.below(200))
                .map(|_| (random.below(region - 3000), 1 + random.below(3000) as usize))
                .collect();
            let total = ranges.iter().map(|(_, length)| length).sum();
            let in_file: Vec<_> = ranges.iter().map(|(at, length)| (base + at, *length)).collect();
            let bytes = random.bytes(total);
            assert_eq!(client.write_list(handle, &in_file, &bytes).unwrap(), total, "{}", what());
            let mut rest = &bytes[..];
            for (at, length) in &ranges {
                let (now, later) = rest.split_at(*length);
                model[*at as usize..][..*length].copy_from_slice(now);
                rest = later;
            }
            let mut seen = vec![0; total];
            assert_eq!(client.read_list(handle, &in_file, &mut seen).unwrap(), total, "{}", what());
            let expected: Vec<u8> = ranges
                .iter()
                .flat_map(|(at, length)| model[*at as usize..][..*length].to_vec())
                .collect();
            assert!(seen == expected, "{}: list", what());
        }
        _ => client.connection.sync(handle).unwrap(),
    }
}

#[test]
fn random_operations_agree_with_a_model() {
    for seed in seeds(2) {
        both_ways(|_| {}, |running, way| random_operations(running, way, seed, 6, 80));
    }
}

#[test]
fn random_operations_agree_under_every_policy_and_in_little_memory() {
    for seed in seeds(1) {
        for policy in POLICIES {
            let running = Running::start(|settings| {
                settings.scheduler.policy = (*policy).into();
                settings.scheduler.bypass = Bypass::Never;
                settings.store.depth = 1 + (seed % 4) as u32;
                settings.pool.bytes = Bytes::mib(4);
            });
            random_operations(&running, Through::ALL[seed as usize % 2], seed, 6, 40);
            running.wait_until_quiet(0);
        }
    }
}

#[test]
fn random_operations_agree_on_a_modelled_disk() {
    let running = Running::start(|settings| {
        settings.store.kind = StoreKind::Modelled("hdd-57".into());
        settings.store.time_scale = 0.1;
    });
    random_operations(&running, Through::Unix, 3, 4, 25);
    running.wait_until_quiet(0);
}

#[test]
fn random_operations_agree_with_threads_for_a_store() {
    let running = Running::start(|settings| settings.store.engine = StoreEngine::Threads);
    random_operations(&running, Through::Tcp, 4, 4, 60);
    running.wait_until_quiet(0);
}

#[test]
fn random_operations_agree_when_the_store_comes_up_short() {
    let running = Running::start(|settings| {
        settings.store.faults = Some("seed=5,any:delay=200us@5%,write:short@10%".into());
        settings.scheduler.bypass = Bypass::Never;
    });
    thread::scope(|scope| {
        for n in 0..6 {
            let running = &running;
            scope.spawn(move || {
                let mut client = running.connect(Through::Unix);
                let (file, handle) = client.open("a");
                let mut random = Random::new(n);
                for step in 0..100 {
                    let at = n * 1_000_000 + step * 10_000;
                    let bytes = random.bytes(1 + random.clone().below(9_000) as usize);
                    // What is short is tried again, as every program does.
                    let mut done = 0;
                    while done < bytes.len() {
                        let count = client.write(handle, at + done as u64, &bytes[done..]).unwrap();
                        assert!(count > 0);
                        done += count;
                    }
                    let mut seen = vec![0; bytes.len()];
                    file.read_exact_at(&mut seen, at).unwrap();
                    assert!(seen == bytes, "client {n}, step {step}");
                }
            });
        }
    });
}

/// Writers of whole blocks to the same place, and readers: nobody may see half of one and half of
/// another, whatever way the pieces went.
#[test]
fn overlapping_writes_never_mix() {
    both_ways(
        |settings| {
            settings.scheduler.bypass = Bypass::Never;
            settings.pool.bytes = Bytes::mib(8);
        },
        |running, way| {
            const LENGTH: usize = 2_300_000;
            let mut client = running.connect(way);
            let (_, handle) = client.open("a");
            client.write(handle, 0, &vec![0; LENGTH]).unwrap();
            thread::scope(|scope| {
                for n in 1..=4_u8 {
                    scope.spawn(move || {
                        let mut client = running.connect(way);
                        let (_, handle) = client.open("a");
                        for round in 0..6 {
                            let length = if round % 2 == 0 { LENGTH } else { 50_000 };
                            let value = n * 10 + round;
                            assert_eq!(
                                client.write(handle, 0, &vec![value; length]).unwrap(),
                                length
                            );
                            let mut seen = vec![0; 50_000];
                            assert_eq!(client.read(handle, 0, &mut seen).unwrap(), seen.len());
                            assert!(
                                seen.iter().all(|byte| *byte == seen[0]),
                                "{way:?}: a mixed block"
                            );
                        }
                    });
                }
            });
            let mut tail = vec![0; LENGTH - 50_000];
            client.read(handle, 50_000, &mut tail).unwrap();
            assert!(tail.iter().all(|byte| *byte == tail[0]), "{way:?}: a mixed tail");
        },
    );
}

#[test]
fn appends_of_many_clients_lose_nothing_and_do_not_mix() {
    both_ways(
        |_| {},
        |running, way| {
            thread::scope(|scope| {
                for n in 0..8_u8 {
                    scope.spawn(move || {
                        let mut client = running.connect(way);
                        let (file, handle) = client.open_to_append("log");
                        for round in 0..60 {
                            let record =
                                vec![
                                    n;
                                    if round % 20 == 0 { 2_000_000 } else { 100 + usize::from(n) }
                                ];
                            let written = client.append(handle, &record).unwrap();
                            assert_eq!(written.bytes.0, record.len() as u64);
                            let mut seen = vec![255; record.len()];
                            file.read_exact_at(&mut seen, written.end.0 - written.bytes.0).unwrap();
                            assert!(seen == record, "{way:?}: a record is where the answer says");
                        }
                    });
                }
            });
            let expected: u64 = (0..8).map(|n| 57 * (100 + n) + 3 * 2_000_000).sum();
            assert_eq!(std::fs::metadata(running.folder().join("log")).unwrap().len(), expected);
        },
    );
}
