//! Parts at their nodes: asking for room, the inbox, the scheduler, and the start of batches.

use alloc::vec::Vec;

use forebay_sched::{Access, Admission, Decision, Rejected, Request};
use forebay_units::{ByteRange, Bytes, ClassId, Direction, FileIndex, Timestamp};

use super::{FORWARDER, Origin, Part, PartState, World, has_data};
use crate::drive::Service;
use crate::event::Event;
use crate::layout::Pieces;
use crate::node::{Flight, Input};
use crate::noise::up_to;
use crate::simulation::Arrival;

impl World {
    pub(super) fn arrive(&mut self, part: u32) {
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
    pub(super) fn grant(&mut self, node: u32) {
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
            let (origin, is_write, bytes) = (it.origin, it.access == Access::Write, it.room());
            if !is_write {
                self.input(node, Input::Part(part));
                continue;
            }
            // The grant travels to the client, and the data back.
            let there = self.client_delay(origin);
            let back = self.client_delay(origin);
            let sent = self.nodes[node as usize].receive(self.now + there, &self.network, bytes);
            self.calendar.post(sent + back, Event::Arrive(part));
        }
    }

    /// Something happens at a node, as soon as its processor is free.
    pub(super) fn input(&mut self, node: u32, input: Input) {
        let it = &mut self.nodes[node as usize];
        if it.cpu_free <= self.now && it.inbox.is_empty() {
            return self.process(node, input);
        }
        it.inbox.push_back(input);
        if !core::mem::replace(&mut it.is_waking, true) {
            self.calendar.post(it.cpu_free.max(self.now), Event::Wake(node));
        }
    }

    pub(super) fn wake(&mut self, node: u32) {
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
                let class = self.parts[part].class;
                let now = self.nodes[node as usize].spend(self.now, class);
                // Not before those that found the queue full.
                if !self.nodes[node as usize].backlog.is_empty() || !self.submit(now, part) {
                    self.parts[part].state = PartState::Held;
                    self.nodes[node as usize].backlog.push_back(part);
                }
            }
            Input::Done(flight) => self.finish(node, flight),
            Input::Cancel(part, id) => self.cancel(node, part, id),
            Input::Ask => {}
            Input::Adjust(number) => {
                let scheduler = &mut self.nodes[node as usize].scheduler;
                // What it refuses (a class too many) changes nothing.
                _ = self.adjustments[number as usize].apply(self.now, scheduler);
            }
        }
        let now = self.nodes[node as usize].cpu_free.max(self.now);
        self.retry(node, now);
        let it = &mut self.nodes[node as usize];
        it.selector.decide(now, &mut it.scheduler);
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
                target.selector.submitted(now, &request);
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.push(Arrival { node: node as usize, at: now, request });
                }
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
        // Taken out first: where a vanished client's part ends, others may get their room and come
        // here, too.
        while let Some(part) = self.nodes[node as usize].backlog.pop_front() {
            if !self.submit(now, part) {
                return self.nodes[node as usize].backlog.push_front(part);
            }
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
        it.selector.dispatched(now, class, members.len());
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
        let Service { begun, done } = drive.serve(now, direction, position, length);
        for part in &members {
            self.note_served(*part, begun);
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
            let random = &mut self.nodes[node as usize].random.jitter;
            let delay = self.network.delay + up_to(random, self.network.jitter);
            self.send(part, delay);
        }
    }

    /// Remembers when a device first begins to work on what a part belongs to: of several devices,
    /// the one that was given a part first need not be the first to begin.
    fn note_served(&mut self, part: u32, begun: Timestamp) {
        let mut note = |request: u32| {
            let first = &mut self.requests[request].first_served;
            *first = Some(first.map_or(begun, |first| first.min(begun)));
        };
        match self.parts[part].origin {
            Origin::Request(request) => note(request),
            Origin::Flight(flight) => {
                let forwarder = self.nodes.last().expect("there is a forwarder");
                for member in &forwarder.flights[flight].members {
                    if let Origin::Request(request) = self.parts[*member].origin {
                        note(request);
                    }
                }
            }
        }
    }
}
