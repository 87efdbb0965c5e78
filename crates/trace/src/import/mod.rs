//! Logs of other tools as traces: fio's I/O logs and Darshan's extended traces as text.
//!
//! A log is read line by line; a line that is not understood is an error with its number and what
//! would do, never passed over. What the formats hold and what of it is used stands in
//! `docs/trace-format.md`.

mod dxt;
mod fio;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use forebay_sched::{Access, Request};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Timestamp};

use crate::event::{Event, Fate, Named, Submit};
use crate::frame::Header;
use crate::recorder::{Recorder, RecorderOptions};

/// The header's key that says that ends of requests were not known: each is recorded as ending
/// when it came, so that requests of one client follow each other, and durations mean nothing.
pub const ENDS: &str = "import.ends";

/// A line that is not understood, or a text that is no log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The number of the line, counted from 1.
    pub line: usize,
    /// What is wrong, and what would do.
    pub text: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl core::error::Error for ImportError {}

/// A request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedRequest {
    /// When it began.
    pub at: Timestamp,
    /// How long it took; zero where the log does not say.
    pub took: Nanos,
    /// Who asked, as a place in [`Imported::clients`].
    pub client: ClientId,
    /// Of what, as a place in [`Imported::files`].
    pub file: FileIndex,
    /// For what.
    pub access: Access,
    /// Where.
    pub range: ByteRange,
}

/// What logs say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// What the logs are, in words.
    pub source: String,
    /// Requests, by client in the order of their lines.
    pub requests: Vec<ImportedRequest>,
    /// Names of files.
    pub files: Vec<String>,
    /// Names of clients.
    pub clients: Vec<String>,
    /// Whether it is known how long requests took.
    pub has_ends: bool,
    /// Lines that stand for the same accesses once more, or for none, and were left out.
    pub left_out: u64,
    places: BTreeMap<String, FileIndex>,
}

impl Imported {
    /// Adds a log, which is recognised by its first lines. Several logs of one kind are clients
    /// of one run.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn add(&mut self, text: &str) -> Result<(), ImportError> {
        let first = text.lines().next().unwrap_or_default().trim_end();
        if let Some(version) = fio::version(first) {
            return fio::read(self, version, text);
        }
        if text.lines().take(200).any(dxt::is_sign) {
            return dxt::read(self, text);
        }
        Err(ImportError {
            line: 1,
            text: format!(
                "neither a fio I/O log (first line \"{}\" or \"{}\") nor the output of darshan-dxt-parser \
                 (\"# DXT, file_id: …\"); it begins with \"{}\"",
                fio::VERSION_2,
                fio::VERSION_3,
                first.chars().take(60).collect::<String>()
            ),
        })
    }

    /// The place of a file.
    fn file(&mut self, name: &str) -> FileIndex {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = FileIndex(self.files.len() as u32);
        self.files.push(name.into());
        self.places.insert(name.into(), place);
        place
    }

    /// A new client's place.
    fn client(&mut self, name: &str) -> ClientId {
        self.clients.push(name.into());
        ClientId(self.clients.len() as u32 - 1)
    }

    fn set_kind(&mut self, source: &str, has_ends: bool, line: usize) -> Result<(), ImportError> {
        if !self.source.is_empty() && self.source != source {
            let text = format!(
                "a log of another kind ({source}) than those before it ({}); import them into traces of their own",
                self.source
            );
            return Err(ImportError { line, text });
        }
        (self.source, self.has_ends) = (source.into(), has_ends);
        Ok(())
    }

    /// As a trace, piece by piece to `write`.
    pub fn write_trace(&self, mut write: impl FnMut(&[u8])) {
        let ends = if self.has_ends { "known" } else { "unknown" };
        let header = Header {
            source: self.source.clone(),
            clock_base_ns: 0,
            settings: [(ENDS, ends.to_string()), ("import.left_out", self.left_out.to_string())]
                .map(|(key, value)| (key.to_string(), value))
                .into(),
        };
        write(&header.to_bytes());
        let mut recorder = Recorder::new(RecorderOptions::default(), 0);
        let mut pass_on = |recorder: &mut Recorder| {
            while let Some(mut block) = recorder.take_block() {
                write(block.seal());
                recorder.give_back(block);
            }
        };
        for (number, name) in (0..).zip(&self.files) {
            let of = Named::File(FileIndex(number));
            recorder.record(Timestamp(0), &Event::Name { of, text: name });
            pass_on(&mut recorder);
        }
        for (number, name) in (0..).zip(&self.clients) {
            let of = Named::Client(ClientId(number));
            recorder.record(Timestamp(0), &Event::Name { of, text: name });
            pass_on(&mut recorder);
        }
        let mut seqs = alloc::vec![0; self.requests.len()];
        let mut next_seq = 0;
        for step in self.steps() {
            let imported = &self.requests[step.request];
            let begin = |recorder: &mut Recorder| {
                let submit = Submit {
                    seq: None,
                    request: imported.request(),
                    has_room: false,
                    fate: Fate::Queued,
                };
                recorder.record(step.at, &Event::Submit(submit));
            };
            let end = |recorder: &mut Recorder, seq: u64| {
                let event = Event::Complete { seq, errno: 0, moved: imported.moved() };
                recorder.record(step.at, &event);
            };
            match step.what {
                What::Ends => end(&mut recorder, seqs[step.request]),
                What::Happens | What::Begins => {
                    begin(&mut recorder);
                    if step.what == What::Happens {
                        end(&mut recorder, next_seq);
                    }
                    seqs[step.request] = next_seq;
                    next_seq += 1;
                }
            }
            pass_on(&mut recorder);
        }
        let (blocks, totals) = recorder.finish();
        blocks.for_each(|mut block| write(block.seal()));
        write(&totals.to_bytes());
    }

    /// Beginnings and ends in the order of time. At one moment those that began earlier end first,
    /// then come those that take no time, line by line.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(2 * self.requests.len());
        for (request, imported) in self.requests.iter().enumerate() {
            let at = imported.at;
            if imported.took == Nanos::ZERO {
                steps.push(Step { at, what: What::Happens, request });
            } else {
                steps.push(Step { at, what: What::Begins, request });
                steps.push(Step { at: at + imported.took, what: What::Ends, request });
            }
        }
        steps.sort_unstable();
        steps
    }
}

impl ImportedRequest {
    fn request(&self) -> Request {
        Request {
            tag: 0,
            file: self.file,
            access: self.access,
            range: self.range,
            client: self.client,
            class: ClassId(0),
        }
    }

    fn moved(&self) -> Bytes {
        match self.access {
            Access::Read | Access::Write => self.range.length(),
            Access::Alone | Access::Sync => Bytes::ZERO,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    at: Timestamp,
    what: What,
    request: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Ends,
    Happens,
    Begins,
}

/// A whole number in a line.
fn number(line: usize, what: &str, text: &str) -> Result<u64, ImportError> {
    text.parse().map_err(|_| ImportError {
        line,
        text: format!("{what} is \"{text}\"; it has to be a whole number of at most 2^64 - 1"),
    })
}

/// A range of a file that ends where files can.
fn range(line: usize, start: u64, length: u64) -> Result<ByteRange, ImportError> {
    let end = start.checked_add(length).filter(|end| *end <= forebay_units::OFFSET_MAX.0);
    match end {
        Some(_) => Ok(ByteRange::new(forebay_units::Offset(start), Bytes(length))),
        None => Err(ImportError {
            line,
            text: format!(
                "offset {start} and length {length} reach beyond the largest file (2^63 - 1 bytes)"
            ),
        }),
    }
}
