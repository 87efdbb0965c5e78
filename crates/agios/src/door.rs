//! The calls, after pointers and before the library: which library there is, and what an argument means.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_units::{Bytes, Direction, OFFSET_MAX, Offset};

use crate::caller;
use crate::config::{Config, DEFAULT_FILE};
use crate::library::{Addition, LIBRARY};
use crate::metrics::Snapshot;
use crate::name::{Name, file_key};
use crate::sys::{self, CallBacks, OwnCallBack};

/// Whether the library runs, as one of those below. Looked at before any lock: in a forked child a
/// lock may be held for ever by a thread that stayed behind.
static STATE: AtomicU8 = AtomicU8::new(STOPPED);
const STOPPED: u8 = 0;
const STARTS: u8 = 1;
const RUNS: u8 = 2;
/// It takes in nothing more; what is with the program may be released.
const ENDS: u8 = 3;
/// It ran when this process was forked; the thread that calls back is not here.
const LEFT_BEHIND: u8 = 4;

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An argument or the configuration cannot be used.
    Invalid,
    /// There is no call-back for a request.
    NoCallBack,
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
            Self::Invalid | Self::NoCallBack => libc::EINVAL,
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
    match STATE.compare_exchange(STOPPED, STARTS, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {}
        Err(LEFT_BEHIND) => {
            say("agios_init: this process is a fork of one in which the library runs; \
                 start it after the fork, or run another program");
            return Err(Failure::Running);
        }
        Err(_) => {
            say("agios_init: the library is running already; call agios_exit first");
            return Err(Failure::Running);
        }
    }
    sys::run_in_forked_child(note_fork);
    let started = start(call_backs, path, queues);
    STATE.store(if started.is_ok() { RUNS } else { STOPPED }, Ordering::SeqCst);
    started
}

fn start(call_backs: CallBacks, path: Option<&Path>, queues: u32) -> Result<(), Failure> {
    let loaded = Config::load(path, Path::new(DEFAULT_FILE), queues)
        .map_err(|error| refuse(&error.to_string()))?;
    loaded.remarks.iter().for_each(|remark| say(remark));
    LIBRARY.start(&loaded.config, call_backs, queues)
}

/// Without a library there is nothing to end, which is no failure.
pub(crate) fn exit() -> Result<(), Failure> {
    /// Held by the one who ends the library; others who would end it wait until it has ended.
    static ENDING: Mutex<()> = Mutex::new(());

    if !is_there() {
        return Ok(());
    }
    if caller::is_calling_back() {
        say("agios_exit: called from inside a call-back, which it would wait for; nothing is done");
        return Err(Failure::Invalid);
    }
    let _ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    if STATE.compare_exchange(RUNS, ENDS, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        LIBRARY.stop();
        STATE.store(STOPPED, Ordering::SeqCst);
    }
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
    check_running()?;
    let name = named(file, kind, offset, length)?;
    LIBRARY.add(&Addition { name, file, identifier, queue_id, own })
}

pub(crate) fn release(file: &[u8], kind: i32, length: i64, offset: i64) -> Result<(), Failure> {
    check_running()?;
    LIBRARY.release(&named(file, kind, offset, length)?)
}

pub(crate) fn cancel(file: &[u8], kind: i32, length: i64, offset: i64) -> Result<(), Failure> {
    check_running()?;
    LIBRARY.cancel(&named(file, kind, offset, length)?)
}

pub(crate) fn metrics() -> Result<Snapshot, Failure> {
    check_running()?;
    LIBRARY.metrics()
}

/// Called in a forked child.
extern "C" fn note_fork() {
    // Nobody else is here to change it meanwhile.
    if STATE.load(Ordering::Relaxed) != STOPPED {
        STATE.store(LEFT_BEHIND, Ordering::Relaxed);
    }
}

/// Whether a library runs in this process, or ends.
fn is_there() -> bool {
    matches!(STATE.load(Ordering::SeqCst), RUNS | ENDS)
}

fn check_running() -> Result<(), Failure> {
    if is_there() { Ok(()) } else { Err(Failure::NotRunning) }
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
    Ok(Name::new(file_key(file), direction, Offset(offset), Bytes(length)))
}
