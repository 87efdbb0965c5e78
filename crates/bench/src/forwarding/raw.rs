//! Plain sockets between two processes: what the machine can do without a forwarder.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use forebay_units::Direction;

use super::{PING_BYTES, STREAM_BYTES, Transport};
use crate::error::Error;
use crate::programs::Programs;

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// A connection to a process that does what it was started for, again and again.
pub(super) struct Peer {
    stream: Option<Box<dyn Stream>>,
    child: Child,
    message: Vec<u8>,
}

/// What a peer is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// To send or receive so many messages of a mebibyte.
    Stream { direction: Direction, count: u64 },
    /// To send every message of 64 bytes back.
    Echo,
}

impl Peer {
    /// Starts one, in `folder`.
    pub(super) fn start(
        programs: &Programs,
        transport: Transport,
        folder: &Path,
        work: Work,
    ) -> Result<Self, Error> {
        let (mode, bytes, count) = match work {
            // A read comes from there, a write goes there.
            Work::Stream { direction: Direction::Read, count } => ("source", STREAM_BYTES, count),
            Work::Stream { direction: Direction::Write, count } => ("sink", STREAM_BYTES, count),
            Work::Echo => ("echo", PING_BYTES, 1),
        };
        let start = |endpoint: String| {
            let mut command = programs.socket()?;
            command.args([mode, &endpoint, &bytes.to_string(), &count.to_string()]);
            command.spawn().map_err(Error::io(format!("{command:?}")))
        };
        let failed = |error| Error::io("a raw socket")(error);
        let (stream, child): (Box<dyn Stream>, Child) = match transport {
            Transport::Unix => {
                let path = folder.join("raw");
                let listener = UnixListener::bind(&path).map_err(failed)?;
                let child = start(format!("unix:{}", path.display()))?;
                let (stream, _) = listener.accept().map_err(failed)?;
                std::fs::remove_file(&path).map_err(failed)?;
                (Box::new(stream), child)
            }
            Transport::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?;
                let child = start(format!("tcp:{address}"))?;
                let (stream, _) = listener.accept().map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                (Box::new(stream), child)
            }
        };
        Ok(Self { stream: Some(stream), child, message: vec![2; bytes as usize] })
    }

    fn stream(&mut self) -> (&mut dyn Stream, &mut [u8]) {
        (&mut **self.stream.as_mut().expect("it is closed by drop alone"), &mut self.message)
    }

    /// Moves `count` messages; how long it took until the receiver had the last.
    pub(super) fn stream_once(
        &mut self,
        direction: Direction,
        count: u64,
    ) -> Result<Duration, Error> {
        let (stream, message) = self.stream();
        let start = Instant::now();
        let moved = match direction {
            Direction::Read => stream
                .write_all(&[0])
                .and_then(|()| (0..count).try_for_each(|_| stream.read_exact(message))),
            Direction::Write => (0..count)
                .try_for_each(|_| stream.write_all(message))
                .and_then(|()| stream.read_exact(&mut [0])),
        };
        moved.map_err(Error::io("a raw stream"))?;
        Ok(start.elapsed())
    }

    /// The mean time of `count` round trips.
    pub(super) fn round_trip(&mut self, count: u32) -> Result<Duration, Error> {
        let (stream, message) = self.stream();
        let start = Instant::now();
        for _ in 0..count {
            stream
                .write_all(message)
                .and_then(|()| stream.read_exact(message))
                .map_err(Error::io("a round trip"))?;
        }
        Ok(start.elapsed() / count)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends with the connection.
        self.stream = None;
        let _ = self.child.wait();
    }
}
