//! What all connections of a loop share: the engine, the memory, the clock's last reading, counters.

use std::collections::{BTreeMap, HashMap};

use forebay_engine::{Engine, Event};
use forebay_pool::Pool;
use forebay_units::{ClientId, Timestamp};

use crate::assemble::Assembled;
use crate::settings::Settings;
use crate::sharing::Sharing;
use crate::status::{self, Clients, Status};

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) sharing: Sharing,
    pool: Pool,
    /// Connections that wait for the status.
    pub(crate) status_asked: Vec<u64>,
    /// The time of this turn of the loop.
    pub(crate) now: Timestamp,
    /// What the engine wants done, in order.
    pub(crate) events: Vec<Event>,
    /// Where frames are received before anybody knows what they are.
    pub(crate) scratch: Vec<u8>,
    pub(crate) clients: Clients,
    /// Processes that are connected, by the number they gave themselves.
    processes: HashMap<u64, Process>,
    next_client: u32,
    /// No new requests are taken.
    pub(crate) is_stopping: bool,
    /// The most memory that one connection's reads may hold; a single request may exceed it.
    pub(crate) read_share_bytes: u64,
    /// The most of it that one read holds at once.
    pub(crate) read_window_bytes: u64,
    /// Calls that clients did not send here, by their number for the reason.
    not_hooked: BTreeMap<u8, u64>,
}

/// A process with at least one connection.
struct Process {
    client: ClientId,
    connections_count: u32,
}

/// One connection's reads may hold this part of the pool.
const READ_SHARE: u64 = 8;

impl Shared {
    pub(crate) fn new(assembled: Assembled, scratch_bytes: usize, settings: &Settings) -> Self {
        let Assembled { engine, pool, selection, is_rotating } = assembled;
        let sharing = Sharing::new(settings, selection, is_rotating);
        let options = engine.options();
        Self {
            sharing,
            processes: HashMap::new(),
            next_client: 0,
            is_stopping: false,
            read_share_bytes: pool.capacity_bytes().0 / READ_SHARE,
            read_window_bytes: options.chunk_bytes.0 * options.chunks_in_flight_max as u64,
            engine,
            pool,
            now: Timestamp(0),
            status_asked: Vec::new(),
            events: Vec::new(),
            scratch: vec![0; scratch_bytes],
            clients: Clients::default(),
            not_hooked: BTreeMap::new(),
        }
    }

    /// A process has said hello on one more connection: the client it is to the scheduler.
    pub(crate) fn enter(&mut self, process: u64) -> ClientId {
        let next = ClientId(self.next_client);
        let entry = self.processes.entry(process);
        let known = entry.or_insert(Process { client: next, connections_count: 0 });
        if known.connections_count == 0 {
            self.next_client = self.next_client.wrapping_add(1);
            self.clients.processes += 1;
        }
        known.connections_count += 1;
        known.client
    }

    /// One of a process's connections has ended.
    pub(crate) fn leave(&mut self, process: u64) {
        if let Some(known) = self.processes.get_mut(&process) {
            known.connections_count -= 1;
            if known.connections_count == 0 {
                self.processes.remove(&process);
            }
        }
    }

    /// Notes which calls a leaving client did not send here.
    pub(crate) fn note_bye(&mut self, reasons: &[(u8, u64)]) {
        for (reason, calls) in reasons {
            let sum = self.not_hooked.entry(*reason).or_default();
            *sum = sum.saturating_add(*calls);
        }
    }

    pub(crate) fn status(&self) -> Status {
        let engine = self.engine.counters();
        let scheduler = self.engine.scheduler_stats();
        let (queued, in_flight) = self.engine.queued_and_in_flight();
        let store = self.engine.store();
        let (sharing, classes, files) = self.sharing.report(&self.engine, self.now);
        let selection = self.sharing.selection(&self.engine, self.now);
        Status {
            sharing,
            classes,
            files,
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ns: self.now.0,
            policy: match &selection {
                None => self.engine.policy_name().into(),
                Some(selection) => selection.in_force(),
            },
            selection,
            store: store.name(),
            store_counters: store
                .counters()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            clients: Clients {
                open_files: self.engine.open_files_count() as u64,
                ..self.clients.clone()
            },
            pool: status::Pool {
                capacity_bytes: self.pool.capacity_bytes().0,
                used_bytes: self.pool.used_bytes().0,
                peak_bytes: self.pool.peak_bytes().0,
            },
            calls: status::Calls {
                accepted: engine.calls,
                unanswered: self.engine.calls_count() as u64,
                reads: engine.reads,
                writes: engine.writes,
                errors: engine.errors,
                read_bytes: engine.read_bytes,
                written_bytes: engine.written_bytes,
                immediate: engine.immediate,
                store_calls: engine.store_calls,
                memory_waits: engine.memory_waits,
            },
            scheduler: status::Scheduler {
                submitted: scheduler.submitted,
                bypassed: scheduler.bypassed,
                skipped: scheduler.skipped,
                batches: scheduler.policy_batches,
                batched_requests: scheduler.batched_requests,
                batched_bytes: scheduler.batched_bytes.0,
                blocked: scheduler.blocked,
                waits: scheduler.waits,
                waited_ns: scheduler.waited.0,
                queued: queued as u64,
                in_flight: in_flight as u64,
            },
            not_hooked: self
                .not_hooked
                .iter()
                .map(|(reason, calls)| {
                    let text = forebay_wire::Cause::from_number(*reason)
                        .map(|cause| cause.text().to_owned());
                    (text.unwrap_or_else(|| format!("reason {reason}")), *calls)
                })
                .collect(),
        }
    }
}
