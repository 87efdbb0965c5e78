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
//!
//! [`Workload`] has all of it in memory; [`Steps`] hands it out as it goes, for as long a trace as may be.

use alloc::collections::{BTreeMap, VecDeque};
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
    /// Bytes that it moved; `None` if its end was not recorded, or only behind a place where events
    /// are missing. What an append moved is known from here only.
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
        let mut steps = Steps::new(reader, usize::MAX);
        while !steps.is_over {
            steps.read_on();
        }
        let Concluder { window, catalog, lost_events, damages, .. } = steps.concluder;
        let mut requests = Vec::from(window);
        requests.iter_mut().for_each(settle);
        Self { requests, catalog, lost_events, damages }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To ask for this.
    Ask(Recorded),
    /// To forget when this request of this client has ended: none that follows it comes any more.
    Forget(ClientId, u32),
}

/// The requests of a trace in order of arrival, one after the other. Memory grows with what was
/// under way at one time, and with the look-ahead. What was under way where events are missing
/// counts as not ended: its end may be among them.
///
/// Where an append went shows at its end. With more than so many requests behind one that has not
/// ended, it is handed out as if its end were not recorded; everything else is as in a [`Workload`].
#[derive(Clone, Debug)]
pub struct Steps<'a> {
    reader: Reader<'a>,
    look_ahead: usize,
    concluder: Concluder,
    is_over: bool,
}

impl<'a> Steps<'a> {
    /// From the beginning of a trace, with at most `look_ahead` requests held back.
    ///
    /// # Panics
    /// While reading, if there are more than 2^32 requests.
    pub fn new(reader: Reader<'a>, look_ahead: usize) -> Self {
        let has_ends = reader.header().has_ends();
        let concluder = Concluder { has_ends, ..Concluder::default() };
        Self { reader, look_ahead, concluder, is_over: false }
    }

    /// Files and names as far as it has read.
    pub fn catalog(&self) -> &Catalog {
        &self.concluder.catalog
    }

    /// The events that were lost as far as it has read.
    pub fn lost_events(&self) -> u64 {
        self.concluder.lost_events
    }

    /// Where the trace could not be read so far; requests may be missing.
    pub fn damages(&self) -> &[Damage] {
        &self.concluder.damages
    }

    fn read_on(&mut self) {
        match self.reader.next() {
            Some(Ok(record)) => self.concluder.take(&record),
            Some(Err(damage)) => {
                self.concluder.catalog.forget_indices();
                self.concluder.open.clear();
                self.concluder.damages.push(damage);
            }
            None => self.is_over = true,
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let concluder = &mut self.concluder;
            let is_due = |step: &(u32, ClientId, u32)| step.0 <= concluder.first;
            if concluder.forgotten.front().is_some_and(is_due) {
                let due = concluder.forgotten.pop_front();
                return due.map(|(_, client, place)| Step::Forget(client, place));
            }
            let is_crowded = concluder.window.len() > self.look_ahead;
            let may_go = |front: &Recorded| {
                front.request.access != Access::Alone || front.moved.is_some() || is_crowded
            };
            if self.is_over || concluder.window.front().is_some_and(may_go) {
                let mut recorded = concluder.window.pop_front()?;
                concluder.first += 1;
                settle(&mut recorded);
                return Some(Step::Ask(recorded));
            }
            self.read_on();
        }
    }
}

/// What is known while a trace is being read.
#[derive(Clone, Debug, Default)]
struct Concluder {
    /// Requests that have not been handed out, and the place of the first of them.
    window: VecDeque<Recorded>,
    first: u32,
    /// Requests that none follows any more, once those before a place are handed out.
    forgotten: VecDeque<(u32, ClientId, u32)>,
    catalog: Catalog,
    lost_events: u64,
    damages: Vec<Damage>,
    has_ends: bool,
    start: Option<Timestamp>,
    /// Requests that have not ended, by `seq`.
    open: BTreeMap<u64, Open>,
    /// The last request of each client that has ended, and when.
    ended: BTreeMap<ClientId, (u32, Timestamp)>,
}

/// A request that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    place: u32,
    client: ClientId,
}

impl Concluder {
    fn take(&mut self, record: &Record<'_>) {
        let now = record.time;
        self.catalog.take(&record.event);
        match record.event {
            Event::Submit(submit) => {
                if let Some(seq) = submit.seq {
                    let open = self.add(now, submit.request);
                    self.open.insert(seq, open);
                }
            }
            Event::Immediate { request, moved } => {
                let open = self.add(now, request);
                self.end(now, open, moved);
            }
            Event::Complete { seq, moved, .. } => {
                if let Some(open) = self.open.remove(&seq) {
                    self.end(now, open, moved);
                }
            }
            Event::Lost { events, .. } => {
                self.lost_events = self.lost_events.saturating_add(events);
                // Their ends may be among what is lost.
                self.open.clear();
            }
            _ => {}
        }
    }

    /// The place of the next request that comes.
    fn next_place(&self) -> u32 {
        let held = u32::try_from(self.window.len()).ok();
        held.and_then(|held| self.first.checked_add(held)).expect("at most 2^32 requests")
    }

    fn add(&mut self, now: Timestamp, mut request: Request) -> Open {
        let start = *self.start.get_or_insert(now);
        let place = self.next_place();
        request.tag = u64::from(place);
        request.file = self.catalog.place_of(request.file);
        if matches!(request.access, Access::Read | Access::Write) {
            let size = &mut self.catalog.files[request.file.0 as usize].size;
            *size = (*size).max(Bytes(request.range.end.0));
        }
        let followed = self.ended.get(&request.client);
        self.window.push_back(Recorded {
            at: Timestamp((now - start).0),
            request,
            after: followed.map(|(place, _)| *place),
            think: now - followed.map_or(start, |(_, end)| *end),
            moved: None,
            latency: None,
        });
        Open { place, client: request.client }
    }

    fn end(&mut self, now: Timestamp, open: Open, moved: Bytes) {
        let Open { place, client } = open;
        if let Some((before, _)) = self.ended.insert(client, (place, now)) {
            self.forgotten.push_back((self.next_place(), client, before));
        }
        let held = place.checked_sub(self.first).map(|held| held as usize);
        let Some(recorded) = held.and_then(|held| self.window.get_mut(held)) else { return };
        recorded.moved = Some(moved);
        let start = self.start.unwrap_or_default();
        let latency = (now - start) - (recorded.at - Timestamp(0));
        recorded.latency = self.has_ends.then_some(latency);
        if recorded.request.access == Access::Alone && moved > Bytes::ZERO {
            let size = &mut self.catalog.files[recorded.request.file.0 as usize].size;
            recorded.request.range = ByteRange::new(Offset(size.0), moved);
            recorded.request.access = Access::Write;
            *size += moved;
        }
    }
}

/// What moved nothing by itself only holds up what comes after it.
fn settle(recorded: &mut Recorded) {
    if recorded.request.access == Access::Alone {
        recorded.request.access = Access::Sync;
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::{ClassId, FileIndex};

    use super::*;
    use crate::event::{Fate, Submit};
    use crate::frame::Header;
    use crate::recorder::{Recorder, RecorderOptions};

    const BLOCK_REQUESTS: u64 = 100;

    fn submit(seq: u64) -> Event<'static> {
        let request = Request {
            tag: 0,
            file: FileIndex(0),
            access: Access::Read,
            range: ByteRange::new(Offset(seq << 12), Bytes::kib(4)),
            client: ClientId(0),
            class: ClassId(0),
        };
        Event::Submit(Submit { seq: Some(seq), request, has_room: true, fate: Fate::Queued })
    }

    #[test]
    fn requests_whose_ends_are_missing_are_not_kept_beyond_the_place_where_they_are() {
        let mut concluder = Concluder::default();
        for seq in 0..10 * BLOCK_REQUESTS {
            if seq % BLOCK_REQUESTS == 0 {
                let event = Event::Lost { events: 7, blocks: 1 };
                concluder.take(&Record { position: 0, time: Timestamp(seq), event });
            }
            concluder.take(&Record { position: 0, time: Timestamp(seq), event: submit(seq) });
            assert!(concluder.open.len() as u64 <= BLOCK_REQUESTS);
        }
        assert_eq!((concluder.lost_events, concluder.window.len()), (70, 1000));

        // A damaged block between two whole ones.
        let mut recorder = Recorder::new(RecorderOptions { block_bytes: 16 << 10, blocks: 8 }, 0);
        (0..10_000).for_each(|seq| recorder.record(Timestamp(seq), &submit(seq)));
        let mut bytes = Header::default().to_bytes();
        let (mut blocks, totals) = recorder.finish();
        bytes.extend(blocks.next().unwrap().seal());
        let damaged = bytes.len() + 1000;
        blocks.for_each(|mut block| bytes.extend(block.seal()));
        bytes.extend(totals.to_bytes());
        bytes[damaged] ^= 1;
        let mut steps = Steps::new(Reader::new(&bytes).unwrap(), 10);
        while steps.damages().is_empty() {
            steps.read_on();
        }
        assert!(steps.concluder.next_place() > 0 && steps.concluder.open.is_empty());
    }
}
