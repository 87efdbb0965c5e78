//! Asking and telling a daemon, beside the disk: a socket, so that one that hangs keeps nobody waiting.
//!
//! ```text
//!   asker ──word──► control ──► the daemon's loop ──► asker: what the disk has done, as JSON
//! ```

use std::io::{ErrorKind, Result as IoResult};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::places::Places;

/// A daemon that does not answer within this hangs: its loop waits for nothing, and nothing on the
/// machine is more urgent.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// More than any word or answer takes.
const MESSAGE_BYTES_MAX: usize = 4096;

/// What a disk is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Requests take the time of the model.
    Charge,
    /// Requests are answered at once: for making file systems and files that are not measured.
    Free,
    /// The maxima of the statistics begin anew.
    ForgetMaxima,
    /// Only to say what it has done.
    Statistics,
}

impl Command {
    const ALL: [(Self, &str); 4] = [
        (Self::Charge, "charge"),
        (Self::Free, "free"),
        (Self::ForgetMaxima, "forget-maxima"),
        (Self::Statistics, "statistics"),
    ];

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(own, _)| *own == self).map_or("", |(_, text)| text)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, name)| name.as_bytes() == text);
        found.map(|(command, _)| *command)
    }
}

/// Tells a disk's daemon something; what it has done so far, as JSON.
///
/// # Errors
/// If it does not answer in time.
pub(crate) fn tell(places: &Places, command: Command) -> Result<Vec<u8>, Error> {
    exchange(places, command).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Error::failed(format!(
            "the daemon of disk \"{}\" does not answer within {} s: it hangs",
            places.name(),
            ANSWER_MAX.as_secs()
        )),
        _ => Error::io(format!("the daemon of disk \"{}\"", places.name()))(error),
    })
}

fn exchange(places: &Places, command: Command) -> IoResult<Vec<u8>> {
    let asker = Asker::new(places)?;
    let socket = &asker.socket;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.set_write_timeout(Some(ANSWER_MAX))?;
    socket.connect(places.control())?;
    socket.send(command.as_str().as_bytes())?;
    let mut answer = vec![0; MESSAGE_BYTES_MAX];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Where an answer comes to, for as long as it is waited for. A file, since addresses without one
/// end at the border of a network namespace.
struct Asker {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Asker {
    fn new(places: &Places) -> IoResult<Self> {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let count = ASKED.fetch_add(1, Ordering::Relaxed);
        // Beside the disk's directory, which has to be empty when it is removed; no disk's name
        // begins like this.
        let name = format!(".{}.{}.{count}", places.name(), std::process::id());
        let path = places.directory.with_file_name(name);
        // A process that was killed may have left it.
        let _ = std::fs::remove_file(&path);
        Ok(Self { socket: UnixDatagram::bind(&path)?, path })
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // One that stays does not matter.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The daemon's end.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixDatagram,
}

impl Control {
    pub(crate) fn open(places: &Places) -> Result<Self, Error> {
        let path = places.control();
        let open = || {
            let socket = UnixDatagram::bind(&path)?;
            socket.set_nonblocking(true)?;
            Ok(Self { socket })
        };
        open().map_err(Error::file::<std::io::Error>(&path))
    }

    /// Answers what there is to be answered; whoever has gone meanwhile gets nothing.
    pub(crate) fn answer(&self, mut carry_out: impl FnMut(Command) -> Vec<u8>) {
        let mut word = [0; 64];
        while let Ok((length, asker)) = self.socket.recv_from(&mut word) {
            // What nobody says gets no answer.
            let Some(command) = Command::parse(&word[..length]) else { continue };
            let Some(path) = asker.as_pathname() else { continue };
            let _ = self.socket.send_to(&carry_out(command), path);
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_understood_and_answered() {
        let directory =
            std::env::temp_dir().join(format!("forebay-control-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let places = Places { directory };
        let control = Control::open(&places).unwrap();
        for (command, word) in Command::ALL {
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| tell(&places, command));
                let mut heard = None;
                while heard.is_none() {
                    control.answer(|command| {
                        heard = Some(command);
                        word.into()
                    });
                    std::thread::yield_now();
                }
                assert_eq!(heard, Some(command));
                assert_eq!(asked.join().unwrap().unwrap(), word.as_bytes());
            });
        }
        assert_eq!(Command::parse(b"disk"), None);
        std::fs::remove_dir_all(&places.directory).unwrap();
    }

    #[test]
    fn a_daemon_that_is_not_there_is_an_error_at_once() {
        let places = Places { directory: "/nowhere/at/all".into() };
        let error = tell(&places, Command::Statistics).unwrap_err().to_string();
        assert!(error.contains("daemon of disk \"all\""), "{error}");
    }
}
