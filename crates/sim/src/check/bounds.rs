//! What each policy states about who goes first, and about how often a request is passed over.
//!
//! | policy | stated | checked |
//! |---|---|---|
//! | TO | arrival order | the oldest leaves, alone |
//! | TO-agg | the run with the oldest leaves | the batch has the oldest; so k runs in front let at most k batches pass |
//! | SJF | smallest queue, or the oldest once it has aged | exactly that |
//! | MLF | eligible within V visits; a visit of a queue lets one batch of each other pass; sweep | (V + (k + 1)(B + 1) + 1) · M batches |
//! | aIOLi | (P + 1)(B + 1) + ⌈A / quantum_bytes_min⌉ batches up to and with its own | the same where nothing waits |
//! | aIOLi, waiting | (k + 1)(B + 1) + ⌈A / quantum_bytes_min⌉ batches of its own queue, and one wait of at most H + W before each | as many, and with b of them gone, and e ended early, it has been held for (b + e + 1)(H + W) at most |
//! | HBRR | a turn of every other queue between two of its own; sweep | its own ranges and as many turns of the others |
//! | SW | by window, class, arrival; strict, after the window | exactly that |
//! | NOOP | in the order of becoming ready | exactly that |
//! | lane | of 17 in a row one is the oldest | (k + 1) · 17 from the lane |
//!
//! Where classes share, every class has a policy and a lane of its own, and all of this holds inside it.
//! Where they share by SW, a policy has requests of one window at a time, so what is passed is passed by
//! the windows: of every batch it is checked then that nothing goes before it by window and class.
//!
//! P: requests that waited at the policy when it came; k: of these, older ones in its own queue (a
//! file, direction and class); M: queues; B: `passes_max`; A: the largest run, or the request if
//! that is larger; V: visits until a quantum covers A; W: `wait_max`; H: `hold_max`. (A request that
//! ends early has its queue forget what it knew, also that it has waited.) A request that the guard releases later but
//! that is older counts among P and k from then on, because it is entitled to go first.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::policies::mlf::MlfGrowth;
use forebay_sched::sharing::SwSettings;
use forebay_sched::{Accepted, Access, PolicyName, PolicySettings, Request, SchedulerOptions};
use forebay_units::{Bytes, ClassId, Direction, FileIndex, Nanos, Timestamp};

use super::Promise;
use super::draw::{CLASSES, Setup};
use super::run::Broken;

/// How many in a row may pass the oldest of the lane.
const LANE_PASSES_MAX: u64 = 16;

type Queue = (FileIndex, Direction, ClassId);

/// A request that waits at the policy or in the lane.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrived: Timestamp,
    queue: Queue,
    class: ClassId,
    /// With whom it stands in line: its class, if classes share; all others, if not.
    line: u32,
    length: Bytes,
    /// Its place in the order of becoming ready.
    place: u64,
    /// Requests that may go first, in all and in its own queue.
    ahead: u64,
    ahead_in_queue: u64,
    /// Batches that have left since it came, and those of its own queue.
    passed: u64,
    passed_in_queue: u64,
    /// Time in which nothing left, because something better might come.
    held: Nanos,
    /// Requests of its queue that ended early: what the queue knew is forgotten, its last wait too.
    ended_early: u64,
}

/// Everything that waits, and what may still pass it.
pub(super) struct Tracker {
    policy: PolicyName,
    own_policy: PolicyName,
    options: SchedulerOptions,
    settings: PolicySettings,
    /// M, or more.
    queues: u64,
    /// Whether every class has a policy and a lane of its own.
    is_shared: bool,
    /// By which windows classes share.
    windows: Option<SwSettings>,
    /// By arrival.
    at_policy: BTreeMap<u64, Waiting>,
    in_lane: BTreeMap<u64, Waiting>,
    places: u64,
}

/// Whether a request goes by arrival alone.
pub(super) fn skips_policy(options: &SchedulerOptions, request: &Request) -> bool {
    match request.access {
        Access::Alone | Access::Sync => true,
        Access::Read | Access::Write => {
            options.large_bytes.is_some_and(|large| request.range.length() > large)
        }
    }
}

fn queue_of(request: &Request) -> Queue {
    (request.file, request.access.direction(), request.class)
}

impl Tracker {
    pub(super) fn new(policy: PolicyName, setup: &Setup) -> Self {
        Self {
            policy,
            own_policy: policy,
            options: setup.options,
            settings: setup.settings,
            queues: match setup.sharing {
                Some(_) => setup.files * 2,
                None => setup.files * setup.classes * 2,
            },
            is_shared: setup.sharing.is_some(),
            windows: setup.sharing.and_then(|sharing| sharing.discipline.sw()),
            at_policy: BTreeMap::new(),
            in_lane: BTreeMap::new(),
            places: 0,
        }
    }

    /// A request may go from now on.
    pub(super) fn ready(&mut self, seq: u64, arrived: Timestamp, request: &Request) {
        let (queue, line) = (queue_of(request), self.line_of(request));
        let waiting = match skips_policy(&self.options, request) {
            true => &mut self.in_lane,
            false => &mut self.at_policy,
        };
        // It has the right to go before the younger ones.
        let in_line = |other: &Waiting| other.line == line;
        for (_, younger) in waiting.range_mut(seq..).filter(|(_, younger)| in_line(younger)) {
            younger.ahead += 1;
            younger.ahead_in_queue += u64::from(younger.queue == queue);
        }
        let in_queue = waiting.values().filter(|other| other.queue == queue).count();
        let it = Waiting {
            arrived,
            queue,
            class: request.class,
            line,
            length: request.range.length(),
            place: self.places,
            ahead: waiting.values().filter(|other| in_line(other)).count() as u64,
            ahead_in_queue: in_queue as u64,
            passed: 0,
            passed_in_queue: 0,
            held: Nanos::ZERO,
            ended_early: 0,
        };
        self.places += 1;
        waiting.insert(seq, it);
    }

    pub(super) fn cancelled(&mut self, seq: u64) {
        self.at_policy.remove(&seq);
        self.in_lane.remove(&seq);
    }

    /// Another policy begins with everything that waits, in the order of arrival; `None` is the run's own.
    pub(super) fn switched(&mut self, name: Option<PolicyName>) {
        self.policy = name.unwrap_or(self.own_policy);
        let mut in_queue: BTreeMap<Queue, u64> = BTreeMap::new();
        let mut in_line: BTreeMap<u32, u64> = BTreeMap::new();
        for waiting in self.at_policy.values_mut() {
            let in_queue = in_queue.entry(waiting.queue).or_default();
            let ahead = in_line.entry(waiting.line).or_default();
            (waiting.ahead, waiting.ahead_in_queue) = (*ahead, *in_queue);
            *ahead += 1;
            (waiting.passed, waiting.passed_in_queue, waiting.held) = (0, 0, Nanos::ZERO);
            waiting.place = self.places;
            *in_queue += 1;
            self.places += 1;
        }
    }

    fn line_of(&self, request: &Request) -> u32 {
        if self.is_shared { request.class.0 } else { 0 }
    }

    /// Which classes have something that may go.
    pub(super) fn ready_classes(&self) -> [bool; CLASSES] {
        let mut ready = [false; CLASSES];
        for waiting in self.at_policy.values().chain(self.in_lane.values()) {
            ready[waiting.class.0 as usize] = true;
        }
        ready
    }

    /// Why this batch should not have been the one under SW: by the end of its window, and unless
    /// some class is held back, by who comes first.
    pub(super) fn out_of_window(
        &self,
        now: Timestamp,
        members: &[Accepted],
        has_order: bool,
    ) -> Option<String> {
        let windows = self.windows?;
        let key = |waiting: &Waiting| (windows.window_of(waiting.arrived), waiting.class);
        let all = || self.at_policy.values().chain(self.in_lane.values());
        let first = all().map(key).min()?;
        members.iter().find_map(|member| {
            let own = (windows.window_of(member.arrived), member.request.class);
            let tag = member.request.tag;
            if let Some(end) = windows.wait_of(now, own.0) {
                let text = format!("{tag} left at {} ns; its window ends at {} ns", now.0, end.0);
                return Some(text);
            }
            let is_early = has_order && own != first;
            is_early.then(|| format!("{tag} of window and class {own:?} left before {first:?}"))
        })
    }

    /// A request has left because another class waits for it: nobody has decided to pass others.
    pub(super) fn left_out_of_turn(&mut self, members: &[Accepted]) {
        members.iter().for_each(|member| self.cancelled(member.request.tag));
    }

    /// There was room, and policies have waited for so long: every queue was waiting, and has one
    /// wait between two of its batches.
    pub(super) fn held(&mut self, time: Nanos, broken: &mut Vec<Broken>) {
        let longest = self.settings.limits.wait_max + self.settings.aioli.hold_max;
        for (seq, waiting) in &mut self.at_policy {
            waiting.held += time;
            let most = (waiting.passed_in_queue + waiting.ended_early + 1) * longest.0;
            let is_known = self.policy == PolicyName::Aioli && self.windows.is_none();
            if is_known && waiting.held.0 > most {
                let text = format!(
                    "{}: {seq} was held for {} ns while {} batches of its queue left",
                    self.policy, waiting.held.0, waiting.passed_in_queue
                );
                broken.push((Promise::Bound, text));
            }
        }
    }

    /// A request has moved less than it asked for.
    pub(super) fn ended_early(&mut self, request: &Request) {
        let queue = queue_of(request);
        for waiting in self.at_policy.values_mut().filter(|waiting| waiting.queue == queue) {
            waiting.ended_early += 1;
        }
    }

    /// A batch has left: was it the right one, and whom has it passed?
    pub(super) fn left(&mut self, now: Timestamp, members: &[Accepted], broken: &mut Vec<Broken>) {
        let Some(first) = members.first() else { return };
        let (seq, line) = (first.request.tag, self.line_of(&first.request));
        if skips_policy(&self.options, &first.request) {
            self.in_lane.remove(&seq);
            if self.windows.is_some() {
                return;
            }
            for (other, waiting) in self.in_lane.iter_mut().filter(|(_, it)| it.line == line) {
                waiting.passed += 1;
                let most = (waiting.ahead + 1) * (LANE_PASSES_MAX + 1) - 1;
                if waiting.passed > most {
                    broken.push((
                        Promise::Bound,
                        format!("{other} was passed {most} times in the lane"),
                    ));
                }
            }
            return;
        }
        if self.windows.is_some() {
            return members.iter().for_each(|member| self.cancelled(member.request.tag));
        }
        if let Some(text) = self.objection(now, members) {
            broken.push((Promise::Bound, format!("{}: {text}", self.policy)));
        }
        for member in members {
            self.at_policy.remove(&member.request.tag);
        }
        let queue = queue_of(&first.request);
        for waiting in self.at_policy.values_mut().filter(|waiting| waiting.line == line) {
            waiting.passed += 1;
            waiting.passed_in_queue += u64::from(waiting.queue == queue);
        }
        for (other, waiting) in &self.at_policy {
            if self.is_overdue(waiting) {
                let text = format!(
                    "{}: {other} waited for {} batches, with {} ahead of it",
                    self.policy, waiting.passed, waiting.ahead
                );
                broken.push((Promise::Bound, text));
            }
        }
    }

    /// Why this batch should not have been the one, for policies whose order is known exactly.
    fn objection(&self, now: Timestamp, members: &[Accepted]) -> Option<String> {
        let has = |seq: &u64| members.iter().any(|member| member.request.tag == *seq);
        let is_alone = members.len() == 1;
        let seq = members[0].request.tag;
        let line = self.line_of(&members[0].request);
        let in_line = || self.at_policy.iter().filter(move |(_, waiting)| waiting.line == line);
        let (oldest, its) = in_line().next()?;
        match self.policy {
            PolicyName::To if !is_alone || seq != *oldest => {
                Some(format!("{seq} left before {oldest}, which was older"))
            }
            PolicyName::ToAgg if !has(oldest) => {
                Some(format!("{seq} left in a batch without {oldest}, the oldest"))
            }
            PolicyName::Noop => {
                let (first, _) = in_line().min_by_key(|(_, waiting)| waiting.place)?;
                (!is_alone || seq != *first)
                    .then(|| format!("{seq} left before {first}, ready earlier"))
            }
            PolicyName::Sw => {
                let windows = &self.settings.sw;
                let key = |(seq, waiting): (&u64, &Waiting)| {
                    (windows.window_of(waiting.arrived), waiting.class, *seq)
                };
                let (window, _, first) = in_line().map(key).min()?;
                if let Some(end) = windows.wait_of(now, window) {
                    return Some(format!("{seq} left before {} ns, its window's end", end.0));
                }
                (!is_alone || seq != first).then(|| format!("{seq} left before {first}"))
            }
            PolicyName::Sjf if now - its.arrived >= self.settings.sjf.age_max => {
                (!has(oldest)).then(|| format!("{seq} left before {oldest}, which has aged"))
            }
            PolicyName::Sjf => {
                let mut bytes: BTreeMap<Queue, u64> = BTreeMap::new();
                for (_, waiting) in in_line() {
                    *bytes.entry(waiting.queue).or_default() += waiting.length.0;
                }
                let own = bytes.get(&self.at_policy.get(&seq)?.queue)?;
                let least = bytes.values().min()?;
                (own != least).then(|| format!("{seq} left of a queue of {own} bytes, not {least}"))
            }
            _ => None,
        }
    }

    /// Whether more batches have passed a request than its policy lets pass.
    fn is_overdue(&self, waiting: &Waiting) -> bool {
        let largest = self.settings.limits.run_bytes_max.max(waiting.length).0;
        let older = waiting.ahead_in_queue + 1;
        match self.policy {
            PolicyName::Mlf => {
                let visits = match self.settings.mlf.growth {
                    MlfGrowth::Add(step) => largest.div_ceil(step.0),
                    MlfGrowth::Double(first) => {
                        1 + u64::from(
                            largest.div_ceil(first.0).next_power_of_two().trailing_zeros(),
                        )
                    }
                };
                let passes = u64::from(self.settings.mlf.passes_max) + 1;
                waiting.passed > (visits + older * passes + 1) * self.queues
            }
            PolicyName::Aioli => {
                let passes = u64::from(self.settings.aioli.passes_max) + 1;
                let steps = largest.div_ceil(self.settings.aioli.quantum_bytes_min.0);
                match self.settings.limits.wait_max {
                    Nanos::ZERO => waiting.passed > (waiting.ahead + 1) * passes + steps - 1,
                    // While its queue waits, others go on: how many is a question of time.
                    _ => waiting.passed_in_queue > older * passes + steps,
                }
            }
            PolicyName::Hbrr => {
                let passes = u64::from(self.settings.hbrr.passes_max);
                // Every batch is at least a range, and at least a grain of bytes.
                let (ranges, most) = match self.settings.hbrr.quantum {
                    HbrrQuantum::Ranges(ranges) => (u64::from(ranges), u64::from(ranges)),
                    HbrrQuantum::Bytes(bytes) => {
                        let batch = self.settings.limits.batch_bytes_max;
                        (1, (bytes + batch).0.div_ceil(super::draw::GRAIN.0))
                    }
                };
                let own = older * (passes + most);
                let turns = own.div_ceil(ranges) + 1;
                waiting.passed > own + turns * (self.queues - 1) * most
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_device::SplitMix64;
    use forebay_sched::{GuardMode, RequestId};
    use forebay_units::{ByteRange, ClientId, Offset};

    fn request(tag: u64) -> Request {
        let range = ByteRange::new(Offset(tag << 20), Bytes(512));
        let (file, client, class) = (FileIndex(0), ClientId(0), ClassId(0));
        Request { tag, file, access: Access::Read, range, client, class }
    }

    #[test]
    fn a_request_is_held_for_one_wait_for_each_batch_of_its_queue() {
        let mut setup = Setup::draw(&mut SplitMix64::new(1), GuardMode::Overlap);
        setup.sharing = None;
        setup.options.large_bytes = None;
        setup.settings.limits.wait_max = Nanos(900);
        setup.settings.aioli.hold_max = Nanos(100);
        let mut tracker = Tracker::new(PolicyName::Aioli, &setup);
        (0..3).for_each(|tag| tracker.ready(tag, Timestamp(0), &request(tag)));
        let held = |tracker: &mut Tracker, time| {
            let mut broken = Vec::new();
            tracker.held(Nanos(time), &mut broken);
            broken.len()
        };
        assert_eq!(held(&mut tracker, 1000), 0);
        let accepted = |tag| Accepted {
            id: RequestId(tag),
            seq: tag,
            arrived: Timestamp(0),
            request: request(tag),
        };
        tracker.left(Timestamp(0), &[accepted(0)], &mut Vec::new());
        assert_eq!(held(&mut tracker, 1000), 0, "a batch of its queue has left");
        tracker.ended_early(&request(0));
        assert_eq!(held(&mut tracker, 1000), 0, "and has ended early");
        assert_eq!(held(&mut tracker, 1), 2, "both that are left");
    }
}
