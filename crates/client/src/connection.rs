//! The requests of the protocol as calls.

use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::time::Duration;

use forebay_transport::{Endpoint, Ready, Stream};
use forebay_units::{ByteRange, Bytes, Offset};
use forebay_wire::{
    Allocate, Attributes, Bye, Control, Delivery, Descriptor, Done, Handle, Hello, Hint, Open,
    Opened, PATH_BYTES_MAX, Ranges, Read, ReadList, Request, Truncate, VERSION, Write, WriteList,
};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Loss};
use crate::memory::{Destination, Memory, Source, Transfers};
use crate::pump::{Answer, Pump, Ticket};

/// Who a client is, as the forwarder's reports and classes call it. Names beyond 64 bytes are cut off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Who<'a> {
    /// The job it belongs to.
    pub job: &'a [u8],
    /// The program's name.
    pub program: &'a [u8],
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// For anything to move, once connected.
    pub progress: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), progress: Duration::from_secs(30) }
    }
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To an offset.
    At(Offset),
    /// To the end of the file, wherever that is then.
    End,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes written, from the request's first on without a gap.
    pub bytes: Bytes,
    /// For an append, the file position after it.
    pub end: Offset,
}

/// The result of a request that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which request.
    pub ticket: Ticket,
    /// What it did, or the store's error.
    pub result: Result<Written, Errno>,
}

/// A connection to a forwarder. After an error other than [`Error::Errno`] or
/// [`Error::Unsendable`] it is of no use any more.
///
/// The calls that wait are for a connection on which nothing else was started.
#[derive(Debug)]
pub struct Connection {
    pump: Pump,
}

impl Connection {
    /// Connects and says hello.
    ///
    /// # Errors
    /// [`Error::Connect`] or [`Error::Lost`], within the limits.
    pub fn connect(endpoint: &Endpoint, who: &Who<'_>, limits: Limits) -> Result<Self, Error> {
        Self::hello(Stream::connect(endpoint, limits.connect).map_err(Error::Connect)?, who, limits)
    }

    /// As [`connect`](Self::connect), with a socket numbered `number_min` or more where that can be
    /// had: programs expect the lowest free numbers for themselves.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_above(
        endpoint: &Endpoint,
        who: &Who<'_>,
        limits: Limits,
        number_min: RawFd,
    ) -> Result<Self, Error> {
        let stream = Stream::connect(endpoint, limits.connect).map_err(Error::Connect)?;
        let stream = match rustix::io::fcntl_dupfd_cloexec(&stream, number_min) {
            Ok(socket) => stream.with_socket(socket),
            Err(_) => stream,
        };
        Self::hello(stream, who, limits)
    }

    fn hello(stream: Stream, who: &Who<'_>, limits: Limits) -> Result<Self, Error> {
        let mut client = [0; 8];
        getrandom(&mut client, GetRandomFlags::empty()).map_err(Error::Connect)?;
        let hello = Request::Hello(Hello {
            version_min: VERSION,
            version_max: VERSION,
            client: u64::from_ne_bytes(client),
            pid: rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
            uid: rustix::process::getuid().as_raw(),
            job: cut_name(who.job),
            program: cut_name(who.program),
        });
        let mut this = Self { pump: Pump::new(stream, limits.progress) };
        this.pump.begin_long(&hello, None, &mut [0; 256], &mut Nothing)?;
        match this.pump.next(&mut Nothing)? {
            (_, Answer::Welcome) => Ok(this),
            // The session lets nothing else through.
            _ => Err(Error::Lost(Loss::Gone)),
        }
    }

    /// The connection's socket.
    pub fn stream(&self) -> &Stream {
        self.pump.stream()
    }

    /// Whether descriptors can travel to the forwarder, which then is on this host.
    pub fn carries_descriptors(&self) -> bool {
        self.pump.stream().carries_descriptors()
    }

    /// Whether the forwarder is silent, as it is while nothing was asked of it. If it is not, it has
    /// closed the connection or says why it is about to.
    pub fn is_quiet(&self) -> bool {
        matches!(self.stream().wait(Ready::Read, Duration::ZERO), Ok(false))
    }

    /// Changes how long to wait for anything to move.
    pub fn limit_progress(&mut self, limit: Duration) {
        self.pump.limit_progress(limit);
    }

    /// Opens a file at the forwarder: the one that `descriptor` is open on, or else the one at
    /// `path` beneath the forwarder's export. `flags` are those it is open with here.
    ///
    /// # Errors
    /// [`Error::Errno`] if the forwarder cannot or will not open it.
    pub fn open(
        &mut self,
        descriptor: Option<BorrowedFd<'_>>,
        path: &[u8],
        flags: OFlags,
    ) -> Result<Opened, Error> {
        let sent = if descriptor.is_some() { Descriptor::Sent } else { Descriptor::Absent };
        let open = Request::Open(Open { flags: flags.bits(), descriptor: sent, path });
        let ticket = if path.is_empty() {
            self.begin_long(&open, descriptor, &mut [0; 64], &mut Nothing)?
        } else {
            self.begin_path(&open, descriptor)?
        };
        match self.answer(ticket, &mut Nothing)? {
            Answer::Opened(opened) => Ok(opened),
            other => Err(unexpected(other)),
        }
    }

    /// Apart, for its large frame on the stack.
    #[inline(never)]
    fn begin_path(
        &mut self,
        open: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<Ticket, Error> {
        self.begin_long(open, descriptor, &mut [0; PATH_BYTES_MAX + 64], &mut Nothing)
    }

    /// Reads a range into `into`, which must be at least as long. Fewer bytes mean the end of the
    /// file, or an error further on; what lies beyond them in `into` may have changed.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn read(
        &mut self,
        handle: Handle,
        range: ByteRange,
        into: &mut Destination<'_>,
    ) -> Result<Bytes, Error> {
        let request = Request::Read(Read { handle, range });
        self.call(&request, &mut Read1(into)).and_then(moved).map(|written| written.bytes)
    }

    /// Writes all of `from`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn write(
        &mut self,
        handle: Handle,
        place: Place,
        from: &Source<'_>,
    ) -> Result<Written, Error> {
        let request = self.write_request(handle, place, from.length());
        self.call(&request, &mut Write1(*from)).and_then(moved)
    }

    /// Reads many ranges of one file, one after the other into `into`. Allocates.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn read_list(
        &mut self,
        handle: Handle,
        ranges: &[ByteRange],
        into: &mut Destination<'_>,
    ) -> Result<Bytes, Error> {
        let request = Request::ReadList(ReadList { handle, ranges: Ranges::from(ranges) });
        self.call_long(&request, ranges.len(), &mut Read1(into))
            .and_then(moved)
            .map(|written| written.bytes)
    }

    /// Writes many ranges of one file, one after the other from `from`. Allocates.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn write_list(
        &mut self,
        handle: Handle,
        ranges: &[ByteRange],
        from: &Source<'_>,
    ) -> Result<Bytes, Error> {
        let delivery = self.delivery(from.length());
        let request =
            Request::WriteList(WriteList { handle, ranges: Ranges::from(ranges), delivery });
        self.call_long(&request, ranges.len(), &mut Write1(*from))
            .and_then(moved)
            .map(|written| written.bytes)
    }

    /// `fsync(2)`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn sync(&mut self, handle: Handle) -> Result<(), Error> {
        self.plain(&Request::Sync(handle))
    }

    /// `fdatasync(2)`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn data_sync(&mut self, handle: Handle) -> Result<(), Error> {
        self.plain(&Request::DataSync(handle))
    }

    /// `ftruncate(2)`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn truncate(&mut self, handle: Handle, size: Bytes) -> Result<(), Error> {
        self.plain(&Request::Truncate(Truncate { handle, size }))
    }

    /// `fallocate(2)`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn allocate(&mut self, handle: Handle, mode: u32, range: ByteRange) -> Result<(), Error> {
        self.plain(&Request::Allocate(Allocate { handle, mode, range }))
    }

    /// `posix_fadvise(2)`; an empty range means all from its start on.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn hint(&mut self, handle: Handle, advice: u32, range: ByteRange) -> Result<(), Error> {
        self.plain(&Request::Hint(Hint { handle, advice, range }))
    }

    /// Size and times.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn stat(&mut self, handle: Handle) -> Result<Attributes, Error> {
        match self.call(&Request::Stat(handle), &mut Nothing)? {
            Answer::Attributes(attributes) => Ok(attributes),
            other => Err(unexpected(other)),
        }
    }

    /// Closes a file at the forwarder; afterwards the forwarder has no descriptor of it from here.
    ///
    /// # Errors
    /// [`Error::Errno`] is a write's that failed late; the file is closed nevertheless.
    pub fn close(&mut self, handle: Handle) -> Result<(), Error> {
        self.plain(&Request::Close(handle))
    }

    /// The forwarder's status, as JSON. Allocates.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn status(&mut self) -> Result<String, Error> {
        let mut text = Text(Vec::new());
        match self.call(&Request::Status, &mut text)? {
            Answer::Text => Ok(String::from_utf8_lossy(&text.0).into_owned()),
            other => Err(unexpected(other)),
        }
    }

    /// Changes something at the forwarder; the words are the forwarder's own. Its answer. Allocates.
    ///
    /// # Errors
    /// [`Error::Errno`] with `EPERM` if this client may not; [`Error::Unsendable`] beyond
    /// [`CONTROL_BYTES_MAX`](forebay_wire::CONTROL_BYTES_MAX) bytes; see [`Error`].
    pub fn control(&mut self, words: &[&str]) -> Result<String, Error> {
        let text = words.join("\n");
        let request = Request::Control(Control { text: text.as_bytes() });
        let mut room = vec![0; 64 + text.len()];
        let mut answer = Text(Vec::new());
        let ticket = self.begin_long(&request, None, &mut room, &mut answer)?;
        match self.answer(ticket, &mut answer)? {
            Answer::Text => Ok(String::from_utf8_lossy(&answer.0).into_owned()),
            other => Err(unexpected(other)),
        }
    }

    /// Ends the session in order: afterwards everything is closed at the forwarder.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn bye(&mut self, bye: &Bye<'_>) -> Result<(), Error> {
        let ticket = self.begin_long(&Request::Bye(*bye), None, &mut [0; 2560], &mut Nothing)?;
        self.answer(ticket, &mut Nothing).and_then(moved).map(drop)
    }

    /// How many more requests can be started before one has to be waited for.
    pub fn room(&self) -> usize {
        self.pump.session().room()
    }

    /// Starts a read of a range. Its memory is asked for in [`next`](Self::next), which also sends it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start_read(
        &mut self,
        handle: Handle,
        range: ByteRange,
        transfers: &mut impl Transfers,
    ) -> Result<Ticket, Error> {
        self.pump.begin(&Request::Read(Read { handle, range }), transfers)
    }

    /// Starts a write of `length` bytes. Its memory is asked for in [`next`](Self::next), which also sends it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn start_write(
        &mut self,
        handle: Handle,
        place: Place,
        length: Bytes,
        transfers: &mut impl Transfers,
    ) -> Result<Ticket, Error> {
        let request = self.write_request(handle, place, length.0);
        self.pump.begin(&request, transfers)
    }

    /// Moves data until one of the started requests is answered.
    ///
    /// # Errors
    /// Never [`Error::Errno`]: that is in the completion.
    pub fn next(&mut self, transfers: &mut impl Transfers) -> Result<Completion, Error> {
        let (ticket, answer) = self.pump.next(transfers)?;
        match moved(answer) {
            Ok(written) => Ok(Completion { ticket, result: Ok(written) }),
            Err(Error::Errno(errno)) => Ok(Completion { ticket, result: Err(errno) }),
            Err(error) => Err(error),
        }
    }

    /// As [`next`](Self::next), but gives up, with `None`, once nothing has moved for `limit`.
    /// What was started goes on, and so does the connection.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_within(
        &mut self,
        limit: Duration,
        transfers: &mut impl Transfers,
    ) -> Result<Option<Completion>, Error> {
        let usual = self.pump.limit_progress(limit);
        let outcome = self.next(transfers);
        self.pump.limit_progress(usual);
        match outcome {
            // Where the pump waits nothing is half done, so that it can be asked again.
            Err(Error::Lost(Loss::TimedOut)) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    fn plain(&mut self, request: &Request<'_>) -> Result<(), Error> {
        self.call(request, &mut Nothing).and_then(moved).map(drop)
    }

    fn call(
        &mut self,
        request: &Request<'_>,
        transfers: &mut impl Transfers,
    ) -> Result<Answer, Error> {
        let ticket = self.pump.begin(request, transfers)?;
        self.answer(ticket, transfers)
    }

    /// As [`Pump::begin_long`], knowing whether a lost connection took the request with it.
    fn begin_long(
        &mut self,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
        room: &mut [u8],
        transfers: &mut impl Transfers,
    ) -> Result<Ticket, Error> {
        self.pump
            .begin_long(request, descriptor, room, transfers)
            .map_err(|error| self.told_apart(error))
    }

    fn told_apart(&self, error: Error) -> Error {
        match error {
            Error::Lost(Loss::Gone) if self.pump.is_unsent() => Error::Lost(Loss::Unsent),
            error => error,
        }
    }

    fn call_long(
        &mut self,
        request: &Request<'_>,
        count: usize,
        transfers: &mut impl Transfers,
    ) -> Result<Answer, Error> {
        let mut room = vec![0; 64 + 16 * count];
        let ticket = self.begin_long(request, None, &mut room, transfers)?;
        self.answer(ticket, transfers)
    }

    fn answer(&mut self, ticket: Ticket, transfers: &mut impl Transfers) -> Result<Answer, Error> {
        match self.pump.next(transfers) {
            Ok((answered, answer)) => {
                debug_assert_eq!(answered, ticket, "calls that wait are for an idle connection");
                Ok(answer)
            }
            Err(error) => Err(self.told_apart(error)),
        }
    }

    fn write_request(&self, handle: Handle, place: Place, length: u64) -> Request<'static> {
        let (start, place) = match place {
            Place::At(offset) => (offset, forebay_wire::Place::Range),
            Place::End => (Offset(0), forebay_wire::Place::End),
        };
        let range = ByteRange::new(start, Bytes(length));
        Request::Write(Write { handle, range, place, delivery: self.delivery(length) })
    }

    /// Small payloads travel with their request, large ones when the forwarder has room.
    fn delivery(&self, length: u64) -> Delivery {
        match self.pump.session().terms() {
            Some(terms) if length <= u64::from(terms.eager_bytes_max) => Delivery::Eager,
            _ => Delivery::Granted,
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream().as_fd()
    }
}

/// What an answer to a request that moves data says. Bytes that moved before an error count: the
/// error meets the next call, as with the kernel.
fn moved(answer: Answer) -> Result<Written, Error> {
    match answer {
        Answer::Done(Done { errno, bytes, .. }) if errno != 0 && bytes == 0 => {
            Err(Error::Errno(Errno::from_raw_os_error(errno)))
        }
        Answer::Done(Done { bytes, end, .. }) => {
            Ok(Written { bytes: Bytes(bytes), end: Offset(end) })
        }
        other => Err(unexpected(other)),
    }
}

/// An answer that is an error, where the session lets only success of another kind through.
fn unexpected(answer: Answer) -> Error {
    match answer {
        Answer::Done(done) if done.errno != 0 => Error::Errno(Errno::from_raw_os_error(done.errno)),
        _ => Error::Lost(Loss::Gone),
    }
}

fn cut_name(name: &[u8]) -> &[u8] {
    &name[..name.len().min(forebay_wire::NAME_BYTES_MAX)]
}

/// A request without data.
struct Nothing;

impl Transfers for Nothing {
    fn memory(&mut self, _: Ticket) -> Memory<'_> {
        Memory::None
    }
}

struct Read1<'m, 'd>(&'m mut Destination<'d>);

impl Transfers for Read1<'_, '_> {
    fn memory(&mut self, _: Ticket) -> Memory<'_> {
        Memory::Into(self.0.reborrow())
    }
}

struct Write1<'s>(Source<'s>);

impl Transfers for Write1<'_> {
    fn memory(&mut self, _: Ticket) -> Memory<'_> {
        Memory::From(self.0)
    }
}

struct Text(Vec<u8>);

impl Transfers for Text {
    fn memory(&mut self, _: Ticket) -> Memory<'_> {
        Memory::Text(&mut self.0)
    }
}
