//! Frames survive the wire, look as the protocol says, and nothing that arrives makes the decoder fall over.

mod decode;

use decode::{body_bytes, decode_any};
use forebay_units::{ByteRange, Bytes, FileId, OFFSET_MAX, Offset};
use forebay_wire::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// The owned parts that a request borrows.
#[derive(Clone, Debug)]
struct Parts {
    text: Vec<u8>,
    name: Vec<u8>,
    ranges: Vec<ByteRange>,
    reasons: Vec<Reason>,
    numbers: [u64; 3],
    words: [u32; 3],
}

fn data_range() -> impl Strategy<Value = ByteRange> {
    let starts = prop_oneof![
        0..1_000_000u64,
        Just(OFFSET_MAX.0 - REQUEST_BYTES_MAX),
        0..=OFFSET_MAX.0 - (1 << 18)
    ];
    (starts, 1..=1u64 << 18)
        .prop_map(|(start, length)| ByteRange::new(Offset(start), Bytes(length)))
}

fn parts() -> impl Strategy<Value = Parts> {
    let reason = (any::<u8>(), any::<u64>()).prop_map(|(reason, calls)| Reason { reason, calls });
    let lists = (vec(data_range(), 1..40), vec(reason, 0..20));
    (
        vec(any::<u8>(), 0..=PATH_BYTES_MAX),
        vec(any::<u8>(), 0..=NAME_BYTES_MAX),
        lists,
        any::<[u64; 3]>(),
        any::<[u32; 3]>(),
    )
        .prop_map(|(text, name, (ranges, reasons), numbers, words)| Parts {
            text,
            name,
            ranges,
            reasons,
            numbers,
            words,
        })
}

impl Parts {
    /// A request of every kind, each within its limits.
    fn requests(&self) -> Vec<Request<'_>> {
        let [number, other_number, _] = self.numbers;
        let [word, other_word, third_word] = self.words;
        let handle = Handle(word);
        let range = self.ranges[0];
        let ranges = Ranges::from(&self.ranges[..]);
        let version = other_word as u16;
        let mut requests = vec![
            Request::Hello(Hello {
                version_min: version / 2,
                version_max: version,
                client: number,
                pid: word,
                uid: third_word,
                job: &self.name,
                program: &self.text[..self.text.len().min(NAME_BYTES_MAX)],
            }),
            Request::Read(Read { handle, range }),
            Request::ReadList(ReadList { handle, ranges }),
            Request::ReadList(ReadList { handle, ranges: Ranges::one(range) }),
            Request::WriteData(WriteData {
                offset: number % REQUEST_BYTES_MAX,
                length: other_word % PAYLOAD_BYTES_MAX + 1,
            }),
            Request::Sync(handle),
            Request::DataSync(handle),
            Request::Truncate(Truncate { handle, size: Bytes(other_number >> 1) }),
            Request::Allocate(Allocate { handle, mode: other_word, range }),
            Request::Stat(handle),
            Request::Hint(Hint {
                handle,
                advice: other_word,
                range: ByteRange::new(range.start, Bytes(0)),
            }),
            Request::Close(handle),
            Request::Status,
            Request::Control(Control { text: &self.text }),
            Request::Bye(Bye {
                forwarded: number,
                native: other_number,
                reasons: Reasons::from(&self.reasons[..]),
            }),
        ];
        for descriptor in [Descriptor::Absent, Descriptor::Sent] {
            requests.push(Request::Open(Open { flags: other_word, descriptor, path: &self.text }));
        }
        for delivery in [Delivery::Granted, Delivery::Eager] {
            let from_start = ByteRange::new(Offset(0), range.length());
            requests.extend([
                Request::Write(Write { handle, range, place: Place::Range, delivery }),
                Request::Write(Write { handle, range: from_start, place: Place::End, delivery }),
                Request::WriteList(WriteList { handle, ranges, delivery }),
            ]);
        }
        requests
    }

    /// A reply of every kind, each within its limits.
    fn replies(&self) -> Vec<Reply<'_>> {
        let [number, other_number, third_number] = self.numbers;
        let [word, other_word, third_word] = self.words;
        let offset = number % REQUEST_BYTES_MAX;
        let length = other_word % PAYLOAD_BYTES_MAX + 1;
        vec![
            Reply::Welcome(Welcome {
                version: word as u16,
                eager_bytes_max: length - 1,
                chunk_bytes_max: length,
                requests_max: third_word.max(1),
                session: number,
            }),
            Reply::Opened(Opened {
                handle: Handle(word),
                id: FileId { device: number, inode: other_number, generation: third_number },
            }),
            Reply::Grant(Grant { offset, length }),
            Reply::ReadData(ReadData { offset, length }),
            Reply::Done(Done { errno: (word % 4096) as i32, bytes: offset, end: other_number }),
            Reply::Attributes(Attributes {
                size: Bytes(number),
                blocks_512: other_number,
                modified_ns: third_number as i64,
            }),
            Reply::StatusText(StatusText { length: length - 1, more: false }),
            Reply::StatusText(StatusText { length, more: true }),
            Reply::Refused(Refused {
                errno: (word % 4095) as i32 + 1,
                message: &self.text[..self.text.len().min(MESSAGE_BYTES_MAX)],
            }),
        ]
    }
}

fn split(frame: &[u8]) -> (Header, &[u8]) {
    let (head, body) = frame.split_first_chunk().expect("a frame has a header");
    (Header::decode(head).expect("it was encoded"), body)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(128)) })]

    #[test]
    fn requests_survive_the_wire(parts in parts(), tag in any::<u64>()) {
        let mut out = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX];
        for request in parts.requests() {
            prop_assert!(request.is_within_limits(), "{request:?}");
            let length = request.encode(tag, &mut out).expect("there is room for any request");
            let (header, body) = split(&out[..length]);
            prop_assert_eq!((header.tag, header.kind), (tag, request.kind()));
            prop_assert_eq!(body_bytes(&header, body), Ok(Some(body.len())));
            prop_assert_eq!(Request::decode(&header, body), Ok(request));
            prop_assert_eq!(u64::from(header.length), body.len() as u64 + request.payload_bytes());
            prop_assert_eq!(request.encode(tag, &mut out[..length - 1]), Err(NoRoom));
        }
    }

    #[test]
    fn replies_survive_the_wire(parts in parts(), tag in any::<u64>()) {
        let mut out = vec![0; HEADER_BYTES + REPLY_BODY_BYTES_MAX];
        for reply in parts.replies() {
            let length = reply.encode(tag, &mut out).expect("there is room for any reply");
            let (header, body) = split(&out[..length]);
            prop_assert_eq!((header.tag, header.kind), (tag, reply.kind()));
            prop_assert_eq!(body_bytes(&header, body), Ok(Some(body.len())));
            prop_assert_eq!(Reply::decode(&header, body), Ok(reply));
            prop_assert_eq!(reply.encode(tag, &mut out[..length - 1]), Err(NoRoom));
        }
    }

    #[test]
    fn a_body_that_is_cut_or_extended_is_no_body(parts in parts(), cut in any::<prop::sample::Index>()) {
        let mut out = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX + 1];
        for request in parts.requests() {
            let length = request.encode(7, &mut out).expect("there is room for any request");
            let (header, body) = split(&out[..length]);
            if !body.is_empty() {
                prop_assert!(Request::decode(&header, &body[..cut.index(body.len())]).is_err());
            }
            let (_, longer) = split(&out[..length + 1]);
            prop_assert!(Request::decode(&header, longer).is_err());
        }
        for reply in parts.replies() {
            let length = reply.encode(7, &mut out).expect("there is room for any reply");
            let (header, body) = split(&out[..length]);
            // The part of a status text is payload: a header alone cannot tell where it should have begun.
            if !body.is_empty() {
                prop_assert!(Reply::decode(&header, &body[..cut.index(body.len())]).is_err());
            }
        }
    }

    #[test]
    fn the_start_of_a_list_and_its_ranges_make_the_whole(parts in parts(), tag in any::<u64>()) {
        let mut out = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX];
        for request in parts.requests() {
            let (Request::ReadList(ReadList { ranges, .. }) | Request::WriteList(WriteList { ranges, .. })) = request
            else {
                continue;
            };
            let length = request.encode(tag, &mut out).expect("there is room for any request");
            let mut pieces = request.encode_start(tag).to_vec();
            ranges.iter().for_each(|range| pieces.extend(range_bytes(range)));
            prop_assert_eq!(&pieces[..], &out[..length]);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        decode_any(&bytes);
    }

    #[test]
    fn arbitrary_bodies_never_panic(
        kind in prop::sample::select(&FrameKind::ALL[..]),
        flags in 0..2u8,
        payload in prop_oneof![Just(0u32), 0..1000u32],
        mut body in vec(prop_oneof![Just(0u8), Just(0), 0..4u8, any::<u8>()], 0..200),
    ) {
        let mut frame = ((body.len() as u32) + payload).to_le_bytes().to_vec();
        frame.extend([kind as u8, flags, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        frame.append(&mut body);
        decode_any(&frame);
    }

    #[test]
    fn a_flipped_bit_never_panics(parts in parts(), bit in any::<prop::sample::Index>()) {
        let mut out = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX];
        for request in parts.requests() {
            let length = request.encode(7, &mut out).expect("there is room for any request");
            let bit = bit.index(8 * length);
            out[bit / 8] ^= 1 << (bit % 8);
            decode_any(&out[..length]);
        }
    }
}

fn cases(few: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(few)
}

#[test]
fn a_read_looks_as_documented() {
    let range = ByteRange::new(Offset(0x1122_3344_5566), Bytes(0x1000));
    let frame =
        Request::Read(Read { handle: Handle(5), range }).encode_small(0x0102_0304_0506_0708);
    #[rustfmt::skip]
    let golden = [
        24, 0, 0, 0,  3, 0,  0, 0,  8, 7, 6, 5, 4, 3, 2, 1,
        5, 0, 0, 0,  0, 0, 0, 0,
        0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0,
        0, 0x10, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(*frame, golden);
}

#[test]
fn an_eager_append_looks_as_documented() {
    let range = ByteRange::new(Offset(0), Bytes(300));
    let write = Write { handle: Handle(2), range, place: Place::End, delivery: Delivery::Eager };
    #[rustfmt::skip]
    let golden = [
        0x44, 1, 0, 0,  4, 1,  0, 0,  9, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0,  0x2c, 1, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0,
        0x2c, 1, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(*Request::Write(write).encode_small(9), golden);
}

#[test]
fn a_hello_looks_as_documented() {
    let (job, program) = (&b"j1"[..], &b"cat"[..]);
    let hello = Hello { version_min: 1, version_max: 2, client: 3, pid: 4, uid: 5, job, program };
    let mut out = [0; 64];
    let length = Request::Hello(hello).encode(1, &mut out).expect("it is short");
    #[rustfmt::skip]
    let golden = [
        31, 0, 0, 0,  1, 0,  0, 0,  1, 0, 0, 0, 0, 0, 0, 0,
        b'F', b'B', b'A', b'Y',  1, 0,  2, 0,
        3, 0, 0, 0, 0, 0, 0, 0,  4, 0, 0, 0,  5, 0, 0, 0,
        2, b'j', b'1',  3, b'c', b'a', b't',
    ];
    assert_eq!(out[..length], golden);
}

#[test]
fn a_result_looks_as_documented() {
    let frame = Reply::Done(Done { errno: 28, bytes: 4096, end: 0x1_0000_0000 }).encode_small(7);
    #[rustfmt::skip]
    let golden = [
        24, 0, 0, 0,  0x85, 0,  0, 0,  7, 0, 0, 0, 0, 0, 0, 0,
        28, 0, 0, 0,  0, 0, 0, 0,
        0, 0x10, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 1, 0, 0, 0,
    ];
    assert_eq!(*frame, golden);
}

#[test]
fn a_header_says_where_it_is_wrong() {
    let right =
        Request::Read(Read { handle: Handle(5), range: ByteRange::new(Offset(0), Bytes(1)) })
            .encode_small(1);
    let cases = [
        (0, 23, DecodeError { at: 0, fault: Fault::Short }),
        (0, 25, DecodeError { at: 0, fault: Fault::Long }),
        (3, 0xff, DecodeError { at: 0, fault: Fault::Long }),
        (4, 0, DecodeError { at: 4, fault: Fault::Kind }),
        (4, 18, DecodeError { at: 4, fault: Fault::Kind }),
        (4, 0x89, DecodeError { at: 4, fault: Fault::Kind }),
        (5, 1, DecodeError { at: 5, fault: Fault::Flags }),
        (6, 1, DecodeError { at: 6, fault: Fault::Reserved }),
    ];
    for (at, value, error) in cases {
        let mut head: [u8; HEADER_BYTES] = right[..HEADER_BYTES].try_into().expect("a header");
        head[at] = value;
        assert_eq!(Header::decode(&head), Err(error), "byte {at} is {value}");
    }
}

#[test]
fn a_body_says_where_it_is_wrong() {
    let range = ByteRange::new(Offset(8), Bytes(1));
    let read = Request::Read(Read { handle: Handle(5), range });
    let write = Request::Write(Write {
        handle: Handle(5),
        range,
        place: Place::Range,
        delivery: Delivery::Eager,
    });
    let ranges = [range, range];
    let list = Request::ReadList(ReadList { handle: Handle(5), ranges: Ranges::from(&ranges[..]) });
    let cases = [
        (read, 4, 1, DecodeError { at: 4, fault: Fault::Reserved }),
        (read, 15, 0x80, DecodeError { at: 8, fault: Fault::Limit }),
        (read, 16, 0, DecodeError { at: 16, fault: Fault::Empty }),
        (read, 19, 0x80, DecodeError { at: 16, fault: Fault::Limit }),
        (write, 4, 2, DecodeError { at: 4, fault: Fault::Mismatch }),
        (write, 7, 1, DecodeError { at: 4, fault: Fault::Limit }),
        (list, 4, 0, DecodeError { at: 4, fault: Fault::Empty }),
        (list, 4, 1, DecodeError { at: 24, fault: Fault::Long }),
        (list, 4, 3, DecodeError { at: 8, fault: Fault::Short }),
        (list, 5, 0x20, DecodeError { at: 4, fault: Fault::Limit }),
        (list, 32, 0, DecodeError { at: 32, fault: Fault::Empty }),
    ];
    for (request, at, value, error) in cases {
        let mut out = [0; 64];
        let length = request.encode(1, &mut out).expect("it is short");
        out[HEADER_BYTES + at] = value;
        let (header, body) = split(&out[..length]);
        assert_eq!(
            Request::decode(&header, body),
            Err(error),
            "byte {at} of {request:?} is {value}"
        );
    }
}

#[test]
fn a_list_as_long_as_allowed_fits_and_a_longer_one_does_not() {
    let ranges = vec![ByteRange::new(Offset(0), Bytes(1)); RANGES_MAX as usize + 1];
    let list = |n: usize| {
        Request::ReadList(ReadList { handle: Handle(0), ranges: Ranges::from(&ranges[..n]) })
    };
    assert!(list(ranges.len() - 1).is_within_limits());
    assert!(!list(ranges.len()).is_within_limits());
    let mut out = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX + 16];
    let length = list(ranges.len()).encode(1, &mut out).expect("there is room");
    let head = out[..length].first_chunk().expect("a header");
    assert_eq!(Header::decode(head), Err(DecodeError { at: 0, fault: Fault::Long }));
}

#[test]
fn what_the_peer_would_refuse_is_not_within_limits() {
    let (handle, place, delivery) = (Handle(0), Place::Range, Delivery::Granted);
    let range = |start, length| ByteRange::new(Offset(start), Bytes(length));
    let last = OFFSET_MAX.0 - 1;
    let write = Write { handle, range: range(0, 1), place, delivery };
    let open = Open { flags: 0, descriptor: Descriptor::Absent, path: b"" };
    let (long_path, eager) = ([b'a'; PATH_BYTES_MAX + 1], u64::from(PAYLOAD_BYTES_MAX) + 1);
    let refused = [
        Request::Open(Open { path: &long_path, ..open }),
        Request::Read(Read { handle, range: range(0, 0) }),
        Request::Read(Read { handle, range: range(last, 2) }),
        Request::Read(Read { handle, range: range(0, REQUEST_BYTES_MAX + 1) }),
        Request::Write(Write { place: Place::End, range: range(1, 1), ..write }),
        Request::Write(Write { delivery: Delivery::Eager, range: range(0, eager), ..write }),
        Request::ReadList(ReadList { handle, ranges: Ranges::from(&[][..]) }),
        Request::WriteData(WriteData { offset: 0, length: 0 }),
        Request::Truncate(Truncate { handle, size: Bytes(OFFSET_MAX.0 + 1) }),
        Request::Allocate(Allocate { handle, mode: 0, range: range(last, 2) }),
    ];
    let mut out = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX];
    for request in refused {
        assert!(!request.is_within_limits(), "{request:?}");
        let length = request.encode(1, &mut out).expect("there is room");
        let (head, body) = out[..length].split_first_chunk().expect("a frame has a header");
        let decoded =
            Header::decode(head).and_then(|header| Request::decode(&header, body).map(drop));
        assert!(decoded.is_err(), "{request:?}");
    }
    assert!(Request::Read(Read { handle, range: range(last, 1) }).is_within_limits());
}

#[test]
fn ranges_that_are_too_long_together_are_refused() {
    let ranges =
        [ByteRange::new(Offset(0), Bytes(REQUEST_BYTES_MAX)), ByteRange::new(Offset(0), Bytes(1))];
    let list = Request::ReadList(ReadList { handle: Handle(0), ranges: Ranges::from(&ranges[..]) });
    assert!(!list.is_within_limits());
    let mut out = [0; 64];
    let length = list.encode(1, &mut out).expect("it is short");
    let (header, body) = split(&out[..length]);
    assert_eq!(Request::decode(&header, body).map_err(|error| error.fault), Err(Fault::Limit));
}

#[test]
fn kinds_keep_their_numbers() {
    let numbers: Vec<u8> = FrameKind::ALL.iter().map(|kind| *kind as u8).collect();
    assert_eq!(numbers, (1..=17).chain(0x81..=0x88).collect::<Vec<u8>>());
}
