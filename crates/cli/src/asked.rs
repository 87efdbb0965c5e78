//! A running forwarder, for the commands that ask or tell it something.

use std::fmt::Display;
use std::time::Duration;

use forebay_client::{Connection, Endpoint, Error, Limits, Who};
use forebay_forwarder::Status;
use forebay_forwarder::control::Answer;
use rustix::io::Errno;

use crate::failure::{FAILED, Failure, USAGE};

/// A forwarder that does not answer within this is not well: its loop never waits for anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// A forwarder to be asked.
pub(crate) struct Asked {
    pub(crate) endpoint: Endpoint,
    connection: Connection,
    /// What is said of the endpoint when there is no answer.
    complaint: &'static str,
}

impl Asked {
    /// Connects as `program`; `complaint`, such as "no status from", begins what is said of failures.
    pub(crate) fn connect(
        endpoint: &str,
        program: &str,
        complaint: &'static str,
    ) -> Result<Self, Failure> {
        let endpoint: Endpoint =
            endpoint.parse().map_err(|error| Failure::new(USAGE, format!("{error}")))?;
        let who = Who { job: b"", program: program.as_bytes() };
        let limits = Limits { connect: PATIENCE, progress: PATIENCE };
        let connection = Connection::connect(&endpoint, &who, limits)
            .map_err(|error| Failure::new(FAILED, format!("{complaint} {endpoint}: {error}")))?;
        Ok(Self { endpoint, connection, complaint })
    }

    /// That it did not do what was asked.
    pub(crate) fn failed(&self, error: &dyn Display) -> Failure {
        Failure::new(FAILED, format!("{} {}: {error}", self.complaint, self.endpoint))
    }

    /// Its status, as it sends it.
    pub(crate) fn text(&mut self) -> Result<String, Failure> {
        let answer = self.connection.status();
        answer.map_err(|error| self.failed(&error))
    }

    pub(crate) fn status(&mut self) -> Result<Status, Failure> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| self.failed(&error))
    }

    /// Tells it words; what holds now, a line each.
    pub(crate) fn tell(&mut self, words: &[&str]) -> Result<Vec<String>, Failure> {
        let answer = match self.connection.control(words) {
            Ok(answer) => answer,
            Err(Error::Errno(Errno::PERM)) => {
                return Err(self.failed(
                    &"only root and the user that runs the forwarder may change it, over its Unix socket; \
                     to let clients on TCP do so, set listen.tcp_control = allow",
                ));
            }
            Err(error) => return Err(self.failed(&error)),
        };
        match serde_json::from_str(&answer).map_err(|error| self.failed(&error))? {
            Answer::Set(lines) => Ok(lines),
            Answer::Wrong(text) => Err(Failure::new(USAGE, format!("nothing was set: {text}"))),
        }
    }
}
