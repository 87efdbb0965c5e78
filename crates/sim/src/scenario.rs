//! What a scenario says: clients, network, servers, scheduler and faults, with their defaults.
//!
//! The types are read with serde from any format (the `forebay` command reads TOML) or made in a
//! program, and written as they are read, with every default. An unknown key is an error that
//! names the allowed ones. `docs/simulator.md` is the reference of the text form.

mod job;

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use forebay_device::{Profile, Rate};
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::sharing::{Discipline, SwSettings, TwinsSettings, WindowIdle};
use forebay_sched::{GuardMode, PolicyName};
use forebay_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::quantity::{number, optional, required, word};

pub use self::job::{FileUse, Job, Operation, Order, Phase};

/// Most servers, and most parts that a request may be split into.
const SERVERS_MAX: u64 = 1024;
const PARTS_MAX: u64 = 1 << 20;
/// Most batches of a node, or pieces of a request, under way at once.
const DEPTH_MAX: u64 = 65_536;
/// Most requests of a run, and most that wait at a node.
const RUN_REQUESTS_MAX: u64 = 65_536;
const QUEUE_REQUESTS_MAX: u64 = 1 << 24;
/// Most clients of a scenario, and most requests of each.
const CLIENTS_MAX: u64 = 10_000_000;
/// Most messages that clients may have under way at once: each takes memory from the beginning on.
const UNDER_WAY_MAX: u64 = 1 << 24;
/// The largest file.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 50;
/// The longest time, about two years: far from where times do not fit.
pub(crate) const TIME_MAX: Nanos = Nanos(1 << 56);

/// Everything that happens, but for the seed.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What results are called.
    pub name: String,
    /// What it shows, for people.
    #[serde(default)]
    pub about: String,
    /// Between clients, forwarder and servers.
    #[serde(default)]
    pub network: Network,
    /// Where the data is.
    #[serde(default)]
    pub servers: Servers,
    /// A stage between clients and servers, if there is one; the scheduler is then there.
    #[serde(default)]
    pub forwarder: Option<Forwarder>,
    /// The scheduler of each server, or of the forwarder.
    #[serde(default)]
    pub scheduler: Scheduling,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Faults,
    /// Who asks for what. Not used when a recorded list of requests is replayed.
    #[serde(default, rename = "job")]
    pub jobs: Vec<Job>,
}

/// Every message takes `delay` and up to `jitter`; data also the time of its bytes at the
/// receiver's link, one message after the other in the order of sending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// One way.
    #[serde(with = "required")]
    pub delay: Nanos,
    /// The most that is added, all lengths equally likely.
    #[serde(with = "required")]
    pub jitter: Nanos,
    /// Of each server's link and of the forwarder's, in each direction; no limit if `None`.
    #[serde(with = "optional")]
    pub bandwidth: Option<Rate>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            delay: Nanos::micros(30),
            jitter: Nanos::micros(10),
            bandwidth: Some(Rate::megabytes_per_second(1250)),
        }
    }
}

/// The servers; all of them alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Servers {
    /// How many: 1 to 1,024.
    #[serde(deserialize_with = "number::<_, 1, SERVERS_MAX>")]
    pub count: u32,
    /// Consecutive bytes of a file on one server before the next one has its turn.
    #[serde(with = "required")]
    pub stripe: Bytes,
    /// The most that one message carries: a longer range is split. No limit if `None`.
    #[serde(with = "optional")]
    pub transfer: Option<Bytes>,
    /// A device by its name, or one made in a program.
    #[serde(with = "device")]
    pub device: Profile,
    /// The standard deviation of the logarithm of a service time, in percent: 0 to 100.
    #[serde(deserialize_with = "number::<_, 0, 100>")]
    pub noise_percent: u32,
    /// Batches that the device is given at a time: at least 1.
    #[serde(deserialize_with = "number::<_, 1, DEPTH_MAX>")]
    pub depth: u32,
    /// Processor time of a request outside the scheduler: receiving it and answering.
    #[serde(with = "required")]
    pub request_cpu: Nanos,
}

impl Default for Servers {
    fn default() -> Self {
        Self {
            count: 1,
            stripe: Bytes::kib(64),
            transfer: None,
            device: Profile::by_name("hdd-57").expect("the lab's disk is known"),
            noise_percent: 0,
            depth: 1,
            request_cpu: Nanos::micros(5),
        }
    }
}

/// A device by its name.
mod device {
    use super::{Deserialize, Profile, String};

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Profile, D::Error> {
        let name = String::deserialize(from)?;
        Profile::by_name(&name).map_err(serde::de::Error::custom)
    }

    pub(super) fn serialize<S: serde::Serializer>(
        device: &Profile,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(device.name)
    }
}

/// A stage that all clients send to and that sends to the servers.
///
/// The servers behind it serve in the order of arrival; it carries the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Forwarder {
    /// Batches under way to the servers at a time: at least 1.
    #[serde(deserialize_with = "number::<_, 1, DEPTH_MAX>")]
    pub depth: u32,
    /// Processor time of a request outside the scheduler.
    #[serde(with = "required")]
    pub request_cpu: Nanos,
    /// Clients send longer requests in pieces of this; whole if `None`.
    #[serde(with = "optional")]
    pub chunk: Option<Bytes>,
    /// Pieces of one request that may be under way: at least 1.
    #[serde(deserialize_with = "number::<_, 1, DEPTH_MAX>")]
    pub chunks_in_flight: u32,
    /// Room for data; a piece is asked for, granted in the order of asking, and only then sent.
    /// No limit, and no asking, if `None`.
    #[serde(with = "optional")]
    pub memory: Option<Bytes>,
}

impl Default for Forwarder {
    fn default() -> Self {
        Self {
            depth: 16,
            request_cpu: Nanos::micros(5),
            chunk: None,
            chunks_in_flight: 4,
            memory: None,
        }
    }
}

/// How the scheduler is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scheduling {
    /// The policy, unless the caller says another one.
    #[serde(with = "word")]
    pub policy: PolicyName,
    /// Which conflicting pairs keep their order.
    #[serde(with = "word")]
    pub guard: GuardMode,
    /// Requests longer than this skip the policy; 0 for none.
    #[serde(with = "required")]
    pub large: Bytes,
    /// The largest run.
    #[serde(with = "required")]
    pub run_bytes: Bytes,
    /// Most requests in a run.
    #[serde(deserialize_with = "number::<_, 1, RUN_REQUESTS_MAX>")]
    pub run_requests: u32,
    /// The largest batch of several runs.
    #[serde(with = "required")]
    pub batch_bytes: Bytes,
    /// The longest wait for a better batch, before it is cut to what can pay on the device.
    #[serde(with = "required")]
    pub wait: Nanos,
    /// HBRR's quantum; that of its paper if `None`. Not in scenario files: a recording has it.
    #[serde(skip)]
    pub hbrr_quantum: Option<HbrrQuantum>,
    /// Most requests that wait at one server; more stay with the network until there is room.
    #[serde(deserialize_with = "number::<_, 1, QUEUE_REQUESTS_MAX>")]
    pub queue_requests: u32,
    /// Whether jobs share by weight and within limits, each with a policy of its own.
    pub sharing: Sharing,
    /// Length of a window of TWINS or SW; 1 ms and 1 s if `None`.
    #[serde(with = "optional")]
    pub window: Option<Nanos>,
    /// Whether others wait while a server's window of TWINS is on, and requests until their window
    /// of SW has ended.
    pub strict: bool,
    /// After how long without requests a server lends its window of TWINS, unless it is strict.
    #[serde(with = "required")]
    pub lend_after: Nanos,
    /// Processor time of the scheduler for a request; as measured for the policy if `None`.
    #[serde(with = "optional")]
    pub cpu: Option<Nanos>,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self {
            policy: PolicyName::Aioli,
            guard: GuardMode::Overlap,
            large: Bytes::mib(2),
            run_bytes: Bytes::mib(1),
            run_requests: 64,
            batch_bytes: Bytes::mib(4),
            wait: Nanos::micros(900),
            hbrr_quantum: None,
            queue_requests: 1 << 20,
            sharing: Sharing::None,
            window: None,
            strict: false,
            lend_after: Nanos::micros(100),
            cpu: None,
        }
    }
}

impl Scheduling {
    /// How classes share, if they do; under TWINS they are so many servers.
    pub(crate) fn discipline(&self, servers: u32) -> Option<Discipline> {
        let idle =
            if self.strict { WindowIdle::Strict } else { WindowIdle::LendAfter(self.lend_after) };
        let twins = TwinsSettings { targets: servers, idle, ..TwinsSettings::default() };
        let sw = SwSettings { is_strict: self.strict, ..SwSettings::default() };
        match self.sharing {
            Sharing::None => None,
            Sharing::Sfq => Some(Discipline::Sfq),
            Sharing::Drr => Some(Discipline::Drr),
            Sharing::Twins => Some(Discipline::Twins(TwinsSettings {
                window: self.window.unwrap_or(twins.window),
                ..twins
            })),
            Sharing::Sw => {
                Some(Discipline::Sw(SwSettings { window: self.window.unwrap_or(sw.window), ..sw }))
            }
        }
    }

    fn validate_sharing(&self, servers: u32, is_forwarded: bool) -> Result<(), Invalid> {
        let (key, is_twins) = ("scheduler.sharing", self.sharing == Sharing::Twins);
        check(!is_twins || (is_forwarded && servers > 1), key, || {
            "twins gives each server behind a forwarder its windows: it needs a [forwarder] and servers.count of at least 2"
                .to_string()
        })?;
        let has_windows = is_twins || self.sharing == Sharing::Sw;
        check(has_windows || self.window.is_none(), "scheduler.window", || {
            "nothing has windows; set scheduler.sharing to twins or sw, or leave it out".to_string()
        })?;
        check(has_windows || !self.strict, "scheduler.strict", || {
            "nothing has windows; set scheduler.sharing to twins or sw, or leave it out".to_string()
        })?;
        if let Some(window) = self.window {
            let range = SwSettings::WINDOW_MIN..=SwSettings::WINDOW_MAX;
            check(range.contains(&window), "scheduler.window", || {
                format!("{} ns is not in 1 us to 60 s", window.0)
            })?;
        }
        in_time("scheduler.lend_after", self.lend_after)
    }
}

/// How jobs share a scheduler; by bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// They do not: one policy sees all requests.
    #[default]
    None,
    /// SFQ(D).
    Sfq,
    /// Deficit round robin.
    Drr,
    /// Windows of time for the servers behind a forwarder: there they share it, not jobs.
    Twins,
    /// Windows of arrival, in each of them one job after the other.
    Sw,
}

/// What goes wrong, drawn from the seed.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Mean time between the stalls of a server; it does not stall if `None`.
    #[serde(with = "optional")]
    pub stall_every: Option<Nanos>,
    /// How long a stalled server's device starts nothing.
    #[serde(with = "required")]
    pub stall: Nanos,
    /// Requests at a server that fail, of 1,000.
    #[serde(deserialize_with = "number::<_, 0, 1000>")]
    pub fail_permille: u32,
    /// Reads that end in the middle, of 1,000; without a forwarder only.
    #[serde(deserialize_with = "number::<_, 0, 1000>")]
    pub short_permille: u32,
    /// Clients that vanish at some moment of their work, of 1,000.
    #[serde(deserialize_with = "number::<_, 0, 1000>")]
    pub vanish_permille: u32,
}

/// A value that no simulation can be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The key, as scenarios write it.
    pub key: String,
    /// What is wrong and what would be right.
    pub text: String,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.text)
    }
}

impl core::error::Error for Invalid {}

fn check(is_right: bool, key: &str, text: impl FnOnce() -> String) -> Result<(), Invalid> {
    match is_right {
        true => Ok(()),
        false => Err(Invalid { key: key.to_string(), text: text() }),
    }
}

fn in_range(key: &str, value: u64, least: u64, most: u64) -> Result<(), Invalid> {
    check((least..=most).contains(&value), key, || format!("{value} is not in {least} to {most}"))
}

fn in_time(key: &str, value: Nanos) -> Result<(), Invalid> {
    check(value <= TIME_MAX, key, || {
        format!("{} s is too long; at most {} s", value.0 / NANOS, TIME_MAX.0 / NANOS)
    })
}

const NANOS: u64 = 1_000_000_000;

impl Scenario {
    /// Looks for values that cannot be simulated; every simulation does so before it begins. Without
    /// jobs it is valid, too: a record may take their place.
    ///
    /// # Errors
    /// The first such value.
    pub fn validate(&self) -> Result<(), Invalid> {
        let Servers { count, stripe, transfer, noise_percent, depth, .. } = &self.servers;
        in_range("servers.count", u64::from(*count), 1, SERVERS_MAX)?;
        in_range("servers.stripe", stripe.0, 512, 1 << 40)?;
        if let Some(transfer) = transfer {
            in_range("servers.transfer", transfer.0, 512, 1 << 40)?;
        }
        in_range("servers.noise_percent", u64::from(*noise_percent), 0, 100)?;
        in_range("servers.depth", u64::from(*depth), 1, DEPTH_MAX)?;
        if let Some(forwarder) = &self.forwarder {
            in_range("forwarder.depth", u64::from(forwarder.depth), 1, DEPTH_MAX)?;
            in_range(
                "forwarder.chunks_in_flight",
                u64::from(forwarder.chunks_in_flight),
                1,
                DEPTH_MAX,
            )?;
            if let Some(chunk) = forwarder.chunk {
                in_range("forwarder.chunk", chunk.0, 512, 1 << 40)?;
            }
        }
        let Scheduling { run_bytes, run_requests, batch_bytes, queue_requests, .. } =
            &self.scheduler;
        in_range("scheduler.run_bytes", run_bytes.0, 4096, 1 << 30)?;
        in_range("scheduler.run_requests", u64::from(*run_requests), 1, RUN_REQUESTS_MAX)?;
        in_range("scheduler.batch_bytes", batch_bytes.0, run_bytes.0, 1 << 30)?;
        in_range("scheduler.queue_requests", u64::from(*queue_requests), 1, QUEUE_REQUESTS_MAX)?;
        self.scheduler.validate_sharing(*count, self.forwarder.is_some())?;
        self.validate_times()?;
        self.validate_faults()?;
        self.jobs.iter().try_for_each(|job| job.validate(self))?;
        let clients =
            self.jobs.iter().map(|job| u64::from(job.applications) * u64::from(job.clients));
        let clients = clients.fold(0, u64::saturating_add);
        check(clients <= CLIENTS_MAX, "job.clients", || {
            format!("{clients} clients in all; at most {CLIENTS_MAX}")
        })?;
        let mut under_way = 0_u64;
        self.jobs.iter().try_for_each(|job| {
            let clients = u64::from(job.applications) * u64::from(job.clients);
            let window = u64::from(job.window.min(job.requests));
            let parts = self.parts_at_once(job.request_max());
            under_way = under_way.saturating_add(clients.saturating_mul(window.saturating_mul(parts)));
            check(under_way <= UNDER_WAY_MAX, &format!("job \"{}\": window", job.name), || {
                format!(
                    "{clients} clients with {window} requests of {parts} parts each make \
                     {under_way} messages under way at once, with those of the jobs before; at most {UNDER_WAY_MAX}"
                )
            })
        })
    }

    /// The most that one message of a client carries, if there is a limit.
    fn piece(&self) -> Option<Bytes> {
        match &self.forwarder {
            Some(forwarder) => forwarder.chunk,
            None => self.servers.transfer,
        }
    }

    /// Most parts of a request that are under way at once.
    fn parts_at_once(&self, request: Bytes) -> u64 {
        let pieces = self.piece().map_or(1, |piece| request.0.div_ceil(piece.0));
        match &self.forwarder {
            Some(forwarder) => pieces.min(u64::from(forwarder.chunks_in_flight)),
            None => {
                let stripes = request.0.div_ceil(self.servers.stripe.0);
                pieces.max(stripes.min(u64::from(self.servers.count)))
            }
        }
    }

    /// What a request of that length may not be, by a forwarder's memory and the number of its parts.
    pub(crate) fn validate_length(
        &self,
        key: &str,
        whose: &str,
        length: Bytes,
    ) -> Result<(), Invalid> {
        if let Some(piece) = self.piece() {
            in_range(key, length.0.div_ceil(piece.0), 0, PARTS_MAX)?;
        }
        let Some(memory) = self.forwarder.as_ref().and_then(|forwarder| forwarder.memory) else {
            return Ok(());
        };
        let piece = self.piece().unwrap_or(length).min(length);
        check(piece <= memory, "forwarder.memory", || {
            format!(
                "{} bytes hold no piece of {} bytes of {whose}; give it more, or a smaller forwarder.chunk",
                memory.0, piece.0
            )
        })
    }

    fn validate_times(&self) -> Result<(), Invalid> {
        in_time("network.delay", self.network.delay)?;
        in_time("network.jitter", self.network.jitter)?;
        in_time("servers.request_cpu", self.servers.request_cpu)?;
        if let Some(forwarder) = &self.forwarder {
            in_time("forwarder.request_cpu", forwarder.request_cpu)?;
        }
        in_time("scheduler.wait", self.scheduler.wait)?;
        in_time("scheduler.cpu", self.scheduler.cpu.unwrap_or_default())?;
        in_time("faults.stall", self.faults.stall)
    }

    fn validate_faults(&self) -> Result<(), Invalid> {
        let faults = &self.faults;
        in_range("faults.fail_permille", u64::from(faults.fail_permille), 0, 1000)?;
        in_range("faults.short_permille", u64::from(faults.short_permille), 0, 1000)?;
        in_range("faults.vanish_permille", u64::from(faults.vanish_permille), 0, 1000)?;
        if let Some(every) = faults.stall_every {
            check((Nanos::millis(1)..=TIME_MAX).contains(&every), "faults.stall_every", || {
                format!("{} ns is not in 1 ms to {} s", every.0, TIME_MAX.0 / NANOS)
            })?;
            check(faults.stall > Nanos::ZERO, "faults.stall_every", || {
                "servers stall for no time; set faults.stall, or leave out both".to_string()
            })?;
        }
        check(faults.stall == Nanos::ZERO || faults.stall_every.is_some(), "faults.stall", || {
            "servers never stall; set faults.stall_every, the mean time between two stalls, or leave out both"
                .to_string()
        })?;
        check(
            faults.short_permille == 0 || self.forwarder.is_none(),
            "faults.short_permille",
            || {
                "short reads behind a forwarder are not modelled; leave out one of the two"
                    .to_string()
            },
        )
    }
}
