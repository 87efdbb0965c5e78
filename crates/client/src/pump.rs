//! Moves frames and data between the socket, the session and the caller's memory.
//!
//! One loop does both directions, so that neither waits for the other: it sends what it can, takes
//! what has come, and waits for the socket when it can do neither. Each wait ends with an error
//! after the limit, and every byte that moves starts the limit anew.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use forebay_session::Payload;
use forebay_session::client::{Event, Session};
use forebay_transport::Stream;
use forebay_wire::{Attributes, Done, Opened, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Error, Loss, Refusal};
use crate::memory::{Memory, Room, Transfers};
use crate::outgoing::{Outgoing, Part};
use crate::outstanding::Outstanding;
use crate::staging::Staging;

/// A request in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub(crate) u64);

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Welcome,
    Done(Done),
    Opened(Opened),
    Attributes(Attributes),
    /// All of the status text is in the caller's memory.
    Text,
}

/// One connection and everything that is on its way.
#[derive(Debug)]
pub(crate) struct Pump {
    stream: Stream,
    session: Session,
    staging: Staging,
    outgoing: Outgoing,
    outstanding: Outstanding,
    /// The status request whose last text the stream is about to bring.
    last_text: Option<Ticket>,
    /// Whether the socket is unlikely to have anything for us yet.
    is_dry: bool,
    /// Bytes sent since the last [`begin`](Self::begin).
    sent: u64,
    limit: Duration,
}

impl Pump {
    pub(crate) fn new(stream: Stream, limit: Duration) -> Self {
        Self {
            stream,
            session: Session::new(),
            staging: Staging::new(),
            outgoing: Outgoing::new(),
            outstanding: Outstanding::new(),
            last_text: None,
            is_dry: true,
            sent: 0,
            limit,
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Sets how long to wait for anything to move; how long it was before.
    pub(crate) fn limit_progress(&mut self, limit: Duration) -> Duration {
        std::mem::replace(&mut self.limit, limit)
    }

    /// Whether nothing of the request begun last has left this process.
    pub(crate) fn is_unsent(&self) -> bool {
        self.sent == 0
    }

    /// Takes on a request of fixed length, whose eager payload, if any, is the caller's memory.
    pub(crate) fn begin(
        &mut self,
        request: &Request<'_>,
        transfers: &mut impl Transfers,
    ) -> Result<Ticket, Error> {
        while self.outgoing.is_full() {
            self.send_or_wait(transfers)?;
        }
        let ticket = self.admit(request)?;
        let length = request.payload_bytes();
        let part = (length > 0).then_some(Part { ticket, offset: 0, length });
        self.outgoing.push(Some(request.encode_small(ticket.0)), part);
        Ok(ticket)
    }

    /// Takes on a request of any length and sends it, encoded into `room`, at once and whole.
    ///
    /// # Errors
    /// [`Error::Unsendable`] also if there is not enough room.
    pub(crate) fn begin_long(
        &mut self,
        request: &Request<'_>,
        descriptor: Option<BorrowedFd<'_>>,
        room: &mut [u8],
        transfers: &mut impl Transfers,
    ) -> Result<Ticket, Error> {
        while !self.outgoing.is_empty() {
            self.send_or_wait(transfers)?;
        }
        let ticket = self.admit(request)?;
        let limit = forebay_session::client::Unsendable::Limit;
        let length = request.encode(ticket.0, room).map_err(|_| Error::Unsendable(limit))?;
        let mut frame = &room[..length];
        let mut descriptor = descriptor;
        while !frame.is_empty() {
            let buffers = [IoSlice::new(frame)];
            let sent = match descriptor {
                Some(descriptor) => self.stream.send_with_descriptor(&buffers, descriptor),
                None => self.stream.send(&buffers),
            };
            match sent {
                Ok(count) => {
                    frame = &frame[count..];
                    self.sent += count as u64;
                    descriptor = None;
                }
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT)?,
                Err(errno) => return Err(Error::from_socket(errno)),
            }
        }
        let length = request.payload_bytes();
        if length > 0 {
            self.outgoing.push(None, Some(Part { ticket, offset: 0, length }));
        }
        self.is_dry = true;
        Ok(ticket)
    }

    fn admit(&mut self, request: &Request<'_>) -> Result<Ticket, Error> {
        let tag = self.session.begin(request)?;
        if matches!(request, Request::Read(_) | Request::ReadList(_)) {
            self.outstanding.started(tag, request.data_bytes());
        }
        self.sent = 0;
        Ok(Ticket(tag))
    }

    /// Goes on until some request is answered.
    pub(crate) fn next(
        &mut self,
        transfers: &mut impl Transfers,
    ) -> Result<(Ticket, Answer), Error> {
        loop {
            let is_blocked = !self.flush(transfers)?;
            if let Some(answered) = self.take_staged(transfers)? {
                return Ok(answered);
            }
            // New frames to send came in: first those.
            if !is_blocked && !self.outgoing.is_empty() {
                continue;
            }
            if self.is_dry || self.outgoing.is_full() {
                let direction =
                    if self.outgoing.is_full() { PollFlags::empty() } else { PollFlags::IN };
                let more = if is_blocked { PollFlags::OUT } else { PollFlags::empty() };
                self.wait(direction | more)?;
            }
            if !self.outgoing.is_full() {
                self.receive(transfers)?;
            }
        }
    }

    /// Sends what the socket takes now; whether that was everything.
    pub(crate) fn flush(&mut self, transfers: &mut impl Transfers) -> Result<bool, Error> {
        while !self.outgoing.is_empty() {
            match self.outgoing.send(&self.stream, transfers) {
                Ok(count) => self.sent += count,
                Err(Error::Errno(Errno::AGAIN)) => return Ok(false),
                Err(error) => return Err(error),
            }
            self.is_dry = true;
        }
        Ok(true)
    }

    fn send_or_wait(&mut self, transfers: &mut impl Transfers) -> Result<(), Error> {
        if self.flush(transfers)? { Ok(()) } else { self.wait(PollFlags::OUT) }
    }

    /// Takes frames that were received whole, up to one that answers a request.
    fn take_staged(
        &mut self,
        transfers: &mut impl Transfers,
    ) -> Result<Option<(Ticket, Answer)>, Error> {
        loop {
            if let Some(payload) = self.session.payload() {
                if !self.take_staged_text(payload, transfers)? {
                    return Ok(None);
                }
            } else if let Some(ticket) = self.last_text.take() {
                return Ok(Some((ticket, Answer::Text)));
            } else if self.staging.bytes().is_empty()
                || !self.staging.is_ready()
                || self.outgoing.is_full()
            {
                return Ok(None);
            } else if let Some(answered) = self.take_frame()? {
                return Ok(Some(answered));
            }
        }
    }

    /// Takes one frame that was received whole.
    fn take_frame(&mut self) -> Result<Option<(Ticket, Answer)>, Error> {
        let (count, event) = self.session.receive(self.staging.bytes())?;
        let answered = match event {
            None => None,
            Some(Event::Grant(granted)) => {
                let part = Part {
                    ticket: Ticket(granted.tag()),
                    offset: granted.offset(),
                    length: u64::from(granted.length()),
                };
                let head = self.session.write_data(granted);
                self.outgoing.push(Some(head), Some(part));
                None
            }
            Some(Event::StatusText { tag, text }) => {
                self.last_text = (!text.more).then_some(Ticket(tag));
                None
            }
            Some(Event::Welcome(_)) => Some((Ticket(0), Answer::Welcome)),
            Some(Event::Opened { tag, opened }) => Some((Ticket(tag), Answer::Opened(opened))),
            Some(Event::Attributes { tag, attributes }) => {
                Some((Ticket(tag), Answer::Attributes(attributes)))
            }
            Some(Event::Done { tag, done }) => Some((Ticket(tag), Answer::Done(done))),
            Some(Event::Refused(refused)) => {
                let refusal = Refusal::new(refused.errno, refused.message);
                return Err(Error::Lost(Loss::Refused(refusal)));
            }
        };
        self.staging.consume(count);
        if let Some(Payload { tag, length, .. }) = self.session.payload() {
            self.outstanding.announced(tag, u64::from(length));
        }
        if let Some((Ticket(tag), _)) = answered {
            self.outstanding.answered(tag);
        }
        Ok(answered)
    }

    /// Takes text that was received together with its frame; whether any was.
    fn take_staged_text(
        &mut self,
        payload: Payload,
        transfers: &mut impl Transfers,
    ) -> Result<bool, Error> {
        let staged = self.staging.bytes();
        let count = staged.len().min(payload.length as usize);
        if count == 0 {
            return Ok(false);
        }
        // A read's data is never received with its frame.
        let Memory::Text(text) = transfers.memory(Ticket(payload.tag)) else {
            return Err(Error::Memory);
        };
        text.extend_from_slice(&staged[..count]);
        self.staging.consume(count);
        self.session.payload_received(count);
        Ok(true)
    }

    /// Receives once: data into the caller's memory and the frame after it, or frames.
    fn receive(&mut self, transfers: &mut impl Transfers) -> Result<(), Error> {
        let is_free_of_data = self.outstanding.is_free_of_data();
        let payload = self.session.payload();
        let tail = self.staging.room(is_free_of_data);
        let tail_bytes = tail.len();
        let data = payload.map(|payload| (payload, transfers.memory(Ticket(payload.tag))));
        let mut room = Room::new();
        let (asked, received) = match data {
            None => (tail_bytes, self.stream.receive(&mut [std::io::IoSliceMut::new(tail)])),
            Some((Payload { offset, length, .. }, Memory::Into(mut destination))) => {
                let part = destination.part(offset, u64::from(length), tail, &mut room);
                let (bytes, buffers) = part.ok_or(Error::Memory)?;
                (bytes as usize, self.stream.receive(buffers))
            }
            // Text is staged first.
            Some((_, Memory::Text(_))) => {
                (tail_bytes, self.stream.receive(&mut [std::io::IoSliceMut::new(tail)]))
            }
            Some(_) => return Err(Error::Memory),
        };
        let count = match received {
            Ok(0) => return Err(Error::Lost(Loss::Gone)),
            Ok(count) => count,
            Err(Errno::AGAIN) => {
                self.is_dry = true;
                return Ok(());
            }
            Err(errno) => return Err(Error::from_socket(errno)),
        };
        self.is_dry = count < asked;
        let of_payload = match payload {
            Some(payload) if self.outstanding.is_read(payload.tag) => {
                count.min(payload.length as usize)
            }
            _ => 0,
        };
        self.session.payload_received(of_payload);
        self.staging.received(count - of_payload);
        Ok(())
    }

    /// Waits until the socket is ready or closed.
    fn wait(&self, events: PollFlags) -> Result<(), Error> {
        let deadline = now() + self.limit;
        loop {
            let left = deadline.saturating_sub(now());
            let limit = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match poll(&mut [PollFd::new(&self.stream, events)], Some(&limit)) {
                Ok(0) => return Err(Error::Lost(Loss::TimedOut)),
                // A signal does not interrupt I/O on files, so it does not interrupt this.
                Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(_) => return Err(Error::Lost(Loss::Gone)),
            }
        }
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
