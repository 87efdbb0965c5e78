//! A peer that speaks frames by hand, and so can break every rule of the protocol.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use forebay_client::Endpoint;
use forebay_wire::{
    Descriptor, FrameKind, HEADER_BYTES, Handle, Header, Hello, Open, Opened, Reply, Request,
    VERSION,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(200);

/// A connection without a session of its own.
pub struct Raw {
    stream: File,
    next_tag: u64,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its header.
    pub header: Header,
    /// Body and payload.
    pub rest: Vec<u8>,
}

impl Raw {
    /// Connects and says nothing.
    ///
    /// # Panics
    /// If that fails.
    pub fn connect(endpoint: &Endpoint) -> Self {
        let text = endpoint.to_string();
        let socket: OwnedFd = match text.strip_prefix("unix:") {
            Some(path) => {
                let stream = std::os::unix::net::UnixStream::connect(path).expect("it listens");
                stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a socket");
                stream.into()
            }
            None => {
                let stream = TcpStream::connect(text.strip_prefix("tcp:").expect("the other kind"))
                    .expect("it listens");
                stream.set_read_timeout(Some(ANSWER_LIMIT)).expect("a socket");
                stream.into()
            }
        };
        Self { stream: socket.into(), next_tag: 1 }
    }

    /// Connects and says hello as it should be said.
    ///
    /// # Panics
    /// If it is not welcome.
    pub fn greeted(endpoint: &Endpoint) -> Self {
        let mut raw = Self::connect(endpoint);
        raw.ask(&hello());
        assert_eq!(raw.answer().expect("an answer").header.kind, FrameKind::Welcome);
        raw
    }

    /// Sends bytes, as far as the peer takes them.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a request with a tag of its own, without its payload; the tag.
    ///
    /// # Panics
    /// If it cannot be sent.
    pub fn ask(&mut self, request: &Request<'_>) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        assert!(self.send(&encoded(request, tag)), "{request:?} cannot be sent");
        tag
    }

    /// Opens a file by its name beneath the export.
    ///
    /// # Panics
    /// If it is not opened.
    pub fn open_path(&mut self, name: &str) -> Handle {
        self.ask(&Request::Open(Open {
            flags: 2,
            descriptor: Descriptor::Absent,
            path: name.as_bytes(),
        }));
        self.opened()
    }

    /// Opens a file by a descriptor.
    ///
    /// # Panics
    /// If it is not opened.
    pub fn open_descriptor(&mut self, file: &File) -> Handle {
        let tag = self.next_tag;
        self.next_tag += 1;
        let frame = encoded(
            &Request::Open(Open { flags: 2, descriptor: Descriptor::Sent, path: b"" }),
            tag,
        );
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [file.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&self.stream, &[IoSlice::new(&frame)], &mut control, SendFlags::empty())
            .expect("it is sent");
        self.opened()
    }

    fn opened(&mut self) -> Handle {
        let frame = self.answer().expect("an answer");
        match frame.reply() {
            Reply::Opened(Opened { handle, .. }) => handle,
            other => panic!("{other:?}"),
        }
    }

    /// The next frame; `None` when the peer has hung up.
    ///
    /// # Panics
    /// If there is none within the limit, or it is none.
    pub fn answer(&mut self) -> Option<Frame> {
        let mut head = [0; HEADER_BYTES];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer"),
            Err(_) => return None,
        }
        let header = Header::decode(&head).expect("a forwarder sends frames");
        let mut rest = vec![0; header.length as usize];
        self.stream.read_exact(&mut rest).expect("and sends them whole");
        Some(Frame { header, rest })
    }

    /// Takes a read's data and answer, comparing it on the way with what `content` has there; how
    /// many bytes the answer says.
    ///
    /// # Panics
    /// If a byte differs, or something else comes.
    pub fn compared(&mut self, content: &[u8]) -> u64 {
        let mut room = vec![0; 64 << 10];
        loop {
            let mut head = [0; HEADER_BYTES + 8];
            self.stream.read_exact(&mut head).expect("data or an answer");
            let header =
                Header::decode(head.first_chunk().expect("it is longer")).expect("a frame");
            let mut at = u64::from_le_bytes(*head.last_chunk().expect("it is longer")) as usize;
            if header.kind != FrameKind::ReadData {
                let mut body = head[HEADER_BYTES..].to_vec();
                body.resize(header.length as usize, 0);
                self.stream.read_exact(&mut body[8..]).expect("the rest");
                match Reply::decode(&header, &body) {
                    Ok(Reply::Done(done)) if done.errno == 0 => return done.bytes,
                    other => panic!("{other:?}"),
                }
            }
            let mut left = header.length as usize - 8;
            while left > 0 {
                let room = &mut room[..left.min(64 << 10)];
                self.stream.read_exact(room).expect("data");
                assert!(*room == content[at..at + room.len()], "at {at}");
                at += room.len();
                left -= room.len();
            }
        }
    }

    /// The forwarder's words when it refuses; it must hang up after them.
    ///
    /// # Panics
    /// If it does anything else.
    pub fn refusal(&mut self) -> String {
        let mut last = None;
        // What was asked before may still be answered.
        while let Some(frame) = self.answer() {
            last = Some(frame);
        }
        let frame = last.expect("a refusal and not just silence");
        match frame.reply() {
            Reply::Refused(refused) => String::from_utf8_lossy(refused.message).into_owned(),
            other => panic!("{other:?}"),
        }
    }
}

impl Frame {
    /// What it says.
    ///
    /// # Panics
    /// If that is nothing.
    pub fn reply(&self) -> Reply<'_> {
        let body_bytes = self.header.body_bytes(&self.rest).expect("a body");
        Reply::decode(&self.header, &self.rest[..body_bytes]).expect("a reply")
    }
}

/// A hello that every forwarder welcomes.
pub fn hello() -> Request<'static> {
    Request::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION,
        client: 7,
        pid: 1,
        uid: 0,
        job: b"",
        program: b"raw",
    })
}

/// A request's header and body.
///
/// # Panics
/// If it cannot be encoded.
pub fn encoded(request: &Request<'_>, tag: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 17];
    let length = request.encode(tag, &mut bytes).expect("there is room");
    bytes.truncate(length);
    bytes
}
