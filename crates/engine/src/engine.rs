//! The engine's state, its public calls, and its turn.

use std::collections::{HashMap, HashSet, VecDeque};

use forebay_pool::Pool;
use forebay_sched::ClassError;
use forebay_sched::request::Access;
use forebay_sched::scheduler::{Batch, Cancellation, Decision, Scheduler, Stats};
use forebay_sched::sharing::GroupId;
use forebay_stats::Snapshot;
use forebay_trace::{Adjustment, Named, Recorder, Traced};
use forebay_units::{Bytes, ClassId, ClientId, FileId, Offset, Timestamp};
use rustix::io::Errno;
use slotmap::SlotMap;

use crate::call::{
    Action, Call, CallKey, Event, Origin, Part, PartKey, Piece, PieceKey, PieceState, Ranges, Stage,
};
use crate::carry::{Flight, FlightKey, Plan};
use crate::files::{Closing, FileKey, Files};
use crate::selection::Selection;
use crate::store::{Attributes, Io, OpenHow, Store, Wake};
use crate::turns::{Holdings, Turns};

/// What an engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Store calls in progress at once; at least 1.
    pub depth: usize,
    /// A part longer than this travels in chunks of this size; at most the pool's largest buffer.
    pub chunk_bytes: Bytes,
    /// Chunks of one part that may hold memory at once.
    pub chunks_in_flight_max: usize,
    /// Ranges of one list call that may be under way at once.
    pub list_parts_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { depth: 4, chunk_bytes: Bytes::mib(1), chunks_in_flight_max: 4, list_parts_max: 64 }
    }
}

/// What an engine has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls accepted.
    pub calls: u64,
    /// Calls that read data.
    pub reads: u64,
    /// Calls that wrote data.
    pub writes: u64,
    /// Calls that ended with an error.
    pub errors: u64,
    /// Bytes read from the store for clients.
    pub read_bytes: u64,
    /// Bytes written to the store for clients.
    pub written_bytes: u64,
    /// Reads answered at once without a wait for any device (page cache, memory).
    pub immediate: u64,
    /// Calls made at the store, immediate ones included.
    pub store_calls: u64,
    /// Times a call had to wait for memory.
    pub memory_waits: u64,
}

/// A scheduler, a store, and the requests between them.
pub struct Engine {
    pub(crate) options: Options,
    pub(crate) scheduler: Traced,
    pub(crate) store: Box<dyn Store>,
    pub(crate) pool: Pool,
    pub(crate) files: Files,
    pub(crate) calls: SlotMap<CallKey, Call>,
    pub(crate) parts: SlotMap<PartKey, Part>,
    pub(crate) pieces: SlotMap<PieceKey, Piece>,
    pub(crate) flights: SlotMap<FlightKey, Flight>,
    /// What may go to the store as soon as the depth allows.
    pub(crate) ready: VecDeque<Plan>,
    /// Dispatched parts in chunks that could start one now or as soon as there is memory; the first
    /// goes first. While there is any, the scheduler is asked for small requests only.
    pub(crate) streams: VecDeque<PartKey>,
    /// The one stream that may pull payload into the pool's reserve, until it is over: so that one
    /// always can go on, and peers that owe data never hold more of the reserve than one window.
    pub(crate) privileged: Option<PartKey>,
    pub(crate) dispatch_count: u64,
    /// Whose turn it is while streams and small requests compete.
    is_streams_turn: bool,
    /// Parts that wait for memory for their payload.
    pub(crate) arrivals: Turns,
    /// The first of them waits for any memory at all: what comes now stands behind.
    pub(crate) is_memory_short: bool,
    /// Classes whose reads all go through the scheduler.
    pub(crate) always_scheduled: HashSet<ClassId>,
    /// The groups of classes that are in one.
    groups: HashMap<ClassId, GroupId>,
    /// What classes hold for payload, in bytes.
    pub(crate) holdings: Holdings,
    /// What classes hold of the scheduler's places.
    pub(crate) places: Holdings,
    /// Parts that the scheduler had no room for.
    pub(crate) unadmitted: Turns,
    pub(crate) in_store_count: usize,
    pub(crate) wait_until: Option<Timestamp>,
    pub(crate) counters: Counters,
    /// What chooses the policies; `None` where they stay as they were set.
    pub(crate) selection: Option<Box<Selection>>,
    batch: Batch,
    finished: Vec<Io>,
    /// Emptied calls, kept for their allocations.
    pub(crate) spare: Vec<Io>,
}

impl Engine {
    /// An engine with nothing open.
    pub fn new(options: Options, scheduler: Scheduler, store: Box<dyn Store>, pool: Pool) -> Self {
        let options = Options { depth: options.depth.max(1), ..options };
        Self {
            options,
            scheduler: scheduler.into(),
            store,
            pool,
            files: Files::default(),
            calls: SlotMap::with_key(),
            parts: SlotMap::with_key(),
            pieces: SlotMap::with_key(),
            flights: SlotMap::with_key(),
            ready: VecDeque::new(),
            streams: VecDeque::new(),
            privileged: None,
            dispatch_count: 0,
            is_streams_turn: true,
            arrivals: Turns::default(),
            is_memory_short: false,
            always_scheduled: HashSet::new(),
            groups: HashMap::new(),
            holdings: Holdings::new(2),
            places: Holdings::new(1),
            unadmitted: Turns::default(),
            in_store_count: 0,
            wait_until: None,
            counters: Counters::default(),
            selection: None,
            batch: Batch::default(),
            finished: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Opens a file at the store.
    ///
    /// # Errors
    /// The store's.
    pub fn open(&mut self, how: OpenHow) -> Result<(FileKey, FileId), Errno> {
        let name = if self.scheduler.is_recorded() { name_of(&how) } else { None };
        let opened = self.store.open(how)?;
        let key = self.files.insert(opened);
        let index = self.files.find(key).expect("it was just inserted").index;
        self.scheduler.note_file(index, opened.id);
        if let Some(name) = name {
            self.scheduler.note_name(Named::File(index), &name);
        }
        Ok((key, opened.id))
    }

    /// Records from now on what the scheduler is told and decides.
    pub fn record(&mut self, recorder: Recorder) {
        self.scheduler.attach(recorder);
    }

    /// What records, to take finished blocks from and to give names to clients.
    pub fn recorder(&mut self) -> Option<&mut Recorder> {
        self.scheduler.recorder()
    }

    /// Records no more.
    pub fn end_record(&mut self) -> Option<Recorder> {
        self.scheduler.detach()
    }

    /// Notes the name of a client or class in the recording, if there is one.
    pub fn note_name(&mut self, of: Named, text: &str) {
        self.scheduler.note_name(of, text);
    }

    /// Changes how the scheduler shares and orders, and notes it in the recording, if there is one.
    ///
    /// # Errors
    /// As [`Adjustment::apply`].
    pub fn adjust(&mut self, now: Timestamp, adjustment: &Adjustment) -> Result<(), ClassError> {
        self.scheduler.adjust(now, adjustment)?;
        if let Adjustment::Class(class, share) = adjustment {
            if let (None, Some(selection)) = (share, &mut self.selection) {
                selection.forget(*class);
            }
            match share.and_then(|share| share.group) {
                Some(group) => drop(self.groups.insert(*class, group)),
                None => drop(self.groups.remove(class)),
            }
        }
        Ok(())
    }

    /// Whether reads of a class that need no device are answered at once, past the scheduler and
    /// what it limits; so they are unless somebody says otherwise.
    pub fn answer_at_once(&mut self, class: ClassId, may: bool) {
        match may {
            true => drop(self.always_scheduled.remove(&class)),
            false => drop(self.always_scheduled.insert(class)),
        }
    }

    /// What classes and files have had; `None` if the scheduler keeps no ledger.
    pub fn snapshot(&self, now: Timestamp) -> Option<Snapshot> {
        self.scheduler.snapshot(now)
    }

    /// Closes a file once its calls are answered. With `answer_to`, an [`Event::Done`] for that
    /// origin says when the store has let go of it.
    pub fn close(&mut self, file: FileKey, answer_to: Option<Origin>, events: &mut Vec<Event>) {
        if let Some(open) = self.files.find_mut(file) {
            open.closing = Some(answer_to.map_or(Closing::Silently, Closing::Answer));
            self.close_if_quiet(file, events);
        }
    }

    /// Size and times of an open file, as they are now.
    ///
    /// # Errors
    /// The store's; `EBADF` for a file that is not open.
    pub fn attributes(&mut self, file: FileKey) -> Result<Attributes, Errno> {
        let open = self.files.find(file).ok_or(Errno::BADF)?;
        self.store.attributes(open.store)
    }

    /// Takes a call on; it is answered by exactly one [`Event::Done`] unless abandoned.
    ///
    /// For a call with payload, either the payload is on its way already (`eager`) and is taken
    /// with [`sink`](Self::sink), or [`Event::Pull`] asks for it piece by piece.
    ///
    /// # Errors
    /// `EBADF` for a file that is not open.
    pub fn submit(
        &mut self,
        now: Timestamp,
        order: Order,
        events: &mut Vec<Event>,
    ) -> Result<CallKey, Errno> {
        let open = self.files.find_mut(order.file).filter(|open| open.closing.is_none());
        open.ok_or(Errno::BADF)?.calls_count += 1;
        self.counters.calls += 1;
        self.counters.reads += u64::from(order.action == Action::Read);
        self.counters.writes += u64::from(order.action.takes_payload());
        let key = self.calls.insert(Call {
            origin: order.origin,
            client: order.client,
            class: order.class,
            group: self.groups.get(&order.class).copied(),
            file: order.file,
            action: order.action,
            ranges: order.ranges,
            eager: order.eager,
            is_awaited: false,
            is_starting: false,
            next_range_idx: 0,
            next_base: 0,
            parts: Vec::new(),
            fault: None,
            abandoned: false,
            end: Offset(0),
        });
        self.start_parts(now, key, events);
        Ok(key)
    }

    /// Gives up on a call whose peer has gone: what is queued is dropped, what is in the store finishes.
    pub fn abandon(&mut self, now: Timestamp, key: CallKey, events: &mut Vec<Event>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        call.abandoned = true;
        for part in call.parts.clone() {
            self.stop_part(now, part, events);
        }
        self.end_call_if_over(key, events);
    }

    /// A chunk of `part` has left for the peer, its memory is free again.
    pub fn sent(&mut self, part: PartKey) {
        if let Some(found) = self.parts.get_mut(part) {
            found.unsent_count -= 1;
            self.unpark(part);
        }
    }

    /// Does everything that can be done now, and says what the embedder has to do.
    pub fn turn(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        loop {
            let mut finished = std::mem::take(&mut self.finished);
            self.store.take_finished(now, &mut finished);
            let is_quiet = finished.is_empty();
            for io in finished.drain(..) {
                self.take_back(now, io, events);
            }
            self.finished = finished;
            self.serve_waiting(now, events);
            self.choose(now);
            let has_started = self.feed_store(now, events);
            if is_quiet && !has_started {
                self.plan_look(now);
                return;
            }
        }
    }

    /// What to wait for until the next turn.
    pub fn wake(&self) -> Wake<'_> {
        let wake = self.store.wake();
        let next_look = self.selection.as_ref().and_then(|selection| selection.next_look());
        let deadlines = [wake.deadline, self.wait_until, next_look];
        Wake { deadline: deadlines.into_iter().flatten().min(), ..wake }
    }

    /// What it may use.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The scheduler's own figures.
    pub fn scheduler_stats(&self) -> Stats {
        self.scheduler.stats()
    }

    /// Requests that wait in the scheduler, and requests that it has dispatched.
    pub fn queued_and_in_flight(&self) -> (usize, usize) {
        (self.scheduler.queued_count(), self.scheduler.in_flight_count())
    }

    /// The policy's name.
    pub fn policy_name(&self) -> &'static str {
        self.scheduler.policy_name()
    }

    /// The store, for its name and counters.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// How many files are open at the store.
    pub fn open_files_count(&self) -> usize {
        self.files.open_count()
    }

    /// The files that are open at the store; one may come several times.
    pub fn open_files(&self) -> impl Iterator<Item = FileId> + '_ {
        self.files.ids()
    }

    /// Whether requests of a class are in the scheduler or at the store, those of peers that have gone
    /// included.
    pub fn is_class_busy(&self, now: Timestamp, class: ClassId) -> bool {
        let found = self.scheduler.class(now, class);
        found.is_some_and(|class| class.ready + class.blocked + class.in_flight > 0)
    }

    /// How many calls are not answered yet.
    pub fn calls_count(&self) -> usize {
        self.calls.len()
    }

    /// Whether the store may be given another call.
    pub(crate) fn has_store_room(&self) -> bool {
        self.in_store_count.saturating_sub(self.store.arriving_count()) < self.options.depth
    }

    /// Starts calls at the store until the depth is reached or nothing is left; whether any was started.
    fn feed_store(&mut self, now: Timestamp, events: &mut Vec<Event>) -> bool {
        let mut has_started = false;
        self.wait_until = None;
        while self.has_store_room() {
            if self.start_ready(now, events) {
                has_started = true;
            } else if !self.ready.is_empty() || !self.go_on(now, events, &mut has_started) {
                break;
            }
        }
        self.store.flush();
        has_started
    }

    /// Starts a chunk of a stream or fetches a batch, taking turns while there are both; whether
    /// anything came of it.
    fn go_on(&mut self, now: Timestamp, events: &mut Vec<Event>, has_started: &mut bool) -> bool {
        self.is_streams_turn = !self.is_streams_turn;
        let had_streams = !self.streams.is_empty();
        if !self.is_streams_turn && self.ask_scheduler(now) {
            return true;
        }
        if self.extend_streams(now, events) {
            *has_started = true;
            return true;
        }
        // With the last stream put aside, what skips the policy may go too.
        let has_parked_all = had_streams && self.streams.is_empty();
        (self.is_streams_turn || has_parked_all) && self.ask_scheduler(now)
    }

    /// Takes the scheduler's next decision on; whether it was a batch.
    fn ask_scheduler(&mut self, now: Timestamp) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        let decision = match self.streams.is_empty() {
            true => self.scheduler.next(now, &mut batch),
            false => self.scheduler.next_from_policy(now, &mut batch),
        };
        let is_batch = match decision {
            Decision::Dispatch => {
                if let Some(selection) = &mut self.selection {
                    selection.dispatched(now, batch.members());
                }
                self.plan(batch.members());
                true
            }
            Decision::Wait { until } => {
                self.wait_until = Some(until);
                false
            }
            Decision::Idle => false,
        };
        self.batch = batch;
        is_batch
    }

    pub(crate) fn close_if_quiet(&mut self, key: FileKey, events: &mut Vec<Event>) {
        let Some(open) = self.files.find(key) else { return };
        let (Some(closing), 0) = (open.closing, open.calls_count) else { return };
        let (open, retired) = self.files.remove(key).expect("it was just found");
        self.store.close(open.store);
        if let Some(index) = retired {
            self.scheduler.retire(index).expect("a file without calls has no live requests");
        }
        if let Closing::Answer(origin) = closing {
            let end = Offset(0);
            events.push(Event::Done { origin, outcome: Ok(Bytes::ZERO), end });
        }
    }

    /// Takes an abandoned part back as far as that is still possible. Plans and queues that still
    /// name it or its pieces pass over what is gone.
    fn stop_part(&mut self, now: Timestamp, key: PartKey, events: &mut Vec<Event>) {
        if !self.parts.contains_key(key) {
            return;
        }
        let owner = self.owner_of(key);
        let part = &mut self.parts[key];
        part.stop_starting();
        if let Stage::Queued(id) = part.stage {
            if let (Some(selection), Some(accepted)) =
                (&mut self.selection, self.scheduler.find(id))
            {
                selection.cancelled(now, &accepted.request);
            }
            let cancelled = self.scheduler.cancel(now, id);
            debug_assert_eq!(
                cancelled,
                Cancellation::Cancelled,
                "a queued request is not in flight"
            );
            part.stage = Stage::Arriving;
            self.places.give_back(owner, 1);
        }
        let pieces = &mut self.pieces;
        part.pieces.retain(|key| {
            let is_in_store = matches!(pieces[*key].state, PieceState::InStore);
            if !is_in_store {
                pieces.remove(*key);
            }
            is_in_store
        });
        self.end_part_if_over(now, key, events);
    }
}

/// A call as the embedder hands it in.
#[derive(Clone, Debug)]
pub struct Order {
    /// Who asks.
    pub origin: Origin,
    /// The client, for the guard and for patterns.
    pub client: ClientId,
    /// The sharing class.
    pub class: ClassId,
    /// Which open file.
    pub file: FileKey,
    /// What to do.
    pub action: Action,
    /// Where.
    pub ranges: Ranges,
    /// Whether the payload is on its way without an [`Event::Pull`].
    pub eager: bool,
}

/// How the scheduler sees an action.
pub(crate) fn access_of(action: Action) -> Access {
    match action {
        Action::Read => Access::Read,
        Action::Write => Access::Write,
        Action::Append | Action::Truncate(_) | Action::Allocate { .. } => Access::Alone,
        Action::Sync | Action::DataSync | Action::Advise { .. } => Access::Sync,
    }
}

/// What people call the file that is to be opened; known for a recording only, since it costs a system call.
fn name_of(how: &OpenHow) -> Option<String> {
    let path = match how {
        OpenHow::Beneath { path, .. } => path.clone().into_os_string().into_encoded_bytes(),
        OpenHow::Descriptor(descriptor) => {
            use std::os::fd::AsRawFd as _;
            let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
            rustix::fs::readlink(link, Vec::new()).ok()?.into_bytes()
        }
    };
    Some(String::from_utf8_lossy(&path).into_owned())
}
