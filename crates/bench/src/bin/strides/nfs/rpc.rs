//! Remote procedure calls over TCP: records, calls, replies in any order (RFC 5531, sections 9 and 11).

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use super::xdr::{Decoder, Encoder, Malformed};

const LAST_FRAGMENT: u32 = 1 << 31;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
const AUTH_SYS: u32 = 1;

/// Longer than any reply to what is asked here: one transfer and its headers.
const RECORD_BYTES_MAX: usize = 8 << 20;

/// Ports that only root may send from, as far as the kernel's own client uses them
/// (`sunrpc.min_resvport`, `sunrpc.max_resvport`).
const PRIVILEGED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;

/// A connection to one program of a server.
pub(crate) struct Rpc {
    stream: TcpStream,
    program: u32,
    version: u32,
    next_call: u32,
    record: Vec<u8>,
}

impl Rpc {
    /// Connects, from a port that only root has: the server that the bench starts believes no other
    /// who its users are.
    pub(crate) fn connect(host: &str, port: u16, program: u32, version: u32) -> io::Result<Self> {
        let stream = connect_privileged((host, port))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, program, version, next_call: 1, record: Vec::new() })
    }

    /// Sends a call; its number comes back with the reply.
    pub(crate) fn send(&mut self, procedure: u32, arguments: &Encoder) -> io::Result<u32> {
        let call = self.next_call;
        self.next_call = self.next_call.wrapping_add(1);
        let mut message = Encoder::default();
        // The record's length takes this place.
        message.u32(0).u32(call).u32(CALL).u32(RPC_VERSION);
        message.u32(self.program).u32(self.version).u32(procedure);
        let mut credentials = Encoder::default();
        // Stamp, machine, user and group 0, no more groups.
        credentials.u32(0).opaque(b"forebay-bench").u32(0).u32(0).u32(0);
        message.u32(AUTH_SYS).opaque(&credentials.0).u32(0).u32(0);
        message.0.extend(&arguments.0);
        let length = LAST_FRAGMENT | (message.0.len() - 4) as u32;
        message.0[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&message.0)?;
        Ok(call)
    }

    /// The next reply: which call it is to, and its results.
    pub(crate) fn receive(&mut self) -> io::Result<(u32, Decoder<'_>)> {
        self.record.clear();
        loop {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head)?;
            let head = u32::from_be_bytes(head);
            let (start, length) = (self.record.len(), (head & !LAST_FRAGMENT) as usize);
            if start + length > RECORD_BYTES_MAX {
                return Err(io::Error::other(format!("a reply of {} bytes", start + length)));
            }
            self.record.resize(start + length, 0);
            self.stream.read_exact(&mut self.record[start..])?;
            if head & LAST_FRAGMENT != 0 {
                break;
            }
        }
        accepted(&self.record).map_err(|Malformed| io::Error::other("a malformed reply"))?
    }

    /// Sends a call and waits for its reply; there is no other on its way.
    pub(crate) fn call(&mut self, procedure: u32, arguments: &Encoder) -> io::Result<Decoder<'_>> {
        let call = self.send(procedure, arguments)?;
        let (answered, results) = self.receive()?;
        if answered == call { Ok(results) } else { Err(io::Error::other("a reply to nothing")) }
    }
}

/// Connects to the first address that answers.
fn connect_privileged(place: (&str, u16)) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in place.to_socket_addrs()? {
        match PRIVILEGED_PORTS.rev().find_map(|port| connect_from(port, address).transpose()) {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => last = error,
            None => last = io::Error::from(Errno::ADDRINUSE),
        }
    }
    Err(last)
}

/// Connects from a port, unless somebody uses it.
fn connect_from(port: u16, to: SocketAddr) -> io::Result<Option<TcpStream>> {
    let (family, any) = match to {
        SocketAddr::V4(_) => (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
        SocketAddr::V6(_) => (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A port is bound to a destination only: connections that have ended do not use them up.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    let done = bind(&socket, &SocketAddr::new(any, port)).and_then(|()| connect(&socket, &to));
    match done {
        Ok(()) => Ok(Some(TcpStream::from(socket))),
        Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The call's number and what lies behind the header, if the server carried the call out.
fn accepted(record: &[u8]) -> Result<io::Result<(u32, Decoder<'_>)>, Malformed> {
    let mut reply = Decoder(record);
    let call = reply.u32()?;
    if reply.u32()? != REPLY {
        return Err(Malformed);
    }
    let denied = reply.u32()?;
    if denied != 0 {
        return Ok(Err(io::Error::other("the server denies the call")));
    }
    // Of the verifier only the length matters.
    reply.u32()?;
    reply.opaque()?;
    Ok(match reply.u32()? {
        0 => Ok((call, reply)),
        status => Err(io::Error::other(format!("the server cannot carry out the call: {status}"))),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn several_connect_from_privileged_ports() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        if !rustix::process::geteuid().is_root() {
            let refusal = connect_privileged(("127.0.0.1", port)).unwrap_err();
            assert_eq!(refusal.kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        let _open: Vec<TcpStream> = (0..3)
            .map(|_| {
                let stream = connect_privileged(("127.0.0.1", port)).unwrap();
                let (_, from) = listener.accept().unwrap();
                assert!(PRIVILEGED_PORTS.contains(&from.port()), "{from}");
                stream
            })
            .collect();
    }
}
