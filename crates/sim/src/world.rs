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

use alloc::vec::Vec;

use forebay_device::SplitMix64;
use forebay_sched::{
    Access, Admission, Cancellation, Decision, PolicyName, Rejected, Request, RequestId,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, Direction, FileIndex, Nanos, Timestamp};

use crate::drive::Drive;
use crate::event::{Calendar, Event};
use crate::layout::{Layout, Pieces, Placement};
use crate::node::{Flight, Input, Node};
use crate::noise::{Noise, happens, stream, up_to};
use crate::scenario::{Faults, Network, Scenario};
use crate::slab::Slab;
use crate::tally::Tally;
use crate::workload::{Asked, Workload};

/// Purposes of random numbers: the same client thinks and the same server fails alike under every policy.
const CLIENTS: u64 = 1;
const NOISE: u64 = 2;
const FATE: u64 = 3;

/// Where the forwarder's own requests come from.
const FORWARDER: ClientId = ClientId(u32::MAX);

/// A vanishing client goes within this time after one of its requests.
const VANISH_WITHIN: Nanos = Nanos::millis(10);

pub(crate) struct Client {
    pub(crate) application: u32,
    pub(crate) rank: u32,
    random: SplitMix64,
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
    /// Its line, if it is a recorded one.
    line: Option<u32>,
    begun: Timestamp,
    asked: Asked,
    pieces: Pieces,
    parts_under_way: u32,
    moved: Bytes,
    is_failed: bool,
    /// When a device first worked on it.
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
    pub(crate) tally: Tally,
}

fn has_data(access: Access) -> bool {
    matches!(access, Access::Read | Access::Write)
}

impl World {
    /// Everything at its beginning. The scenario is valid.
    pub(crate) fn new(
        scenario: &Scenario,
        workload: Workload,
        policy: PolicyName,
        seed: u64,
    ) -> Self {
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
                let fate = stream(seed, FATE, number);
                match &scenario.forwarder {
                    None => Node::scheduled(scenario, policy, Some(drive(number)), fate),
                    Some(_) => Node::plain(scenario, drive(number), fate),
                }
            })
            .collect();
        let (mut client_layout, mut parts_at_once) = (striped, u32::MAX);
        if let Some(forwarder) = &scenario.forwarder {
            let fate = stream(seed, FATE, u64::from(servers.count));
            nodes.push(Node::scheduled(scenario, policy, None, fate));
            client_layout = Layout::whole(forwarder.chunk);
            parts_at_once = forwarder.chunks_in_flight;
        }
        nodes.iter_mut().for_each(|node| node.configure(&workload.applications));
        let placement = Placement::new(workload.file_sizes.iter().copied(), &striped);
        let mut world = Self {
            now: Timestamp(0),
            calendar: Calendar::default(),
            events: 0,
            network: scenario.network.clone(),
            faults: scenario.faults.clone(),
            tally: Tally::new(&workload),
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
        };
        world.start_clients(seed);
        let script = world.workload.script.iter();
        for (at, line) in script.flat_map(|script| script.beginnings()) {
            world.calendar.post(at, Event::Replay(line));
        }
        world.start_stalls();
        world
    }

    fn start_clients(&mut self, seed: u64) {
        for (number, application) in self.workload.applications.iter().enumerate() {
            for rank in 0..application.clients {
                let index = self.clients.len() as u32;
                let mut random = stream(seed, CLIENTS, u64::from(index));
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
                    random,
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

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Issue(client) => self.issue(client),
            Event::Replay(line) => self.replay(line),
            Event::Continue(request) => self.send_parts(request),
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
        }
    }

    fn post_stall(&mut self, node: u32) {
        if let Some(every) = self.faults.stall_every
            && self.clients_left > 0
        {
            let wait = up_to(&mut self.nodes[node as usize].fate, Nanos(every.0 * 2));
            self.calendar.post(self.now + wait, Event::Stall(node));
        }
    }
}

/// Clients.
impl World {
    fn issue(&mut self, client: u32) {
        let it = &mut self.clients[client as usize];
        let application = &self.workload.applications[it.application as usize];
        let asked = application.request(it.rank, it.issued, &mut it.random);
        let Some(asked) = asked.filter(|_| !it.is_gone) else { return self.retire_token(client) };
        it.issued += 1;
        if it.vanishes_after == Some(it.issued) {
            let at = self.now + up_to(&mut it.random, VANISH_WITHIN);
            self.calendar.post(at, Event::Vanish(client));
        }
        self.begin(client, None, asked);
    }

    fn replay(&mut self, number: u32) {
        let Some(script) = &self.workload.script else { return };
        let line = script.lines[number as usize];
        if let Some((at, next)) = script.next(number) {
            self.calendar.post(at.max(self.now), Event::Replay(next));
        }
        self.begin(line.client, Some(number), line.asked);
    }

    /// A client makes a request.
    fn begin(&mut self, client: u32, line: Option<u32>, asked: Asked) {
        let pieces = match has_data(asked.access) {
            true => Pieces::new(asked.range),
            false => Pieces::broadcast(asked.range),
        };
        let request = self.requests.insert(Asking {
            client,
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

    /// Sends as many parts of a request as may be under way.
    fn send_parts(&mut self, request: u32) {
        let it = &self.requests[request];
        let client = ClientId(it.client);
        let Asked { file, access, class, .. } = it.asked;
        if self.clients[client.0 as usize].is_gone {
            return self.end_if_answered(request);
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
            let part = Part::new(node, origin, access, file, range, client, class);
            let delay = self.client_delay(client);
            self.send(part, delay);
        }
    }

    fn is_forwarded(&self) -> bool {
        self.nodes.last().is_some_and(|node| node.drive.is_none())
    }

    /// How long a message between a client and its node takes, apart from its bytes.
    fn client_delay(&mut self, client: ClientId) -> Nanos {
        let random = &mut self.clients[client.0 as usize].random;
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

    /// The last part of a request that has parts under way no more may end it.
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
        let think = application.think(&mut client.random);
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

/// Parts at their nodes.
impl World {
    fn arrive(&mut self, part: u32) {
        let it = &mut self.parts[part];
        let node = it.node;
        if it.state == PartState::Asking {
            it.state = PartState::Held;
            self.nodes[node as usize].memory.waiting.push_back(part);
            return self.grant(node);
        }
        let node_ref = &mut self.nodes[node as usize];
        if node_ref.memory.limit.is_none() {
            // Without a limit there is no asking, and always room.
            node_ref.memory.take(it.room());
        }
        self.input(node, Input::Part(part));
    }

    /// Lets those parts send their data for which there is room, in the order of asking.
    fn grant(&mut self, node: u32) {
        while let Some(part) = self.nodes[node as usize].memory.waiting.front().copied() {
            let it = &mut self.parts[part];
            let is_gone = it.client != FORWARDER && self.clients[it.client.0 as usize].is_gone;
            let target = &mut self.nodes[node as usize];
            if !is_gone && !target.memory.take(it.room()) {
                return;
            }
            target.memory.waiting.pop_front();
            if is_gone {
                self.answer_nobody(part);
                continue;
            }
            it.state = PartState::Sent;
            let (client, is_write, bytes) = (it.client, it.access == Access::Write, it.room());
            if !is_write {
                self.input(node, Input::Part(part));
                continue;
            }
            // The grant travels to the client, and the data back.
            let there = self.client_delay(client);
            let back = self.client_delay(client);
            let sent = self.nodes[node as usize].receive(self.now + there, &self.network, bytes);
            self.calendar.post(sent + back, Event::Arrive(part));
        }
    }

    /// Something happens at a node, as soon as its processor is free.
    fn input(&mut self, node: u32, input: Input) {
        let it = &mut self.nodes[node as usize];
        if it.cpu_free <= self.now && it.inbox.is_empty() {
            return self.process(node, input);
        }
        it.inbox.push_back(input);
        if !core::mem::replace(&mut it.is_waking, true) {
            self.calendar.post(it.cpu_free.max(self.now), Event::Wake(node));
        }
    }

    fn wake(&mut self, node: u32) {
        let now = self.now;
        self.nodes[node as usize].is_waking = false;
        loop {
            let it = &mut self.nodes[node as usize];
            if it.cpu_free > now {
                break;
            }
            let Some(input) = it.inbox.pop_front() else { return };
            self.process(node, input);
        }
        let it = &mut self.nodes[node as usize];
        if !it.inbox.is_empty() {
            it.is_waking = true;
            self.calendar.post(it.cpu_free, Event::Wake(node));
        }
    }

    fn process(&mut self, node: u32, input: Input) {
        match input {
            Input::Part(part) => {
                let now = self.nodes[node as usize].spend(self.now);
                if !self.submit(now, part) {
                    self.parts[part].state = PartState::Held;
                    self.nodes[node as usize].backlog.push_back(part);
                }
            }
            Input::Done(flight) => self.finish(node, flight),
            Input::Cancel(part, id) => self.cancel(node, part, id),
            Input::Ask => {}
        }
        let now = self.nodes[node as usize].cpu_free.max(self.now);
        self.retry(node, now);
        self.dispatch(node, now);
    }

    /// Hands a part to its node's scheduler; whether that had room.
    fn submit(&mut self, now: Timestamp, part: u32) -> bool {
        let it = &self.parts[part];
        if it.client != FORWARDER && self.clients[it.client.0 as usize].is_gone {
            let (node, room) = (it.node, it.room());
            self.nodes[node as usize].memory.give_back(room);
            self.answer_nobody(part);
            self.grant(node);
            return true;
        }
        let request = Request {
            tag: u64::from(part),
            file: it.file,
            access: it.access,
            range: it.range,
            client: it.client,
            class: it.class,
        };
        let node = it.node;
        let target = &mut self.nodes[node as usize];
        let room = target.room();
        match target.scheduler.submit(now, request, room) {
            Ok(admission) => {
                self.parts[part].state = PartState::Accepted(admission.id());
                if let Admission::Bypassed(_) = admission {
                    self.launch(node, now, alloc::vec![part]);
                }
                true
            }
            Err(Rejected::QueueFull) => false,
            Err(refusal) => unreachable!("a part is never refused otherwise: {refusal:?}"),
        }
    }

    /// Submits what found the queue full before.
    fn retry(&mut self, node: u32, now: Timestamp) {
        while let Some(part) = self.nodes[node as usize].backlog.front().copied() {
            if !self.submit(now, part) {
                return;
            }
            self.nodes[node as usize].backlog.pop_front();
        }
    }

    /// Asks the scheduler for as much as there is room for.
    fn dispatch(&mut self, node: u32, now: Timestamp) {
        loop {
            let it = &mut self.nodes[node as usize];
            if it.flights.count() >= it.depth {
                return;
            }
            match it.scheduler.next(now, &mut it.batch) {
                Decision::Idle => return,
                Decision::Wait { until } => {
                    if it.ask_at != Some(until) {
                        it.ask_at = Some(until);
                        self.calendar.post(until, Event::Ask(node));
                    }
                    return;
                }
                Decision::Dispatch => {
                    let members = it.batch.members().iter().map(|member| member.request.tag as u32);
                    let members = members.collect();
                    self.launch(node, now, members);
                }
            }
        }
    }

    /// Carries out a batch of parts: one file, one direction, no gap.
    fn launch(&mut self, node: u32, now: Timestamp, members: Vec<u32>) {
        let (first, last) = (&self.parts[members[0]], members.iter());
        let (file, access, class) = (first.file, first.access, first.class);
        let end = last.map(|part| self.parts[*part].range.end).max().unwrap_or(first.range.end);
        let range = ByteRange { start: first.range.start, end };
        let it = &mut self.nodes[node as usize];
        it.batches += 1;
        it.dispatched += members.len() as u64;
        let Some(drive) = &mut it.drive else {
            return self.pass_on(node, members, (file, access, class, range));
        };
        let direction = match access {
            Access::Read => Direction::Read,
            Access::Write | Access::Alone | Access::Sync => Direction::Write,
        };
        // How many bytes an append, a truncation or a sync moves is not known: they cost no device time.
        let length = if has_data(access) { range.length() } else { Bytes::ZERO };
        let position = self.placement.position(file, range.start);
        let done = drive.serve(now, direction, position, length);
        for part in &members {
            self.note_served(*part, now);
        }
        let flight = Flight { members, ..Flight::default() };
        let flight = self.nodes[node as usize].flights.insert(flight);
        self.calendar.post(done, Event::Done(node, flight));
    }

    /// The forwarder sends a batch to the servers.
    fn pass_on(
        &mut self,
        node: u32,
        members: Vec<u32>,
        (file, access, class, range): (FileIndex, Access, ClassId, ByteRange),
    ) {
        let flight =
            self.nodes[node as usize].flights.insert(Flight { members, ..Flight::default() });
        let mut pieces = match has_data(access) {
            true => Pieces::new(range),
            false => Pieces::broadcast(range),
        };
        while let Some((server, range)) = pieces.next(&self.server_layout) {
            let origin = Origin::Flight(flight);
            let part = Part::new(server, origin, access, file, range, FORWARDER, class);
            self.nodes[node as usize].flights[flight].pieces_left += 1;
            let random = &mut self.nodes[node as usize].fate;
            let delay = self.network.delay + up_to(random, self.network.jitter);
            self.send(part, delay);
        }
    }

    /// Remembers when a device first worked on what a part belongs to.
    fn note_served(&mut self, part: u32, now: Timestamp) {
        match self.parts[part].origin {
            Origin::Request(request) => {
                let request = &mut self.requests[request];
                request.first_served = request.first_served.or(Some(now));
            }
            Origin::Flight(flight) => {
                let forwarder = self.nodes.last().expect("there is a forwarder");
                for member in &forwarder.flights[flight].members {
                    if let Origin::Request(request) = self.parts[*member].origin {
                        let request = &mut self.requests[request];
                        request.first_served = request.first_served.or(Some(now));
                    }
                }
            }
        }
    }
}

/// The way back.
impl World {
    /// A batch is finished: its parts are answered.
    fn finish(&mut self, node: u32, flight: u32) {
        let Flight { members, is_failed, .. } = self.nodes[node as usize].flights.remove(flight);
        for part in members {
            let it = &mut self.nodes[node as usize];
            let (range, access) = (self.parts[part].range, self.parts[part].access);
            let PartState::Accepted(id) = self.parts[part].state else {
                unreachable!("what is in flight was accepted")
            };
            let has_device = it.drive.is_some();
            let fails = is_failed || has_device && happens(&mut it.fate, self.faults.fail_permille);
            let is_short = access == Access::Read
                && has_device
                && happens(&mut it.fate, self.faults.short_permille);
            let length = if has_data(access) { range.length() } else { Bytes::ZERO };
            let moved = match (fails, is_short) {
                (true, _) => Bytes::ZERO,
                (false, true) => Bytes(length.0 / 2),
                (false, false) => length,
            };
            let ended = match fails {
                true => it.scheduler.fail(self.now, id),
                false => it.scheduler.complete(self.now, id, moved),
            };
            debug_assert!(ended.is_some(), "what is in flight completes once");
            (self.parts[part].moved, self.parts[part].is_failed) = (moved, fails);
            self.answer(part);
        }
        self.grant(node);
    }

    /// Sends a part's result back to where it came from.
    fn answer(&mut self, part: u32) {
        let (node, access, moved) = {
            let it = &self.parts[part];
            (it.node, it.access, it.moved)
        };
        let room = self.parts[part].room();
        let it = &mut self.nodes[node as usize];
        it.memory.give_back(room);
        let sent = match access {
            Access::Read => it.send(self.now, &self.network, moved),
            _ => self.now,
        };
        match self.parts[part].origin {
            Origin::Request(request) => {
                let client = self.parts[part].client;
                let at = sent + self.client_delay(client);
                let ended = self.parts.remove(part);
                self.part_answered(request, at, &ended);
            }
            Origin::Flight(_) => {
                let random = &mut it.fate;
                let at = sent + self.network.delay + up_to(random, self.network.jitter);
                self.calendar.post(at, Event::Return(part));
            }
        }
    }

    fn part_answered(&mut self, request: u32, at: Timestamp, part: &Part) {
        let it = &mut self.requests[request];
        it.parts_under_way -= 1;
        it.moved += part.moved;
        it.is_failed |= part.is_failed;
        it.last_answer = it.last_answer.max(at);
        let is_gone = self.clients[it.client as usize].is_gone;
        if !is_gone && !it.pieces.is_empty(&self.client_layout) {
            self.calendar.post(at, Event::Continue(request));
            return;
        }
        self.end_if_answered(request);
    }

    /// A part whose client has vanished ends without an answer.
    fn answer_nobody(&mut self, part: u32) {
        let ended = self.parts.remove(part);
        if let Origin::Request(request) = ended.origin {
            self.part_answered(request, self.now, &ended);
        }
    }

    fn cancel(&mut self, node: u32, part: u32, id: RequestId) {
        let is_the_same = self
            .parts
            .find(part)
            .is_some_and(|it| it.node == node && it.state == PartState::Accepted(id));
        if !is_the_same {
            return;
        }
        let it = &mut self.nodes[node as usize];
        if it.scheduler.cancel(self.now, id) == Cancellation::Cancelled {
            it.memory.give_back(self.parts[part].room());
            self.answer_nobody(part);
            self.grant(node);
        }
    }

    /// A piece of a forwarder's batch is back.
    fn piece_returned(&mut self, part: u32) {
        let ended = self.parts.remove(part);
        let Origin::Flight(flight) = ended.origin else {
            unreachable!("only pieces of batches return to the forwarder")
        };
        let forwarder = self.nodes.len() as u32 - 1;
        let it = &mut self.nodes[forwarder as usize].flights[flight];
        it.pieces_left -= 1;
        it.is_failed |= ended.is_failed;
        if it.pieces_left == 0 {
            self.input(forwarder, Input::Done(flight));
        }
    }
}
