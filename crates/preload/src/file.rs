//! Calls about a whole file: sync, truncate, allocate, advice.

use std::os::fd::RawFd;

use forebay_client::{ByteRange, Bytes, Connection, Error, Handle, Offset};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::absence::{self, Instead};
use crate::classify;
use crate::counter::{self, Kind, Reason};
use crate::forward::{Failure, Outcome, Repeat, forward};
use crate::sys::SignalsWait;
use crate::{settings, table};

/// How much a sync writes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// `fsync`.
    Everything,
    /// `fdatasync`.
    Data,
}

/// `fsync` and `fdatasync`.
pub(crate) fn sync(number: RawFd, what: Sync) -> Outcome {
    let Some(settings) = settings::current() else { return Outcome::Native };
    let outcome = forwarded(number, None, |connection, handle| match what {
        Sync::Everything => connection.sync(handle),
        Sync::Data => connection.data_sync(handle),
    });
    match outcome {
        // This node's kernel may hold pages of its own, from calls that are not hooked.
        Outcome::Moved(_) if !settings.is_local() => Outcome::Native,
        // What was written is in another node's memory, and nobody there can be asked.
        Outcome::Native if settings.wrote_elsewhere() && classify::matched(number).is_some() => {
            Outcome::Failed(Errno::IO)
        }
        outcome => outcome,
    }
}

/// `ftruncate`.
pub(crate) fn truncate(number: RawFd, size: i64) -> Outcome {
    let Ok(size) = u64::try_from(size) else { return Outcome::Native };
    forwarded(number, Some(OFlags::RDONLY), |connection, handle| {
        connection.truncate(handle, Bytes(size))
    })
}

/// `fallocate`.
pub(crate) fn allocate(number: RawFd, mode: i32, offset: i64, length: i64) -> Outcome {
    let Some(range) = range(offset, length).filter(|range| !range.is_empty()) else {
        return Outcome::Native;
    };
    let mode = mode.cast_unsigned();
    forwarded(number, Some(OFlags::RDONLY), |connection, handle| {
        connection.allocate(handle, mode, range)
    })
}

/// `posix_fadvise`: of use only where the forwarder already has the file.
pub(crate) fn advise(number: RawFd, offset: i64, length: i64, advice: i32) -> Outcome {
    const ADVICE_MAX: u32 = 5;
    let Some(range) = range(offset, length) else { return Outcome::Native };
    let Ok(advice @ 0..=ADVICE_MAX) = u32::try_from(advice) else { return Outcome::Native };
    if table::attached(number) == 0 {
        return Outcome::Native;
    }
    forwarded(number, None, |connection, handle| connection.hint(handle, advice, range))
}

/// Counts a call that is never forwarded, if its file is a matched one.
pub(crate) fn note(number: RawFd, reason: Reason) {
    if number >= 0 && classify::matched(number).is_some() {
        counter::native(reason);
    }
}

fn range(offset: i64, length: i64) -> Option<ByteRange> {
    let (start, length) = (u64::try_from(offset).ok()?, u64::try_from(length).ok()?);
    offset.checked_add_unsigned(length)?;
    Some(ByteRange::new(Offset(start), Bytes(length)))
}

/// Forwards a call that can be repeated. One that `changes` the file needs more than the access
/// named there, and no file size limit, which only the kernel can signal.
fn forwarded(
    number: RawFd,
    changes: Option<OFlags>,
    act: impl FnMut(&mut Connection, Handle) -> Result<(), Error>,
) -> Outcome {
    let (Some(file), Some(settings)) = (classify::matched(number), settings::current()) else {
        return Outcome::Native;
    };
    if let Some(wrong) = changes {
        if file.flags & OFlags::ACCMODE == wrong {
            return Outcome::Native;
        }
        if getrlimit(Resource::Fsize).current.is_some() {
            counter::native(Reason::SizeLimit);
            return Outcome::Native;
        }
    }
    let _undisturbed = SignalsWait::new();
    let failure = match forward(&file, settings, Repeat::Always, act) {
        Ok(()) => {
            counter::forwarded(Kind::Other, 0);
            return Outcome::Moved(0);
        }
        Err(failure) => failure,
    };
    let instead = match failure {
        Failure::Errno(errno) => Instead::Fail(errno),
        Failure::Unsent(instead) => instead,
        Failure::Memory => Instead::Kernel,
        // As for a write: it may still happen, after whatever comes next.
        Failure::Lost(error) if changes.is_some() && !error.is_gone() => {
            absence::ambiguous(&error, settings);
            Instead::Fail(Errno::IO)
        }
        Failure::Lost(error) => absence::failed(&error, settings),
    };
    match instead {
        Instead::Kernel => Outcome::Native,
        Instead::Fail(errno) => Outcome::Failed(errno),
    }
}
