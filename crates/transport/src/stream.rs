//! One connected socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::Endpoint;

/// A connected stream socket, always non-blocking: callers either wait with [`Stream::wait`] or use an event loop.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
    carries_descriptors: bool,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Bytes (or the end of the stream) can be read.
    Read,
    /// Bytes can be written.
    Write,
}

/// What one receive brought.
#[derive(Debug)]
pub struct Received {
    /// How many bytes; 0 means the peer has closed its side.
    pub count: usize,
    /// A descriptor that came with these bytes; more than one in one message is refused by dropping the rest.
    pub descriptor: Option<OwnedFd>,
    /// A descriptor was sent, but this process has no room for it (`EMFILE`).
    pub is_descriptor_lost: bool,
}

impl Stream {
    /// Connects within `limit`.
    ///
    /// # Errors
    /// What `socket` or `connect` said; `ETIMEDOUT` when the limit passed.
    pub fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (stream, connected) = match endpoint {
            Endpoint::Unix(address) => {
                let socket =
                    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                let connected = net::connect(&socket, address);
                (Self::from_unix(socket), connected)
            }
            Endpoint::Tcp(address) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
                let connected = net::connect(&socket, address);
                (Self::from_tcp(socket)?, connected)
            }
        };
        match connected {
            Ok(()) => Ok(stream),
            Err(Errno::INPROGRESS | Errno::INTR) => {
                if !stream.wait(Ready::Write, limit)? {
                    return Err(Errno::TIMEDOUT);
                }
                match net::sockopt::socket_error(&stream.socket)? {
                    Ok(()) => Ok(stream),
                    Err(errno) => Err(errno),
                }
            }
            Err(errno) => Err(errno),
        }
    }

    /// Takes over a connected, non-blocking Unix socket. Its buffers stay as the kernel makes them:
    /// larger ones hold more data than a processor's cache, and then every byte goes to memory and back.
    pub fn from_unix(socket: OwnedFd) -> Self {
        Self { socket, carries_descriptors: true }
    }

    /// Takes over a connected, non-blocking TCP socket and turns Nagle's algorithm off:
    /// every frame is either complete or followed by its payload at once.
    ///
    /// # Errors
    /// What `setsockopt` said.
    pub fn from_tcp(socket: OwnedFd) -> Result<Self, Errno> {
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(Self { socket, carries_descriptors: false })
    }

    /// The same connection under another descriptor number (the preload library keeps its sockets
    /// out of the low numbers that programs expect to get).
    #[must_use]
    pub fn with_socket(&self, socket: OwnedFd) -> Self {
        Self { socket, carries_descriptors: self.carries_descriptors }
    }

    /// Whether descriptors can travel with bytes.
    pub fn carries_descriptors(&self) -> bool {
        self.carries_descriptors
    }

    /// Receives what is there, up to the buffers' length.
    ///
    /// # Errors
    /// `EAGAIN` when nothing is there yet; else what `recvmsg` said.
    pub fn receive(&self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        let mut none = RecvAncillaryBuffer::default();
        retry(|| net::recvmsg(&self.socket, buffers, &mut none, RecvFlags::CMSG_CLOEXEC))
            .map(|message| message.bytes)
    }

    /// Receives what is there into one buffer, with a descriptor if one came along.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_with_descriptor(&self, buffer: &mut [u8]) -> Result<Received, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = retry(|| net::recvmsg(&self.socket, &mut buffers, &mut ancillary, flags))?;
        let mut descriptor = None;
        for control in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = control {
                for received in descriptors {
                    descriptor.get_or_insert(received);
                }
            }
        }
        {
            let is_truncated = message.flags.contains(ReturnFlags::CTRUNC);
            let is_descriptor_lost = is_truncated && descriptor.is_none();
            Ok(Received { count: message.bytes, descriptor, is_descriptor_lost })
        }
    }

    /// Sends what fits now. A peer that has gone is `EPIPE`, never a signal.
    ///
    /// # Errors
    /// `EAGAIN` when nothing fits now; else what `sendmsg` said.
    pub fn send(&self, buffers: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut none = SendAncillaryBuffer::default();
        retry(|| net::sendmsg(&self.socket, buffers, &mut none, SendFlags::NOSIGNAL))
    }

    /// Sends bytes with a descriptor, which travels with the first of them.
    ///
    /// # Errors
    /// As [`send`](Self::send); `EOPNOTSUPP` where descriptors cannot travel.
    pub fn send_with_descriptor(
        &self,
        buffers: &[IoSlice<'_>],
        descriptor: BorrowedFd<'_>,
    ) -> Result<usize, Errno> {
        if !self.carries_descriptors {
            return Err(Errno::OPNOTSUPP);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let descriptors = [descriptor];
        retry(|| {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            net::sendmsg(&self.socket, buffers, &mut ancillary, SendFlags::NOSIGNAL)
        })
    }

    /// Waits until `ready` or `limit`; whether it is ready. A closed peer counts as ready.
    ///
    /// # Errors
    /// What `ppoll` said.
    pub fn wait(&self, ready: Ready, limit: Duration) -> Result<bool, Errno> {
        let events = match ready {
            Ready::Read => PollFlags::IN,
            Ready::Write => PollFlags::OUT,
        };
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut descriptors = [PollFd::new(&self.socket, events)];
        retry(|| rustix::event::poll(&mut descriptors, Some(&limit))).map(|count| count > 0)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Repeats a call that a signal interrupted: I/O on files is not interruptible, so neither is ours.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}
