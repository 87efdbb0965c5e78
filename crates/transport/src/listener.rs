//! Accepting connections, without blocking.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::{Endpoint, Stream};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    endpoint: Endpoint,
}

/// Who connected, as far as the socket itself tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this host, with the user that the kernel vouches for.
    Local {
        /// User id at connect time (SO_PEERCRED).
        uid: u32,
        /// Process id at connect time.
        pid: u32,
    },
    /// A host on the network.
    Remote(IpAddr),
}

impl Listener {
    /// Binds and listens. A TCP port 0 is replaced by the port the kernel chose, see [`endpoint`](Self::endpoint).
    ///
    /// # Errors
    /// What `socket`, `bind` or `listen` said; `EADDRINUSE` also for a Unix path that exists.
    pub fn bind(endpoint: &Endpoint) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, endpoint) = match endpoint {
            Endpoint::Unix(address) => {
                let socket =
                    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                net::bind(&socket, address)?;
                (socket, endpoint.clone())
            }
            Endpoint::Tcp(address) => {
                let family =
                    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
                net::sockopt::set_socket_reuseaddr(&socket, true)?;
                net::bind(&socket, address)?;
                let bound = SocketAddr::try_from(net::getsockname(&socket)?)?;
                (socket, Endpoint::Tcp(bound))
            }
        };
        net::listen(&socket, BACKLOG)?;
        Ok(Self { socket, endpoint })
    }

    /// Where it listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Takes the next waiting connection, already non-blocking; `None` when there is none.
    ///
    /// # Errors
    /// What `accept4` said, except what a peer that already went away causes: that is skipped.
    pub fn accept(&self) -> Result<Option<(Stream, Peer)>, Errno> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match net::acceptfrom_with(&self.socket, flags) {
                Ok((socket, address)) => match self.admit(socket, address) {
                    Err(Errno::CONNABORTED | Errno::NOTCONN) => {}
                    admitted => return admitted.map(Some),
                },
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn admit(
        &self,
        socket: OwnedFd,
        address: Option<net::SocketAddrAny>,
    ) -> Result<(Stream, Peer), Errno> {
        match self.endpoint {
            Endpoint::Unix(_) => {
                let credentials = net::sockopt::socket_peercred(&socket)?;
                let peer = Peer::Local {
                    uid: credentials.uid.as_raw(),
                    pid: credentials.pid.as_raw_nonzero().get().unsigned_abs(),
                };
                Ok((Stream::from_unix(socket), peer))
            }
            Endpoint::Tcp(_) => {
                let address = SocketAddr::try_from(address.ok_or(Errno::NOTCONN)?)?;
                Ok((Stream::from_tcp(socket)?, Peer::Remote(address.ip().to_canonical())))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
