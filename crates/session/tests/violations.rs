//! Each broken rule is noticed, named, and ends the session; replayed frames among them.

use forebay_session::server::{Event, Limits, Session, Violation};
use forebay_session::{Payload, client};
use forebay_units::{ByteRange, Bytes, FileId, Offset};
use forebay_wire::*;

const LIMITS: Limits = Limits { eager_bytes_max: 100, chunk_bytes_max: 1000, requests_max: 3 };
const HELLO: Request<'_> = Request::Hello(Hello {
    version_min: VERSION,
    version_max: VERSION,
    client: 1,
    pid: 2,
    uid: 3,
    job: b"job",
    program: b"program",
});
const OPEN: Request<'_> =
    Request::Open(Open { flags: 0, descriptor: Descriptor::Absent, path: b"file" });

fn frame(tag: u64, request: &Request<'_>) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX];
    let length = request.encode(tag, &mut out).expect("there is room for any request");
    out.truncate(length);
    out
}

fn range(length: u64) -> ByteRange {
    ByteRange::new(Offset(0), Bytes(length))
}

fn read(handle: u32) -> Request<'static> {
    Request::Read(Read { handle: Handle(handle), range: range(10) })
}

fn write(length: u64, delivery: Delivery) -> Request<'static> {
    Request::Write(Write { handle: Handle(0), range: range(length), place: Place::Range, delivery })
}

/// A session that was greeted with tag 1 and has opened handle 0 with tag 2.
fn opened() -> Session<u32> {
    let mut session = greeted();
    accept(&mut session, &frame(2, &OPEN));
    session.opened(2, 77, FileId::default());
    session
}

fn greeted() -> Session<u32> {
    let mut session = Session::new(LIMITS);
    accept(&mut session, &frame(1, &HELLO));
    session.welcome(1);
    session
}

/// Receives one whole frame.
fn accept<'s>(session: &'s mut Session<u32>, frame: &'s [u8]) -> Option<Event<'s, u32>> {
    let (used, event) = session.receive(frame).expect("no rule is broken");
    assert_eq!(used, frame.len());
    event
}

fn assert_refused(mut session: Session<u32>, frame: &[u8], violation: Violation) {
    assert_eq!(session.receive(frame), Err(violation));
    assert_eq!(session.receive(frame), Err(Violation::Over));
    let refusal = violation.refusal();
    let (head, body) = refusal.split_first_chunk().expect("a frame has a header");
    let header = Header::decode(head).expect("it was encoded");
    let Ok(Reply::Refused(refused)) = Reply::decode(&header, body) else {
        panic!("a refusal is a refusal")
    };
    assert_eq!(
        (refused.errno, refused.message),
        (violation.errno(), violation.to_string().as_bytes())
    );
}

#[test]
fn the_hello_comes_first_and_once() {
    let status = frame(1, &Request::Status);
    assert_refused(Session::new(LIMITS), &status, Violation::HelloExpected(FrameKind::Status));
    let mut unanswered = Session::new(LIMITS);
    accept(&mut unanswered, &frame(1, &HELLO));
    assert_refused(unanswered, &frame(2, &HELLO), Violation::HelloExpected(FrameKind::Hello));
    assert_refused(greeted(), &frame(2, &HELLO), Violation::HelloAgain);
}

#[test]
fn a_stranger_at_the_port_is_refused() {
    let mut request = b"GET / HTTP/1.1\r\nHost: forebay\r\n\r\n".to_vec();
    let error = DecodeError { at: 4, fault: Fault::Kind };
    assert_refused(Session::new(LIMITS), &request, Violation::Header(error));
    request.splice(.., frame(1, &HELLO));
    request[HEADER_BYTES] = b'X';
    let error = DecodeError { at: 0, fault: Fault::Magic };
    assert_refused(Session::new(LIMITS), &request, Violation::Body(FrameKind::Hello, error));
}

#[test]
fn a_version_that_is_not_spoken_is_refused() {
    let Request::Hello(hello) = HELLO else { unreachable!("it is a hello") };
    let (min, max) = (VERSION + 1, VERSION + 3);
    let newer = Request::Hello(Hello { version_min: min, version_max: max, ..hello });
    assert_refused(Session::new(LIMITS), &frame(1, &newer), Violation::Version { min, max });
    let both = Request::Hello(Hello { version_min: 0, version_max: max, ..hello });
    assert!(matches!(accept(&mut Session::new(LIMITS), &frame(1, &both)), Some(Event::Hello(_))));
}

#[test]
fn a_replayed_request_is_refused() {
    for tag in [0, 1, 2] {
        let violation = Violation::TagNotIncreasing { tag, last: 2 };
        assert_refused(opened(), &frame(tag, &read(0)), violation);
    }
}

#[test]
fn replayed_payload_is_refused() {
    let mut session = opened();
    accept(&mut session, &frame(3, &write(2000, Delivery::Granted)));
    session.grant(3, 1000, 500);
    let data = WriteData { offset: 1000, length: 500 };
    let mut sent = frame(3, &Request::WriteData(data));
    assert_eq!(accept(&mut session, &sent), None);
    assert_eq!(session.payload(), Some(Payload { tag: 3, offset: 1000, length: 500 }));
    session.payload_received(500);
    sent.extend([0; 500]);
    assert_refused(session, &sent, Violation::NotGranted { tag: 3, offset: 1000, length: 500 });
}

#[test]
fn payload_that_was_not_granted_is_refused() {
    for (tag, offset, length) in
        [(3, 0, 500), (3, 1000, 499), (3, 1000, 501), (3, 1001, 500), (4, 1000, 500)]
    {
        let mut session = opened();
        accept(&mut session, &frame(3, &write(2000, Delivery::Granted)));
        accept(&mut session, &frame(4, &write(2000, Delivery::Granted)));
        session.grant(3, 1000, 500);
        let data = Request::WriteData(WriteData { offset, length });
        assert_refused(session, &frame(tag, &data), Violation::NotGranted { tag, offset, length });
    }
}

#[test]
fn more_requests_than_allowed_are_refused() {
    let mut session = opened();
    (3..6).for_each(|tag| assert!(accept(&mut session, &frame(tag, &read(0))).is_some()));
    session.done(4, Done::default());
    accept(&mut session, &frame(6, &read(0)));
    assert_eq!(session.unanswered().collect::<Vec<_>>(), [3, 5, 6]);
    assert_refused(session, &frame(7, &read(0)), Violation::TooManyRequests { max: 3 });
}

#[test]
fn an_eager_payload_longer_than_allowed_is_refused() {
    let mut session = opened();
    accept(&mut session, &frame(3, &write(100, Delivery::Eager)));
    assert_eq!(session.payload(), Some(Payload { tag: 3, offset: 0, length: 100 }));
    let longer = frame(3, &write(101, Delivery::Eager));
    assert_refused(opened(), &longer, Violation::EagerTooLong { length: 101, max: 100 });
    let ranges = [range(60), range(60)];
    let (ranges, delivery) = (Ranges::from(&ranges[..]), Delivery::Eager);
    let list = frame(3, &Request::WriteList(WriteList { handle: Handle(0), ranges, delivery }));
    assert_refused(opened(), &list, Violation::EagerTooLong { length: 120, max: 100 });
}

#[test]
fn a_handle_that_is_not_open_is_refused() {
    assert_refused(opened(), &frame(3, &read(1)), Violation::UnknownHandle(Handle(1)));
    let mut session = opened();
    let close = Request::Close(Handle(0));
    assert_eq!(accept(&mut session, &frame(3, &close)), Some(Event::Close { tag: 3, file: 77 }));
    assert_eq!(session.files().count(), 0);
    assert_refused(session, &frame(4, &close), Violation::UnknownHandle(Handle(0)));
}

#[test]
fn a_handle_is_given_out_again_after_its_close_is_answered() {
    let mut session = opened();
    accept(&mut session, &frame(3, &Request::Close(Handle(0))));
    accept(&mut session, &frame(4, &OPEN));
    let handle_of =
        |frame: &[u8]| u32::from_le_bytes(frame[16..20].try_into().expect("four bytes"));
    assert_eq!(handle_of(&session.opened(4, 78, FileId::default())), 1);
    session.done(3, Done::default());
    accept(&mut session, &frame(5, &OPEN));
    assert_eq!(handle_of(&session.opened(5, 79, FileId::default())), 0);
    assert_eq!(session.files().collect::<Vec<_>>(), [79, 78]);
}

#[test]
fn more_files_than_allowed_are_refused() {
    let mut session = greeted();
    let tags = 2..2 + HANDLES_MAX as u64 - 1;
    for tag in tags.clone() {
        accept(&mut session, &frame(tag, &OPEN));
        session.opened(tag, 0, FileId::default());
    }
    // One that is being opened counts.
    accept(&mut session, &frame(tags.end, &OPEN));
    assert_refused(
        session,
        &frame(tags.end + 1, &OPEN),
        Violation::TooManyFiles { max: HANDLES_MAX },
    );
}

#[test]
fn nothing_comes_after_the_bye_but_what_was_granted() {
    let bye = Request::Bye(Bye { forwarded: 0, native: 0, reasons: Reasons::from(&[][..]) });
    let leaving = || {
        let mut session = opened();
        accept(&mut session, &frame(3, &write(200, Delivery::Granted)));
        session.grant(3, 0, 200);
        accept(&mut session, &frame(4, &bye));
        session
    };
    assert_refused(leaving(), &frame(5, &Request::Status), Violation::AfterBye(FrameKind::Status));
    let mut session = leaving();
    accept(&mut session, &frame(3, &Request::WriteData(WriteData { offset: 0, length: 200 })));
    session.payload_received(200);
    session.done(3, Done::default());
    session.done(4, Done::default());
    assert_eq!(session.unanswered().count(), 0);
}

#[test]
fn a_reply_is_no_request() {
    let done = Reply::Done(Done::default()).encode_small(3);
    let error = DecodeError { at: 4, fault: Fault::Kind };
    assert_refused(opened(), &done, Violation::Header(error));
}

#[test]
fn an_oversize_frame_is_refused_by_its_header() {
    let mut head = frame(3, &read(0))[..HEADER_BYTES].to_vec();
    head[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_refused(opened(), &head, Violation::Header(DecodeError { at: 0, fault: Fault::Long }));
}

#[test]
fn a_truncated_frame_is_waited_for() {
    let ranges = [range(10), range(20), range(30)];
    let (ranges, delivery) = (Ranges::from(&ranges[..]), Delivery::Eager);
    let list = frame(3, &Request::WriteList(WriteList { handle: Handle(0), ranges, delivery }));
    for length in 0..list.len() {
        let mut session = opened();
        assert_eq!(session.receive(&list[..length]), Ok((length, None)), "{length} bytes");
        assert_eq!(session.receive(&[]), Ok((0, None)), "{length} bytes");
        let (used, event) = session.receive(&list[length..]).expect("no rule is broken");
        assert_eq!(used, list.len() - length);
        assert!(matches!(event, Some(Event::Write { tag: 3, file: 77, .. })), "{event:?}");
        assert_eq!(session.payload(), Some(Payload { tag: 3, offset: 0, length: 60 }));
    }
}

#[test]
fn payload_is_not_taken_for_a_frame() {
    let mut session = opened();
    accept(&mut session, &frame(3, &write(100, Delivery::Eager)));
    assert_eq!(session.receive(&frame(4, &read(0))), Ok((0, None)));
    session.payload_received(99);
    assert_eq!(session.payload(), Some(Payload { tag: 3, offset: 99, length: 1 }));
    session.payload_received(1);
    assert!(accept(&mut session, &frame(4, &read(0))).is_some());
}

#[test]
fn a_refusal_is_cut_to_its_limit_between_characters() {
    let refusal = forebay_session::server::refusal(13, &"é".repeat(300));
    let (head, body) = refusal.split_first_chunk().expect("a frame has a header");
    let header = Header::decode(head).expect("it was encoded");
    let Ok(Reply::Refused(refused)) = Reply::decode(&header, body) else {
        panic!("a refusal is a refusal")
    };
    assert_eq!((refused.errno, refused.message), (13, "é".repeat(256).as_bytes()));
}

#[test]
#[should_panic(expected = "request 3 is not unanswered")]
fn answering_twice_is_a_bug() {
    let mut session = opened();
    accept(&mut session, &frame(3, &read(0)));
    session.done(3, Done::default());
    session.done(3, Done::default());
}

#[test]
#[should_panic(expected = "request 3 has open grants")]
fn answering_before_the_payload_that_was_asked_for_is_a_bug() {
    let mut session = opened();
    accept(&mut session, &frame(3, &write(200, Delivery::Granted)));
    session.grant(3, 0, 200);
    session.done(3, Done::default());
}

#[test]
#[should_panic(expected = "not within a request of 10")]
fn data_beyond_the_request_is_a_bug() {
    let mut session = opened();
    accept(&mut session, &frame(3, &read(0)));
    session.data(3, 5, 6);
}

/// A client that was welcomed and has request 2 unanswered.
fn asked(request: &Request<'_>) -> client::Session {
    let mut session = client::Session::new();
    assert_eq!(session.begin(&HELLO), Ok(1));
    let (eager_bytes_max, chunk_bytes_max) = (100, 1000);
    let welcome =
        Welcome { version: VERSION, eager_bytes_max, chunk_bytes_max, requests_max: 3, session: 5 };
    let frame = Reply::Welcome(welcome).encode_small(1);
    assert_eq!(session.receive(&frame), Ok((frame.len(), Some(client::Event::Welcome(welcome)))));
    assert_eq!(session.begin(request), Ok(2));
    session
}

fn assert_violated(
    mut session: client::Session,
    reply: &Reply<'_>,
    tag: u64,
    violation: client::Violation,
) {
    let frame = reply.encode_small(tag);
    assert_eq!(session.receive(&frame), Err(violation));
    assert_eq!(session.receive(&frame), Err(client::Violation::Over));
    assert_eq!(session.begin(&Request::Status), Err(client::Unsendable::Over));
}

#[test]
fn a_client_takes_nothing_but_a_welcome_at_first() {
    use client::Violation::{Unwelcome, Version};
    let greeting = || {
        let mut session = client::Session::new();
        assert_eq!(session.begin(&HELLO), Ok(1));
        session
    };
    let welcome =
        Welcome { version: 1, eager_bytes_max: 0, chunk_bytes_max: 1, requests_max: 1, session: 0 };
    let done = Reply::Done(Done::default());
    assert_violated(greeting(), &done, 1, Unwelcome(FrameKind::Done));
    assert_violated(greeting(), &Reply::Welcome(welcome), 2, Unwelcome(FrameKind::Welcome));
    assert_violated(greeting(), &Reply::Welcome(Welcome { version: 2, ..welcome }), 1, Version(2));
    assert_violated(asked(&read(0)), &Reply::Welcome(welcome), 1, Unwelcome(FrameKind::Welcome));
}

#[test]
fn a_client_takes_no_answer_that_it_did_not_ask_for() {
    use client::Violation::{UnknownTag, WrongAnswer};
    let done = Reply::Done(Done::default());
    let grant = Reply::Grant(Grant { offset: 0, length: 1 });
    let data = Reply::ReadData(ReadData { offset: 0, length: 1 });
    assert_violated(asked(&read(0)), &done, 3, UnknownTag(FrameKind::Done, 3));
    assert_violated(asked(&read(0)), &grant, 2, WrongAnswer(FrameKind::Grant, 2));
    assert_violated(
        asked(&write(200, Delivery::Granted)),
        &data,
        2,
        WrongAnswer(FrameKind::ReadData, 2),
    );
    assert_violated(
        asked(&write(100, Delivery::Eager)),
        &grant,
        2,
        WrongAnswer(FrameKind::Grant, 2),
    );
    assert_violated(asked(&OPEN), &done, 2, WrongAnswer(FrameKind::Done, 2));
    assert_violated(asked(&Request::Status), &done, 2, WrongAnswer(FrameKind::Done, 2));
}

#[test]
fn a_client_takes_no_data_beyond_its_request() {
    use client::Violation::BeyondRequest;
    for (offset, length) in [(0, 11), (10, 1), (5, 6), (REQUEST_BYTES_MAX, 1)] {
        let data = Reply::ReadData(ReadData { offset, length });
        assert_violated(asked(&read(0)), &data, 2, BeyondRequest(FrameKind::ReadData, 2));
    }
    for (offset, length) in [(0, 1001), (1500, 501)] {
        let grant = Reply::Grant(Grant { offset, length });
        assert_violated(
            asked(&write(2000, Delivery::Granted)),
            &grant,
            2,
            BeyondRequest(FrameKind::Grant, 2),
        );
    }
    let done = Reply::Done(Done { bytes: 1, ..Done::default() });
    assert_violated(asked(&read(0)), &done, 2, BeyondRequest(FrameKind::Done, 2));
}

#[test]
fn a_client_takes_the_same_data_only_once() {
    let mut session = asked(&read(0));
    let data = Reply::ReadData(ReadData { offset: 2, length: 8 });
    assert_eq!(session.receive(&data.encode_small(2)), Ok((24, None)));
    assert_eq!(session.payload(), Some(Payload { tag: 2, offset: 2, length: 8 }));
    session.payload_received(8);
    assert_violated(session, &data, 2, client::Violation::BeyondRequest(FrameKind::ReadData, 2));
}

#[test]
fn a_client_is_not_done_while_its_payload_is_waited_for() {
    let mut session = asked(&write(200, Delivery::Granted));
    let grant = Reply::Grant(Grant { offset: 0, length: 200 }).encode_small(2);
    let Ok((_, Some(client::Event::Grant(granted)))) = session.receive(&grant) else {
        panic!("a grant is one")
    };
    assert_eq!((granted.tag(), granted.offset(), granted.length()), (2, 0, 200));
    assert_violated(session, &Reply::Done(Done::default()), 2, client::Violation::DoneTooEarly(2));
}

#[test]
fn a_refusal_ends_a_clients_session_whenever_it_comes() {
    for mut session in [client::Session::new(), asked(&read(0))] {
        let refusal = Violation::HelloAgain.refusal();
        let event = client::Event::Refused(Refused { errno: 71, message: b"a second hello" });
        assert_eq!(session.receive(&refusal), Ok((refusal.len(), Some(event))));
        assert_eq!(session.begin(&HELLO), Err(client::Unsendable::Over));
    }
}

#[test]
fn a_client_does_not_send_what_would_be_refused() {
    use client::Unsendable::{Busy, Limit, OutOfPlace};
    let mut session = asked(&read(0));
    assert_eq!(session.begin(&HELLO), Err(OutOfPlace));
    assert_eq!(session.begin(&write(101, Delivery::Eager)), Err(Limit));
    assert_eq!(session.begin(&write(0, Delivery::Granted)), Err(Limit));
    assert_eq!(session.begin(&write(REQUEST_BYTES_MAX + 1, Delivery::Granted)), Err(Limit));
    assert_eq!(session.begin(&Request::WriteData(WriteData { offset: 0, length: 1 })), Err(Limit));
    assert_eq!(
        (session.begin(&read(0)), session.begin(&read(0)), session.room()),
        (Ok(3), Ok(4), 0)
    );
    assert_eq!(session.begin(&read(0)), Err(Busy));
}

#[test]
fn a_client_knows_how_many_files_are_open() {
    let mut session = asked(&OPEN);
    let opened = Reply::Opened(Opened { handle: Handle(0), id: FileId::default() });
    session.receive(&opened.encode_small(2)).expect("it was asked for");
    for tag in 3..2 + HANDLES_MAX as u64 {
        assert_eq!(session.begin(&OPEN), Ok(tag));
        session.receive(&opened.encode_small(tag)).expect("it was asked for");
    }
    assert_eq!(session.begin(&OPEN), Err(client::Unsendable::TooManyFiles));
    let tag = session.begin(&Request::Close(Handle(0))).expect("it is allowed");
    assert_eq!(session.begin(&OPEN), Err(client::Unsendable::TooManyFiles));
    session.receive(&Reply::Done(Done::default()).encode_small(tag)).expect("it was asked for");
    let tag = session.begin(&OPEN).expect("there is room again");
    let failed = Reply::Done(Done { errno: 2, ..Done::default() });
    session.receive(&failed.encode_small(tag)).expect("it was asked for");
    assert!(session.begin(&OPEN).is_ok());
}
