//! One run: a scheduler, everything that was submitted to it, and a store that misbehaves.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_device::SplitMix64;
use forebay_sched::sharing::{CostModel, Discipline, WindowIdle, Work};
use forebay_sched::{
    Accepted, Access, Admission, Batch, Cancellation, Decision, GuardMode, PolicyName, Rejected,
    Request, RequestId, Room, Scheduler,
};
use forebay_units::{Bytes, ClassId, Nanos, Offset, Timestamp};

use crate::noise::stream;

use super::bounds::{Tracker, skips_policy};
use super::content::{self, Content, Deed, grains, is_write};
use super::draw::{CLASSES, GRAIN, Setup, one_of};
use super::fairness::Fairness;
use super::{Checked, Make, Plan, Promise};

/// A promise, and what happened.
pub(super) type Broken = (Promise, String);

/// More would say the same again: of each promise, and until a run is given up.
const BROKEN_MAX: usize = 4;
const BROKEN_GIVE_UP: usize = 400;

struct Flight {
    accepted: Accepted,
    /// Which batch it is of.
    batch: u64,
    /// The first half of its bytes has moved.
    is_torn: bool,
}

/// A wait that the scheduler asked for, until something else happens.
#[derive(Clone, Copy)]
struct Waited {
    since: Timestamp,
    until: Timestamp,
    was_alone: bool,
    /// Policies wait for better batches; no limit and no window is what is waited for.
    is_policys: bool,
}

pub(super) struct Run {
    setup: Setup,
    make: Make,
    promise: GuardMode,
    random: SplitMix64,
    scheduler: Scheduler,
    tracker: Tracker,
    /// In plain runs.
    fairness: Option<Fairness>,
    /// Requests that have left in another class's turn.
    boosted: u64,
    now: Timestamp,
    content: Content,
    deeds: Vec<Deed>,
    ids: Vec<RequestId>,
    flights: Vec<Flight>,
    batches_in_flight: usize,
    batch_count: u64,
    dispatch_count: u32,
    last_end: Offset,
    waited: Option<Waited>,
    batch: Batch,
    checked: Checked,
    broken: Vec<Broken>,
}

impl Run {
    pub(super) fn new(plan: &Plan, make: Make) -> Self {
        // The same seed is another run for every policy and guard mode.
        let mut random = stream(plan.seed, plan.policy as u64, plan.guard as u64);
        let setup = Setup::draw(&mut random, plan.guard);
        Self {
            scheduler: scheduler(&setup, make),
            tracker: Tracker::new(plan.policy, &setup),
            fairness: setup
                .sharing
                .filter(|sharing| setup.is_plain && !sharing.discipline.has_windows())
                .map(Fairness::new),
            boosted: 0,
            make,
            promise: plan.promise,
            random,
            now: Timestamp(0),
            content: content::empty(),
            deeds: Vec::new(),
            ids: Vec::new(),
            flights: Vec::new(),
            batches_in_flight: 0,
            batch_count: 0,
            dispatch_count: 0,
            last_end: Offset(0),
            waited: None,
            batch: Batch::new(),
            checked: Checked::default(),
            broken: Vec::new(),
            setup,
        }
    }

    pub(super) fn run(mut self) -> (Checked, Vec<Broken>) {
        let mut attempts = 0;
        while self.deeds.len() < self.setup.requests
            && attempts < 100_000
            && self.broken.len() < BROKEN_GIVE_UP
        {
            attempts += 1;
            self.step();
            self.check_counts();
        }
        self.empty_out();
        content::compare(self.promise, &self.deeds, &self.content, &mut self.broken);
        let mut said: BTreeMap<Promise, usize> = BTreeMap::new();
        self.broken.retain(|(promise, _)| {
            let count = said.entry(*promise).or_default();
            *count += 1;
            *count <= BROKEN_MAX
        });
        let stats = self.scheduler.stats();
        self.checked.batches = stats.batches;
        self.checked.merged = stats.merged;
        self.checked.blocked = stats.blocked;
        self.checked.switches = stats.switches;
        (self.checked, self.broken)
    }

    fn step(&mut self) {
        let submits = self.setup.submits;
        match self.random.below(16) {
            step if step < submits => self.submit(),
            step if step < submits + 3 => _ = self.dispatch(),
            15 if self.setup.has_cancels => self.cancel(),
            14 if self.setup.has_switches && self.random.below(8) == 0 => self.switch(),
            13 => self.now = self.now + Nanos(self.random.below(2_000_000)),
            _ => self.progress(),
        }
    }

    /// Lets everything leave that is still there; whatever remains was lost.
    fn empty_out(&mut self) {
        for _ in 0..100_000 {
            while self.dispatch() {}
            if self.flights.is_empty() && self.waited.is_none() {
                break;
            }
            self.progress();
            self.check_counts();
        }
        let left = self.scheduler.queued_count() + self.scheduler.in_flight_count();
        let lost = self.deeds.iter().filter(|deed| !deed.is_over).count();
        if left > 0 || lost > 0 {
            self.say(Promise::Count, format!("{left} requests never left, {lost} never ended"));
        }
    }

    fn say(&mut self, promise: Promise, text: String) {
        self.broken.push((promise, text));
    }

    fn room(&self) -> Room {
        if self.batches_in_flight < self.setup.depth { Room::Free } else { Room::Full }
    }

    fn submit(&mut self) {
        let tag = self.deeds.len() as u64;
        let request = self.setup.request(&mut self.random, tag, self.last_end);
        self.last_end = request.range.end;
        let admission = match self.scheduler.submit(self.now, request, self.room()) {
            Ok(admission) => admission,
            Err(Rejected::QueueFull) => return self.progress(),
            Err(refusal) => return self.say(Promise::Count, format!("{request:?}: {refusal:?}")),
        };
        self.checked.requests += 1;
        self.end_wait();
        self.deeds.push(Deed {
            request,
            dispatched: None,
            moved: grains(&request),
            seen: Vec::new(),
            is_over: false,
        });
        self.ids.push(admission.id());
        match admission {
            Admission::Bypassed(accepted) => {
                self.batch_count += 1;
                self.batches_in_flight += 1;
                self.leave(&accepted);
            }
            Admission::Queued(_) => self.tracker.ready(tag, self.now, &request),
            Admission::Blocked(_) => {}
        }
        self.note_backlog();
    }

    /// Which classes have something ready, for fairness.
    fn note_backlog(&mut self) {
        if let Some(fairness) = &mut self.fairness {
            fairness.ready(self.tracker.ready_classes());
        }
    }

    /// How many requests have left in another class's turn since the last question.
    fn newly_boosted(&mut self) -> u64 {
        if self.setup.sharing.is_none() {
            return 0;
        }
        let boosted = self.scheduler.classes(self.now).map(|class| class.counts.boosted).sum();
        boosted - core::mem::replace(&mut self.boosted, boosted)
    }

    fn check_share(&mut self, batch: &Batch) {
        let Some(fairness) = &mut self.fairness else { return };
        let members = batch.members();
        let bytes = members.iter().map(|member| member.request.range.length().0).sum();
        let requests = members.len() as u32;
        let work = Work { direction: batch.direction(), requests, bytes: Bytes(bytes) };
        let class = members[0].request.class.0 as usize;
        let unfair = fairness.left(class, CostModel::BYTES.cost(work));
        self.broken.extend(unfair.map(|text| (Promise::Share, text)));
    }

    /// Whether a batch left.
    fn dispatch(&mut self) -> bool {
        if self.room() == Room::Full {
            return false;
        }
        if let Some(Waited { until, .. }) = self.waited {
            self.now = self.now.max(until);
        }
        let mut batch = core::mem::take(&mut self.batch);
        let decision = self.scheduler.next(self.now, &mut batch);
        let was_waited = self.end_wait();
        match decision {
            Decision::Dispatch => {
                self.check_batch(&batch);
                self.check_window(&batch);
                self.batch_count += 1;
                self.batches_in_flight += 1;
                if self.newly_boosted() > 0 {
                    self.tracker.left_out_of_turn(batch.members());
                } else {
                    self.tracker.left(self.now, batch.members(), &mut self.broken);
                }
                self.check_share(&batch);
                self.note_backlog();
                batch.members().iter().for_each(|accepted| self.leave(accepted));
            }
            Decision::Wait { until } => self.check_wait(until, was_waited),
            Decision::Idle => {
                let (queued, blocked) =
                    (self.scheduler.queued_count(), self.scheduler.blocked_count());
                if queued != blocked {
                    let ready = queued - blocked;
                    self.say(Promise::Wait, format!("idle with {ready} requests ready"));
                }
            }
        }
        self.batch = batch;
        decision == Decision::Dispatch
    }

    /// What leaves in its class's turn is of the server whose window it is, where windows are not
    /// lent; or of the window of arrival, and there of the class, that comes first.
    fn check_window(&mut self, batch: &Batch) {
        let Some(sharing) = self.setup.sharing else { return };
        let class = batch.members()[0].request.class.0;
        let text = match sharing.discipline {
            Discipline::Sfq | Discipline::Drr => return,
            Discipline::Twins(twins) => {
                let due = twins.target_at(self.now);
                let is_out = twins.idle == WindowIdle::Strict && class % twins.targets != due;
                is_out.then(|| format!("class {class} left at {} ns, in window {due}", self.now.0))
            }
            Discipline::Sw(_) => {
                // A class that a limit or its policy holds back lets others go.
                let has_order =
                    sharing.limit.is_none() && self.setup.policy_wait_max() == Nanos::ZERO;
                self.tracker.out_of_window(self.now, batch.members(), has_order)
            }
        };
        self.broken.extend(text.map(|text| (Promise::Share, text)));
    }

    /// A wait is over, because something has happened or because it was asked again.
    fn end_wait(&mut self) -> Option<Waited> {
        let waited = self.waited.take()?;
        if waited.is_policys {
            let held = waited.until.min(self.now) - waited.since;
            self.tracker.held(held, &mut self.broken);
        }
        Some(waited)
    }

    /// With nothing in flight a wait is one for a better batch, and when it is over something leaves.
    fn check_wait(&mut self, until: Timestamp, before: Option<Waited>) {
        let (now, sharing) = (self.now, self.setup.sharing);
        let windows = sharing.and_then(|sharing| sharing.window_wait_max());
        if sharing.is_some_and(|sharing| sharing.limit.is_some()) || windows.is_some() {
            // A limit may be waited for as long as it says; a window until it comes.
            let has_limit = sharing.is_some_and(|sharing| sharing.limit.is_some());
            let round = windows.filter(|_| !has_limit);
            let longest = round.map(|round| round + self.setup.policy_wait_max());
            if until <= now || longest.is_some_and(|longest| until - now > longest) {
                let text =
                    format!("at {} ns it waits until {} ns, {longest:?} at most", now.0, until.0);
                self.say(Promise::Wait, text);
            }
            let until = until.max(now);
            self.waited = Some(Waited { since: now, until, was_alone: false, is_policys: false });
            return;
        }
        let was_alone = self.flights.is_empty();
        let longest = match was_alone {
            true => self.setup.lone_wait_max(),
            false => self.setup.policy_wait_max(),
        };
        if until <= now || until - now > longest {
            let text =
                format!("at {} ns it waits until {} ns, {longest:?} at most", now.0, until.0);
            self.say(Promise::Wait, text);
        }
        if before.is_some_and(|before| before.was_alone) && was_alone {
            let text = format!("at {} ns a wait is over and another one begins", now.0);
            self.say(Promise::Wait, text);
        }
        let until = until.max(now);
        self.waited = Some(Waited { since: now, until, was_alone, is_policys: true });
    }

    /// A request is in flight.
    fn leave(&mut self, accepted: &Accepted) {
        let seq = accepted.request.tag as usize;
        let deed = &mut self.deeds[seq];
        if deed.dispatched.is_some() || deed.is_over {
            return self.say(Promise::Count, format!("request {seq} left twice"));
        }
        deed.dispatched = Some(self.dispatch_count);
        self.dispatch_count += 1;
        self.check_order(seq);
        let batch = self.batch_count;
        self.flights.push(Flight { accepted: *accepted, batch, is_torn: false });
    }

    /// Moves half of some request's bytes; the second half ends it.
    fn progress(&mut self) {
        self.now = self.now + Nanos(self.random.below(20_000));
        if self.flights.is_empty() {
            return;
        }
        let index = self.random.below(self.flights.len() as u64) as usize;
        let Flight { accepted, is_torn, batch } = self.flights[index];
        self.flights[index].is_torn = true;
        let seq = accepted.request.tag as usize;
        let (all, access) = (grains(&accepted.request), accepted.request.access);
        let middle = all.start + all.len() / 2;
        let fails = is_torn && self.setup.has_failures && self.random.below(12) == 0;
        let half = match (is_torn, fails) {
            (false, _) => all.start..middle,
            (true, false) => middle..all.end,
            (true, true) => middle..middle,
        };
        let grains = &mut self.content[accepted.request.file.0 as usize][half.clone()];
        match access {
            Access::Read => self.deeds[seq].seen.extend_from_slice(grains),
            Access::Write | Access::Alone => grains.fill(seq as u32),
            Access::Sync => {}
        }
        if !is_torn {
            return;
        }
        let deed = &mut self.deeds[seq];
        (deed.is_over, deed.moved) = (true, all.start..half.end);
        self.flights.swap_remove(index);
        self.end_wait();
        if !self.flights.iter().any(|flight| flight.batch == batch) {
            self.batches_in_flight -= 1;
        }
        self.checked.failed += u64::from(fails);
        let moved = Bytes((half.end - all.start) as u64 * GRAIN.0);
        if moved < accepted.request.range.length() {
            self.tracker.ended_early(&accepted.request);
        }
        let ended = match fails && self.random.below(2) == 0 {
            true => self.scheduler.fail(self.now, accepted.id, moved),
            false => self.scheduler.complete(self.now, accepted.id, moved),
        };
        if ended != Some(accepted) {
            self.say(Promise::Count, format!("request {seq} ended as {ended:?}"));
        }
        if self.scheduler.complete(self.now, accepted.id, moved).is_some() {
            self.say(Promise::Count, format!("request {seq} ended twice"));
        }
        self.note_ready();
    }

    fn note_ready(&mut self) {
        for accepted in self.scheduler.made_ready() {
            self.tracker.ready(accepted.request.tag, accepted.arrived, &accepted.request);
        }
        self.note_backlog();
    }

    fn cancel(&mut self) {
        let count = self.deeds.len();
        if count == 0 {
            return;
        }
        let seq = count - 1 - self.random.below(count.min(40) as u64) as usize;
        let deed = &self.deeds[seq];
        let expected = match (deed.is_over, deed.dispatched) {
            (true, _) => Cancellation::Unknown,
            (false, Some(_)) => Cancellation::InFlight,
            (false, None) => Cancellation::Cancelled,
        };
        let got = self.scheduler.cancel(self.now, self.ids[seq]);
        if got != expected {
            self.say(Promise::Count, format!("cancelling {seq}: {got:?}, not {expected:?}"));
        }
        if got == Cancellation::Cancelled {
            self.end_wait();
            self.checked.cancelled += 1;
            self.deeds[seq].is_over = true;
            self.tracker.cancelled(seq as u64);
            self.note_ready();
        }
    }

    /// Puts another policy in charge, or a fresh one of the same.
    fn switch(&mut self) {
        let name = match self.random.below(2) {
            0 => None,
            _ => Some(one_of(&mut self.random, &PolicyName::ALL)),
        };
        let make = name.map_or(self.make, Make::Named);
        self.end_wait();
        let settings = &self.setup.settings;
        if self.setup.sharing.is_some() {
            if let Err(error) = self.scheduler.switch_policies(self.now, make.source(settings)) {
                self.say(Promise::Count, format!("policies are not switched: {error}"));
            }
        } else {
            let old = self.scheduler.switch_policy(self.now, make.policy(settings));
            if old.queued_count() > 0 {
                self.say(Promise::Count, format!("{} still has requests", old.name()));
            }
        }
        self.tracker.switched(name);
    }

    /// Whom a request that has just left should not have passed, and whom it should not be beside.
    fn check_order(&mut self, seq: usize) {
        let promise = self.promise;
        let request = self.deeds[seq].request;
        let offends = |other: usize, deed: &Deed| {
            let it = &deed.request;
            if other == seq || deed.is_over || it.file != request.file {
                return false;
            }
            let is_earlier = other < seq;
            if request.access == Access::Sync {
                return is_earlier && is_write(it);
            }
            if it.access == Access::Sync || !conflict(promise, it, &request) {
                return false;
            }
            match promise {
                GuardMode::Client if it.client != request.client => deed.dispatched.is_some(),
                _ => is_earlier || deed.dispatched.is_some(),
            }
        };
        let mut numbered = self.deeds.iter().enumerate();
        let offender = numbered.find(|(other, deed)| offends(*other, deed)).map(|(other, _)| other);
        if let Some(other) = offender {
            self.say(Promise::Order, format!("{seq} left although {other} had not ended"));
        }
    }

    /// One file, one direction, one class, in offset order, without a gap, within its limits.
    fn check_batch(&mut self, batch: &Batch) {
        let members = batch.members();
        let limits = self.setup.settings.limits;
        let [first, rest @ ..] = members else {
            return self.say(Promise::Batch, "a batch of nothing".into());
        };
        let it = &first.request;
        let mut end = it.range.end;
        let mut is_right = rest.is_empty() || !skips_policy(&self.setup.options, it);
        for member in rest {
            let other = &member.request;
            is_right &= (other.file, other.access, other.class) == (it.file, it.access, it.class);
            is_right &= match it.access {
                Access::Read => other.range.start <= end && other.range.start >= it.range.start,
                _ => other.range.start == end,
            };
            end = end.max(other.range.end);
        }
        let bytes: u64 = members.iter().map(|member| member.request.range.length().0).sum();
        is_right &=
            rest.is_empty() || bytes <= limits.batch_bytes_max.0.max(limits.run_bytes_max.0);
        if !is_right {
            let members: Vec<_> =
                members.iter().map(|member| (member.request.tag, member.request.range)).collect();
            self.say(Promise::Batch, format!("a batch of {members:?}"));
        }
    }

    fn check_counts(&mut self) {
        let stats = self.scheduler.stats();
        let here = (self.scheduler.queued_count() + self.scheduler.in_flight_count()) as u64;
        let ended = stats.completed + stats.cancelled + stats.drained;
        if stats.submitted != ended + here {
            let text = format!("{} accepted, {ended} ended, {here} here", stats.submitted);
            self.say(Promise::Count, text);
        }
        if self.scheduler.in_flight_count() != self.flights.len() {
            let text = format!(
                "{} in flight, not {}",
                self.scheduler.in_flight_count(),
                self.flights.len()
            );
            self.say(Promise::Count, text);
        }
    }
}

/// The scheduler that a run is about.
fn scheduler(setup: &Setup, make: Make) -> Scheduler {
    let Some(sharing) = &setup.sharing else {
        return Scheduler::new(setup.options, make.policy(&setup.settings));
    };
    let source = make.source(&setup.settings);
    let mut scheduler = Scheduler::with_classes(setup.options, sharing.options(), source);
    for class in 0..CLASSES {
        let id = ClassId(class as u32);
        let configured = scheduler.configure_class(Timestamp(0), id, sharing.share(class));
        debug_assert!(configured.is_ok(), "every drawn share is possible");
    }
    scheduler
}

/// Whether a guard mode keeps two requests of one file apart.
fn conflict(mode: GuardMode, a: &Request, b: &Request) -> bool {
    let share = mode == GuardMode::File || a.range.intersects(b.range);
    mode != GuardMode::None && share && (is_write(a) || is_write(b))
}
