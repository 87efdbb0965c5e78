//! One connection: its session, what it has asked for, and what waits to be sent to it.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use forebay_engine::store::OpenHow;
use forebay_engine::{Action, CallKey, Event, FileKey, Order, Origin, Ranges, Sink};
use forebay_session::server::{self, Limits, Session, Violation};
use forebay_transport::Stream;
use forebay_units::{Bytes, ClassId, ClientId, Nanos, Offset, Timestamp};
use forebay_wire::{Attributes, Delivery, Descriptor, Done, Place};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::outgoing::Outgoing;
use crate::shared::Shared;

/// Descriptors that may have arrived without the `Open` they belong to; a client sends one with each.
const DESCRIPTORS_MAX: usize = 64;

/// Bytes taken from one connection before the others get their turn.
const TURN_BYTES: usize = 4 << 20;

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The peer closed it or went away.
    Left,
    /// The peer broke the protocol.
    Violation,
    /// The peer owed something and did not move.
    Stalled,
}

pub(crate) struct Connection {
    key: u64,
    stream: Stream,
    session: Session<FileKey>,
    outgoing: Outgoing,
    /// Bytes received behind a payload for which there is no memory yet.
    pending: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    /// Calls that are not answered, by tag.
    calls: Vec<(u64, CallKey)>,
    bye: Option<Bye>,
    /// Waits for memory, so nothing is read.
    is_paused: bool,
    is_resumed: bool,
    has_said_hello: bool,
    introduction: Option<u64>,
    /// Payload that was asked for and has not come.
    owed_bytes: u64,
    last_progress: Timestamp,
    /// What epoll has been told to watch.
    pub(crate) watched: EventFlags,
}

/// A client that is leaving.
struct Bye {
    tag: u64,
    files_left: usize,
}

/// What a client asks for, freed from the bytes that it came in.
enum Asked {
    Hello { client: u64 },
    Open { tag: u64, flags: u32, descriptor: Descriptor, path: Vec<u8> },
    Call { tag: u64, file: FileKey, action: Action, ranges: Ranges, eager: bool },
    Stat { tag: u64, file: FileKey },
    Close { tag: u64, file: FileKey },
    Status { tag: u64 },
    Bye { tag: u64, reasons: Vec<(u8, u64)>, forwarded: u64 },
}

/// How far a connection came with its input.
enum Progress {
    /// All of it was taken.
    Taken,
    /// The rest has to wait for memory.
    Paused,
}

impl Connection {
    pub(crate) fn new(key: u64, stream: Stream, limits: Limits, now: Timestamp) -> Self {
        Self {
            key,
            stream,
            session: Session::new(limits),
            outgoing: Outgoing::default(),
            pending: Vec::new(),
            descriptors: VecDeque::new(),
            calls: Vec::new(),
            bye: None,
            is_paused: false,
            is_resumed: false,
            has_said_hello: false,
            introduction: None,
            owed_bytes: 0,
            last_progress: now,
            watched: EventFlags::IN,
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What epoll should watch for.
    pub(crate) fn interest(&self) -> EventFlags {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, !self.is_paused);
        wanted.set(EventFlags::OUT, !self.outgoing.is_empty());
        wanted
    }

    /// Whether memory has come for what waited for it, since the last question.
    pub(crate) fn take_resumed(&mut self) -> bool {
        std::mem::take(&mut self.is_resumed)
    }

    /// The client's name, once, after its hello.
    pub(crate) fn take_introduction(&mut self) -> Option<u64> {
        self.introduction.take()
    }

    /// Whether nothing would be read although the peer has hung up.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// How long the peer has owed something without moving; 0 if it owes nothing.
    pub(crate) fn stalled_for(&self, now: Timestamp) -> Nanos {
        let owes_payload = self.session.payload().is_some() && !self.is_paused;
        let owes = !self.outgoing.is_empty()
            || self.owed_bytes > 0
            || owes_payload
            || !self.has_said_hello;
        if owes { now - self.last_progress } else { Nanos::ZERO }
    }

    /// Takes what the peer has sent.
    pub(crate) fn read(&mut self, shared: &mut Shared) -> Result<(), Ending> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            if let Progress::Paused = self.take_input(&pending, shared)? {
                return Ok(());
            }
        }
        let mut scratch = std::mem::take(&mut shared.scratch);
        let outcome = self.read_stream(&mut scratch, shared);
        shared.scratch = scratch;
        outcome
    }

    fn read_stream(&mut self, scratch: &mut [u8], shared: &mut Shared) -> Result<(), Ending> {
        let mut taken_bytes = 0;
        while taken_bytes < TURN_BYTES && !self.is_paused {
            let (count, wanted) = match self.session.payload() {
                Some(_) => self.read_payload(scratch, shared)?,
                None => self.read_frames(scratch, shared)?,
            };
            taken_bytes += count;
            if count < wanted {
                break;
            }
        }
        if taken_bytes > 0 {
            self.last_progress = shared.now;
        }
        Ok(())
    }

    /// Receives payload straight into the memory it belongs in: how much came, of how much.
    fn read_payload(
        &mut self,
        scratch: &mut [u8],
        shared: &mut Shared,
    ) -> Result<(usize, usize), Ending> {
        let payload = self.session.payload().expect("the caller has looked");
        let Some(call) = self.find_call(payload.tag) else {
            // The call was refused, its payload is on its way all the same.
            let length = scratch.len().min(payload.length as usize);
            let count = receive(&self.stream, &mut scratch[..length])?;
            self.session.payload_received(count);
            return Ok((count, length));
        };
        let (count, length) = match shared.engine.sink(call, payload.offset) {
            Sink::Into(room) => {
                let length = room.len().min(payload.length as usize);
                (receive(&self.stream, &mut room[..length])?, length)
            }
            Sink::Wait => {
                self.is_paused = true;
                return Ok((0, 1));
            }
        };
        self.payload_moved(call, payload.offset, count, shared);
        Ok((count, length))
    }

    fn read_frames(
        &mut self,
        scratch: &mut [u8],
        shared: &mut Shared,
    ) -> Result<(usize, usize), Ending> {
        let count = if self.stream.carries_descriptors() {
            let received = self.stream.receive_with_descriptor(scratch);
            let received = match received {
                Err(Errno::AGAIN) => return Ok((0, 1)),
                other => other.map_err(|_| Ending::Left)?,
            };
            self.descriptors.extend(received.descriptor);
            if self.descriptors.len() > DESCRIPTORS_MAX {
                return Err(Ending::Violation);
            }
            if received.count == 0 {
                return Err(Ending::Left);
            }
            received.count
        } else {
            receive(&self.stream, scratch)?
        };
        self.take_input(&scratch[..count], shared)?;
        Ok((count, scratch.len()))
    }

    /// Takes bytes of the stream: frames, and payload into its memory.
    fn take_input(&mut self, mut input: &[u8], shared: &mut Shared) -> Result<Progress, Ending> {
        while !input.is_empty() {
            if let Some(payload) = self.session.payload() {
                let length = input.len().min(payload.length as usize);
                let taken = match self.find_call(payload.tag) {
                    None => {
                        self.session.payload_received(length);
                        length
                    }
                    Some(call) => match shared.engine.sink(call, payload.offset) {
                        Sink::Into(room) => {
                            let count = room.len().min(length);
                            room[..count].copy_from_slice(&input[..count]);
                            self.payload_moved(call, payload.offset, count, shared);
                            count
                        }
                        Sink::Wait => {
                            self.is_paused = true;
                            self.pending.extend_from_slice(input);
                            return Ok(Progress::Paused);
                        }
                    },
                };
                input = &input[taken..];
                continue;
            }
            let (consumed, asked) = match self.session.receive(input) {
                Ok((consumed, event)) => (consumed, event.map(Asked::from)),
                Err(violation) => return Err(self.refuse(&violation)),
            };
            input = &input[consumed..];
            if let Some(asked) = asked {
                self.accept(asked, shared);
            } else if consumed == 0 && self.session.payload().is_none() {
                break;
            }
        }
        Ok(Progress::Taken)
    }

    fn payload_moved(&mut self, call: CallKey, offset: u64, count: usize, shared: &mut Shared) {
        self.session.payload_received(count);
        self.owed_bytes = self.owed_bytes.saturating_sub(count as u64);
        shared.engine.filled(shared.now, call, offset, count, &mut shared.events);
    }

    fn accept(&mut self, asked: Asked, shared: &mut Shared) {
        match asked {
            Asked::Hello { client } => {
                self.has_said_hello = true;
                self.introduction = Some(client);
                self.outgoing.push(self.session.welcome(self.key));
            }
            Asked::Open { tag, flags, descriptor, path } => {
                self.open(tag, flags, descriptor, path, shared)
            }
            Asked::Call { tag, file, action, ranges, eager } => {
                self.call(tag, file, action, ranges, eager, shared);
            }
            Asked::Stat { tag, file } => match shared.engine.attributes(file) {
                Ok(found) => {
                    let attributes = Attributes {
                        size: found.size,
                        blocks_512: found.blocks_512,
                        modified_ns: found.modified_ns,
                    };
                    self.outgoing.push(self.session.attributes(tag, attributes));
                }
                Err(errno) => self.answer_errno(tag, errno),
            },
            Asked::Close { tag, file } => {
                let origin = self.origin(tag);
                shared.engine.close(file, Some(origin), &mut shared.events);
            }
            Asked::Status { tag } => self.send_status(tag, shared),
            Asked::Bye { tag, reasons, forwarded } => {
                shared.note_bye(&reasons, forwarded);
                let files: Vec<_> = self.session.files().collect();
                self.bye = Some(Bye { tag, files_left: files.len() });
                let origin = self.origin(tag);
                for file in files {
                    shared.engine.close(file, Some(origin), &mut shared.events);
                }
                self.answer_bye_if_quiet();
            }
        }
    }

    fn open(
        &mut self,
        tag: u64,
        flags: u32,
        descriptor: Descriptor,
        path: Vec<u8>,
        shared: &mut Shared,
    ) {
        let how = match descriptor {
            Descriptor::Sent => match self.descriptors.pop_front() {
                Some(descriptor) => OpenHow::Descriptor(descriptor),
                None => return self.answer_errno(tag, Errno::BADF),
            },
            Descriptor::Absent => OpenHow::Beneath {
                path: std::ffi::OsString::from_vec(path).into(),
                flags: flags.cast_signed(),
            },
        };
        match shared.engine.open(how) {
            Ok((file, id)) => self.outgoing.push(self.session.opened(tag, file, id)),
            Err(errno) => self.answer_errno(tag, errno),
        }
    }

    fn call(
        &mut self,
        tag: u64,
        file: FileKey,
        action: Action,
        ranges: Ranges,
        eager: bool,
        shared: &mut Shared,
    ) {
        let order = Order {
            origin: self.origin(tag),
            client: ClientId(self.key as u32),
            class: ClassId(0),
            file,
            action,
            ranges,
            eager,
        };
        match shared.engine.submit(shared.now, order, &mut shared.events) {
            Ok(call) => self.calls.push((tag, call)),
            Err(errno) => self.answer_errno(tag, errno),
        }
    }

    /// Takes an event of the engine for this connection.
    pub(crate) fn deliver(&mut self, event: Event) {
        match event {
            Event::Pull { origin, offset, length, .. } => {
                self.owed_bytes += length;
                let length = u32::try_from(length).expect("at most a chunk");
                self.outgoing.push(self.session.grant(origin.tag, offset, length));
            }
            Event::Resume { .. } => {
                self.is_paused = false;
                self.is_resumed = true;
            }
            Event::Data { origin, part, offset, buffer } => {
                let length = u32::try_from(buffer.len()).expect("at most a chunk");
                let head = self.session.data(origin.tag, offset, length);
                self.outgoing.push_data(head, buffer, part);
            }
            Event::Done { origin, outcome, end } => self.finish(origin.tag, outcome, end),
        }
    }

    fn finish(&mut self, tag: u64, outcome: Result<Bytes, Errno>, end: Offset) {
        self.calls.retain(|(other, _)| *other != tag);
        match &mut self.bye {
            Some(bye) if bye.tag == tag => bye.files_left -= 1,
            _ => {
                let done = match outcome {
                    Ok(bytes) => Done { errno: 0, bytes: bytes.0, end: end.0 },
                    Err(errno) => Done { errno: errno.raw_os_error(), bytes: 0, end: 0 },
                };
                self.outgoing.push(self.session.done(tag, done));
            }
        }
        self.answer_bye_if_quiet();
    }

    /// Answers a bye once everything before it is answered and closed.
    fn answer_bye_if_quiet(&mut self) {
        let Some(Bye { tag, files_left: 0 }) = self.bye else { return };
        if self.session.unanswered().eq([tag]) {
            self.bye = None;
            self.outgoing.push(self.session.done(tag, Done { errno: 0, bytes: 0, end: 0 }));
        }
    }

    fn answer_errno(&mut self, tag: u64, errno: Errno) {
        let done = Done { errno: errno.raw_os_error(), bytes: 0, end: 0 };
        self.outgoing.push(self.session.done(tag, done));
    }

    fn send_status(&mut self, tag: u64, shared: &Shared) {
        let text = serde_json::to_vec(&shared.status()).expect("a status is plain data");
        let chunk = self.session.chunk_bytes_max() as usize;
        let count = text.len().div_ceil(chunk).max(1);
        for (idx, part) in text.chunks(chunk).enumerate() {
            let length = u32::try_from(part.len()).expect("at most a chunk");
            self.outgoing.push(self.session.status_text(tag, length, idx + 1 < count));
            self.outgoing.push_long(part.into());
        }
    }

    /// Sends what the socket takes.
    pub(crate) fn write(&mut self, shared: &mut Shared) -> Result<(), Ending> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let engine = &mut shared.engine;
        let sent = self.outgoing.send(&self.stream, |part| engine.sent(part));
        match sent {
            Ok(count) => {
                if count > 0 {
                    self.last_progress = shared.now;
                }
                Ok(())
            }
            Err(_) => Err(Ending::Left),
        }
    }

    /// Gives back everything that the connection held.
    pub(crate) fn bury(self, shared: &mut Shared) {
        for (_, call) in &self.calls {
            shared.engine.abandon(shared.now, *call, &mut shared.events);
        }
        for file in self.session.files() {
            shared.engine.close(file, None, &mut shared.events);
        }
    }

    /// Tells the peer which rule it broke, as far as its socket takes it.
    fn refuse(&mut self, violation: &Violation) -> Ending {
        let _ = self.outgoing.send(&self.stream, |_| {});
        let _ = self.stream.send(&[IoSlice::new(&violation.refusal())]);
        Ending::Violation
    }

    fn find_call(&self, tag: u64) -> Option<CallKey> {
        self.calls.iter().find(|(other, _)| *other == tag).map(|(_, call)| *call)
    }

    fn origin(&self, tag: u64) -> Origin {
        Origin { connection: self.key, tag }
    }
}

/// Receives what is there; nothing there yet is 0, the end of the stream is an ending.
fn receive(stream: &Stream, room: &mut [u8]) -> Result<usize, Ending> {
    match stream.receive(&mut [IoSliceMut::new(room)]) {
        Ok(0) => Err(Ending::Left),
        Ok(count) => Ok(count),
        Err(Errno::AGAIN) => Ok(0),
        Err(_) => Err(Ending::Left),
    }
}

/// Turns somebody away before a session begins.
pub(crate) fn turn_away(stream: &Stream, errno: Errno, message: &str) {
    let _ = stream.send(&[IoSlice::new(&server::refusal(errno.raw_os_error(), message))]);
}

impl From<server::Event<'_, FileKey>> for Asked {
    fn from(event: server::Event<'_, FileKey>) -> Self {
        use server::Event as E;
        let control = |tag, file, action, range| Self::Call {
            tag,
            file,
            action,
            ranges: Ranges::One(range),
            eager: false,
        };
        let nowhere = forebay_units::ByteRange::default();
        match event {
            E::Hello(hello) => Self::Hello { client: hello.client },
            E::Open { tag, open } => Self::Open {
                tag,
                flags: open.flags,
                descriptor: open.descriptor,
                path: open.path.to_vec(),
            },
            E::Read { tag, file, ranges } => {
                Self::Call { tag, file, action: Action::Read, ranges: owned(ranges), eager: false }
            }
            E::Write { tag, file, ranges, place, delivery } => Self::Call {
                tag,
                file,
                action: match place {
                    Place::Range => Action::Write,
                    Place::End => Action::Append,
                },
                ranges: owned(ranges),
                eager: delivery == Delivery::Eager,
            },
            E::Sync { tag, file } => control(tag, file, Action::Sync, nowhere),
            E::DataSync { tag, file } => control(tag, file, Action::DataSync, nowhere),
            E::Truncate { tag, file, size } => control(tag, file, Action::Truncate(size), nowhere),
            E::Allocate { tag, file, mode, range } => {
                control(tag, file, Action::Allocate { mode }, range)
            }
            E::Hint { tag, file, advice, range } => {
                control(tag, file, Action::Advise { advice }, range)
            }
            E::Stat { tag, file } => Self::Stat { tag, file },
            E::Close { tag, file } => Self::Close { tag, file },
            E::Status { tag } => Self::Status { tag },
            E::Bye { tag, bye } => Self::Bye {
                tag,
                forwarded: bye.forwarded,
                reasons: bye.reasons.iter().map(|reason| (reason.reason, reason.calls)).collect(),
            },
        }
    }
}

fn owned(ranges: forebay_wire::Ranges<'_>) -> Ranges {
    let mut iter = ranges.iter();
    match (iter.next(), ranges.len()) {
        (Some(range), 1) => Ranges::One(range),
        _ => Ranges::Many(ranges.iter().collect()),
    }
}
