//! One connection: its session, what it has asked for, and what waits to be sent to it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use forebay_engine::store::OpenHow;
use forebay_engine::{Action, CallKey, Event, FileKey, Order, Origin, Ranges, Sink};
use forebay_sched::OTHER_CLASS;
use forebay_session::server::{Limits, Session, Violation};
use forebay_trace::Named;
use forebay_transport::Stream;
use forebay_units::{Bytes, ClassId, ClientId, Nanos, Offset, Timestamp};
use forebay_wire::{Attributes, Descriptor, Done};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::asked::Asked;
use crate::outgoing::Outgoing;
use crate::progress::Progress;
use crate::rights::Rights;
use crate::shared::Shared;
use crate::sharing::{self, Identity};
use crate::socket::{Received, receive, turn_away};

/// Descriptors that may have arrived without the `Open` they belong to; a client sends one with each.
const DESCRIPTORS_MAX: usize = 64;

/// Bytes taken from one connection before the others get their turn.
const TURN_BYTES: usize = 4 << 20;

/// Requests taken from one connection before the others get their turn.
const TURN_REQUESTS: usize = 64;

/// Answers that may wait for a peer to take them before nothing more is read from it.
const FRAMES_MAX: usize = 256;

/// Bytes of texts that may wait for a peer to take them before nothing more is read from it; one
/// text may exceed them.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Ranges of unanswered requests beyond which nothing more is read from a peer.
const RANGES_MAX: usize = 16_384;

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
    /// A descriptor came for which there was no room.
    has_lost_descriptor: bool,
    rights: Rights,
    /// Calls that are not answered, in the order of their tags.
    calls: Vec<Call>,
    bye: Option<Bye>,
    /// The status was asked for, with this tag; nothing more is read until the answer is there.
    status_asked: Option<u64>,
    /// Waits for memory, so nothing is read.
    is_paused: bool,
    /// Requests that may still be taken in this turn.
    requests_left: usize,
    /// Who it is, after its hello.
    who: Option<Who>,
    /// Payload that was asked for and has not come.
    owed_bytes: u64,
    input: Progress,
    output: Progress,
    /// What epoll has been told to watch.
    pub(crate) watched: EventFlags,
}

/// Who a peer is.
#[derive(Clone, Copy)]
struct Who {
    /// The number that the process gave itself.
    process: u64,
    /// What the scheduler knows it as.
    client: ClientId,
    class: ClassId,
}

/// A call that is not answered.
struct Call {
    tag: u64,
    key: CallKey,
    /// Memory that a read may hold.
    claimed_bytes: u64,
    ranges_count: usize,
}

/// A client that is leaving.
struct Bye {
    tag: u64,
    files_left: usize,
}

impl Connection {
    pub(crate) fn new(
        key: u64,
        stream: Stream,
        limits: Limits,
        rights: Rights,
        now: Timestamp,
    ) -> Self {
        Self {
            key,
            stream,
            session: Session::new(limits),
            outgoing: Outgoing::default(),
            pending: Vec::new(),
            descriptors: VecDeque::new(),
            has_lost_descriptor: false,
            rights,
            calls: Vec::new(),
            bye: None,
            status_asked: None,
            is_paused: false,
            requests_left: TURN_REQUESTS,
            who: None,
            owed_bytes: 0,
            input: Progress::start(now),
            output: Progress::start(now),
            watched: EventFlags::IN,
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What epoll should watch for.
    pub(crate) fn interest(&self, shared: &Shared) -> EventFlags {
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, self.pending.is_empty() && self.may_read(shared));
        wanted.set(EventFlags::OUT, !self.outgoing.is_empty());
        wanted
    }

    /// Whether input is there that could be taken without waiting for the socket.
    pub(crate) fn has_more(&self, shared: &Shared) -> bool {
        !self.pending.is_empty() && self.may_read(shared)
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether nothing would be read although the peer has hung up.
    pub(crate) fn is_deaf(&self, shared: &Shared) -> bool {
        !self.may_read(shared)
    }

    /// How long the peer has owed something without moving; 0 if it owes nothing.
    pub(crate) fn stalled_for(&self, shared: &Shared) -> Nanos {
        let owes_payload = self.owed_bytes > 0 || self.session.payload().is_some();
        let owes_input = self.who.is_none() || (owes_payload && self.may_read(shared));
        let input = if owes_input { shared.now - self.input.since } else { Nanos::ZERO };
        let owes_output = !self.outgoing.is_empty();
        let output = if owes_output { shared.now - self.output.since } else { Nanos::ZERO };
        input.max(output)
    }

    /// Whether anything is read now: payload unless there is no memory for it, requests unless the
    /// peer has too much unanswered or untaken already.
    fn may_read(&self, shared: &Shared) -> bool {
        !self.is_paused && (self.session.payload().is_some() || self.may_ask(shared))
    }

    fn may_ask(&self, shared: &Shared) -> bool {
        let claimed: u64 = self.calls.iter().map(|call| call.claimed_bytes).sum();
        let ranges: usize = self.calls.iter().map(|call| call.ranges_count).sum();
        !shared.is_stopping
            && self.outgoing.frames_count() < FRAMES_MAX
            && self.outgoing.text_bytes() < TEXT_BYTES_MAX
            && self.status_asked.is_none()
            && claimed + self.outgoing.payload_bytes() < shared.read_share_bytes
            && ranges < RANGES_MAX
    }

    /// Takes what the peer has sent, as much as its turn allows.
    pub(crate) fn read(&mut self, shared: &mut Shared) -> Result<(), Ending> {
        self.requests_left = TURN_REQUESTS;
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.take_input(&pending, shared)?;
        }
        let mut scratch = std::mem::take(&mut shared.scratch);
        let outcome = self.read_stream(&mut scratch, shared);
        shared.scratch = scratch;
        outcome
    }

    fn read_stream(&mut self, scratch: &mut [u8], shared: &mut Shared) -> Result<(), Ending> {
        let mut taken_bytes = 0;
        while taken_bytes < TURN_BYTES && self.pending.is_empty() && self.may_read(shared) {
            let received = match self.session.payload() {
                Some(_) => self.read_payload(scratch, shared)?,
                None => self.read_frames(scratch, shared)?,
            };
            taken_bytes += received.count;
            if received.is_drained {
                break;
            }
        }
        Ok(())
    }

    /// Receives payload straight into the memory it belongs in.
    fn read_payload(
        &mut self,
        scratch: &mut [u8],
        shared: &mut Shared,
    ) -> Result<Received, Ending> {
        let payload = self.session.payload().expect("the caller has looked");
        let Some(call) = self.find_call(payload.tag) else {
            // The call was refused, its payload is on its way all the same.
            let length = scratch.len().min(payload.length as usize);
            let received = receive(&self.stream, &mut scratch[..length])?;
            self.session.payload_received(received.count);
            return Ok(received);
        };
        let received = match shared.engine.sink(call, payload.offset) {
            Sink::Into(room) => {
                let length = room.len().min(payload.length as usize);
                receive(&self.stream, &mut room[..length])?
            }
            Sink::Wait => {
                self.is_paused = true;
                return Ok(Received { count: 0, is_drained: true });
            }
        };
        self.payload_moved(call, payload.offset, received.count, shared);
        Ok(received)
    }

    fn read_frames(&mut self, scratch: &mut [u8], shared: &mut Shared) -> Result<Received, Ending> {
        let received = if self.stream.carries_descriptors() {
            self.receive_with_descriptor(scratch)?
        } else {
            receive(&self.stream, scratch)?
        };
        self.take_input(&scratch[..received.count], shared)?;
        Ok(received)
    }

    fn receive_with_descriptor(&mut self, scratch: &mut [u8]) -> Result<Received, Ending> {
        let received = match self.stream.receive_with_descriptor(scratch) {
            Err(Errno::AGAIN) => return Ok(Received { count: 0, is_drained: true }),
            Err(_) => return Err(Ending::Left),
            Ok(received) if received.count == 0 => return Err(Ending::Left),
            Ok(received) => received,
        };
        self.descriptors.extend(received.descriptor);
        self.has_lost_descriptor |= received.is_descriptor_lost;
        if self.descriptors.len() > DESCRIPTORS_MAX {
            turn_away(&self.stream, Errno::PROTO, "more descriptors than opens");
            return Err(Ending::Violation);
        }
        Ok(Received { count: received.count, is_drained: received.count < scratch.len() })
    }

    /// Takes bytes of the stream: frames, and payload into its memory. What cannot be taken yet is
    /// kept for later.
    fn take_input(&mut self, mut input: &[u8], shared: &mut Shared) -> Result<(), Ending> {
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
                            return Ok(());
                        }
                    },
                };
                input = &input[taken..];
                continue;
            }
            if self.requests_left == 0 || !self.may_ask(shared) {
                self.pending.extend_from_slice(input);
                return Ok(());
            }
            let (consumed, asked) = match self.session.receive(input) {
                Ok((consumed, event)) => (consumed, event.map(Asked::from)),
                Err(violation) => return Err(self.refuse(&violation)),
            };
            input = &input[consumed..];
            if let Some(asked) = asked {
                self.requests_left -= 1;
                self.accept(asked, shared);
            } else if consumed == 0 && self.session.payload().is_none() {
                break;
            }
        }
        Ok(())
    }

    fn payload_moved(&mut self, call: CallKey, offset: u64, count: usize, shared: &mut Shared) {
        self.session.payload_received(count);
        self.owed_bytes = self.owed_bytes.saturating_sub(count as u64);
        self.input.note(count, shared.now);
        shared.engine.filled(shared.now, call, offset, count, &mut shared.events);
    }

    fn accept(&mut self, asked: Asked, shared: &mut Shared) {
        match asked {
            Asked::Hello { process, user, job, name } => {
                let identity = Identity::new(self.rights.user.unwrap_or(user), &job);
                let class = shared.sharing.enter(&mut shared.engine, shared.now, identity);
                let client = shared.enter(process);
                shared.engine.note_name(Named::Client(client), &name);
                self.who = Some(Who { process, client, class });
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
            Asked::Status { tag } => {
                self.status_asked = Some(tag);
                shared.status_asked.push(self.key);
            }
            Asked::Control { tag, .. } if !self.rights.may_control => {
                self.answer_errno(tag, Errno::PERM);
            }
            Asked::Control { tag, text } => {
                let answer = shared.sharing.control(&mut shared.engine, shared.now, &text);
                let text = serde_json::to_vec(&answer).expect("an answer is plain data");
                self.send_text(tag, &text.into());
            }
            Asked::Bye { tag, reasons } => {
                shared.note_bye(&reasons);
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
                None if std::mem::take(&mut self.has_lost_descriptor) => {
                    return self.answer_errno(tag, Errno::MFILE);
                }
                None => return self.answer_errno(tag, Errno::BADF),
            },
            Descriptor::Absent if !self.rights.may_open_paths => {
                return self.answer_errno(tag, Errno::ACCESS);
            }
            Descriptor::Absent => OpenHow::Beneath {
                path: std::ffi::OsString::from_vec(path).into(),
                flags: flags.cast_signed(),
            },
        };
        let name = sharing::name_of(&how);
        match shared.engine.open(how) {
            Ok((file, id)) => {
                shared.sharing.opened(&shared.engine, id, name);
                self.outgoing.push(self.session.opened(tag, file, id));
            }
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
        let claimed_bytes = match action {
            Action::Read => ranges.length().min(shared.read_window_bytes),
            _ => 0,
        };
        let ranges_count = ranges.count();
        if eager {
            self.input = Progress::start(shared.now);
        }
        let order = Order {
            origin: self.origin(tag),
            client: self.who.map_or(ClientId(u32::MAX), |who| who.client),
            class: self.who.map_or(OTHER_CLASS, |who| shared.sharing.class_of(who.class, &ranges)),
            file,
            action,
            ranges,
            eager,
        };
        match shared.engine.submit(shared.now, order, &mut shared.events) {
            Ok(key) => self.calls.push(Call { tag, key, claimed_bytes, ranges_count }),
            Err(errno) => self.answer_errno(tag, errno),
        }
    }

    /// Takes an event of the engine for this connection.
    pub(crate) fn deliver(&mut self, event: Event, now: Timestamp) {
        if self.outgoing.is_empty() {
            self.output = Progress::start(now);
        }
        match event {
            Event::Pull { origin, offset, length, .. } => {
                if self.owed_bytes == 0 {
                    self.input = Progress::start(now);
                }
                self.owed_bytes += length;
                let length = u32::try_from(length).expect("at most a chunk");
                self.outgoing.push(self.session.grant(origin.tag, offset, length));
            }
            Event::Resume { .. } => {
                self.is_paused = false;
                self.input = Progress::start(now);
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
        if let Ok(idx) = self.calls.binary_search_by_key(&tag, |call| call.tag) {
            self.calls.remove(idx);
        }
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

    /// Answers what was asked about the status.
    pub(crate) fn send_status(&mut self, text: &Arc<[u8]>, now: Timestamp) {
        if self.outgoing.is_empty() {
            self.output = Progress::start(now);
        }
        if let Some(tag) = self.status_asked.take() {
            self.send_text(tag, text);
        }
        self.answer_bye_if_quiet();
    }

    fn send_text(&mut self, tag: u64, text: &Arc<[u8]>) {
        let chunk = self.session.chunk_bytes_max() as usize;
        let count = text.len().div_ceil(chunk).max(1);
        for idx in 0..count {
            let part = idx * chunk..((idx + 1) * chunk).min(text.len());
            let length = u32::try_from(part.len()).expect("at most a chunk");
            self.outgoing.push(self.session.status_text(tag, length, idx + 1 < count));
            self.outgoing.push_text(text.clone(), part);
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
                self.output.note(count, shared.now);
                Ok(())
            }
            Err(_) => Err(Ending::Left),
        }
    }

    /// Tells the peer that the forwarder stops, unless it is in the middle of a frame.
    pub(crate) fn tell_stop(&self) {
        if self.outgoing.is_empty() {
            turn_away(&self.stream, Errno::SHUTDOWN, "the forwarder stops");
        }
    }

    /// Gives back everything that the connection held.
    pub(crate) fn bury(self, shared: &mut Shared) {
        for call in &self.calls {
            shared.engine.abandon(shared.now, call.key, &mut shared.events);
        }
        if let Some(Who { process, class, .. }) = self.who {
            shared.leave(process);
            shared.sharing.leave(class);
        }
        for file in self.session.files() {
            shared.engine.close(file, None, &mut shared.events);
        }
    }

    /// Tells the peer which rule it broke, as far as its socket takes it.
    fn refuse(&mut self, violation: &Violation) -> Ending {
        let _ = self.outgoing.send(&self.stream, |_| {});
        if self.outgoing.is_empty() {
            let _ = self.stream.send(&[IoSlice::new(&violation.refusal())]);
        }
        Ending::Violation
    }

    fn find_call(&self, tag: u64) -> Option<CallKey> {
        let found = self.calls.binary_search_by_key(&tag, |call| call.tag);
        found.ok().map(|idx| self.calls[idx].key)
    }

    fn origin(&self, tag: u64) -> Origin {
        Origin { connection: self.key, tag }
    }
}
