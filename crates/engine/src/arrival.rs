//! From a call to queued requests: parts, memory for their payload, admission to the scheduler.

use forebay_pool::{Buffer, Share};
use forebay_sched::request::Request;
use forebay_sched::scheduler::{Admission, Rejected, Room};
use forebay_units::{ByteRange, Bytes, ClassId, Offset, Timestamp};
use slotmap::Key;

use crate::call::{
    Action, Call, CallKey, Event, Part, PartKey, Piece, PieceKey, PieceState, Stage,
};
use crate::engine::{Engine, access_of};
use crate::store::{Io, Operation};
use crate::turns::{Owner, Served};

/// Where the next payload bytes of a call go.
#[derive(Debug)]
pub enum Sink<'a> {
    /// Here; report what was written with [`Engine::filled`].
    Into(&'a mut [u8]),
    /// There is no memory yet; [`Event::Resume`] will say when to ask again.
    Wait,
}

impl Engine {
    /// Where the payload byte at `offset` of the request goes.
    pub fn sink(&mut self, call: CallKey, offset: u64) -> Sink<'_> {
        let found = self.piece_at(call, offset).filter(|(key, at)| {
            matches!(&self.pieces[*key].state, PieceState::Filling { filled, .. } if filled == at)
        });
        let Some((key, at)) = found else {
            if let Some(call) = self.calls.get_mut(call) {
                call.is_awaited = true;
            }
            return Sink::Wait;
        };
        match &mut self.pieces[key].state {
            PieceState::Filling { buffer, .. } => Sink::Into(&mut buffer.as_mut_slice()[at..]),
            other => unreachable!("it was being filled a moment ago, now {other:?}"),
        }
    }

    /// `count` payload bytes were written to the sink for `offset`.
    pub fn filled(
        &mut self,
        now: Timestamp,
        call: CallKey,
        offset: u64,
        count: usize,
        events: &mut Vec<Event>,
    ) {
        let Some((key, _)) = self.piece_at(call, offset) else { return };
        let piece = &mut self.pieces[key];
        let PieceState::Filling { buffer, filled } = &mut piece.state else { return };
        *filled += count;
        if *filled < buffer.len() {
            return;
        }
        let part = piece.part;
        let PieceState::Filling { buffer, .. } =
            std::mem::replace(&mut piece.state, PieceState::InStore)
        else {
            return;
        };
        piece.state = PieceState::Full(buffer);
        if self.parts[part].is_stream {
            self.chunk_arrived(now, key, events);
        } else {
            self.admit(now, part, events);
        }
    }

    /// Makes parts of the call's next ranges, as many as may be under way at once.
    pub(crate) fn start_parts(&mut self, now: Timestamp, key: CallKey, events: &mut Vec<Event>) {
        let Some(call) = self.calls.get_mut(key) else { return };
        // A part that is over at once asks for the next one: the loop below is already about to.
        if std::mem::replace(&mut call.is_starting, true) {
            return;
        }
        while let Some(call) = self.calls.get_mut(key) {
            let Some(range) = call.ranges.find(call.next_range_idx) else { break };
            if call.parts.len() >= self.options.list_parts_max || call.abandoned {
                break;
            }
            let base = call.next_base;
            let is_stream = call.action.moves_data() && range.length() > self.options.chunk_bytes;
            call.next_range_idx += 1;
            call.next_base += range.length().0;
            if range.is_empty() && call.action.moves_data() {
                continue;
            }
            let takes_payload = call.action.takes_payload();
            let part = self.parts.insert(Part::new(key, range, base, is_stream));
            call.parts.push(part);
            if takes_payload && !is_stream {
                self.find_memory(part, events);
            } else {
                self.admit(now, part, events);
            }
        }
        if let Some(call) = self.calls.get_mut(key) {
            call.is_starting = false;
        }
        self.end_call_if_over(key, events);
    }

    /// What has waited for memory or for room in the scheduler.
    pub(crate) fn serve_waiting(&mut self, now: Timestamp, events: &mut Vec<Event>) {
        let mut waiting = std::mem::take(&mut self.arrivals);
        self.is_memory_short = waiting.serve(|part| match self.parts.contains_key(part) {
            true => self.try_memory(part, events),
            false => Served::Done,
        });
        self.arrivals = waiting;
        let mut waiting = std::mem::take(&mut self.unadmitted);
        waiting.serve(|part| match !self.parts.contains_key(part) || self.try_admit(now, part) {
            true => Served::Done,
            false => Served::ClassWaits,
        });
        self.unadmitted = waiting;
    }

    /// Gives a small write its one piece, now or when memory comes back.
    fn find_memory(&mut self, key: PartKey, events: &mut Vec<Event>) {
        let part = &mut self.parts[key];
        let length = part.length();
        let piece = Piece { part: key, offset: 0, length, state: PieceState::Bare };
        part.add_piece(self.pieces.insert(piece), length);
        let class = self.class_of(key);
        let stands_behind = self.is_memory_short || self.arrivals.has(class);
        let served = if stands_behind { Served::ClassWaits } else { self.try_memory(key, events) };
        if served != Served::Done {
            self.is_memory_short |= served == Served::AllWait;
            self.counters.memory_waits += 1;
            self.arrivals.push(class, key);
        }
    }

    fn class_of(&self, part: PartKey) -> ClassId {
        self.calls[self.parts[part].call].class
    }

    pub(crate) fn owner_of(&self, part: PartKey) -> Owner {
        let Call { class, group, .. } = self.calls[self.parts[part].call];
        Owner { class, group }
    }

    fn try_memory(&mut self, key: PartKey, events: &mut Vec<Event>) -> Served {
        let (owner, length) = (self.owner_of(key), self.parts[key].length());
        if self.scheduler.has_classes()
            && !self.holdings.allow(owner, length, self.pool.arrival_free_bytes().0)
        {
            return Served::ClassWaits;
        }
        let Some(buffer) = self.pool.try_take(Bytes(length), Share::Arrival) else {
            return Served::AllWait;
        };
        self.holdings.take(owner, length);
        let part = &mut self.parts[key];
        part.held_bytes = length;
        let call = &mut self.calls[part.call];
        self.pieces[part.pieces[0]].state = PieceState::Filling { buffer, filled: 0 };
        if !call.eager {
            events.push(Event::Pull {
                origin: call.origin,
                call: part.call,
                offset: part.base,
                length: part.length(),
            });
        } else if std::mem::take(&mut call.is_awaited) {
            events.push(Event::Resume { origin: call.origin });
        }
        Served::Done
    }

    /// Hands a part to the scheduler, or answers it at once where no device has to be waited for.
    fn admit(&mut self, now: Timestamp, key: PartKey, events: &mut Vec<Event>) {
        if self.answer_now(now, key, events) {
            return;
        }
        let class = self.class_of(key);
        if self.unadmitted.has(class) || !self.try_admit(now, key) {
            self.unadmitted.push(class, key);
        }
    }

    fn try_admit(&mut self, now: Timestamp, key: PartKey) -> bool {
        let owner = self.owner_of(key);
        if self.scheduler.has_classes()
            && !self.places.allow(owner, 1, self.scheduler.free_count() as u64)
        {
            return false;
        }
        let request = self.request_for(key);
        let is_idle = self.ready.is_empty() && self.streams.is_empty();
        let has_room = self.has_store_room() && is_idle;
        let room = if has_room { Room::Free } else { Room::Full };
        let admitted = self.scheduler.submit(now, request, room);
        if let (Some(selection), Ok(admission)) = (&mut self.selection, &admitted) {
            let is_bypassed = matches!(admission, Admission::Bypassed(_));
            selection.submitted(now, &request, is_bypassed);
        }
        match admitted {
            Ok(Admission::Bypassed(accepted)) => {
                self.plan(&[accepted]);
                true
            }
            Ok(Admission::Queued(id) | Admission::Blocked(id)) => {
                self.parts[key].stage = Stage::Queued(id);
                self.places.take(owner, 1);
                true
            }
            Err(Rejected::QueueFull) => false,
            Err(Rejected::EmptyRange) => unreachable!("empty ranges never become parts"),
        }
    }

    /// The part as the scheduler sees it.
    fn request_for(&self, key: PartKey) -> Request {
        let part = &self.parts[key];
        let call = &self.calls[part.call];
        let index = self.files.find(call.file).expect("a file with calls stays open").index;
        let range = match call.action {
            Action::Read | Action::Write => part.range,
            // Where a truncation begins to matter depends on the size when its turn comes.
            Action::Append | Action::Truncate(_) | Action::Sync | Action::DataSync => {
                ByteRange::WHOLE_FILE
            }
            // Punching and collapsing change everything behind them; a plain allocation may extend the file.
            Action::Allocate { .. } | Action::Advise { .. } => {
                ByteRange::from_start(part.range.start)
            }
        };
        Request {
            tag: key.data().as_ffi(),
            file: index,
            access: access_of(call.action),
            range,
            client: call.client,
            class: call.class,
        }
    }

    /// The O(1) way past the scheduler: a small read that conflicts with nothing under way and
    /// that the store can serve without waiting for a device.
    fn answer_now(&mut self, now: Timestamp, key: PartKey, events: &mut Vec<Event>) -> bool {
        let part = &self.parts[key];
        let call = &self.calls[part.call];
        let fits = call.action == Action::Read && !part.is_stream && self.store.tries_now();
        // What waits to be admitted has arrived before, and the scheduler does not know it yet; but
        // one class's waiting is no other's.
        let may_pass = fits
            && !self.unadmitted.has(call.class)
            && !self.always_scheduled.contains(&call.class);
        if !may_pass || self.scheduler.has_conflict(&self.request_for(key)) {
            return false;
        }
        let part = &self.parts[key];
        let Some(buffer) = self.pool.try_take(part.range.length(), Share::Dispatch) else {
            return false;
        };
        let open =
            self.files.find(self.calls[part.call].file).expect("a file with calls stays open");
        let (start, store_file) = (part.range.start, open.store);
        let mut io = self.spare_io(Operation::Read(start));
        io.files.push(store_file);
        io.buffers.push(buffer);
        match self.store.try_now(io) {
            Ok(io) => {
                self.counters.immediate += 1;
                self.counters.store_calls += 1;
                self.answer_immediate(now, key, io, events);
                true
            }
            Err(io) => {
                self.spare_back(io);
                false
            }
        }
    }

    fn answer_immediate(
        &mut self,
        now: Timestamp,
        key: PartKey,
        mut io: Io,
        events: &mut Vec<Event>,
    ) {
        let part = &mut self.parts[key];
        part.stop_starting();
        let (call, base, length) = (part.call, part.base, part.length());
        let buffer = io.buffers.pop().expect("one buffer went in");
        self.piece_moved(key, call, base, length, io.outcome, Some(buffer), events);
        self.spare_back(io);
        if self.scheduler.is_recorded() {
            let (request, moved) = (self.request_for(key), Bytes(self.parts[key].moved));
            self.scheduler.note_immediate(now, Request { tag: 0, ..request }, moved);
        }
        self.end_part_if_over(now, key, events);
    }

    pub(crate) fn spare_io(&mut self, operation: Operation) -> Io {
        let mut io = self.spare.pop().unwrap_or_else(|| Io {
            token: 0,
            files: Vec::new(),
            operation,
            buffers: Vec::new(),
            outcome: Ok(Bytes::ZERO),
            end: Offset(0),
        });
        io.operation = operation;
        io.outcome = Ok(Bytes::ZERO);
        io.end = Offset(0);
        io
    }

    pub(crate) fn spare_back(&mut self, mut io: Io) {
        io.files.clear();
        io.buffers.clear();
        if self.spare.len() < 64 {
            self.spare.push(io);
        }
    }

    /// The piece that holds `offset` of the request, and how far into the piece that is.
    fn piece_at(&self, call: CallKey, offset: u64) -> Option<(PieceKey, usize)> {
        let call = self.calls.get(call)?;
        let part = call
            .parts
            .iter()
            .map(|key| &self.parts[*key])
            .find(|part| (part.base..part.base + part.length()).contains(&offset))?;
        let inner = offset - part.base;
        part.pieces.iter().find_map(|key| {
            let piece = &self.pieces[*key];
            let at = inner.checked_sub(piece.offset).filter(|at| *at < piece.length)?;
            Some((*key, usize::try_from(at).ok()?))
        })
    }

    /// Accounts for bytes that the store moved (or did not) and passes data on to the peer.
    #[expect(clippy::too_many_arguments, reason = "one place for both ways through the store")]
    pub(crate) fn piece_moved(
        &mut self,
        part: PartKey,
        call: CallKey,
        at: u64,
        length: u64,
        outcome: Result<Bytes, rustix::io::Errno>,
        buffer: Option<Buffer>,
        events: &mut Vec<Event>,
    ) {
        let moved = outcome.map_or(0, |bytes| bytes.0.min(length));
        let call = &mut self.calls[call];
        if moved < length {
            call.note_fault(at + moved, outcome.err());
        }
        let part_key = part;
        let part = &mut self.parts[part];
        part.moved += moved;
        match buffer {
            Some(mut buffer) if call.action == Action::Read => {
                self.counters.read_bytes += moved;
                if moved > 0 && !call.abandoned {
                    buffer.set_len(usize::try_from(moved).expect("at most a chunk"));
                    part.unsent_count += 1;
                    let origin = call.origin;
                    events.push(Event::Data { origin, part: part_key, offset: at, buffer });
                }
            }
            _ => self.counters.written_bytes += moved,
        }
    }

    /// Ends a part when nothing of it is left to do, and its call with it.
    pub(crate) fn end_part_if_over(
        &mut self,
        now: Timestamp,
        key: PartKey,
        events: &mut Vec<Event>,
    ) {
        let Some(part) = self.parts.get(key) else { return };
        if !part.is_over() {
            return;
        }
        let owner = self.owner_of(key);
        let part = self.parts.remove(key).expect("it was just found");
        self.holdings.give_back(owner, part.held_bytes);
        if let Stage::Dispatched(id) = part.stage {
            let errno = self.calls.get(part.call).map_or(0, |call| call.errno_of(&part));
            let moved = Bytes(part.moved);
            let ended = self.scheduler.complete(now, id, moved, errno);
            if let (Some(selection), Some(accepted)) = (&mut self.selection, ended) {
                selection.ended(now, &accepted.request, moved);
            }
        }
        self.privileged = self.privileged.filter(|privileged| *privileged != key);
        if let Some(call) = self.calls.get_mut(part.call) {
            call.parts.retain(|other| *other != key);
            self.start_parts(now, part.call, events);
        }
    }

    pub(crate) fn end_call_if_over(&mut self, key: CallKey, events: &mut Vec<Event>) {
        let Some(call) = self.calls.get(key) else { return };
        let has_ranges_left = call.ranges.find(call.next_range_idx).is_some() && !call.abandoned;
        if has_ranges_left || !call.parts.is_empty() {
            return;
        }
        let call = self.calls.remove(key).expect("it was just found");
        if !call.abandoned {
            let outcome = call.outcome();
            self.counters.errors += u64::from(outcome.is_err());
            events.push(Event::Done { origin: call.origin, outcome, end: call.end });
        }
        if let Some(open) = self.files.find_mut(call.file) {
            open.calls_count -= 1;
        }
        self.close_if_quiet(call.file, events);
    }
}
