//! A forwarder without sockets and stores: files are vectors, and whatever may happen in any order does.

use forebay_session::server::{Event, Session};
use forebay_units::{Bytes, FileId};
use forebay_wire::{Attributes, Delivery, Descriptor, Done, Place, Ranges};

use crate::random::Random;
use crate::{EIO, ENOENT, ENOSPC, FAULTY_FILE, FILES_COUNT};

pub(crate) struct Forwarder {
    pub(crate) session: Session<usize>,
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) out: Vec<u8>,
    /// Answers wait while more than this is unsent.
    out_bytes_max: usize,
    chunk_bytes_max: usize,
    grants_max: usize,
    work: Vec<Work>,
    open: Vec<usize>,
    pub(crate) has_left: bool,
    pub(crate) chunks_count: usize,
}

/// A request with what is left to do for it.
struct Work {
    tag: u64,
    file: Option<usize>,
    task: Task,
}

enum Task {
    /// Data still to be sent, and the result.
    Read {
        parts: Vec<(usize, Vec<u8>)>,
        done: Done,
    },
    /// Payload by place in the request, what is still to be granted, and what is still to arrive.
    Write {
        payload: Vec<u8>,
        ranges: Vec<(usize, usize)>,
        place: Place,
        ungranted: Vec<(usize, usize)>,
        owed: usize,
    },
    Open(usize),
    Truncate(usize),
    Extend(usize),
    Stat,
    Status(Vec<u8>),
    Close,
    Bye,
    Nothing,
}

impl Forwarder {
    pub(crate) fn new(
        session: Session<usize>,
        files: Vec<Vec<u8>>,
        chunk_bytes_max: usize,
        random: &mut Random,
    ) -> Self {
        Self {
            session,
            files,
            out: Vec::new(),
            out_bytes_max: [1, 1000, 100_000][random.below(3)],
            chunk_bytes_max,
            grants_max: random.between(1, 8),
            work: Vec::new(),
            open: Vec::new(),
            has_left: false,
            chunks_count: 0,
        }
    }

    /// Takes a fragment of the stream.
    pub(crate) fn receive(&mut self, mut input: &[u8], random: &mut Random) {
        loop {
            if let Some(payload) = self.session.payload() {
                let count = input.len().min(payload.length as usize);
                let (taken, rest) = input.split_at(count);
                self.take_payload(payload.tag, payload.offset as usize, taken);
                self.session.payload_received(count);
                input = rest;
            }
            let (used, event) = self.session.receive(input).expect("the client keeps the rules");
            let work = event.map(|event| plan(event, &self.files, self.chunk_bytes_max, random));
            if used == 0 {
                assert!(
                    input.is_empty() || self.session.payload().is_some(),
                    "bytes are left for no reason"
                );
                if self.session.payload().is_none() || input.is_empty() {
                    return;
                }
            }
            input = &input[used..];
            match work {
                Some(Some(work)) => self.work.push(work),
                Some(None) => self.out.extend_from_slice(&self.session.welcome(7)),
                None => {}
            }
        }
    }

    fn take_payload(&mut self, tag: u64, offset: usize, bytes: &[u8]) {
        let work = self
            .work
            .iter_mut()
            .find(|work| work.tag == tag)
            .expect("payload belongs to a request");
        let Task::Write { payload, owed, .. } = &mut work.task else {
            panic!("payload belongs to a write")
        };
        payload[offset..offset + bytes.len()].copy_from_slice(bytes);
        *owed -= bytes.len();
    }

    /// Does one of the things that can be done now; whether there was one.
    pub(crate) fn step(&mut self, random: &mut Random) -> bool {
        if self.out.len() >= self.out_bytes_max || self.work.is_empty() {
            return false;
        }
        let first = random.below(self.work.len());
        (0..self.work.len()).any(|n| self.advance((first + n) % self.work.len(), random))
    }

    fn advance(&mut self, idx: usize, random: &mut Random) -> bool {
        let open_grants = self.grants_open();
        let others_on_file =
            self.work.iter().filter(|work| work.file == self.work[idx].file).count() - 1;
        let others_count = self.work.len() - 1;
        let Work { tag, file, task } = &mut self.work[idx];
        let (tag, file) = (*tag, *file);
        let frame = match task {
            Task::Read { parts, .. } if !parts.is_empty() => {
                let (offset, data) = parts.pop().expect("there is one");
                self.out.extend_from_slice(&self.session.data(
                    tag,
                    offset as u64,
                    data.len() as u32,
                ));
                self.out.extend_from_slice(&data);
                self.chunks_count += 1;
                return true;
            }
            Task::Write { ungranted, owed, .. } if !ungranted.is_empty() => {
                // A faulty store gives up somewhere in the middle, but not on what was granted.
                if file == Some(FAULTY_FILE) && *owed == 0 && random.percent(50) {
                    ungranted.clear();
                    return true;
                }
                if open_grants >= self.grants_max {
                    return false;
                }
                let (offset, length) = ungranted.pop().expect("there is one");
                *owed += length;
                self.out.extend_from_slice(&self.session.grant(tag, offset as u64, length as u32));
                self.chunks_count += 1;
                return true;
            }
            Task::Write { owed, .. } if *owed > 0 => return false,
            Task::Status(text) if text.len() > self.chunk_bytes_max => {
                let part: Vec<u8> = text.drain(..self.chunk_bytes_max).collect();
                self.out.extend_from_slice(&self.session.status_text(tag, part.len() as u32, true));
                self.out.extend_from_slice(&part);
                return true;
            }
            Task::Close if others_on_file > 0 => return false,
            Task::Bye if others_count > 0 => return false,
            Task::Read { done, .. } => self.session.done(tag, *done),
            Task::Write { .. } | Task::Truncate(_) | Task::Extend(_) => {
                let done = self.apply(idx);
                self.session.done(tag, done)
            }
            Task::Open(number) if *number >= FILES_COUNT => {
                self.session.done(tag, Done { errno: ENOENT, ..Done::default() })
            }
            Task::Open(number) => {
                let id = FileId { device: 1, inode: *number as u64, generation: 0 };
                self.open.push(*number);
                self.session.opened(tag, *number, id)
            }
            Task::Stat => {
                let size = Bytes(self.files[file.expect("a stat has a file")].len() as u64);
                self.session.attributes(tag, Attributes { size, ..Attributes::default() })
            }
            Task::Status(text) => {
                let text = std::mem::take(text);
                let mut frame = self.session.status_text(tag, text.len() as u32, false).to_vec();
                frame.extend(text);
                self.out.append(&mut frame);
                self.work.swap_remove(idx);
                return true;
            }
            Task::Close => {
                self.open.retain(|open| Some(*open) != file);
                self.session.done(tag, Done::default())
            }
            Task::Bye => {
                self.has_left = true;
                self.session.done(tag, Done::default())
            }
            Task::Nothing => self.session.done(tag, Done::default()),
        };
        self.out.extend_from_slice(&frame);
        self.work.swap_remove(idx);
        true
    }

    fn grants_open(&self) -> usize {
        let owed = |work: &&Work| matches!(work.task, Task::Write { owed: 1.., .. });
        self.work.iter().filter(owed).count()
    }

    fn apply(&mut self, idx: usize) -> Done {
        let Work { file, task, .. } = &self.work[idx];
        let number = file.expect("a change has a file");
        let bytes = &mut self.files[number];
        match task {
            Task::Write { .. } if number == FAULTY_FILE => {
                Done { errno: ENOSPC, ..Done::default() }
            }
            Task::Write { payload, place: Place::End, .. } => {
                bytes.extend(payload);
                Done { errno: 0, bytes: payload.len() as u64, end: bytes.len() as u64 }
            }
            Task::Write { payload, ranges, .. } => {
                let mut base = 0;
                for (start, length) in ranges {
                    bytes.resize(bytes.len().max(start + length), 0);
                    bytes[*start..start + length].copy_from_slice(&payload[base..base + length]);
                    base += length;
                }
                Done { errno: 0, bytes: payload.len() as u64, end: 0 }
            }
            Task::Truncate(size) => {
                bytes.resize(*size, 0);
                Done::default()
            }
            Task::Extend(end) => {
                bytes.resize(bytes.len().max(*end), 0);
                Done::default()
            }
            _ => unreachable!("the caller applies changes"),
        }
    }

    /// The connection is gone: the session knows what is left to clean up.
    pub(crate) fn assert_it_knows_what_is_left(&self) {
        let mut unanswered: Vec<u64> = self.work.iter().map(|work| work.tag).collect();
        unanswered.sort_unstable();
        assert_eq!(self.session.unanswered().collect::<Vec<_>>(), unanswered);
        let closing = |file: &usize| {
            self.work
                .iter()
                .any(|work| work.file == Some(*file) && matches!(work.task, Task::Close))
        };
        let mut open: Vec<usize> =
            self.open.iter().copied().filter(|file| !closing(file)).collect();
        let mut known: Vec<usize> = self.session.files().collect();
        open.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, open);
    }
}

/// What an event asks to be done; `None` for a hello.
fn plan(
    event: Event<'_, usize>,
    files: &[Vec<u8>],
    chunk_bytes_max: usize,
    random: &mut Random,
) -> Option<Work> {
    let work = |tag, file: usize, task| Some(Work { tag, file: Some(file), task });
    match event {
        Event::Hello(hello) => {
            assert_eq!((hello.job, hello.program), (&b"job"[..], &b"program"[..]));
            None
        }
        Event::Open { tag, open } => {
            assert_eq!(open.descriptor, Descriptor::Absent);
            let number = std::str::from_utf8(open.path).ok().and_then(|path| path.parse().ok());
            Some(Work { tag, file: None, task: Task::Open(number.expect("paths are numbers")) })
        }
        Event::Read { tag, file, .. } if file == FAULTY_FILE => work(
            tag,
            file,
            Task::Read { parts: Vec::new(), done: Done { errno: EIO, ..Done::default() } },
        ),
        Event::Read { tag, file, ranges } => {
            work(tag, file, read(&files[file], &pairs(ranges), chunk_bytes_max, random))
        }
        Event::Write { tag, file, ranges, place, delivery } => {
            let ranges = pairs(ranges);
            let length = ranges.iter().map(|range| range.1).sum();
            let (ungranted, owed) = match delivery {
                Delivery::Eager => (Vec::new(), length),
                Delivery::Granted => (random.parts(length, chunk_bytes_max), 0),
            };
            work(
                tag,
                file,
                Task::Write { payload: vec![0; length], ranges, place, ungranted, owed },
            )
        }
        Event::Sync { tag, file }
        | Event::DataSync { tag, file }
        | Event::Hint { tag, file, .. } => work(tag, file, Task::Nothing),
        Event::Truncate { tag, file, size } => work(tag, file, Task::Truncate(size.0 as usize)),
        Event::Allocate { tag, file, range, .. } => {
            work(tag, file, Task::Extend(range.end.0 as usize))
        }
        Event::Stat { tag, file } => work(tag, file, Task::Stat),
        Event::Close { tag, file } => work(tag, file, Task::Close),
        Event::Status { tag } | Event::Control { tag, .. } => {
            let text = vec![b's'; random.below(3 * chunk_bytes_max)];
            Some(Work { tag, file: None, task: Task::Status(text) })
        }
        Event::Bye { tag, bye } => {
            assert_eq!((bye.forwarded, bye.reasons.len()), (99, 1));
            Some(Work { tag, file: None, task: Task::Bye })
        }
    }
}

fn pairs(ranges: Ranges<'_>) -> Vec<(usize, usize)> {
    ranges.iter().map(|range| (range.start.0 as usize, range.length().0 as usize)).collect()
}

/// Cuts what a read brings into chunks, and counts what it brings without a gap.
fn read(
    file: &[u8],
    ranges: &[(usize, usize)],
    chunk_bytes_max: usize,
    random: &mut Random,
) -> Task {
    let (mut parts, mut base, mut bytes, mut has_gap) = (Vec::new(), 0, 0, false);
    for &(start, length) in ranges {
        let there = file.get(start..).map_or(0, |rest| rest.len().min(length));
        for (from, count) in random.parts(there, chunk_bytes_max) {
            parts.push((base + from, file[start + from..start + from + count].to_vec()));
        }
        if !has_gap {
            bytes += there as u64;
        }
        has_gap |= there < length;
        base += length;
    }
    random.shuffle(&mut parts);
    Task::Read { parts, done: Done { errno: 0, bytes, end: 0 } }
}
