//! Data calls: what becomes of a `read` or a `write`.

use std::os::fd::RawFd;

use forebay_client::{ByteRange, Bytes, Offset, Piece, Place};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::absence::{self, Instead};
use crate::classify::{self, Match};
use crate::counter::{self, Kind, Reason};
use crate::forward::{Failure, Outcome, Repeat, forward};
use crate::position::{self, At, Reserved};
use crate::settings::{self, Settings};
use crate::sys::{self, SignalsWait};

/// The most that Linux moves in one call (`MAX_RW_COUNT`).
pub(crate) const CALL_BYTES_MAX: usize = 0x7fff_f000;

/// What `O_DIRECT` is aligned to when Forebay carries it out; less goes to the kernel, which knows
/// what the file system needs.
const DIRECT_BYTES: u64 = 4096;

/// `read`, `readv`, `pread`, `preadv`.
pub(crate) fn read(number: RawFd, pieces: &[Piece], at: At) -> Outcome {
    try_read(number, pieces, at).map_or_else(|other| other, Outcome::Moved)
}

/// `write`, `writev`, `pwrite`, `pwritev`.
pub(crate) fn write(number: RawFd, pieces: &[Piece], at: At) -> Outcome {
    try_write(number, pieces, at).map_or_else(|other| other, Outcome::Moved)
}

fn try_read(number: RawFd, pieces: &[Piece], at: At) -> Result<usize, Outcome> {
    let (file, settings) = target(number, OFlags::WRONLY)?;
    let mut length = admitted(&file, pieces, at)?;
    if settings.is_local() {
        // This node's own kernel knows the size exactly. Reserving no more than there is keeps the
        // position right for others that share it, and at the end the kernel itself says 0.
        let start = at.start(number).ok_or(Outcome::Native)?;
        length = length.min(file.size.saturating_sub(start));
        if length == 0 {
            return Err(Outcome::Native);
        }
    }
    let _undisturbed = SignalsWait::new();
    let reserved = at.reserve(number, length).ok_or(Outcome::Native)?;
    let range = ByteRange::new(Offset(reserved.start), Bytes(length));
    let read = forward(&file, settings, Repeat::Always, |connection, handle| {
        connection.read(handle, range, &mut sys::destination(pieces))
    });
    match read {
        Ok(Bytes(moved)) => {
            reserved.settle(moved);
            counter::forwarded(Kind::Read, moved as usize);
            Ok(moved as usize)
        }
        Err(failure) => match given_up(failure, settings) {
            Instead::Fail(errno) => fail(reserved, errno),
            Instead::Kernel => {
                let start = reserved.start;
                finish(reserved, sys::read_at(number, pieces, start))
            }
        },
    }
}

fn try_write(number: RawFd, pieces: &[Piece], at: At) -> Result<usize, Outcome> {
    let (file, settings) = target(number, OFlags::RDONLY)?;
    let length = admitted(&file, pieces, at)?;
    if has_size_limit() {
        return Err(native(Reason::SizeLimit));
    }
    let _undisturbed = SignalsWait::new();
    if file.flags.contains(OFlags::APPEND) {
        return match at {
            At::Position => append(&file, pieces, settings),
            At::Offset(_) => Err(native(Reason::Append)),
        };
    }
    let reserved = at.reserve(number, length).ok_or(Outcome::Native)?;
    let place = Place::At(Offset(reserved.start));
    let written = forward(&file, settings, Repeat::Always, |connection, handle| {
        connection.write(handle, place, &sys::source(pieces))
    });
    match written {
        Ok(written) => {
            reserved.settle(written.bytes.0);
            Ok(wrote(written.bytes, settings))
        }
        // Whoever gave no answer but lives may still be about to write, and would then overwrite
        // what is written directly from now on.
        Err(Failure::Lost(error)) if !error.is_gone() => {
            absence::ambiguous(&error, settings);
            fail(reserved, Errno::IO)
        }
        Err(failure) => match given_up(failure, settings) {
            Instead::Fail(errno) => fail(reserved, errno),
            Instead::Kernel => {
                let start = reserved.start;
                finish(reserved, sys::write_at(number, pieces, start))
            }
        },
    }
}

/// Appends: one place per file decides where, so the position is only known afterwards.
fn append(file: &Match, pieces: &[Piece], settings: &Settings) -> Result<usize, Outcome> {
    let appended = forward(file, settings, Repeat::Unsent, |connection, handle| {
        connection.write(handle, Place::End, &sys::source(pieces))
    });
    match appended {
        Ok(written) => {
            position::set(file.number, written.end.0);
            Ok(wrote(written.bytes, settings))
        }
        Err(Failure::Errno(errno)) => Err(Outcome::Failed(errno)),
        Err(Failure::Unsent(Instead::Fail(errno))) => Err(Outcome::Failed(errno)),
        Err(Failure::Unsent(Instead::Kernel)) => Err(Outcome::Native),
        Err(Failure::Memory) => Err(Outcome::Failed(Errno::FAULT)),
        // It may have happened, and doing it again would append twice.
        Err(Failure::Lost(error)) => {
            absence::ambiguous(&error, settings);
            Err(Outcome::Failed(Errno::IO))
        }
    }
}

/// The matched file and the settings, unless the kernel is to say what is wrong with the access.
fn target(number: RawFd, wrong_access: OFlags) -> Result<(Match, &'static Settings), Outcome> {
    let file = classify::matched(number).ok_or(Outcome::Native)?;
    if file.flags & OFlags::ACCMODE == wrong_access {
        return Err(Outcome::Native);
    }
    Ok((file, settings::current().ok_or(Outcome::Native)?))
}

/// How many bytes the call moves at most, unless it is one for the kernel.
fn admitted(file: &Match, pieces: &[Piece], at: At) -> Result<u64, Outcome> {
    let length = pieces.iter().fold(0_u64, |sum, piece| sum.saturating_add(piece.length as u64));
    if length == 0 {
        return Err(Outcome::Native);
    }
    if length > CALL_BYTES_MAX as u64 {
        return Err(native(Reason::Length));
    }
    if let At::Offset(offset) = at
        && (offset < 0 || offset.checked_add_unsigned(length).is_none())
    {
        return Err(Outcome::Native);
    }
    if file.flags.contains(OFlags::DIRECT) && !is_aligned(file.number, pieces, at) {
        return Err(native(Reason::Alignment));
    }
    Ok(length)
}

fn is_aligned(number: RawFd, pieces: &[Piece], at: At) -> bool {
    let memory = pieces
        .iter()
        .fold(0, |bits, piece| bits | piece.address.addr() as u64 | piece.length as u64);
    at.start(number).is_some_and(|start| (memory | start).is_multiple_of(DIRECT_BYTES))
}

/// Beyond a file size limit the kernel sends SIGXFSZ to the process that writes, which here would
/// be the forwarder.
fn has_size_limit() -> bool {
    getrlimit(Resource::Fsize).current.is_some()
}

fn native(reason: Reason) -> Outcome {
    counter::native(reason);
    Outcome::Native
}

fn wrote(bytes: Bytes, settings: &Settings) -> usize {
    counter::forwarded(Kind::Write, bytes.0 as usize);
    settings.note_write();
    bytes.0 as usize
}

/// What becomes of a call at a fixed place that failed: done again by the kernel it is the same call.
fn given_up(failure: Failure, settings: &Settings) -> Instead {
    match failure {
        Failure::Errno(errno) => Instead::Fail(errno),
        Failure::Unsent(instead) => instead,
        Failure::Memory => {
            counter::native(Reason::Memory);
            Instead::Kernel
        }
        Failure::Lost(error) => {
            let instead = absence::failed(&error, settings);
            if instead == Instead::Kernel {
                counter::native(Reason::Absent);
            }
            instead
        }
    }
}

fn fail(reserved: Reserved, errno: Errno) -> Result<usize, Outcome> {
    reserved.settle(0);
    Err(Outcome::Failed(errno))
}

/// The kernel's answer to a call whose bytes were reserved already.
fn finish(reserved: Reserved, moved: Result<usize, Errno>) -> Result<usize, Outcome> {
    match moved {
        Ok(moved) => {
            reserved.settle(moved as u64);
            Ok(moved)
        }
        Err(errno) => fail(reserved, errno),
    }
}
