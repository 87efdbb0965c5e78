//! Hostile streams for both sessions, made from arbitrary bytes; shared with the fuzz targets.
//!
//! Purely random bytes never get past the first header. So the bytes are read as a recipe: mostly
//! frames that are nearly right, some with a byte changed, some cut short, some pure noise. Each
//! stream goes through two sessions, once whole and once in fragments: both must come to the same
//! end, and neither may panic.

use forebay_session::{client, server};
use forebay_units::{ByteRange, Bytes, FileId, OFFSET_MAX, Offset};
use forebay_wire::*;

/// Arbitrary bytes, taken as small decisions; zeros once they are used up.
struct Recipe<'a>(&'a [u8]);

impl Recipe<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Mostly small, sometimes at a limit.
    fn number(&mut self) -> u64 {
        match self.byte() {
            250 => u64::from(u32::MAX),
            251 => OFFSET_MAX.0,
            252 => REQUEST_BYTES_MAX,
            253 => u64::from(PAYLOAD_BYTES_MAX),
            254 => u64::MAX,
            255 => u64::from(self.byte()) << (self.byte() % 64),
            small => u64::from(small),
        }
    }

    fn range(&mut self) -> ByteRange {
        ByteRange::new(Offset(self.number()), Bytes(self.number()))
    }

    fn handle(&mut self) -> Handle {
        Handle(u32::from(self.byte() % 3))
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends a frame and its payload, perhaps damaged.
    fn serve(&mut self, stream: &mut Vec<u8>, mut frame: Vec<u8>, payload_bytes: u64) {
        frame.resize(frame.len() + payload_bytes.min(2000) as usize, 0xab);
        match self.byte() {
            damage @ 0..16 => {
                let at = usize::from(self.byte()) % frame.len();
                frame[at] ^= damage + 1;
            }
            16..20 => frame.truncate(usize::from(self.byte()) % frame.len()),
            20..24 => frame.extend(vec![self.byte(); usize::from(self.byte())]),
            _ => {}
        }
        stream.extend(frame);
    }
}

fn hello() -> Request<'static> {
    Request::Hello(Hello {
        version_min: VERSION,
        version_max: VERSION,
        client: 1,
        pid: 2,
        uid: 3,
        job: b"job",
        program: b"",
    })
}

fn encode(request: &Request<'_>, tag: u64) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX];
    let length = request.encode(tag, &mut frame).expect("there is room for any request");
    frame.truncate(length);
    frame
}

/// What a hostile client sends.
fn client_stream(recipe: &mut Recipe<'_>) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut tag = 0;
    if recipe.byte() > 8 {
        tag = 1;
        stream.extend(encode(&hello(), tag));
    }
    while !recipe.is_over() && stream.len() < 1 << 20 {
        let steps = [1, 1, 1, 1, 1, 1, 1, 7, 0, u64::MAX];
        let ranges: Vec<ByteRange> = (0..recipe.byte() % 5).map(|_| recipe.range()).collect();
        let reasons = vec![Reason { reason: 1, calls: 2 }; ranges.len()];
        let (place, delivery) = match recipe.byte() % 4 {
            0 => (Place::End, Delivery::Granted),
            1 => (Place::End, Delivery::Eager),
            2 => (Place::Range, Delivery::Granted),
            _ => (Place::Range, Delivery::Eager),
        };
        let range = if place == Place::End {
            ByteRange::new(Offset(0), Bytes(recipe.number()))
        } else {
            recipe.range()
        };
        let (handle, list) = (recipe.handle(), Ranges::from(&ranges[..]));
        let request = match recipe.byte() % 25 {
            0 => hello(),
            1..=4 => Request::Open(Open { flags: 0, descriptor: Descriptor::Absent, path: b"a/b" }),
            5 | 6 => Request::Read(Read { handle, range }),
            7 | 8 => Request::Write(Write { handle, range, place, delivery }),
            9 => Request::ReadList(ReadList { handle, ranges: list }),
            10 => Request::WriteList(WriteList { handle, ranges: list, delivery }),
            11..=14 => {
                // What the session under test grants: the whole of a small write that it has seen.
                let length = recipe.number().clamp(1, 4096) as u32;
                let data = Request::WriteData(WriteData {
                    offset: u64::from(recipe.byte() / 250),
                    length,
                });
                let answered = tag.wrapping_sub(u64::from(recipe.byte() % 3));
                recipe.serve(&mut stream, encode(&data, answered), data.payload_bytes());
                continue;
            }
            15 => Request::Sync(handle),
            16 => Request::DataSync(handle),
            17 => Request::Truncate(Truncate { handle, size: Bytes(recipe.number()) }),
            18 => Request::Allocate(Allocate { handle, mode: 1, range }),
            19 => Request::Stat(handle),
            20 => Request::Hint(Hint { handle, advice: 3, range }),
            21 => Request::Close(handle),
            22 => Request::Status,
            23 => Request::Control(Control { text: b"policy=to" }),
            _ if recipe.byte() < 32 => {
                Request::Bye(Bye { forwarded: 1, native: 2, reasons: Reasons::from(&reasons[..]) })
            }
            _ => {
                let noise = recipe.0[..recipe.0.len().min(20)].to_vec();
                stream.extend(noise);
                continue;
            }
        };
        tag = tag.wrapping_add(steps[usize::from(recipe.byte()) % steps.len()]);
        recipe.serve(&mut stream, encode(&request, tag), request.payload_bytes());
    }
    stream
}

/// What a hostile forwarder sends.
fn forwarder_stream(recipe: &mut Recipe<'_>) -> Vec<u8> {
    let mut stream = Vec::new();
    let welcome = |recipe: &mut Recipe<'_>| Welcome {
        version: if recipe.byte() == 9 { 7 } else { VERSION },
        eager_bytes_max: u32::from(recipe.byte()),
        chunk_bytes_max: u32::from(recipe.byte()) + 1,
        requests_max: u32::from(recipe.byte()) + 1,
        session: 1,
    };
    if recipe.byte() > 8 {
        stream.extend_from_slice(&Reply::Welcome(welcome(recipe)).encode_small(1));
    }
    while !recipe.is_over() && stream.len() < 1 << 20 {
        let tag = u64::from(recipe.byte() % 20);
        let length = recipe.number().clamp(1, 4096) as u32;
        let offset = recipe.number();
        let errno = i32::from(recipe.byte() / 100);
        let reply = match recipe.byte() % 16 {
            0 => Reply::Welcome(welcome(recipe)),
            1 => Reply::Opened(Opened { handle: recipe.handle(), id: FileId::default() }),
            2..=5 => Reply::Grant(Grant { offset, length }),
            6..=8 => Reply::ReadData(ReadData { offset, length }),
            9..=11 => Reply::Done(Done { errno, bytes: offset, end: 0 }),
            12 => Reply::Attributes(Attributes::default()),
            13 | 14 => Reply::StatusText(StatusText { length, more: recipe.byte() > 100 }),
            _ => Reply::Refused(Refused { errno: errno + 1, message: b"no" }),
        };
        recipe.serve(
            &mut stream,
            reply.encode_small(tag).to_vec(),
            u64::from(reply.payload_bytes()),
        );
    }
    stream
}

/// Cuts a stream at places that depend on the seed.
fn fragments(stream: &[u8], seed: u8) -> Vec<&[u8]> {
    let sizes = [1, 2, 3, 15, 16, 17, 24, 40, 100, 1000];
    let (mut rest, mut fragments, mut n) = (stream, Vec::new(), usize::from(seed));
    while !rest.is_empty() {
        n = n.wrapping_mul(31).wrapping_add(7) % 1009;
        let (fragment, after) = rest.split_at(sizes[n % sizes.len()].min(rest.len()));
        fragments.push(fragment);
        rest = after;
    }
    fragments
}

/// A hostile client against the forwarder's half.
pub(crate) fn against_server(bytes: &[u8]) {
    let mut recipe = Recipe(bytes);
    let seed = recipe.byte();
    let stream = client_stream(&mut recipe);
    let whole = serve(&[&stream]);
    assert_eq!(whole, serve(&fragments(&stream, seed)), "fragments make a difference");
}

const LIMITS: server::Limits =
    server::Limits { eager_bytes_max: 300, chunk_bytes_max: 4096, requests_max: 8 };

/// Everything that a forwarder's half makes of a stream.
fn serve(fragments: &[&[u8]]) -> Vec<String> {
    let mut session = server::Session::new(LIMITS);
    let mut log = Vec::new();
    for fragment in fragments {
        let mut rest = *fragment;
        loop {
            if let Some(payload) = session.payload() {
                assert!(payload.length > 0 && payload.length <= PAYLOAD_BYTES_MAX);
                let count = rest.len().min(payload.length as usize);
                session.payload_received(count);
                rest = &rest[count..];
                if count == payload.length as usize {
                    let end = payload.offset + u64::from(payload.length);
                    log.push(format!("payload of {} up to {end}", payload.tag));
                    answer_granted(&mut session, payload.tag, &mut log);
                }
                if count < payload.length as usize {
                    break;
                }
            }
            let (used, answer) = match session.receive(rest) {
                Ok((used, event)) => {
                    (used, event.map(|event| (format!("{event:?}"), Answer::to(&event))))
                }
                Err(violation) => {
                    assert_eq!(session.receive(b""), Err(server::Violation::Over));
                    assert!(!violation.refusal().is_empty());
                    log.push(violation.to_string());
                    return log;
                }
            };
            rest = &rest[used..];
            let is_idle = used == 0;
            if let Some((event, answer)) = answer {
                log.push(event);
                answer.give(&mut session);
            }
            assert!(session.unanswered().count() <= LIMITS.requests_max as usize);
            if is_idle && session.payload().is_none() {
                assert!(rest.is_empty());
                break;
            }
        }
    }
    log
}

/// A granted write is done once its payload is there; an eager one is answered before.
fn answer_granted(session: &mut server::Session<u32>, tag: u64, log: &mut Vec<String>) {
    if session.unanswered().any(|unanswered| unanswered == tag) && session.payload().is_none() {
        session.done(tag, Done::default());
        log.push(format!("done {tag}"));
    }
}

/// How the forwarder answers at once; some requests stay unanswered.
enum Answer {
    Welcome,
    Opened(u64),
    Grant(u64, u32),
    Data(u64, u32),
    Attributes(u64),
    Text(u64),
    Done(u64),
    None,
}

impl Answer {
    fn to(event: &server::Event<'_, u32>) -> Self {
        use server::Event;
        let checked_bytes = |ranges: &Ranges<'_>| {
            assert!((1..=RANGES_MAX as usize).contains(&ranges.len()));
            assert!(ranges.iter().all(|range| !range.is_empty() && range.end <= OFFSET_MAX));
            let bytes: u64 = ranges.iter().map(|range| range.length().0).sum();
            assert!(bytes <= REQUEST_BYTES_MAX);
            bytes.min(u64::from(LIMITS.chunk_bytes_max)) as u32
        };
        match *event {
            Event::Hello(_) => Self::Welcome,
            Event::Open { tag, .. } => Self::Opened(tag),
            Event::Read { tag, ranges, .. } => Self::Data(tag, checked_bytes(&ranges)),
            Event::Write { tag, ranges, delivery: Delivery::Granted, .. } => {
                Self::Grant(tag, checked_bytes(&ranges))
            }
            Event::Write { ref ranges, .. } => {
                checked_bytes(ranges);
                Self::None
            }
            Event::Stat { tag, .. } => Self::Attributes(tag),
            Event::Status { tag } | Event::Control { tag, .. } => Self::Text(tag),
            Event::Sync { .. } | Event::Hint { .. } => Self::None,
            Event::DataSync { tag, .. }
            | Event::Truncate { tag, .. }
            | Event::Allocate { tag, .. }
            | Event::Close { tag, .. }
            | Event::Bye { tag, .. } => Self::Done(tag),
        }
    }

    fn give(self, session: &mut server::Session<u32>) {
        match self {
            Self::Welcome => drop(session.welcome(1).to_vec()),
            Self::Opened(tag) => drop(session.opened(tag, 5, FileId::default()).to_vec()),
            Self::Grant(tag, length) => drop(session.grant(tag, 0, length).to_vec()),
            Self::Data(tag, length) => {
                drop(session.data(tag, 0, length).to_vec());
                drop(session.done(tag, Done::default()).to_vec());
            }
            Self::Attributes(tag) => drop(session.attributes(tag, Attributes::default()).to_vec()),
            Self::Text(tag) => drop(session.status_text(tag, 0, false).to_vec()),
            Self::Done(tag) => drop(session.done(tag, Done::default()).to_vec()),
            Self::None => {}
        }
    }
}

/// A hostile forwarder against the client's half.
pub(crate) fn against_client(bytes: &[u8]) {
    let mut recipe = Recipe(bytes);
    let seed = recipe.byte();
    let stream = forwarder_stream(&mut recipe);
    let whole = ask(&[&stream]);
    assert_eq!(whole, ask(&fragments(&stream, seed)), "fragments make a difference");
}

/// Everything that a client's half makes of a stream, which answers as many requests as there can be.
fn ask(fragments: &[&[u8]]) -> Vec<String> {
    let mut session = client::Session::new();
    session.begin(&hello()).expect("it is the first");
    let mut log = Vec::new();
    for fragment in fragments {
        let mut rest = *fragment;
        loop {
            if let Some(payload) = session.payload() {
                let count = rest.len().min(payload.length as usize);
                session.payload_received(count);
                rest = &rest[count..];
                if count < payload.length as usize {
                    break;
                }
                let end = payload.offset + u64::from(payload.length);
                log.push(format!("payload of {} up to {end}", payload.tag));
            }
            let (used, is_welcome, granted) = match session.receive(rest) {
                Ok((used, event)) => {
                    log.extend(event.as_ref().map(|event| format!("{event:?}")));
                    let is_welcome = matches!(event, Some(client::Event::Welcome(_)));
                    let granted = match event {
                        Some(client::Event::Grant(granted)) => Some(granted),
                        _ => None,
                    };
                    (used, is_welcome, granted)
                }
                Err(violation) => {
                    assert_eq!(session.receive(b""), Err(client::Violation::Over));
                    log.push(violation.to_string());
                    return log;
                }
            };
            rest = &rest[used..];
            if is_welcome {
                begin_all(&mut session);
            }
            if let Some(granted) = granted {
                // Every other grant stays open, so that a result may come too early.
                let is_answered = granted.offset() % 2 == 0;
                if is_answered {
                    drop(session.write_data(granted).to_vec());
                }
            }
            assert!(session.unanswered().count() <= client::REQUESTS_MAX);
            if let Some(payload) = session.payload() {
                assert!(payload.offset + u64::from(payload.length) <= 1 << 40);
            }
            if used == 0 && session.payload().is_none() {
                assert!(rest.is_empty());
                break;
            }
        }
    }
    log
}

fn begin_all(session: &mut client::Session) {
    let (handle, range) = (Handle(0), ByteRange::new(Offset(10), Bytes(1000)));
    let ranges = [range, ByteRange::new(Offset(5000), Bytes(100))];
    let write = |delivery, length| {
        let range = ByteRange::new(Offset(0), Bytes(length));
        Request::Write(Write { handle, range, place: Place::End, delivery })
    };
    let requests = [
        Request::Open(Open { flags: 0, descriptor: Descriptor::Absent, path: b"a" }),
        Request::Read(Read { handle, range }),
        write(Delivery::Granted, 2000),
        write(Delivery::Eager, 40),
        Request::ReadList(ReadList { handle, ranges: Ranges::from(&ranges[..]) }),
        write(Delivery::Granted, 10),
        Request::Stat(handle),
        Request::Status,
        Request::Control(Control { text: b"class\na\nweight=3" }),
        Request::Close(handle),
        Request::Sync(handle),
        Request::Bye(Bye { forwarded: 0, native: 0, reasons: Reasons::from(&[][..]) }),
    ];
    for request in &requests {
        // A forwarder may allow fewer requests, or no eager payload.
        if let Err(error) = session.begin(request) {
            assert!(
                matches!(error, client::Unsendable::Busy | client::Unsendable::Limit),
                "{error}"
            );
        }
    }
}
