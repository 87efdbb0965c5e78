//! What all connections of a loop share: the engine, the memory, the clock's last reading, counters.

use std::collections::BTreeMap;

use forebay_engine::{Engine, Event};
use forebay_pool::Pool;
use forebay_units::Timestamp;

use crate::status::{self, Clients, Status};

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pool: Pool,
    /// The time of this turn of the loop.
    pub(crate) now: Timestamp,
    /// What the engine wants done, in order.
    pub(crate) events: Vec<Event>,
    /// Where frames are received before anybody knows what they are.
    pub(crate) scratch: Vec<u8>,
    pub(crate) clients: Clients,
    /// Calls that clients did not send here, by their number for the reason.
    not_hooked: BTreeMap<u8, u64>,
}

impl Shared {
    pub(crate) fn new(engine: Engine, pool: Pool, scratch_bytes: usize) -> Self {
        Self {
            engine,
            pool,
            now: Timestamp(0),
            events: Vec::new(),
            scratch: vec![0; scratch_bytes],
            clients: Clients::default(),
            not_hooked: BTreeMap::new(),
        }
    }

    /// Notes what a leaving client reports of itself.
    pub(crate) fn note_bye(&mut self, reasons: &[(u8, u64)], _forwarded: u64) {
        for (reason, calls) in reasons {
            *self.not_hooked.entry(*reason).or_default() += calls;
        }
    }

    pub(crate) fn status(&self) -> Status {
        let engine = self.engine.counters();
        let scheduler = self.engine.scheduler_stats();
        let (queued, in_flight) = self.engine.queued_and_in_flight();
        let store = self.engine.store();
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ns: self.now.0,
            policy: self.engine.policy_name().into(),
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
                .map(|(reason, calls)| (format!("reason {reason}"), *calls))
                .collect(),
        }
    }
}
