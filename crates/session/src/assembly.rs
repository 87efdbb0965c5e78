//! Finds frames in a stream that arrives in fragments.
//!
//! A frame that lies whole in the input is used where it lies; only one that does not is gathered
//! in an [`Assembly`], which holds at most one header and body.

use forebay_wire::{DecodeError, Fault, FrameKind, HEADER_BYTES, Header};

/// Why the stream holds no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Header(DecodeError),
    Body(FrameKind, DecodeError),
}

/// Who sent the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Forwarder,
}

/// Room for one header and body.
pub(crate) trait Room {
    fn bytes(&self) -> &[u8];
    /// Adds bytes; never more than the longest header and body.
    fn push(&mut self, bytes: &[u8]);
    fn clear(&mut self);
}

/// Room that does not allocate.
#[derive(Debug)]
pub(crate) struct Fixed<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Fixed<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> Room for Fixed<N> {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }

    fn clear(&mut self) {
        self.length = 0;
    }
}

/// What a stretch of input came to.
pub(crate) struct Assembled<'a> {
    /// How many bytes of the input belong to it.
    pub(crate) consumed: usize,
    /// The frame, once it is complete.
    pub(crate) frame: Option<(Header, &'a [u8])>,
}

/// Gathers one frame at a time.
#[derive(Debug)]
pub(crate) struct Assembly<R> {
    sender: Sender,
    room: R,
    /// The frame in `room` was handed out.
    is_used: bool,
}

impl<R: Room> Assembly<R> {
    pub(crate) const fn new(sender: Sender, room: R) -> Self {
        Self { sender, room, is_used: false }
    }

    /// Takes input up to the end of one header and body.
    pub(crate) fn take<'a>(&'a mut self, input: &'a [u8]) -> Result<Assembled<'a>, Malformed> {
        if core::mem::take(&mut self.is_used) {
            self.room.clear();
        }
        if self.room.bytes().is_empty() {
            match extent(self.sender, input)? {
                Extent::Whole(header, end) => {
                    return Ok(Assembled {
                        consumed: end,
                        frame: Some((header, &input[HEADER_BYTES..end])),
                    });
                }
                Extent::Needs(_) => self.room.push(input),
            }
            return Ok(Assembled { consumed: input.len(), frame: None });
        }
        let mut consumed = 0;
        loop {
            match extent(self.sender, self.room.bytes())? {
                Extent::Whole(header, end) => {
                    self.is_used = true;
                    return Ok(Assembled {
                        consumed,
                        frame: Some((header, &self.room.bytes()[HEADER_BYTES..end])),
                    });
                }
                Extent::Needs(end) => {
                    let rest = &input[consumed..];
                    let more = rest.len().min(end - self.room.bytes().len());
                    if more == 0 {
                        return Ok(Assembled { consumed, frame: None });
                    }
                    self.room.push(&rest[..more]);
                    consumed += more;
                }
            }
        }
    }
}

/// How far a frame reaches that begins with some bytes.
enum Extent {
    /// Its header and body end here, within the bytes.
    Whole(Header, usize),
    /// It goes on at least to here, beyond the bytes.
    Needs(usize),
}

fn extent(sender: Sender, bytes: &[u8]) -> Result<Extent, Malformed> {
    let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Extent::Needs(HEADER_BYTES));
    };
    let header = Header::decode(head).map_err(Malformed::Header)?;
    if header.kind.is_reply() != (sender == Sender::Forwarder) {
        return Err(Malformed::Header(DecodeError { at: 4, fault: Fault::Kind }));
    }
    let mut have = 0;
    loop {
        let needs = header
            .body_bytes(&body[..have])
            .map_err(|error| Malformed::Body(header.kind, error))?;
        if needs > body.len() {
            return Ok(Extent::Needs(HEADER_BYTES + needs));
        }
        if needs == have {
            return Ok(Extent::Whole(header, HEADER_BYTES + have));
        }
        have = needs;
    }
}
