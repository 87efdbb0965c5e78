//! Policies that follow a selector: it is told what the scheduler is told, and its switches are
//! carried out as adjustments, so that a recording has them.

use std::collections::HashMap;

use forebay_sched::ClassError;
use forebay_sched::request::{Accepted, Request};
use forebay_select::profile::{Dispatched, Refinement};
use forebay_select::{Auto, DeviceProfile, Part, Switch, SwitchReason};
use forebay_trace::{Adjustment, PolicyChoice};
use forebay_units::{ByteRange, Bytes, ClassId, Direction, Nanos, Timestamp};

use crate::engine::Engine;
use crate::store::{Io, Operation};

/// How long a selector is not asked at most while there is something to do.
const LOOK_EVERY: Nanos = Nanos::millis(100);

/// How often a selector is told what batches say of the device: a profile that moves all the time
/// would move its leaf all the time.
const REFINE_EVERY: Nanos = Nanos::secs(10);

/// A class whose reservation has been due for longer gets less than was promised to it: no time to
/// try policies.
const OVERDUE_MAX: Nanos = Nanos::millis(100);

/// A device as it is seen while batches go there.
#[derive(Debug)]
struct Watched {
    refinement: Refinement,
    directions: &'static [Direction],
    /// What is at the store, by its token.
    under_way: HashMap<u64, Dispatched>,
    next_report: Timestamp,
}

/// A selector, and what its choices are made of.
#[derive(Debug)]
pub(crate) struct Selection {
    auto: Auto,
    /// What policies are built with, apart from which.
    base: PolicyChoice,
    /// What somebody said is to be used, exactly.
    pinned: HashMap<Part, PolicyChoice>,
    /// When to ask next, whatever happens. It is set while there are requests, and left alone until
    /// it has come: an alarm that follows each of them would cost more than one that comes for nothing.
    next_look: Option<Timestamp>,
    watched: Option<Watched>,
}

impl Selection {
    pub(crate) fn new(auto: Auto, base: PolicyChoice) -> Self {
        Self { auto, base, pinned: HashMap::new(), next_look: None, watched: None }
    }

    /// A call that moves `length` bytes goes to the store.
    pub(crate) fn started(&mut self, now: Timestamp, io: &Io, length: u64) {
        let Some(watched) = &mut self.watched else { return };
        let (direction, start) = match io.operation {
            Operation::Read(start) => (Direction::Read, start),
            Operation::Write(start) => (Direction::Write, start),
            _ => return,
        };
        if watched.directions.contains(&direction) {
            let file = io.files.first().map_or(0, |file| u64::from(file.0));
            let range = ByteRange::new(start, Bytes(length));
            let noted = watched.refinement.dispatched(now, direction, file, range);
            watched.under_way.insert(io.token, noted);
        }
    }

    /// It is back; `counts` if it moved all that it was to move, in the device's time.
    pub(crate) fn finished(&mut self, now: Timestamp, io: &Io, counts: bool) {
        let Some(watched) = &mut self.watched else { return };
        if let (Some(noted), true) = (watched.under_way.remove(&io.token), counts) {
            watched.refinement.completed(now, noted);
        }
    }

    /// Tells the selector of the device as it is now.
    fn refine(&mut self, now: Timestamp) {
        let Some(watched) = self.watched.as_mut().filter(|watched| watched.next_report <= now)
        else {
            return;
        };
        watched.next_report = now + REFINE_EVERY;
        if let Some(profile) = watched.refinement.profile() {
            self.auto.set_device(profile);
        }
    }

    /// What was admitted, bypassing the policy or not.
    pub(crate) fn submitted(&mut self, now: Timestamp, request: &Request, is_bypassed: bool) {
        self.auto.submitted(now, request);
        if is_bypassed {
            self.auto.dispatched(now, request.class, 1);
        }
    }

    /// A batch has left, which is of one class.
    pub(crate) fn dispatched(&mut self, now: Timestamp, members: &[Accepted]) {
        if let Some(first) = members.first() {
            self.auto.dispatched(now, first.request.class, members.len());
        }
    }

    /// A request is over.
    pub(crate) fn ended(&mut self, now: Timestamp, request: &Request, moved: Bytes) {
        self.auto.ended(now, request, moved, true);
    }

    /// A request was taken back before it was dispatched.
    pub(crate) fn cancelled(&mut self, now: Timestamp, request: &Request) {
        self.auto.ended(now, request, Bytes::ZERO, false);
    }

    pub(crate) fn forget(&mut self, class: ClassId) {
        self.pinned.remove(&Part::Class(class));
        self.auto.forget(class);
    }

    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        self.next_look
    }

    /// A switch as the scheduler is told of it.
    fn adjustment(&self, switch: &Switch) -> Adjustment {
        let pinned = self.pinned.get(&switch.part).or_else(|| self.pinned.get(&Part::All));
        let choice = match (switch.reason, pinned) {
            (SwitchReason::Pinned, Some(choice)) => *choice,
            _ => PolicyChoice { policy: switch.policy, ..self.base },
        };
        match switch.part {
            Part::All => Adjustment::Policy(choice),
            Part::Class(class) => Adjustment::ClassPolicy(class, choice),
        }
    }
}

impl Engine {
    /// Has a selector choose the policies from now on, built as `base` but for the policy itself.
    /// The scheduler must have what the selector begins with, [`Auto::start`].
    pub fn select(&mut self, auto: Auto, base: PolicyChoice) {
        self.selection = Some(Box::new(Selection::new(auto, base)));
    }

    /// Has policies built as `base` says from now on, but for the policy itself, and wait at most
    /// `wait_max`. What the selector has seen and learned stays. Nothing happens where nothing chooses.
    ///
    /// # Errors
    /// The scheduler's; nothing has changed then.
    pub fn rebuild(
        &mut self,
        now: Timestamp,
        base: PolicyChoice,
        wait_max: Nanos,
    ) -> Result<(), ClassError> {
        let Some(selection) = &mut self.selection else { return Ok(()) };
        let base = PolicyChoice { policy: selection.auto.start(), ..base };
        self.scheduler.adjust(now, &Adjustment::Policy(base))?;
        selection.base = base;
        selection.auto.rebuilt(wait_max);
        Ok(())
    }

    /// Keeps the device's profile in step with what batches of these directions take, and tells the
    /// selector of it; not while the store [reads ahead](crate::store::Store::reads_ahead).
    pub fn refine(&mut self, profile: &DeviceProfile, directions: &'static [Direction]) {
        if let Some(selection) = &mut self.selection {
            selection.watched = Some(Watched {
                refinement: Refinement::new(profile),
                directions,
                under_way: HashMap::new(),
                next_report: Timestamp(0),
            });
        }
    }

    /// Leaves the policies as they are from now on.
    pub fn end_selection(&mut self) -> Option<Auto> {
        self.selection.take().map(|selection| selection.auto)
    }

    /// What chooses the policies, if anything does.
    pub fn selector(&self) -> Option<&Auto> {
        self.selection.as_ref().map(|selection| &selection.auto)
    }

    /// The same, to tell it of the device or of what was learned earlier.
    pub fn selector_mut(&mut self) -> Option<&mut Auto> {
        self.selection.as_mut().map(|selection| &mut selection.auto)
    }

    /// Has one policy used until told otherwise, or, with `None`, chosen again; with the next
    /// [`turn`](Self::turn). A pin of a class goes before one of all. Nothing happens where nothing
    /// chooses.
    pub fn pin(&mut self, part: Part, choice: Option<PolicyChoice>) {
        let Some(selection) = &mut self.selection else { return };
        if selection.pinned.get(&part) == choice.as_ref() {
            return;
        }
        match choice {
            Some(choice) => drop(selection.pinned.insert(part, choice)),
            None => drop(selection.pinned.remove(&part)),
        }
        selection.auto.pin(part, choice.map(|choice| choice.policy));
    }

    /// Carries out what the selector finds due.
    pub(crate) fn choose(&mut self, now: Timestamp) {
        let Some(selection) = &mut self.selection else { return };
        while let Some(switch) = selection.auto.decide(now) {
            let adjusted = self.scheduler.adjust(now, &selection.adjustment(&switch));
            if let (Err(_), Part::Class(class)) = (adjusted, switch.part) {
                // There is no place for it: its requests are ordered with those of all others.
                selection.forget(class);
            }
        }
    }

    /// Sees to it that the selector is asked soon enough.
    pub(crate) fn plan_look(&mut self, now: Timestamp) {
        let Some(selection) = &mut self.selection else { return };
        if selection.next_look.is_none_or(|at| at <= now) {
            selection.refine(now);
            let is_behind = self.scheduler.overdue(now) > OVERDUE_MAX;
            selection.auto.set_may_explore(!is_behind);
            let (queued, in_flight) =
                (self.scheduler.queued_count(), self.scheduler.in_flight_count());
            selection.next_look = (queued + in_flight > 0).then(|| now + LOOK_EVERY);
        }
    }
}
