//! What a child says, line by line, heard by a thread of its own: a child that says much never
//! waits for a full pipe, and whoever waits for a word can give up.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use crate::crew::{LOOK_EVERY, SILENCE_MAX};
use crate::error::Error;
use crate::stop;

/// The lines of a child's output, as they come.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Who speaks, for messages.
    who: &'static str,
    heard: Receiver<Result<String, Error>>,
}

impl Lines {
    /// Listens from now on until the end of `from`.
    pub(crate) fn of(who: &'static str, from: impl Read + Send + 'static) -> Self {
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            loop {
                let mut line = Vec::new();
                let line = match from.read_until(b'\n', &mut line) {
                    Ok(0) => break,
                    Ok(_) => Ok(String::from_utf8_lossy(&line).trim_end().to_owned()),
                    Err(error) => Err(Error::io(format!("what {who} says"))(error)),
                };
                // Nobody listens any more: it is read all the same, so that nobody waits.
                let _ = tell.send(line);
            }
        });
        Self { who, heard }
    }

    /// The next line; nothing when it has ended.
    ///
    /// # Errors
    /// If it was silent for too long, or the user wants an end.
    pub(crate) fn next(&self) -> Result<Option<String>, Error> {
        let started = Instant::now();
        loop {
            stop::check()?;
            match self.heard.recv_timeout(LOOK_EVERY) {
                Ok(line) => return line.map(Some),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if started.elapsed() < SILENCE_MAX => {}
                Err(RecvTimeoutError::Timeout) => {
                    let text = format!("{} has been silent for {SILENCE_MAX:?}", self.who);
                    return Err(Error::failed(text));
                }
            }
        }
    }

    /// Everything until the end.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(crate) fn rest(&self) -> Result<String, Error> {
        let mut rest = Vec::new();
        while let Some(line) = self.next()? {
            rest.push(line);
        }
        Ok(rest.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn who_says_more_than_a_pipe_holds_is_not_held_up() {
        let (from, mut to) = std::io::pipe().unwrap();
        let lines = Lines::of("a child", from);
        // A pipe holds 64 KiB; nobody asks for a line until all are written.
        let line = [b'x'; 1023];
        for _ in 0..256 {
            to.write_all(&line).and_then(|()| to.write_all(b"\n")).unwrap();
        }
        drop(to);
        assert_eq!(lines.next().unwrap().map(|line| line.len()), Some(1023));
        assert_eq!(lines.rest().unwrap().lines().count(), 255);
        assert!(lines.next().unwrap().is_none());
    }
}
