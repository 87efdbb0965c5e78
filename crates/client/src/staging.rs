//! Bytes of the stream between the socket and the session: frames' headers and bodies, no data.
//!
//! A read's data goes from the socket straight to the program's memory. So while data may follow a
//! frame, no more is taken from the socket than that frame needs; otherwise as much as there is room.

use forebay_wire::{FrameKind, HEADER_BYTES, Header, REPLY_BODY_BYTES_MAX};

/// Header and body of the frame that announces a read's data; no frame that a client gets in the
/// middle of a session is shorter, except those that end it and status text.
const SHORTEST_BYTES: usize = HEADER_BYTES + 8;

/// Room for the longest frame.
const BYTES: usize = HEADER_BYTES + REPLY_BODY_BYTES_MAX;

/// What was received and not yet looked at.
#[derive(Debug)]
pub(crate) struct Staging {
    bytes: [u8; BYTES],
    start: usize,
    end: usize,
}

impl Staging {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; BYTES], start: 0, end: 0 }
    }

    /// The bytes that were received.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether a whole frame is there, or something that is no frame.
    pub(crate) fn is_ready(&self) -> bool {
        self.missing() == 0
    }

    /// How many bytes the frame that begins here still needs, as far as is known.
    fn missing(&self) -> usize {
        let bytes = self.bytes();
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else {
            return SHORTEST_BYTES - bytes.len();
        };
        match Header::decode(head).map(|header| (header.kind, header.body_bytes(&[]))) {
            Ok((FrameKind::StatusText, _)) => 0,
            Ok((_, Ok(body))) => (HEADER_BYTES + body).saturating_sub(bytes.len()),
            // The session says what is wrong with it.
            _ => 0,
        }
    }

    /// Says that the first `count` bytes have been looked at.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room to receive into: as much as there is when `is_free_of_data`, else what one frame needs.
    pub(crate) fn room(&mut self, is_free_of_data: bool) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let missing = self.missing();
        let room = &mut self.bytes[self.end..];
        let length = if is_free_of_data { room.len() } else { missing.min(room.len()) };
        &mut room[..length]
    }

    /// Says that `count` bytes were received into the room.
    pub(crate) fn received(&mut self, count: usize) {
        self.end = (self.end + count).min(BYTES);
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::{Done, ReadData, Reply};

    use super::*;

    fn put(staging: &mut Staging, bytes: &[u8]) {
        let count = bytes.len();
        staging.room(true)[..count].copy_from_slice(bytes);
        staging.received(count);
    }

    #[test]
    fn no_more_is_taken_than_the_frame_before_data() {
        let mut staging = Staging::new();
        assert_eq!(staging.room(false).len(), 24);
        let frame = Reply::ReadData(ReadData { offset: 0, length: 100 }).encode_small(1);
        put(&mut staging, &frame[..20]);
        assert!(!staging.is_ready());
        assert_eq!(staging.room(false).len(), 4);
        put(&mut staging, &frame[20..]);
        assert!(staging.is_ready());
    }

    #[test]
    fn a_longer_frame_asks_for_its_rest() {
        let mut staging = Staging::new();
        let frame = Reply::Done(Done::default()).encode_small(1);
        put(&mut staging, &frame[..24]);
        assert_eq!(staging.room(false).len(), 16);
    }

    #[test]
    fn what_was_looked_at_makes_room() {
        let mut staging = Staging::new();
        put(&mut staging, &[0; 100]);
        staging.consume(60);
        assert_eq!(staging.bytes().len(), 40);
        assert_eq!(staging.room(true).len(), BYTES - 40);
        staging.consume(40);
        assert_eq!(staging.room(true).len(), BYTES);
    }
}
