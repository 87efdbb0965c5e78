//! A forwarder in this process, with everything it needs in a folder of its own.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_client::{
    ByteRange, Bytes, Connection, Destination, Endpoint, Error, Handle, Limits, Offset, Place,
    Source, Who, Written,
};
use forebay_forwarder::settings::StoreKind;
use forebay_forwarder::{Forwarder, Settings, Status, Stopper};
use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::Through;

/// A forwarder on a thread. Files are beneath [`folder`](Running::folder), which is its export.
pub struct Running {
    endpoints: Vec<Endpoint>,
    stopper: Stopper,
    thread: Option<JoinHandle<Status>>,
    folder: TempDir,
}

impl Running {
    /// Starts one that listens on a Unix socket and on TCP, on the posix store, after `change` has
    /// had its say.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("export")).expect("a fresh name");
        let mut settings = Settings::default();
        settings.listen.unix = Some(folder.path().join("socket"));
        settings.listen.tcp = Some("127.0.0.1:0".parse().expect("an address"));
        settings.export.root = Some(folder.path().join("export"));
        settings.store.kind = StoreKind::Posix;
        change(&mut settings);
        let forwarder = Forwarder::bind(&settings).unwrap_or_else(|error| panic!("{error}"));
        let (endpoints, stopper) = (forwarder.endpoints().to_vec(), forwarder.stopper());
        let thread = std::thread::spawn(move || forwarder.run().expect("it serves"));
        Self { endpoints, stopper, thread: Some(thread), folder }
    }

    /// The folder that it exports.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join("export")
    }

    /// Where it listens.
    pub fn endpoint(&self, way: Through) -> &Endpoint {
        let is_wanted =
            |endpoint: &&Endpoint| matches!(endpoint, Endpoint::Unix(_)) == (way == Through::Unix);
        self.endpoints.iter().find(is_wanted).expect("it listens on both")
    }

    /// A new client of it.
    ///
    /// # Panics
    /// If it does not let us in.
    pub fn connect(&self, way: Through) -> Client {
        Client::connect(self.endpoint(way), &self.folder())
    }

    /// What it says of itself.
    ///
    /// # Panics
    /// If it says nothing.
    pub fn status(&self) -> Status {
        self.connect(Through::Unix).status()
    }

    /// Waits until it holds no data, no calls and no files, and at most `connections` others are connected.
    pub fn wait_until_quiet(&self, connections: u64) {
        let mut client = self.connect(Through::Unix);
        crate::wait_until("nothing is held for clients that have gone", || {
            let status = client.status();
            let held =
                status.pool.used_bytes + status.calls.unanswered + status.scheduler.in_flight;
            held == 0
                && status.clients.open_files == 0
                && status.clients.connections <= connections + 1
        });
    }

    /// Stops it; its last words.
    ///
    /// # Panics
    /// If it had stopped before.
    pub fn stop(mut self) -> Status {
        self.stopper.stop();
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("it did not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the forwarder panicked");
        }
    }
}

/// A connection with the calls that tests make most, in plain types.
pub struct Client {
    /// The connection itself.
    pub connection: Connection,
    folder: PathBuf,
}

impl Client {
    /// Connects to a forwarder that exports `folder`.
    ///
    /// # Panics
    /// If it does not let us in.
    pub fn connect(endpoint: &Endpoint, folder: &Path) -> Self {
        Self::connect_as("tests", endpoint, folder)
    }

    /// As [`connect`](Self::connect), of a job.
    ///
    /// # Panics
    /// If it does not let us in.
    pub fn connect_as(job: &str, endpoint: &Endpoint, folder: &Path) -> Self {
        let limits = Limits { connect: Duration::from_secs(20), progress: Duration::from_secs(60) };
        let who = Who { job: job.as_bytes(), program: b"test" };
        let connection = Connection::connect(endpoint, &who, limits);
        let connection = connection.unwrap_or_else(|error| panic!("{endpoint}: {error}"));
        Self { connection, folder: folder.to_path_buf() }
    }

    /// Opens a file for reading and writing, making it if need be, and then at the forwarder: with
    /// its descriptor where that can travel, else by its name.
    ///
    /// # Panics
    /// If either open fails.
    pub fn open(&mut self, name: &str) -> (File, Handle) {
        let path = self.folder.join(name);
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let handle = self
            .attach(&file, name, OFlags::RDWR)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        (file, handle)
    }

    /// As [`open`](Self::open), for appending.
    ///
    /// # Panics
    /// If either open fails.
    pub fn open_to_append(&mut self, name: &str) -> (File, Handle) {
        let path = self.folder.join(name);
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let handle = self.attach(&file, name, OFlags::RDWR | OFlags::APPEND);
        (file, handle.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    /// Opens an open file at the forwarder.
    ///
    /// # Errors
    /// The forwarder's.
    pub fn attach(&mut self, file: &File, name: &str, flags: OFlags) -> Result<Handle, Error> {
        let descriptor = self.connection.carries_descriptors().then(|| file.as_fd());
        self.connection.open(descriptor, name.as_bytes(), flags).map(|opened| opened.handle)
    }

    /// Reads into `bytes`.
    ///
    /// # Errors
    /// As the connection's.
    pub fn read(&mut self, handle: Handle, at: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        let range = range(at, bytes.len());
        let slices = &mut [IoSliceMut::new(bytes)];
        self.connection.read(handle, range, &mut Destination::from(&mut slices[..])).map(count)
    }

    /// Writes `bytes`.
    ///
    /// # Errors
    /// As the connection's.
    pub fn write(&mut self, handle: Handle, at: u64, bytes: &[u8]) -> Result<usize, Error> {
        self.write_to(handle, Place::At(Offset(at)), bytes).map(|written| count(written.bytes))
    }

    /// Writes `bytes` to the end; where the file ended then.
    ///
    /// # Errors
    /// As the connection's.
    pub fn append(&mut self, handle: Handle, bytes: &[u8]) -> Result<Written, Error> {
        self.write_to(handle, Place::End, bytes)
    }

    fn write_to(&mut self, handle: Handle, place: Place, bytes: &[u8]) -> Result<Written, Error> {
        let slices = [IoSlice::new(bytes)];
        self.connection.write(handle, place, &Source::from(&slices[..]))
    }

    /// Reads many ranges (offset, length), back to back into `bytes`.
    ///
    /// # Errors
    /// As the connection's.
    pub fn read_list(
        &mut self,
        handle: Handle,
        ranges: &[(u64, usize)],
        bytes: &mut [u8],
    ) -> Result<usize, Error> {
        let ranges: Vec<_> = ranges.iter().map(|(at, length)| range(*at, *length)).collect();
        let slices = &mut [IoSliceMut::new(bytes)];
        self.connection
            .read_list(handle, &ranges, &mut Destination::from(&mut slices[..]))
            .map(count)
    }

    /// Writes many ranges (offset, length), back to back from `bytes`.
    ///
    /// # Errors
    /// As the connection's.
    pub fn write_list(
        &mut self,
        handle: Handle,
        ranges: &[(u64, usize)],
        bytes: &[u8],
    ) -> Result<usize, Error> {
        let ranges: Vec<_> = ranges.iter().map(|(at, length)| range(*at, *length)).collect();
        let slices = [IoSlice::new(bytes)];
        self.connection.write_list(handle, &ranges, &Source::from(&slices[..])).map(count)
    }

    /// The forwarder's status.
    ///
    /// # Panics
    /// If there is none.
    pub fn status(&mut self) -> Status {
        let text = self.connection.status().expect("a status");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// A range from where it starts and how long it is.
pub fn range(at: u64, length: usize) -> ByteRange {
    ByteRange::new(Offset(at), Bytes(length as u64))
}

fn count(bytes: Bytes) -> usize {
    usize::try_from(bytes.0).expect("no more than was asked for")
}
