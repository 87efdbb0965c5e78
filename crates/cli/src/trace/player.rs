//! One recorded client in real time: makes its requests when they are due, with as many under way
//! as were when it was recorded.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use forebay_client::{
    Completion, Connection, Destination, Endpoint, Error, Handle, Limits, Memory, Place, Source,
    Ticket, Transfers, Who,
};
use forebay_sched::Access;
use forebay_sim::Pace;
use forebay_stats::Histogram;
use forebay_trace::{Recorded, Step};
use forebay_units::{FileIndex, Nanos};
use rustix::fs::OFlags;

use super::feed::{Feed, Seat, Taken};

/// How long a player whose next request has not been read yet waits for an answer before it asks again.
const READ_AGAIN: Duration = Duration::from_millis(1);

/// A recorded client.
pub(super) struct Player {
    /// Its place at the feed.
    pub(super) number: usize,
    /// Its files, by their places in the catalog.
    pub(super) files: BTreeSet<FileIndex>,
    /// The job that it says it belongs to: its class when it was recorded.
    pub(super) job: String,
}

/// Where and how to play.
pub(super) struct Stage<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// What is to be done.
    pub(super) feed: &'a Feed,
    /// The made files by their places in the catalog; those that no request names are not made.
    pub(super) files: &'a HashMap<FileIndex, PathBuf>,
    /// What to take off a path for a forwarder that is given paths and not descriptors.
    pub(super) export: Option<&'a std::path::Path>,
    pub(super) pace: Pace,
    /// All players have connected.
    pub(super) ready: &'a Barrier,
}

/// What a player saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) latencies: Histogram,
    pub(super) bytes: u64,
    pub(super) failed: u64,
    /// How much later than due a request was made, at most.
    pub(super) late_ns_max: u64,
    pub(super) ended_after: Duration,
}

impl Player {
    /// Plays all requests; errors are in words.
    pub(super) fn play(&self, stage: &Stage<'_>) -> Result<Seen, String> {
        let seat = stage.feed.seat(self.number);
        let prepared = self.prepare(stage);
        // Also without a connection, or the others would wait for ever.
        stage.ready.wait();
        let (connection, handles) = prepared?;
        let playing = Playing {
            connection,
            handles,
            under_way: UnderWay::default(),
            seen: Seen::default(),
            start: Instant::now(),
            pace: stage.pace,
            ended: HashMap::new(),
            forgotten: HashSet::new(),
        };
        playing.run(&seat).map_err(|error| format!("the connection to {}: {error}", stage.endpoint))
    }

    fn prepare(
        &self,
        stage: &Stage<'_>,
    ) -> Result<(Connection, HashMap<FileIndex, Handle>), String> {
        let who = Who { job: self.job.as_bytes(), program: b"forebay trace replay" };
        let mut connection = Connection::connect(stage.endpoint, &who, Limits::default())
            .map_err(|error| format!("cannot connect to {}: {error}", stage.endpoint))?;
        let mut handles = HashMap::new();
        for file in &self.files {
            let path = &stage.files[file];
            let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let opened = if connection.carries_descriptors() {
                let file = std::fs::File::options().read(true).write(true).open(path);
                let file = file.map_err(|error| wrong(&error))?;
                connection.open(Some(file.as_fd()), b"", OFlags::RDWR)
            } else {
                let export = stage.export.ok_or_else(|| {
                    format!(
                        "{}: over TCP files are opened by path; say --export DIR",
                        stage.endpoint
                    )
                })?;
                let beneath = path.strip_prefix(export).map_err(|_| {
                    format!("{} is not beneath --export {}", path.display(), export.display())
                })?;
                connection.open(None, beneath.as_os_str().as_encoded_bytes(), OFlags::RDWR)
            };
            handles.insert(*file, opened.map_err(|error| wrong(&error))?.handle);
        }
        Ok((connection, handles))
    }
}

/// Requests that are not answered, each with its memory.
#[derive(Default)]
struct UnderWay {
    requests: HashMap<Ticket, Request>,
    spare: Vec<Vec<u8>>,
    /// The memory of a request that has no ticket yet.
    beginning: Option<(Access, Vec<u8>)>,
}

struct Request {
    place: u32,
    access: Access,
    asked: Instant,
    memory: Vec<u8>,
}

impl Transfers for UnderWay {
    fn memory(&mut self, ticket: Ticket) -> Memory<'_> {
        let (access, memory) = match self.requests.get_mut(&ticket) {
            Some(request) => (request.access, &mut request.memory),
            None => match &mut self.beginning {
                Some((access, memory)) => (*access, memory),
                None => return Memory::None,
            },
        };
        match access {
            Access::Read => Memory::Into(Destination::from(&mut memory[..])),
            _ => Memory::From(Source::from(&memory[..])),
        }
    }
}

struct Playing {
    connection: Connection,
    handles: HashMap<FileIndex, Handle>,
    under_way: UnderWay,
    seen: Seen,
    start: Instant,
    pace: Pace,
    /// When requests have ended that others may follow.
    ended: HashMap<u32, Instant>,
    /// Requests under way whose end nobody wants to know any more.
    forgotten: HashSet<u32>,
}

impl Playing {
    fn run(mut self, seat: &Seat<'_>) -> Result<Seen, Error> {
        let mut steps = VecDeque::new();
        loop {
            match steps.pop_front() {
                Some(Step::Ask(recorded)) => self.ask_when_due(&recorded)?,
                Some(Step::Forget(_, place)) => self.forget(place),
                None => match seat.take(&mut steps, self.under_way.requests.is_empty()) {
                    Taken::Steps => {}
                    Taken::Nothing => {
                        let answer =
                            self.connection.next_within(READ_AGAIN, &mut self.under_way)?;
                        answer.into_iter().for_each(|completion| self.answered(completion));
                    }
                    Taken::Over => break,
                },
            }
        }
        while !self.under_way.requests.is_empty() {
            let completion = self.connection.next(&mut self.under_way)?;
            self.answered(completion);
        }
        self.seen.ended_after = self.start.elapsed();
        Ok(self.seen)
    }

    fn ask_when_due(&mut self, recorded: &Recorded) -> Result<(), Error> {
        let due = loop {
            match self.due(recorded) {
                Some(due) if due <= Instant::now() && self.connection.room() > 0 => break due,
                // An answer may be what it waits for, or what makes room.
                due => self.wait_until(due)?,
            }
        };
        let late = due.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
        self.seen.late_ns_max = self.seen.late_ns_max.max(late);
        let place = u32::try_from(recorded.request.tag).expect("it is a place");
        self.ask(place, recorded)
    }

    /// When a request is to be made; `None` while what it follows has not ended.
    fn due(&self, recorded: &Recorded) -> Option<Instant> {
        match (self.pace, recorded.after) {
            (Pace::Closed, Some(after)) => {
                Some(*self.ended.get(&after)? + Duration::from_nanos(recorded.think.0))
            }
            _ => Some(self.start + Duration::from_nanos(recorded.at.0)),
        }
    }

    /// Takes an answer, or lets the time pass until `due`.
    fn wait_until(&mut self, due: Option<Instant>) -> Result<(), Error> {
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        if self.under_way.requests.is_empty() {
            // Nothing can come but the time.
            std::thread::sleep(left.unwrap_or(Duration::ZERO));
            return Ok(());
        }
        let completion = match left.filter(|left| !left.is_zero()) {
            Some(left) => self.connection.next_within(left, &mut self.under_way)?,
            None => Some(self.connection.next(&mut self.under_way)?),
        };
        completion.into_iter().for_each(|completion| self.answered(completion));
        Ok(())
    }

    fn ask(&mut self, place: u32, recorded: &Recorded) -> Result<(), Error> {
        let request = &recorded.request;
        let handle = self.handles[&request.file];
        if !matches!(request.access, Access::Read | Access::Write) {
            return self.sync(place, handle);
        }
        let length = usize::try_from(request.range.length().0).expect("checked to be below 2 GiB");
        let mut memory = self.under_way.spare.pop().unwrap_or_default();
        memory.resize(length, 0x5a);
        self.under_way.beginning = Some((request.access, memory));
        let asked = Instant::now();
        let ticket = match request.access {
            Access::Read => {
                self.connection.start_read(handle, request.range, &mut self.under_way)?
            }
            _ => {
                let (start, length) = (request.range.start, request.range.length());
                self.connection.start_write(
                    handle,
                    Place::At(start),
                    length,
                    &mut self.under_way,
                )?
            }
        };
        let (access, memory) = self.under_way.beginning.take().expect("it was just put there");
        self.under_way.requests.insert(ticket, Request { place, access, asked, memory });
        // What was started is sent when answers are asked for.
        if let Some(completion) =
            self.connection.next_within(Duration::ZERO, &mut self.under_way)?
        {
            self.answered(completion);
        }
        Ok(())
    }

    /// A call of its own that waits: what is under way is answered first.
    fn sync(&mut self, place: u32, handle: Handle) -> Result<(), Error> {
        while !self.under_way.requests.is_empty() {
            let completion = self.connection.next(&mut self.under_way)?;
            self.answered(completion);
        }
        let asked = Instant::now();
        match self.connection.sync(handle) {
            Ok(()) => {}
            Err(Error::Errno(_)) => self.seen.failed += 1,
            Err(error) => return Err(error),
        }
        self.note_end(place, asked);
        Ok(())
    }

    fn answered(&mut self, completion: Completion) {
        let Some(request) = self.under_way.requests.remove(&completion.ticket) else { return };
        match completion.result {
            Ok(written) => self.seen.bytes += written.bytes.0,
            Err(_) => self.seen.failed += 1,
        }
        self.under_way.spare.push(request.memory);
        self.note_end(request.place, request.asked);
    }

    fn note_end(&mut self, place: u32, asked: Instant) {
        let now = Instant::now();
        let latency = (now - asked).as_nanos().try_into().unwrap_or(u64::MAX);
        self.seen.latencies.record(Nanos(latency));
        if self.pace == Pace::Closed && !self.forgotten.remove(&place) {
            self.ended.insert(place, now);
        }
    }

    /// Nobody follows a request any more, which has ended or will.
    fn forget(&mut self, place: u32) {
        if self.pace == Pace::Closed && self.ended.remove(&place).is_none() {
            self.forgotten.insert(place);
        }
    }
}
