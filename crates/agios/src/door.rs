//! The calls, after pointers and before the library: which library there is, and what an argument means.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use forebay_controller::FileKey;
use forebay_units::{Bytes, Direction, OFFSET_MAX, Offset};

use crate::config::{Config, DEFAULT_FILE};
use crate::library::{self, Addition, Library};
use crate::metrics::Snapshot;
use crate::outstanding::Name;
use crate::sys::{self, CallBacks, OwnCallBack};

/// The library that runs; there is one a process, because the interface has no handle.
static RUNNING: RwLock<Option<Arc<Library>>> = RwLock::new(None);

/// Whether it runs, as one of the three below. Looked at before any lock: in a forked child a lock
/// may be held for ever by a thread that stayed behind.
static STATE: AtomicU8 = AtomicU8::new(STOPPED);
const STOPPED: u8 = 0;
const RUNS: u8 = 1;
/// It ran when this process was forked; the thread that calls back is not here.
const LEFT_BEHIND: u8 = 2;

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An argument or the configuration cannot be used.
    Invalid,
    /// The queue is full.
    QueueFull,
    /// No thread or descriptor is left.
    NoResource,
    /// No memory is left.
    NoMemory,
    /// The library does not run, or not in this process.
    NotRunning,
    /// It runs already.
    Running,
    /// There is no such request.
    Unknown,
    /// The request is with the program.
    InFlight,
    /// The library has failed.
    Broken,
}

impl Failure {
    pub(crate) fn errno(self) -> i32 {
        match self {
            Self::Invalid => libc::EINVAL,
            Self::QueueFull | Self::NoResource => libc::EAGAIN,
            Self::NoMemory => libc::ENOMEM,
            Self::NotRunning => libc::ENXIO,
            Self::Running => libc::EBUSY,
            Self::Unknown => libc::ENOENT,
            Self::InFlight => libc::EALREADY,
            Self::Broken => libc::EIO,
        }
    }
}

/// Says something to whoever runs the program. AGIOS prints too; there is no other way out.
pub(crate) fn say(text: &str) {
    let mut lines = String::new();
    for line in text.lines() {
        lines.push_str("agios: ");
        lines.push_str(line);
        lines.push('\n');
    }
    // Without standard error there is nobody to tell.
    _ = io::stderr().write_all(lines.as_bytes());
}

/// Says why an argument cannot be used.
pub(crate) fn refuse(text: &str) -> Failure {
    say(text);
    Failure::Invalid
}

pub(crate) fn init(
    call_backs: CallBacks,
    path: Option<&Path>,
    max_queue_id: i32,
) -> Result<(), Failure> {
    let Ok(queues) = u32::try_from(max_queue_id) else {
        return Err(refuse(&format!(
            "agios_init: max_queue_id is {max_queue_id}; give 0, or how many queue ids there are"
        )));
    };
    if STATE.load(Ordering::Acquire) == LEFT_BEHIND {
        say("agios_init: this process is a fork of one in which the library runs; \
             start it after the fork, or run another program");
        return Err(Failure::Running);
    }
    let mut running = RUNNING.write().unwrap_or_else(PoisonError::into_inner);
    if running.is_some() {
        say("agios_init: the library is running already; call agios_exit first");
        return Err(Failure::Running);
    }
    let loaded = Config::load(path, Path::new(DEFAULT_FILE), queues)
        .map_err(|error| refuse(&error.to_string()))?;
    loaded.remarks.iter().for_each(|remark| say(remark));
    *running = Some(Library::start(&loaded.config, call_backs, queues)?);
    sys::run_in_forked_child(note_fork);
    STATE.store(RUNS, Ordering::Release);
    Ok(())
}

/// Without a library there is nothing to end, which is no failure.
pub(crate) fn exit() -> Result<(), Failure> {
    /// Held by the one who ends the library; it is there for releases until its thread has ended.
    static ENDING: Mutex<()> = Mutex::new(());

    if STATE.load(Ordering::Acquire) != RUNS {
        return Ok(());
    }
    if library::is_calling_back() {
        say("agios_exit: called from inside a call-back, which it would wait for; nothing is done");
        return Err(Failure::Invalid);
    }
    let _ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    // If somebody else has ended it meanwhile, there is nothing to clear: a later one may start already.
    let Ok(library) = running() else { return Ok(()) };
    library.stop();
    let mut running = RUNNING.write().unwrap_or_else(PoisonError::into_inner);
    STATE.store(STOPPED, Ordering::Release);
    *running = None;
    Ok(())
}

pub(crate) fn add(
    file: &[u8],
    kind: i32,
    offset: i64,
    length: i64,
    identifier: i64,
    queue_id: i32,
    own: Option<OwnCallBack>,
) -> Result<(), Failure> {
    let addition =
        Addition { name: named(file, kind, offset, length)?, file, identifier, queue_id, own };
    running()?.add(&addition)
}

pub(crate) fn release(file: &[u8], kind: i32, length: i64, offset: i64) -> Result<(), Failure> {
    running()?.release(&named(file, kind, offset, length)?)
}

pub(crate) fn cancel(file: &[u8], kind: i32, length: i64, offset: i64) -> Result<(), Failure> {
    running()?.cancel(&named(file, kind, offset, length)?)
}

pub(crate) fn metrics() -> Result<Snapshot, Failure> {
    Ok(running()?.metrics())
}

/// Called in a forked child.
extern "C" fn note_fork() {
    // Nobody else is here to change it meanwhile.
    if STATE.load(Ordering::Relaxed) == RUNS {
        STATE.store(LEFT_BEHIND, Ordering::Relaxed);
    }
}

/// The library, if it runs in this process. No lock is held afterwards, so that call-backs may call.
fn running() -> Result<Arc<Library>, Failure> {
    if STATE.load(Ordering::Acquire) != RUNS {
        return Err(Failure::NotRunning);
    }
    let running = RUNNING.read().unwrap_or_else(PoisonError::into_inner);
    running.clone().ok_or(Failure::NotRunning)
}

/// What a request is named with, if it can be one.
fn named(file: &[u8], kind: i32, offset: i64, length: i64) -> Result<Name, Failure> {
    let direction = match kind {
        0 => Direction::Read,
        1 => Direction::Write,
        _ => return Err(Failure::Invalid),
    };
    let offset = u64::try_from(offset).map_err(|_| Failure::Invalid)?;
    let length = u64::try_from(length).map_err(|_| Failure::Invalid)?;
    if offset + length > OFFSET_MAX.0 {
        return Err(Failure::Invalid);
    }
    Ok(Name {
        file: FileKey::of_name(file),
        direction,
        offset: Offset(offset),
        length: Bytes(length),
    })
}
