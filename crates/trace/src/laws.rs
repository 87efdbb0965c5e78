//! What holds in every trace, whatever policy and scheduler made it: held against a trace event by
//! event, without a scheduler.
//!
//! | law | |
//! |---|---|
//! | identity | each accepted request has a number of its own, one higher than the one before |
//! | life | it leaves at most once, after nothing holds it up; it ends once, after it has left; what is cancelled or handed back has not left, and nothing happens to it afterwards |
//! | conflict order | it leaves only when no earlier request is unfinished that it conflicts with under the recorded guard; so does a read that is answered at once |
//! | batch | its members are of one file, all reads or all writes or alone, in offset order, without a gap |
//! | bounds | nothing leaves while as many are in flight as may, or during a hold |
//! | files | an index is given up only when no request of it is alive |
//! | time | it never goes back |
//!
//! What a trace does not tell is not held against it: requests that were alive when the recording
//! began, and everything that was alive at a place where events are missing. A trace of another
//! tool's log has no decisions; identity, ends and time are what can be said of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use core::fmt;

use forebay_sched::{Access, GuardMode, Request};
use forebay_units::{FileIndex, Timestamp};

use crate::event::{Event, Fate, Hinted, Members, Record, Submit};
use crate::frame::{Header, Totals};
use crate::setup;

/// A law that a trace breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The number of the event that shows it, counted from 0; for what shows at the end only, how
    /// many events there are.
    pub event: u64,
    /// Where in the trace that is, in bytes.
    pub position: usize,
    /// When.
    pub time: Timestamp,
    /// What is not so.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, position, time, text } = self;
        write!(f, "event {event} (byte {position}, {} ns): {text}", time.0)
    }
}

impl core::error::Error for Breach {}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Blocked,
    Ready,
    InFlight,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    request: Request,
    stage: Stage,
}

/// Live requests of one file.
#[derive(Debug, Default)]
struct FileLive {
    count: u64,
    /// All but syncs, which hold nothing up, by number.
    all: BTreeSet<u64>,
    /// Those of them that write.
    writes: BTreeSet<u64>,
    /// All but syncs by place and number; writes apart, and apart by the power of two of their
    /// length, so that those that reach into a range lie close to it.
    spans: BTreeMap<(bool, u32), BTreeSet<(u64, u64)>>,
}

/// The last member of a batch so far.
#[derive(Clone, Copy, Debug)]
struct Link {
    request: Request,
    end: u64,
}

/// Holds the laws against a trace. To be told every event, in order; memory grows with the requests
/// that are alive at one time.
#[derive(Debug)]
pub struct Laws {
    /// `None` where there are no decisions.
    guard: Option<GuardMode>,
    live: BTreeMap<u64, Live>,
    files: BTreeMap<FileIndex, FileLive>,
    /// The first number that is known from its submission, and the next; `None` before there is one.
    known: Option<(u64, u64)>,
    /// The highest number that was named before.
    named: Option<u64>,
    in_flight: u64,
    depth: Option<u32>,
    hold: Option<Timestamp>,
    /// A batch goes on in the next event; its last member, if that is known.
    rest: Option<Option<Link>>,
    now: Timestamp,
    position: usize,
    totals: Totals,
    requests: u64,
}

impl Laws {
    /// For a trace with this header.
    pub fn of(header: &Header) -> Self {
        Self {
            guard: header.setting(setup::GUARD).and_then(|guard| guard.parse().ok()),
            live: BTreeMap::new(),
            files: BTreeMap::new(),
            known: None,
            named: None,
            in_flight: 0,
            depth: None,
            hold: None,
            rest: None,
            now: Timestamp(0),
            position: 0,
            totals: Totals::default(),
            requests: 0,
        }
    }

    /// Whether the trace says what a scheduler decided, and not only what was asked for.
    pub fn has_decisions(&self) -> bool {
        self.guard.is_some()
    }

    /// Events so far, and those that are missing.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Requests that were accepted, or answered at once, so far.
    pub fn requests_count(&self) -> u64 {
        self.requests
    }

    /// Of these, those that have not ended.
    pub fn open_count(&self) -> u64 {
        self.live.len() as u64
    }

    /// Takes an event in.
    ///
    /// # Errors
    /// The law that it breaks; what follows it means nothing then.
    pub fn take(&mut self, record: &Record<'_>) -> Result<(), Breach> {
        let event = self.totals.events;
        let position = record.position;
        let outcome = self.step(record.time, &record.event);
        (self.now, self.position) = (record.time, position);
        outcome.map_err(|text| Breach { event, position, time: record.time, text })
    }

    /// Says that a place could not be read: whatever was alive may have ended there.
    pub fn forget(&mut self) {
        (self.live, self.files) = Default::default();
        (self.known, self.named, self.in_flight) = (None, None, 0);
        (self.depth, self.hold, self.rest) = (None, None, None);
    }

    /// Ends the trace, with what its last frame says.
    ///
    /// # Errors
    /// If that frame counts other events than there are, or the last batch lacks its rest.
    pub fn finish(self, told: Option<Totals>) -> Result<(), Breach> {
        let counted = self.totals;
        let text = match told {
            Some(told) if told != counted => format!(
                "the end tells of {} events and {} lost, and there are {} and {}",
                told.events, told.lost_events, counted.events, counted.lost_events
            ),
            Some(_) if self.rest.is_some() => "a batch goes on and the trace ends".into(),
            _ => return Ok(()),
        };
        Err(Breach { event: counted.events, position: self.position, time: self.now, text })
    }

    fn step(&mut self, now: Timestamp, event: &Event<'_>) -> Result<(), String> {
        if let Event::Lost { events, .. } = event {
            let lost = &mut self.totals.lost_events;
            *lost = lost.saturating_add(*events);
            self.forget();
            return Ok(());
        }
        self.totals.events += 1;
        if now < self.now {
            return Err(format!("time goes back from {} ns", self.now.0));
        }
        if self.rest.is_some() && !matches!(event, Event::Dispatch { .. }) {
            return Err("a batch goes on, and something else is told".into());
        }
        match event {
            Event::Submit(submit) => self.submit(now, submit),
            Event::Immediate { request, .. } => {
                self.requests += 1;
                match self.conflicting(u64::MAX, request) {
                    Some(other) => Err(format!(
                        "a read was answered while request {other}, which it conflicts with, was unfinished"
                    )),
                    None => Ok(()),
                }
            }
            Event::Dispatch { members, continues, .. } => self.dispatch(now, members, *continues),
            Event::Ready { seq } => self.ready(*seq),
            Event::Complete { seq, .. } => {
                let has_left = |stage| stage == Stage::InFlight;
                self.end(*seq, "ended", "has not left", has_left)
            }
            Event::Cancel { seq } => {
                let waits = |stage| stage != Stage::InFlight;
                self.end(*seq, "was cancelled", "has left", waits)
            }
            Event::Drain => {
                let waiting = self.live.iter().filter(|(_, live)| live.stage != Stage::InFlight);
                let waiting: BTreeSet<u64> = waiting.map(|(seq, _)| *seq).collect();
                waiting.into_iter().for_each(|seq| self.remove(seq));
                Ok(())
            }
            Event::Retire { file } => match self.files.get(file) {
                Some(live) => Err(format!(
                    "file {} was given up while {} of its requests were alive",
                    file.0, live.count
                )),
                None => Ok(()),
            },
            Event::Depth { depth } => {
                self.depth = Some(*depth);
                Ok(())
            }
            Event::Hint(hint) => {
                match hint {
                    Hinted::MoreFollows { until } => self.hold = Some(*until),
                    Hinted::NoMore => self.hold = None,
                    Hinted::Forget { .. } => {}
                }
                Ok(())
            }
            Event::Wait { .. }
            | Event::Idle { .. }
            | Event::Switch { .. }
            | Event::File { .. }
            | Event::Name { .. }
            | Event::Setting { .. }
            | Event::Refused { .. }
            | Event::Lost { .. }
            | Event::Unknown { .. } => Ok(()),
        }
    }

    fn submit(&mut self, now: Timestamp, submit: &Submit) -> Result<(), String> {
        let Some(seq) = submit.seq else { return Ok(()) };
        match self.known {
            Some((_, next)) if seq < next => {
                return Err(format!("request {seq} was submitted twice"));
            }
            Some((_, next)) if seq > next => {
                return Err(format!("request {seq} follows request {}", next.wrapping_sub(1)));
            }
            None if self.named.is_some_and(|named| named >= seq) => {
                return Err(format!("request {seq} was submitted, and had been told of before"));
            }
            _ => {}
        }
        let first = self.known.map_or(seq, |(first, _)| first);
        self.known = Some((first, seq.saturating_add(1)));
        self.requests += 1;
        let is_blocked = submit.fate == Fate::Blocked;
        if let Some(other) = self.conflicting(seq, &submit.request).filter(|_| !is_blocked) {
            return Err(format!(
                "request {seq} was not held up, and request {other}, which it conflicts with, was unfinished"
            ));
        }
        let stage = if is_blocked { Stage::Blocked } else { Stage::Ready };
        self.insert(seq, Live { request: submit.request, stage });
        if submit.fate == Fate::Bypassed {
            self.may_leave(now)?;
            self.leave(seq)?;
        }
        Ok(())
    }

    fn dispatch(
        &mut self,
        now: Timestamp,
        members: &Members<'_>,
        continues: bool,
    ) -> Result<(), String> {
        let mut last = match self.rest.take() {
            Some(last) => last,
            None => {
                self.may_leave(now)?;
                None
            }
        };
        for seq in members.iter() {
            let request = self.leave(seq)?;
            if let (Some(last), Some(request)) = (last, request) {
                let Link { request: before, end } = last;
                let is_one = before.file == request.file && before.access == request.access;
                if !is_one || !matches!(request.access, Access::Read | Access::Write) {
                    return Err(format!(
                        "request {seq} left in a batch with others than reads or writes of its own file"
                    ));
                }
                let start = request.range.start;
                if start < before.range.start || start.0 > end {
                    return Err(format!(
                        "request {seq} left in a batch that is not in offset order or has a gap"
                    ));
                }
            }
            let end = request.map(|request| {
                let so_far = last.map_or(0, |last| last.end);
                Link { request, end: so_far.max(request.range.end.0) }
            });
            last = end;
        }
        self.rest = continues.then_some(last);
        Ok(())
    }

    /// Whether anything may leave now.
    fn may_leave(&self, now: Timestamp) -> Result<(), String> {
        if let Some(until) = self.hold.filter(|until| *until > now) {
            return Err(format!("something left during a hold until {} ns", until.0));
        }
        match self.depth {
            Some(depth) if self.in_flight >= u64::from(depth) => Err(format!(
                "something left while {} requests were in flight, and at most {depth} may be",
                self.in_flight
            )),
            _ => Ok(()),
        }
    }

    /// What leaves, if it is known.
    fn leave(&mut self, seq: u64) -> Result<Option<Request>, String> {
        let Some(live) = self.live.get_mut(&seq) else {
            self.name_unknown(seq, "left")?;
            return Ok(None);
        };
        match live.stage {
            Stage::InFlight => return Err(format!("request {seq} left twice")),
            Stage::Blocked => return Err(format!("request {seq} left while it was held up")),
            Stage::Ready => live.stage = Stage::InFlight,
        }
        let request = live.request;
        self.in_flight += 1;
        match self.conflicting(seq, &request) {
            Some(other) => Err(format!(
                "request {seq} left while request {other}, which it conflicts with, was unfinished"
            )),
            None => Ok(Some(request)),
        }
    }

    fn ready(&mut self, seq: u64) -> Result<(), String> {
        let Some(live) = self.live.get_mut(&seq) else {
            return self.name_unknown(seq, "became ready");
        };
        if live.stage != Stage::Blocked {
            return Err(format!("request {seq} became ready and was not held up"));
        }
        live.stage = Stage::Ready;
        let request = live.request;
        match self.conflicting(seq, &request) {
            Some(other) => Err(format!(
                "request {seq} became ready while request {other}, which it conflicts with, was unfinished"
            )),
            None => Ok(()),
        }
    }

    fn end(
        &mut self,
        seq: u64,
        what: &str,
        wrong: &str,
        may: impl Fn(Stage) -> bool,
    ) -> Result<(), String> {
        match self.live.get(&seq) {
            None => self.name_unknown(seq, what),
            Some(live) if self.guard.is_some() && !may(live.stage) => {
                Err(format!("request {seq} {what} and {wrong}"))
            }
            Some(_) => {
                self.remove(seq);
                Ok(())
            }
        }
    }

    /// Whether a request may be named although it is not alive: only if it came before the trace did.
    fn name_unknown(&mut self, seq: u64, what: &str) -> Result<(), String> {
        match self.known {
            Some((_, next)) if seq >= next => {
                Err(format!("request {seq} {what} and was never submitted"))
            }
            Some((first, _)) if seq >= first => Err(format!("request {seq} {what} and was over")),
            Some(_) => Ok(()),
            None => {
                self.named = self.named.max(Some(seq));
                Ok(())
            }
        }
    }

    /// A live request that has to end before this one may leave, if there is one.
    fn conflicting(&self, seq: u64, request: &Request) -> Option<u64> {
        let guard = self.guard?;
        let file = self.files.get(&request.file)?;
        let earlier = |numbers: &BTreeSet<u64>| numbers.first().copied().filter(|one| *one < seq);
        if request.access == Access::Sync {
            return earlier(&file.writes);
        }
        let writes = is_write(request.access);
        if guard == GuardMode::None || (!writes && file.writes.is_empty()) {
            return None;
        }
        if guard == GuardMode::File {
            return earlier(if writes { &file.all } else { &file.writes });
        }
        let (start, end) = (request.range.start.0, request.range.end.0);
        let holds_up = |other: u64| {
            let Some(found) = self.live.get(&other).filter(|_| other != seq) else { return false };
            let is_ordered = guard == GuardMode::Overlap || found.request.client == request.client;
            found.request.range.end.0 > start
                && if is_ordered { other < seq } else { found.stage == Stage::InFlight }
        };
        let spans = file.spans.iter().filter(|((is_write, _), _)| writes || *is_write);
        { spans }.find_map(|((_, power), spans)| {
            // None of them is longer.
            let longest = 1_u64.checked_shl(*power + 1).unwrap_or(u64::MAX);
            let near = spans.range((start.saturating_sub(longest), 0)..(end, 0));
            near.map(|(_, other)| *other).find(|other| holds_up(*other))
        })
    }

    fn insert(&mut self, seq: u64, live: Live) {
        let Request { file, access, range, .. } = live.request;
        let known = self.files.entry(file).or_default();
        known.count += 1;
        if access != Access::Sync {
            known.all.insert(seq);
            known.spans.entry(span(&live.request)).or_default().insert((range.start.0, seq));
        }
        if is_write(access) {
            known.writes.insert(seq);
        }
        self.live.insert(seq, live);
    }

    fn remove(&mut self, seq: u64) {
        let Some(Live { request, stage }) = self.live.remove(&seq) else { return };
        self.in_flight -= u64::from(stage == Stage::InFlight);
        let Some(file) = self.files.get_mut(&request.file) else { return };
        file.count -= 1;
        file.all.remove(&seq);
        file.writes.remove(&seq);
        if let Some(spans) = file.spans.get_mut(&span(&request)) {
            spans.remove(&(request.range.start.0, seq));
        }
        if file.count == 0 {
            self.files.remove(&request.file);
        }
    }
}

fn is_write(access: Access) -> bool {
    matches!(access, Access::Write | Access::Alone)
}

/// Whether it writes, and the highest power of two in its length.
fn span(request: &Request) -> (bool, u32) {
    (is_write(request.access), request.range.length().0.checked_ilog2().unwrap_or(0))
}
