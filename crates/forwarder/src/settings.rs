//! What a forwarder can be told, and where it is told: file, environment, flags, in rising precedence.
//!
//! ```text
//! TOML file ─┐
//! FOREBAY_*  ├─ Sources ── resolve ──► Settings (plain, typed, complete)
//! flags     ─┘      └─ every unknown key and every bad value ──► Error
//! ```
//!
//! One table, [`definition::DEFINITIONS`], names every setting with its default, its allowed
//! values and its meaning. Parsing, flags, error messages and the reference text come from it,
//! so a new setting is a field here and a row there.
//!
//! A mistake is never passed over: an experiment that runs with other settings than the ones
//! written down measures something else.

use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_units::{Bytes, Nanos};

use self::class::Ceiling;

pub mod class;
pub mod definition;
mod network;
mod source;
mod value;

pub use class::Classes;
pub use network::Network;
pub use source::{CLIENT_VARIABLES, Error, Fault, Origin, Sources};
pub use value::{Kind, Value};

/// Everything a forwarder can be told; complete and checked once it exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where it listens.
    pub listen: Listen,
    /// What clients may reach by path.
    pub export: Export,
    /// What carries the I/O out.
    pub store: Store,
    /// The memory for data.
    pub pool: Pool,
    /// The limits of one connection.
    pub session: Session,
    /// The order of requests.
    pub scheduler: Scheduler,
    /// How a policy is chosen.
    pub select: Select,
    /// How users and jobs share.
    pub sharing: Sharing,
    /// What was said about single classes.
    pub classes: Classes,
    /// Whether everything is taken down.
    pub trace: Trace,
}

/// Where the forwarder listens; at least one of the two.
#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    /// Path of a Unix socket.
    pub unix: Option<PathBuf>,
    /// Address and port for TCP; port 0 picks a free one.
    pub tcp: Option<SocketAddr>,
    /// Peers that may connect over TCP.
    pub tcp_allow: Vec<Network>,
    /// Whether a client on TCP may change settings.
    pub tcp_control: TcpControl,
}

/// Whether a client on TCP may change settings; who it is, it only says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpControl {
    /// No.
    Refuse,
    /// Anybody who may connect.
    Allow,
}

/// What clients without a descriptor of their own (TCP) may reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Export {
    /// Directory beneath which paths are opened; none refuses every open by path.
    pub root: Option<PathBuf>,
}

/// What carries the I/O out.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Which store.
    pub kind: StoreKind,
    /// How the posix store calls the kernel.
    pub engine: StoreEngine,
    /// Calls in progress at once; 0 leaves it to the store.
    pub depth: u32,
    /// The largest window of the posix store's own read-ahead; 0 for none.
    pub read_ahead_bytes: Bytes,
    /// Data servers over which the file system behind spreads each file.
    pub targets: u32,
    /// Consecutive bytes of a file on one of them.
    pub stripe_bytes: Bytes,
    /// Factor on a modelled device's service times: 0.1 is ten times faster than the real one.
    pub time_scale: f64,
    /// Errors, short calls and delays to inject, as the faulty store spells them; for tests.
    pub faults: Option<String>,
}

/// Which store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// The file system, as the kernel gives it.
    Posix,
    /// Memory: what the rest of the path costs, without a device.
    Memory,
    /// The file system behind the model of the named device, in real time.
    Modelled(String),
}

/// How the posix store calls the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEngine {
    /// `io_uring` where the kernel allows it, else threads.
    Auto,
    /// `io_uring`, or a start-up error.
    IoUring,
    /// A few threads that block.
    Threads,
}

/// The memory for data: all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Size of the pool.
    pub bytes: Bytes,
    /// Part that only dispatched requests may use, so that what was begun can end.
    pub reserve_percent: u32,
}

/// The limits of one connection, and how many connections there may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Largest payload that may come with its request, without a grant.
    pub eager_bytes_max: Bytes,
    /// Largest piece in which data travels.
    pub chunk_bytes_max: Bytes,
    /// Requests that one client may have unanswered.
    pub requests_max: u32,
    /// Clients connected at once.
    pub connections_max: u32,
    /// How long a peer may stall (owe data that was granted, or not take data that is sent) before it is dropped.
    pub idle_timeout: Nanos,
}

/// The order of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduler {
    /// Name of the policy, one of [`definition::POLICIES`].
    pub policy: String,
    /// Which requests must keep their order, one of [`definition::GUARDS`].
    pub guard: String,
    /// Requests longer than this skip the policy; 0 means that none does.
    pub large_bytes: Bytes,
    /// Whether a request that finds nothing to be ordered against skips the policy.
    pub bypass: Bypass,
    /// Largest run of adjacent requests.
    pub run_bytes_max: Bytes,
    /// Most requests in a run.
    pub run_requests_max: u32,
    /// Largest batch of several runs.
    pub batch_bytes_max: Bytes,
    /// Longest wait for a better batch.
    pub wait_max: Nanos,
    /// Requests queued at once, over all clients.
    pub queue_requests_max: u32,
}

/// How policy `auto` chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// Profile of the device; none finds out.
    pub device: Option<PathBuf>,
    /// The trained tree; none takes the one that is compiled in.
    pub tree: Option<PathBuf>,
    /// Where what was learned is kept; none forgets it at the end.
    pub state: Option<PathBuf>,
    /// Name of the policy that is used instead, or [`definition::NO_PIN`].
    pub pin: String,
}

/// How users and jobs share the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharing {
    /// What a class is.
    pub level: Level,
    /// Who goes next among the classes.
    pub discipline: Discipline,
    /// Whether windows of TWINS and SW may be left.
    pub windows: Windows,
    /// Length of a window of TWINS.
    pub twins_window: Nanos,
    /// After how long without requests a server lends its window.
    pub twins_idle: Nanos,
    /// By how many servers the windows are ahead of another forwarder's.
    pub twins_shift: u32,
    /// Length of a window of arrival of SW.
    pub sw_window: Nanos,
    /// A class beyond a limit that may borrow does so below so many requests at the store.
    pub lend_below: u32,
    /// Bytes a second that the store carries.
    pub capacity: Ceiling,
    /// What is shared.
    pub cost: Cost,
    /// Bytes that a class of weight 1 may send in one round of DRR.
    pub quantum_bytes: Bytes,
    /// Classes told apart at once.
    pub class_count_max: u32,
    /// Files whose statistics are kept.
    pub file_count_max: u32,
}

/// What a class is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// All requests are of one class.
    None,
    /// A user is a class.
    User,
    /// A job is a class, and the jobs of a user share what is the user's.
    Job,
    /// A data server behind the store is a class.
    Target,
}

impl Level {
    /// Whether what is said about classes of this name holds for anybody.
    fn looks_at(self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::User => {
                matches!(name, class::DEFAULT | class::OTHER) || name.starts_with(class::USER)
            }
            Self::Job => true,
            // Each of them has a place, so none is an other.
            Self::Target => name == class::DEFAULT,
        }
    }
}

/// Who goes next among the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Start-time fair queueing.
    Sfq,
    /// Deficit round robin.
    Drr,
    /// Windows of time for data servers.
    Twins,
    /// Windows of arrival.
    Sw,
}

/// Whether windows may be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// The store does not idle for their sake, or not for long.
    WorkConserving,
    /// The store idles rather.
    Strict,
}

/// What is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Bytes.
    Bytes,
    /// Requests.
    Requests,
    /// The device's time: as the model of the device estimates it, else so much a batch and a byte.
    Time,
}

/// Whether everything is taken down.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// File for a trace of all requests and decisions; none records nothing.
    pub file: Option<PathBuf>,
    /// Memory for what is not written yet.
    pub buffer_bytes: Bytes,
}

/// When a request skips the policy, apart from its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// When nothing is queued and the store has room.
    WhenIdle,
    /// Never.
    Never,
}

impl Pool {
    /// The part that only dispatched requests may use.
    pub fn reserve(&self) -> Bytes {
        Bytes(self.bytes.0 * u64::from(self.reserve_percent) / 100)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Sources::new().resolve().expect("the defaults in the table are valid: a test resolves them")
    }
}

impl Settings {
    /// Whether the policy is chosen here.
    pub fn is_auto(&self) -> bool {
        self.scheduler.policy == definition::AUTO
    }

    /// Every setting with its value, in the table's order, spelled as a file or a flag would.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        definition::DEFINITIONS.iter().map(|d| (d.key, (d.read)(self).to_string()))
    }

    /// Changes one setting by its text; nothing is checked against other settings.
    ///
    /// # Errors
    /// What is allowed instead.
    pub(crate) fn set(
        &mut self,
        definition: &'static definition::Definition,
        text: &str,
    ) -> Result<(), String> {
        let value = definition.kind.parse(text).ok_or_else(|| definition.kind.allowed(text))?;
        (definition.write)(self, value);
        Ok(())
    }

    /// What is set and cannot be kept, or is not looked at: a line each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut texts = self.classes.warnings();
        let Sharing { level, discipline, windows, lend_below, capacity, .. } = self.sharing;
        let has_windows = matches!(discipline, Discipline::Twins | Discipline::Sw);
        let spelled = |key| definition::Definition::find(key).map(|known| (known.read)(self));
        let mut ignored = |key: &str, under: &'static str| {
            let value = spelled(under).expect("a setting of the table");
            texts.push(format!("{key} is not looked at under {under} = {value}"));
        };
        for (name, class) in self.classes.entries() {
            let is_known = level.looks_at(name);
            let of_user = name.starts_with(class::USER) && level == Level::Job;
            for (key, _) in class.entries() {
                let is_share = matches!(key, "weight" | "reservation");
                let key_of_class = format!("classes.{name}.{key}");
                if !is_known {
                    ignored(&key_of_class, "sharing.level");
                } else if has_windows && (is_share || (of_user && key != "policy")) {
                    ignored(&key_of_class, "sharing.discipline");
                }
            }
        }
        if has_windows && capacity != Ceiling::None {
            ignored("sharing.capacity", "sharing.discipline");
        }
        let lends = match discipline {
            Discipline::Sfq | Discipline::Drr => true,
            Discipline::Twins => false,
            Discipline::Sw => windows == Windows::WorkConserving,
        };
        // One is the default and the least.
        if lend_below > 1 && !lends {
            let is_twins = discipline == Discipline::Twins;
            let under = if is_twins { "sharing.discipline" } else { "sharing.windows" };
            ignored("sharing.lend_below", under);
        }
        texts
    }

    /// Whether settings that concern each other fit.
    ///
    /// # Errors
    /// What does not fit, and what is allowed.
    pub(crate) fn check(&self) -> Result<(), String> {
        let faults = source::faults_together(self);
        let texts: Vec<String> = faults.iter().map(Fault::to_string).collect();
        if texts.is_empty() { Ok(()) } else { Err(texts.join("; ")) }
    }

    /// All of it as a file that would set it.
    pub fn to_toml(&self) -> String {
        let plain = self.entries().map(|(key, value)| format!("{key} = {value:?}\n"));
        let classes = self.classes.entries().flat_map(|(name, class)| {
            let entries = class.entries();
            entries.map(move |(key, value)| format!("classes.{name:?}.{key} = {value:?}\n"))
        });
        plain.chain(classes).collect()
    }

    /// A fresh value with nothing decided, for [`Sources::resolve`] to fill from the table.
    fn blank() -> Self {
        Self {
            listen: Listen {
                unix: None,
                tcp: None,
                tcp_allow: Vec::new(),
                tcp_control: TcpControl::Refuse,
            },
            export: Export { root: None },
            store: Store {
                kind: StoreKind::Posix,
                engine: StoreEngine::Auto,
                depth: 0,
                read_ahead_bytes: Bytes::mib(8),
                targets: 1,
                stripe_bytes: Bytes::mib(1),
                time_scale: 1.0,
                faults: None,
            },
            pool: Pool { bytes: Bytes::ZERO, reserve_percent: 0 },
            session: Session {
                eager_bytes_max: Bytes::ZERO,
                chunk_bytes_max: Bytes::ZERO,
                requests_max: 0,
                connections_max: 0,
                idle_timeout: Nanos::ZERO,
            },
            select: Select { device: None, tree: None, state: None, pin: String::new() },
            sharing: Sharing {
                level: Level::None,
                discipline: Discipline::Sfq,
                windows: Windows::WorkConserving,
                twins_window: Nanos::ZERO,
                twins_idle: Nanos::ZERO,
                twins_shift: 0,
                sw_window: Nanos::ZERO,
                lend_below: 1,
                capacity: Ceiling::None,
                cost: Cost::Bytes,
                quantum_bytes: Bytes::ZERO,
                class_count_max: 0,
                file_count_max: 0,
            },
            classes: Classes::default(),
            trace: Trace { file: None, buffer_bytes: Bytes::ZERO },
            scheduler: Scheduler {
                policy: String::new(),
                guard: String::new(),
                large_bytes: Bytes::ZERO,
                bypass: Bypass::WhenIdle,
                run_bytes_max: Bytes::ZERO,
                run_requests_max: 0,
                batch_bytes_max: Bytes::ZERO,
                wait_max: Nanos::ZERO,
                queue_requests_max: 0,
            },
        }
    }
}

#[cfg(test)]
mod tests;
