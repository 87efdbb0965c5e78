//! The library that runs between `agios_init` and `agios_exit`.
//!
//! ```text
//!  add ──► book of requests ──► controller ──► poll, on the library's thread ──► call-back
//!  release, cancel ──► found in the book by name ──► controller
//!  NOOP: add ──► book of requests ──► call-back, on the caller's thread
//! ```
//!
//! AGIOS calls back on one thread of its own, except under NOOP, and programs rely on both halves
//! of that: call-backs append to lists without a lock, and take locks that are held around
//! `agios_add_request`. So the controller, which would call back on any thread, is polled by one.

use core::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_controller::{Controller, Error, Outcome, Submission, Ticket, Turn};
use forebay_sched::Access;
use forebay_units::{ByteRange, Bytes, ClassId, Direction, Timestamp};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;

use crate::arrangement::{Arrangement, Queues};
use crate::config::Config;
use crate::door::{self, Failure};
use crate::metrics::{Metrics, Snapshot};
use crate::outstanding::{Name, Outstanding, Refusal, Stage};
use crate::sys::{CallBacks, OwnCallBack};
use crate::trace_file::TraceFile;

/// Most requests in a call-back: AGIOS's limit (`MAX_AGGREG_SIZE`), which programs may count on.
pub(crate) const BATCH_REQUESTS_MAX: usize = 16;

/// How long the library's thread looks for news before it sleeps: waking it costs a program that
/// adds one request at a time more than everything else.
const PATIENCE: Duration = Duration::from_micros(20);

/// How often it looks before it lets others have the processor: they may be about to add.
const LOOKS: u32 = 32;

/// How often a taken book is tried for before sleeping, and how many pauses lie between the first two
/// attempts; twice as many between the next two, and so on. Long pauses are the point: what the book
/// holds moves between processors' caches, which costs more than using it. So whoever has it does well
/// to use it many times in a row.
const ATTEMPTS: u32 = 5;
const PAUSES: u32 = 256;

/// A request to be added.
#[derive(Debug)]
pub(crate) struct Addition<'a> {
    pub(crate) name: Name,
    pub(crate) file: &'a [u8],
    pub(crate) identifier: i64,
    pub(crate) queue_id: i32,
    pub(crate) own: Option<OwnCallBack>,
}

pub(crate) struct Library {
    call_backs: CallBacks,
    /// `None` under NOOP.
    controller: Option<Controller>,
    queues: Queues,
    queue_requests_max: usize,
    in_flight_max: usize,
    started: Instant,
    book: Mutex<Book>,
    /// How often the book has changed so that a look at the controller may find something.
    news: AtomicU64,
    /// Readable when the thread is to end.
    end: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Everything that changes.
struct Book {
    requests: Outstanding<Waiting>,
    /// Released from inside a call-back. Only the thread that called back asks what goes next, so the
    /// controller need not know before it does.
    released: Vec<(Ticket, Bytes)>,
    metrics: Metrics,
    trace: Option<TraceFile>,
    is_stopped: bool,
}

thread_local! {
    /// Set on the library's thread.
    static CALLS_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the library's thread.
pub(crate) fn is_calling_back() -> bool {
    CALLS_BACK.get()
}

/// What the book keeps of a request until it is the program's.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    identifier: i64,
    own: Option<OwnCallBack>,
}

impl Library {
    /// A library that runs.
    pub(crate) fn start(
        config: &Config,
        call_backs: CallBacks,
        queues: u32,
    ) -> Result<Arc<Self>, Failure> {
        let trace = config.trace.as_ref().map(TraceFile::create).transpose();
        let trace = trace.map_err(|error| door::refuse(&error.to_string()))?;
        let Arrangement { controller, queues } = Arrangement::of(config, queues)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let library = Arc::new(Self {
            call_backs,
            controller,
            queues,
            queue_requests_max: config.queue_requests_max as usize,
            in_flight_max: config.in_flight_max as usize,
            started: Instant::now(),
            book: Mutex::new(Book {
                requests: Outstanding::default(),
                released: Vec::new(),
                metrics: Metrics::default(),
                trace,
                is_stopped: false,
            }),
            news: AtomicU64::new(0),
            end: end.map_err(|error| no_resource(&error))?,
            thread: Mutex::new(None),
        });
        if library.controller.is_some() {
            let of_thread = Arc::clone(&library);
            let spawned =
                thread::Builder::new().name("agios".to_owned()).spawn(move || of_thread.dispatch());
            let thread = spawned.map_err(|error| no_resource(&error))?;
            *library.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        }
        Ok(library)
    }

    /// Ends the thread after the call-back that runs, and says what was not given back.
    pub(crate) fn stop(&self) {
        self.book().is_stopped = true;
        self.tell_news();
        // Fails only if the thread has been told a great many times.
        _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            door::say("the library's thread has failed");
        }
        let mut book = self.book();
        let queued = book.requests.count(Stage::Queued);
        if queued > 0 {
            door::say(&format!(
                "agios_exit: {queued} requests were still queued; they will not be given to the call-backs"
            ));
        }
        if let Some(Err(error)) = book.trace.take().map(TraceFile::finish) {
            door::say(&format!("the trace is incomplete: {error}"));
        }
    }

    pub(crate) fn add(&self, addition: &Addition<'_>) -> Result<(), Failure> {
        if addition.own.is_none() && self.call_backs.one.is_none() {
            return Err(door::refuse(
                "agios_add_request: no call-back, neither of the request nor from agios_init",
            ));
        }
        let class = self.queues.class(addition.queue_id).ok_or(Failure::Invalid)?;
        match &self.controller {
            Some(controller) => self.queue(controller, addition, class),
            None => self.pass(addition),
        }
    }

    /// The program is done with a request.
    pub(crate) fn release(&self, name: &Name) -> Result<(), Failure> {
        let mut book = self.book();
        let ticket = book.requests.release(name).ok_or(Failure::Unknown)?;
        book.metrics.released(name.file, name.length);
        let Some(controller) = &self.controller else { return Ok(()) };
        if is_calling_back() {
            book.released.push((ticket, name.length));
            return Ok(());
        }
        controller.complete(ticket, Outcome::Moved(name.length))?;
        drop(book);
        self.tell_news();
        Ok(())
    }

    /// The program no longer wants a request.
    pub(crate) fn cancel(&self, name: &Name) -> Result<(), Failure> {
        let mut book = self.book();
        let ticket = book.requests.cancel(name).map_err(|refusal| match refusal {
            Refusal::Unknown => Failure::Unknown,
            Refusal::InFlight => Failure::InFlight,
        })?;
        let controller = self.controller.as_ref().ok_or(Failure::Broken)?;
        controller.cancel(ticket).map_err(Failure::from)
    }

    pub(crate) fn metrics(&self) -> Snapshot {
        self.book().metrics.take()
    }

    /// Adds a request to be scheduled.
    fn queue(
        &self,
        controller: &Controller,
        addition: &Addition<'_>,
        class: ClassId,
    ) -> Result<(), Failure> {
        let Name { file, direction, offset, length } = addition.name;
        let mut book = self.running_book()?;
        if book.requests.count(Stage::Queued) >= self.queue_requests_max {
            return Err(Failure::QueueFull);
        }
        let waiting = Waiting { identifier: addition.identifier, own: addition.own };
        let slot = book.requests.add(addition.name, Stage::Queued, waiting);
        let access = match direction {
            // There is nothing to order about no bytes. As a sync it passes every policy, and
            // still comes after the writes before it.
            _ if length == Bytes::ZERO => Access::Sync,
            Direction::Read => Access::Read,
            Direction::Write => Access::Write,
        };
        let submission =
            Submission { class, ..Submission::new(u64::from(slot), file, access, offset, length) };
        match controller.submit(&submission) {
            Ok(ticket) => book.requests.set_ticket(slot, ticket),
            Err(error) => {
                book.requests.remove(slot);
                return Err(error.into());
            }
        }
        self.note(&mut book, addition);
        drop(book);
        self.tell_news();
        Ok(())
    }

    /// Gives a request to the program at once: NOOP.
    fn pass(&self, addition: &Addition<'_>) -> Result<(), Failure> {
        let mut book = self.running_book()?;
        if book.requests.count(Stage::InFlight) >= self.in_flight_max {
            return Err(Failure::QueueFull);
        }
        let waiting = Waiting { identifier: addition.identifier, own: addition.own };
        book.requests.add(addition.name, Stage::InFlight, waiting);
        self.note(&mut book, addition);
        drop(book);
        match addition.own {
            Some(own) => own.call(addition.identifier),
            None => self.call_backs.call(&mut [addition.identifier]),
        }
        Ok(())
    }

    /// A request has arrived: metrics and trace.
    fn note(&self, book: &mut Book, addition: &Addition<'_>) {
        let Name { file, direction, offset, length } = addition.name;
        let now = Timestamp(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        book.metrics.added(now, file, direction, ByteRange::new(offset, length));
        if let Some(trace) = &mut book.trace {
            let since_start = now - Timestamp(0);
            let line = trace.line(since_start, addition.file, direction, offset.0, length);
            if let Err(error) = line {
                let error = trace.named(&error);
                door::say(&format!("the trace ends here: {error}"));
                book.trace = None;
            }
        }
    }

    /// The library's thread: polls the controller and calls back, until the end.
    fn dispatch(&self) {
        let Some(controller) = &self.controller else { return };
        CALLS_BACK.set(true);
        let mut turns: Vec<Turn> = Vec::new();
        let mut batch: Vec<Waiting> = Vec::new();
        let mut identifiers: Vec<i64> = Vec::new();
        let mut is_patient = true;
        loop {
            let known = self.news.load(Ordering::Acquire);
            match self.next(controller, is_patient, &mut turns, &mut batch) {
                Next::Batch => {
                    self.call_back(&batch, &mut identifiers);
                    is_patient = true;
                }
                Next::Nothing if is_patient => is_patient = self.has_news(known),
                Next::Nothing => {
                    self.sleep(controller);
                    is_patient = true;
                }
                Next::End => return,
            }
        }
    }

    /// Looks for a short time whether anything is new since `known`.
    fn has_news(&self, known: u64) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for _ in 0..LOOKS {
                if self.news.load(Ordering::Acquire) != known {
                    return true;
                }
                core::hint::spin_loop();
            }
            thread::yield_now();
        }
        false
    }

    /// What goes next. Polled under the book's lock, so that nobody sees a request that the
    /// controller has dispatched and the book has not. Who is patient does not ask the controller when
    /// nothing is queued: its answer that nothing is there would have the next addition set a timer.
    fn next(
        &self,
        controller: &Controller,
        is_patient: bool,
        turns: &mut Vec<Turn>,
        batch: &mut Vec<Waiting>,
    ) -> Next {
        let mut book = self.book();
        if book.is_stopped {
            return Next::End;
        }
        for (ticket, length) in book.released.drain(..) {
            // It fails only if the controller has failed, which polling it says too.
            _ = controller.complete(ticket, Outcome::Moved(length));
        }
        if is_patient && book.requests.count(Stage::Queued) == 0 {
            return Next::Nothing;
        }
        batch.clear();
        match controller.poll(BATCH_REQUESTS_MAX, turns) {
            Ok(Some(ready)) => {
                let slots = ready.turns.iter().map(|turn| turn.id as u32);
                batch.extend(slots.map(|slot| book.requests.dispatch(slot)));
                Next::Batch
            }
            Ok(None) => Next::Nothing,
            Err(error) => {
                door::say(&format!(
                    "the scheduler has failed, no request is given back any longer: {error}"
                ));
                book.is_stopped = true;
                Next::End
            }
        }
    }

    /// Calls back for a batch: those requests that brought nothing of their own together.
    fn call_back(&self, batch: &[Waiting], identifiers: &mut Vec<i64>) {
        for piece in batch.chunk_by(|a, b| a.own.is_none() && b.own.is_none()) {
            match piece[0].own {
                Some(own) => own.call(piece[0].identifier),
                None => {
                    identifiers.clear();
                    identifiers.extend(piece.iter().map(|waiting| waiting.identifier));
                    self.call_backs.call(identifiers);
                }
            }
        }
    }

    /// Sleeps until there may be something, or the end has come.
    fn sleep(&self, controller: &Controller) {
        let Ok(descriptor) = controller.descriptor() else { return };
        let mut descriptors = [
            PollFd::from_borrowed_fd(descriptor, PollFlags::IN),
            PollFd::new(&self.end, PollFlags::IN),
        ];
        // A signal, or whatever else ends it early, only means to look again.
        _ = poll(&mut descriptors, None);
    }

    fn tell_news(&self) {
        self.news.fetch_add(1, Ordering::Release);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        for attempt in 0..ATTEMPTS {
            match self.book.try_lock() {
                Ok(book) => return book,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    (0..PAUSES << attempt).for_each(|_| core::hint::spin_loop());
                }
            }
        }
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The book, if it takes requests.
    fn running_book(&self) -> Result<MutexGuard<'_, Book>, Failure> {
        let book = self.book();
        if book.is_stopped { Err(Failure::NotRunning) } else { Ok(book) }
    }
}

/// What the library's thread does next.
enum Next {
    Batch,
    Nothing,
    End,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::QueueFull => Self::QueueFull,
            Error::RangeTooFar | Error::EmptyRange => Self::Invalid,
            Error::UnknownTicket => Self::Unknown,
            Error::Dispatched => Self::InFlight,
            Error::Forked => Self::NotRunning,
            Error::System(_) => Self::NoResource,
            _ => Self::Broken,
        }
    }
}

fn no_resource(error: &dyn core::fmt::Display) -> Failure {
    door::say(&format!("agios_init: {error}"));
    Failure::NoResource
}
