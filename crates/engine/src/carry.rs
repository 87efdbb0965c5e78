//! From a dispatch to calls at the store and back: many small parts become one vectored call, a
//! long part becomes a stream of chunks.

use forebay_pool::{Buffer, Share};
use forebay_sched::request::Accepted;
use forebay_units::{Bytes, Timestamp};
use rustix::io::Errno;
use slotmap::{KeyData, new_key_type};

use crate::call::{Action, Event, PartKey, Piece, PieceKey, PieceState, Stage};
use crate::engine::Engine;
use crate::store::{Io, Operation};

new_key_type! {
    /// Names a call at the store; its number is the token of the `Io`.
    pub(crate) struct FlightKey;
}

/// Something that may go to the store.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Small parts, back to back in one file and direction: one vectored call.
    Batch(Vec<PartKey>),
    /// One piece whose data is there.
    Piece(PieceKey),
    /// A part without data: sync, truncate, allocate, advise.
    Control(PartKey),
}

/// What the store is carrying out.
#[derive(Debug)]
pub(crate) enum Flight {
    Pieces(Vec<PieceKey>),
    Control(PartKey),
}

impl Engine {
    /// Turns a batch of the scheduler into plans.
    pub(crate) fn plan(&mut self, members: &[Accepted]) {
        let mut small = Vec::new();
        for member in members {
            let key = PartKey::from(KeyData::from_ffi(member.request.tag));
            let owner = self.owner_of(key);
            let part = &mut self.parts[key];
            if matches!(part.stage, Stage::Queued(_)) {
                self.places.give_back(owner, 1);
            }
            part.stage = Stage::Dispatched(member.id);
            part.dispatch = self.dispatch_count;
            self.dispatch_count += 1;
            let moves_data = self.calls[part.call].action.moves_data();
            if moves_data && !part.is_stream {
                small.push(key);
                continue;
            }
            // Plans go in file order, so what was gathered before a long part goes before it.
            if !small.is_empty() {
                self.ready.push_back(Plan::Batch(std::mem::take(&mut small)));
            }
            if moves_data {
                self.streams.push_back(key);
            } else {
                self.ready.push_back(Plan::Control(key));
            }
        }
        if !small.is_empty() {
            self.ready.push_back(Plan::Batch(small));
        }
    }

    /// Starts the next call at the store for which everything is there; whether there was one.
    ///
    /// A read that finds no memory lets pass what already has some, since that is what gives memory
    /// back; nothing else that needs memory passes it, or it might wait for ever.
    pub(crate) fn start_ready(&mut self, now: Timestamp, events: &mut Vec<Event>) -> bool {
        let mut at = 0;
        while let Some(plan) = self.ready.remove(at) {
            if at > 0 && self.needs_memory(&plan) {
                self.ready.insert(at, plan);
                at += 1;
                continue;
            }
            match self.start_plan(now, plan, events) {
                Started::Yes => return true,
                Started::NothingLeft => {}
                Started::NoMemory(plan) => {
                    self.ready.insert(at, plan);
                    at += 1;
                }
            }
        }
        false
    }

    /// Whether a plan takes memory when it starts: only reads do, all other data is here already.
    fn needs_memory(&self, plan: &Plan) -> bool {
        let Plan::Batch(parts) = plan else { return false };
        let first = parts.iter().find_map(|key| self.parts.get(*key));
        first.is_some_and(|part| self.calls[part.call].action == Action::Read)
    }

    fn start_plan(&mut self, now: Timestamp, plan: Plan, events: &mut Vec<Event>) -> Started {
        match plan {
            Plan::Batch(parts) => self.start_batch(now, parts),
            Plan::Piece(key) => self.start_piece(now, key),
            Plan::Control(key) => self.start_control(now, key, events),
        }
    }

    fn start_batch(&mut self, now: Timestamp, mut parts: Vec<PartKey>) -> Started {
        parts.retain(|key| self.parts.contains_key(*key));
        // An abandoned member leaves a gap, and one call has none.
        let range_of = |key: PartKey| self.parts[key].range;
        let gap = parts.windows(2).position(|two| range_of(two[0]).end != range_of(two[1]).start);
        if let Some(last) = gap {
            self.ready.push_front(Plan::Batch(parts.split_off(last + 1)));
        }
        let Some(first) = parts.first() else { return Started::NothingLeft };
        let is_read = self.calls[self.parts[*first].call].action == Action::Read;
        let mut io = self.spare_io(self.operation_for(*first, 0));
        if is_read {
            let served_count = self.take_read_buffers(&parts, &mut io);
            if served_count == 0 {
                self.spare_back(io);
                return Started::NoMemory(Plan::Batch(parts));
            }
            if served_count < parts.len() {
                // A batch larger than the memory that is free goes in several calls, so it always goes.
                self.ready.push_front(Plan::Batch(parts.split_off(served_count)));
            }
        }
        let mut pieces = Vec::with_capacity(parts.len());
        for key in parts {
            let part = &mut self.parts[key];
            io.files.push(self.files.find(self.calls[part.call].file).expect("open").store);
            if is_read {
                let length = part.length();
                let state = PieceState::InStore;
                let piece = self.pieces.insert(Piece { part: key, offset: 0, length, state });
                part.add_piece(piece, length);
                pieces.push(piece);
            } else {
                let piece = part.pieces[0];
                io.buffers.push(self.pieces[piece].take_full());
                pieces.push(piece);
            }
        }
        self.launch(now, io, Flight::Pieces(pieces));
        Started::Yes
    }

    /// Memory for the members of a read, in order; how many of them got some.
    fn take_read_buffers(&self, parts: &[PartKey], io: &mut Io) -> usize {
        let buffers = parts
            .iter()
            .map_while(|key| self.pool.try_take(self.parts[*key].range.length(), Share::Dispatch));
        io.buffers.extend(buffers);
        io.buffers.len()
    }

    fn start_piece(&mut self, now: Timestamp, key: PieceKey) -> Started {
        let Some(piece) = self.pieces.get_mut(key) else { return Started::NothingLeft };
        let (part, offset) = (piece.part, piece.offset);
        let buffer = piece.take_full();
        self.launch_one(now, key, part, offset, buffer);
        Started::Yes
    }

    fn start_control(&mut self, now: Timestamp, key: PartKey, events: &mut Vec<Event>) -> Started {
        let Some(part) = self.parts.get_mut(key) else { return Started::NothingLeft };
        part.stop_starting();
        if self.calls[part.call].abandoned {
            self.end_part_if_over(now, key, events);
            return Started::NothingLeft;
        }
        part.is_in_store = true;
        let mut io = self.spare_io(self.operation_for(key, 0));
        io.files.push(self.store_file_of(key));
        self.launch(now, io, Flight::Control(key));
        Started::Yes
    }

    /// Starts the next chunk of a stream at the store, first stream first; whether there was one.
    pub(crate) fn extend_streams(&mut self, now: Timestamp, events: &mut Vec<Event>) -> bool {
        let mut at = 0;
        while let Some(&key) = self.streams.get(at) {
            match self.extend_stream(now, key, events) {
                Extended::Started => return true,
                Extended::NoMemory => at += 1,
                Extended::Over => {
                    self.streams.remove(at);
                }
                Extended::Full => {
                    self.streams.remove(at);
                    self.parts[key].is_parked = true;
                }
            }
        }
        false
    }

    /// Lets a stream go on that has waited for its peer or the store.
    pub(crate) fn unpark(&mut self, key: PartKey) {
        let Some(part) = self.parts.get_mut(key) else { return };
        if std::mem::take(&mut part.is_parked) {
            self.streams.push_front(key);
        }
    }

    /// Starts the next chunk of one stream: a read at the store, or requests to the peer.
    fn extend_stream(&mut self, now: Timestamp, key: PartKey, events: &mut Vec<Event>) -> Extended {
        loop {
            let Some(part) = self.parts.get(key) else { return Extended::Over };
            let Some((offset, length)) = part.next_chunk(self.options.chunk_bytes) else {
                return Extended::Over;
            };
            let call = &self.calls[part.call];
            // The chunks of an append have no offsets of their own: one at a time keeps them in order.
            let window = match call.action {
                Action::Append => 1,
                _ => self.options.chunks_in_flight_max,
            };
            if part.pieces.len() + part.unsent_count as usize >= window {
                return Extended::Full;
            }
            let is_read = call.action == Action::Read;
            let may_use_reserve = is_read || *self.privileged.get_or_insert(key) == key;
            let share = if may_use_reserve { Share::Dispatch } else { Share::Arrival };
            let Some(buffer) = self.pool.try_take(Bytes(length), share) else {
                return Extended::NoMemory;
            };
            if !is_read {
                let (origin, call, offset) = (call.origin, part.call, part.base + offset);
                events.push(Event::Pull { origin, call, offset, length });
            }
            let piece = Piece { part: key, offset, length, state: PieceState::InStore };
            let piece = self.pieces.insert(piece);
            self.parts[key].add_piece(piece, length);
            if is_read {
                self.launch_one(now, piece, key, offset, buffer);
                return Extended::Started;
            }
            self.pieces[piece].state = PieceState::Filling { buffer, filled: 0 };
        }
    }

    /// A chunk of a write is complete: it goes to the store, or nowhere if the call has failed
    /// before it. A chunk in front of the failure still counts towards the bytes written.
    pub(crate) fn chunk_arrived(&mut self, now: Timestamp, key: PieceKey, events: &mut Vec<Event>) {
        let piece = &self.pieces[key];
        let (part, offset) = (piece.part, piece.offset);
        let at = self.parts[part].base + offset;
        let fault = self.calls[self.parts[part].call].fault;
        if fault.is_none_or(|(lowest, _)| at < lowest) {
            self.line_up(key);
        } else {
            self.drop_piece(now, key, part, events);
        }
    }

    /// Puts a chunk in line: behind those of earlier dispatches and of its own beginning, in front
    /// of those of later ones, so that the store gets whole requests and not all of them in turns.
    fn line_up(&mut self, key: PieceKey) {
        let place = |engine: &Self, key: PieceKey| {
            let piece = engine.pieces.get(key)?;
            Some((engine.parts[piece.part].dispatch, piece.offset))
        };
        let own = place(self, key);
        let is_later = |plan: &Plan| match plan {
            Plan::Piece(other) => place(self, *other) > own,
            Plan::Batch(_) | Plan::Control(_) => false,
        };
        let later_count = self.ready.iter().rev().take_while(|plan| is_later(plan)).count();
        self.ready.insert(self.ready.len() - later_count, Plan::Piece(key));
    }

    fn drop_piece(
        &mut self,
        now: Timestamp,
        key: PieceKey,
        part: PartKey,
        events: &mut Vec<Event>,
    ) {
        self.pieces.remove(key);
        self.parts[part].pieces.retain(|other| *other != key);
        self.unpark(part);
        self.end_part_if_over(now, part, events);
    }

    fn launch_one(
        &mut self,
        now: Timestamp,
        key: PieceKey,
        part: PartKey,
        offset: u64,
        buffer: Buffer,
    ) {
        let mut io = self.spare_io(self.operation_for(part, offset));
        io.files.push(self.store_file_of(part));
        io.buffers.push(buffer);
        self.launch(now, io, Flight::Pieces(vec![key]));
    }

    fn launch(&mut self, now: Timestamp, mut io: Io, flight: Flight) {
        // While the store reads ahead the time of a call is not the device's for it.
        let is_watched = self.selection.is_some() && !self.store.reads_ahead();
        let length = is_watched.then(|| self.length_of(&flight));
        io.token = slotmap::Key::data(&self.flights.insert(flight)).as_ffi();
        if let (Some(selection), Some(length)) = (&mut self.selection, length) {
            selection.started(now, &io, length);
        }
        self.in_store_count += 1;
        self.counters.store_calls += 1;
        self.store.start(now, io);
    }

    /// How many bytes a call is to move.
    fn length_of(&self, flight: &Flight) -> u64 {
        match flight {
            Flight::Pieces(pieces) => pieces.iter().map(|key| self.pieces[*key].length).sum(),
            Flight::Control(_) => 0,
        }
    }

    fn store_file_of(&self, part: PartKey) -> crate::store::StoreFile {
        let call = &self.calls[self.parts[part].call];
        self.files.find(call.file).expect("a file with calls stays open").store
    }

    fn operation_for(&self, key: PartKey, offset: u64) -> Operation {
        let part = &self.parts[key];
        let start = part.range.start + Bytes(offset);
        match self.calls[part.call].action {
            Action::Read => Operation::Read(start),
            Action::Write => Operation::Write(start),
            Action::Append => Operation::Append,
            Action::Sync => Operation::Sync,
            Action::DataSync => Operation::DataSync,
            Action::Truncate(size) => Operation::Truncate(size),
            Action::Allocate { mode } => {
                Operation::Allocate { mode, offset: part.range.start, length: part.range.length() }
            }
            Action::Advise { advice } => {
                Operation::Advise { advice, offset: part.range.start, length: part.range.length() }
            }
        }
    }

    /// Takes a finished call back from the store.
    pub(crate) fn take_back(&mut self, now: Timestamp, mut io: Io, events: &mut Vec<Event>) {
        self.in_store_count -= 1;
        let key = FlightKey::from(KeyData::from_ffi(io.token));
        let flight = self.flights.remove(key).expect("a store finishes what it was given, once");
        let length = self.selection.is_some().then(|| self.length_of(&flight));
        if let (Some(selection), Some(length)) = (&mut self.selection, length) {
            let is_whole = io.outcome == Ok(Bytes(length));
            selection.finished(now, &io, is_whole && !self.store.reads_ahead());
        }
        match flight {
            Flight::Control(part) => self.control_done(now, part, io.outcome, events),
            Flight::Pieces(pieces) => self.pieces_done(now, &pieces, &mut io, events),
        }
        self.spare_back(io);
    }

    fn control_done(
        &mut self,
        now: Timestamp,
        key: PartKey,
        outcome: Result<Bytes, Errno>,
        events: &mut Vec<Event>,
    ) {
        let part = &mut self.parts[key];
        part.is_in_store = false;
        if let Err(errno) = outcome {
            self.calls[part.call].note_fault(0, Some(errno));
        }
        self.end_part_if_over(now, key, events);
    }

    /// Shares the outcome of a vectored call out among its members. Members that a merged call did
    /// not serve, because it failed or came up short, are done again one by one, so that each gets
    /// the result it would have had alone. Only a read that got some bytes keeps them: for its
    /// program they are an ordinary short read, while none at all would mean the end of the file.
    fn pieces_done(
        &mut self,
        now: Timestamp,
        pieces: &[PieceKey],
        io: &mut Io,
        events: &mut Vec<Event>,
    ) {
        let is_read = matches!(io.operation, Operation::Read(_));
        let mut left = io.outcome.map_or(0, |bytes| bytes.0);
        let is_merged = pieces.len() > 1;
        for (key, buffer) in pieces.iter().zip(io.buffers.drain(..)) {
            let (part_key, offset, length) = {
                let piece = &self.pieces[*key];
                (piece.part, piece.offset, piece.length)
            };
            let moved = left.min(length);
            left -= moved;
            let needs_own_try = is_merged && moved < length && (moved == 0 || !is_read);
            if needs_own_try {
                self.pieces[*key].state = PieceState::Full(buffer);
                self.ready.push_back(Plan::Piece(*key));
                continue;
            }
            let part = &mut self.parts[part_key];
            part.pieces.retain(|other| other != key);
            if moved < length {
                // Nothing behind the end of the file or an error is worth starting.
                part.stop_starting();
            }
            let (call, at) = (part.call, part.base + offset);
            if io.operation == Operation::Append && io.outcome.is_ok() {
                self.calls[call].end = io.end;
            }
            let outcome = io.outcome.map(|_| Bytes(moved));
            self.pieces.remove(*key);
            self.piece_moved(part_key, call, at, length, outcome, Some(buffer), events);
            self.unpark(part_key);
            self.end_part_if_over(now, part_key, events);
        }
    }
}

impl Piece {
    /// Takes the data out for the store.
    fn take_full(&mut self) -> Buffer {
        match std::mem::replace(&mut self.state, PieceState::InStore) {
            PieceState::Full(buffer) => buffer,
            other => unreachable!("only a full piece goes to the store, this one is {other:?}"),
        }
    }
}

enum Started {
    Yes,
    /// Everything in the plan was abandoned.
    NothingLeft,
    /// Not now; the plan comes back.
    NoMemory(Plan),
}

enum Extended {
    Started,
    NoMemory,
    /// As many chunks are under way as may be.
    Full,
    /// Every chunk has been started.
    Over,
}
