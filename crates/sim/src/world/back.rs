//! The way back: what ends a batch, its parts, and what they are parts of.

use forebay_sched::{Access, Cancellation, RequestId};
use forebay_units::{Bytes, Timestamp};

use super::{FATE, Origin, Part, PartState, World, has_data};
use crate::event::Event;
use crate::node::{Flight, Input};
use crate::noise::{happens, stream, up_to};

impl World {
    /// A batch is finished: its parts are answered.
    pub(super) fn finish(&mut self, node: u32, flight: u32) {
        let Flight { members, is_failed, .. } = self.nodes[node as usize].flights.remove(flight);
        for part in members {
            let it = &mut self.nodes[node as usize];
            let (range, access) = (self.parts[part].range, self.parts[part].access);
            let PartState::Accepted(id) = self.parts[part].state else {
                unreachable!("what is in flight was accepted")
            };
            let has_device = it.drive.is_some();
            let mut fate = match self.parts[part].origin {
                Origin::Request(request) => self.requests[request].fate_at(self.seed, node, range),
                Origin::Flight(_) => stream(it.random.fate.next_u64(), FATE, 0),
            };
            let fails = is_failed || has_device && happens(&mut fate, self.faults.fail_permille);
            let is_short = access == Access::Read
                && has_device
                && happens(&mut fate, self.faults.short_permille);
            let length = if has_data(access) { range.length() } else { Bytes::ZERO };
            let moved = match (fails, is_short) {
                (true, _) => Bytes::ZERO,
                (false, true) => Bytes(length.0 / 2),
                (false, false) => length,
            };
            let ended = match fails {
                true => it.scheduler.fail(self.now, id, moved),
                false => it.scheduler.complete(self.now, id, moved),
            };
            let ended = ended.expect("what is in flight completes once");
            it.selector.ended(self.now, &ended.request, moved, true);
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
                let at = sent + self.client_delay(Origin::Request(request));
                let ended = self.parts.remove(part);
                self.part_answered(request, at, &ended);
            }
            Origin::Flight(_) => {
                let random = &mut it.random.jitter;
                let at = sent + self.network.delay + up_to(random, self.network.jitter);
                self.calendar.post(at, Event::Return(part));
            }
        }
    }

    pub(super) fn part_answered(&mut self, request: u32, at: Timestamp, part: &Part) {
        let it = &mut self.requests[request];
        it.moved += part.moved;
        it.is_failed |= part.is_failed;
        it.last_answer = it.last_answer.max(at);
        let is_gone = self.clients[it.client as usize].is_gone;
        if !is_gone && !it.pieces.is_empty(&self.client_layout) {
            // It is under way until its client has the answer, and sends the next one.
            return self.calendar.post(at, Event::Continue(request));
        }
        it.parts_under_way -= 1;
        self.end_if_answered(request);
    }

    /// A part whose client has vanished ends without an answer.
    pub(super) fn answer_nobody(&mut self, part: u32) {
        let ended = self.parts.remove(part);
        if let Origin::Request(request) = ended.origin {
            self.part_answered(request, self.now, &ended);
        }
    }

    pub(super) fn cancel(&mut self, node: u32, part: u32, id: RequestId) {
        let is_the_same = self
            .parts
            .find(part)
            .is_some_and(|it| it.node == node && it.state == PartState::Accepted(id));
        if !is_the_same {
            return;
        }
        let it = &mut self.nodes[node as usize];
        let cancelled = it.scheduler.find(id);
        if it.scheduler.cancel(self.now, id) == Cancellation::Cancelled {
            if let Some(cancelled) = cancelled {
                it.selector.ended(self.now, &cancelled.request, Bytes::ZERO, false);
            }
            it.memory.give_back(self.parts[part].room());
            self.answer_nobody(part);
            self.grant(node);
        }
    }

    /// A piece of a forwarder's batch is back.
    pub(super) fn piece_returned(&mut self, part: u32) {
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
