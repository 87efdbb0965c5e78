//! A server or the forwarder: a scheduler, one processor, a link, and what lies below.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use forebay_device::SplitMix64;
use forebay_sched::sharing::{Discipline, SharingSettings};
use forebay_sched::{
    Batch, Bypass, ClassOptions, Limits, PolicyName, PolicySettings, RequestId, Room, Scheduler,
    SchedulerOptions, build, source,
};
use forebay_units::{Bytes, ClassId, Direction, Nanos, Timestamp};

use crate::drive::Drive;
use crate::scenario::{Network, Scenario, Scheduling};
use crate::selector::{Choice, Selector};
use crate::slab::Slab;
use crate::workload::Application;

/// The request size at which devices are asked whether waiting for order can pay.
const SMALL_REQUEST: Bytes = Bytes::kib(8);

/// What waits for a node's processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    /// A part has arrived.
    Part(u32),
    /// A batch is finished below.
    Done(u32),
    /// A part's client has vanished; the id tells whether the part is still the same.
    Cancel(u32, RequestId),
    /// The policy wanted to be asked again.
    Ask,
    /// The scheduler shares in another way from now on.
    Adjust(u32),
}

/// A batch that is being carried out.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// The parts of the batch.
    pub(crate) members: Vec<u32>,
    /// Pieces of it at servers.
    pub(crate) pieces_left: u32,
    pub(crate) is_failed: bool,
}

/// A server or the forwarder.
pub(crate) struct Node {
    pub(crate) scheduler: Scheduler,
    /// Which policy the scheduler has.
    pub(crate) selector: Selector,
    /// To be filled by the scheduler; empty between decisions.
    pub(crate) batch: Batch,
    /// What carries batches out; the servers do, if `None`.
    pub(crate) drive: Option<Drive>,
    pub(crate) depth: usize,
    pub(crate) flights: Slab<Flight>,
    /// Batches that were dispatched.
    pub(crate) batches: u64,
    /// Parts in them.
    pub(crate) dispatched: u64,
    /// Processor time of a request outside the scheduler.
    request_cpu: Nanos,
    /// And inside; as measured for the policy if `None`.
    scheduler_cpu: Option<Nanos>,
    pub(crate) cpu_free: Timestamp,
    pub(crate) cpu_busy: Nanos,
    pub(crate) inbox: VecDeque<Input>,
    pub(crate) is_waking: bool,
    /// Parts for which the scheduler had no room.
    pub(crate) backlog: VecDeque<u32>,
    /// The end of the policy's wait, if it waits.
    pub(crate) ask_at: Option<Timestamp>,
    link_in_free: Timestamp,
    link_out_free: Timestamp,
    pub(crate) memory: Memory,
    pub(crate) random: Random,
}

/// A node's random numbers, by purpose.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    /// When it stalls.
    pub(crate) stalls: SplitMix64,
    /// How long messages between forwarder and servers take.
    pub(crate) jitter: SplitMix64,
    /// What fails of a forwarder's batches; what fails of clients' requests is theirs.
    pub(crate) fate: SplitMix64,
}

/// A node's room for data.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// How much there is; parts are asked for only if there is a limit.
    pub(crate) limit: Option<Bytes>,
    pub(crate) used: Bytes,
    pub(crate) peak: Bytes,
    /// Parts that wait for room, the first first.
    pub(crate) waiting: VecDeque<u32>,
}

impl Memory {
    /// Takes room, if there is enough of it.
    pub(crate) fn take(&mut self, bytes: Bytes) -> bool {
        if self.limit.is_some_and(|limit| self.used + bytes > limit) {
            return false;
        }
        self.used += bytes;
        self.peak = self.peak.max(self.used);
        true
    }

    pub(crate) fn give_back(&mut self, bytes: Bytes) {
        self.used -= bytes;
    }
}

/// What a scheduler costs for a request, in submit, next and complete together.
///
/// Measured by `forebay bench core` (run of 2026-11-20, rows `mixed`, 1,000 queued); SW and noop,
/// which that run does not have, as TO, whose structure they share.
pub(crate) fn measured_cpu(policy: PolicyName) -> Nanos {
    Nanos(match policy {
        PolicyName::To | PolicyName::Sw | PolicyName::Noop => 88,
        PolicyName::ToAgg => 273,
        PolicyName::Sjf => 551,
        PolicyName::Mlf => 469,
        PolicyName::Aioli => 569,
        PolicyName::Hbrr => 255,
    })
}

fn settings(given: &Scheduling, wait_max: Nanos) -> PolicySettings {
    let mut settings = PolicySettings::from(Limits {
        run_bytes_max: given.run_bytes,
        run_requests_max: given.run_requests,
        batch_bytes_max: given.batch_bytes,
        wait_max,
    });
    settings.hbrr.quantum = given.hbrr_quantum.unwrap_or(settings.hbrr.quantum);
    settings
}

impl Node {
    /// A node with the scenario's scheduler.
    pub(crate) fn scheduled(
        scenario: &Scenario,
        choice: &Choice,
        drive: Option<Drive>,
        random: Random,
    ) -> Self {
        let given = &scenario.scheduler;
        let device = &scenario.servers.device;
        let wait_max = device.wait_effective(Direction::Read, SMALL_REQUEST, given.wait);
        let (depth, request_cpu, memory) = match (&scenario.forwarder, &drive) {
            (Some(forwarder), None) => (forwarder.depth, forwarder.request_cpu, forwarder.memory),
            _ => (scenario.servers.depth, scenario.servers.request_cpu, None),
        };
        let selector = Selector::new(choice, scenario, settings(given, wait_max));
        let discipline = given.discipline(scenario.servers.count);
        let mut node = Self::new(given, discipline, selector, drive, (depth, request_cpu), random);
        node.memory.limit = memory;
        node
    }

    /// A server behind a forwarder: first come, first served.
    pub(crate) fn plain(scenario: &Scenario, drive: Drive, random: Random) -> Self {
        let given = Scheduling { large: Bytes::ZERO, ..Scheduling::default() };
        let servers = &scenario.servers;
        let selector = Selector::fixed(PolicyName::To, settings(&given, Nanos::ZERO));
        let (depth, cpu) = (servers.depth, servers.request_cpu);
        Self::new(&given, None, selector, Some(drive), (depth, cpu), random)
    }

    fn new(
        given: &Scheduling,
        discipline: Option<Discipline>,
        selector: Selector,
        drive: Option<Drive>,
        (depth, request_cpu): (u32, Nanos),
        random: Random,
    ) -> Self {
        let (policy, settings) = (selector.start(), selector.settings());
        let wait_max = settings.limits.wait_max;
        let options = SchedulerOptions {
            guard: given.guard,
            large_bytes: (given.large > Bytes::ZERO).then_some(given.large),
            // Where a policy may wait for a better batch, an idle store is no reason not to ask it.
            bypass: if wait_max > Nanos::ZERO { Bypass::Never } else { Bypass::WhenIdle },
            queue_requests_max: given.queue_requests as usize,
        };
        let scheduler = match discipline {
            None => Scheduler::new(options, build(policy, settings)),
            Some(discipline) => {
                let sharing = SharingSettings { discipline, ..SharingSettings::default() };
                let classes = ClassOptions { sharing, ..ClassOptions::default() };
                Scheduler::with_classes(options, classes, source(policy, settings))
            }
        };
        Self {
            scheduler,
            selector,
            batch: Batch::new(),
            drive,
            depth: depth as usize,
            flights: Slab::default(),
            batches: 0,
            dispatched: 0,
            request_cpu,
            scheduler_cpu: given.cpu,
            cpu_free: Timestamp(0),
            cpu_busy: Nanos::ZERO,
            inbox: VecDeque::new(),
            is_waking: false,
            backlog: VecDeque::new(),
            ask_at: None,
            link_in_free: Timestamp(0),
            link_out_free: Timestamp(0),
            memory: Memory::default(),
            random,
        }
    }

    /// Gives every application its share, where they share.
    pub(crate) fn configure(&mut self, applications: &[Application]) {
        if !self.scheduler.has_classes() {
            return;
        }
        for application in applications {
            let (class, share) = (application.class, application.share());
            // An application too many shares with others that have no place of their own.
            _ = self.scheduler.configure_class(Timestamp(0), class, share);
        }
    }

    pub(crate) fn room(&self) -> Room {
        if self.flights.count() < self.depth { Room::Free } else { Room::Full }
    }

    /// Spends the processor time of a request of a class; when that is over.
    pub(crate) fn spend(&mut self, now: Timestamp, class: ClassId) -> Timestamp {
        let measured = || measured_cpu(self.selector.policy_of(class));
        let cpu = self.request_cpu + self.scheduler_cpu.unwrap_or_else(measured);
        self.cpu_free = self.cpu_free.max(now) + cpu;
        self.cpu_busy += cpu;
        self.cpu_free
    }

    /// When data that is sent to the node now has passed its link.
    pub(crate) fn receive(&mut self, now: Timestamp, network: &Network, bytes: Bytes) -> Timestamp {
        Self::pass(&mut self.link_in_free, now, network, bytes)
    }

    /// When data that the node sends now has passed its link.
    pub(crate) fn send(&mut self, now: Timestamp, network: &Network, bytes: Bytes) -> Timestamp {
        Self::pass(&mut self.link_out_free, now, network, bytes)
    }

    fn pass(free: &mut Timestamp, now: Timestamp, network: &Network, bytes: Bytes) -> Timestamp {
        let Some(bandwidth) = network.bandwidth else { return now };
        *free = (*free).max(now) + bandwidth.time_for(bytes);
        *free
    }
}
