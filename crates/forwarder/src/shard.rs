//! The event loop: one thread, one `epoll`, one engine, all connections.
//!
//! ```text
//! wait ─► { accept | read a connection | write a connection | store finished | stop } ─► turn the engine ─► deliver ─► wait
//! ```
//!
//! The loop invariant: between two waits everything that could be done without waiting has been
//! done. So a connection that has bytes to send waits for room in its socket, a paused one for
//! memory, and the engine for its store, a timer or a request; nothing waits for the loop.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::Builder;

use forebay_engine::Event;
use forebay_session::server::Limits;
use forebay_tape::{Course, Tape};
use forebay_trace::{Header, Recorder, RecorderOptions, Setup};
use forebay_transport::{Listener, Peer, Stream};
use forebay_units::{Bytes, Nanos, Timestamp};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slotmap::{Key, KeyData, SlotMap, new_key_type};

use crate::alarm::Alarm;
use crate::assemble::Assembled;
use crate::clock::Clock;
use crate::connection::{Connection, Ending};
use crate::rights::Rights;
use crate::settings::{self, Network, Settings, TcpControl};
use crate::shared::Shared;
use crate::socket::turn_away;
use crate::status::Status;

new_key_type! {
    /// A connection; its number is at least 2^32, so that smaller ones are free for [`Token`].
    pub(crate) struct ConnectionKey;
}

/// What an event is about, when it is not a connection.
mod token {
    pub(super) const STOP: u64 = 0;
    pub(super) const STORE: u64 = 1;
    pub(super) const ALARM: u64 = 2;
    pub(super) const LISTENERS: u64 = 3;
}

/// How often peers are checked for having stalled: a tenth of the time-out, within these.
const STALL_CHECK_MIN: Nanos = Nanos::millis(10);
const STALL_CHECK_MAX: Nanos = Nanos::secs(1);

/// For how many times as long as a status took there is no other.
const STATUS_REST: u64 = 9;

/// How long a forwarder that was told to stop waits for answers to be ready and taken.
const STOP_GRACE: Nanos = Nanos::secs(2);

/// Bytes taken from a socket at once when no payload is expected.
const SCRATCH_BYTES: usize = 64 << 10;

/// What is written to the stop descriptor. The kernel adds up what several threads write, so the
/// greater one stands where the sum of many smaller ones does not reach.
pub(crate) const STOP_WHEN_UNUSED: u64 = 1;
pub(crate) const STOP_NOW: u64 = 1 << 32;

pub(crate) struct Shard {
    clock: Clock,
    epoll: OwnedFd,
    alarm: Alarm,
    stop: OwnedFd,
    stops_when_unused: bool,
    listeners: Vec<Listener>,
    allowed: Vec<Network>,
    limits: settings::Session,
    tcp_control: TcpControl,
    connections: SlotMap<ConnectionKey, Connection>,
    shared: Shared,
    /// Connections with input that is here already and has to wait for its next turn.
    unfinished: Vec<ConnectionKey>,
    /// Events in the course of being delivered, and whom they concern; kept for their allocations.
    delivering: Vec<Event>,
    touched: Vec<ConnectionKey>,
    is_accepting: bool,
    /// While stopping: when to give up on what is not answered.
    stops_at: Option<Timestamp>,
    next_stall_check: Timestamp,
    /// Before that nobody is told the status.
    next_status: Timestamp,
    tape: Option<Tape>,
}

impl Shard {
    /// A loop that ends once `stop` becomes readable.
    pub(crate) fn new(
        listeners: Vec<Listener>,
        stop: OwnedFd,
        settings: &Settings,
        assembled: Assembled,
    ) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &stop, epoll::EventData::new_u64(token::STOP), readable)?;
        for (listener, number) in listeners.iter().zip(token::LISTENERS..) {
            epoll::add(&epoll, listener, epoll::EventData::new_u64(number), readable)?;
        }
        let alarm = Alarm::new()?;
        epoll::add(&epoll, &alarm, epoll::EventData::new_u64(token::ALARM), readable)?;
        if let Some(descriptor) = assembled.engine.wake().descriptor {
            epoll::add(&epoll, descriptor, epoll::EventData::new_u64(token::STORE), readable)?;
        }
        Ok(Self {
            clock: Clock::start(),
            epoll,
            alarm,
            stop,
            stops_when_unused: false,
            listeners,
            allowed: settings.listen.tcp_allow.clone(),
            limits: settings.session.clone(),
            tcp_control: settings.listen.tcp_control,
            connections: SlotMap::with_key(),
            shared: Shared::new(assembled, SCRATCH_BYTES, settings),
            unfinished: Vec::new(),
            delivering: Vec::new(),
            touched: Vec::new(),
            is_accepting: true,
            stops_at: None,
            next_stall_check: Timestamp(0),
            next_status: Timestamp(0),
            tape: None,
        })
    }

    /// Takes down from now on what the engine's scheduler is told and decides.
    pub(crate) fn record(
        &mut self,
        path: &Path,
        settings: &Settings,
        setup: &Setup,
    ) -> io::Result<()> {
        let options = RecorderOptions::within(settings.trace.buffer_bytes.0 as usize);
        let own = settings.entries().map(|(key, value)| (key.to_owned(), value));
        let header = Header {
            source: concat!("forebay ", env!("CARGO_PKG_VERSION")).into(),
            clock_base_ns: self.clock.wall_base_ns(),
            settings: setup.entries().into_iter().chain(own).collect(),
        };
        let start = |write| Builder::new().name("trace".into()).spawn(write);
        self.tape = Some(Tape::create(path, &header, options, start)?);
        self.shared.engine.record(Recorder::new(options, 0));
        Ok(())
    }

    /// Ends the trace, if there is one.
    fn end_record(&mut self) {
        let (tape, recorder) = (self.tape.take(), self.shared.engine.end_record());
        let (Some(tape), Some(recorder)) = (tape, recorder) else { return };
        match tape.finish(recorder) {
            Ok(totals) if totals.lost_events > 0 => crate::log::warn(format_args!(
                "the trace lacks {} of {} events: its disk was too slow; raise trace.buffer_bytes",
                totals.lost_events,
                totals.events + totals.lost_events
            )),
            Ok(_) => {}
            Err(error) => crate::log::warn(format_args!("the trace is not whole: {error}")),
        }
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self) -> Result<Status, Errno> {
        self.shared.sharing.begin(&mut self.shared.engine, self.clock.wall_base_ns());
        let mut ready = Vec::with_capacity(256);
        loop {
            ready.clear();
            let limit = self.set_alarm()?;
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), limit.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            self.shared.now = self.clock.now();
            for event in ready.drain(..) {
                match event.data.u64() {
                    token::STOP if self.told_to_stop() >= STOP_NOW => self.begin_stop(),
                    token::STOP => self.stops_when_unused = true,
                    token::STORE | token::ALARM => {}
                    number if number < token::LISTENERS + self.listeners.len() as u64 => {
                        self.accept(usize::try_from(number - token::LISTENERS).unwrap_or(0));
                    }
                    number => {
                        self.serve(ConnectionKey::from(KeyData::from_ffi(number)), event.flags)
                    }
                }
            }
            for key in std::mem::take(&mut self.unfinished) {
                self.serve(key, epoll::EventFlags::IN);
            }
            self.answer_status();
            self.settle();
            self.drop_stalled();
            if let (Some(tape), Some(recorder)) = (&mut self.tape, self.shared.engine.recorder())
                && tape.exchange_by(self.shared.now, recorder) == Course::Ends
            {
                crate::log::warn(format_args!("the trace cannot be written and ends here"));
            }
            self.shared.sharing.save_now_and_then(&self.shared.engine, self.shared.now);
            if self.has_stopped() {
                self.end_record();
                self.shared.sharing.save_at_end(&self.shared.engine);
                return Ok(self.shared.status());
            }
        }
    }

    /// Takes no new connections and no new requests, and lets what was asked for be answered.
    fn begin_stop(&mut self) {
        self.accept_or_not(false);
        self.shared.is_stopping = true;
        self.stops_at = Some(self.shared.now + STOP_GRACE);
        for key in self.connections.keys().collect::<Vec<_>>() {
            self.watch(key);
        }
    }

    /// Whether nobody is left to serve: it was told to stop and everything is answered or the time
    /// for that is over, or it was told to stop when unused and is.
    fn has_stopped(&self) -> bool {
        if self.stops_when_unused && self.connections.is_empty() {
            return true;
        }
        let Some(limit) = self.stops_at else { return false };
        let is_quiet = self.shared.engine.calls_count() == 0
            && !self.connections.values().any(Connection::has_output);
        let is_over = is_quiet || self.shared.now >= limit;
        if is_over {
            self.connections.values().for_each(Connection::tell_stop);
        }
        is_over
    }

    /// Watches the listening sockets or leaves their peers waiting.
    fn accept_or_not(&mut self, is_accepting: bool) {
        if self.is_accepting == is_accepting {
            return;
        }
        self.is_accepting = is_accepting;
        let mut wanted = epoll::EventFlags::empty();
        wanted.set(epoll::EventFlags::IN, is_accepting);
        for (listener, number) in self.listeners.iter().zip(token::LISTENERS..) {
            epoll::modify(&self.epoll, listener, epoll::EventData::new_u64(number), wanted)
                .expect("the listener was added at the start");
        }
    }

    /// What was written to the stop descriptor since it was last read.
    fn told_to_stop(&self) -> u64 {
        let mut sum = [0; 8];
        // It is readable, or nobody would have asked.
        let _ = rustix::io::read(&self.stop, &mut sum);
        u64::from_ne_bytes(sum)
    }

    /// Turns the engine and delivers what comes out, until nothing moves.
    fn settle(&mut self) {
        loop {
            self.shared.engine.turn(self.shared.now, &mut self.shared.events);
            if self.shared.events.is_empty() {
                return;
            }
            std::mem::swap(&mut self.delivering, &mut self.shared.events);
            for event in self.delivering.drain(..) {
                let key = ConnectionKey::from(KeyData::from_ffi(connection_of(&event)));
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.deliver(event, self.shared.now);
                    if self.touched.last() != Some(&key) {
                        self.touched.push(key);
                    }
                }
            }
            self.touched.sort_unstable();
            self.touched.dedup();
            let mut touched = std::mem::take(&mut self.touched);
            for key in touched.drain(..) {
                self.serve(key, epoll::EventFlags::OUT);
            }
            self.touched = touched;
        }
    }

    /// Moves what one connection can move now.
    fn serve(&mut self, key: ConnectionKey, flags: epoll::EventFlags) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let has_hung_up = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let mut outcome = match has_hung_up && connection.is_deaf(&self.shared) {
            true => Err(Ending::Left),
            false => connection.write(&mut self.shared),
        };
        if outcome.is_ok() && flags.intersects(!epoll::EventFlags::OUT) {
            outcome =
                connection.read(&mut self.shared).and_then(|()| connection.write(&mut self.shared));
        }
        match outcome {
            Ok(()) => {
                if connection.has_more(&self.shared) {
                    self.unfinished.push(key);
                }
                self.watch(key);
            }
            Err(ending) => self.end(key, ending),
        }
    }

    /// Tells epoll what this connection waits for now, if that has changed.
    fn watch(&mut self, key: ConnectionKey) {
        let connection = &mut self.connections[key];
        let wanted = connection.interest(&self.shared);
        if wanted != connection.watched {
            connection.watched = wanted;
            let data = epoll::EventData::new_u64(key.data().as_ffi());
            epoll::modify(&self.epoll, connection.stream(), data, wanted)
                .expect("the socket was added when the connection was accepted");
        }
    }

    fn accept(&mut self, listener: usize) {
        loop {
            match self.listeners[listener].accept() {
                Ok(Some((stream, peer))) => self.admit(stream, peer),
                Ok(None) => return,
                Err(errno) => {
                    // Out of descriptors or memory: peers wait until a connection ends or time passes.
                    crate::log::warn(format_args!("cannot accept for now: {errno}"));
                    self.accept_or_not(false);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: Stream, peer: Peer) {
        let is_allowed = match peer {
            Peer::Local { .. } => true,
            Peer::Remote(address) => self.allowed.iter().any(|network| network.contains(address)),
        };
        let has_room = self.connections.len() < self.limits.connections_max as usize;
        if !is_allowed || !has_room {
            self.shared.clients.connections_refused += 1;
            let (errno, message) = match is_allowed {
                true => (Errno::USERS, "too many connections: session.connections_max"),
                false => (Errno::ACCESS, "this address is not allowed: listen.tcp_allow"),
            };
            turn_away(&stream, errno, message);
            return;
        }
        self.shared.clients.connections_accepted += 1;
        let limits = Limits {
            eager_bytes_max: narrow(self.limits.eager_bytes_max),
            chunk_bytes_max: narrow(self.limits.chunk_bytes_max),
            requests_max: self.limits.requests_max,
        };
        let rights = Rights::of(peer, self.tcp_control);
        let now = self.shared.now;
        let key = self.connections.insert_with_key(|key| {
            Connection::new(key.data().as_ffi(), stream, limits, rights, now)
        });
        let connection = &self.connections[key];
        let data = epoll::EventData::new_u64(key.data().as_ffi());
        if epoll::add(&self.epoll, connection.stream(), data, connection.watched).is_err() {
            self.connections.remove(key);
        }
        self.shared.clients.connections = self.connections.len() as u64;
    }

    fn end(&mut self, key: ConnectionKey, ending: Ending) {
        let Some(connection) = self.connections.remove(key) else { return };
        match ending {
            Ending::Left => {}
            Ending::Violation => self.shared.clients.violations += 1,
            Ending::Stalled => self.shared.clients.stalled += 1,
        }
        self.shared.clients.connections = self.connections.len() as u64;
        let _ = epoll::delete(&self.epoll, connection.stream());
        connection.bury(&mut self.shared);
        self.accept_or_not(self.stops_at.is_none());
    }

    /// Tells the status to whoever has asked. It costs what its tables are long, and everybody waits
    /// meanwhile, so all who ask get the same one, and after each the loop does other things for
    /// nine times as long. No answer is older than its question.
    fn answer_status(&mut self) {
        let is_due = self.shared.now >= self.next_status || self.stops_at.is_some();
        if self.shared.status_asked.is_empty() || !is_due {
            return;
        }
        let begin = self.clock.now();
        let text = serde_json::to_vec(&self.shared.status()).expect("a status is plain data");
        let text: Arc<[u8]> = text.into();
        for number in std::mem::take(&mut self.shared.status_asked) {
            let key = ConnectionKey::from(KeyData::from_ffi(number));
            if let Some(connection) = self.connections.get_mut(key) {
                connection.send_status(&text, self.shared.now);
                self.serve(key, epoll::EventFlags::OUT);
            }
        }
        let end = self.clock.now();
        self.next_status = end + Nanos((end - begin).0.saturating_mul(STATUS_REST));
    }

    /// Drops every peer that owes something and has not moved for the time-out.
    fn drop_stalled(&mut self) {
        let now = self.shared.now;
        if now < self.next_stall_check {
            return;
        }
        self.next_stall_check = now + self.stall_check_interval();
        let limit = self.limits.idle_timeout;
        let stalled: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.stalled_for(&self.shared) > limit)
            .map(|(key, _)| key)
            .collect();
        self.accept_or_not(self.stops_at.is_none());
        for key in stalled {
            self.end(key, Ending::Stalled);
        }
        self.settle();
    }

    fn stall_check_interval(&self) -> Nanos {
        Nanos(self.limits.idle_timeout.0 / 10).clamp(STALL_CHECK_MIN, STALL_CHECK_MAX)
    }

    /// Sets the alarm to when something has to be done even if nothing happens; says whether there
    /// is something to be done right now.
    fn set_alarm(&mut self) -> Result<Option<Timespec>, Errno> {
        let has_checks = !self.connections.is_empty() || !self.is_accepting;
        let deadlines = [
            self.shared.engine.wake().deadline,
            has_checks.then_some(self.next_stall_check),
            (!self.shared.status_asked.is_empty()).then_some(self.next_status),
            self.stops_at,
        ];
        self.alarm.set(self.clock, deadlines.into_iter().flatten().min())?;
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok((!self.unfinished.is_empty()).then_some(now))
    }
}

/// A length that the settings keep well below 4 GiB.
fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.0).unwrap_or(u32::MAX)
}

fn connection_of(event: &Event) -> u64 {
    match event {
        Event::Pull { origin, .. }
        | Event::Resume { origin }
        | Event::Data { origin, .. }
        | Event::Done { origin, .. } => origin.connection,
    }
}
