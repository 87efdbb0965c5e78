//! What a descriptor is, found out from the kernel at its first data call.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, RawFd};

use forebay_client::Piece;
use rustix::fs::{FileType, OFlags};

use crate::counter::{self, Reason};
use crate::prefix::Prefixes;
use crate::settings::{self, Settings};
use crate::slot::SLOTS;
use crate::sys::{self, Filled, Held, TryLock};
use crate::table::{self, Identity, State};
use crate::{descriptor_path, process, report};

/// `PATH_MAX` and the ` (deleted)` that the kernel appends.
const NAME_MAX: usize = 4096 + 16;

/// The most vectors in one call (`UIO_MAXIOV`).
pub(crate) const PIECES_MAX: usize = 1024;

/// Room that calls need and that a signal stack does not have.
pub(crate) struct Scratch {
    /// A path.
    pub(crate) name: [u8; NAME_MAX],
    /// A program's vectors.
    pub(crate) pieces: [Piece; PIECES_MAX],
}

static SCRATCH: [TryLock<Scratch>; SLOTS] =
    [const { TryLock::new(Scratch { name: [0; NAME_MAX], pieces: [Piece::EMPTY; PIECES_MAX] }) };
        SLOTS];

/// The configured prefixes, with symbolic links resolved.
struct Matching {
    paths: Prefixes,
    export: Prefixes,
}

static MATCHING: Filled<Matching> =
    Filled::new(Matching { paths: Prefixes::new(), export: Prefixes::new() });

/// A regular file under a configured prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    /// The descriptor.
    pub(crate) number: RawFd,
    /// The number's epoch.
    pub(crate) epoch: u32,
    /// The file.
    pub(crate) identity: Identity,
    /// Its flags now, as `F_GETFL` says: another process that shares it may have changed them.
    pub(crate) flags: OFlags,
    /// Its size now.
    pub(crate) size: u64,
}

/// Takes room, if any is free.
pub(crate) fn scratch() -> Option<Held<Scratch>> {
    SCRATCH.iter().find_map(TryLock::try_lock)
}

/// In a forked child: what another thread of the parent was about to do, nobody will.
pub(crate) fn forget_unfinished() {
    MATCHING.forget_unfinished();
    for scratch in &SCRATCH {
        drop(scratch.inherit());
    }
}

/// The matched file that a descriptor means, asked of the kernel; `None` for everything else.
pub(crate) fn matched(number: RawFd) -> Option<Match> {
    if table::is_native(number) {
        return None;
    }
    let settings = settings::current()?;
    let mut seen = table::look(number)?;
    if seen.state == State::Ours {
        return None;
    }
    if !process::owns_state() {
        if matches!(seen.state, State::Matched(_)) {
            counter::native(Reason::Child);
        }
        return None;
    }
    let descriptor = sys::descriptor(number)?;
    let stat = rustix::fs::fstat(descriptor).ok()?;
    let identity = Identity::of(&stat);
    if matches!(seen.state, State::Matched(known) if known != identity) {
        table::forget(number);
        seen = table::look(number)?;
    }
    if seen.state == State::Unknown && !settle(descriptor, number, seen.epoch, &stat, settings) {
        return None;
    }
    let flags = rustix::fs::fcntl_getfl(descriptor).ok()?;
    let is_usable = !flags.contains(OFlags::PATH);
    is_usable.then(|| Match {
        number,
        epoch: seen.epoch,
        identity,
        flags,
        size: stat.st_size.unsigned_abs(),
    })
}

/// Finds out what an unknown descriptor is and notes it; whether it is a matched file.
fn settle(
    descriptor: BorrowedFd<'_>,
    number: RawFd,
    epoch: u32,
    stat: &rustix::fs::Stat,
    settings: &Settings,
) -> bool {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        table::settle_native(number, epoch);
        return false;
    }
    // Without room now, it is looked at next time.
    let Some(mut scratch) = scratch() else { return false };
    MATCHING.fill(|matching| matching.read(settings, &mut scratch.name));
    let Some(matching) = MATCHING.get() else { return false };
    let name = name_of(descriptor, stat.st_nlink == 0, &mut scratch.name);
    if name.is_some_and(|name| matching.paths.relative(name).is_some()) {
        table::settle_matched(number, epoch, Identity::of(stat));
        report::keep_standard_error(settings);
        true
    } else {
        table::settle_native(number, epoch);
        false
    }
}

/// The kernel's name for a file; of a deleted one, the name that it had.
fn name_of<'r>(
    descriptor: BorrowedFd<'_>,
    is_deleted: bool,
    room: &'r mut [u8],
) -> Option<&'r [u8]> {
    let length = descriptor_path::read(descriptor, room).ok()?;
    // A name that fills the room may be cut off.
    let name = room.get(..length).filter(|name| name.len() < NAME_MAX)?;
    Some(if is_deleted { name.strip_suffix(b" (deleted)").unwrap_or(name) } else { name })
}

/// The path to open at the forwarder, over TCP.
pub(crate) fn path_beneath_export<'s>(
    descriptor: BorrowedFd<'_>,
    scratch: &'s mut Scratch,
) -> Option<&'s [u8]> {
    let name = name_of(descriptor, false, &mut scratch.name)?;
    MATCHING.get()?.export.relative(name).filter(|path| !path.is_empty())
}

impl Matching {
    fn read(&mut self, settings: &Settings, room: &mut [u8]) {
        let (paths, export) = (settings.paths.as_bytes(), settings.export.as_bytes());
        for path in paths.split(|&byte| byte == b':').filter(|path| !path.is_empty()) {
            add(&mut self.paths, path, room);
        }
        if !export.is_empty() {
            add(&mut self.export, export, room);
        }
    }
}

/// Adds a prefix as given and as the kernel calls it.
fn add(prefixes: &mut Prefixes, path: &[u8], room: &mut [u8]) {
    prefixes.push(path);
    if let Some(start) = room.get_mut(..path.len() + 1) {
        start[..path.len()].copy_from_slice(path);
        start[path.len()] = 0;
        if let Ok(path) = CStr::from_bytes_with_nul(start) {
            prefixes.push_resolved(path);
        }
    }
}
