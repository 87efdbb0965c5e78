//! `read`, `write` and all their spellings.

use core::ffi::{c_int, c_void};

use forebay_client::Piece;
use libc::{iovec, off_t, size_t, ssize_t};

use crate::classify;
use crate::counter::{self, Reason};
use crate::data::{self, CALL_BYTES_MAX};
use crate::forward::Outcome;
use crate::hook::answer;
use crate::hook::next::sys::hook;
use crate::position::At;
use crate::{sys, table};

/// Where the kernel's own addresses begin at the latest, on x86-64 and AArch64 with 48-bit addresses.
const ADDRESS_MAX: usize = 1 << 47;

/// A buffer as a piece; what is beyond the most that Linux moves in a call it does not move. One
/// that reaches beyond all addresses is as good as none: the kernel says EFAULT.
fn piece(buffer: *const c_void, length: size_t) -> [Piece; 1] {
    let is_possible = buffer.addr().checked_add(length).is_some_and(|end| end <= ADDRESS_MAX);
    let length = if is_possible { length.min(CALL_BYTES_MAX) } else { 0 };
    [Piece { address: buffer.cast_mut().cast(), length }]
}

/// A vectored call, with the program's vectors copied: an address that is none is for the kernel to report.
fn vectored(
    number: c_int,
    vectors: *const iovec,
    count: c_int,
    call: impl FnOnce(&[Piece]) -> Outcome,
) -> Outcome {
    if table::is_native(number) {
        return Outcome::Native;
    }
    let Some(mut scratch) = classify::scratch() else { return Outcome::Native };
    let room = usize::try_from(count).ok().and_then(|count| scratch.pieces.get_mut(..count));
    match room {
        Some(pieces) => match sys::copy_pieces(vectors.cast(), pieces) {
            Ok(()) => call(pieces),
            Err(_) => Outcome::Native,
        },
        None => Outcome::Native,
    }
}

fn readv_at(number: c_int, vectors: *const iovec, count: c_int, at: At) -> Outcome {
    vectored(number, vectors, count, |pieces| data::read(number, pieces, at))
}

fn writev_at(number: c_int, vectors: *const iovec, count: c_int, at: At) -> Outcome {
    vectored(number, vectors, count, |pieces| data::write(number, pieces, at))
}

/// Where `preadv2` and `pwritev2` go: -1 stands for the file position. Flags change what a call
/// means, each in its own way, so calls with any are the kernel's.
fn place(number: c_int, offset: off_t, flags: c_int) -> Option<At> {
    if flags != 0 {
        if classify::matched(number).is_some() {
            counter::native(Reason::Flags);
        }
        return None;
    }
    Some(if offset == -1 { At::Position } else { At::Offset(offset) })
}

hook! {
    /// `read(2)`.
    fn read(number: c_int, buffer: *mut c_void, length: size_t) -> ssize_t = -1, |next| {
        answer(data::read(number, &piece(buffer, length), At::Position), next)
    }

    /// `read(2)` where the compiler knew the buffer's size; the C library ends a program that exceeds it.
    fn __read_chk(number: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t = -1, |next| {
        if length > room {
            return next();
        }
        answer(data::read(number, &piece(buffer, length), At::Position), next)
    }

    /// `pread(2)`.
    fn pread(number: c_int, buffer: *mut c_void, length: size_t, offset: off_t) -> ssize_t = -1, |next| {
        answer(data::read(number, &piece(buffer, length), At::Offset(offset)), next)
    }

    /// `pread(2)`.
    fn pread64(number: c_int, buffer: *mut c_void, length: size_t, offset: off_t) -> ssize_t = -1, |next| {
        answer(data::read(number, &piece(buffer, length), At::Offset(offset)), next)
    }

    /// `pread(2)`, as [`__read_chk`].
    fn __pread_chk(
        number: c_int, buffer: *mut c_void, length: size_t, offset: off_t, room: size_t
    ) -> ssize_t = -1, |next| {
        if length > room {
            return next();
        }
        answer(data::read(number, &piece(buffer, length), At::Offset(offset)), next)
    }

    /// `pread(2)`, as [`__read_chk`].
    fn __pread64_chk(
        number: c_int, buffer: *mut c_void, length: size_t, offset: off_t, room: size_t
    ) -> ssize_t = -1, |next| {
        if length > room {
            return next();
        }
        answer(data::read(number, &piece(buffer, length), At::Offset(offset)), next)
    }

    /// `write(2)`.
    fn write(number: c_int, buffer: *const c_void, length: size_t) -> ssize_t = -1, |next| {
        answer(data::write(number, &piece(buffer, length), At::Position), next)
    }

    /// `pwrite(2)`.
    fn pwrite(number: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t = -1, |next| {
        answer(data::write(number, &piece(buffer, length), At::Offset(offset)), next)
    }

    /// `pwrite(2)`.
    fn pwrite64(number: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t = -1, |next| {
        answer(data::write(number, &piece(buffer, length), At::Offset(offset)), next)
    }

    /// `readv(2)`.
    fn readv(number: c_int, vectors: *const iovec, count: c_int) -> ssize_t = -1, |next| {
        answer(readv_at(number, vectors, count, At::Position), next)
    }

    /// `writev(2)`.
    fn writev(number: c_int, vectors: *const iovec, count: c_int) -> ssize_t = -1, |next| {
        answer(writev_at(number, vectors, count, At::Position), next)
    }

    /// `preadv(2)`.
    fn preadv(number: c_int, vectors: *const iovec, count: c_int, offset: off_t) -> ssize_t = -1, |next| {
        answer(readv_at(number, vectors, count, At::Offset(offset)), next)
    }

    /// `preadv(2)`.
    fn preadv64(number: c_int, vectors: *const iovec, count: c_int, offset: off_t) -> ssize_t = -1, |next| {
        answer(readv_at(number, vectors, count, At::Offset(offset)), next)
    }

    /// `pwritev(2)`.
    fn pwritev(number: c_int, vectors: *const iovec, count: c_int, offset: off_t) -> ssize_t = -1, |next| {
        answer(writev_at(number, vectors, count, At::Offset(offset)), next)
    }

    /// `pwritev(2)`.
    fn pwritev64(number: c_int, vectors: *const iovec, count: c_int, offset: off_t) -> ssize_t = -1, |next| {
        answer(writev_at(number, vectors, count, At::Offset(offset)), next)
    }

    /// `preadv2(2)`.
    fn preadv2(
        number: c_int, vectors: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = -1, |next| {
        let outcome = place(number, offset, flags).map(|at| readv_at(number, vectors, count, at));
        answer(outcome.unwrap_or(Outcome::Native), next)
    }

    /// `preadv2(2)`.
    fn preadv64v2(
        number: c_int, vectors: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = -1, |next| {
        let outcome = place(number, offset, flags).map(|at| readv_at(number, vectors, count, at));
        answer(outcome.unwrap_or(Outcome::Native), next)
    }

    /// `pwritev2(2)`.
    fn pwritev2(
        number: c_int, vectors: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = -1, |next| {
        let outcome = place(number, offset, flags).map(|at| writev_at(number, vectors, count, at));
        answer(outcome.unwrap_or(Outcome::Native), next)
    }

    /// `pwritev2(2)`.
    fn pwritev64v2(
        number: c_int, vectors: *const iovec, count: c_int, offset: off_t, flags: c_int
    ) -> ssize_t = -1, |next| {
        let outcome = place(number, offset, flags).map(|at| writev_at(number, vectors, count, at));
        answer(outcome.unwrap_or(Outcome::Native), next)
    }
}
