//! Calls on open files: bytes, ends, errors, appends.

use std::fs::File;
use std::io::{Read, Seek, Write};

use crate::on_both_engines;
use crate::rig::{Rig, contents, pattern, say_not_tested};
use forebay_engine::store::{Io, Operation, Store};
use forebay_units::{Bytes, Offset, Timestamp};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

on_both_engines![
    what_is_written_is_read_by_everybody,
    a_read_ends_at_the_end_of_the_file,
    more_buffers_than_one_system_call_takes,
    random_calls_agree_with_a_model,
    many_calls_at_once_each_get_their_own_bytes,
    a_call_without_bytes_moves_none,
    an_append_goes_to_the_end_and_moves_the_shared_position,
    an_offset_write_never_appends,
    append_switched_on_behind_our_back_is_noticed,
    nobody_uses_anothers_rights,
    direct_calls_work_or_fail_as_the_kernel_says,
    a_full_file_system_gives_the_part_that_fitted_and_then_enospc,
    errors_come_through_exactly,
    a_device_error_is_no_end_of_file,
    metadata_calls_do_what_they_say,
    dropping_a_busy_store_gives_every_buffer_back,
    cached_bytes_are_read_at_once,
    bytes_on_the_device_are_not_waited_for,
    many_readers_of_a_file_on_the_device_are_read_ahead_for,
    calls_are_counted,
    refused_calls_are_announced,
];

const RDWR: OFlags = OFlags::RDWR;

fn what_is_written_is_read_by_everybody(rig: &mut Rig) {
    let data = pattern(300_007, 1);
    let file = rig.open("f", RDWR);
    assert_eq!(rig.write(&[file], Operation::Write(Offset(11)), &data), Ok(Bytes(300_007)));
    assert_eq!(rig.read(file, 11, 300_007), Ok(data.clone()));
    let seen = std::fs::read(rig.path("f")).unwrap();
    assert_eq!(seen[..11], [0; 11]);
    assert!(seen[11..] == data);
}

fn a_read_ends_at_the_end_of_the_file(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    let data = pattern(100_000, 2);
    rig.write(&[file], Operation::Write(Offset(0)), &data).unwrap();
    assert_eq!(rig.read(file, 70_001, 100_000), Ok(data[70_001..].to_vec()));
    assert_eq!(rig.read(file, 100_000, 5), Ok(vec![]));
    assert_eq!(rig.read(file, 1 << 40, 5), Ok(vec![]));
}

fn more_buffers_than_one_system_call_takes(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    let data = pattern(2_500 * 3_001, 3);
    let buffers = rig.filled(&data, 3_001);
    let written = rig.run_io(&[file], Operation::Write(Offset(5)), buffers);
    assert_eq!((written.buffers.len(), written.outcome), (2_500, Ok(Bytes(data.len() as u64))));
    drop(written);
    let buffers = rig.buffers(std::iter::repeat_n(3_100, 2_500));
    let read = rig.run_io(&[file], Operation::Read(Offset(5)), buffers);
    assert!(contents(&read, read.outcome.unwrap()) == data);
}

fn random_calls_agree_with_a_model(rig: &mut Rig) {
    let (plain, append) = (rig.open("f", RDWR), rig.open("f", RDWR | OFlags::APPEND));
    let mut model: Vec<u8> = Vec::new();
    let mut state = 42u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..300 {
        let (offset, length) = (random(200_000) as usize, random(90_000) as usize);
        match random(8) {
            0..3 => {
                let data = pattern(length, round);
                let outcome =
                    rig.write(&[append, plain], Operation::Write(Offset(offset as u64)), &data);
                assert_eq!(outcome, Ok(Bytes(length as u64)));
                if length > 0 {
                    model.resize(model.len().max(offset + length), 0);
                    model[offset..offset + length].copy_from_slice(&data);
                }
            }
            3 => {
                let data = pattern(length, round);
                let buffers = rig.filled(&data, 7_000);
                let io = rig.run_io(&[append], Operation::Append, buffers);
                assert_eq!(io.outcome, Ok(Bytes(length as u64)));
                model.extend(&data);
                assert!(length == 0 || io.end == Offset(model.len() as u64));
            }
            4 => {
                rig.run(plain, Operation::Truncate(Bytes(offset as u64))).unwrap();
                model.resize(offset, 0);
            }
            _ => {
                let end = model.len().min(offset + length);
                assert!(
                    rig.read(plain, offset as u64, length).unwrap() == model[offset.min(end)..end],
                    "round {round}"
                );
            }
        }
    }
    assert!(std::fs::read(rig.path("f")).unwrap() == model);
}

fn many_calls_at_once_each_get_their_own_bytes(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    let data = pattern(200 * 8_192, 4);
    for (part, chunk) in data.chunks(8_192).enumerate() {
        let buffers = rig.filled(chunk, 4_096);
        rig.start(part as u64, &[file], Operation::Write(Offset(part as u64 * 8_192)), buffers);
    }
    assert!(rig.wait(200).iter().all(|io| io.outcome == Ok(Bytes(8_192))));
    for part in 0..200u64 {
        let buffers = rig.buffers([8_192]);
        rig.start(part, &[file], Operation::Read(Offset(part * 8_192)), buffers);
    }
    let mut finished = rig.wait(200);
    finished.sort_by_key(|io| io.token);
    let seen: Vec<u8> = finished.iter().flat_map(|io| contents(io, io.outcome.unwrap())).collect();
    assert!(seen == data);
}

fn a_call_without_bytes_moves_none(rig: &mut Rig) {
    let (file, append) = (rig.open("f", RDWR), rig.open("f", RDWR | OFlags::APPEND));
    assert_eq!(rig.run(file, Operation::Read(Offset(7))), Ok(Bytes(0)));
    assert_eq!(rig.run(file, Operation::Write(Offset(7))), Ok(Bytes(0)));
    assert_eq!(rig.run(append, Operation::Append), Ok(Bytes(0)));
    assert_eq!(rig.store.attributes(file).unwrap().size, Bytes(0));
}

fn an_append_goes_to_the_end_and_moves_the_shared_position(rig: &mut Rig) {
    let mut client = rig.client_open("f", RDWR | OFlags::APPEND).unwrap();
    let file = rig.open_descriptor(client.try_clone().unwrap()).unwrap().file;
    client.write_all(b"mine.").unwrap();
    let other = rig.client_open("f", OFlags::WRONLY | OFlags::APPEND).unwrap();
    (&other).write_all(b"other.").unwrap();
    let buffers = rig.filled(b"forwarded.", 3);
    let io = rig.run_io(&[file], Operation::Append, buffers);
    assert_eq!((io.outcome, io.end), (Ok(Bytes(10)), Offset(21)));
    assert_eq!(client.stream_position().unwrap(), 21, "one open file description, one position");
    assert_eq!(std::fs::read(rig.path("f")).unwrap(), b"mine.other.forwarded.");
}

fn an_offset_write_never_appends(rig: &mut Rig) {
    let (plain, append) = (rig.open("f", RDWR), rig.open("f", RDWR | OFlags::APPEND));
    rig.write(&[plain], Operation::Write(Offset(0)), b"0123456789").unwrap();
    assert_eq!(rig.write(&[append, plain], Operation::Write(Offset(2)), b"ab"), Ok(Bytes(2)));
    assert_eq!(rig.write(&[append], Operation::Write(Offset(2)), b"xx"), Err(Errno::INVAL));
    assert_eq!(rig.write(&[plain], Operation::Append, b"xx"), Err(Errno::INVAL));
    assert_eq!(std::fs::read(rig.path("f")).unwrap(), b"01ab456789");
}

fn append_switched_on_behind_our_back_is_noticed(rig: &mut Rig) {
    let client = rig.client_open("f", RDWR).unwrap();
    let file = rig.open_descriptor(client.try_clone().unwrap()).unwrap().file;
    rig.write(&[file], Operation::Write(Offset(0)), b"0123").unwrap();
    rustix::fs::fcntl_setfl(&client, OFlags::APPEND).unwrap();
    assert_eq!(rig.write(&[file], Operation::Write(Offset(0)), b"ab"), Err(Errno::INVAL));
    assert_eq!(rig.write(&[file], Operation::Append, b"45"), Ok(Bytes(2)));
    rustix::fs::fcntl_setfl(&client, OFlags::empty()).unwrap();
    // What is believed of the flags is corrected by the next write that finds no descriptor to its liking.
    assert_eq!(rig.write(&[file], Operation::Write(Offset(0)), b"cd"), Ok(Bytes(2)));
    assert_eq!(std::fs::read(rig.path("f")).unwrap(), b"cd2345");
}

fn nobody_uses_anothers_rights(rig: &mut Rig) {
    let (both, writer) = (rig.open("f", RDWR), rig.open("f", OFlags::WRONLY));
    let reader = rig.open("f", OFlags::RDONLY);
    assert_eq!(rig.write(&[both, reader], Operation::Write(Offset(0)), b"x"), Err(Errno::BADF));
    assert_eq!(rig.write(&[both, writer], Operation::Write(Offset(0)), b"x"), Ok(Bytes(1)));
    let buffers = rig.buffers([1]);
    assert_eq!(
        rig.run_io(&[both, writer], Operation::Read(Offset(0)), buffers).outcome,
        Err(Errno::BADF)
    );
    assert_eq!(rig.read(reader, 0, 1), Ok(b"x".to_vec()));
    assert_eq!(rig.run(reader, Operation::Truncate(Bytes(0))), Err(Errno::INVAL));
    let allocate = Operation::Allocate { mode: 0, offset: Offset(0), length: Bytes(1) };
    assert_eq!(rig.run(reader, allocate), Err(Errno::BADF));
}

fn direct_calls_work_or_fail_as_the_kernel_says(rig: &mut Rig) {
    let direct = match rig.client_open("f", RDWR | OFlags::DIRECT) {
        Ok(client) => rig.open_descriptor(client).unwrap().file,
        Err(error) => {
            return say_not_tested(&format!(
                "O_DIRECT in {}: {error}",
                rig.directory.path().display()
            ));
        }
    };
    let buffered = rig.open("f", RDWR);
    let data = pattern(5 * 4_096, 5);
    let buffers = rig.filled(&data, 8_192);
    assert_eq!(
        rig.run_io(&[direct], Operation::Write(Offset(0)), buffers).outcome,
        Ok(Bytes(20_480))
    );
    rig.run(buffered, Operation::Truncate(Bytes(10_000))).unwrap();
    let buffers = rig.buffers([8_192, 8_192]);
    let io = rig.run_io(&[direct], Operation::Read(Offset(0)), buffers);
    assert_eq!(io.outcome, Ok(Bytes(10_000)), "the end of the file is not aligned");
    assert!(contents(&io, Bytes(10_000)) == data[..10_000]);
    let buffers = rig.buffers([4_096]);
    assert_eq!(
        rig.run_io(&[direct], Operation::Read(Offset(1)), buffers).outcome,
        Err(Errno::INVAL)
    );
    let buffers = rig.buffers([4_095]);
    let io = rig.run_io(&[direct, buffered], Operation::Read(Offset(1)), buffers);
    assert_eq!(io.outcome, Ok(Bytes(4_095)), "a buffered member serves what is not aligned");
}

fn a_full_file_system_gives_the_part_that_fitted_and_then_enospc(rig: &mut Rig) {
    let mount = rig.path("small");
    std::fs::create_dir(&mount).unwrap();
    let size = c"size=64k";
    let flags = rustix::mount::MountFlags::empty();
    if let Err(errno) = rustix::mount::mount("none", &mount, "tmpfs", flags, size) {
        return say_not_tested(&format!("ENOSPC: mounting a small tmpfs: {errno}"));
    }
    let _mounted = Mounted(mount);
    let file = rig.open("small/f", RDWR);
    let data = pattern(100_000, 6);
    assert_eq!(rig.write(&[file], Operation::Write(Offset(0)), &data), Ok(Bytes(65_536)));
    let rest = rig.write(&[file], Operation::Write(Offset(65_536)), &data[65_536..]);
    assert_eq!(rest, Err(Errno::NOSPC));
}

/// A mount that goes with the test, whatever its end.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

fn errors_come_through_exactly(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    let past_every_file = Offset(i64::MAX as u64 - 10_000);
    assert_eq!(rig.write(&[file], Operation::Write(past_every_file), b"x"), Err(Errno::FBIG));
    assert_eq!(rig.write(&[file], Operation::Write(Offset(1 << 63)), b"x"), Err(Errno::INVAL));
    assert_eq!(rig.run(file, Operation::Truncate(Bytes(1 << 63))), Err(Errno::INVAL));
    let allocate =
        |mode, length| Operation::Allocate { mode, offset: Offset(0), length: Bytes(length) };
    assert_eq!(rig.run(file, allocate(0, 0)), Err(Errno::INVAL));
    assert_eq!(rig.run(file, allocate(1 << 30, 4_096)), Err(Errno::OPNOTSUPP));
    let advise = Operation::Advise { advice: 99, offset: Offset(0), length: Bytes(0) };
    assert_eq!(rig.run(file, advise), Err(Errno::INVAL));
    rig.store.close(file);
    assert_eq!(rig.run(file, Operation::Sync), Err(Errno::BADF));
}

/// `/proc/self/mem` is a regular file that has holes with `EIO`.
fn a_device_error_is_no_end_of_file(rig: &mut Rig) {
    let memory = rig.open_descriptor(File::open("/proc/self/mem").unwrap()).unwrap().file;
    let buffers = rig.buffers([4_096]);
    assert_eq!(
        rig.run_io(&[memory], Operation::Read(Offset(4_096)), buffers).outcome,
        Err(Errno::IO)
    );
    let known = pattern(64, 7);
    let there = known.as_ptr().addr() as u64;
    assert_eq!(rig.read(memory, there, 64), Ok(known));
}

fn metadata_calls_do_what_they_say(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    rig.write(&[file], Operation::Write(Offset(0)), &[1; 20_000]).unwrap();
    assert_eq!(rig.run(file, Operation::Sync), Ok(Bytes(0)));
    assert_eq!(rig.run(file, Operation::DataSync), Ok(Bytes(0)));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let hole =
        Operation::Allocate { mode: punch.bits(), offset: Offset(4_096), length: Bytes(4_096) };
    assert_eq!(rig.run(file, hole), Ok(Bytes(0)));
    assert_eq!(rig.read(file, 4_095, 2), Ok(vec![1, 0]));
    let longer = Operation::Allocate { mode: 0, offset: Offset(0), length: Bytes(50_000) };
    assert_eq!(rig.run(file, longer), Ok(Bytes(0)));
    for advice in 0..6 {
        let advise = Operation::Advise { advice, offset: Offset(0), length: Bytes(0) };
        assert_eq!(rig.run(file, advise), Ok(Bytes(0)));
    }
    let attributes = rig.store.attributes(file).unwrap();
    let seen = std::fs::metadata(rig.path("f")).unwrap();
    assert_eq!(attributes.size, Bytes(50_000));
    let modified = seen.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(attributes.modified_ns as u128, modified.as_nanos());
    assert_eq!(attributes.blocks_512, std::os::unix::fs::MetadataExt::blocks(&seen));
}

fn dropping_a_busy_store_gives_every_buffer_back(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    for part in 0..100u64 {
        let buffers = rig.buffers([65_536]);
        rig.start(part, &[file], Operation::Write(Offset(part * 65_536)), buffers);
        if part % 10 == 0 {
            rig.start(1_000 + part, &[file], Operation::Sync, Vec::new());
        }
    }
    rig.store.flush();
    assert_ne!(rig.pool.used_bytes(), Bytes(0));
    rig.store = forebay_store::PosixStore::new(forebay_store::PosixOptions::default()).unwrap();
    assert_eq!(rig.pool.used_bytes(), Bytes(0));
}

fn read_io(rig: &Rig, file: forebay_engine::store::StoreFile, offset: u64, length: usize) -> Io {
    let (files, buffers) = (vec![file], rig.buffers([length]));
    Io {
        token: 3,
        files,
        operation: Operation::Read(Offset(offset)),
        buffers,
        outcome: Ok(Bytes(77)),
        end: Offset(0),
    }
}

fn cached_bytes_are_read_at_once(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    let data = pattern(30_000, 8);
    rig.write(&[file], Operation::Write(Offset(0)), &data).unwrap();
    for (offset, length, there) in
        [(0, 30_000, 30_000), (20_000, 30_000, 10_000), (30_000, 10, 0), (0, 0, 0)]
    {
        let io = read_io(rig, file, offset, length);
        let io = rig.store.try_now(io).expect("what was just written is in the page cache");
        assert_eq!(io.outcome, Ok(Bytes(there)));
        assert!(contents(&io, Bytes(there)) == data[offset as usize..][..there as usize]);
    }
    let write = Io { operation: Operation::Write(Offset(0)), ..read_io(rig, file, 0, 10) };
    assert!(rig.store.try_now(write).is_err(), "writes wait");
}

fn bytes_on_the_device_are_not_waited_for(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    let data = pattern(1 << 20, 9);
    rig.write(&[file], Operation::Write(Offset(0)), &data).unwrap();
    rig.run(file, Operation::Sync).unwrap();
    let forget = Operation::Advise { advice: 4, offset: Offset(0), length: Bytes(0) };
    rig.run(file, forget).unwrap();
    let io = read_io(rig, file, 400_000, 100_000);
    let io = match rig.store.try_now(io) {
        Err(io) => io,
        Ok(_) => {
            return say_not_tested("a read past the page cache: this file system kept the bytes");
        }
    };
    assert_eq!(
        (io.token, io.outcome, io.buffers[0].len()),
        (3, Ok(Bytes(77)), 100_000),
        "handed back as it was"
    );
    rig.store.start(Timestamp(0), io);
    let io = rig.wait(1).pop().unwrap();
    assert!(contents(&io, io.outcome.unwrap()) == data[400_000..500_000]);
}

fn many_readers_of_a_file_on_the_device_are_read_ahead_for(rig: &mut Rig) {
    const BLOCK: usize = 64 << 10;
    const READERS: usize = 8;
    let writer = rig.open("f", RDWR);
    // It ends in the middle of a block.
    let data = pattern(6 * READERS * BLOCK - 5_000, 10);
    rig.write(&[writer], Operation::Write(Offset(0)), &data).unwrap();
    rig.run(writer, Operation::Sync).unwrap();
    let forget = Operation::Advise { advice: 4, offset: Offset(0), length: Bytes(0) };
    rig.run(writer, forget).unwrap();
    let readers: Vec<_> = (0..READERS).map(|_| rig.open("f", OFlags::RDONLY)).collect();
    for round in 0..6 {
        // Those of a round at once, the last one first.
        for (at, reader) in readers.iter().enumerate().rev() {
            let start = (round * READERS + at) * BLOCK;
            let io = read_io(rig, *reader, start as u64, BLOCK);
            rig.store.start(Timestamp(0), io);
        }
        rig.store.flush();
        for io in rig.wait(READERS) {
            let Operation::Read(Offset(start)) = io.operation else { panic!("{io:?}") };
            let start = start as usize;
            let end = (start + BLOCK).min(data.len());
            assert_eq!(io.outcome, Ok(Bytes((end - start) as u64)), "at {start}");
            assert!(contents(&io, io.outcome.unwrap()) == data[start..end], "at {start}");
        }
        // One that is closed in the middle of it is not missed.
        if round == 2 {
            rig.store.close(writer);
        }
    }
    for reader in readers {
        rig.store.close(reader);
    }
    let counters = rig.store.counters();
    let ahead = counters.iter().find(|counter| counter.0 == "ahead_bytes").unwrap().1;
    if ahead == 0 {
        return say_not_tested("read-ahead: this file system kept the bytes");
    }
    assert!(ahead <= (data.len() + READERS * BLOCK) as u64, "{ahead}: more than once");
}

fn calls_are_counted(rig: &mut Rig) {
    let file = rig.open("f", RDWR);
    rig.write(&[file], Operation::Write(Offset(0)), &[1; 100]).unwrap();
    rig.read(file, 90, 100).unwrap();
    rig.run(file, Operation::Sync).unwrap();
    let counters = rig.store.counters();
    let count = |name| counters.iter().find(|counter| counter.0 == name).unwrap().1;
    assert_eq!(
        ["reads", "writes", "others", "bytes_read", "bytes_written"].map(count),
        [1, 1, 1, 10, 100]
    );
}

fn refused_calls_are_announced(rig: &mut Rig) {
    let file = rig.open("f", OFlags::WRONLY);
    let buffers = rig.buffers([10]);
    rig.start(1, &[file], Operation::Read(Offset(0)), buffers);
    assert_eq!(rig.store.wake().deadline, Some(Timestamp(0)));
    assert_eq!(rig.wait(1)[0].outcome, Err(Errno::BADF));
    assert_eq!(rig.store.wake().deadline, None);
}

#[test]
fn a_file_position_is_left_alone_by_offset_calls() {
    let Some(mut rig) = Rig::new(forebay_store::PosixEngine::Auto) else { return };
    let mut client = rig.client_open("f", RDWR).unwrap();
    client.write_all(b"abcdef").unwrap();
    client.rewind().unwrap();
    let file = rig.open_descriptor(client.try_clone().unwrap()).unwrap().file;
    assert_eq!(rig.read(file, 3, 2), Ok(b"de".to_vec()));
    let mut two = [0; 2];
    client.read_exact(&mut two).unwrap();
    assert_eq!(&two, b"ab");
}
