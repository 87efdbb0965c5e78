//! The session itself; see the module's text for its use.

use core::fmt;

use forebay_wire::{
    Attributes, Delivery, Done, FrameKind, Grant, HANDLES_MAX, HEADER_BYTES, Header, Opened,
    REPLY_BODY_BYTES_MAX, ReadData, Refused, Reply, Request, Small, StatusText, Welcome, Write,
    WriteData, WriteList,
};

use super::violation::Violation;
use crate::Payload;
use crate::assembly::{Assembly, Fixed, Malformed, Sender};

/// How many requests may be unanswered at once, unless the forwarder allows fewer.
pub const REQUESTS_MAX: usize = 16;

/// Something that the forwarder says.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The session is open, on these terms.
    Welcome(Welcome),
    /// An `Open` is answered.
    Opened {
        /// The request.
        tag: u64,
        /// The file.
        opened: Opened,
    },
    /// A part of a write's payload is asked for: send it with [`Session::write_data`].
    Grant(Granted),
    /// A `Stat` is answered.
    Attributes {
        /// The request.
        tag: u64,
        /// The answer.
        attributes: Attributes,
    },
    /// A part of the text that a `Status` or a `Control` asked for comes next in the stream; without more to follow, it is the last.
    StatusText {
        /// The request.
        tag: u64,
        /// The part.
        text: StatusText,
    },
    /// A request is answered.
    Done {
        /// The request.
        tag: u64,
        /// Its result.
        done: Done,
    },
    /// The session is over, and why.
    Refused(Refused<'a>),
}

/// A part of a write's payload that the forwarder waits for; spent by sending it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the forwarder waits for this payload"]
pub struct Granted {
    tag: u64,
    grant: Grant,
}

impl Granted {
    /// The write.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Where the part begins, counted from the request's first byte.
    pub fn offset(&self) -> u64 {
        self.grant.offset
    }

    /// How long it is.
    pub fn length(&self) -> u32 {
        self.grant.length
    }
}

/// Why a request cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// There is no `Welcome` yet, or there has been a `Bye` (for a `Hello`: it was sent before).
    OutOfPlace,
    /// As many requests are unanswered as may be: receive until one is answered.
    Busy,
    /// As many files are open as may be.
    TooManyFiles,
    /// The request breaks a limit of the protocol, or its eager payload one of the session.
    Limit,
    /// The session is over.
    Over,
}

/// One connection, from the client's side.
#[derive(Debug)]
pub struct Session {
    assembly: Assembly<Fixed<{ HEADER_BYTES + REPLY_BODY_BYTES_MAX }>>,
    state: State,
}

/// Everything but the bytes, so that an event may borrow those while this changes.
#[derive(Debug)]
struct State {
    stage: Stage,
    payload: Option<Payload>,
    last_tag: u64,
    /// Handles that are open, being opened or being closed.
    files_count: usize,
    unanswered: [Option<Unanswered>; REQUESTS_MAX],
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    New,
    Greeting { tag: u64, version_min: u16, version_max: u16 },
    Open(Welcome),
    Leaving(Welcome),
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Unanswered {
    tag: u64,
    asked: Asked,
    /// Bytes of data that the request moves.
    bytes: u64,
    /// Bytes that were received, or granted.
    moved: u64,
    /// Bytes that were granted and not sent.
    owed: u64,
}

/// What kind of answer a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Open,
    Read,
    Write(Delivery),
    Stat,
    Text,
    Close,
    Other,
}

impl Session {
    /// A session that has yet to send its `Hello`.
    pub const fn new() -> Self {
        Self {
            assembly: Assembly::new(Sender::Forwarder, Fixed::new()),
            state: State {
                stage: Stage::New,
                payload: None,
                last_tag: 0,
                files_count: 0,
                unanswered: [None; REQUESTS_MAX],
            },
        }
    }

    /// Takes a request on and says its tag. The caller then encodes it with that tag and sends it,
    /// with its payload if that is eager; frames are sent in the order of their tags.
    ///
    /// # Errors
    /// Why it cannot be sent; nothing has changed then.
    pub fn begin(&mut self, request: &Request<'_>) -> Result<u64, Unsendable> {
        self.state.begin(request)
    }

    /// The frame that goes before a part of payload that was asked for; the caller sends the part right after.
    pub fn write_data(&mut self, granted: Granted) -> Small {
        let Granted { tag, grant: Grant { offset, length } } = granted;
        if let Some(write) =
            self.state.unanswered.iter_mut().flatten().find(|request| request.tag == tag)
        {
            write.owed = write.owed.saturating_sub(u64::from(length));
        }
        Request::WriteData(WriteData { offset, length }).encode_small(tag)
    }

    /// The payload that the stream brings next: a read's data, or status text.
    pub fn payload(&self) -> Option<Payload> {
        self.state.payload
    }

    /// Says that the caller has taken `count` bytes of payload from the stream.
    ///
    /// # Panics
    /// If that is more than [`payload`](Session::payload) announced.
    pub fn payload_received(&mut self, count: usize) {
        self.state.payload = Payload::advance(self.state.payload, count);
    }

    /// Takes bytes of the stream, at most one frame's header and body, and says how many and what
    /// they say. `(0, None)` means that nothing goes on without more bytes, or that payload comes
    /// next, of which nothing is taken.
    ///
    /// # Errors
    /// The rule that the forwarder broke. The session is over.
    pub fn receive<'s>(
        &'s mut self,
        input: &'s [u8],
    ) -> Result<(usize, Option<Event<'s>>), Violation> {
        if matches!(self.state.stage, Stage::Over) {
            return Err(Violation::Over);
        }
        if self.state.payload.is_some() {
            return Ok((0, None));
        }
        let received = receive(&mut self.assembly, &mut self.state, input);
        if received.is_err() {
            self.state.stage = Stage::Over;
        }
        received
    }

    /// The session's terms, once it is open.
    pub fn terms(&self) -> Option<Welcome> {
        match self.state.stage {
            Stage::Open(terms) | Stage::Leaving(terms) => Some(terms),
            Stage::New | Stage::Greeting { .. } | Stage::Over => None,
        }
    }

    /// The tags of the requests that are not answered, in no order.
    pub fn unanswered(&self) -> impl Iterator<Item = u64> {
        self.state.unanswered.iter().flatten().map(|request| request.tag)
    }

    /// How many requests can be sent before one is answered.
    pub fn room(&self) -> usize {
        self.state.room()
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

fn receive<'s>(
    assembly: &'s mut Assembly<Fixed<{ HEADER_BYTES + REPLY_BODY_BYTES_MAX }>>,
    state: &mut State,
    input: &'s [u8],
) -> Result<(usize, Option<Event<'s>>), Violation> {
    let taken = assembly.take(input).map_err(|malformed| match malformed {
        Malformed::Header(error) => Violation::Header(error),
        Malformed::Body(kind, error) => Violation::Body(kind, error),
    })?;
    let Some((header, body)) = taken.frame else { return Ok((taken.consumed, None)) };
    let reply =
        Reply::decode(&header, body).map_err(|error| Violation::Body(header.kind, error))?;
    Ok((taken.consumed, state.accept(&header, reply)?))
}

impl State {
    fn begin(&mut self, request: &Request<'_>) -> Result<u64, Unsendable> {
        let tag = self.last_tag + 1;
        if !request.is_within_limits() || matches!(request, Request::WriteData(_)) {
            return Err(Unsendable::Limit);
        }
        match (self.stage, request) {
            (Stage::Over, _) => return Err(Unsendable::Over),
            (Stage::New, Request::Hello(hello)) => {
                let (version_min, version_max) = (hello.version_min, hello.version_max);
                self.stage = Stage::Greeting { tag, version_min, version_max };
            }
            (Stage::Open(terms), request) if !matches!(request, Request::Hello(_)) => {
                self.take_on(tag, request, &terms)?;
                if matches!(request, Request::Bye(_)) {
                    self.stage = Stage::Leaving(terms);
                }
            }
            _ => return Err(Unsendable::OutOfPlace),
        }
        self.last_tag = tag;
        Ok(tag)
    }

    fn take_on(
        &mut self,
        tag: u64,
        request: &Request<'_>,
        terms: &Welcome,
    ) -> Result<(), Unsendable> {
        let asked = asked(request);
        if request.payload_bytes() > u64::from(terms.eager_bytes_max) {
            return Err(Unsendable::Limit);
        }
        if asked == Asked::Open && self.files_count >= HANDLES_MAX {
            return Err(Unsendable::TooManyFiles);
        }
        if self.room() == 0 {
            return Err(Unsendable::Busy);
        }
        let free =
            self.unanswered.iter_mut().find(|slot| slot.is_none()).ok_or(Unsendable::Busy)?;
        *free = Some(Unanswered { tag, asked, bytes: request.data_bytes(), moved: 0, owed: 0 });
        self.files_count += usize::from(asked == Asked::Open);
        Ok(())
    }

    fn room(&self) -> usize {
        let Stage::Open(terms) = self.stage else { return 0 };
        let most = REQUESTS_MAX.min(terms.requests_max as usize);
        most.saturating_sub(self.unanswered.iter().flatten().count())
    }

    fn accept<'s>(
        &mut self,
        header: &Header,
        reply: Reply<'s>,
    ) -> Result<Option<Event<'s>>, Violation> {
        let Header { kind, tag, .. } = *header;
        if let Reply::Refused(refused) = reply {
            self.stage = Stage::Over;
            return Ok(Some(Event::Refused(refused)));
        }
        match (self.stage, reply) {
            (Stage::Greeting { tag: asked, version_min, version_max }, Reply::Welcome(welcome))
                if asked == tag =>
            {
                if !(version_min..=version_max).contains(&welcome.version) {
                    return Err(Violation::Version(welcome.version));
                }
                self.stage = Stage::Open(welcome);
                Ok(Some(Event::Welcome(welcome)))
            }
            (Stage::Open(terms) | Stage::Leaving(terms), reply) if kind != FrameKind::Welcome => {
                self.accept_answer(header, reply, &terms)
            }
            _ => Err(Violation::Unwelcome(kind)),
        }
    }

    fn accept_answer<'s>(
        &mut self,
        &Header { kind, tag, .. }: &Header,
        reply: Reply<'s>,
        terms: &Welcome,
    ) -> Result<Option<Event<'s>>, Violation> {
        let request = self.unanswered.iter_mut().flatten().find(|request| request.tag == tag);
        let request = request.ok_or(Violation::UnknownTag(kind, tag))?;
        let event = match (request.asked, reply) {
            (Asked::Write(Delivery::Granted), Reply::Grant(grant)) => {
                request.moves(kind, grant.offset, grant.length, terms)?;
                request.owed += u64::from(grant.length);
                return Ok(Some(Event::Grant(Granted { tag, grant })));
            }
            (Asked::Read, Reply::ReadData(ReadData { offset, length })) => {
                request.moves(kind, offset, length, terms)?;
                self.payload = Payload::begin(tag, offset, length);
                return Ok(None);
            }
            (Asked::Text, Reply::StatusText(text)) => {
                if text.length > terms.chunk_bytes_max {
                    return Err(Violation::BeyondRequest(kind, tag));
                }
                self.payload = Payload::begin(tag, request.moved, text.length);
                request.moved += u64::from(text.length);
                if text.more {
                    return Ok(Some(Event::StatusText { tag, text }));
                }
                Event::StatusText { tag, text }
            }
            (Asked::Open, Reply::Opened(opened)) => Event::Opened { tag, opened },
            (Asked::Stat, Reply::Attributes(attributes)) => Event::Attributes { tag, attributes },
            (asked, Reply::Done(done)) => {
                request.check_done(done)?;
                let is_file_gone = matches!(asked, Asked::Open | Asked::Close);
                self.files_count -= usize::from(is_file_gone);
                Event::Done { tag, done }
            }
            _ => return Err(Violation::WrongAnswer(kind, tag)),
        };
        self.answered(tag);
        Ok(Some(event))
    }

    fn answered(&mut self, tag: u64) {
        for slot in &mut self.unanswered {
            if slot.is_some_and(|request| request.tag == tag) {
                *slot = None;
            }
        }
    }
}

impl Unanswered {
    /// Takes note that a part of the request's data moves, in one direction or the other.
    fn moves(
        &mut self,
        kind: FrameKind,
        offset: u64,
        length: u32,
        terms: &Welcome,
    ) -> Result<(), Violation> {
        let length_u64 = u64::from(length);
        let is_within = offset.saturating_add(length_u64) <= self.bytes
            && self.moved + length_u64 <= self.bytes;
        if !is_within || length > terms.chunk_bytes_max {
            return Err(Violation::BeyondRequest(kind, self.tag));
        }
        self.moved += length_u64;
        Ok(())
    }

    fn check_done(&self, done: Done) -> Result<(), Violation> {
        let has_own_answer = matches!(self.asked, Asked::Open | Asked::Stat | Asked::Text);
        if has_own_answer && done.errno == 0 {
            return Err(Violation::WrongAnswer(FrameKind::Done, self.tag));
        }
        if self.owed > 0 {
            return Err(Violation::DoneTooEarly(self.tag));
        }
        let bytes_max = match self.asked {
            Asked::Write(Delivery::Eager) => self.bytes,
            Asked::Read | Asked::Write(Delivery::Granted) => self.moved,
            _ => 0,
        };
        if done.bytes > bytes_max {
            return Err(Violation::BeyondRequest(FrameKind::Done, self.tag));
        }
        Ok(())
    }
}

fn asked(request: &Request<'_>) -> Asked {
    match *request {
        Request::Open(_) => Asked::Open,
        Request::Read(_) | Request::ReadList(_) => Asked::Read,
        Request::Write(Write { delivery, .. }) | Request::WriteList(WriteList { delivery, .. }) => {
            Asked::Write(delivery)
        }
        Request::Stat(_) => Asked::Stat,
        Request::Status | Request::Control(_) => Asked::Text,
        Request::Close(_) => Asked::Close,
        _ => Asked::Other,
    }
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfPlace => "the session is not open for requests",
            Self::Busy => "as many requests are unanswered as may be",
            Self::TooManyFiles => "as many files are open as may be",
            Self::Limit => "the request breaks a limit",
            Self::Over => "the session is over",
        })
    }
}

impl core::error::Error for Unsendable {}
