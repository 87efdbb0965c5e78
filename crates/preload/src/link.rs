//! One connection to the forwarder and the handles that it has for descriptors.
//!
//! Everything is lazy and disposable: a lost, closed or inherited connection is dropped, and the
//! next call makes another and opens again what it needs.

use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use forebay_client::{Bye, Connection, Error, Handle, Limits, Opened, Who};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::classify::{self, Match};
use crate::counter::Reason;
use crate::settings::Settings;
use crate::slot::{self, SLOTS};
use crate::table::{self, DESCRIPTORS, Identity};
use crate::text::Text;
use crate::{absence, start, sys};

/// Where our sockets go, out of the way of programs that expect the lowest free numbers.
const NUMBER_MIN: u64 = 1000;

/// Handles that one connection has at most, a little below the protocol's limit.
const HANDLES_MAX: u32 = 4_000;

/// A connection that may or may not be there.
pub(crate) struct Link {
    /// Its place among the connections.
    idx: usize,
    /// Never dropped: its socket is closed here, if it still is its socket, and it owns nothing else.
    connection: Option<ManuallyDrop<Connection>>,
    socket: RawFd,
    socket_identity: Identity,
    /// Which connection of this place it is; handles of earlier ones do not count.
    serial: u32,
    handles: u32,
}

/// The handle that a connection has for a descriptor number.
struct Record {
    /// The connection's serial number; 0 is none.
    serial: AtomicU32,
    /// The number's epoch when it was opened.
    epoch: AtomicU32,
    handle: AtomicU32,
    /// The flags it was opened with, where the forwarder has a descriptor of its own.
    flags: AtomicU32,
}

/// Used only by the holder of the place.
static RECORDS: [[Record; DESCRIPTORS]; SLOTS] = [const {
    [const {
        Record {
            serial: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            handle: AtomicU32::new(0),
            flags: AtomicU32::new(0),
        }
    }; DESCRIPTORS]
}; SLOTS];

/// What a connection is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A call: worth waiting for, and worth starting a forwarder.
    Work,
    /// Telling what was not forwarded, within a short time.
    Goodbye(Duration),
}

/// Why a descriptor cannot be used through a connection.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// For this file and this reason.
    File(Reason),
    /// The connection failed.
    Connection(Error),
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Self {
        match error {
            Error::Errno(_) => Self::File(Reason::Refused),
            Error::Unsendable(_) => Self::File(Reason::Busy),
            lost => Self::Connection(lost),
        }
    }
}

impl Link {
    /// No connection yet.
    pub(crate) const fn new() -> Self {
        Self {
            idx: 0,
            connection: None,
            socket: -1,
            socket_identity: Identity { device: 0, inode: 0 },
            serial: 0,
            handles: 0,
        }
    }

    /// Tells the connection where it lives.
    pub(crate) fn take_place(&mut self, idx: usize) {
        self.idx = idx;
    }

    /// Whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// The connection, if it is there and its socket is still ours: code that we do not hook may
    /// have closed the number and put something else there, which must not be written to.
    pub(crate) fn connection(&mut self) -> Option<&mut Connection> {
        if self.connection.is_some() && !self.owns_socket() {
            self.let_go();
        }
        self.connection.as_deref_mut()
    }

    fn owns_socket(&self) -> bool {
        sys::descriptor(self.socket)
            .and_then(|socket| rustix::fs::fstat(socket).ok())
            .is_some_and(|stat| Identity::of(&stat) == self.socket_identity)
    }

    /// Makes a connection.
    #[cold]
    #[inline(never)]
    pub(crate) fn connect(&mut self, settings: &Settings, purpose: Purpose) -> Result<(), Error> {
        let connection = connect(settings, purpose)?;
        let socket = connection.stream().as_fd();
        self.socket = socket.as_raw_fd();
        self.socket_identity = Identity::of(&rustix::fs::fstat(socket).map_err(Error::Connect)?);
        self.serial = self.serial.wrapping_add(1).max(1);
        self.handles = 0;
        table::claim(self.socket);
        slot::note_socket(self.idx, self.socket);
        self.connection = Some(ManuallyDrop::new(connection));
        absence::connected();
        Ok(())
    }

    /// The connection and its handle for a file, opened now if need be.
    pub(crate) fn opened(
        &mut self,
        file: &Match,
        settings: &Settings,
    ) -> Result<(&mut Connection, Handle), Unusable> {
        if self.connection().is_none() {
            if sys::is_on_signal_stack() {
                // Connecting takes more room than such a stack may have left.
                return Err(Unusable::File(Reason::Busy));
            }
            self.connect(settings, Purpose::Work)?;
        }
        let record = &RECORDS[self.idx][file.number as usize];
        let is_current = record.serial.load(Ordering::Relaxed) == self.serial;
        let flags = if settings.is_local() { 0 } else { keep(file.flags).bits() };
        let (epoch_then, flags_then) =
            (record.epoch.load(Ordering::Relaxed), record.flags.load(Ordering::Relaxed));
        if is_current && (epoch_then, flags_then) != (file.epoch, flags) {
            // The number meant another file before, and nobody told us when it was closed; or the
            // program has changed the flags, which a descriptor of the forwarder's own does not share.
            let _ = self.close(file.number);
        } else if is_current {
            let handle = Handle(record.handle.load(Ordering::Relaxed));
            return self
                .connection
                .as_deref_mut()
                .map(|connection| (connection, handle))
                .ok_or(Unusable::File(Reason::Absent));
        }
        if self.handles >= HANDLES_MAX {
            return Err(Unusable::File(Reason::Busy));
        }
        let Some(connection) = self.connection.as_deref_mut() else {
            return Err(Unusable::File(Reason::Absent));
        };
        let opened = open(connection, file)?;
        self.handles += 1;
        record.handle.store(opened.handle.0, Ordering::Relaxed);
        record.epoch.store(file.epoch, Ordering::Relaxed);
        record.flags.store(flags, Ordering::Relaxed);
        record.serial.store(self.serial, Ordering::Relaxed);
        table::attach(file.number, self.idx);
        if opened.id.inode != file.identity.inode {
            // Over TCP the path led elsewhere: a chroot, a mount, a rename in between.
            let _ = self.close(file.number);
            return Err(Unusable::File(Reason::Outside));
        }
        self.connection
            .as_deref_mut()
            .map(|connection| (connection, opened.handle))
            .ok_or(Unusable::File(Reason::Absent))
    }

    /// Closes the handle for a number, if there is one; a late write error comes back here.
    pub(crate) fn close(&mut self, number: RawFd) -> Result<(), Errno> {
        table::detach(number, self.idx);
        let Some(record) =
            usize::try_from(number).ok().and_then(|number| RECORDS[self.idx].get(number))
        else {
            return Ok(());
        };
        if record.serial.swap(0, Ordering::Relaxed) != self.serial {
            return Ok(());
        }
        self.handles = self.handles.saturating_sub(1);
        let handle = Handle(record.handle.load(Ordering::Relaxed));
        match self.connection().map(|connection| connection.close(handle)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(Error::Errno(errno))) => Err(errno),
            // What was written is in the store; only the connection is gone.
            Some(Err(_)) => {
                self.disconnect();
                Ok(())
            }
        }
    }

    /// Closes the handles of numbers that were forgotten while somebody held this connection.
    pub(crate) fn close_stale(&mut self) {
        for number in table::touched(0, u32::MAX) {
            let record = &RECORDS[self.idx][number as usize];
            let is_current = record.serial.load(Ordering::Relaxed) == self.serial;
            let epoch = table::look(number).map(|seen| seen.epoch);
            if is_current && Some(record.epoch.load(Ordering::Relaxed)) != epoch {
                let _ = self.close(number);
            }
        }
    }

    /// Closes the connection.
    pub(crate) fn disconnect(&mut self) {
        if self.connection().is_some() {
            sys::close(self.socket);
            self.let_go();
        }
    }

    /// Says goodbye and closes, within a short time: the process is about to end.
    pub(crate) fn bye(&mut self, said: &Bye<'_>, limit: Duration) {
        if let Some(connection) = self.connection() {
            connection.limit_progress(limit);
            let _ = connection.bye(said);
        }
        self.disconnect();
    }

    /// In a forked child: closes the child's copy of the parent's socket and keeps nothing. The
    /// parent may have been in the middle of a call, so what memory says of it is not looked at.
    pub(crate) fn abandon(&mut self) {
        if self.socket >= 0 && self.owns_socket() {
            sys::close(self.socket);
        }
        self.let_go();
    }

    /// Forgets the connection without closing its socket, which is not ours any more.
    fn let_go(&mut self) {
        table::forget(self.socket);
        slot::note_socket(self.idx, -1);
        self.socket = -1;
        self.connection = None;
    }
}

impl Identity {
    /// What `fstat` says.
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

fn connect(settings: &Settings, purpose: Purpose) -> Result<Connection, Error> {
    if !settings.problem.is_empty() {
        return Err(Error::Connect(Errno::INVAL));
    }
    let endpoint = settings.endpoint.as_ref().ok_or(Error::Connect(Errno::DESTADDRREQ))?;
    let mut program = Text::<64>::new();
    sys::program(|name| program.push(name));
    let who = Who { job: settings.job.as_bytes(), program: program.as_bytes() };
    let limit = match purpose {
        Purpose::Work => settings.timeout,
        Purpose::Goodbye(limit) => limit,
    };
    let limits = Limits { connect: limit, progress: limit };
    let number_min = number_min();
    let attempt = || Connection::connect_above(endpoint, &who, limits, number_min);
    match attempt() {
        Err(error)
            if purpose == Purpose::Work && is_not_there(&error) && start::launch(settings) =>
        {
            start::retry(settings, attempt, is_not_there)
        }
        outcome => outcome,
    }
}

/// Whether nobody listens at the endpoint.
fn is_not_there(error: &Error) -> bool {
    matches!(error, Error::Connect(Errno::CONNREFUSED | Errno::NOENT))
}

/// Numbers near the soft limit where that is below [`NUMBER_MIN`], as in `ulimit -n 256`.
pub(crate) fn number_min() -> RawFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let number = NUMBER_MIN.min(limit - limit / 4);
    RawFd::try_from(number).unwrap_or(0)
}

fn open(connection: &mut Connection, file: &Match) -> Result<Opened, Unusable> {
    let descriptor = sys::descriptor(file.number).ok_or(Unusable::File(Reason::Refused))?;
    if connection.carries_descriptors() {
        return Ok(connection.open(Some(descriptor), b"", file.flags)?);
    }
    let mut scratch = classify::scratch().ok_or(Unusable::File(Reason::Busy))?;
    let path = classify::path_beneath_export(descriptor, &mut scratch)
        .ok_or(Unusable::File(Reason::Outside))?;
    Ok(connection.open(None, path, keep(file.flags))?)
}

/// What of the flags means something to the forwarder.
fn keep(flags: OFlags) -> OFlags {
    flags & (OFlags::ACCMODE | OFlags::APPEND | OFlags::DIRECT | OFlags::SYNC | OFlags::DSYNC)
}
