//! What all clones of a controller share, and how it is made.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

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
use crate::locked::{Bounds, Locked};
use crate::operation::{Delivery, Notice, Submission, Ticket};
use crate::options::Options;
use crate::ring::{ENTRIES, Operation, Ring};
use crate::slots::{Name, Slots, Stage};
use crate::statistics::Published;
use crate::sys;
use crate::waiting::{Place, Places};

/// By how much the scheduler's own bounds are wider: operations in the ring cannot be refused.
const SLACK: usize = 2 * ENTRIES;

/// How often a caller yields to somebody who is about to publish, before it sleeps.
const YIELDS_MAX: u32 = 100;

/// How long it sleeps then.
const PATIENCE: Duration = Duration::from_micros(50);

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
    /// Odd while there is a loop to which everybody leaves everything; one higher with every change.
    attendance: AtomicUsize,
    pub(crate) slots: Slots,
    pub(crate) delivery: Delivery,
    pub(crate) clock: Clock,
    pub(crate) sleeper: Sleeper,
    pub(crate) timer: Option<Arc<Timer>>,
    /// Where those sleep whose request has to wait for its turn.
    pub(crate) places: Arc<Places>,
    /// Where those sleep who wait until nothing is alive.
    pub(crate) quiet: Arc<Place>,
    pub(crate) quiet_wanted: AtomicU32,
    pub(crate) published: Arc<Published>,
    /// A submission in the ring might not fit into the queue.
    crowded: AtomicBool,
    /// What has ended is to be taken along at once: something may wait for it.
    urgent: AtomicBool,
    /// How many callers drain; a closed controller counts as one that never ends.
    pub(crate) draining: AtomicU32,
    maker: Maker,
    /// The scheduler's own options.
    pub(crate) made_with: (SchedulerOptions, Option<ClassOptions>),
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
        match self.attendance.load(Ordering::Relaxed) % 2 {
            0 => sys::ticks(),
            _ => u64::MAX,
        }
    }

    /// Has others leave everything to the caller; its number, unless there is somebody already.
    pub(crate) fn begin_attendance(&self) -> Option<usize> {
        let before = self.attendance.load(Ordering::SeqCst);
        let number = before.wrapping_add(1);
        let is_new = before.is_multiple_of(2) && self.change_attendance(before, number);
        is_new.then_some(number)
    }

    /// Whether others still leave everything to the caller.
    pub(crate) fn has_attendance(&self, number: usize) -> bool {
        self.attendance.load(Ordering::SeqCst) == number
    }

    pub(crate) fn end_attendance(&self, number: usize) {
        _ = self.change_attendance(number, number.wrapping_add(1));
    }

    /// Has nobody rely on whoever attends now. That one may begin anew.
    pub(crate) fn depose_attendant(&self) {
        let number = self.attendance.load(Ordering::SeqCst);
        if number % 2 == 1 {
            self.end_attendance(number);
        }
    }

    fn change_attendance(&self, from: usize, to: usize) -> bool {
        self.attendance.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
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

    /// Whether a thread has panicked under the lock.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock.is_broken()
    }

    pub(crate) fn try_lock(&self) -> Result<Option<Held<'_, Locked>>, Error> {
        self.lock.try_take()
    }

    /// The lock, unless somebody has it or attends to what is left.
    pub(crate) fn try_attend(&self) -> Result<Option<Held<'_, Locked>>, Error> {
        match self.attendance.load(Ordering::SeqCst) % 2 {
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
        let (ring, ends) = (self.ring.claimed_count(), self.ends.claimed_count());
        let mut has_taken = false;
        let mut patience = Patience::default();
        loop {
            let mut locked = self.lock.take()?;
            let now = locked.now(self);
            has_taken |= locked.take_along(self, now) > 0;
            if self.ring.freed_count() >= ring && self.ends.freed_count() >= ends {
                return Ok((locked, now, has_taken));
            }
            drop(locked);
            patience.wait();
        }
    }

    /// Does what other threads, or this one, have left before, and goes on at the time that it is then.
    #[cold]
    pub(crate) fn catch_up(&self, locked: &mut Locked) -> Timestamp {
        let claimed = self.ring.claimed_count();
        let mut patience = Patience::default();
        loop {
            let now = locked.now(self);
            locked.take_along(self, now);
            if self.ring.freed_count() >= claimed {
                return now;
            }
            patience.wait();
        }
    }

    /// Leaves a submission for whoever has the lock; `None` if it might not fit.
    /// Says also up to how many entries that is.
    pub(crate) fn leave(&self, submission: &Submission) -> Option<(Ticket, u64)> {
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
        let published = claim.publish(&Operation::Submit(*submission));
        Some((ticket, published))
    }
}

/// How often somebody has been found between claiming an entry and publishing it.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    fn wait(&mut self) {
        self.0 += 1;
        match self.0 > YIELDS_MAX {
            false => thread::yield_now(),
            // It may be one with a lower priority, which no yielding lets run.
            true => thread::sleep(PATIENCE),
        }
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
        Self::around(options, scheduler, None, usize::MAX, delivery)
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
        let classes = ClassOptions { class_requests_max, ..*classes };
        let scheduler = Scheduler::with_classes(inner(options), classes, source);
        Self::around(options, scheduler, Some(classes), class_max, delivery)
    }

    fn around(
        options: &Options,
        mut scheduler: Scheduler,
        classes: Option<ClassOptions>,
        class_max: usize,
        delivery: Delivery,
    ) -> Result<Self, Error> {
        if let Some(ledger) = options.ledger {
            scheduler.keep_ledger(ledger);
        }
        let timer = matches!(delivery, Delivery::Poll).then(Timer::new).transpose()?.map(Arc::new);
        let places = Arc::new(Places::default());
        let quiet = Arc::new(Place::default());
        let published = Arc::new(Published::default());
        let bounds = Bounds { queue: options.scheduler.queue_requests_max, class: class_max };
        let files = Files::new(options.idle_files_max);
        let scheduler = Traced::from(scheduler);
        let mut locked = Locked::new(scheduler, files, options.depth, bounds);
        let slots = Slots::new();
        let ring = Ring::new(|| {
            slots.name(slots.take(&mut locked.free).expect("the first slots are free"))
        });
        // Nobody else would ever wake them.
        let wake_all = {
            let (places, quiet) = (Arc::clone(&places), Arc::clone(&quiet));
            let (published, timer) = (Arc::clone(&published), timer.clone());
            move || {
                places.wake_all();
                quiet.wake();
                published.announce();
                timer.iter().for_each(|timer| timer.ring());
            }
        };
        Ok(Self {
            shared: Arc::new(Shared {
                lock: Lock::new(locked, wake_all),
                ring,
                ends: Ring::new(Name::default),
                attendance: AtomicUsize::new(0),
                slots,
                delivery,
                clock: Clock::start(),
                sleeper: Sleeper::default(),
                timer,
                places,
                quiet,
                quiet_wanted: AtomicU32::new(0),
                published,
                crowded: AtomicBool::new(bounds.least() <= ENTRIES),
                urgent: AtomicBool::new(true),
                draining: AtomicU32::new(0),
                maker: Maker::this_process(),
                made_with: (inner(options), classes),
            }),
        })
    }
}
