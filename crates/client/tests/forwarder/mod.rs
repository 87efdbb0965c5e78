//! A forwarder for tests: a thread for each connection, `pread` and `pwrite`, no scheduling.
//!
//! It is awkward on purpose: small chunks, sent and granted in reverse order. And it can be told to
//! die, to fall silent and to answer with errors.
#![allow(dead_code, reason = "each test binary uses its own part of it")]

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_session::server::{Event, Limits, Session};
use forebay_transport::{Endpoint, Listener, Ready, Stream};
use forebay_units::{ByteRange, Bytes, FileId};
use forebay_wire::{Attributes, Delivery, Descriptor, Done, Place};
use rustix::io::Errno;

const CHUNK_BYTES: u32 = 64 << 10;
const EAGER_BYTES: u32 = 4 << 10;

/// Grants that are open at once.
const GRANTS: usize = 5;

/// What it has done, and what it is to do.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) sessions: AtomicUsize,
    pub(crate) opens: AtomicUsize,
    pub(crate) files_open: AtomicUsize,
    pub(crate) reads: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    pub(crate) syncs: AtomicUsize,
    pub(crate) byes: AtomicUsize,
    pub(crate) bytes_read: AtomicUsize,
    pub(crate) bytes_written: AtomicUsize,
    /// Answer reads and writes with this error number, if not 0.
    pub(crate) error: AtomicI32,
    /// Answer nothing any more.
    pub(crate) is_silent: AtomicBool,
    is_over: AtomicBool,
    export: Option<PathBuf>,
    streams: Mutex<Vec<std::os::fd::OwnedFd>>,
}

/// A running forwarder; dropping it is its sudden death.
pub(crate) struct Forwarder {
    pub(crate) endpoint: Endpoint,
    pub(crate) state: Arc<State>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Forwarder {
    /// Listens at a Unix socket.
    pub(crate) fn unix(path: &Path) -> Self {
        let _ = std::fs::remove_file(path);
        let endpoint: Endpoint = format!("unix:{}", path.display()).parse().expect("endpoint");
        Self::start(&endpoint, None)
    }

    /// Listens at a TCP port of the kernel's choice and serves files beneath `export`.
    pub(crate) fn tcp(export: &Path) -> Self {
        Self::start(&"tcp:127.0.0.1:0".parse().expect("endpoint"), Some(export.to_owned()))
    }

    /// Another one at the same place.
    pub(crate) fn restart(self) -> Self {
        let (endpoint, export) = (self.endpoint.clone(), self.state.export.clone());
        drop(self);
        if let Endpoint::Unix(address) = &endpoint {
            let path = String::from_utf8_lossy(address.path_bytes().expect("a path")).into_owned();
            std::fs::remove_file(path).expect("the old socket");
        }
        Self::start(&endpoint, export)
    }

    fn start(endpoint: &Endpoint, export: Option<PathBuf>) -> Self {
        let listener = Listener::bind(endpoint).expect("bind");
        let endpoint = listener.endpoint().clone();
        let state = Arc::new(State { export, ..State::default() });
        let accepting = Arc::clone(&state);
        let threads = vec![std::thread::spawn(move || accept(&listener, &accepting))];
        Self { endpoint, state, threads }
    }

    /// How often something was counted.
    pub(crate) fn count(&self, counter: impl Fn(&State) -> &AtomicUsize) -> usize {
        counter(&self.state).load(Ordering::SeqCst)
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn(&State) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition(&self.state) {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        for stream in self.state.streams.lock().expect("no panic").drain(..) {
            let _ = rustix::net::shutdown(&stream, rustix::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            thread.join().expect("the accepting thread ends");
        }
    }
}

fn accept(listener: &Listener, state: &Arc<State>) {
    let mut threads = Vec::new();
    while !state.is_over.load(Ordering::SeqCst) {
        let mut descriptors = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
        let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let _ = rustix::event::poll(&mut descriptors, Some(&pause));
        while let Some((stream, _)) = listener.accept().expect("accept") {
            let copy = stream.as_fd().try_clone_to_owned().expect("dup");
            state.streams.lock().expect("no panic").push(copy);
            state.sessions.fetch_add(1, Ordering::SeqCst);
            let state = Arc::clone(state);
            threads.push(std::thread::spawn(move || {
                let mut peer = Peer::new(stream, &state);
                let _ = peer.serve();
                state.files_open.fetch_sub(peer.files.len(), Ordering::SeqCst);
            }));
        }
    }
    for thread in threads {
        thread.join().expect("a connection's thread does not panic");
    }
}

/// One client.
struct Peer<'s> {
    stream: Stream,
    state: &'s State,
    session: Session<usize>,
    files: HashMap<usize, File>,
    next_file: usize,
    input: Vec<u8>,
    descriptor: Option<std::os::fd::OwnedFd>,
    writes: HashMap<u64, Incoming>,
}

/// A write whose payload is on its way.
struct Incoming {
    file: usize,
    ranges: Vec<ByteRange>,
    place: Place,
    data: Block,
    missing: usize,
    /// Parts that are not granted yet, the last one next.
    parts: Vec<(u64, u32)>,
}

/// Memory that begins at a page, as `O_DIRECT` needs it.
struct Block {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    fn new(length: usize) -> Self {
        let bytes = vec![0_u8; length + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        Self { bytes, start, length }
    }
}

impl std::ops::Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// What the session asked for, free of its borrow.
enum Todo {
    Hello,
    Open { tag: u64, path: PathBuf, flags: u32, descriptor: Descriptor },
    Read { tag: u64, file: usize, ranges: Vec<ByteRange> },
    Write { tag: u64, incoming: Incoming, delivery: Delivery },
    Simple { tag: u64, result: Result<(), Errno> },
    Stat { tag: u64, file: usize },
    Close { tag: u64, file: usize },
    Status { tag: u64 },
    Control { tag: u64, text: Vec<u8> },
    Bye { tag: u64 },
}

impl<'s> Peer<'s> {
    fn new(stream: Stream, state: &'s State) -> Self {
        let limits = Limits {
            eager_bytes_max: EAGER_BYTES,
            chunk_bytes_max: CHUNK_BYTES,
            ..Limits::default()
        };
        Self {
            stream,
            state,
            session: Session::new(limits),
            files: HashMap::new(),
            next_file: 0,
            input: Vec::new(),
            descriptor: None,
            writes: HashMap::new(),
        }
    }

    fn serve(&mut self) -> Result<(), Errno> {
        loop {
            let mut buffer = [0; 16 << 10];
            let received = match self.stream.receive_with_descriptor(&mut buffer) {
                Err(Errno::AGAIN) => {
                    self.stream.wait(Ready::Read, Duration::from_secs(60))?;
                    continue;
                }
                received => received?,
            };
            if received.count == 0 {
                return Ok(());
            }
            self.descriptor = received.descriptor.or(self.descriptor.take());
            self.input.extend_from_slice(&buffer[..received.count]);
            while self.take()? {}
        }
    }

    /// Takes one frame or some payload; whether there was any.
    fn take(&mut self) -> Result<bool, Errno> {
        if let Some(payload) = self.session.payload() {
            let count = self.input.len().min(payload.length as usize);
            let incoming = self.writes.get_mut(&payload.tag).expect("payload of a known write");
            let start = payload.offset as usize;
            incoming.data[start..start + count].copy_from_slice(&self.input[..count]);
            incoming.missing -= count;
            let is_complete = incoming.missing == 0;
            self.session.payload_received(count);
            self.input.drain(..count);
            if is_complete {
                let incoming = self.writes.remove(&payload.tag).expect("just found");
                self.write(payload.tag, &incoming)?;
            } else if self.session.payload().is_none() {
                self.grant(payload.tag)?;
            }
            return Ok(count > 0);
        }
        let (count, todo) = match self.session.receive(&self.input) {
            Ok((count, event)) => (count, event.map(|event| todo(&self.files, event))),
            Err(violation) => {
                let refusal = violation.refusal();
                let _ = self.send(&refusal);
                return Err(Errno::PROTO);
            }
        };
        self.input.drain(..count);
        let Some(todo) = todo else { return Ok(count > 0) };
        while self.state.is_silent.load(Ordering::SeqCst) {
            if self.state.is_over.load(Ordering::SeqCst) {
                return Err(Errno::CANCELED);
            }
            std::thread::yield_now();
        }
        self.answer(todo).map(|()| true)
    }

    fn answer(&mut self, todo: Todo) -> Result<(), Errno> {
        match todo {
            Todo::Hello => {
                let frame = self.session.welcome(1);
                self.send(&frame)
            }
            Todo::Open { tag, path, flags, descriptor } => {
                match self.open(&path, flags, descriptor) {
                    Ok((file, id)) => {
                        let frame = self.session.opened(tag, file, id);
                        self.send(&frame)
                    }
                    Err(errno) => self.done(tag, Err(errno), 0),
                }
            }
            Todo::Read { tag, file, ranges } => self.read(tag, file, &ranges),
            Todo::Write { tag, incoming, delivery } => self.start_write(tag, incoming, delivery),
            Todo::Simple { tag, result } => {
                self.state.syncs.fetch_add(1, Ordering::SeqCst);
                self.done(tag, result.map(|()| 0), 0)
            }
            Todo::Stat { tag, file } => {
                let about = self.files[&file].metadata().expect("fstat");
                let attributes = Attributes {
                    size: Bytes(about.size()),
                    blocks_512: about.blocks(),
                    modified_ns: about.mtime() * 1_000_000_000 + about.mtime_nsec(),
                };
                let frame = self.session.attributes(tag, attributes);
                self.send(&frame)
            }
            Todo::Close { tag, file } => {
                self.files.remove(&file);
                self.state.files_open.fetch_sub(1, Ordering::SeqCst);
                self.done(tag, Ok(0), 0)
            }
            Todo::Status { tag } => {
                let text = format!("{{\"padding\": \"{}\"}}", "x".repeat(CHUNK_BYTES as usize));
                let parts: Vec<_> = text.as_bytes().chunks(CHUNK_BYTES as usize).collect();
                for (position, part) in parts.iter().enumerate() {
                    let more = position + 1 < parts.len();
                    let frame = self.session.status_text(tag, part.len() as u32, more);
                    self.send(&frame)?;
                    self.send(part)?;
                }
                Ok(())
            }
            Todo::Control { tag, text } if text == b"forbidden" => {
                self.done(tag, Err(Errno::PERM), 0)
            }
            Todo::Control { tag, text } => {
                let frame = self.session.status_text(tag, text.len() as u32, false);
                self.send(&frame)?;
                self.send(&text)
            }
            Todo::Bye { tag } => {
                self.state.files_open.fetch_sub(self.files.len(), Ordering::SeqCst);
                self.files.clear();
                self.state.byes.fetch_add(1, Ordering::SeqCst);
                self.done(tag, Ok(0), 0)
            }
        }
    }

    fn open(
        &mut self,
        path: &Path,
        flags: u32,
        descriptor: Descriptor,
    ) -> Result<(usize, FileId), Errno> {
        let file = match (descriptor, &self.state.export) {
            (Descriptor::Sent, _) => File::from(self.descriptor.take().ok_or(Errno::BADF)?),
            (Descriptor::Absent, None) => return Err(Errno::ACCESS),
            (Descriptor::Absent, Some(export)) => {
                let access = flags & 3;
                let appends = flags & rustix::fs::OFlags::APPEND.bits() != 0;
                OpenOptions::new()
                    .read(access != 1)
                    .write(access != 0)
                    .append(appends && access != 0)
                    .custom_flags(0)
                    .open(export.join(path))
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?
            }
        };
        let about = file.metadata().expect("fstat");
        let id = FileId { device: about.dev(), inode: about.ino(), generation: 0 };
        self.next_file += 1;
        self.files.insert(self.next_file, file);
        self.state.opens.fetch_add(1, Ordering::SeqCst);
        self.state.files_open.fetch_add(1, Ordering::SeqCst);
        Ok((self.next_file, id))
    }

    fn read(&mut self, tag: u64, file: usize, ranges: &[ByteRange]) -> Result<(), Errno> {
        self.state.reads.fetch_add(1, Ordering::SeqCst);
        let error = self.state.error.load(Ordering::SeqCst);
        if error != 0 {
            return self.done(tag, Err(Errno::from_raw_os_error(error)), 0);
        }
        let mut data = Vec::new();
        for range in ranges {
            let mut part = Block::new(range.length().0 as usize);
            let mut filled = 0;
            while filled < part.len() {
                match self.files[&file].read_at(&mut part[filled..], range.start.0 + filled as u64)
                {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) => {
                        return self.done(
                            tag,
                            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                            0,
                        );
                    }
                }
            }
            let is_short = filled < part.len();
            data.extend_from_slice(&part[..filled]);
            if is_short {
                break;
            }
        }
        for (position, part) in data.chunks(CHUNK_BYTES as usize).enumerate().rev() {
            let frame =
                self.session.data(tag, (position * CHUNK_BYTES as usize) as u64, part.len() as u32);
            self.send(&frame)?;
            self.send(part)?;
        }
        self.state.bytes_read.fetch_add(data.len(), Ordering::SeqCst);
        self.done(tag, Ok(data.len() as u64), 0)
    }

    fn start_write(
        &mut self,
        tag: u64,
        incoming: Incoming,
        delivery: Delivery,
    ) -> Result<(), Errno> {
        self.state.writes.fetch_add(1, Ordering::SeqCst);
        let error = self.state.error.load(Ordering::SeqCst);
        if error != 0 && delivery == Delivery::Granted {
            return self.done(tag, Err(Errno::from_raw_os_error(error)), 0);
        }
        self.writes.insert(tag, incoming);
        if delivery == Delivery::Granted {
            for _ in 0..GRANTS {
                self.grant(tag)?;
            }
        }
        Ok(())
    }

    fn grant(&mut self, tag: u64) -> Result<(), Errno> {
        let next = self.writes.get_mut(&tag).and_then(|incoming| incoming.parts.pop());
        let Some((offset, length)) = next else { return Ok(()) };
        let frame = self.session.grant(tag, offset, length);
        self.send(&frame)
    }

    fn write(&mut self, tag: u64, incoming: &Incoming) -> Result<(), Errno> {
        let error = self.state.error.load(Ordering::SeqCst);
        if error != 0 {
            return self.done(tag, Err(Errno::from_raw_os_error(error)), 0);
        }
        let mut file = &self.files[&incoming.file];
        let mut written = 0;
        let mut end = 0;
        let result = (|| {
            if incoming.place == Place::End {
                std::io::Write::write_all(&mut file, &incoming.data)?;
                written = incoming.data.len();
                end = file.stream_position()?;
                return Ok(());
            }
            for range in &incoming.ranges {
                let part = &incoming.data[written..written + range.length().0 as usize];
                file.write_all_at(part, range.start.0)?;
                written += part.len();
            }
            Ok::<_, std::io::Error>(())
        })();
        self.state.bytes_written.fetch_add(written, Ordering::SeqCst);
        let errno = result.err().map(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        match errno {
            Some(errno) if written == 0 => self.done(tag, Err(errno), 0),
            _ => self.done(tag, Ok(written as u64), end),
        }
    }

    fn done(&mut self, tag: u64, result: Result<u64, Errno>, end: u64) -> Result<(), Errno> {
        let done = match result {
            Ok(bytes) => Done { errno: 0, bytes, end },
            Err(errno) => Done { errno: errno.raw_os_error(), bytes: 0, end: 0 },
        };
        let frame = self.session.done(tag, done);
        self.send(&frame)
    }

    fn send(&self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match self.stream.send(&[IoSlice::new(bytes)]) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => drop(self.stream.wait(Ready::Write, Duration::from_secs(10))?),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

fn todo(files: &HashMap<usize, File>, event: Event<'_, usize>) -> Todo {
    let io = |result: std::io::Result<()>| {
        result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    match event {
        Event::Hello(_) => Todo::Hello,
        Event::Open { tag, open } => Todo::Open {
            tag,
            path: String::from_utf8_lossy(open.path).into_owned().into(),
            flags: open.flags,
            descriptor: open.descriptor,
        },
        Event::Read { tag, file, ranges } => {
            Todo::Read { tag, file, ranges: ranges.iter().collect() }
        }
        Event::Write { tag, file, ranges, place, delivery } => {
            let ranges: Vec<_> = ranges.iter().collect();
            let length: usize = ranges.iter().map(|range| range.length().0 as usize).sum();
            let chunk = CHUNK_BYTES as usize;
            let parts = (0..length)
                .step_by(chunk)
                .map(|start| (start as u64, (length - start).min(chunk) as u32))
                .collect();
            let incoming =
                Incoming { file, ranges, place, data: Block::new(length), missing: length, parts };
            Todo::Write { tag, incoming, delivery }
        }
        Event::Sync { tag, file } => Todo::Simple { tag, result: io(files[&file].sync_all()) },
        Event::DataSync { tag, file } => Todo::Simple { tag, result: io(files[&file].sync_data()) },
        Event::Truncate { tag, file, size } => {
            Todo::Simple { tag, result: io(files[&file].set_len(size.0)) }
        }
        Event::Allocate { tag, file, mode, range } => {
            let mode = rustix::fs::FallocateFlags::from_bits_retain(mode);
            let result =
                rustix::fs::fallocate(&files[&file], mode, range.start.0, range.length().0);
            Todo::Simple { tag, result }
        }
        Event::Hint { tag, .. } => Todo::Simple { tag, result: Ok(()) },
        Event::Stat { tag, file } => Todo::Stat { tag, file },
        Event::Close { tag, file } => Todo::Close { tag, file },
        Event::Status { tag } => Todo::Status { tag },
        Event::Control { tag, control } => Todo::Control { tag, text: control.text.to_vec() },
        Event::Bye { tag, .. } => Todo::Bye { tag },
    }
}
