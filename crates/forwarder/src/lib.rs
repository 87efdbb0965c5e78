//! The daemon between clients and storage.
//!
//! [`Forwarder::bind`] makes one from [`Settings`], [`Forwarder::run`] serves until its
//! [`Stopper`] says stop and returns the last [`Status`]. Inside:
//!
//! ```text
//! settings ── assemble ──► engine (scheduler, store, pool)
//!                            ▲
//! sockets ── shard ── connection (session, outgoing) ── shared
//! ```

mod alarm;
mod asked;
mod assemble;
mod clock;
mod connection;
pub mod control;
mod log;
mod outgoing;
mod progress;
mod rights;
mod selection;
pub mod settings;
mod shard;
mod shared;
mod sharing;
mod socket;
pub mod status;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use forebay_transport::{Endpoint, Listener};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub use crate::settings::Settings;
pub use crate::status::Status;

use crate::shard::Shard;

/// Why a forwarder does not start, or stopped by itself.
#[derive(Debug)]
pub enum Error {
    /// A setting cannot be used.
    Setting {
        /// The setting.
        key: &'static str,
        /// The value, what is wrong with it, and what would do.
        text: String,
    },
    /// It cannot listen there.
    Listen {
        /// Where.
        endpoint: String,
        /// What the system said.
        errno: Errno,
    },
    /// The system refused something that a forwarder cannot do without.
    System(Errno),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { key, text } => write!(f, "setting {key} = {text}"),
            Self::Listen { endpoint, errno: Errno::ADDRINUSE } => write!(
                f,
                "cannot listen on {endpoint}: in use; stop the other forwarder, or remove the socket if none runs"
            ),
            Self::Listen { endpoint, errno } => write!(f, "cannot listen on {endpoint}: {errno}"),
            Self::System(errno) => write!(f, "the system refused: {errno}"),
        }
    }
}

impl std::error::Error for Error {}

/// Lets this process have as many descriptors and as large files as it may: a forwarder holds one
/// descriptor a connection and one an open file, and what a client may write is the client's limit.
/// Children inherit it, so a program that starts others does so first.
pub fn raise_limits() {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = getrlimit(resource);
        // Nothing forbids a soft limit up to the hard one.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
    }
}

/// A forwarder that listens, and serves once it runs.
pub struct Forwarder {
    shard: Shard,
    endpoints: Vec<Endpoint>,
    stop: Arc<OwnedFd>,
}

/// Stops a forwarder, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Tells the forwarder to take no more requests, to answer those it has, and to stop.
    pub fn stop(&self) {
        self.tell(shard::STOP_NOW);
    }

    /// Tells the forwarder to stop as soon as no client is connected: those that are may finish
    /// what they do, and are still served.
    pub fn stop_when_unused(&self) {
        self.tell(shard::STOP_WHEN_UNUSED);
    }

    fn tell(&self, what: u64) {
        // The counter can only be full if it was told before.
        let _ = rustix::io::write(&*self.0, &what.to_ne_bytes());
    }
}

impl Forwarder {
    /// Makes everything ready and listens; clients can connect from now on.
    ///
    /// # Errors
    /// A setting that cannot be used, or a place where it cannot listen.
    pub fn bind(settings: &Settings) -> Result<Self, Error> {
        let listeners = listen(settings)?;
        let endpoints = listeners.iter().map(|listener| listener.endpoint().clone()).collect();
        let (assembled, setup) = assemble::assemble(settings)?;
        let stop = Arc::new(
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(Error::System)?,
        );
        let watched = rustix::io::fcntl_dupfd_cloexec(&*stop, 0).map_err(Error::System)?;
        let mut shard =
            Shard::new(listeners, watched, settings, assembled).map_err(Error::System)?;
        if let Some(path) = &settings.trace.file {
            shard.record(path, settings, &setup).map_err(|error| {
                let text = format!("{}: {error}; name a file that can be written", path.display());
                Error::Setting { key: "trace.file", text }
            })?;
        }
        Ok(Self { shard, endpoints, stop })
    }

    /// Where it listens, with the port that the kernel chose.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// If the system refuses to say what happens.
    pub fn run(self) -> Result<Status, Error> {
        self.shard.run().map_err(Error::System)
    }
}

fn listen(settings: &Settings) -> Result<Vec<Listener>, Error> {
    let mut endpoints = Vec::new();
    if let Some(path) = &settings.listen.unix {
        let text = format!("unix:{}", path.display());
        let endpoint = text.parse::<Endpoint>();
        endpoints.push(
            endpoint
                .map_err(|error| Error::Setting { key: "listen.unix", text: error.to_string() })?,
        );
    }
    endpoints.extend(settings.listen.tcp.map(Endpoint::Tcp));
    if endpoints.is_empty() {
        let text = "nothing: set listen.unix, listen.tcp or both".to_owned();
        return Err(Error::Setting { key: "listen.unix", text });
    }
    let listen = |endpoint: &Endpoint| {
        Listener::bind(endpoint)
            .map_err(|errno| Error::Listen { endpoint: endpoint.to_string(), errno })
    };
    endpoints.iter().map(listen).collect()
}
