//! `forebay serve` as a process of its own, to be measured and killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use forebay_client::Endpoint;
use forebay_forwarder::Status;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Client, Through, forebay};

/// A forwarder in another process. It is killed when this is dropped.
pub struct Served {
    child: Child,
    endpoints: Vec<Endpoint>,
    folder: TempDir,
}

impl Served {
    /// Starts one that listens on a Unix socket and on TCP, with these settings besides, as
    /// `--section-name=value`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let export = folder.path().join("export");
        std::fs::create_dir(&export).expect("a fresh name");
        let mut command = forebay();
        command.arg("serve").arg("--listen-unix").arg(folder.path().join("socket"));
        command.args(["--listen-tcp", "127.0.0.1:0"]).arg("--export-root").arg(&export).args(flags);
        let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut endpoints = Vec::new();
        while endpoints.len() < 2 {
            let mut line = String::new();
            let count = said.read_line(&mut line).expect("it speaks");
            assert!(count > 0, "it ended before it served: {command:?}");
            let Some(rest) = line.split("serving on ").nth(1) else { continue };
            let endpoint = rest.split([',', ' ', '\n']).next().expect("a word");
            endpoints.push(endpoint.parse().unwrap_or_else(|error| panic!("{line}: {error}")));
        }
        // Nobody listens to the rest, but it must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, endpoints, folder }
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

    /// The most memory that it has had resident, in bytes.
    ///
    /// # Panics
    /// If it has gone.
    pub fn resident_bytes_max(&self) -> u64 {
        let path = Path::new("/proc").join(self.child.id().to_string()).join("status");
        let text = std::fs::read_to_string(path).expect("it runs");
        let line =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel says it");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kib << 10
    }

    /// Has it end, with all that it writes at its end.
    ///
    /// # Panics
    /// If it has gone, or does not end well.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it has gone.
    pub fn signal(&self, signal: Signal) {
        kill(&self.child, signal);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a child a signal.
///
/// # Panics
/// If it has gone and was waited for.
pub fn kill(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("it was not waited for");
}
