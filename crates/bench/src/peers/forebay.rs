//! Forebay: the preload library, a forwarder in a process of its own, the posix store.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::workload::Access;
use super::{Caching, Peer};
use crate::error::Error;
use crate::programs::Programs;
use crate::server::Server;

/// How the library reaches the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Unix,
    Tcp,
}

/// A forwarder, made anew for every run.
#[derive(Debug)]
pub(crate) struct Forebay {
    transport: Transport,
    caching: Caching,
    /// Settings other than the default, as flags.
    flags: Vec<String>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    server: Server,
    /// Where the socket is.
    _folder: TempDir,
}

impl Forebay {
    /// With default settings and whatever `flags` change.
    pub(crate) fn new(transport: Transport, caching: Caching, flags: &[&str]) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { transport, caching, flags, running: None }
    }

    fn running(&self) -> Result<&Running, Error> {
        self.running.as_ref().ok_or_else(|| Error::failed("the forwarder was not started"))
    }
}

impl Peer for Forebay {
    fn name(&self) -> &'static str {
        match (self.transport, self.caching) {
            (Transport::Unix, Caching::Buffered) => "forebay-unix",
            (Transport::Tcp, Caching::Buffered) => "forebay-tcp",
            (Transport::Unix, Caching::Direct) => "forebay-unix-direct",
            (Transport::Tcp, Caching::Direct) => "forebay-tcp-direct",
        }
    }

    fn settings(&self, programs: &Programs) -> Result<Value, Error> {
        Ok(json!({
            "store": "posix",
            "o_direct": self.caching == Caching::Direct,
            "other_than_default": self.flags,
            "settings": Server::settings(programs, &self.flags)?,
        }))
    }

    fn start(&mut self, programs: &Programs, root: &Path) -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(Error::io("a folder for the socket"))?;
        let mut flags = match self.transport {
            Transport::Unix => vec![format!("--listen-unix={}", folder.path().join("s").display())],
            Transport::Tcp => vec![
                "--listen-tcp=127.0.0.1:0".to_owned(),
                format!("--export-root={}", root.display()),
            ],
        };
        flags.extend(self.flags.iter().cloned());
        let server = Server::start(programs, &flags)?;
        self.running = Some(Running { server, _folder: folder });
        Ok(())
    }

    fn command(&self, programs: &Programs, root: &Path, access: &Access) -> Result<Command, Error> {
        let mut command = access.program(programs, &root.join(access.file), self.caching)?;
        command
            .env("LD_PRELOAD", programs.preload()?)
            .env("FOREBAY_ENDPOINT", self.running()?.server.endpoint())
            .env("FOREBAY_PATHS", root)
            .env("FOREBAY_ON_FAILURE", "fail");
        if self.transport == Transport::Tcp {
            command.env("FOREBAY_EXPORT", root);
        }
        Ok(command)
    }

    fn stop(&mut self, bytes: u64) -> Result<Value, Error> {
        let Some(mut running) = self.running.take() else { return Ok(Value::Null) };
        let status = running.server.status()?;
        let resident_peak = running.server.resident_peak()?;
        running.server.stop()?;
        let moved = status.calls.read_bytes + status.calls.written_bytes;
        if moved != bytes {
            let text = format!("{moved} of {bytes} bytes went through the forwarder");
            return Err(Error::failed(format!("{}: {text}; the rest bypassed it", self.name())));
        }
        let mut counters =
            serde_json::to_value(status).map_err(|error| Error::failed(error.to_string()))?;
        counters["resident_peak_bytes"] = resident_peak.into();
        Ok(counters)
    }
}
