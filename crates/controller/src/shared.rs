//! What all clones of a controller share, and how it is made.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;

use forebay_sched::{ClassOptions, Policy, PolicySource, Scheduler, SchedulerOptions};
use forebay_trace::Traced;
use forebay_units::Timestamp;

use crate::alarm::{Sleeper, Timer};
use crate::clock::Clock;
use crate::controller::Controller;
use crate::error::Error;
use crate::files::Files;
use crate::fork::Maker;
use crate::lock::{Held, Lock};
use crate::locked::Locked;
use crate::operation::{Delivery, Notice, Submission, Ticket};
use crate::options::Options;
use crate::ring::{ENTRIES, Operation, Ring};
use crate::slots::{Name, Slots, Stage};
use crate::statistics::Published;
use crate::sys;
use crate::waiting::{Place, Places};

/// By how much the scheduler's own bounds are wider: operations in the ring cannot be refused.
const SLACK: usize = 2 * ENTRIES;

fn inner(options: &Options) -> SchedulerOptions {
    let queue_requests_max = options.scheduler.queue_requests_max + SLACK;
    SchedulerOptions { queue_requests_max, ..options.scheduler }
}

/// What all clones share.
pub(crate) struct Shared {
    lock: Lock<Locked>,
    pub(crate) ring: Ring,
    /// What has ended. Apart from `ring`, so that the loop, which mostly fills this one, does not
    /// contend with those who submit.
    pub(crate) ends: Ring,
    /// The loop that those who find it here leave everything to; 0 if there is none.
    pub(crate) attendant: AtomicUsize,
    pub(crate) slots: Slots,
    pub(crate) delivery: Delivery,
    pub(crate) clock: Clock,
    pub(crate) sleeper: Sleeper,
    pub(crate) timer: Option<Timer>,
    /// Where those sleep whose request has to wait for its turn.
    pub(crate) places: Places,
    /// Where those sleep who wait until nothing is alive.
    pub(crate) quiet: Place,
    pub(crate) quiet_wanted: AtomicU32,
    pub(crate) published: Published,
    /// A submission in the ring might not fit into the queue.
    crowded: AtomicBool,
    /// What has ended is to be taken along at once: something may wait for it.
    urgent: AtomicBool,
    /// How many callers drain; a closed controller counts as one that never ends.
    pub(crate) draining: AtomicU32,
    maker: Maker,
}

impl Shared {
    pub(crate) fn set_crowded(&self, is_crowded: bool) {
        if self.crowded.load(Ordering::Relaxed) != is_crowded {
            self.crowded.store(is_crowded, Ordering::SeqCst);
        }
    }

    /// Says whether what has ended is to be taken along at once. Under the lock.
    pub(crate) fn set_urgent(&self, is_urgent: bool) {
        if self.urgent.load(Ordering::Relaxed) != is_urgent {
            self.urgent.store(is_urgent, Ordering::SeqCst);
        }
    }

    /// When something ends now, as the ring tells it: where a loop attends, as soon as that looks.
    pub(crate) fn ticks_of_end(&self) -> u64 {
        match self.attendant.load(Ordering::Relaxed) {
            0 => sys::ticks(),
            _ => u64::MAX,
        }
    }

    /// Whether what was left until now can wait for the next call.
    pub(crate) fn may_rest(&self) -> bool {
        !self.urgent.load(Ordering::SeqCst)
            && self.quiet_wanted.load(Ordering::SeqCst) == 0
            && !self.ring.has_published()
    }

    pub(crate) fn check_process(&self) -> Result<(), Error> {
        if self.maker.is_this_process() { Ok(()) } else { Err(Error::Forked) }
    }

    pub(crate) fn try_lock(&self) -> Result<Option<Held<'_, Locked>>, Error> {
        self.lock.try_take()
    }

    /// The lock, unless somebody has it or attends to what is left.
    pub(crate) fn try_attend(&self) -> Result<Option<Held<'_, Locked>>, Error> {
        match self.attendant.load(Ordering::SeqCst) {
            0 => self.try_lock(),
            _ => Ok(None),
        }
    }

    /// Whether anything is left that nobody has taken along.
    pub(crate) fn has_left(&self) -> bool {
        self.ring.has_published() || self.ends.has_published()
    }

    /// The lock, with everything done that other threads, or this one, have left before.
    /// Says also whether there was anything.
    pub(crate) fn lock_in_turn(&self) -> Result<(Held<'_, Locked>, Timestamp, bool), Error> {
        let mut has_taken = false;
        loop {
            let mut locked = self.lock.take()?;
            let now = locked.now(self);
            has_taken |= locked.take_along(self, now) > 0;
            if self.ring.is_empty() {
                return Ok((locked, now, has_taken));
            }
            // Somebody is between claiming an entry and publishing it.
            drop(locked);
            thread::yield_now();
        }
    }

    /// Leaves a submission for whoever has the lock; `None` if it might not fit.
    pub(crate) fn leave(&self, submission: &Submission) -> Option<Ticket> {
        if self.crowded.load(Ordering::Relaxed) {
            return None;
        }
        let claim = self.ring.claim()?;
        // Asked again, because only a claimed entry counts in the bound of `note_change`.
        if self.crowded.load(Ordering::SeqCst) {
            claim.publish(&Operation::Nothing);
            return None;
        }
        let name = claim.name();
        if submission.notice == Notice::Wait {
            self.slots.slot(name.slot()).begin(submission.id, Stage::Submitted, true);
        }
        let ticket = self.slots.ticket(name);
        claim.publish(&Operation::Submit(*submission));
        Some(ticket)
    }
}

impl Controller {
    /// A controller without requests.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for options outside their ranges, [`Error::System`] if there is no
    /// descriptor left for polling.
    pub fn new(
        options: &Options,
        policy: Box<dyn Policy>,
        delivery: Delivery,
    ) -> Result<Self, Error> {
        options.check()?;
        let scheduler = Scheduler::new(inner(options), policy);
        Self::around(options, scheduler, options.scheduler.queue_requests_max, delivery)
    }

    /// A controller that shares the store among classes, each with a policy of its own from `source`.
    /// `class_requests_max` is exceeded as the queue's bound is, see [`Options`].
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_classes(
        options: &Options,
        classes: &ClassOptions,
        source: PolicySource,
        delivery: Delivery,
    ) -> Result<Self, Error> {
        options.check()?;
        let is_possible =
            (1..=65_000).contains(&classes.classes_max) && classes.class_requests_max > 0;
        if !is_possible {
            return Err(Error::OutOfRange);
        }
        let class_max = classes.class_requests_max;
        let class_requests_max = class_max.saturating_add(SLACK);
        let scheduler = Scheduler::with_classes(
            inner(options),
            ClassOptions { class_requests_max, ..*classes },
            source,
        );
        let ring_max = class_max.min(options.scheduler.queue_requests_max);
        Self::around(options, scheduler, ring_max, delivery)
    }

    fn around(
        options: &Options,
        mut scheduler: Scheduler,
        ring_max: usize,
        delivery: Delivery,
    ) -> Result<Self, Error> {
        if let Some(ledger) = options.ledger {
            scheduler.keep_ledger(ledger);
        }
        let timer = matches!(delivery, Delivery::Poll).then(Timer::new).transpose()?;
        let queue_max = options.scheduler.queue_requests_max;
        let files = Files::new(options.idle_files_max);
        let scheduler = Traced::from(scheduler);
        let mut locked = Locked::new(scheduler, files, options.depth, queue_max, ring_max);
        let slots = Slots::new();
        let ring = Ring::new(|| {
            slots.name(slots.take(&mut locked.free).expect("the first slots are free"))
        });
        Ok(Self {
            shared: Arc::new(Shared {
                lock: Lock::new(locked),
                ring,
                ends: Ring::new(Name::default),
                attendant: AtomicUsize::new(0),
                slots,
                delivery,
                clock: Clock::start(),
                sleeper: Sleeper::default(),
                timer,
                places: Places::default(),
                quiet: Place::default(),
                quiet_wanted: AtomicU32::new(0),
                published: Published::default(),
                crowded: AtomicBool::new(ring_max <= ENTRIES),
                urgent: AtomicBool::new(true),
                draining: AtomicU32::new(0),
                maker: Maker::this_process(),
            }),
        })
    }
}
