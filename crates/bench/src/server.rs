//! A forwarder in a process of its own, so that its work is not mixed with the harness's and its
//! counters begin at zero.

use std::process::{Child, Command, Stdio};

use forebay_forwarder::status::Status;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::error::Error;
use crate::lines::Lines;
use crate::programs::Programs;

/// What the forwarder says, once it can be reached, before its endpoint.
const SERVING: &str = "forebay: serving on ";

/// A running forwarder; it ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    says: Lines,
    endpoint: String,
    status: Command,
}

impl Server {
    /// Starts `forebay serve` with `flags` and waits until it can be reached.
    pub(crate) fn start(programs: &Programs, flags: &[String]) -> Result<Self, Error> {
        let mut command = programs.forebay()?;
        command
            .arg("serve")
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::io(format!("{command:?}")))?;
        let says = Lines::of("the forwarder", child.stderr.take().expect("it was piped"));
        let status = programs.forebay()?;
        // From here on it ends if anything fails.
        let mut server = Self { child, says, endpoint: String::new(), status };
        let mut heard = Vec::new();
        while let Some(line) = server.says.next()? {
            if let Some(rest) = line.strip_prefix(SERVING) {
                server.endpoint = rest.split(", ").next().unwrap_or(rest).to_owned();
                server.status.args(["status", "--json", &server.endpoint]);
                return Ok(server);
            }
            heard.push(line);
        }
        Err(Error::failed(format!("{command:?} did not start: {}", heard.join("; "))))
    }

    /// All settings of a forwarder that is started with `flags`, by key.
    pub(crate) fn settings(programs: &Programs, flags: &[String]) -> Result<Value, Error> {
        let mut command = programs.forebay()?;
        command.args(["serve", "--print-settings"]).args(flags);
        let output = command.output().map_err(Error::io("forebay serve"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Error::failed(format!("{command:?}: {}", said.trim())));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let pairs = text.lines().filter_map(|line| line.split_once(" = "));
        Ok(pairs
            .map(|(key, value)| (key.to_owned(), Value::from(value.trim_matches('"'))))
            .collect())
    }

    /// Where it can be reached.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What it has counted so far.
    pub(crate) fn status(&mut self) -> Result<Status, Error> {
        let output = self.status.output().map_err(Error::io("forebay status"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Error::failed(format!("forebay status: {}", said.trim())));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Error::failed(format!("forebay status: {error}")))
    }

    /// The most memory that it has had resident so far, in bytes.
    pub(crate) fn resident_peak(&self) -> Result<u64, Error> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).map_err(Error::io(&path))?;
        // proc_pid_status(5): "VmHWM:      1234 kB", a kB being 1,024 bytes.
        let found =
            text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        let kib: Option<u64> = found.and_then(|number| number.parse().ok());
        kib.map(|kib| kib << 10).ok_or_else(|| Error::failed(format!("{path} has no VmHWM")))
    }

    /// Lets it finish and waits for its end.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.signal(Signal::TERM);
        // The messages end when it does.
        let said = self.says.rest()?;
        let ended = self.child.wait().map_err(Error::io("the forwarder's end"))?;
        if ended.success() {
            return Ok(());
        }
        Err(Error::failed(format!("the forwarder ended with {ended}: {}", said.trim())))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It fails only when the process has ended already.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
