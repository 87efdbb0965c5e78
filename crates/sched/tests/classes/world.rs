//! Classes of synchronous clients before one scheduler and one disk, in virtual time.

use std::collections::BTreeMap;

use forebay_sched::sharing::{ClassShare, CostModel, Share, SharingSettings, Tariff};
use forebay_sched::{
    Accepted, Access, Admission, Batch, Bypass, ClassOptions, Decision, PolicyName, PolicySettings,
    Request, Room, Scheduler, SchedulerOptions, build, source,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

/// 57 MB/s, and 7 ms for anything that does not follow on.
const BYTES_PER_SECOND: u64 = 57_000_000;
const SEEK: Nanos = Nanos::millis(7);

/// The disk's time as cost: what a batch takes if the arm has to move to it.
pub(crate) const DISK_TIME: CostModel = CostModel::both(Tariff {
    per_batch: SEEK.0,
    per_request: 0,
    per_mib: MIB * 1_000_000_000 / BYTES_PER_SECOND,
});

/// What a client asks for: `(client, how many it has had)` to `(file, offset, length)`.
pub(crate) type Pattern = fn(u64, u64) -> (u32, u64, u64);

/// Random requests of 8 KiB in a file of 64 GiB.
pub(crate) fn small_random(client: u64, had: u64) -> (u32, u64, u64) {
    let mixed = (client << 32 | had).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let block = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 41;
    (0, block * 8 * KIB, 8 * KIB)
}

/// A file in interleaved strides of 256 KiB, all clients together from its start to its end.
pub(crate) fn large_strided(client: u64, had: u64) -> (u32, u64, u64) {
    (1, (had * 64 + client) * 256 * KIB, 256 * KIB)
}

/// Every client its own file, from its start.
pub(crate) fn own_file(client: u64, had: u64) -> (u32, u64, u64) {
    (100 + client as u32, had * 8 * KIB, 8 * KIB)
}

/// 256 clients one file, in strides.
pub(crate) fn shared_file(client: u64, had: u64) -> (u32, u64, u64) {
    (2, (had * 256 + client) * 8 * KIB, 8 * KIB)
}

/// The clients of one class.
pub(crate) struct Crowd {
    pub(crate) class: ClassId,
    pub(crate) clients: u64,
    pub(crate) pattern: Pattern,
    pub(crate) access: Access,
}

impl Crowd {
    pub(crate) fn readers(class: u32, clients: u64, pattern: Pattern) -> Self {
        Self { class: ClassId(class), clients, pattern, access: Access::Read }
    }
}

/// What a class got.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Got {
    pub(crate) bytes: u64,
    /// How long the disk worked for it.
    pub(crate) disk_ns: u64,
    pub(crate) batches: u64,
    pub(crate) bytes_in_a_batch_max: u64,
}

#[derive(Clone, Copy)]
enum Event {
    /// A client of a crowd asks for its next.
    Ask(usize, u64),
    Complete(usize),
    Wake,
}

/// The run.
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    crowds: Vec<Crowd>,
    depth: usize,
    events: BTreeMap<(Timestamp, u64), Event>,
    event_count: u64,
    had: Vec<Vec<u64>>,
    flying: Vec<Vec<Accepted>>,
    in_flight: usize,
    /// When to ask again; earlier wakes are void.
    wake: Option<Timestamp>,
    disk_free: Timestamp,
    head: (FileIndex, Offset),
    pub(crate) got: Vec<Got>,
    /// Of class 0 and 1: the largest difference of `bytes / weight` while both had something queued.
    pub(crate) lead_max: f64,
    pub(crate) weights: [f64; 2],
    since: Option<[u64; 2]>,
    leads: (f64, f64),
}

/// What all classes share by, with the weights of class 0 and 1.
pub(crate) fn shared(
    policy: PolicyName,
    settings: &PolicySettings,
    sharing: SharingSettings,
    weights: [u32; 2],
) -> Scheduler {
    let classes = ClassOptions { sharing, ..ClassOptions::default() };
    let source = source(policy, settings);
    // Where a policy may wait for a better batch, an idle disk is no reason not to ask it.
    let waits = settings.limits.wait_max > Nanos::ZERO;
    let bypass = if waits { Bypass::Never } else { Bypass::WhenIdle };
    let options = SchedulerOptions { bypass, ..SchedulerOptions::default() };
    let mut scheduler = Scheduler::with_classes(options, classes, source);
    for (class, weight) in weights.into_iter().enumerate() {
        let share =
            ClassShare { share: Share { weight, ..Share::default() }, ..ClassShare::default() };
        let class = ClassId(class as u32);
        scheduler.configure_class(Timestamp(0), class, share).expect("it is possible");
    }
    scheduler
}

/// Without classes.
pub(crate) fn fifo() -> Scheduler {
    let policy = build(PolicyName::To, &PolicySettings::default());
    Scheduler::new(SchedulerOptions::default(), policy)
}

impl World {
    pub(crate) fn new(scheduler: Scheduler, depth: usize, crowds: Vec<Crowd>) -> Self {
        let mut world = Self {
            scheduler,
            depth,
            events: BTreeMap::new(),
            event_count: 0,
            had: crowds.iter().map(|crowd| vec![0; crowd.clients as usize]).collect(),
            got: vec![Got::default(); crowds.len()],
            crowds,
            flying: Vec::new(),
            in_flight: 0,
            wake: None,
            disk_free: Timestamp(0),
            head: (FileIndex(u32::MAX), Offset(0)),
            lead_max: 0.0,
            weights: [1.0; 2],
            since: None,
            leads: (0.0, 0.0),
        };
        for crowd in 0..world.crowds.len() {
            for client in 0..world.crowds[crowd].clients {
                world.post(Timestamp(client), Event::Ask(crowd, client));
            }
        }
        world
    }

    fn post(&mut self, at: Timestamp, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), event);
    }

    /// Lets time pass until `end`.
    pub(crate) fn run_until(&mut self, end: Timestamp) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((now, _), event) = entry.remove_entry();
            match event {
                Event::Ask(crowd, client) => self.ask(now, crowd, client),
                Event::Complete(batch) => self.complete(now, batch),
                Event::Wake if self.wake != Some(now) => continue,
                Event::Wake => self.wake = None,
            }
            self.feed(now);
        }
    }

    fn ask(&mut self, now: Timestamp, crowd: usize, client: u64) {
        let had = &mut self.had[crowd][client as usize];
        let (file, start, length) = (self.crowds[crowd].pattern)(client, *had);
        *had += 1;
        let request = Request {
            tag: (crowd as u64) << 32 | client,
            file: FileIndex(file),
            access: self.crowds[crowd].access,
            range: ByteRange::new(Offset(start), Bytes(length)),
            client: ClientId(client as u32),
            class: self.crowds[crowd].class,
        };
        let room = if self.in_flight < self.depth { Room::Free } else { Room::Full };
        let admission = self.scheduler.submit(now, request, room).expect("there is room");
        if let Admission::Bypassed(accepted) = admission {
            self.start(now, vec![accepted]);
        }
    }

    fn feed(&mut self, now: Timestamp) {
        let mut batch = Batch::new();
        while self.in_flight < self.depth {
            match self.scheduler.next(now, &mut batch) {
                Decision::Dispatch => self.start(now, batch.members().to_vec()),
                Decision::Wait { until } => {
                    if self.wake.is_none_or(|wake| wake > until || wake < now) {
                        self.wake = Some(until);
                        self.post(until, Event::Wake);
                    }
                    return;
                }
                Decision::Idle => return,
            }
        }
    }

    fn start(&mut self, now: Timestamp, members: Vec<Accepted>) {
        let first = members[0].request;
        let bytes: u64 = members.iter().map(|member| member.request.range.length().0).sum();
        let seek = if self.head == (first.file, first.range.start) { Nanos::ZERO } else { SEEK };
        let work = seek + Nanos(bytes * 1_000_000_000 / BYTES_PER_SECOND);
        self.head = (first.file, members[members.len() - 1].request.range.end);
        let got = &mut self.got[(first.tag >> 32) as usize];
        got.bytes += bytes;
        got.disk_ns += work.0;
        got.batches += 1;
        got.bytes_in_a_batch_max = got.bytes_in_a_batch_max.max(bytes);
        self.note_lead(now);
        self.disk_free = self.disk_free.max(now) + work;
        self.in_flight += 1;
        self.flying.push(members);
        self.post(self.disk_free, Event::Complete(self.flying.len() - 1));
    }

    /// How far one of two backlogged classes was ever ahead of the other, over any interval.
    fn note_lead(&mut self, now: Timestamp) {
        if self.got.len() < 2 || !self.scheduler.has_classes() {
            return;
        }
        let has_some =
            |class| self.scheduler.class(now, ClassId(class)).is_some_and(|class| class.ready > 0);
        if !(has_some(0) && has_some(1)) {
            self.since = None;
            return;
        }
        let bytes = [self.got[0].bytes, self.got[1].bytes];
        let since = *self.since.get_or_insert_with(|| {
            self.leads = (0.0, 0.0);
            bytes
        });
        let normal = |class: usize| (bytes[class] - since[class]) as f64 / self.weights[class];
        let lead = normal(0) - normal(1);
        self.leads = (self.leads.0.min(lead), self.leads.1.max(lead));
        self.lead_max = self.lead_max.max(self.leads.1 - self.leads.0);
    }

    fn complete(&mut self, now: Timestamp, batch: usize) {
        self.in_flight -= 1;
        for member in std::mem::take(&mut self.flying[batch]) {
            self.scheduler.complete(now, member.id, member.request.range.length());
            let (crowd, client) =
                ((member.request.tag >> 32) as usize, member.request.tag & 0xffff_ffff);
            // Who asked for the lower offset is back later.
            let think = Nanos::micros(20 + 97 - client % 97);
            self.post(now + think, Event::Ask(crowd, client));
        }
    }
}
