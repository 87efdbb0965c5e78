//! The library that runs between `agios_init` and `agios_exit`.
//!
//! ```text
//!  add ──► intake ──┐
//!                   ├──► queue: controller ──► given ──► call-back, on the library's thread
//!  release ──► given ──► what was released ──┘
//!  NOOP: add ──► passing ──► call-back, on the caller's thread
//! ```
//!
//! AGIOS calls back on one thread of its own, except under NOOP, and programs rely on both halves
//! of that: call-backs append to lists without a lock, and take locks that are held around
//! `agios_add_request`. So the controller, which would call back on any thread, is asked by one: in
//! rounds, each of which says at once what was released and added meanwhile, and asks what goes next.
//!
//! # Who touches what
//!
//! State that goes from one processor to another costs more than using it. So the queue is the
//! thread's own, but for those who cancel or ask for the metrics; who adds touches the intake alone,
//! who releases only what is given. Each has a lock, held for a short time and never during a
//! call-back; who needs several takes them in the order queue, intake, given.
//!
//! # Why nothing is forgotten
//!
//! Who adds or releases counts that, and then looks whether the thread sleeps. The thread says that
//! it sleeps, and then looks whether anything was counted that it has not seen. All of it is
//! sequentially consistent, so one of both sees the other.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use forebay_controller::{Error, Round, Ticket};
use forebay_units::Timestamp;

use crate::arrangement::Arrangement;
use crate::by_name::ByName;
use crate::caller::{self, Caller};
use crate::config::{Algorithm, Config};
use crate::door::{self, Failure};
use crate::intake::{Arrival, Intake, Rules};
use crate::metrics::Snapshot;
use crate::name::Name;
use crate::passing::Passing;
use crate::queue::{Book, Queue, time_since};
use crate::sys::{CallBacks, OwnCallBack};
use crate::trace_file::TraceFile;

/// Most requests in a call-back: AGIOS's limit (`MAX_AGGREG_SIZE`), which programs may count on.
pub(crate) const BATCH_REQUESTS_MAX: usize = 16;

/// A request to be added.
#[derive(Debug)]
pub(crate) struct Addition<'a> {
    pub(crate) name: Name,
    pub(crate) file: &'a [u8],
    pub(crate) identifier: i64,
    pub(crate) queue_id: i32,
    pub(crate) own: Option<OwnCallBack>,
}

/// The library; there is one a process, because the interface has no handle. Empty while it does not run.
pub(crate) static LIBRARY: Library = Library::new();

pub(crate) struct Library {
    /// With how many were ever added.
    pub(crate) intake: Counted<Intake>,
    /// With how many were ever released by others than the library's thread, or cancelled.
    pub(crate) given: Counted<Given>,
    /// With how many have left it.
    pub(crate) queue: Counted<Option<Queue>>,
    /// Under NOOP, instead of the three above.
    passing: Counted<Option<Passing>>,
    is_passing: AtomicBool,
    pub(crate) is_ending: AtomicBool,
    /// What the library's thread waits for, as one of the three below.
    pub(crate) watch: AtomicU8,
    thread: Mutex<Option<JoinHandle<()>>>,
    is_traced: AtomicBool,
    trace: Mutex<Option<Trace>>,
}

/// The library's thread is awake.
pub(crate) const AWAKE: u8 = 0;
/// It sleeps until something is added: nothing waits, so a release changes nothing.
pub(crate) const UNTIL_ADDED: u8 = 1;
/// It sleeps until something is added or released.
pub(crate) const UNTIL_ANYTHING: u8 = 2;

/// Something under a lock, and a count that is changed under it and read without. Away from what
/// other threads write.
#[repr(align(128))]
pub(crate) struct Counted<T> {
    pub(crate) count: AtomicU64,
    value: Mutex<T>,
}

impl<T> Counted<T> {
    const fn new(value: T) -> Self {
        Self { count: AtomicU64::new(0), value: Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.value)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The requests that are with the program.
pub(crate) struct Given {
    pub(crate) requests: ByName<Ticket>,
    /// What it has released since the queue was told.
    released: Vec<(Ticket, Name)>,
}

struct Trace {
    file: TraceFile,
    started: Instant,
}

/// What the queue has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) added: u64,
    pub(crate) released: u64,
}

impl Library {
    const fn new() -> Self {
        Self {
            intake: Counted::new(Intake::new()),
            given: Counted::new(Given { requests: ByName::new(), released: Vec::new() }),
            queue: Counted::new(None),
            passing: Counted::new(None),
            is_passing: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            watch: AtomicU8::new(AWAKE),
            thread: Mutex::new(None),
            is_traced: AtomicBool::new(false),
            trace: Mutex::new(None),
        }
    }

    /// Begins. It does not run.
    pub(crate) fn start(
        &self,
        config: &Config,
        call_backs: CallBacks,
        queues: u32,
    ) -> Result<(), Failure> {
        let trace = config.trace.as_ref().map(TraceFile::create).transpose();
        let trace = trace.map_err(|error| door::refuse(&error.to_string()))?;
        let Arrangement { controller, queues } = Arrangement::of(config, queues)?;
        let started = Instant::now();
        match controller {
            None => {
                let in_flight_max = config.in_flight_max as usize;
                *self.passing.lock() = Some(Passing::new(call_backs, started, in_flight_max));
            }
            Some(controller) => {
                let mut thread = lock(&self.thread);
                *self.queue.lock() = Some(Queue { controller, book: Book::new(started) });
                let hears_all = config.algorithm == Algorithm::Auto;
                let caller = Caller::new(call_backs, hears_all);
                let name = "agios".to_owned();
                match thread::Builder::new().name(name).spawn(move || caller.run()) {
                    Ok(spawned) => *thread = Some(spawned),
                    Err(error) => {
                        *self.queue.lock() = None;
                        return Err(no_resource(&error));
                    }
                }
                self.intake.lock().open(Rules {
                    queues,
                    queue_requests_max: u64::from(config.queue_requests_max),
                    has_call_back: call_backs.one.is_some(),
                });
            }
        }
        self.is_passing.store(self.passing.lock().is_some(), Ordering::Relaxed);
        self.is_traced.store(trace.is_some(), Ordering::Relaxed);
        *lock(&self.trace) = trace.map(|file| Trace { file, started });
        Ok(())
    }

    /// Ends the thread after the call-back that runs, and says what was not given back. Meanwhile
    /// nothing is taken in, but requests may be released.
    pub(crate) fn stop(&self) {
        self.intake.lock().close();
        self.is_ending.store(true, Ordering::SeqCst);
        // Not joined under the lock, which those take who wake it: a guard in the condition would
        // live until the end of the block.
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            if thread.join().is_err() {
                door::say("the library's thread has failed");
            }
        }
        *self.passing.lock() = None;
        let queue = self.queue.lock().take();
        let mut arrivals = Vec::new();
        self.intake.lock().swap(&mut arrivals);
        *self.given.lock() = Given { requests: ByName::new(), released: Vec::new() };
        for counted in [&self.intake.count, &self.given.count, &self.queue.count] {
            counted.store(0, Ordering::SeqCst);
        }
        self.is_ending.store(false, Ordering::SeqCst);
        let queued = queue.map_or(0, |queue| queue.book.count()) + arrivals.len();
        if queued > 0 {
            door::say(&format!(
                "agios_exit: {queued} requests were still queued; they will not be given to the call-backs"
            ));
        }
        let trace = lock(&self.trace).take();
        if let Some(Err(error)) = trace.map(|trace| trace.file.finish()) {
            door::say(&format!("the trace is incomplete: {error}"));
        }
    }

    pub(crate) fn add(&self, addition: &Addition<'_>) -> Result<(), Failure> {
        // Held until the request is taken in, so that lines come in the order of arrival.
        let trace = self.is_traced.load(Ordering::Relaxed).then(|| lock(&self.trace));
        let when = Instant::now();
        let added = match self.is_passing.load(Ordering::Relaxed) {
            true => self.pass(addition, when, trace),
            false => self.take_in(addition, when, trace),
        };
        if added == Err(Failure::NoCallBack) {
            door::say(
                "agios_add_request: no call-back, neither of the request nor from agios_init",
            );
        }
        added
    }

    /// The program is done with a request.
    pub(crate) fn release(&self, name: &Name) -> Result<(), Failure> {
        if self.is_passing.load(Ordering::Relaxed) {
            return self.passing.lock().as_mut().ok_or(Failure::NotRunning)?.release(name);
        }
        let mut given = self.given.lock();
        let ticket = given.requests.take_named(name).ok_or(Failure::Unknown)?;
        given.released.push((ticket, *name));
        // The library's thread looks by itself when it returns from its call-back.
        if !caller::is_calling_back() {
            self.count_change(given);
        }
        Ok(())
    }

    /// The program no longer wants a request.
    pub(crate) fn cancel(&self, name: &Name) -> Result<(), Failure> {
        if self.is_passing.load(Ordering::Relaxed) {
            return self.passing.lock().as_ref().ok_or(Failure::NotRunning)?.cancel(name);
        }
        let mut queue = self.queue.lock();
        let Queue { controller, book } = queue.as_mut().ok_or(Failure::NotRunning)?;
        let mut round = controller.round()?;
        self.bring_up_to_date(book, &mut round)?;
        let is_cancelled = book.cancel(&mut round, name)?;
        drop(round);
        let given = self.given.lock();
        if !is_cancelled {
            let is_given = given.requests.find(name).is_some();
            return Err(if is_given { Failure::InFlight } else { Failure::Unknown });
        }
        self.queue.count.store(book.left(), Ordering::SeqCst);
        // Whoever is woken wants the queue at once.
        drop(queue);
        // Those that were ordered behind it may go, and there is a place in the queue.
        self.count_change(given);
        Ok(())
    }

    pub(crate) fn metrics(&self) -> Result<Snapshot, Failure> {
        if self.is_passing.load(Ordering::Relaxed) {
            let mut passing = self.passing.lock();
            return Ok(passing.as_mut().ok_or(Failure::NotRunning)?.metrics.take());
        }
        let mut queue = self.queue.lock();
        let Queue { controller, book } = queue.as_mut().ok_or(Failure::NotRunning)?;
        self.bring_up_to_date(book, &mut controller.round()?)?;
        Ok(book.metrics.take())
    }

    /// Adds a request to be scheduled.
    fn take_in(
        &self,
        addition: &Addition<'_>,
        when: Instant,
        trace: Option<MutexGuard<'_, Option<Trace>>>,
    ) -> Result<(), Failure> {
        let Addition { name, identifier, queue_id, own, .. } = *addition;
        let mut intake = self.intake.lock();
        let left = || self.queue.count.load(Ordering::SeqCst);
        let arrival = |class| Arrival { name, identifier, own, class, when };
        let added = intake.add(queue_id, own.is_some(), left, arrival)?;
        self.intake.count.store(added, Ordering::SeqCst);
        drop(intake);
        self.wake(UNTIL_ADDED);
        note(trace, addition, when);
        Ok(())
    }

    /// Gives a request to the program at once: NOOP.
    fn pass(
        &self,
        addition: &Addition<'_>,
        when: Instant,
        trace: Option<MutexGuard<'_, Option<Trace>>>,
    ) -> Result<(), Failure> {
        let mut passing = self.passing.lock();
        let open = passing.as_mut().ok_or(Failure::NotRunning)?;
        let call_backs = open.call_backs;
        if addition.own.is_none() && call_backs.one.is_none() {
            return Err(Failure::NoCallBack);
        }
        open.add(when, addition.name)?;
        drop(passing);
        note(trace, addition, when);
        match addition.own {
            Some(own) => own.call(addition.identifier),
            None => call_backs.call(&mut [addition.identifier]),
        }
        Ok(())
    }

    /// Tells the queue what was released and added until now.
    pub(crate) fn bring_up_to_date(
        &self,
        book: &mut Book,
        round: &mut Round<'_>,
    ) -> Result<Seen, Error> {
        let mut given = self.given.lock();
        core::mem::swap(&mut given.released, &mut book.released);
        let released = self.given.count.load(Ordering::SeqCst);
        drop(given);
        book.end_released(round)?;
        if self.intake.count.load(Ordering::SeqCst) != book.added() {
            self.intake.lock().swap(&mut book.arrivals);
        }
        book.admit_arrivals(round)?;
        Ok(Seen { added: book.added(), released })
    }

    /// The library's thread is to look, if anything waits: a request was released or cancelled.
    fn count_change(&self, given: MutexGuard<'_, Given>) {
        let count = self.given.count.load(Ordering::Relaxed);
        self.given.count.store(count + 1, Ordering::SeqCst);
        drop(given);
        self.wake(UNTIL_ANYTHING);
    }

    /// Makes the library's thread look, if it sleeps until this, or less, has happened.
    fn wake(&self, what: u8) {
        if self.watch.load(Ordering::SeqCst) >= what
            && self.watch.swap(AWAKE, Ordering::SeqCst) != AWAKE
            && let Some(thread) = &*lock(&self.thread)
        {
            thread.thread().unpark();
        }
    }
}

/// A request has arrived.
fn note(trace: Option<MutexGuard<'_, Option<Trace>>>, addition: &Addition<'_>, when: Instant) {
    let Some(mut guard) = trace else { return };
    let Some(trace) = guard.as_mut() else { return };
    let Name { direction, offset, length, .. } = addition.name;
    let since_start = time_since(trace.started, when) - Timestamp(0);
    if let Err(error) = trace.file.line(since_start, addition.file, direction, offset.0, length) {
        let error = trace.file.named(&error);
        door::say(&format!("the trace ends here: {error}"));
        *guard = None;
    }
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

#[cfg(test)]
mod tests {
    use forebay_controller::{Controller, Delivery, FileKey, Options};
    use forebay_sched::{PolicyName, PolicySettings, build};
    use forebay_units::{Bytes, Direction, Offset};

    use super::*;
    use crate::arrangement::Queues;

    /// Whoever cancels cannot get at the thread that it wakes, because the test has it; the queue must
    /// be free all the same.
    #[test]
    fn who_is_woken_by_a_cancellation_finds_the_queue_free() {
        static LIBRARY: Library = Library::new();
        let policy = build(PolicyName::To, &PolicySettings::default());
        let controller = Controller::new(&Options::default(), policy, Delivery::Rounds).unwrap();
        let book = Book::new(Instant::now());
        *LIBRARY.queue.lock() = Some(Queue { controller, book });
        let rules = Rules { queues: Queues::Unused, queue_requests_max: 1, has_call_back: true };
        LIBRARY.intake.lock().open(rules);
        let file = FileKey { high: 0, low: 1 };
        let name = Name::new(file, Direction::Read, Offset(0), Bytes(1));
        let addition = Addition { name, file: b"f", identifier: 1, queue_id: 0, own: None };
        LIBRARY.add(&addition).unwrap();
        LIBRARY.watch.store(UNTIL_ANYTHING, Ordering::SeqCst);
        let thread = lock(&LIBRARY.thread);
        let cancelled = std::thread::spawn(move || LIBRARY.cancel(&name));
        while LIBRARY.watch.load(Ordering::SeqCst) != AWAKE {
            assert!(!cancelled.is_finished());
            std::thread::yield_now();
        }
        assert!(LIBRARY.queue.value.try_lock().is_ok());
        drop(thread);
        assert_eq!(cancelled.join().unwrap(), Ok(()));
        assert_eq!(LIBRARY.cancel(&name), Err(Failure::Unknown));
    }
}
