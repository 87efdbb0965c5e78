//! The library's thread: looks what goes next, calls back, and sleeps when there is nothing.

use core::sync::atomic::Ordering;
use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use forebay_controller::{Controller, Error, Turn};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;

use crate::door;
use crate::library::{AWAKE, LIBRARY, Seen, UNTIL_ADDED, UNTIL_ANYTHING};
use crate::queue::Called;
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
    controller: Controller,
    /// Readable when it is to look.
    bell: Arc<OwnedFd>,
    /// It hears of every release at once: somebody measures when that was.
    hears_all: bool,
    turns: Vec<Turn>,
    /// The batch whose turn it is.
    called: Vec<Called>,
    identifiers: Vec<i64>,
}

/// What it does next.
enum Next {
    CallBack,
    /// Nothing, when the queue had been told this; whether requests wait.
    Rest(Seen, bool),
    End,
}

impl Caller {
    pub(crate) fn new(
        call_backs: CallBacks,
        controller: &Controller,
        bell: &Arc<OwnedFd>,
        hears_all: bool,
    ) -> Self {
        Self {
            call_backs,
            controller: controller.clone(),
            bell: Arc::clone(bell),
            hears_all,
            turns: Vec::new(),
            called: Vec::new(),
            identifiers: Vec::new(),
        }
    }

    /// Until the end.
    pub(crate) fn run(mut self) {
        CALLS_BACK.set(true);
        let mut is_patient = true;
        loop {
            let next = self.look(is_patient).unwrap_or_else(|error| {
                door::say(&format!(
                    "the scheduler has failed, no request is given back any longer: {error}"
                ));
                LIBRARY.intake.lock().close();
                Next::End
            });
            is_patient = match next {
                Next::CallBack => {
                    self.call_back();
                    true
                }
                Next::Rest(seen, _) if is_patient => has_news(seen),
                Next::Rest(seen, is_waiting) => {
                    self.sleep(seen, is_waiting);
                    true
                }
                Next::End => return,
            };
        }
    }

    /// What goes next. Under the queue's lock, so that nobody sees a request that has left the queue
    /// and is not given. Who is patient does not ask the controller when nothing waits: its answer
    /// that nothing is there would have the next addition set a timer.
    fn look(&mut self, is_patient: bool) -> Result<Next, Error> {
        let mut queue = LIBRARY.queue.lock();
        let Some(queue) = queue.as_mut() else { return Ok(Next::End) };
        if LIBRARY.is_ending.load(Ordering::SeqCst) {
            return Ok(Next::End);
        }
        let seen = LIBRARY.bring_up_to_date(queue)?;
        if is_patient && queue.count() == 0 {
            return Ok(Next::Rest(seen, false));
        }
        self.called.clear();
        queue.next(&mut self.turns, &mut self.called)?;
        if self.called.is_empty() {
            return Ok(Next::Rest(seen, queue.count() > 0));
        }
        let mut given = LIBRARY.given.lock();
        for called in &self.called {
            given.requests.insert(called.name, called.ticket);
        }
        drop(given);
        LIBRARY.queue.count.store(queue.left(), Ordering::SeqCst);
        Ok(Next::CallBack)
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
    fn sleep(&self, seen: Seen, is_waiting: bool) {
        let hears_all = is_waiting || self.hears_all;
        let what = if hears_all { UNTIL_ANYTHING } else { UNTIL_ADDED };
        LIBRARY.watch.store(what, Ordering::SeqCst);
        let now = now_seen();
        let is_news = if hears_all { now != seen } else { now.added != seen.added };
        if !is_news && !LIBRARY.is_ending.load(Ordering::SeqCst) {
            self.sleep_until_rung();
        }
        LIBRARY.watch.store(AWAKE, Ordering::SeqCst);
        // Most often it was not rung.
        _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    fn sleep_until_rung(&self) {
        let Ok(timer) = self.controller.descriptor() else { return };
        let mut descriptors = [
            PollFd::from_borrowed_fd(timer, PollFlags::IN),
            PollFd::new(&self.bell, PollFlags::IN),
        ];
        // A signal, or whatever else ends it early, only means to look again.
        _ = poll(&mut descriptors, None);
    }
}

/// Looks for a short time whether anything is new.
fn has_news(seen: Seen) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        for _ in 0..LOOKS {
            if now_seen() != seen {
                return true;
            }
            core::hint::spin_loop();
        }
        thread::yield_now();
    }
    LIBRARY.is_ending.load(Ordering::SeqCst)
}

/// What the queue would be told now.
fn now_seen() -> Seen {
    Seen {
        added: LIBRARY.intake.count.load(Ordering::SeqCst),
        released: LIBRARY.given.count.load(Ordering::SeqCst),
    }
}
