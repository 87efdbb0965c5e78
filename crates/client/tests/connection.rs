//! The connection against a forwarder over real sockets.

mod forwarder;

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_client::{
    Bye, ByteRange, Bytes, Connection, Destination, Error, Limits, Loss, Memory, Offset, Place,
    Reasons, Source, Ticket, Transfers, Who,
};
use forwarder::Forwarder;
use rustix::fs::OFlags;
use rustix::io::Errno;

struct Lab {
    folder: tempfile::TempDir,
    forwarder: Forwarder,
}

impl Lab {
    fn unix() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let forwarder = Forwarder::unix(&folder.path().join("socket"));
        Self { folder, forwarder }
    }

    fn tcp() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let forwarder = Forwarder::tcp(folder.path());
        Self { folder, forwarder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn connect(&self) -> Connection {
        self.connect_for(Duration::from_secs(10))
    }

    fn connect_for(&self, limit: Duration) -> Connection {
        let who = Who { job: b"test", program: b"connection" };
        Connection::connect(
            &self.forwarder.endpoint,
            &who,
            Limits { connect: limit, progress: limit },
        )
        .expect("connect")
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

fn write(
    connection: &mut Connection,
    handle: forebay_client::Handle,
    place: Place,
    data: &[u8],
) -> (u64, u64) {
    let written = connection.write(handle, place, &Source::from(data)).expect("write");
    (written.bytes.0, written.end.0)
}

fn read(
    connection: &mut Connection,
    handle: forebay_client::Handle,
    offset: u64,
    length: usize,
) -> Vec<u8> {
    let mut data = vec![0; length];
    let range = ByteRange::new(Offset(offset), Bytes(length as u64));
    let count =
        connection.read(handle, range, &mut Destination::from(&mut data[..])).expect("read");
    data.truncate(count.0 as usize);
    data
}

fn round_trip(lab: &Lab) {
    let path = lab.path("file");
    let file = File::options().read(true).write(true).create_new(true).open(&path).expect("create");
    let mut connection = lab.connect();
    let opened = if connection.carries_descriptors() {
        connection.open(Some(file.as_fd()), b"", OFlags::RDWR)
    } else {
        connection.open(None, b"file", OFlags::RDWR)
    };
    let handle = opened.expect("open").handle;
    // Eager, one chunk, many chunks, and many more than fit into the socket.
    for (offset, length) in
        [(0, 1), (10, 4096), (5_000, 65_536), (100_000, 1_000_003), (2_000_000, 20 << 20)]
    {
        let data = pattern(length);
        assert_eq!(
            write(&mut connection, handle, Place::At(Offset(offset)), &data).0,
            length as u64
        );
        assert_eq!(
            read(&mut connection, handle, offset, length),
            data,
            "{length} bytes at {offset}"
        );
    }
    assert_eq!(read(&mut connection, handle, 1 << 40, 10), b"", "beyond the end");
    let size = connection.stat(handle).expect("stat").size;
    assert_eq!(size, Bytes(2_000_000 + (20 << 20)));
    assert_eq!(read(&mut connection, handle, size.0 - 3, 100).len(), 3, "across the end");
    connection.truncate(handle, Bytes(5)).expect("truncate");
    connection.allocate(handle, 0, ByteRange::new(Offset(0), Bytes(100))).expect("allocate");
    connection.hint(handle, 2, ByteRange::new(Offset(0), Bytes(0))).expect("hint");
    connection.sync(handle).expect("sync");
    connection.data_sync(handle).expect("data sync");
    assert_eq!(file.metadata().expect("stat").len(), 100);
    assert!(connection.status().expect("status").len() > 65_536);
    connection.close(handle).expect("close");
    lab.forwarder.wait_until("closed", |state| state.files_open.load(Ordering::SeqCst) == 0);
    let bye = Bye { forwarded: 1, native: 0, reasons: Reasons::from(&[][..]) };
    connection.bye(&bye).expect("bye");
}

#[test]
fn every_request_works_over_a_unix_socket() {
    round_trip(&Lab::unix());
}

#[test]
fn every_request_works_over_tcp() {
    round_trip(&Lab::tcp());
}

#[test]
fn lists_move_in_the_order_given() {
    let lab = Lab::tcp();
    std::fs::write(lab.path("file"), b"").expect("create");
    let mut connection = lab.connect();
    let handle = connection.open(None, b"file", OFlags::RDWR).expect("open").handle;
    let ranges: Vec<_> =
        (0..2_000).rev().map(|n| ByteRange::new(Offset(n * 100), Bytes(50))).collect();
    let data = pattern(100_000);
    let (left, right) = data.split_at(333);
    let slices = [IoSlice::new(left), IoSlice::new(right)];
    let written = connection.write_list(handle, &ranges, &Source::from(&slices[..]));
    assert_eq!(written, Ok(Bytes(100_000)));
    let mut back = vec![0; 100_000];
    let mut slices = [IoSliceMut::new(&mut back)];
    let count = connection.read_list(handle, &ranges, &mut Destination::from(&mut slices[..]));
    assert_eq!(count, Ok(Bytes(100_000)));
    assert_eq!(back, data);
    assert_eq!(read(&mut connection, handle, 1_999 * 100, 50), &data[..50]);
}

#[test]
fn an_append_says_where_it_ended() {
    let lab = Lab::unix();
    let path = lab.path("file");
    std::fs::write(&path, b"12345").expect("create");
    let file = File::options().append(true).open(&path).expect("open");
    let mut connection = lab.connect();
    let flags = OFlags::WRONLY | OFlags::APPEND;
    let handle = connection.open(Some(file.as_fd()), b"", flags).expect("open").handle;
    assert_eq!(write(&mut connection, handle, Place::End, b"678"), (3, 8));
    assert_eq!(std::fs::read(&path).expect("read"), b"12345678");
}

#[test]
fn the_stores_error_number_comes_back_and_the_connection_goes_on() {
    let lab = Lab::tcp();
    std::fs::write(lab.path("file"), b"content").expect("create");
    let mut connection = lab.connect();
    assert_eq!(connection.open(None, b"absent", OFlags::RDONLY), Err(Error::Errno(Errno::NOENT)));
    let handle = connection.open(None, b"file", OFlags::RDWR).expect("open").handle;
    lab.forwarder.state.error.store(Errno::NOSPC.raw_os_error(), Ordering::SeqCst);
    for length in [10, 100_000] {
        let data = pattern(length);
        let written = connection.write(handle, Place::At(Offset(0)), &Source::from(&data[..]));
        assert_eq!(written, Err(Error::Errno(Errno::NOSPC)));
    }
    lab.forwarder.state.error.store(0, Ordering::SeqCst);
    assert_eq!(read(&mut connection, handle, 0, 7), b"content");
}

#[test]
fn words_of_control_reach_the_forwarder_and_its_answer_comes_back() {
    let lab = Lab::tcp();
    let mut connection = lab.connect();
    let words = ["class", "a b", "weight=3"];
    assert_eq!(connection.control(&words).expect("answered"), "class\na b\nweight=3");
    assert_eq!(connection.control(&["forbidden"]), Err(Error::Errno(Errno::PERM)));
    let long = "x".repeat(5000);
    assert!(matches!(connection.control(&[&long]), Err(Error::Unsendable(_))));
    assert!(connection.status().is_ok(), "the connection goes on");
}

#[test]
fn a_silent_forwarder_is_lost_after_the_limit() {
    let lab = Lab::tcp();
    std::fs::write(lab.path("file"), b"content").expect("create");
    let mut connection = lab.connect_for(Duration::from_millis(100));
    let handle = connection.open(None, b"file", OFlags::RDONLY).expect("open").handle;
    lab.forwarder.state.is_silent.store(true, Ordering::SeqCst);
    let start = Instant::now();
    assert_eq!(connection.sync(handle), Err(Error::Lost(Loss::TimedOut)));
    assert!((100..5_000).contains(&start.elapsed().as_millis()));
}

#[test]
fn a_forwarder_that_died_is_known_not_to_have_got_the_request() {
    let lab = Lab::unix();
    let mut connection = lab.connect();
    drop(lab.forwarder);
    let handle = forebay_client::Handle(0);
    assert_eq!(connection.sync(handle), Err(Error::Lost(Loss::Unsent)));
}

#[test]
fn nobody_listening_is_an_error_at_once() {
    let endpoint = "unix:/nonexistent/socket".parse().expect("endpoint");
    let refused = Connection::connect(&endpoint, &Who::default(), Limits::default());
    assert_eq!(refused.expect_err("nobody listens"), Error::Connect(Errno::NOENT));
}

#[test]
fn the_socket_can_have_a_high_number() {
    use std::os::fd::AsRawFd;
    let lab = Lab::unix();
    let connection =
        Connection::connect_above(&lab.forwarder.endpoint, &Who::default(), Limits::default(), 700);
    assert!(connection.expect("connect").as_fd().as_raw_fd() >= 700);
}

/// Several requests at once, each with its own memory.
struct Memories(Vec<(Ticket, Vec<u8>)>);

impl Transfers for Memories {
    fn memory(&mut self, ticket: Ticket) -> Memory<'_> {
        let (_, data) =
            self.0.iter_mut().find(|(known, _)| *known == ticket).expect("a known request");
        Memory::Into(Destination::from(&mut data[..]))
    }
}

#[test]
fn giving_up_the_wait_for_an_answer_loses_nothing() {
    let lab = Lab::tcp();
    let data = pattern(300_000);
    std::fs::write(lab.path("file"), &data).expect("create");
    let mut connection = lab.connect();
    let handle = connection.open(None, b"file", OFlags::RDONLY).expect("open").handle;
    lab.forwarder.state.is_silent.store(true, Ordering::SeqCst);
    let mut memories = Memories(Vec::new());
    let range = ByteRange::new(Offset(0), Bytes(300_000));
    let ticket = connection.start_read(handle, range, &mut memories).expect("start");
    memories.0.push((ticket, vec![0; 300_000]));
    for limit in [0, 20] {
        let limit = Duration::from_millis(limit);
        assert_eq!(connection.next_within(limit, &mut memories), Ok(None));
    }
    lab.forwarder.state.is_silent.store(false, Ordering::SeqCst);
    let completion = connection.next(&mut memories).expect("the connection goes on");
    assert_eq!((completion.ticket, &memories.0[0].1), (ticket, &data));
}

#[test]
fn several_reads_are_under_way_at_once() {
    let lab = Lab::tcp();
    let data = pattern(8 * 300_000);
    std::fs::write(lab.path("file"), &data).expect("create");
    let mut connection = lab.connect();
    let handle = connection.open(None, b"file", OFlags::RDONLY).expect("open").handle;
    let mut memories = Memories(Vec::new());
    for part in 0..8 {
        let range = ByteRange::new(Offset(part * 300_000), Bytes(300_000));
        let ticket = connection.start_read(handle, range, &mut memories).expect("start");
        memories.0.push((ticket, vec![0; 300_000]));
    }
    for _ in 0..8 {
        let completion = connection.next(&mut memories).expect("next");
        assert_eq!(completion.result.map(|moved| moved.bytes), Ok(Bytes(300_000)));
    }
    let back: Vec<_> = memories.0.into_iter().flat_map(|(_, data)| data).collect();
    assert!(back == data, "every part is where it belongs");
}
