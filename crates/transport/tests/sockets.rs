//! Real sockets: bytes and descriptors arrive, a closed peer is an error and never a signal.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;
use std::time::Duration;

use forebay_transport::{Endpoint, Listener, Peer, Ready, Stream};
use rustix::io::Errno;

const LIMIT: Duration = Duration::from_secs(10);

fn unix_endpoint(folder: &tempfile::TempDir) -> Endpoint {
    format!("unix:{}/socket", folder.path().display()).parse().expect("an endpoint")
}

fn pair(listener: &Listener) -> (Stream, Stream, Peer) {
    let near = Stream::connect(listener.endpoint(), LIMIT).expect("connects");
    loop {
        if let Some((far, peer)) = listener.accept().expect("accepts") {
            return (near, far, peer);
        }
    }
}

fn listeners(folder: &tempfile::TempDir) -> [Listener; 2] {
    let tcp = "tcp:127.0.0.1:0".parse().expect("an endpoint");
    [unix_endpoint(folder), tcp].map(|endpoint| Listener::bind(&endpoint).expect("binds"))
}

#[test]
fn bytes_arrive_over_both_kinds_of_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    for listener in listeners(&folder) {
        let (near, far, peer) = pair(&listener);
        match peer {
            Peer::Local { pid, .. } => assert_eq!(pid, std::process::id()),
            Peer::Remote(address) => assert!(address.is_loopback()),
        }
        assert_eq!(near.send(&[IoSlice::new(b"head"), IoSlice::new(b"body")]), Ok(8));
        assert_eq!(far.wait(Ready::Read, LIMIT), Ok(true));
        let mut text = [0; 16];
        assert_eq!(far.receive(&mut [IoSliceMut::new(&mut text)]), Ok(8));
        assert_eq!(&text[..8], b"headbody");
        assert_eq!(far.receive(&mut [IoSliceMut::new(&mut text)]), Err(Errno::AGAIN));
    }
}

#[test]
fn a_descriptor_travels_over_a_unix_socket_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let [unix, tcp] = listeners(&folder);
    let file = tempfile::tempfile().expect("a file");

    let (near, far, _) = pair(&unix);
    assert_eq!(near.send_with_descriptor(&[IoSlice::new(b"x")], file.as_fd()), Ok(1));
    assert_eq!(far.wait(Ready::Read, LIMIT), Ok(true));
    let received = far.receive_with_descriptor(&mut [0; 8]).expect("receives");
    let there = rustix::fs::fstat(received.descriptor.expect("a descriptor")).expect("stat");
    assert_eq!(there.st_ino, rustix::fs::fstat(&file).expect("stat").st_ino);

    let (near, _far, _) = pair(&tcp);
    let refused = near.send_with_descriptor(&[IoSlice::new(b"x")], file.as_fd());
    assert_eq!(refused, Err(Errno::OPNOTSUPP));
}

#[test]
fn a_closed_peer_is_an_error_and_no_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    for listener in listeners(&folder) {
        let (near, far, _) = pair(&listener);
        drop(far);
        let outcome = (0..1000).find_map(|_| near.send(&[IoSlice::new(&[0; 4096])]).err());
        assert!(matches!(outcome, Some(Errno::PIPE | Errno::CONNRESET)), "{outcome:?}");
    }
}

#[test]
fn nobody_listening_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = Stream::connect(&unix_endpoint(&folder), LIMIT).err();
    assert_eq!(refused, Some(Errno::NOENT));
}
