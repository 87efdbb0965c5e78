//! One case: what runs, where the detector stands, and what is true there.

use forebay_device::{PROFILES, SplitMix64};
use forebay_sched::PolicyName;
use forebay_select::detector::Offsets;
use forebay_select::{SizeClass, Spatiality};
use forebay_sim::Scenario;
use forebay_sim::scenario::{FileUse, Forwarder, Job, Operation, Order, Servers};
use forebay_units::{ByteRange, Bytes, Nanos, Offset};

/// Requests of a client that reach a server, where that does not make too many messages.
const REQUESTS_THERE: u64 = 32;
/// Messages of a case, and the fewest requests of a client for all that.
const MESSAGES_MAX: u64 = 60_000;
const REQUESTS_MIN: u64 = 12;
/// Blocks after which every position of a block in a row of stripes has been seen.
const BLOCKS_LOOKED_AT: u64 = 1024;

/// From which values cases are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Values {
    /// Those that the detector was made with.
    Training,
    /// Others, which played no part in that.
    HeldOut,
}

/// Where the detector stands, and what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At a data server that numbers the bytes of its part of a file by itself.
    Server,
    /// At a data server that sees the file's own offsets, with holes where other servers' stripes are.
    ServerFileOffsets,
    /// At a forwarder, which sees whole requests.
    Forwarder,
    /// At a data server, where all requests seem to come from one client.
    ServerOneClient,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Server, Self::ServerFileOffsets, Self::Forwarder, Self::ServerOneClient];

    /// What tables call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::ServerFileOffsets => "server, file offsets",
            Self::Forwarder => "forwarder",
            Self::ServerOneClient => "server, clients unknown",
        }
    }

    /// What the detector is told about offsets.
    pub const fn offsets(self) -> Offsets {
        match self {
            Self::ServerFileOffsets => Offsets::Striped,
            _ => Offsets::Whole,
        }
    }
}

/// What runs, and where it is looked at.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where its values are from.
    pub values: Values,
    /// Where the detector stands.
    pub place: Place,
    /// What runs: one job.
    pub scenario: Scenario,
    /// The policy of its schedulers.
    pub policy: PolicyName,
    /// At which node it is looked at.
    pub node: usize,
    /// Of the simulation.
    pub seed: u64,
}

/// One of some values.
fn pick<T: Copy>(random: &mut SplitMix64, values: &[T]) -> T {
    values[random.below(values.len() as u64) as usize]
}

impl Case {
    /// A case with values drawn from those lists.
    pub fn draw(values: Values, place: Place, random: &mut SplitMix64) -> Self {
        let is_new = values == Values::HeldOut;
        let choose = |random: &mut SplitMix64, training: &[u64], held_out: &[u64]| {
            pick(random, if is_new { held_out } else { training })
        };
        let clients = choose(random, &[8, 16, 32], &[6, 12, 24, 48]) as u32;
        let applications = pick(random, &[1, 4]);
        let kib =
            choose(random, &[16, 24, 40, 96, 256], &[8, 10, 14, 18, 26, 36, 56, 80, 192, 384, 768]);
        let servers = choose(random, &[1, 4, 5], &[2, 3, 6, 7]) as u32;
        let stripe = Bytes::kib(32);
        let transfer = Bytes::kib(choose(random, &[8], &[4, 16]));
        let think = Nanos::micros(choose(random, &[0, 1_000], &[200, 5_000, 20_000]));
        let think_jitter = Nanos::micros(choose(random, &[0, 500], &[100, 3_000]));
        let noise_percent = choose(random, &[0, 5], &[10, 20]) as u32;
        let device = pick(random, &PROFILES);
        let file = pick(random, &[FileUse::Shared, FileUse::Shared, FileUse::PerProcess]);
        let orders = [Order::Contiguous, Order::Random, Order::Strided];
        let order = pick(random, &orders[..if file == FileUse::Shared { 3 } else { 2 }]);
        let operation = pick(random, &[Operation::Read, Operation::Write]);
        let request = Bytes::kib(kib);
        let around = (stripe.0 * u64::from(servers)).div_ceil(request.0);
        let messages = u64::from(clients * applications) * request.0.div_ceil(transfer.0);
        let requests = (REQUESTS_THERE * around).min(MESSAGES_MAX / messages);
        let job = Job {
            applications,
            clients,
            operation,
            file,
            order,
            request,
            requests: requests.max(REQUESTS_MIN) as u32,
            think,
            think_jitter,
            ..Job::default()
        };
        let node = match place {
            Place::Forwarder => u64::from(servers),
            _ => random.below(u64::from(servers)),
        };
        let servers = Servers {
            count: servers,
            stripe,
            transfer: Some(transfer),
            device,
            noise_percent,
            ..Servers::default()
        };
        let forwarder = (place == Place::Forwarder).then(Forwarder::default);
        let scenario = Scenario { servers, forwarder, jobs: vec![job], ..Scenario::default() };
        let policy = pick(random, &PolicyName::ALL);
        let seed = random.next_u64();
        Self { values, place, scenario, policy, node: node as usize, seed }
    }

    /// What the job does.
    pub fn job(&self) -> &Job {
        &self.scenario.jobs[0]
    }

    /// The part of a range that its node sees, in that part's own numbers.
    fn there(&self, range: ByteRange) -> ByteRange {
        if self.place == Place::Forwarder {
            return range;
        }
        let servers = &self.scenario.servers;
        let row = servers.stripe.0 * u64::from(servers.count);
        let before = |offset: u64| {
            let in_row = (offset % row).saturating_sub(self.node as u64 * servers.stripe.0);
            offset / row * servers.stripe.0 + in_row.min(servers.stripe.0)
        };
        ByteRange { start: Offset(before(range.start.0)), end: Offset(before(range.end.0)) }
    }

    /// What the application does, wherever one looks.
    pub fn of_the_application(&self) -> (Spatiality, SizeClass) {
        let job = self.job();
        let spatiality = match job.order {
            Order::Contiguous => Spatiality::Contiguous,
            Order::Random => Spatiality::Random,
            Order::Strided => Spatiality::Strided,
        };
        let is_large = job.request >= self.scenario.servers.stripe;
        (spatiality, if is_large { SizeClass::Large } else { SizeClass::Small })
    }

    /// How its clients go through their files, as far as their requests reach the node.
    ///
    /// Where the blocks of a client on a server are adjacent there, like blocks of a stripe each
    /// with as many clients as servers, a stride is contiguous at the server.
    pub fn spatiality(&self) -> Spatiality {
        let job = self.job();
        let stride = match job.order {
            Order::Contiguous => return Spatiality::Contiguous,
            Order::Random => return Spatiality::Random,
            Order::Strided => u64::from(job.clients) * job.request.0,
        };
        let (mut continued, mut others) = (0, 0);
        for client in 0..u64::from(job.clients) {
            let starts = (0..u64::from(job.requests)).map(|n| client * job.request.0 + n * stride);
            let ranges = starts.map(|start| ByteRange::new(Offset(start), job.request));
            let mut ranges =
                ranges.map(|range| self.there(range)).filter(|range| !range.is_empty());
            let Some(mut last) = ranges.next() else { continue };
            for range in ranges {
                if range.start == last.end {
                    continued += 1;
                } else {
                    others += 1;
                }
                last = range;
            }
        }
        if continued > others { Spatiality::Contiguous } else { Spatiality::Strided }
    }

    /// Files in use.
    pub fn files(&self) -> u32 {
        let job = self.job();
        match job.file {
            FileUse::Shared => job.applications,
            FileUse::PerProcess => job.applications * job.clients,
        }
    }

    /// Whether the application's requests are of a stripe or more, as far as they reach the node.
    ///
    /// Of requests that are a little longer than a stripe and do not begin at one, some servers
    /// see nothing but shorter pieces: 40 KiB over five stripes of 32 KiB are 16 KiB at the third.
    pub fn size_class(&self) -> SizeClass {
        let (request, stripe) = (self.job().request, self.scenario.servers.stripe);
        let is_seen = |block: u64| {
            let range = ByteRange::new(Offset(block * request.0), request);
            self.there(range).length() >= stripe
        };
        match request >= stripe && (0..BLOCKS_LOOKED_AT).any(is_seen) {
            true => SizeClass::Large,
            false => SizeClass::Small,
        }
    }

    /// In a few words.
    pub fn describe(&self) -> String {
        let (job, servers) = (self.job(), &self.scenario.servers);
        format!(
            "{}: {} x {} processes, {} {:?} {:?} {:?}, {} KiB, {} servers, messages of {} KiB, {}, noise {} %, think {} + {} us, {}, node {}",
            self.place.as_str(),
            job.applications,
            job.clients,
            if self.values == Values::HeldOut { "held out" } else { "training" },
            job.file,
            job.order,
            job.operation,
            job.request.0 >> 10,
            servers.count,
            servers.transfer.unwrap_or(Bytes::ZERO).0 >> 10,
            servers.device.name,
            servers.noise_percent,
            job.think.0 / 1_000,
            job.think_jitter.0 / 1_000,
            self.policy,
            self.node,
        )
    }
}
