//! Many processes that start together and are timed together.
//!
//! ```text
//!            gate (one pipe, all their standard inputs): its end lets them go
//!   parent ═══════════════════════════════════════════════════════► 32 processes
//!          ◄═══════════════════════════════════════════════════════
//!            words (one pipe, all their standard outputs): ready … done
//! ```
//!
//! Starting a process is not part of what is measured: all have said `ready` before the gate opens.

use std::io::{PipeReader, PipeWriter, Read as _};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::Error;
use crate::stop;

/// Longer without a word is a hang. A process says a word when it has done all of its part: 128 MiB
/// through a disk that seeks for every 8 KiB take more than a minute.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(300);

/// How often it is looked whether the user wants an end.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Processes that wait at the gate.
#[derive(Debug)]
pub(crate) struct Crew {
    members: Vec<Child>,
    gate: PipeWriter,
    words: PipeReader,
}

impl Crew {
    /// Starts the programs and waits until each has said `ready`.
    pub(crate) fn assemble(commands: Vec<Command>) -> Result<Self, Error> {
        let pipe = || std::io::pipe().map_err(Error::io("a pipe"));
        let ((stdin, gate), (words, stdout)) = (pipe()?, pipe()?);
        let mut crew = Self { members: Vec::new(), gate, words };
        for mut command in commands {
            let again = |error| Error::io("a pipe")(error);
            command
                .stdin(stdin.try_clone().map_err(again)?)
                .stdout(stdout.try_clone().map_err(again)?);
            let member = command.spawn().map_err(Error::io(format!("{command:?}")))?;
            crew.members.push(member);
        }
        // From now on the words end when the members do.
        drop((stdin, stdout));
        crew.hear("ready")?;
        Ok(crew)
    }

    /// Opens the gate; how long it took until the last one was done.
    pub(crate) fn run(mut self) -> Result<Duration, Error> {
        let start = Instant::now();
        let (_, closed) = std::io::pipe().map_err(Error::io("a pipe"))?;
        drop(std::mem::replace(&mut self.gate, closed));
        self.hear("done")?;
        let elapsed = start.elapsed();
        for member in &mut self.members {
            let ended = member.wait().map_err(Error::io("waiting for a process"))?;
            if !ended.success() {
                return Err(Error::failed(format!("a process ended with {ended}")));
            }
        }
        Ok(elapsed)
    }

    /// Waits until every member has said `word`.
    fn hear(&mut self, word: &str) -> Result<(), Error> {
        let wanted = self.members.len() * (word.len() + 1);
        let mut heard = Vec::new();
        while heard.len() < wanted {
            let mut chunk = [0; 1024];
            if !self.is_readable_soon()? {
                let text =
                    format!("processes have been silent for {SILENCE_MAX:?} before \"{word}\"");
                return Err(Error::failed(text));
            }
            let length = self.words.read(&mut chunk).map_err(Error::io("a process's words"))?;
            if length == 0 {
                return Err(Error::corrupt(format!(
                    "a process failed before \"{word}\"; see its message above"
                )));
            }
            heard.extend_from_slice(&chunk[..length]);
        }
        match String::from_utf8_lossy(&heard).lines().find(|said| *said != word) {
            Some(said) => Err(Error::failed(format!("a process said \"{said}\", not \"{word}\""))),
            None => Ok(()),
        }
    }

    fn is_readable_soon(&self) -> Result<bool, Error> {
        let limit = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as _ };
        let started = Instant::now();
        while started.elapsed() < SILENCE_MAX {
            stop::check()?;
            match poll(&mut [PollFd::new(&self.words, PollFlags::IN)], Some(&limit)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(Error::io("poll")(errno.into())),
            }
        }
        Ok(false)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for member in &mut self.members {
            // Members that have ended were waited for; the others are of no more use.
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shells(script: &str, count: usize) -> Vec<Command> {
        let shell = || {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stderr(std::process::Stdio::null());
            command
        };
        std::iter::repeat_with(shell).take(count).collect()
    }

    #[test]
    fn nobody_starts_before_all_are_ready() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("started");
        let script = format!("echo ready; cat; touch {}; echo done", mark.display());
        let crew = Crew::assemble(shells(&script, 5)).unwrap();
        assert!(!mark.exists());
        crew.run().unwrap();
        assert!(mark.exists());
    }

    #[test]
    fn one_that_fails_fails_the_crew() {
        let crew = Crew::assemble(shells("echo ready; cat; exit 3", 2)).unwrap();
        assert!(crew.run().is_err());
        assert!(Crew::assemble(shells("exit 3", 2)).is_err());
    }
}
