//! What clients asked for, taken out of a trace, to be asked again of another scheduler or store.
//!
//! Two ways to ask again:
//!
//! - **open loop**: each request at its recorded time, whatever has become of the others. It keeps
//!   the load, and lets queues grow where the new scheduler or device is slower.
//! - **closed loop**: each request so long after the end of the request that it followed as its
//!   client took to think when it was recorded. It keeps the clients' behaviour: a faster device
//!   is asked sooner, as by programs that wait for their answers.
//!
//! Which request one followed is not recorded but concluded: it is the last of its client that had
//! ended when it came. A client that had several under way is so replayed with as many under way.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_sched::Request;
use forebay_units::{Bytes, ClassId, ClientId, FileId, FileIndex, Nanos, Timestamp};

use crate::event::{Event, Named, Record};
use crate::reader::{Damage, Reader};

/// A request as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it came, from the first one on.
    pub at: Timestamp,
    /// What was asked. The file is the place in [`Workload::files`]; the tag is the place in
    /// [`Workload::requests`].
    pub request: Request,
    /// The place of the request that it followed: the last of its client that had ended. `None`
    /// for the first of a client, which come at their recorded time.
    pub after: Option<u32>,
    /// The time since that one's end; since the first request of all if there is none.
    pub think: Nanos,
    /// Bytes that it moved; `None` if its end was not recorded. What an append moved is known from here only.
    pub moved: Option<Bytes>,
    /// From its arrival to its end, as recorded.
    pub latency: Option<Nanos>,
}

/// A file of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadFile {
    /// What it was.
    pub id: Option<FileId>,
    /// What it was called.
    pub name: Option<String>,
    /// The highest end of a read or write, which a file to replay on must have.
    pub size: Bytes,
}

/// The requests of a trace in order of arrival, refused ones left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The requests.
    pub requests: Vec<Recorded>,
    /// The files, by the index that requests have here.
    pub files: Vec<WorkloadFile>,
    /// Names of clients.
    pub clients: BTreeMap<ClientId, String>,
    /// Names of classes.
    pub classes: BTreeMap<ClassId, String>,
    /// Events that the trace has lost; requests may be missing.
    pub lost_events: u64,
    /// Where the trace could not be read; requests may be missing.
    pub damages: Vec<Damage>,
}

impl Workload {
    /// Reads a trace to its end.
    ///
    /// # Panics
    /// If it has more than 2^32 requests.
    pub fn read(reader: Reader<'_>) -> Self {
        let mut builder = Builder::default();
        for found in reader {
            match found {
                Ok(record) => builder.take(&record),
                Err(damage) => builder.workload.damages.push(damage),
            }
        }
        builder.workload
    }
}

/// What is known while a trace is being read.
#[derive(Default)]
struct Builder {
    workload: Workload,
    start: Option<Timestamp>,
    /// The file that an index stands for at the moment.
    files: BTreeMap<FileIndex, FileIndex>,
    by_id: BTreeMap<FileId, FileIndex>,
    /// Requests that have not ended, by `seq`.
    open: BTreeMap<u64, u32>,
    /// The last request of each client that has ended, and when.
    ended: BTreeMap<ClientId, (u32, Timestamp)>,
}

impl Builder {
    fn take(&mut self, record: &Record<'_>) {
        let now = record.time;
        match record.event {
            Event::Submit(submit) => {
                if let Some(seq) = submit.seq {
                    let place = self.add(now, submit.request);
                    self.open.insert(seq, place);
                }
            }
            Event::Immediate { request, moved } => {
                let place = self.add(now, request);
                self.end(now, place, moved);
            }
            Event::Complete { seq, moved, .. } => {
                if let Some(place) = self.open.remove(&seq) {
                    self.end(now, place, moved);
                }
            }
            Event::Retire { file } => _ = self.files.remove(&file),
            Event::File { file, id } => {
                let place = match self.by_id.get(&id) {
                    Some(place) => *place,
                    None => self.add_file(Some(id)),
                };
                self.by_id.insert(id, place);
                self.files.insert(file, place);
            }
            Event::Name { of, text } => self.name(of, text),
            Event::Lost { events, .. } => self.workload.lost_events += events,
            _ => {}
        }
    }

    fn add(&mut self, now: Timestamp, mut request: Request) -> u32 {
        let start = *self.start.get_or_insert(now);
        let place = u32::try_from(self.workload.requests.len()).expect("at most 2^32 requests");
        request.tag = u64::from(place);
        request.file = self.place_of(request.file);
        let file = &mut self.workload.files[request.file.0 as usize];
        if !matches!(request.access, forebay_sched::Access::Alone | forebay_sched::Access::Sync) {
            file.size = file.size.max(Bytes(request.range.end.0));
        }
        let followed = self.ended.get(&request.client);
        self.workload.requests.push(Recorded {
            at: Timestamp((now - start).0),
            request,
            after: followed.map(|(place, _)| *place),
            think: now - followed.map_or(start, |(_, end)| *end),
            moved: None,
            latency: None,
        });
        place
    }

    fn end(&mut self, now: Timestamp, place: u32, moved: Bytes) {
        let recorded = &mut self.workload.requests[place as usize];
        recorded.moved = Some(moved);
        let start = self.start.unwrap_or_default();
        recorded.latency = Some((now - start) - (recorded.at - Timestamp(0)));
        self.ended.insert(recorded.request.client, (place, now));
    }

    fn place_of(&mut self, file: FileIndex) -> FileIndex {
        if let Some(place) = self.files.get(&file) {
            return *place;
        }
        let place = self.add_file(None);
        self.files.insert(file, place);
        place
    }

    fn add_file(&mut self, id: Option<FileId>) -> FileIndex {
        self.workload.files.push(WorkloadFile { id, ..WorkloadFile::default() });
        FileIndex(self.workload.files.len() as u32 - 1)
    }

    fn name(&mut self, of: Named, text: &str) {
        match of {
            Named::Client(client) => _ = self.workload.clients.insert(client, text.into()),
            Named::Class(class) => _ = self.workload.classes.insert(class, text.into()),
            Named::File(file) => {
                let place = self.place_of(file);
                self.workload.files[place.0 as usize].name = Some(text.into());
            }
        }
    }
}
