//! Frames on their way out, in order, each with the part of the caller's memory that follows it.

use forebay_transport::Stream;
use forebay_wire::Small;

use crate::error::Error;
use crate::memory::{Memory, Room, Source, Transfers};
use crate::pump::Ticket;

/// How many frames may wait. When there are as many, no more of the forwarder's are looked at; it
/// has to go on receiving even while nobody takes what it sends.
const FRAMES_MAX: usize = 16;

/// A part of a write's data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) ticket: Ticket,
    /// Counted from the request's first byte.
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Absent where the head was sent by itself.
    head: Option<Small>,
    part: Option<Part>,
}

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    frames: [Option<Frame>; FRAMES_MAX],
    first: usize,
    count: usize,
    /// Bytes of the first frame that were sent.
    sent: u64,
}

impl Outgoing {
    pub(crate) const fn new() -> Self {
        Self { frames: [None; FRAMES_MAX], first: 0, count: 0, sent: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count == FRAMES_MAX
    }

    /// Adds a frame; there must be room.
    pub(crate) fn push(&mut self, head: Option<Small>, part: Option<Part>) {
        debug_assert!(!self.is_full(), "whoever pushes looks for room first");
        self.frames[(self.first + self.count) % FRAMES_MAX] = Some(Frame { head, part });
        self.count += 1;
    }

    /// Sends some of what is first; how many bytes, 0 if there is nothing to send.
    ///
    /// # Errors
    /// `EAGAIN` when the socket takes no more now.
    pub(crate) fn send(
        &mut self,
        stream: &Stream,
        transfers: &mut impl Transfers,
    ) -> Result<u64, Error> {
        let Some(frame) = self.frames[self.first].filter(|_| self.count > 0) else { return Ok(0) };
        let count = frame.send(stream, self.sent, transfers)?;
        self.sent += count;
        if self.sent == frame.length() {
            self.first = (self.first + 1) % FRAMES_MAX;
            self.count -= 1;
            self.sent = 0;
        }
        Ok(count)
    }
}

impl Frame {
    fn head(&self) -> &[u8] {
        self.head.as_deref().unwrap_or_default()
    }

    fn length(&self) -> u64 {
        self.head().len() as u64 + self.part.map_or(0, |part| part.length)
    }

    /// Sends some of the frame, from byte `sent` on.
    fn send(
        &self,
        stream: &Stream,
        sent: u64,
        transfers: &mut impl Transfers,
    ) -> Result<u64, Error> {
        let head = self.head();
        let head_left = head.get(sent as usize..).unwrap_or_default();
        let (source, from, length) = match self.part {
            None => (Source::NOTHING, 0, 0),
            Some(Part { ticket, offset, length }) => {
                let Memory::From(source) = transfers.memory(ticket) else {
                    return Err(Error::Memory);
                };
                let done = sent.saturating_sub(head.len() as u64);
                (source, offset + done, length - done)
            }
        };
        if from + length > source.length() {
            // The caller's memory is shorter than the request that it started.
            return Err(Error::Memory);
        }
        let mut room = Room::new();
        match stream.send(source.part(head_left, from, length, &mut room)) {
            Ok(count) => Ok(count as u64),
            Err(errno) => Err(Error::from_socket(errno)),
        }
    }
}
