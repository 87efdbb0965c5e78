//! The same through a forwarder: one client with a small window of requests, a file in memory.

use std::time::{Duration, Instant};

use forebay_client::{
    ByteRange, Bytes, Connection, Destination, Handle, Limits, Memory, Offset, Place,
};
use forebay_client::{Source, Ticket, Transfers, Who};
use forebay_units::Direction;
use rustix::fs::OFlags;

use super::{READ_BYTES, STREAM_BYTES};
use crate::error::Error;

/// A client of a forwarder, with a file open.
pub(super) struct Client {
    connection: Connection,
    handle: Handle,
    file_bytes: u64,
    slots: Slots,
}

/// Memory for each request of the window.
struct Slots {
    direction: Direction,
    slots: Vec<(Option<Ticket>, Vec<u8>)>,
}

impl Transfers for Slots {
    fn memory(&mut self, ticket: Ticket) -> Memory<'_> {
        let own = self.slots.iter_mut().find(|(own, _)| *own == Some(ticket));
        match (own, self.direction) {
            (Some((_, bytes)), Direction::Read) => Memory::Into(Destination::from(&mut bytes[..])),
            (Some((_, bytes)), Direction::Write) => Memory::From(Source::from(&bytes[..])),
            (None, _) => Memory::None,
        }
    }
}

fn failed(error: forebay_client::Error) -> Error {
    Error::failed(format!("the forwarder's client: {error}"))
}

impl Client {
    /// Connects, opens a file and fills it; every mebibyte is compared on its way back.
    pub(super) fn start(endpoint: &str, file_bytes: u64, window: usize) -> Result<Self, Error> {
        let endpoint = endpoint.parse().map_err(|error| Error::failed(format!("{error}")))?;
        let who = Who { job: b"bench", program: b"forebay bench" };
        let mut connection =
            Connection::connect(&endpoint, &who, Limits::default()).map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::CREATE;
        let opened = connection.open(None, b"stream", flags).map_err(failed)?;
        let slots = vec![(None, vec![0; STREAM_BYTES as usize]); window];
        let slots = Slots { direction: Direction::Read, slots };
        let mut client = Self { connection, handle: opened.handle, file_bytes, slots };
        client.fill_and_compare()?;
        Ok(client)
    }

    fn fill_and_compare(&mut self) -> Result<(), Error> {
        let content = |block: u64| -> Vec<u8> {
            (0..STREAM_BYTES).map(|at| (at * 31 + block * 7) as u8).collect()
        };
        let blocks = self.file_bytes / STREAM_BYTES;
        for block in 0..blocks {
            let place = Place::At(Offset(block * STREAM_BYTES));
            self.connection
                .write(self.handle, place, &Source::from(&content(block)[..]))
                .map_err(failed)?;
        }
        let mut bytes = vec![0; STREAM_BYTES as usize];
        for block in 0..blocks {
            let range = ByteRange::new(Offset(block * STREAM_BYTES), Bytes(STREAM_BYTES));
            let read =
                self.connection.read(self.handle, range, &mut Destination::from(&mut bytes[..]));
            if read.map_err(failed)? != Bytes(STREAM_BYTES) || bytes != content(block) {
                return Err(Error::corrupt(format!("mebibyte {block} came back wrong")));
            }
        }
        Ok(())
    }

    /// Moves `count` mebibytes, as many at a time as the window holds.
    pub(super) fn stream_once(
        &mut self,
        direction: Direction,
        count: u64,
    ) -> Result<Duration, Error> {
        self.slots.direction = direction;
        let start = Instant::now();
        let (mut started, mut finished) = (0, 0);
        while finished < count {
            while started < count && self.start_next(started)? {
                started += 1;
            }
            let completion = self.connection.next(&mut self.slots).map_err(failed)?;
            match completion.result {
                Ok(written) if written.bytes == Bytes(STREAM_BYTES) => {}
                other => return Err(Error::failed(format!("a mebibyte in the stream: {other:?}"))),
            }
            let slot = self.slots.slots.iter_mut().find(|(own, _)| *own == Some(completion.ticket));
            slot.expect("only what was started is answered").0 = None;
            finished += 1;
        }
        Ok(start.elapsed())
    }

    /// Starts one more request, if the window has room.
    fn start_next(&mut self, block: u64) -> Result<bool, Error> {
        let Some(free) = self.slots.slots.iter().position(|(ticket, _)| ticket.is_none()) else {
            return Ok(false);
        };
        let offset = Offset(block * STREAM_BYTES % self.file_bytes);
        let (handle, length) = (self.handle, Bytes(STREAM_BYTES));
        let ticket = match self.slots.direction {
            Direction::Read => {
                self.connection.start_read(handle, ByteRange::new(offset, length), &mut self.slots)
            }
            Direction::Write => {
                self.connection.start_write(handle, Place::At(offset), length, &mut self.slots)
            }
        };
        self.slots.slots[free].0 = Some(ticket.map_err(failed)?);
        Ok(true)
    }

    /// The mean time of `count` small reads, one at a time.
    pub(super) fn round_trip(&mut self, count: u32) -> Result<Duration, Error> {
        let mut bytes = vec![0; READ_BYTES as usize];
        let start = Instant::now();
        for turn in 0..u64::from(count) {
            let range =
                ByteRange::new(Offset(turn * READ_BYTES % self.file_bytes), Bytes(READ_BYTES));
            let read =
                self.connection.read(self.handle, range, &mut Destination::from(&mut bytes[..]));
            if read.map_err(failed)? != Bytes(READ_BYTES) {
                return Err(Error::failed("a small read was short"));
            }
        }
        Ok(start.elapsed() / count)
    }
}
