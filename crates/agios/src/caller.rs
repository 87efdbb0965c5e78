//! The library's thread: looks what goes next, calls back, and sleeps when there is nothing.

use core::sync::atomic::Ordering;
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use forebay_controller::{Error, Turn};

use crate::door;
use crate::library::{AWAKE, LIBRARY, Seen, UNTIL_ADDED, UNTIL_ANYTHING};
use crate::queue::{Called, Queue};
use crate::sys::CallBacks;

/// How long it looks for news before it sleeps: waking it costs a program that adds one request at
/// a time more than everything else.
const PATIENCE: Duration = Duration::from_micros(20);

/// How often it looks before it lets others have the processor: they may be about to add.
const LOOKS: u32 = 32;

thread_local! {
    /// Set on the library's thread.
    static CALLS_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is the library's thread.
pub(crate) fn is_calling_back() -> bool {
    CALLS_BACK.get()
}

/// See the module's head.
pub(crate) struct Caller {
    call_backs: CallBacks,
    /// It hears of every release at once: somebody measures when that was.
    hears_all: bool,
    turns: Vec<Turn>,
    /// The batch whose turn it is.
    called: Vec<Called>,
    identifiers: Vec<i64>,
}

/// What it does next.
enum Step {
    CallBack,
    Rest(Rest),
    End,
}

/// Nothing may go now.
#[derive(Clone, Copy)]
struct Rest {
    /// What the queue had been told.
    seen: Seen,
    /// Whether requests wait.
    is_waiting: bool,
    /// When one may go even if nothing happens.
    until: Option<Instant>,
}

impl Caller {
    pub(crate) fn new(call_backs: CallBacks, hears_all: bool) -> Self {
        Self {
            call_backs,
            hears_all,
            turns: Vec::new(),
            called: Vec::new(),
            identifiers: Vec::new(),
        }
    }

    /// Until the end.
    pub(crate) fn run(mut self) {
        CALLS_BACK.set(true);
        loop {
            let step = self.look().unwrap_or_else(|error| {
                door::say(&format!(
                    "the scheduler has failed, no request is given back any longer: {error}"
                ));
                LIBRARY.intake.lock().close();
                Step::End
            });
            match step {
                Step::CallBack => self.call_back(),
                Step::Rest(rest) => {
                    if !has_news(rest) {
                        self.sleep(rest);
                    }
                }
                Step::End => return,
            }
        }
    }

    /// What goes next. Under the queue's lock, so that nobody sees a request that has left the queue
    /// and is not given.
    fn look(&mut self) -> Result<Step, Error> {
        let mut queue = LIBRARY.queue.lock();
        let Some(Queue { controller, book }) = queue.as_mut() else { return Ok(Step::End) };
        if LIBRARY.is_ending.load(Ordering::SeqCst) {
            return Ok(Step::End);
        }
        let mut round = controller.round()?;
        let seen = LIBRARY.bring_up_to_date(book, &mut round)?;
        self.called.clear();
        let time = book.next(&mut round, &mut self.turns, &mut self.called)?;
        if self.called.is_empty() {
            let until =
                time.and_then(|time| Instant::now().checked_add(Duration::from_nanos(time.0)));
            return Ok(Step::Rest(Rest { seen, is_waiting: book.count() > 0, until }));
        }
        let mut given = LIBRARY.given.lock();
        for called in &self.called {
            given.requests.insert(called.name, called.ticket);
        }
        drop(given);
        LIBRARY.queue.count.store(book.left(), Ordering::SeqCst);
        Ok(Step::CallBack)
    }

    /// Calls back for a batch: those requests that brought nothing of their own together.
    fn call_back(&mut self) {
        for piece in self.called.chunk_by(|a, b| a.own.is_none() && b.own.is_none()) {
            match piece[0].own {
                Some(own) => own.call(piece[0].identifier),
                None => {
                    self.identifiers.clear();
                    self.identifiers.extend(piece.iter().map(|called| called.identifier));
                    self.call_backs.call(&mut self.identifiers);
                }
            }
        }
    }

    /// Sleeps until there may be something, or the end has come, unless there is news already.
    fn sleep(&self, rest: Rest) {
        let hears_all = rest.is_waiting || self.hears_all;
        LIBRARY.watch.store(if hears_all { UNTIL_ANYTHING } else { UNTIL_ADDED }, Ordering::SeqCst);
        let (now, seen) = (now_seen(), rest.seen);
        let is_news = if hears_all { now != seen } else { now.added != seen.added };
        if !is_news && !LIBRARY.is_ending.load(Ordering::SeqCst) {
            match rest.until {
                Some(until) => {
                    thread::park_timeout(until.saturating_duration_since(Instant::now()))
                }
                None => thread::park(),
            }
        }
        LIBRARY.watch.store(AWAKE, Ordering::SeqCst);
    }
}

/// Looks for a short time whether anything is new, or something may go.
fn has_news(rest: Rest) -> bool {
    let patient_until = Instant::now() + PATIENCE;
    loop {
        let now = Instant::now();
        if rest.until.is_some_and(|until| until <= now) {
            return true;
        }
        if now >= patient_until {
            return false;
        }
        for _ in 0..LOOKS {
            if now_seen() != rest.seen {
                return true;
            }
            core::hint::spin_loop();
        }
        thread::yield_now();
    }
}

/// What the queue would be told now.
fn now_seen() -> Seen {
    Seen {
        added: LIBRARY.intake.count.load(Ordering::SeqCst),
        released: LIBRARY.given.count.load(Ordering::SeqCst),
    }
}
