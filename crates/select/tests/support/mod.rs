//! A store whose speed depends on the policy in force as a test says, and a selector before it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_sched::{Access, PolicyName, Request};
use forebay_select::profile::Curve;
use forebay_select::{
    Auto, AutoOptions, DeviceProfile, Feature, Leaf, Node, Part, Switch, SwitchReason, Tree,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// What a request takes under TO.
pub(crate) const SERVICE: u64 = 4_000_000;
pub(crate) const LENGTH: u64 = 8192;

pub(crate) fn leaf(policy: PolicyName, speedups: &[(PolicyName, f64)]) -> Leaf {
    let mut log_speedups = vec![(PolicyName::To, 0.0)];
    log_speedups.extend(speedups.iter().map(|(policy, speedup)| (*policy, speedup.ln())));
    Leaf { policy, log_speedups, support: 10 }
}

/// A tree of one leaf, which has these speedups.
pub(crate) fn stump(policy: PolicyName, speedups: &[(PolicyName, f64)]) -> Arc<Tree> {
    Arc::new(Tree::new(vec![Node::Leaf(leaf(policy, speedups))]).expect("one leaf is a tree"))
}

/// One leaf for writes, another for reads.
pub(crate) fn by_direction(writes: Leaf, reads: Leaf) -> Arc<Tree> {
    let split = Node::Split { feature: Feature::IsRead, threshold: 0.5, below: 1, above: 2 };
    Arc::new(Tree::new(vec![split, Node::Leaf(writes), Node::Leaf(reads)]).expect("it is a tree"))
}

pub(crate) fn device() -> DeviceProfile {
    let line = |fixed, byte| Curve::line(fixed, byte);
    DeviceProfile {
        sequential_read: line(0.0, 17.5),
        random_read: line(9e6, 17.5),
        sequential_write: line(0.0, 17.5),
        random_write: line(5e6, 17.5),
    }
}

pub(crate) fn options(tree: &Arc<Tree>) -> AutoOptions {
    AutoOptions {
        device: device(),
        tree: Arc::clone(tree),
        stripe: Bytes::kib(32),
        by_class: false,
        wait_max: Nanos::micros(900),
    }
}

/// Synchronous clients of one store that carries out one request at a time.
pub(crate) struct Rig {
    pub(crate) auto: Auto,
    pub(crate) policy: PolicyName,
    pub(crate) now: u64,
    pub(crate) switches: Vec<(u64, Switch)>,
    /// Time by policy.
    pub(crate) times: BTreeMap<PolicyName, u64>,
    /// Requests that TO would have carried out meanwhile, and that were.
    pub(crate) baseline: f64,
    pub(crate) done: f64,
    pub(crate) clients: u32,
    pub(crate) access: Access,
    queue: std::collections::VecDeque<Request>,
    next: Vec<u64>,
    noise: u64,
    may_be_exploring: bool,
    explored: u64,
    asked_at: u64,
}

impl Rig {
    pub(crate) fn new(auto: Auto, clients: u32) -> Self {
        let policy = auto.start();
        Self {
            auto,
            policy,
            now: 0,
            switches: Vec::new(),
            times: BTreeMap::new(),
            baseline: 0.0,
            done: 0.0,
            clients,
            access: Access::Read,
            queue: std::collections::VecDeque::new(),
            next: vec![0; 64],
            noise: 1,
            may_be_exploring: false,
            explored: 0,
            asked_at: 0,
        }
    }

    fn ask(&mut self, client: u32) {
        let offset = (u64::from(client) << 32) + self.next[client as usize] * LENGTH;
        self.next[client as usize] += 1;
        let request = Request {
            tag: 0,
            file: FileIndex(0),
            access: self.access,
            range: ByteRange::new(Offset(offset), Bytes(LENGTH)),
            client: ClientId(client),
            class: ClassId(0),
        };
        self.auto.submitted(Timestamp(self.now), &request);
        self.queue.push_back(request);
    }

    pub(crate) fn decide(&mut self) {
        let now = Timestamp(self.now);
        let is_exploring = || self.auto.why(now)[0].reason == SwitchReason::Explore;
        if self.may_be_exploring && is_exploring() {
            self.explored += self.now - self.asked_at;
        }
        self.asked_at = self.now;
        while let Some(switch) = self.auto.decide(Timestamp(self.now)) {
            assert_eq!(switch.part, Part::All);
            self.policy = switch.policy;
            self.may_be_exploring = switch.reason == SwitchReason::Explore;
            self.switches.push((self.now, switch));
        }
    }

    /// From 0 to 1, drawn from a seed.
    pub(crate) fn draw(&mut self) -> f64 {
        self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
        (self.noise >> 40) as f64 / f64::from(1 << 24)
    }

    /// Runs for so many seconds; `speedup` is a policy's over TO, at a second.
    pub(crate) fn run(&mut self, seconds: u64, speedup: &dyn Fn(PolicyName, f64) -> f64) {
        let end = self.now + seconds * SECOND;
        let here: Vec<u32> = self.queue.iter().map(|request| request.client.0).collect();
        (0..self.clients).filter(|client| !here.contains(client)).for_each(|it| self.ask(it));
        while self.now < end {
            self.decide();
            let request = self.queue.pop_front().expect("clients are synchronous");
            self.auto.dispatched(Timestamp(self.now), request.class, 1);
            let at = self.now as f64 / 1e9;
            // Uniform noise of 20 % to each side.
            let noise = 0.8 + 0.4 * self.draw();
            let time = (SERVICE as f64 * noise / speedup(self.policy, at)) as u64;
            self.now += time;
            *self.times.entry(self.policy).or_default() += time;
            self.baseline += time as f64 * speedup(PolicyName::To, at) / SERVICE as f64;
            self.done += 1.0;
            self.auto.ended(Timestamp(self.now), &request, Bytes(LENGTH), true);
            if request.client.0 < self.clients {
                self.ask(request.client.0);
            } else if self.queue.is_empty() {
                self.ask(0);
            }
        }
    }

    /// How much less was done than under TO all the time.
    pub(crate) fn loss(&self) -> f64 {
        1.0 - self.done / self.baseline
    }

    /// Time in which a policy was in force to learn about it, over all time.
    pub(crate) fn explored_share(&self) -> f64 {
        self.explored as f64 / self.now as f64
    }
}
