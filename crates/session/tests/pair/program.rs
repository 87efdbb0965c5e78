//! A client program without sockets: sends requests of every kind, many at once, and knows what has to come back.
//!
//! Requests that are unanswered at once never conflict, so what each must bring is known when it is sent.

use std::collections::BTreeMap;

use forebay_session::client::{Event, REQUESTS_MAX, Session, Unsendable};
use forebay_units::{ByteRange, Bytes, Offset};
use forebay_wire::*;

use crate::random::Random;
use crate::{EIO, ENOENT, ENOSPC, FAULTY_FILE, FILES_COUNT};

pub(crate) struct Program {
    pub(crate) session: Session,
    /// What the files hold once everything that was sent is done.
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) out: Vec<u8>,
    handles: BTreeMap<usize, Handle>,
    pub(crate) unanswered: BTreeMap<u64, Sent>,
    pub(crate) requests_left: usize,
    request_bytes_max: usize,
    pub(crate) lengths: Lengths,
    has_said_bye: bool,
    pub(crate) is_over: bool,
    pub(crate) most_unanswered: usize,
}

/// How long requests are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    Any,
    Longest,
}

/// A request that is not answered.
pub(crate) struct Sent {
    file: usize,
    /// What no other request may touch in a conflicting way.
    range: ByteRange,
    changes: bool,
    expected: Expected,
}

enum Expected {
    Opened,
    Data {
        received: Vec<u8>,
        expected: Vec<Option<u8>>,
        bytes: u64,
    },
    /// The data to send, and the result.
    Taken {
        data: Vec<u8>,
        end: u64,
    },
    Size(u64),
    Text {
        bytes: u64,
        is_whole: bool,
    },
    Closed,
    Bye,
    Nothing,
}

/// A request that could be sent, with its own copies of what it borrows.
enum Idea {
    Data { ranges: Vec<ByteRange>, is_list: bool, write: Option<(Place, Delivery, Vec<u8>)> },
    Plain(Request<'static>, Expected, bool),
}

const NO_FILE: usize = usize::MAX;

impl Program {
    pub(crate) fn new(files: Vec<Vec<u8>>, requests_left: usize, request_bytes_max: usize) -> Self {
        let mut program = Self {
            session: Session::new(),
            files,
            out: Vec::new(),
            handles: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            requests_left,
            request_bytes_max,
            lengths: Lengths::Any,
            has_said_bye: false,
            is_over: false,
            most_unanswered: 0,
        };
        let (job, program_name) = (&b"job"[..], &b"program"[..]);
        let (version_min, version_max) = (0, VERSION + 3);
        let hello = Request::Hello(Hello {
            version_min,
            version_max,
            client: 1,
            pid: 2,
            uid: 3,
            job,
            program: program_name,
        });
        assert_eq!(program.session.begin(&Request::Status), Err(Unsendable::OutOfPlace));
        let tag = program.session.begin(&hello).expect("it is the first");
        program.push(tag, &hello);
        program
    }

    fn push(&mut self, tag: u64, request: &Request<'_>) {
        let mut frame = vec![0; HEADER_BYTES + REQUEST_BODY_BYTES_MAX];
        let length = request.encode(tag, &mut frame).expect("there is room for any request");
        self.out.extend_from_slice(&frame[..length]);
    }

    /// Sends one more request if there is one that can be sent.
    pub(crate) fn step(&mut self, random: &mut Random) {
        if self.session.terms().is_none() || self.has_said_bye {
            return;
        }
        if self.session.room() == 0 {
            assert_eq!(self.session.begin(&Request::Status), Err(Unsendable::Busy));
            return;
        }
        if self.requests_left == 0 {
            self.leave();
            return;
        }
        self.requests_left -= 1;
        let file = random.below(FILES_COUNT);
        match self.handles.get(&file) {
            None => self.open(file, random),
            Some(handle) => self.use_file(file, *handle, random),
        }
        self.most_unanswered = self.most_unanswered.max(self.session.unanswered().count());
        assert!(self.most_unanswered <= REQUESTS_MAX);
    }

    fn open(&mut self, file: usize, random: &mut Random) {
        let number = if random.percent(10) { FILES_COUNT + 5 } else { file };
        if self.unanswered.values().any(|sent| sent.file == number) {
            return;
        }
        let path = number.to_string();
        let request =
            Request::Open(Open { flags: 0, descriptor: Descriptor::Absent, path: path.as_bytes() });
        self.send(
            &request,
            Sent {
                file: number,
                range: ByteRange::WHOLE_FILE,
                changes: true,
                expected: Expected::Opened,
            },
        );
    }

    fn leave(&mut self) {
        let reasons = [Reason { reason: 3, calls: 4 }];
        let bye =
            Request::Bye(Bye { forwarded: 99, native: 0, reasons: Reasons::from(&reasons[..]) });
        self.send(
            &bye,
            Sent {
                file: NO_FILE,
                range: ByteRange::default(),
                changes: false,
                expected: Expected::Bye,
            },
        );
        self.has_said_bye = true;
        assert_eq!(self.session.begin(&Request::Status), Err(Unsendable::OutOfPlace));
    }

    fn send(&mut self, request: &Request<'_>, sent: Sent) {
        let tag = self.session.begin(request).expect("there is room");
        self.push(tag, request);
        self.unanswered.insert(tag, sent);
    }

    fn conflicts(&self, file: usize, range: ByteRange, changes: bool) -> bool {
        self.unanswered.values().any(|sent| {
            sent.file == file && (changes || sent.changes) && sent.range.intersects(range)
        })
    }

    fn use_file(&mut self, file: usize, handle: Handle, random: &mut Random) {
        match self.idea(file, handle, random) {
            Idea::Plain(request, expected, changes) => {
                if self.conflicts(file, ByteRange::WHOLE_FILE, changes) {
                    return;
                }
                match request {
                    Request::Truncate(Truncate { size, .. }) => {
                        self.files[file].resize(size.0 as usize, 0)
                    }
                    Request::Allocate(Allocate { range, .. }) => {
                        let size = self.files[file].len().max(range.end.0 as usize);
                        self.files[file].resize(size, 0);
                    }
                    Request::Close(_) => drop(self.handles.remove(&file)),
                    _ => {}
                }
                self.send(&request, Sent { file, range: ByteRange::WHOLE_FILE, changes, expected });
            }
            Idea::Data { ranges, is_list, write } => {
                self.move_data(file, handle, &ranges, is_list, write)
            }
        }
    }

    fn idea(&self, file: usize, handle: Handle, random: &mut Random) -> Idea {
        let size = self.files[file].len();
        let plain = |request, expected| Idea::Plain(request, expected, true);
        match random.below(20) {
            0 => plain(Request::Sync(handle), Expected::Nothing),
            1 => plain(Request::DataSync(handle), Expected::Nothing),
            2 if file != FAULTY_FILE => plain(
                Request::Truncate(Truncate { handle, size: Bytes(random.below(size + 2) as u64) }),
                Expected::Nothing,
            ),
            3 if file != FAULTY_FILE => {
                let range = ByteRange::new(
                    Offset(random.below(size + 1) as u64),
                    Bytes(random.below(500) as u64),
                );
                plain(Request::Allocate(Allocate { handle, mode: 0, range }), Expected::Nothing)
            }
            4 => Idea::Plain(Request::Stat(handle), Expected::Size(size as u64), false),
            5 => {
                let range = ByteRange::new(Offset(0), Bytes(0));
                Idea::Plain(
                    Request::Hint(Hint { handle, advice: 2, range }),
                    Expected::Nothing,
                    false,
                )
            }
            6 => plain(Request::Close(handle), Expected::Closed),
            7 => {
                let control = Control { text: b"class\na\nweight=3" };
                let request = match random.percent(50) {
                    true => Request::Status,
                    false => Request::Control(control),
                };
                Idea::Plain(request, Expected::Text { bytes: 0, is_whole: false }, false)
            }
            n => self.data_idea(size, n % 2 == 0, random),
        }
    }

    fn data_idea(&self, size: usize, is_write: bool, random: &mut Random) -> Idea {
        let place = if is_write && random.percent(20) { Place::End } else { Place::Range };
        let is_list = place == Place::Range && random.percent(40);
        let count = if is_list { random.between(1, 30) } else { 1 };
        let length_max = (self.request_bytes_max / count).max(1);
        let mut ranges: Vec<ByteRange> = Vec::new();
        let mut from = if place == Place::End { 0 } else { random.below(size + 1) };
        for _ in 0..count {
            let is_longest = self.lengths == Lengths::Longest || random.percent(20);
            let length = if is_longest { length_max } else { random.between(1, length_max) };
            ranges.push(ByteRange::new(Offset(from as u64), Bytes(length as u64)));
            // Ranges of a write do not overlap, so that their order does not matter.
            from =
                if is_write { from + length + random.below(100) } else { random.below(size + 1) };
        }
        random.shuffle(&mut ranges);
        let length = total(&ranges);
        let terms = self.session.terms().expect("the session is open");
        let delivery = if length <= terms.eager_bytes_max as usize && random.percent(80) {
            Delivery::Eager
        } else {
            Delivery::Granted
        };
        Idea::Data {
            ranges,
            is_list,
            write: is_write.then(|| (place, delivery, random.bytes(length))),
        }
    }

    fn move_data(
        &mut self,
        file: usize,
        handle: Handle,
        ranges: &[ByteRange],
        is_list: bool,
        write: Option<(Place, Delivery, Vec<u8>)>,
    ) {
        let first = ranges.iter().map(|range| range.start).min().expect("there is a range");
        let last = ranges.iter().map(|range| range.end).max().expect("there is a range");
        let size = self.files[file].len() as u64;
        let mut range = ByteRange { start: first, end: last };
        let Some((place, delivery, data)) = write else {
            if self.conflicts(file, range, false) {
                return;
            }
            let expected = self.expect_data(file, ranges);
            let list = Ranges::from(ranges);
            let request = match is_list {
                true => Request::ReadList(ReadList { handle, ranges: list }),
                false => Request::Read(Read { handle, range: ranges[0] }),
            };
            self.send(&request, Sent { file, range, changes: false, expected });
            return;
        };
        if place == Place::End || last.0 > size {
            // It moves the end of the file.
            range = ByteRange::from_start(Offset(first.0.min(size)));
        }
        if place == Place::End {
            range = ByteRange::WHOLE_FILE;
        }
        if self.conflicts(file, range, true) {
            return;
        }
        let end = self.apply(file, ranges, place, &data);
        let request = match is_list {
            true => {
                Request::WriteList(WriteList { handle, ranges: Ranges::from(ranges), delivery })
            }
            false => Request::Write(Write { handle, range: ranges[0], place, delivery }),
        };
        let eager = if delivery == Delivery::Eager { data.clone() } else { Vec::new() };
        self.send(
            &request,
            Sent { file, range, changes: true, expected: Expected::Taken { data, end } },
        );
        self.out.extend(eager);
    }

    fn expect_data(&self, file: usize, ranges: &[ByteRange]) -> Expected {
        let (mut expected, mut bytes, mut has_gap) = (Vec::new(), 0, false);
        for range in ranges {
            let there = self.files[file].get(range.start.0 as usize..).unwrap_or_default();
            let length = range.length().0 as usize;
            let there = &there[..there.len().min(length)];
            expected.extend(there.iter().copied().map(Some));
            expected.extend(vec![None; length - there.len()]);
            bytes += if has_gap { 0 } else { there.len() as u64 };
            has_gap |= there.len() < length;
        }
        Expected::Data { received: vec![0; expected.len()], expected, bytes }
    }

    /// Changes the expected file and says where an append ends.
    fn apply(&mut self, file: usize, ranges: &[ByteRange], place: Place, data: &[u8]) -> u64 {
        let bytes = &mut self.files[file];
        if file == FAULTY_FILE {
            return 0;
        }
        if place == Place::End {
            bytes.extend(data);
            return bytes.len() as u64;
        }
        let mut base = 0;
        for range in ranges {
            let (start, length) = (range.start.0 as usize, range.length().0 as usize);
            bytes.resize(bytes.len().max(start + length), 0);
            bytes[start..start + length].copy_from_slice(&data[base..base + length]);
            base += length;
        }
        0
    }

    /// Takes a fragment of the stream.
    pub(crate) fn receive(&mut self, mut input: &[u8]) {
        loop {
            if let Some(payload) = self.session.payload() {
                let count = input.len().min(payload.length as usize);
                let (taken, rest) = input.split_at(count);
                self.take_payload(payload.tag, payload.offset as usize, taken);
                self.session.payload_received(count);
                input = rest;
            }
            let (used, event) = self.session.receive(input).expect("the forwarder keeps the rules");
            let mut granted = None;
            match event {
                None | Some(Event::Welcome(_)) => {}
                Some(Event::Grant(grant)) => granted = Some(grant),
                Some(Event::Refused(refused)) => panic!("{refused:?}"),
                Some(event) => {
                    answered(event, &mut self.unanswered, &mut self.handles, &mut self.is_over)
                }
            }
            if let Some(granted) = granted {
                let Some(Sent { expected: Expected::Taken { data, .. }, .. }) =
                    self.unanswered.get(&granted.tag())
                else {
                    panic!("a grant for a request that takes none")
                };
                let part = granted.offset() as usize
                    ..granted.offset() as usize + granted.length() as usize;
                let frame = self.session.write_data(granted);
                self.out.extend_from_slice(&frame);
                self.out.extend_from_slice(&data[part]);
            }
            input = &input[used..];
            if used == 0 && (input.is_empty() || self.session.payload().is_none()) {
                assert!(input.is_empty(), "bytes are left for no reason");
                return;
            }
        }
    }

    fn take_payload(&mut self, tag: u64, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.unanswered.get_mut(&tag).map(|sent| &mut sent.expected) {
            Some(Expected::Data { received, .. }) => {
                received[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            Some(Expected::Text { bytes: count, is_whole }) => {
                assert_eq!((offset as u64, bytes), (*count, &vec![b's'; bytes.len()][..]));
                *count += bytes.len() as u64;
                if *is_whole
                    && self
                        .session
                        .payload()
                        .is_some_and(|left| left.length as usize == bytes.len())
                {
                    self.unanswered.remove(&tag);
                }
            }
            _ => panic!("payload for a request that takes none"),
        }
    }

    pub(crate) fn assert_it_knows_what_is_left(&self) {
        let mut unanswered: Vec<u64> = self.session.unanswered().collect();
        unanswered.sort_unstable();
        let is_left = |sent: &Sent| !matches!(sent.expected, Expected::Text { is_whole: true, .. });
        let sent = self.unanswered.iter().filter(|(_, sent)| is_left(sent)).map(|(tag, _)| *tag);
        assert_eq!(unanswered, sent.collect::<Vec<_>>());
    }
}

fn total(ranges: &[ByteRange]) -> usize {
    ranges.iter().map(|range| range.length().0 as usize).sum()
}

/// Compares an answer with what was expected.
fn answered(
    event: Event<'_>,
    unanswered: &mut BTreeMap<u64, Sent>,
    handles: &mut BTreeMap<usize, Handle>,
    is_over: &mut bool,
) {
    if let Event::StatusText { tag, text } = event {
        let sent = unanswered.get_mut(&tag).expect("it was asked for");
        let Expected::Text { is_whole, .. } = &mut sent.expected else {
            panic!("text for something else")
        };
        *is_whole = !text.more;
        if text.length == 0 && *is_whole {
            unanswered.remove(&tag);
        }
        return;
    }
    let (Event::Opened { tag, .. } | Event::Attributes { tag, .. } | Event::Done { tag, .. }) =
        event
    else {
        panic!("{event:?} answers nothing")
    };
    let Sent { file, expected, .. } =
        unanswered.remove(&tag).expect("it was asked for and not answered");
    match (event, expected) {
        (Event::Opened { opened, .. }, Expected::Opened) => {
            assert_eq!(opened.id.inode, file as u64);
            assert!(
                handles.values().all(|handle| *handle != opened.handle),
                "a handle is given out twice"
            );
            handles.insert(file, opened.handle);
        }
        (Event::Done { done, .. }, Expected::Opened) => {
            assert_eq!((done.errno, file >= FILES_COUNT), (ENOENT, true))
        }
        (Event::Done { done, .. }, Expected::Data { .. }) if file == FAULTY_FILE => {
            assert_eq!(done.errno, EIO)
        }
        (Event::Done { done, .. }, Expected::Data { received, expected, bytes }) => {
            assert_eq!((done.errno, done.bytes), (0, bytes));
            let whole = received
                .iter()
                .zip(&expected)
                .all(|(is, should)| should.is_none_or(|should| *is == should));
            assert!(whole, "a read brought other bytes than were written");
        }
        (Event::Done { done, .. }, Expected::Taken { .. }) if file == FAULTY_FILE => {
            assert_eq!(done.errno, ENOSPC)
        }
        (Event::Done { done, .. }, Expected::Taken { data, end }) => {
            assert_eq!(done, Done { errno: 0, bytes: data.len() as u64, end });
        }
        (Event::Attributes { attributes, .. }, Expected::Size(size)) => {
            assert_eq!(attributes.size, Bytes(size))
        }
        (Event::Done { done, .. }, Expected::Bye) => {
            assert_eq!(done, Done::default());
            *is_over = true;
        }
        (Event::Done { done, .. }, Expected::Nothing | Expected::Closed) => {
            assert_eq!(done, Done::default())
        }
        (event, _) => panic!("{event:?} answers another kind of request"),
    }
}
