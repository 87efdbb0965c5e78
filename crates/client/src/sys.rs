//! Where raw memory becomes the kernel's vectors and back.

use std::io::{IoSlice, IoSliceMut};

use crate::memory::{Destination, Source};

/// A piece of memory as the kernel takes it: the layout of `struct iovec`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Piece {
    /// Where it begins.
    pub address: *mut u8,
    /// How many bytes.
    pub length: usize,
}

impl Piece {
    /// No memory.
    pub const EMPTY: Self = Self { address: std::ptr::null_mut(), length: 0 };

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { address: bytes.as_ptr().cast_mut(), length: bytes.len() }
    }

    pub(crate) fn of_mut(bytes: &mut [u8]) -> Self {
        Self { address: bytes.as_mut_ptr(), length: bytes.len() }
    }
}

impl<'a> Destination<'a> {
    /// Memory given by addresses, as a foreign program passes it to a hooked call. It may be
    /// unmapped: then the read fails with [`Error::Memory`](crate::Error::Memory).
    ///
    /// # Safety
    /// No reference of this program's Rust code points into the memory while this value lives.
    pub unsafe fn from_raw(pieces: &'a [Piece]) -> Self {
        Self::from_pieces(pieces)
    }
}

impl<'a> Source<'a> {
    /// As [`Destination::from_raw`], for a write.
    ///
    /// # Safety
    /// No exclusive reference of this program's Rust code points into the memory while this value lives.
    pub unsafe fn from_raw(pieces: &'a [Piece]) -> Self {
        Self::from_pieces(pieces)
    }
}

pub(crate) fn pieces_of<'a>(slices: &'a [IoSlice<'_>]) -> &'a [Piece] {
    // SAFETY: the standard library guarantees that `IoSlice` has the layout of `struct iovec`, as
    // `Piece` has; only addresses and lengths are read.
    unsafe { std::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) }
}

pub(crate) fn pieces_of_mut<'a>(slices: &'a mut [IoSliceMut<'_>]) -> &'a [Piece] {
    // SAFETY: as in `pieces_of`, for `IoSliceMut`; the exclusive borrow lasts as long as the answer.
    unsafe { std::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) }
}

/// Pieces as what `sendmsg` takes. They are built by [`Source`], whose maker vouched for them.
pub(crate) fn as_shared(pieces: &[Piece]) -> &[IoSlice<'_>] {
    // SAFETY: same layout. The bytes behind are not looked at by Rust code, only by the kernel,
    // which answers EFAULT where there is no memory.
    unsafe { std::slice::from_raw_parts(pieces.as_ptr().cast(), pieces.len()) }
}

/// Pieces as what `recvmsg` takes. They are built by [`Destination`], whose maker vouched for them.
pub(crate) fn as_mutable(pieces: &mut [Piece]) -> &mut [IoSliceMut<'_>] {
    // SAFETY: as in `as_shared`, and nobody else refers to the memory by `Destination`'s contract.
    unsafe { std::slice::from_raw_parts_mut(pieces.as_mut_ptr().cast(), pieces.len()) }
}
