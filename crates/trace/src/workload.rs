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
use alloc::vec::Vec;

use forebay_sched::{Access, Request};
use forebay_units::{ByteRange, Bytes, ClientId, Nanos, Offset, Timestamp};

use crate::catalog::Catalog;
use crate::event::{Event, Record};
use crate::reader::{Damage, Reader};

/// A request as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it came, from the first one on.
    pub at: Timestamp,
    /// What was asked. The file is the place in [`Catalog::files`]; the tag is the place in
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

/// The requests of a trace in order of arrival, refused ones left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The requests.
    pub requests: Vec<Recorded>,
    /// Files, by the index that requests have here, and names.
    pub catalog: Catalog,
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
        let mut builder = Builder { has_ends: reader.header().has_ends(), ..Builder::default() };
        for found in reader {
            match found {
                Ok(record) => builder.take(&record),
                Err(damage) => {
                    builder.workload.catalog.forget_indices();
                    builder.workload.damages.push(damage);
                }
            }
        }
        builder.finish()
    }
}

/// What is known while a trace is being read.
#[derive(Default)]
struct Builder {
    workload: Workload,
    has_ends: bool,
    start: Option<Timestamp>,
    /// Requests that have not ended, by `seq`.
    open: BTreeMap<u64, u32>,
    /// The last request of each client that has ended, and when.
    ended: BTreeMap<ClientId, (u32, Timestamp)>,
}

impl Builder {
    fn take(&mut self, record: &Record<'_>) {
        let now = record.time;
        self.workload.catalog.take(&record.event);
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
            Event::Lost { events, .. } => {
                let lost = &mut self.workload.lost_events;
                *lost = lost.saturating_add(events);
            }
            _ => {}
        }
    }

    fn add(&mut self, now: Timestamp, mut request: Request) -> u32 {
        let start = *self.start.get_or_insert(now);
        let place = u32::try_from(self.workload.requests.len()).expect("at most 2^32 requests");
        request.tag = u64::from(place);
        request.file = self.workload.catalog.place_of(request.file);
        if matches!(request.access, Access::Read | Access::Write) {
            let size = &mut self.workload.catalog.files[request.file.0 as usize].size;
            *size = (*size).max(Bytes(request.range.end.0));
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
        let latency = (now - start) - (recorded.at - Timestamp(0));
        recorded.latency = self.has_ends.then_some(latency);
        self.ended.insert(recorded.request.client, (place, now));
        if recorded.request.access == Access::Alone && moved > Bytes::ZERO {
            let size = &mut self.workload.catalog.files[recorded.request.file.0 as usize].size;
            recorded.request.range = ByteRange::new(Offset(size.0), moved);
            recorded.request.access = Access::Write;
            *size += moved;
        }
    }

    /// What moved nothing by itself only holds up what comes after it.
    fn finish(mut self) -> Workload {
        for recorded in &mut self.workload.requests {
            if recorded.request.access == Access::Alone {
                recorded.request.access = Access::Sync;
            }
        }
        self.workload
    }
}
