//! The session itself; see the module's text for its use.

use super::alloc::vec::Vec;

use forebay_units::FileId;
use forebay_wire::{
    Allocate, Attributes, Delivery, Done, FrameKind, Grant, HANDLES_MAX, Handle, Header, Hello,
    Hint, Opened, Place, Ranges, Read, ReadData, ReadList, Reply, Request, Small, StatusText,
    Truncate, VERSION, Welcome, Write, WriteData, WriteList,
};

use super::event::Event;
use super::files::Files;
use super::violation::Violation;
use crate::Payload;
use crate::assembly::{Assembly, Malformed, Sender};

/// What a client may do; told to it in the `Welcome`, but for the handles, which the protocol fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest payload in the frame of a write; at most [`forebay_wire::PAYLOAD_BYTES_MAX`].
    pub eager_bytes_max: u32,
    /// The longest payload of any other frame; 1 to [`forebay_wire::PAYLOAD_BYTES_MAX`].
    pub chunk_bytes_max: u32,
    /// How many requests may be unanswered at once; at least 1.
    pub requests_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { eager_bytes_max: 64 << 10, chunk_bytes_max: 1 << 20, requests_max: 64 }
    }
}

/// One connection, from the forwarder's side.
#[derive(Debug)]
pub struct Session<F> {
    assembly: Assembly<Vec<u8>>,
    state: State<F>,
}

/// Everything but the bytes, so that an event may borrow those while this changes.
#[derive(Debug)]
struct State<F> {
    limits: Limits,
    stage: Stage,
    payload: Option<Payload>,
    /// The last tag of a request.
    last_tag: Option<u64>,
    unanswered: Vec<Unanswered>,
    /// Grants that no payload has answered yet: the request's tag, and what was asked for.
    grants: Vec<(u64, Grant)>,
    files: Files<F>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    /// The `Hello` was received and waits for its `Welcome`.
    Greeted {
        tag: u64,
        version: u16,
    },
    Open,
    /// The `Bye` was received.
    Leaving,
    Over,
}

#[derive(Clone, Copy, Debug)]
struct Unanswered {
    tag: u64,
    asked: Asked,
}

/// What kind of answer a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Open,
    Read { bytes: u64 },
    Write { bytes: u64, delivery: Delivery },
    Stat,
    Text,
    Close(Handle),
    Other,
}

impl<F: Copy> Session<F> {
    /// A session that waits for its `Hello`.
    ///
    /// # Panics
    /// If the limits are not within theirs: a client would refuse the `Welcome`.
    pub fn new(limits: Limits) -> Self {
        let payload_lengths = 1..=forebay_wire::PAYLOAD_BYTES_MAX;
        assert!(
            payload_lengths.contains(&limits.chunk_bytes_max) && limits.requests_max > 0,
            "{limits:?}"
        );
        assert!(limits.eager_bytes_max <= *payload_lengths.end(), "{limits:?}");
        Self {
            assembly: Assembly::new(Sender::Client, Vec::new()),
            state: State {
                limits,
                stage: Stage::New,
                payload: None,
                last_tag: None,
                unanswered: Vec::new(),
                grants: Vec::new(),
                files: Files::new(),
            },
        }
    }

    /// The longest payload of a frame other than a write's.
    pub fn chunk_bytes_max(&self) -> u32 {
        self.state.limits.chunk_bytes_max
    }

    /// The payload that the stream brings next: of an eager write that was received, or of a grant.
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
    /// they ask for. `(0, None)` means that nothing goes on without more bytes, or that payload
    /// comes next, of which nothing is taken.
    ///
    /// # Errors
    /// The rule that the client broke. The session is over; tell the client why and hang up.
    pub fn receive<'s>(
        &'s mut self,
        input: &'s [u8],
    ) -> Result<(usize, Option<Event<'s, F>>), Violation> {
        if self.state.stage == Stage::Over {
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

    /// Answers the `Hello`; `session` names this session in reports.
    ///
    /// # Panics
    /// If there is no unanswered `Hello`.
    pub fn welcome(&mut self, session: u64) -> Small {
        let Stage::Greeted { tag, version } = self.state.stage else {
            panic!("no hello to answer")
        };
        self.state.stage = Stage::Open;
        let Limits { eager_bytes_max, chunk_bytes_max, requests_max } = self.state.limits;
        Reply::Welcome(Welcome { version, eager_bytes_max, chunk_bytes_max, requests_max, session })
            .encode_small(tag)
    }

    /// Answers an `Open`: the file is open, and the session keeps `file` until its close.
    ///
    /// # Panics
    /// If `tag` is not an unanswered `Open`.
    pub fn opened(&mut self, tag: u64, file: F, id: FileId) -> Small {
        let asked = self.state.answer(tag);
        assert_eq!(asked, Asked::Open, "request {tag} opens nothing");
        let handle = self.state.files.insert(file);
        Reply::Opened(Opened { handle, id }).encode_small(tag)
    }

    /// Asks for a part of a write's payload, which then comes as [`payload`](Session::payload).
    ///
    /// # Panics
    /// If `tag` is not an unanswered write that waits for grants, or the part is empty, longer
    /// than a chunk or not within the request.
    pub fn grant(&mut self, tag: u64, offset: u64, length: u32) -> Small {
        match self.state.asked(tag) {
            Asked::Write { bytes, delivery: Delivery::Granted } => {
                self.state.assert_within(bytes, offset, length)
            }
            asked => panic!("request {tag} takes no grants: {asked:?}"),
        }
        let grant = Grant { offset, length };
        self.state.grants.push((tag, grant));
        Reply::Grant(grant).encode_small(tag)
    }

    /// Announces a part of a read's data; the caller sends it right after.
    ///
    /// # Panics
    /// If `tag` is not an unanswered read, or the part is empty, longer than a chunk or not within
    /// the request.
    pub fn data(&mut self, tag: u64, offset: u64, length: u32) -> Small {
        match self.state.asked(tag) {
            Asked::Read { bytes } => self.state.assert_within(bytes, offset, length),
            asked => panic!("request {tag} takes no data: {asked:?}"),
        }
        Reply::ReadData(ReadData { offset, length }).encode_small(tag)
    }

    /// Answers a `Stat`.
    ///
    /// # Panics
    /// If `tag` is not an unanswered `Stat`.
    pub fn attributes(&mut self, tag: u64, attributes: Attributes) -> Small {
        let asked = self.state.answer(tag);
        assert_eq!(asked, Asked::Stat, "request {tag} asks for no attributes");
        Reply::Attributes(attributes).encode_small(tag)
    }

    /// Announces a part of the text that answers a `Status` or a `Control`, of at most a chunk, which
    /// the caller sends right after; without `more` to follow, it is the answer's end.
    ///
    /// # Panics
    /// If `tag` is not an unanswered `Status` or `Control`, or the part is longer than a chunk.
    pub fn status_text(&mut self, tag: u64, length: u32, more: bool) -> Small {
        let asked = if more { self.state.asked(tag) } else { self.state.answer(tag) };
        assert_eq!(asked, Asked::Text, "request {tag} asks for no text");
        assert!(
            length <= self.state.limits.chunk_bytes_max,
            "{length} bytes are more than a chunk"
        );
        Reply::StatusText(StatusText { length, more }).encode_small(tag)
    }

    /// Answers any request with its result; the only answer that says that something went wrong.
    ///
    /// # Panics
    /// If `tag` is not an unanswered request, or has open grants: their payload is on its way and
    /// has to be received first.
    pub fn done(&mut self, tag: u64, done: Done) -> Small {
        assert!(
            !self.state.grants.iter().any(|(granted, _)| *granted == tag),
            "request {tag} has open grants"
        );
        if let Asked::Close(handle) = self.state.answer(tag) {
            self.state.files.release(handle);
        }
        Reply::Done(done).encode_small(tag)
    }

    /// The requests that were received and not answered, oldest first.
    pub fn unanswered(&self) -> impl Iterator<Item = u64> {
        self.state.unanswered.iter().map(|request| request.tag)
    }

    /// The files that are open: what is to be closed when the connection ends.
    pub fn files(&self) -> impl Iterator<Item = F> {
        self.state.files.iter()
    }
}

fn receive<'s, F: Copy>(
    assembly: &'s mut Assembly<Vec<u8>>,
    state: &mut State<F>,
    input: &'s [u8],
) -> Result<(usize, Option<Event<'s, F>>), Violation> {
    let taken = assembly.take(input).map_err(|malformed| match malformed {
        Malformed::Header(error) => Violation::Header(error),
        Malformed::Body(kind, error) => Violation::Body(kind, error),
    })?;
    let Some((header, body)) = taken.frame else { return Ok((taken.consumed, None)) };
    let request =
        Request::decode(&header, body).map_err(|error| Violation::Body(header.kind, error))?;
    Ok((taken.consumed, state.accept(&header, request)?))
}

impl<F: Copy> State<F> {
    fn accept<'s>(
        &mut self,
        header: &Header,
        request: Request<'s>,
    ) -> Result<Option<Event<'s, F>>, Violation> {
        self.check_stage(header.kind)?;
        let tag = header.tag;
        if let Request::WriteData(data) = request {
            self.accept_data(tag, data)?;
            return Ok(None);
        }
        if let Some(last) = self.last_tag.filter(|last| tag <= *last) {
            return Err(Violation::TagNotIncreasing { tag, last });
        }
        self.last_tag = Some(tag);
        if let Request::Hello(hello) = request {
            return self.accept_hello(tag, hello).map(Some);
        }
        if self.unanswered.len() >= self.limits.requests_max as usize {
            return Err(Violation::TooManyRequests { max: self.limits.requests_max });
        }
        let event = self.accept_request(tag, request)?;
        self.unanswered.push(Unanswered { tag, asked: asked(&request) });
        let eager_bytes =
            u32::try_from(request.payload_bytes()).expect("checked against the eager limit");
        self.payload = Payload::begin(tag, 0, eager_bytes);
        Ok(Some(event))
    }

    fn check_stage(&self, kind: FrameKind) -> Result<(), Violation> {
        match (self.stage, kind) {
            (Stage::New, FrameKind::Hello) => Ok(()),
            (Stage::New | Stage::Greeted { .. }, kind) => Err(Violation::HelloExpected(kind)),
            (Stage::Open, FrameKind::Hello) => Err(Violation::HelloAgain),
            (Stage::Open, _) => Ok(()),
            // What was granted before the client left is still on its way.
            (Stage::Leaving, FrameKind::WriteData) => Ok(()),
            (Stage::Leaving, kind) => Err(Violation::AfterBye(kind)),
            (Stage::Over, _) => Err(Violation::Over),
        }
    }

    fn accept_hello<'s>(&mut self, tag: u64, hello: Hello<'s>) -> Result<Event<'s, F>, Violation> {
        let Hello { version_min: min, version_max: max, .. } = hello;
        if !(min..=max).contains(&VERSION) {
            return Err(Violation::Version { min, max });
        }
        self.stage = Stage::Greeted { tag, version: VERSION };
        Ok(Event::Hello(hello))
    }

    /// Payload answers a grant as a whole, and each grant once.
    fn accept_data(
        &mut self,
        tag: u64,
        WriteData { offset, length }: WriteData,
    ) -> Result<(), Violation> {
        let answered = (tag, Grant { offset, length });
        let grant_idx = self.grants.iter().position(|grant| *grant == answered);
        self.grants.swap_remove(grant_idx.ok_or(Violation::NotGranted { tag, offset, length })?);
        self.payload = Payload::begin(tag, offset, length);
        Ok(())
    }

    fn accept_request<'s>(
        &mut self,
        tag: u64,
        request: Request<'s>,
    ) -> Result<Event<'s, F>, Violation> {
        Ok(match request {
            Request::Open(open) => {
                self.check_room_for_file()?;
                Event::Open { tag, open }
            }
            Request::Read(Read { handle, range }) => {
                Event::Read { tag, file: self.file(handle)?, ranges: Ranges::one(range) }
            }
            Request::ReadList(ReadList { handle, ranges }) => {
                Event::Read { tag, file: self.file(handle)?, ranges }
            }
            Request::Write(Write { handle, range, place, delivery }) => {
                self.check_eager(&request)?;
                Event::Write {
                    tag,
                    file: self.file(handle)?,
                    ranges: Ranges::one(range),
                    place,
                    delivery,
                }
            }
            Request::WriteList(WriteList { handle, ranges, delivery }) => {
                self.check_eager(&request)?;
                Event::Write {
                    tag,
                    file: self.file(handle)?,
                    ranges,
                    place: Place::Range,
                    delivery,
                }
            }
            Request::Sync(handle) => Event::Sync { tag, file: self.file(handle)? },
            Request::DataSync(handle) => Event::DataSync { tag, file: self.file(handle)? },
            Request::Truncate(Truncate { handle, size }) => {
                Event::Truncate { tag, file: self.file(handle)?, size }
            }
            Request::Allocate(Allocate { handle, mode, range }) => {
                Event::Allocate { tag, file: self.file(handle)?, mode, range }
            }
            Request::Stat(handle) => Event::Stat { tag, file: self.file(handle)? },
            Request::Hint(Hint { handle, advice, range }) => {
                Event::Hint { tag, file: self.file(handle)?, advice, range }
            }
            Request::Close(handle) => {
                let file = self.files.close(handle).ok_or(Violation::UnknownHandle(handle))?;
                Event::Close { tag, file }
            }
            Request::Status => Event::Status { tag },
            Request::Control(control) => Event::Control { tag, control },
            Request::Bye(bye) => {
                self.stage = Stage::Leaving;
                Event::Bye { tag, bye }
            }
            Request::Hello(_) | Request::WriteData(_) => unreachable!("accepted elsewhere"),
        })
    }

    fn file(&self, handle: Handle) -> Result<F, Violation> {
        self.files.find(handle).ok_or(Violation::UnknownHandle(handle))
    }

    fn check_room_for_file(&self) -> Result<(), Violation> {
        let opening_count =
            self.unanswered.iter().filter(|request| request.asked == Asked::Open).count();
        if self.files.taken_count() + opening_count < HANDLES_MAX {
            Ok(())
        } else {
            Err(Violation::TooManyFiles { max: HANDLES_MAX })
        }
    }

    fn check_eager(&self, request: &Request<'_>) -> Result<(), Violation> {
        let (length, max) = (request.payload_bytes(), self.limits.eager_bytes_max);
        if length > u64::from(max) { Err(Violation::EagerTooLong { length, max }) } else { Ok(()) }
    }

    fn find(&self, tag: u64) -> usize {
        // Tags increase, so the list is in order of tags.
        let found = self.unanswered.binary_search_by_key(&tag, |request| request.tag);
        found.unwrap_or_else(|_| panic!("request {tag} is not unanswered"))
    }

    fn asked(&self, tag: u64) -> Asked {
        self.unanswered[self.find(tag)].asked
    }

    fn answer(&mut self, tag: u64) -> Asked {
        self.unanswered.remove(self.find(tag)).asked
    }

    fn assert_within(&self, bytes: u64, offset: u64, length: u32) {
        let is_within = offset.checked_add(u64::from(length)).is_some_and(|end| end <= bytes);
        assert!(is_within, "{length} bytes at {offset} are not within a request of {bytes}");
        let lengths = 1..=self.limits.chunk_bytes_max;
        assert!(lengths.contains(&length), "{length} bytes are no chunk of {lengths:?}");
    }
}

fn asked(request: &Request<'_>) -> Asked {
    let bytes = request.data_bytes();
    match *request {
        Request::Open(_) => Asked::Open,
        Request::Read(_) | Request::ReadList(_) => Asked::Read { bytes },
        Request::Write(Write { delivery, .. }) | Request::WriteList(WriteList { delivery, .. }) => {
            Asked::Write { bytes, delivery }
        }
        Request::Stat(_) => Asked::Stat,
        Request::Status | Request::Control(_) => Asked::Text,
        Request::Close(handle) => Asked::Close(handle),
        _ => Asked::Other,
    }
}
