//! The access pattern, from (file, offset, length, operation, client, time) alone.
//!
//! Source: the aspects of AGIOS 2015, section 3, and its majority of files (section 4); the paper
//!         leaves out how they are detected.
//! Idea:   a *stream* is one client in one file. Its messages form *bursts*: what an application
//!         asks for at once arrives at once, in any order, and a pause follows (`pauses.rs`). A
//!         burst's length is a sample of the application's request, and where it begins, seen from
//!         the end of the one before, a vote: there (contiguous), at a distance that was seen
//!         before (strided), elsewhere (random). A file is what most votes say, everything is
//!         what most files are.
//! Units:  bytes and nanoseconds; a window is as long as it takes until enough votes are in.
//! Rest:   after each window as many messages pass unseen as it had: half of the work. A stream's
//!         first burst in a window may have begun before, and is not counted.
//! Where:  where all requests have the same client, regions of a file stand for clients.
//! Cost:   O(1) an arrival, without allocation: a look at a table of streams, and at the end of a
//!         burst one at a table of files. At most [`MEMORY_MAX`] bytes, whatever happens.
//! Limits: 256 streams and 128 files are followed at a time; of more, those that came first, which
//!         are a sample of all. See `docs/patterns.md`.

mod distinct;
mod edges;
mod files;
mod pauses;
mod rows;
mod streams;
mod table;

use forebay_sched::{Access, Request};
use forebay_units::{Bytes, ClientId, Direction, FileIndex, Nanos, Timestamp};

use self::distinct::Distinct;
use self::edges::Edges;
use self::files::{Burst, Counts, File, Vote};
use self::pauses::Pauses;
pub use self::rows::Offsets;
use self::rows::Rows;
use self::streams::Stream;
use self::table::Table;
use crate::pattern::{Pattern, SizeClass, Spatiality};

/// Sets of four streams, and of four files.
const STREAM_SETS: usize = 64;
const FILE_SETS: usize = 32;
/// A window has at least so many votes, and so many of each stream, but no more messages.
const VOTES_MIN: u32 = 64;
const VOTES_A_STREAM: u32 = 2;
const MESSAGES_MAX: u32 = 1 << 15;
/// What was seen before so long a time without requests is forgotten.
const IDLE_MAX: Nanos = Nanos::secs(10);
/// Votes before there is a pattern at all.
const VOTES_FIRST: u32 = 16;
/// And before there is one of a file.
const VOTES_MIN_FILE: u32 = 4;
/// Messages of a region that stands for a client, and the first length of one: 1 MiB.
const REGION_MESSAGES: u32 = 128;
const FIRST_REGION_SHIFT: u32 = 20;
/// Regions that far apart share a stream, so that in the largest file some are seen again.
const REGIONS: u32 = 256;
/// The number of the first window: nothing was seen in the two before.
const FIRST_WINDOW: u16 = 2;

/// The most that a detector takes: it never grows.
pub const MEMORY_MAX: Bytes = Bytes(
    (size_of::<Detector>() + Table::<Stream, STREAM_SETS>::BYTES + Table::<File, FILE_SETS>::BYTES)
        as u64,
);

/// What requests look like where the detector stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorOptions {
    /// Requests at least this long are large: the stripe of the data servers.
    pub stripe: Bytes,
    /// What offsets are seen.
    pub offsets: Offsets,
}

/// What was seen of the recent requests.
#[derive(Clone, Debug)]
pub struct Detector {
    options: DetectorOptions,
    streams: Table<Stream, STREAM_SETS>,
    pauses: Pauses,
    evidence: Evidence,
    window: Window,
    files: Distinct,
    clients: Distinct,
    /// When the latest request arrived.
    latest: Timestamp,
    /// Whether clients have numbers of their own.
    is_told_apart: bool,
    /// One of them.
    one_client: Option<ClientId>,
    /// Messages that are not looked at before the window begins.
    rest: u32,
    has_rested: bool,
}

/// What bursts say.
#[derive(Clone, Debug)]
struct Evidence {
    files: Table<File, FILE_SETS>,
    edges: Edges,
    rows: Rows,
    votes: u32,
}

/// The present stretch of time.
#[derive(Clone, Copy, Debug)]
struct Window {
    number: u16,
    messages: u32,
    streams: u32,
    /// Streams of the window before.
    streams_before: u32,
    bytes: u64,
    /// Where all requests have one client, regions of a file of this size, a power of two, stand
    /// for clients: some messages long, and shorter than what a process goes through by itself.
    region_shift: u32,
}

impl Detector {
    /// Nothing was seen yet.
    pub fn new(options: DetectorOptions) -> Self {
        let evidence = Evidence {
            files: Table::new(),
            edges: Edges::new(),
            rows: Rows::new(options.offsets, options.stripe),
            votes: 0,
        };
        let window = Window {
            number: FIRST_WINDOW,
            messages: 0,
            bytes: 0,
            streams: 0,
            streams_before: 0,
            region_shift: FIRST_REGION_SHIFT,
        };
        Self {
            options,
            streams: Table::new(),
            pauses: Pauses::new(),
            evidence,
            window,
            files: Distinct::new(),
            clients: Distinct::new(),
            latest: Timestamp(0),
            is_told_apart: false,
            one_client: None,
            rest: 0,
            has_rested: false,
        }
    }

    /// A request has arrived. O(1).
    ///
    /// What moves no data at a known place, like an append or a sync, is not looked at.
    #[inline]
    pub fn arrived(&mut self, now: Timestamp, request: &Request) {
        let idle = now - core::mem::replace(&mut self.latest, now);
        if self.rest > 0 && idle <= IDLE_MAX {
            self.rest -= 1;
            return;
        }
        let has_data = matches!(request.access, Access::Read | Access::Write);
        if has_data && !request.range.is_empty() {
            self.look(now, idle, request);
        }
    }

    /// A request that is looked at has arrived, so long after the one before.
    fn look(&mut self, now: Timestamp, idle: Nanos, request: &Request) {
        if idle > IDLE_MAX {
            (0..2).for_each(|_| self.turn());
            self.rest = 0;
            (self.is_told_apart, self.one_client) = (false, None);
        } else if self.window.is_over(self.evidence.votes) {
            // This one is the first that is not looked at.
            self.rest = self.window.messages.saturating_sub(1);
            return self.turn();
        }
        self.window.messages += 1;
        let number = self.window.number;
        let (start, end) = (request.range.start.0, request.range.end.0);
        self.window.bytes = self.window.bytes.saturating_add(end - start);
        self.is_told_apart |= request.client != *self.one_client.get_or_insert(request.client);
        let actor = match self.is_told_apart {
            true => request.client.0,
            false => (start >> self.window.region_shift) as u32 % REGIONS,
        };
        let key = u64::from(request.file.0) << 32 | u64::from(actor);
        let found = self.streams.find(key, number);
        if found.and_then(|found| found.seen) != Some(number) {
            self.window.streams += 1;
            self.files.add(request.file.0);
            self.clients.add(request.client.0);
        }
        let Some(found) = found else { return };
        let stream = self.streams.at(found.place);
        if found.seen != Some(number) && self.has_rested {
            stream.cut();
        }
        let is_new = match stream.pause(now) {
            Some(pause) => {
                self.pauses.add(pause);
                pause > self.pauses.limit()
            }
            None => true,
        };
        let is_read = request.access == Access::Read;
        if let Some(burst) = stream.take(start, end, is_read, is_new) {
            if burst.messages == streams::MESSAGES_MAX {
                self.pauses.no_end();
            }
            let at = At { file: request.file, window: number, is_told_apart: self.is_told_apart };
            self.evidence.add(at, stream, &burst, self.options.stripe);
        }
    }

    /// Another window begins.
    #[cold]
    fn turn(&mut self) {
        let window = &mut self.window;
        let mean = window.bytes / u64::from(window.messages.max(1));
        let region_shift = (mean | 1).ilog2() + REGION_MESSAGES.ilog2();
        *window = Window {
            number: window.number.wrapping_add(1),
            messages: 0,
            streams: 0,
            streams_before: window.streams,
            bytes: 0,
            region_shift: region_shift.min(u64::BITS - 1),
        };
        self.has_rested = true;
        self.evidence.votes = 0;
        self.files.turn();
        self.clients.turn();
    }

    /// The pattern of everything together, by majority of the files; `None` before enough was
    /// seen, and when nothing was seen for ten seconds. O(files that are followed).
    pub fn pattern(&self, now: Timestamp) -> Option<Pattern> {
        let window = self.window.number;
        let mut sum = Counts::default();
        let mut span = 0u64;
        let mut files = 0;
        let mut spatialities = Majority::default();
        let mut size_classes = Majority::default();
        let mut lengths = Majority::default();
        for (file, seen) in self.evidence.files.recent(window) {
            let counts = file.recent(window, seen);
            sum.add(&counts);
            files += 1;
            span = span.saturating_add(file.span().0);
            if let Some(spatiality) = counts.spatiality() {
                spatialities.add(spatiality, counts.bytes);
                size_classes.add(file.size_class(), counts.bytes);
                lengths.add(file.length(), counts.bytes);
            }
        }
        if sum.votes() < VOTES_FIRST || self.is_stale(now) {
            return None;
        }
        let counted = Counted {
            files: self.files.count(),
            clients: self.clients.count(),
            streams: self.window.streams.max(self.window.streams_before),
            file_bytes: Bytes(span / files),
        };
        let (spatiality, size_class) = (spatialities.most()?, size_classes.most()?);
        Some(pattern(&sum, spatiality, size_class, lengths.most()?, &counted))
    }

    /// The pattern of one file; `None` as for [`pattern`](Self::pattern), and for a file that is
    /// not followed.
    pub fn pattern_of(&self, now: Timestamp, file: FileIndex) -> Option<Pattern> {
        let (file, seen) = self.evidence.files.get(u64::from(file.0))?;
        let counts = file.recent(self.window.number, seen);
        let spatiality = counts.spatiality().filter(|_| counts.votes() >= VOTES_MIN_FILE)?;
        if self.is_stale(now) || !table::is_recent(seen, self.window.number) {
            return None;
        }
        let counted = Counted { files: 1, clients: 0, streams: 0, file_bytes: file.span() };
        Some(pattern(&counts, spatiality, file.size_class(), file.length(), &counted))
    }

    fn is_stale(&self, now: Timestamp) -> bool {
        now - self.latest > IDLE_MAX
    }
}

impl Window {
    #[inline]
    fn is_over(&self, votes: u32) -> bool {
        votes >= VOTES_MIN.max(VOTES_A_STREAM * self.streams) || self.messages > MESSAGES_MAX
    }
}

impl Evidence {
    /// A stream's burst is finished.
    fn add(&mut self, at: At, stream: &mut Stream, burst: &Burst, stripe: Bytes) {
        let Some(found) = self.files.find(u64::from(at.file.0), at.window) else { return };
        let it = self.files.at(found.place);
        match found.seen {
            Some(seen) => it.turn(at.window, seen),
            None => *it = File::new(self.rows.stripe_of(burst.start)),
        }
        if !self.rows.is_whole() {
            let is_dense = burst.bytes >= burst.end - burst.start;
            self.rows.learn(it.first_stripe, burst.start, burst.end, is_dense);
        }
        let before = core::mem::replace(&mut stream.end_before, burst.end);
        let (start, end) = (self.rows.local(burst.start), self.rows.local_end(burst.end));
        let gap = start.wrapping_sub(self.rows.local_end(before));
        let vote = stream.vote(gap, before == u64::MAX);
        let continues = vote == Vote::For(Spatiality::Contiguous);
        let adjacent = self.edges.add(at.file.0, start, end, continues, at.window);
        // Of clients that are not told apart, the one that comes next to another's place is in a
        // stride with it.
        let vote = match vote {
            Vote::For(Spatiality::Random) if adjacent > 0 && !at.is_told_apart => {
                Vote::For(Spatiality::Strided)
            }
            vote => vote,
        };
        it.add(burst, vote, adjacent, stripe);
        self.votes += u32::from(vote != Vote::None);
    }
}

/// Where a burst was seen.
#[derive(Clone, Copy, Debug)]
struct At {
    file: FileIndex,
    window: u16,
    /// Whether clients have numbers of their own.
    is_told_apart: bool,
}

/// What is counted beside the bursts.
struct Counted {
    files: u32,
    clients: u32,
    streams: u32,
    file_bytes: Bytes,
}

fn pattern(
    sum: &Counts,
    spatiality: Spatiality,
    size_class: SizeClass,
    application_request: Bytes,
    counted: &Counted,
) -> Pattern {
    let reads_permille = sum.reads_permille();
    Pattern {
        spatiality,
        size_class,
        direction: if reads_permille >= 500 { Direction::Read } else { Direction::Write },
        reads_permille,
        files: counted.files,
        file_bytes: counted.file_bytes,
        clients: counted.clients,
        streams: counted.streams,
        request: sum.request(),
        application_request,
        hit_permille: sum.hit_permille(),
        adjacent_permille: sum.adjacent_permille(),
    }
}

/// What most files are; among equally many, what more bytes are in.
struct Majority<T> {
    /// With files and bytes.
    candidates: [Option<(T, u32, u64)>; 8],
}

impl<T> Default for Majority<T> {
    fn default() -> Self {
        Self { candidates: [const { None }; 8] }
    }
}

impl<T: Copy + PartialEq> Majority<T> {
    fn add(&mut self, value: T, bytes: u64) {
        let place = self.candidates.iter_mut().find(|place| match place {
            Some((other, ..)) => *other == value,
            None => true,
        });
        // A ninth value of a length is not the most frequent one, or nearly none is.
        let Some(place) = place else { return };
        let (_, files, sum) = place.get_or_insert((value, 0, 0));
        *files += 1;
        *sum = sum.saturating_add(bytes);
    }

    fn most(&self) -> Option<T> {
        let all = self.candidates.iter().flatten();
        all.max_by_key(|(_, files, bytes)| (*files, *bytes)).map(|(value, ..)| *value)
    }
}
