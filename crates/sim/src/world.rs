//! The simulation: clients, messages and nodes, moved from one event to the next.
//!
//! ```text
//! Issue ─► request ─► parts ──(network)──► Arrive ─► inbox ─► Scheduler::submit
//!   ▲                                                              │ next
//!   │                                             Done ◄── device, or servers behind a forwarder
//!   └── think ◄──(network)── last part answered ◄── complete ◄─────┘
//! ```
//!
//! A node has one processor: what arrives while it is busy waits in its inbox. The scheduler is
//! asked at the moment at which the processor is through with what it was doing.

mod back;
mod stage;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use forebay_device::SplitMix64;
use forebay_sched::{Access, Request, RequestId};
use forebay_trace::Adjustment;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Timestamp};

use crate::drive::Drive;
use crate::event::{Calendar, Event};
use crate::layout::{Layout, Pieces, Placement};
use crate::node::{Input, Node, Random};
use crate::noise::{Noise, happens, of_request, stream, up_to};
use crate::scenario::{Faults, Network, Scenario, Sharing};
use crate::selector::Choice;
use crate::simulation::{Answer, Arrival, Made};
use crate::slab::Slab;
use crate::tally::Tally;
use crate::workload::{Asked, Workload};

/// Purposes of random numbers. What a request is, how long its client thinks after it, and how it
/// fares are drawn by client and number: the same under every policy, in whatever order they end.
const CLIENTS: u64 = 1;
const NOISE: u64 = 2;
const FATE: u64 = 3;
const CONTENT: u64 = 4;
const THINK: u64 = 5;
const JITTER: u64 = 6;
const VANISH: u64 = 7;
const STALLS: u64 = 8;

/// Where the forwarder's own requests come from.
const FORWARDER: ClientId = ClientId(u32::MAX);

/// A vanishing client goes within this time after one of its requests.
const VANISH_WITHIN: Nanos = Nanos::millis(10);

pub(crate) struct Client {
    pub(crate) application: u32,
    pub(crate) rank: u32,
    /// Requests made.
    issued: u32,
    /// Requests under way or being thought about.
    tokens: u32,
    /// After how many requests it vanishes.
    vanishes_after: Option<u32>,
    is_gone: bool,
    pub(crate) started: Timestamp,
    pub(crate) finished: Timestamp,
    pub(crate) bytes: u64,
}

/// A client's request that is under way.
struct Asking {
    client: u32,
    /// Which of its client's it is, or of the record.
    number: u32,
    /// Of its messages.
    jitter: SplitMix64,
    /// Its line, if it is a recorded one.
    line: Option<u32>,
    /// Its place among those that were made, if that is being watched.
    made: Option<usize>,
    begun: Timestamp,
    asked: Asked,
    pieces: Pieces,
    /// Parts that were sent and whose answers its client does not have yet.
    parts_under_way: u32,
    moved: Bytes,
    is_failed: bool,
    /// When a device first began to work on it.
    first_served: Option<Timestamp>,
    last_answer: Timestamp,
}

/// A piece of a request, or of a forwarder's batch, at one node.
struct Part {
    node: u32,
    origin: Origin,
    state: PartState,
    access: Access,
    file: FileIndex,
    range: ByteRange,
    client: ClientId,
    class: ClassId,
    moved: Bytes,
    is_failed: bool,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A client's request.
    Request(u32),
    /// A batch of the forwarder.
    Flight(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    /// It asks for room at its node.
    Asking,
    /// It is on its way.
    Sent,
    /// It waits at its node, outside the scheduler.
    Held,
    /// The scheduler has it under this name.
    Accepted(RequestId),
}

/// Everything there is.
pub(crate) struct World {
    now: Timestamp,
    seed: u64,
    calendar: Calendar,
    pub(crate) events: u64,
    network: Network,
    faults: Faults,
    workload: Workload,
    pub(crate) clients: Vec<Client>,
    clients_left: usize,
    requests: Slab<Asking>,
    parts: Slab<Part>,
    pub(crate) nodes: Vec<Node>,
    /// How clients send, and how the forwarder does.
    client_layout: Layout,
    server_layout: Layout,
    parts_at_once: u32,
    placement: Placement,
    /// Whether what shares the forwarder are the servers behind it, not applications.
    is_shared_by_servers: bool,
    pub(crate) tally: Tally,
    /// What schedulers accepted, if it is being watched.
    pub(crate) arrivals: Option<Vec<Arrival>>,
    /// What clients asked for, if that is being watched.
    pub(crate) made: Option<Vec<Made>>,
    /// How schedulers share from some moment on.
    adjustments: Vec<Adjustment>,
}

fn has_data(access: Access) -> bool {
    matches!(access, Access::Read | Access::Write)
}

impl World {
    /// Everything at its beginning. The scenario is valid.
    pub(crate) fn new(scenario: &Scenario, workload: Workload, choice: &Choice, seed: u64) -> Self {
        let servers = &scenario.servers;
        let striped =
            Layout { servers: servers.count, stripe: servers.stripe, transfer: servers.transfer };
        let drive = |number| {
            Drive::new(
                servers.device,
                Noise::new(stream(seed, NOISE, number), servers.noise_percent),
            )
        };
        let mut nodes: Vec<Node> = (0..u64::from(servers.count))
            .map(|number| {
                let random = random_of(seed, number);
                match &scenario.forwarder {
                    None => Node::scheduled(scenario, choice, Some(drive(number)), random),
                    Some(_) => Node::plain(scenario, drive(number), random),
                }
            })
            .collect();
        let (mut client_layout, mut parts_at_once) = (striped, u32::MAX);
        if let Some(forwarder) = &scenario.forwarder {
            let random = random_of(seed, u64::from(servers.count));
            nodes.push(Node::scheduled(scenario, choice, None, random));
            client_layout = Layout::whole(forwarder.chunk);
            parts_at_once = forwarder.chunks_in_flight;
        }
        nodes.iter_mut().for_each(|node| node.configure(&workload.applications));
        let placement = Placement::new(workload.file_sizes.iter().copied(), &striped);
        let mut world = Self {
            now: Timestamp(0),
            seed,
            calendar: Calendar::default(),
            events: 0,
            network: scenario.network.clone(),
            faults: scenario.faults.clone(),
            tally: Tally::new(&workload),
            arrivals: None,
            made: None,
            adjustments: Vec::new(),
            workload,
            clients: Vec::new(),
            clients_left: 0,
            requests: Slab::default(),
            parts: Slab::default(),
            nodes,
            client_layout,
            server_layout: striped,
            parts_at_once,
            placement,
            is_shared_by_servers: scenario.scheduler.sharing == Sharing::Twins,
        };
        world.start_clients();
        let script = world.workload.script.iter();
        for (at, line) in script.flat_map(|script| script.beginnings()) {
            world.calendar.post(at, Event::Replay(line));
        }
        world.start_stalls();
        world
    }

    fn start_clients(&mut self) {
        for (number, application) in self.workload.applications.iter().enumerate() {
            for rank in 0..application.clients {
                let index = self.clients.len() as u32;
                let mut random = stream(self.seed, CLIENTS, u64::from(index));
                let started = self.workload.start(application, rank, &mut random);
                let (requests, tokens) = self.workload.requests_and_window(application, rank);
                let is_of_job = self.workload.script.is_none();
                let vanishes = requests > 0 && happens(&mut random, self.faults.vanish_permille);
                let vanishes_after = vanishes.then(|| 1 + random.below(u64::from(requests)) as u32);
                if is_of_job {
                    (0..tokens).for_each(|_| self.calendar.post(started, Event::Issue(index)));
                }
                self.clients_left += usize::from(tokens > 0);
                self.clients.push(Client {
                    application: number as u32,
                    rank,
                    issued: 0,
                    tokens,
                    vanishes_after,
                    is_gone: false,
                    started,
                    finished: started,
                    bytes: 0,
                });
            }
        }
    }

    fn start_stalls(&mut self) {
        for node in 0..self.nodes.len() as u32 {
            if self.nodes[node as usize].drive.is_some() {
                self.post_stall(node);
            }
        }
    }

    /// Takes up to `count` events; whether there is more to come.
    pub(crate) fn advance(&mut self, count: u64) -> bool {
        for _ in 0..count {
            let Some((at, event)) = self.calendar.next() else { return false };
            debug_assert!(at >= self.now, "time runs forward");
            self.now = at;
            self.events += 1;
            self.take(event);
        }
        true
    }

    /// Takes all events up to a moment; whether there is more to come.
    pub(crate) fn advance_until(&mut self, until: Timestamp) -> bool {
        while self.calendar.next_at().is_some_and(|at| at <= until) {
            self.advance(1);
        }
        self.calendar.next_at().is_some()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Issue(client) => self.issue(client),
            Event::Replay(line) => self.replay(line),
            Event::Continue(request) => {
                self.requests[request].parts_under_way -= 1;
                self.send_parts(request);
                self.end_if_answered(request);
            }
            Event::Arrive(part) => self.arrive(part),
            Event::Return(part) => self.piece_returned(part),
            Event::Done(node, flight) => self.input(node, Input::Done(flight)),
            Event::Wake(node) => self.wake(node),
            Event::Ask(node) => {
                if self.nodes[node as usize].ask_at == Some(self.now) {
                    self.nodes[node as usize].ask_at = None;
                    self.input(node, Input::Ask);
                }
            }
            Event::Stall(node) => {
                let stall = self.faults.stall;
                if let Some(drive) = &mut self.nodes[node as usize].drive {
                    drive.stall(self.now, stall);
                }
                self.post_stall(node);
            }
            Event::Vanish(client) => self.vanish(client),
            Event::Adjust(number) => {
                // Behind a forwarder there is nothing to share.
                let first = if self.is_forwarded() { self.nodes.len() - 1 } else { 0 };
                for node in first..self.nodes.len() {
                    self.input(node as u32, Input::Adjust(number));
                }
            }
        }
    }

    /// Changes how schedulers share, at a moment.
    pub(crate) fn adjust(&mut self, at: Timestamp, adjustment: Adjustment) {
        let number = self.adjustments.len() as u32;
        self.adjustments.push(adjustment);
        self.calendar.post(at.max(self.now), Event::Adjust(number));
    }

    fn post_stall(&mut self, node: u32) {
        if let Some(every) = self.faults.stall_every
            && self.clients_left > 0
        {
            let wait = up_to(&mut self.nodes[node as usize].random.stalls, Nanos(every.0 * 2));
            self.calendar.post(self.now + wait, Event::Stall(node));
        }
    }
}

/// Clients.
impl World {
    fn issue(&mut self, client: u32) {
        let it = &mut self.clients[client as usize];
        let application = &self.workload.applications[it.application as usize];
        let number = it.issued;
        let mut random = of_request(self.seed, CONTENT, client, number);
        let asked = application.request(it.rank, number, &mut random);
        let Some(asked) = asked.filter(|_| !it.is_gone) else { return self.retire_token(client) };
        it.issued += 1;
        if it.vanishes_after == Some(it.issued) {
            let mut random = stream(self.seed, VANISH, u64::from(client));
            let at = self.now + up_to(&mut random, VANISH_WITHIN);
            self.calendar.post(at, Event::Vanish(client));
        }
        self.begin(client, number, None, asked);
    }

    fn replay(&mut self, number: u32) {
        let Some(script) = &self.workload.script else { return };
        let line = script.lines[number as usize];
        if let Some((at, next)) = script.next(number) {
            self.calendar.post(at.max(self.now), Event::Replay(next));
        }
        self.begin(line.client, number, Some(number), line.asked);
    }

    /// A client makes a request.
    fn begin(&mut self, client: u32, number: u32, line: Option<u32>, asked: Asked) {
        let pieces = match has_data(asked.access) {
            true => Pieces::new(asked.range),
            false => Pieces::broadcast(asked.range),
        };
        let made = self.made.as_mut().map(|made| {
            let Asked { file, access, range, class } = asked;
            let client = ClientId(client);
            let request = Request { tag: made.len() as u64, file, access, range, client, class };
            made.push(Made { at: self.now, request, answer: None });
            made.len() - 1
        });
        let request = self.requests.insert(Asking {
            client,
            number,
            made,
            jitter: of_request(self.seed, JITTER, client, number),
            line,
            begun: self.now,
            asked,
            pieces,
            parts_under_way: 0,
            moved: Bytes::ZERO,
            is_failed: false,
            first_served: None,
            last_answer: self.now,
        });
        self.send_parts(request);
    }

    /// A client has one request less to come.
    fn retire_token(&mut self, client: u32) {
        let it = &mut self.clients[client as usize];
        it.tokens -= 1;
        self.clients_left -= usize::from(it.tokens == 0);
    }

    /// Sends as many parts of a request as may be under way; none if its client has vanished.
    fn send_parts(&mut self, request: u32) {
        let it = &self.requests[request];
        let client = ClientId(it.client);
        let Asked { file, access, class, .. } = it.asked;
        if self.clients[client.0 as usize].is_gone {
            return;
        }
        while self.requests[request].parts_under_way < self.parts_at_once {
            let Some((server, range)) = self.requests[request].pieces.next(&self.client_layout)
            else {
                break;
            };
            self.requests[request].parts_under_way += 1;
            // A forwarder is the last node, and the only place that clients know.
            let node = if self.is_forwarded() { self.nodes.len() as u32 - 1 } else { server };
            let origin = Origin::Request(request);
            let class = match self.is_shared_by_servers {
                true => ClassId(self.server_layout.server_of(range.start)),
                false => class,
            };
            let part = Part::new(node, origin, access, file, range, client, class);
            let delay = self.client_delay(origin);
            self.send(part, delay);
        }
    }

    fn is_forwarded(&self) -> bool {
        self.nodes.last().is_some_and(|node| node.drive.is_none())
    }

    /// How long a message between a client and its node takes, apart from its bytes.
    fn client_delay(&mut self, origin: Origin) -> Nanos {
        let random = match origin {
            Origin::Request(request) => &mut self.requests[request].jitter,
            Origin::Flight(_) => unreachable!("a forwarder's messages are no client's"),
        };
        self.network.delay + up_to(random, self.network.jitter)
    }

    /// Sends a part to its node; with its data, unless it has to ask first.
    fn send(&mut self, mut part: Part, delay: Nanos) {
        let node = &mut self.nodes[part.node as usize];
        let must_ask = node.memory.limit.is_some() && has_data(part.access);
        let sent = match must_ask {
            true => {
                part.state = PartState::Asking;
                self.now
            }
            false if part.access == Access::Write => {
                node.receive(self.now, &self.network, part.range.length())
            }
            false => self.now,
        };
        let part = self.parts.insert(part);
        self.calendar.post(sent + delay, Event::Arrive(part));
    }

    /// Ends a request that has no part under way and none to be sent.
    fn end_if_answered(&mut self, request: u32) {
        let it = &self.requests[request];
        let client = it.client as usize;
        let is_complete = it.pieces.is_empty(&self.client_layout) || self.clients[client].is_gone;
        if it.parts_under_way > 0 || !is_complete {
            return;
        }
        let it = self.requests.remove(request);
        let client = &mut self.clients[client];
        let application = &self.workload.applications[client.application as usize];
        if client.is_gone {
            return self.retire_token(it.client);
        }
        client.finished = client.finished.max(it.last_answer);
        client.bytes += it.moved.0;
        if let (Some(made), Some(place)) = (&mut self.made, it.made) {
            made[place].answer =
                Some(Answer { at: it.last_answer, moved: it.moved, is_failed: it.is_failed });
        }
        let latency = it.last_answer - it.begun;
        let reached = it.first_served.map(|served| served - it.begun);
        let job = &mut self.tally.applications[client.application as usize];
        job.count(latency, reached, it.moved);
        job.failed += u64::from(it.is_failed);
        let is_plain = has_data(it.asked.access);
        job.short += u64::from(!it.is_failed && is_plain && it.moved < it.asked.range.length());
        if let (Some(line), Some(script)) = (it.line, &self.workload.script) {
            for (think, follower) in script.followers(line) {
                self.calendar.post(it.last_answer + think, Event::Replay(follower));
            }
            return self.retire_token(it.client);
        }
        let mut random = of_request(self.seed, THINK, it.client, it.number);
        let think = application.think(it.number, &mut random);
        self.calendar.post(it.last_answer + think, Event::Issue(it.client));
    }

    /// A client is there no more: what waits of its requests is taken back.
    fn vanish(&mut self, client: u32) {
        let it = &mut self.clients[client as usize];
        if it.tokens == 0 {
            return;
        }
        it.is_gone = true;
        self.tally.applications[it.application as usize].vanished += 1;
        let is_its_own = |part: &Part| {
            part.client == ClientId(client) && matches!(part.origin, Origin::Request(_))
        };
        let own = self.parts.iter().filter(|(_, part)| is_its_own(part));
        let accepted: Vec<(u32, u32, RequestId)> = own
            .filter_map(|(number, part)| match part.state {
                PartState::Accepted(id) => Some((part.node, number, id)),
                _ => None,
            })
            .collect();
        for (node, part, id) in accepted {
            self.input(node, Input::Cancel(part, id));
        }
    }
}

impl Asking {
    /// Decides how its part at a node fares, whichever batch that part is in.
    fn fate_at(&self, seed: u64, node: u32, range: ByteRange) -> SplitMix64 {
        let own = of_request(seed, FATE, self.client, self.number).next_u64();
        stream(own, u64::from(node), range.start.0)
    }
}

/// A node's random numbers.
fn random_of(seed: u64, number: u64) -> Random {
    let [stalls, jitter, fate] = [STALLS, JITTER, FATE].map(|purpose| {
        // Clients are numbered from 0, nodes beyond them.
        stream(seed, purpose, number | 1 << 63)
    });
    Random { stalls, jitter, fate }
}

impl Part {
    fn new(
        node: u32,
        origin: Origin,
        access: Access,
        file: FileIndex,
        range: ByteRange,
        client: ClientId,
        class: ClassId,
    ) -> Self {
        Self {
            node,
            origin,
            state: PartState::Sent,
            access,
            file,
            range,
            client,
            class,
            moved: Bytes::ZERO,
            is_failed: false,
        }
    }

    /// The room that its data takes.
    fn room(&self) -> Bytes {
        if has_data(self.access) { self.range.length() } else { Bytes::ZERO }
    }
}
