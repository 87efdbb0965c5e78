//! What a connection does with its socket before and beside its session.

use std::io::{IoSlice, IoSliceMut};

use forebay_session::server;
use forebay_transport::Stream;
use rustix::io::Errno;

use crate::connection::Ending;

/// What one receive brought.
pub(crate) struct Received {
    pub(crate) count: usize,
    /// Nothing more is there now.
    pub(crate) is_drained: bool,
}

/// Receives what is there; the end of the stream is an ending.
pub(crate) fn receive(stream: &Stream, room: &mut [u8]) -> Result<Received, Ending> {
    match stream.receive(&mut [IoSliceMut::new(room)]) {
        Ok(0) => Err(Ending::Left),
        Ok(count) => Ok(Received { count, is_drained: count < room.len() }),
        Err(Errno::AGAIN) => Ok(Received { count: 0, is_drained: true }),
        Err(_) => Err(Ending::Left),
    }
}

/// Turns somebody away before a session begins.
pub(crate) fn turn_away(stream: &Stream, errno: Errno, message: &str) {
    let _ = stream.send(&[IoSlice::new(&server::refusal(errno.raw_os_error(), message))]);
}
