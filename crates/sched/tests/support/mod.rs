//! A closed loop in virtual time: synchronous clients, one policy, one disk; and small things that policy tests share.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::{Deref, DerefMut};

use forebay_sched::policy::{Kept, Policy, Selection};
use forebay_sched::request::{Accepted, Access, Request, RequestId};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

/// A pseudo-random sequence that depends on nothing but its seed (SplitMix64, Steele et al. 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

pub(crate) fn read(seq: u64, file: u32, start: u64, length: u64) -> Accepted {
    accepted(seq, Access::Read, file, start, length)
}

pub(crate) fn write(seq: u64, file: u32, start: u64, length: u64) -> Accepted {
    accepted(seq, Access::Write, file, start, length)
}

fn accepted(seq: u64, access: Access, file: u32, start: u64, length: u64) -> Accepted {
    Accepted {
        id: RequestId(seq),
        seq,
        arrived: Timestamp(seq),
        request: Request {
            tag: seq,
            file: FileIndex(file),
            access,
            range: ByteRange::new(Offset(start), Bytes(length)),
            client: ClientId(0),
            class: ClassId(0),
        },
    }
}

/// A policy with the requests it was given, as the scheduler's table would keep them.
#[derive(Clone)]
pub(crate) struct Bare<P> {
    policy: P,
    requests: HashMap<RequestId, Accepted>,
    kept: Kept,
}

impl<P: Policy> Bare<P> {
    pub(crate) fn new(policy: P) -> Self {
        Self { policy, requests: HashMap::new(), kept: Kept::default() }
    }

    pub(crate) fn add(&mut self, now: Timestamp, request: &Accepted) {
        self.requests.insert(request.id, *request);
        self.kept.keep(request);
        self.policy.add(now, &self.kept.requests(), request);
    }

    pub(crate) fn select(&mut self, now: Timestamp, batch: &mut Vec<Accepted>) -> Selection {
        let mut ids = Vec::new();
        let selection = self.policy.select(now, &self.kept.requests(), &mut ids);
        batch.extend(ids.iter().map(|id| self.requests.remove(id).expect("it was added")));
        selection
    }

    pub(crate) fn cancel(&mut self, now: Timestamp, request: &Accepted) -> bool {
        self.policy.cancel(now, &self.kept.requests(), request)
    }
}

impl<P> Deref for Bare<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.policy
    }
}

impl<P> DerefMut for Bare<P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.policy
    }
}

/// Which offset a client asks for next: `(client, how many it has had)`; `None` when it is finished.
pub(crate) type Pattern = Box<dyn FnMut(u64, u64) -> Option<(u32, u64)>>;

/// The closed loop.
pub(crate) struct Loop {
    pub(crate) clients: u64,
    pub(crate) request_bytes: u64,
    pub(crate) depth: usize,
    /// Least and most time between a completion and the client's next request.
    pub(crate) think: (u64, u64),
    pub(crate) seed: u64,
}

/// What came out.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) bytes: u64,
    pub(crate) nanos: u64,
    pub(crate) batches: u64,
    pub(crate) seeks: u64,
    /// Time in which something was queued, nothing was in flight and the policy waited.
    pub(crate) idle_waiting: u64,
    pub(crate) longest_response: u64,
}

impl Outcome {
    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.nanos as f64
    }
}

/// 57 MB/s, and 7 ms for anything that does not follow on.
pub(crate) const BYTES_PER_SECOND: u64 = 57_000_000;
pub(crate) const SEEK: u64 = 7_000_000;

#[derive(Clone, Copy)]
enum Event {
    Arrive(u64),
    Complete(usize),
    Ask,
}

impl Loop {
    /// Runs until every client is finished.
    pub(crate) fn run(&self, policy: impl Policy, mut pattern: Pattern) -> Outcome {
        let mut policy = Bare::new(policy);
        let mut random = Random(self.seed);
        let mut events: BTreeMap<(u64, u64), Event> = BTreeMap::new();
        let mut event_count = 0;
        let mut post = |events: &mut BTreeMap<(u64, u64), Event>, at: u64, event: Event| {
            event_count += 1;
            events.insert((at, event_count), event);
        };
        let mut had = vec![0u64; self.clients as usize];
        let mut flying: Vec<Option<Vec<Accepted>>> = Vec::new();
        let (mut disk_free_at, mut head) = (0u64, (u32::MAX, 0u64));
        let (mut in_flight, mut seq) = (0usize, 0u64);
        let mut slots: VecDeque<u64> = VecDeque::new();
        let mut asked_again: Option<u64> = None;
        let mut waiting_since: Option<u64> = None;
        let mut out = Outcome::default();
        for client in 0..self.clients {
            post(&mut events, random.between(0, self.think.1), Event::Arrive(client));
        }
        while let Some(((at, _), event)) = events.pop_first() {
            let now = Timestamp(at);
            match event {
                Event::Arrive(client) => {
                    let Some((file, start)) = pattern(client, had[client as usize]) else {
                        continue;
                    };
                    had[client as usize] += 1;
                    seq += 1;
                    let slot = slots.pop_front().unwrap_or(seq);
                    let mut request = read(seq, file, start, self.request_bytes);
                    request.id = RequestId(seq << 32 | slot);
                    request.arrived = now;
                    request.request.client = ClientId(client as u32);
                    policy.add(now, &request);
                }
                Event::Complete(batch) => {
                    in_flight -= 1;
                    for request in flying[batch].take().expect("a batch completes once") {
                        policy.complete(now, &request, request.request.range.length());
                        out.longest_response = out.longest_response.max(at - request.arrived.0);
                        slots.push_back(request.id.0 & 0xffff_ffff);
                        let back = at + random.between(self.think.0, self.think.1);
                        post(&mut events, back, Event::Arrive(u64::from(request.request.client.0)));
                    }
                }
                Event::Ask => asked_again = asked_again.filter(|asked| *asked > at),
            }
            while in_flight < self.depth {
                let mut batch = Vec::new();
                match policy.select(now, &mut batch) {
                    Selection::Idle => break,
                    Selection::Wait { until } => {
                        assert!(until > now, "a wait ends later than now");
                        if asked_again.is_none_or(|asked| asked > until.0) {
                            asked_again = Some(until.0);
                            post(&mut events, until.0, Event::Ask);
                        }
                        break;
                    }
                    Selection::Batch => {
                        let range = check_batch(&batch);
                        let file = batch[0].request.file.0;
                        let seek = if head == (file, range.start.0) { 0 } else { SEEK };
                        out.seeks += u64::from(seek > 0);
                        out.batches += 1;
                        out.bytes += range.length().0;
                        head = (file, range.end.0);
                        disk_free_at = disk_free_at.max(at)
                            + seek
                            + range.length().0 * 1_000_000_000 / BYTES_PER_SECOND;
                        in_flight += 1;
                        flying.push(Some(batch));
                        post(&mut events, disk_free_at, Event::Complete(flying.len() - 1));
                    }
                }
            }
            if let Some(since) = waiting_since.take() {
                out.idle_waiting += at - since;
            }
            if in_flight == 0 && policy.queued_count() > 0 {
                waiting_since = Some(at);
            }
            out.nanos = disk_free_at;
        }
        assert_eq!(policy.queued_count(), 0, "everything has left");
        out
    }
}

/// One file, one direction, no gap; what it covers.
pub(crate) fn check_batch(batch: &[Accepted]) -> ByteRange {
    let mut covered = batch[0].request.range;
    for request in &batch[1..] {
        assert_eq!(request.request.range.start, covered.end, "no gap");
        assert_eq!(request.request.file, batch[0].request.file);
        assert_eq!(request.request.access, batch[0].request.access);
        covered.end = request.request.range.end;
    }
    covered
}

/// Selects until the policy has nothing left, completing each batch at once; `(when, batch)` in order.
pub(crate) fn run_dry(policy: &mut Bare<impl Policy>, mut now: Timestamp) -> Vec<Vec<Accepted>> {
    let mut batches = Vec::new();
    loop {
        let mut batch = Vec::new();
        match policy.select(now, &mut batch) {
            Selection::Batch => {
                check_batch(&batch);
                for request in &batch {
                    policy.complete(now, request, request.request.range.length());
                }
                batches.push(batch);
            }
            Selection::Wait { until } => now = until,
            Selection::Idle => return batches,
        }
        now = now + Nanos(1);
    }
}
