//! Peers that break the protocol, or keep it and do not move: each harms itself only.

use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use forebay_client::{Bytes, Destination, Error, Loss, Memory, Ticket, Transfers};
use forebay_forwarder::Status;
use forebay_forwarder::settings::Settings;
use forebay_tests::{Client, Random, Raw, Running, Through, encoded, hello, range, wait_until};
use forebay_units::Nanos;
use forebay_wire::{
    Delivery, FrameKind, Grant, HEADER_BYTES, Handle, Hello, Place, Read, ReadList, Reply, Request,
    Truncate, Write, WriteData,
};

/// A client that must not notice anything of what others do.
struct Bystander {
    client: Client,
    handle: Handle,
    content: Vec<u8>,
}

impl Bystander {
    fn of(running: &Running, way: Through) -> Self {
        let mut client = running.connect(way);
        let (_, handle) = client.open("bystander");
        Self { client, handle, content: vec![0; 2 << 20] }
    }

    fn works(&mut self, what: &str) {
        let mut random = Random::new(what.len() as u64);
        for length in [100, 40_000, 2 << 20] {
            self.content[..length].copy_from_slice(&random.bytes(length));
            let written = self.client.write(self.handle, 0, &self.content[..length]);
            assert_eq!(written, Ok(length), "{what}");
        }
        let mut seen = vec![0; self.content.len()];
        assert_eq!(self.client.read(self.handle, 0, &mut seen), Ok(seen.len()), "{what}");
        assert!(seen == self.content, "{what}");
    }
}

fn write(handle: Handle, length: usize, delivery: Delivery) -> Request<'static> {
    Request::Write(Write { handle, range: range(0, length), place: Place::Range, delivery })
}

/// What came of it does not matter.
fn nothing<T>(_: T) {}

/// The case's name, what a greeted peer with an open file does, and a piece of the reason it must get.
type Case = (&'static str, fn(&mut Raw, Handle), &'static str);

const CASES: &[Case] = &[
    (
        "noise",
        |raw, _| nothing(raw.send(b"GET / HTTP/1.1\r\nHost: forebay\r\n\r\n")),
        "malformed header",
    ),
    (
        "an unknown kind",
        |raw, _| nothing(raw.send(&[0, 0, 0, 0, 77, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0])),
        "malformed header",
    ),
    (
        "a reserved field",
        |raw, handle| {
            let mut frame = encoded(&Request::Sync(handle), 100);
            frame[6] = 1;
            raw.send(&frame);
        },
        "malformed header",
    ),
    (
        "a flag that the kind has not",
        |raw, handle| {
            let mut frame = encoded(&Request::Sync(handle), 100);
            frame[5] = 4;
            raw.send(&frame);
        },
        "malformed header",
    ),
    (
        "a length beyond all limits",
        |raw, handle| {
            let mut frame = encoded(&Request::Sync(handle), 100);
            frame[..4].copy_from_slice(&u32::MAX.to_le_bytes());
            raw.send(&frame);
        },
        "malformed header",
    ),
    (
        "a length that is too short for the kind",
        |raw, handle| {
            let mut frame = encoded(&Request::Truncate(Truncate { handle, size: Bytes(1) }), 100);
            frame[..4].copy_from_slice(&3_u32.to_le_bytes());
            raw.send(&frame);
        },
        "malformed header",
    ),
    (
        "a reply from a client",
        |raw, _| nothing(raw.send(&[24, 0, 0, 0, 0x85, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0])),
        "malformed",
    ),
    (
        "a range beyond all files",
        |raw, handle| {
            let mut frame = encoded(&Request::Read(Read { handle, range: range(0, 1) }), 100);
            frame[HEADER_BYTES + 8..HEADER_BYTES + 16].copy_from_slice(&u64::MAX.to_le_bytes());
            raw.send(&frame);
        },
        "malformed Read",
    ),
    (
        "a request longer than Linux allows",
        |raw, handle| {
            nothing(
                raw.send(&encoded(&Request::Read(Read { handle, range: range(0, 1 << 40) }), 100)),
            )
        },
        "malformed Read",
    ),
    (
        "an empty read",
        |raw, handle| {
            nothing(raw.send(&encoded(&Request::Read(Read { handle, range: range(0, 0) }), 100)))
        },
        "malformed Read",
    ),
    (
        "more ranges than a list has",
        |raw, handle| {
            let ranges = [range(0, 1); 2];
            let list = Request::ReadList(ReadList { handle, ranges: (&ranges[..]).into() });
            let mut frame = encoded(&list, 100);
            frame[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&5000_u32.to_le_bytes());
            raw.send(&frame);
        },
        "malformed ReadList",
    ),
    (
        "a replayed frame",
        |raw, handle| {
            let frame = encoded(&Request::Sync(handle), 100);
            raw.send(&frame);
            raw.send(&frame);
        },
        "tag 100 after tag 100",
    ),
    ("a second hello", |raw, _| nothing(raw.ask(&hello())), "a second hello"),
    (
        "a handle that is not open",
        |raw, _| nothing(raw.ask(&Request::Sync(Handle(4000)))),
        "not open",
    ),
    (
        "a handle that was closed",
        |raw, handle| {
            raw.ask(&Request::Close(handle));
            raw.ask(&Request::Sync(handle));
        },
        "not open",
    ),
    (
        "data that nobody asked for",
        |raw, _| {
            raw.send(&encoded(&Request::WriteData(WriteData { offset: 0, length: 10 }), 1));
            raw.send(&[0; 10]);
        },
        "not granted",
    ),
    (
        "more eager data than allowed",
        |raw, handle| nothing(raw.ask(&write(handle, 1 << 20, Delivery::Eager))),
        "sent unasked",
    ),
    (
        "a grant answered at another place",
        |raw, handle| {
            let tag = raw.ask(&write(handle, 1 << 20, Delivery::Granted));
            let frame = raw.answer().expect("a grant");
            let Reply::Grant(Grant { offset, length }) = frame.reply() else { panic!("{frame:?}") };
            raw.send(&encoded(
                &Request::WriteData(WriteData { offset: offset + 4096, length }),
                tag,
            ));
        },
        "not granted",
    ),
    (
        "a grant answered twice",
        |raw, handle| {
            let tag = raw.ask(&write(handle, 1 << 20, Delivery::Granted));
            let frame = raw.answer().expect("a grant");
            let Reply::Grant(Grant { offset, length }) = frame.reply() else { panic!("{frame:?}") };
            let data = encoded(&Request::WriteData(WriteData { offset, length }), tag);
            for _ in 0..2 {
                raw.send(&data);
                raw.send(&vec![1; length as usize]);
            }
        },
        "not granted",
    ),
    (
        "more requests than allowed",
        |raw, handle| {
            let frames: Vec<u8> = (100..700)
                .flat_map(|tag| encoded(&write(handle, 1 << 20, Delivery::Granted), tag))
                .collect();
            raw.send(&frames);
        },
        "unanswered requests",
    ),
];

#[test]
fn every_broken_rule_ends_its_own_session_with_the_reason() {
    for way in Through::ALL {
        let running = Running::start(|settings| settings.pool.bytes = Bytes::mib(16));
        let mut bystander = Bystander::of(&running, way);
        std::fs::write(running.folder().join("a"), vec![1; 4096]).unwrap();
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(running.folder().join("a"))
            .unwrap();
        for (what, misbehave, reason) in CASES {
            let mut raw = Raw::greeted(running.endpoint(way));
            let handle = match way {
                Through::Unix => raw.open_descriptor(&file),
                Through::Tcp => raw.open_path("a"),
            };
            misbehave(&mut raw, handle);
            let message = raw.refusal();
            assert!(message.contains(reason), "{way:?}, {what}: {message}");
            bystander.works(what);
        }
        let violations = running.status().clients.violations;
        assert_eq!(violations, CASES.len() as u64, "{way:?}");
        drop(bystander);
        running.wait_until_quiet(0);
    }
}

#[test]
fn before_the_hello_nothing_else_is_welcome() {
    let running = Running::start(|_| {});
    for way in Through::ALL {
        let mut raw = Raw::connect(running.endpoint(way));
        raw.ask(&Request::Status);
        assert!(raw.refusal().contains("before the hello"));
        let mut raw = Raw::connect(running.endpoint(way));
        let Request::Hello(ours) = hello() else { unreachable!() };
        raw.ask(&Request::Hello(Hello { version_min: 900, version_max: 901, ..ours }));
        assert!(raw.refusal().contains("version 900 to 901"));
        let mut raw = Raw::connect(running.endpoint(way));
        let mut frame = encoded(&hello(), 1);
        frame[HEADER_BYTES] ^= 1;
        raw.send(&frame);
        assert!(raw.refusal().contains("malformed Hello"));
    }
}

#[test]
fn a_stream_cut_anywhere_leaves_nothing_behind() {
    let running = Running::start(|_| {});
    std::fs::write(running.folder().join("a"), [1; 4096]).unwrap();
    let mut bystander = Bystander::of(&running, Through::Unix);
    let handle = Handle(0);
    let mut whole = encoded(&hello(), 1);
    let open =
        forebay_wire::Open { flags: 2, descriptor: forebay_wire::Descriptor::Absent, path: b"a" };
    whole.extend(encoded(&Request::Open(open), 2));
    whole.extend(encoded(&write(handle, 3000, Delivery::Eager), 3));
    whole.extend([5; 3000]);
    let ranges = [range(10, 20), range(100, 30)];
    whole.extend(encoded(&Request::ReadList(ReadList { handle, ranges: (&ranges[..]).into() }), 4));
    whole.extend(encoded(&write(handle, 3 << 20, Delivery::Granted), 5));
    whole.extend(encoded(&Request::Sync(handle), 6));
    let step = |at: usize| if (250..2900).contains(&at) { 397 } else { 1 };
    let mut at = 0;
    while at <= whole.len() {
        let mut raw = Raw::connect(running.endpoint(Through::Tcp));
        raw.send(&whole[..at]);
        at += step(at);
    }
    bystander.works("after many cut streams");
    drop(bystander);
    running.wait_until_quiet(0);
    assert_eq!(running.stop().clients.violations, 0);
}

#[test]
fn random_bytes_end_a_session_and_nothing_else() {
    let running = Running::start(|settings| settings.session.idle_timeout = Nanos::millis(200));
    let mut bystander = Bystander::of(&running, Through::Unix);
    std::fs::write(running.folder().join("a"), [1; 4096]).unwrap();
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut raw = Raw::greeted(running.endpoint(Through::Tcp));
        let handle = raw.open_path("a");
        let mut bytes = encoded(&write(handle, 4000, Delivery::Eager), 50);
        bytes.extend(random.bytes(4000));
        bytes.extend(encoded(&Request::Read(Read { handle, range: range(0, 4096) }), 51));
        bytes.extend(encoded(&Request::Sync(handle), 52));
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        raw.send(&bytes);
    }
    bystander.works("after flipped bits");
    drop(bystander);
    running.wait_until_quiet(0);
}

fn impatient(settings: &mut Settings) {
    settings.session.idle_timeout = Nanos::millis(300);
    settings.pool.bytes = Bytes::mib(8);
}

fn stalled(running: &Running, count: u64) -> Status {
    let mut client = running.connect(Through::Unix);
    wait_until("those that do not move are dropped", || client.status().clients.stalled >= count);
    client.status()
}

#[test]
fn a_client_that_says_nothing_is_dropped() {
    let running = Running::start(impatient);
    let mut silent: Vec<_> =
        Through::ALL.iter().map(|way| Raw::connect(running.endpoint(*way))).collect();
    assert_eq!(stalled(&running, 2).clients.stalled, 2);
    assert!(silent.iter_mut().all(|raw| raw.answer().is_none()));
}

#[test]
fn a_client_that_owes_nothing_may_be_silent_for_ever() {
    let running = Running::start(impatient);
    let mut quiet = Bystander::of(&running, Through::Unix);
    quiet.works("at first");
    let _noisy = Raw::connect(running.endpoint(Through::Unix));
    stalled(&running, 1);
    quiet.works("after longer than the time-out");
}

#[test]
fn a_client_that_stops_in_the_middle_of_its_payload_is_dropped() {
    for delivery in [Delivery::Eager, Delivery::Granted] {
        let running = Running::start(impatient);
        std::fs::write(running.folder().join("bystander"), b"old").unwrap();
        let mut raw = Raw::greeted(running.endpoint(Through::Tcp));
        // The same bytes as the bystander's: it has to wait until the time-out, and no longer.
        let handle = raw.open_path("bystander");
        let length = if delivery == Delivery::Eager { 50_000 } else { 3 << 20 };
        let tag = raw.ask(&write(handle, length, delivery));
        match delivery {
            Delivery::Eager => nothing(raw.send(&[1; 20_000])),
            Delivery::Granted => {
                let frame = raw.answer().expect("a grant");
                let Reply::Grant(Grant { offset, length }) = frame.reply() else {
                    panic!("{frame:?}")
                };
                raw.send(&encoded(&Request::WriteData(WriteData { offset, length }), tag));
                raw.send(&[1; 1000]);
            }
        }
        let mut bystander = Bystander::of(&running, Through::Unix);
        let start = Instant::now();
        bystander.works("beside a client that has stopped");
        assert!(start.elapsed() < Duration::from_secs(20));
        stalled(&running, 1);
        while raw.answer().is_some() {}
        drop(bystander);
        running.wait_until_quiet(0);
    }
}

#[test]
fn a_client_that_never_answers_a_grant_is_dropped() {
    let running = Running::start(impatient);
    std::fs::write(running.folder().join("a"), b"").unwrap();
    let mut raw = Raw::greeted(running.endpoint(Through::Tcp));
    let handle = raw.open_path("a");
    raw.ask(&write(handle, 64 << 20, Delivery::Granted));
    stalled(&running, 1);
    drop(raw);
    running.wait_until_quiet(0);
}

#[test]
fn clients_that_never_read_are_dropped_and_the_others_go_on() {
    for way in Through::ALL {
        let running = Running::start(impatient);
        std::fs::write(running.folder().join("a"), vec![1; 64 << 20]).unwrap();
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(running.folder().join("a"))
            .unwrap();
        let mut bystander = Bystander::of(&running, way);
        let deaf: Vec<_> = (0..20)
            .map(|n| {
                let mut raw = Raw::greeted(running.endpoint(way));
                let handle = if way == Through::Unix {
                    raw.open_descriptor(&file)
                } else {
                    raw.open_path("a")
                };
                for k in 0..1 + n * 5 {
                    // The first is more than fits into sockets; of the rest, some are long and some short.
                    let length = if (n + k) % 2 == 0 && k > 0 { 1 << 20 } else { 64 << 20 };
                    raw.ask(&Request::Read(Read { handle, range: range(0, length) }));
                }
                raw
            })
            .collect();
        bystander.works("beside clients that never read");
        stalled(&running, 20);
        drop(deaf);
        drop(bystander);
        running.wait_until_quiet(0);
    }
}

#[test]
fn one_client_that_never_reads_holds_its_share_and_nobody_up() {
    // The time-out is far longer than the test may take: nobody is saved by it.
    let running = Running::start(|settings| settings.pool.bytes = Bytes::mib(32));
    std::fs::write(running.folder().join("a"), vec![1; 64 << 20]).unwrap();
    let mut bystander = Bystander::of(&running, Through::Unix);
    let mut raw = Raw::greeted(running.endpoint(Through::Tcp));
    let handle = raw.open_path("a");
    for n in 0..100 {
        let length = if n % 2 == 0 { 1 << 20 } else { 64 << 20 };
        raw.ask(&Request::Read(Read { handle, range: range(0, length) }));
    }
    let start = Instant::now();
    for _ in 0..5 {
        bystander.works("beside a client that never reads");
    }
    let status = running.status();
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(status.clients.stalled == 0 && status.pool.used_bytes <= 16 << 20, "{status:?}");
}

#[test]
fn a_client_that_asks_for_the_status_all_the_time_gets_one_at_a_time() {
    let running = Running::start(|_| {});
    let mut raw = Raw::greeted(running.endpoint(Through::Unix));
    let mut bystander = Bystander::of(&running, Through::Unix);
    // All of them arrive at once.
    let asked: Vec<u8> = (100..164).flat_map(|tag| encoded(&Request::Status, tag)).collect();
    assert!(raw.send(&asked));
    bystander.works("beside a client that asks all the time");
    let mut latest = 0;
    for tag in 100..164 {
        let frame = raw.answer().expect("an answer");
        assert_eq!((frame.header.kind, frame.header.tag), (FrameKind::StatusText, tag));
        let status: Status = serde_json::from_slice(&frame.rest).expect("a status");
        assert!(status.uptime_ns > latest, "made in the same turn of the loop as the one before");
        latest = status.uptime_ns;
    }
}

#[test]
fn a_client_that_reads_slowly_gets_every_byte() {
    let running = Running::start(|settings| {
        settings.pool.bytes = Bytes::mib(8);
        settings.session.idle_timeout = Nanos::millis(500);
    });
    let content = Random::new(1).bytes(12 << 20);
    std::fs::write(running.folder().join("a"), &content).unwrap();
    let mut client = running.connect(Through::Tcp);
    let (_, handle) = client.open("a");
    let mut seen = vec![0; content.len()];
    let mut slices = [std::io::IoSliceMut::new(&mut seen)];
    let mut transfers = Slow { slices: &mut slices, asked: 0 };
    client.connection.start_read(handle, range(0, content.len()), &mut transfers).unwrap();
    let done = client.connection.next(&mut transfers).unwrap();
    assert_eq!(done.result.unwrap().bytes, Bytes(content.len() as u64));
    assert!(transfers.asked > 12);
    assert!(seen == content);
}

/// Takes a while before it says where data goes.
struct Slow<'a, 'b> {
    slices: &'a mut [std::io::IoSliceMut<'b>],
    asked: u32,
}

impl Transfers for Slow<'_, '_> {
    fn memory(&mut self, _: Ticket) -> Memory<'_> {
        self.asked += 1;
        if self.asked.is_multiple_of(16) {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(20) {
                std::thread::yield_now();
            }
        }
        Memory::Into(Destination::from(&mut *self.slices))
    }
}

#[test]
fn a_client_beyond_the_limit_is_told_so() {
    let running = Running::start(|settings| settings.session.connections_max = 3);
    let clients: Vec<_> = (0..3).map(|_| running.connect(Through::Unix)).collect();
    let limits = forebay_client::Limits::default();
    let refused = forebay_client::Connection::connect(
        running.endpoint(Through::Tcp),
        &forebay_client::Who::default(),
        limits,
    );
    match refused {
        Err(Error::Lost(Loss::Refused(refusal))) => {
            assert!(refusal.message().contains("too many"), "{refusal:?}")
        }
        other => panic!("{other:?}"),
    }
    drop(clients);
}

#[test]
fn an_address_that_is_not_allowed_is_told_so() {
    let running = Running::start(|settings| settings.listen.tcp_allow.clear());
    let mut raw = Raw::connect(running.endpoint(Through::Tcp));
    let message = raw.refusal();
    assert!(message.contains("not allowed"), "{message}");
    let mut bystander = Bystander::of(&running, Through::Unix);
    bystander.works("over the Unix socket");
    let file = std::fs::File::open(running.folder().join("bystander")).unwrap();
    let mut seen = [0; 10];
    file.read_exact_at(&mut seen, 0).unwrap();
}
