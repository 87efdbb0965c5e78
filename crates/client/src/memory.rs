//! The caller's memory, as a list of pieces: where a read's data goes, where a write's comes from.
//!
//! A chunk of a request lies anywhere in the request, so what is needed is "the pieces of bytes
//! `[from, from + length)`". They go straight to `recvmsg` and `sendmsg`; nothing here looks into
//! the memory itself, which inside the preload library belongs to a foreign program and may not
//! even be mapped: then the kernel says so.

use std::io::{IoSlice, IoSliceMut};

use crate::pump::Ticket;
use crate::sys::{self, Piece};

/// How many pieces go to the kernel in one call. More are a matter of more calls.
const PIECES_AT_ONCE: usize = 16;

/// One piece needs no list.
#[derive(Clone, Copy, Debug)]
enum Pieces<'a> {
    One(Piece),
    Many(&'a [Piece]),
}

impl Pieces<'_> {
    fn as_slice(&self) -> &[Piece] {
        match self {
            Self::One(piece) => std::slice::from_ref(piece),
            Self::Many(pieces) => pieces,
        }
    }
}

/// Memory that a read fills.
#[derive(Debug)]
pub struct Destination<'a> {
    pieces: Pieces<'a>,
    length: u64,
}

/// Memory that a write takes its data from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pieces: Pieces<'a>,
    length: u64,
}

/// Where the data of one request in progress is.
#[derive(Debug)]
pub enum Memory<'a> {
    /// A read fills this.
    Into(Destination<'a>),
    /// A write takes its data from here.
    From(Source<'a>),
    /// Status text is appended to this.
    Text(&'a mut Vec<u8>),
    /// It moves no data.
    None,
}

/// Where the data of every request in progress is.
pub trait Transfers {
    /// The memory of one request, as long as was said when it was started.
    fn memory(&mut self, ticket: Ticket) -> Memory<'_>;
}

impl<'a> Destination<'a> {
    pub(crate) fn from_pieces(pieces: &'a [Piece]) -> Self {
        Self { pieces: Pieces::Many(pieces), length: total(pieces) }
    }

    /// How many bytes there are.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The same memory, for a shorter time.
    pub fn reborrow(&mut self) -> Destination<'_> {
        Destination { pieces: self.pieces, length: self.length }
    }

    /// The pieces of `[from, from + length)`, as many as go at once, and after all of them `tail`;
    /// with how many bytes those are. `None` if there is no memory at `from`.
    pub(crate) fn part<'b>(
        &mut self,
        from: u64,
        length: u64,
        tail: &'b mut [u8],
        room: &'b mut Room,
    ) -> Option<(u64, &'b mut [IoSliceMut<'b>])> {
        let (_, pieces) = room.0.split_last_mut()?;
        let mut count = cut(self.pieces.as_slice(), from, length, pieces);
        let mut bytes = total(&pieces[..count]);
        if bytes == length {
            room.0[count] = Piece::of_mut(tail);
            count += 1;
            bytes += tail.len() as u64;
        }
        (bytes > 0 && count > 0).then(|| (bytes, sys::as_mutable(&mut room.0[..count])))
    }
}

impl<'a> From<&'a mut [IoSliceMut<'_>]> for Destination<'a> {
    fn from(slices: &'a mut [IoSliceMut<'_>]) -> Self {
        Self::from_pieces(sys::pieces_of_mut(slices))
    }
}

impl<'a> From<&'a mut [u8]> for Destination<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self { length: bytes.len() as u64, pieces: Pieces::One(Piece::of_mut(bytes)) }
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { length: bytes.len() as u64, pieces: Pieces::One(Piece::of(bytes)) }
    }
}

impl<'a> Source<'a> {
    /// No memory.
    pub(crate) const NOTHING: Self = Self { pieces: Pieces::Many(&[]), length: 0 };

    pub(crate) fn from_pieces(pieces: &'a [Piece]) -> Self {
        Self { pieces: Pieces::Many(pieces), length: total(pieces) }
    }

    /// How many bytes there are.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// `head`, then the pieces of `[from, from + length)`, as many as go at once.
    pub(crate) fn part<'b>(
        &self,
        head: &'b [u8],
        from: u64,
        length: u64,
        room: &'b mut Room,
    ) -> &'b [IoSlice<'b>] {
        let first = usize::from(!head.is_empty());
        room.0[0] = Piece::of(head);
        let count = cut(self.pieces.as_slice(), from, length, &mut room.0[first..]);
        sys::as_shared(&room.0[..first + count])
    }
}

impl<'a> From<&'a [IoSlice<'_>]> for Source<'a> {
    fn from(slices: &'a [IoSlice<'_>]) -> Self {
        Self::from_pieces(sys::pieces_of(slices))
    }
}

/// Room for the pieces of one call.
pub(crate) struct Room([Piece; PIECES_AT_ONCE]);

impl Room {
    pub(crate) const fn new() -> Self {
        Self([Piece::EMPTY; PIECES_AT_ONCE])
    }
}

fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.length as u64))
}

/// Fills `room` with the pieces of `[from, from + length)` and says how many those are.
fn cut(pieces: &[Piece], mut from: u64, mut length: u64, room: &mut [Piece]) -> usize {
    let mut count = 0;
    for piece in pieces {
        if count == room.len() || length == 0 {
            break;
        }
        let piece_bytes = piece.length as u64;
        if from >= piece_bytes {
            from -= piece_bytes;
            continue;
        }
        let taken = length.min(piece_bytes - from);
        // Both fit into the piece's own length, which is a `usize`.
        room[count] =
            Piece { address: piece.address.wrapping_add(from as usize), length: taken as usize };
        count += 1;
        length -= taken;
        from = 0;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_bytes(bytes: &[&[u8]], from: u64, length: u64) -> Vec<u8> {
        let slices: Vec<_> = bytes.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let mut room = Room::new();
        Source::from(&slices[..])
            .part(b"", from, length, &mut room)
            .iter()
            .flat_map(|slice| slice.to_vec())
            .collect()
    }

    #[test]
    fn a_part_spans_pieces() {
        let bytes: [&[u8]; 4] = [b"abc", b"", b"defg", b"h"];
        assert_eq!(cut_bytes(&bytes, 0, 8), b"abcdefgh");
        assert_eq!(cut_bytes(&bytes, 2, 3), b"cde");
        assert_eq!(cut_bytes(&bytes, 3, 1), b"d");
        assert_eq!(cut_bytes(&bytes, 6, 100), b"gh");
        assert_eq!(cut_bytes(&bytes, 8, 1), b"");
    }

    #[test]
    fn more_pieces_than_go_at_once_are_cut_off() {
        let bytes = [&b"x"[..]; 40];
        assert_eq!(cut_bytes(&bytes, 0, 40).len(), PIECES_AT_ONCE);
        assert_eq!(cut_bytes(&bytes, 30, 40).len(), 10);
    }

    #[test]
    fn the_head_goes_first() {
        let slices = [IoSlice::new(b"data")];
        let mut room = Room::new();
        let parts = Source::from(&slices[..]).part(b"head", 1, 2, &mut room);
        assert_eq!((&*parts[0], &*parts[1]), (&b"head"[..], &b"at"[..]));
    }

    #[test]
    fn received_bytes_land_in_their_piece() {
        let (mut first, mut second) = ([0_u8; 2], [0_u8; 3]);
        let mut slices = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        let mut destination = Destination::from(&mut slices[..]);
        let mut room = Room::new();
        let mut tail = [0_u8; 4];
        let (bytes, slices) =
            destination.part(1, 3, &mut tail, &mut room).expect("there is memory");
        assert_eq!(bytes, 7);
        slices.iter_mut().for_each(|slice| slice.fill(7));
        assert_eq!((first, second, tail), ([0, 7], [7, 7, 0], [7; 4]));
    }
}
