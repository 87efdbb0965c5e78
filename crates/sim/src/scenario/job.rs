//! Clients that belong together, and what they do one phase after the other.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use forebay_device::Rate;
use forebay_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::{CLIENTS_MAX, FILE_BYTES_MAX, Invalid, Scenario, Sharing, check, in_range, in_time};
use crate::quantity::{number, optional, required};

/// Most phases of a job.
const PHASES_MAX: usize = 1000;
const APPLICATIONS_MAX: u64 = 100_000;
const WEIGHT_MAX: u64 = 1_000_000;
/// Most requests of a client, in all and under way at once.
const REQUESTS_MAX: u64 = u32::MAX as u64;
const WINDOW_MAX: u64 = 65_536;

/// Clients that belong together: one application, or several that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// What results are called.
    pub name: String,
    /// How many such jobs, each with its own files and its own class.
    #[serde(default = "one", deserialize_with = "number::<_, 1, APPLICATIONS_MAX>")]
    pub applications: u32,
    /// Processes of each application.
    #[serde(deserialize_with = "number::<_, 1, CLIENTS_MAX>")]
    pub clients: u32,
    /// Its part where jobs share, in proportion to the others': 1 to 1,000,000.
    #[serde(default = "one", deserialize_with = "number::<_, 1, WEIGHT_MAX>")]
    pub weight: u32,
    /// The most that an application moves at each scheduler where jobs share; no limit if `None`.
    #[serde(default, with = "optional")]
    pub limit: Option<Rate>,
    /// Whether they read or write.
    #[serde(default)]
    pub operation: Operation,
    /// Reads of 100 requests, if `operation` is mixed.
    #[serde(default = "half", deserialize_with = "number::<_, 0, 100>")]
    pub reads_percent: u32,
    /// One file for all clients of an application, or one for each.
    #[serde(default)]
    pub file: FileUse,
    /// In which order a client goes through its file.
    #[serde(default)]
    pub order: Order,
    /// The size of a request.
    #[serde(with = "required")]
    pub request: Bytes,
    /// How many requests each client makes.
    #[serde(deserialize_with = "number::<_, 1, REQUESTS_MAX>")]
    pub requests: u32,
    /// The size of the file; what the requests cover if `None`. For random order.
    #[serde(default, with = "optional")]
    pub file_bytes: Option<Bytes>,
    /// Requests that a client has under way at a time; 1 is synchronous.
    #[serde(default = "one", deserialize_with = "number::<_, 1, WINDOW_MAX>")]
    pub window: u32,
    /// Between an answer and the next request.
    #[serde(default, with = "required")]
    pub think: Nanos,
    /// The most that is added to `think`, all lengths equally likely.
    #[serde(default, with = "required")]
    pub think_jitter: Nanos,
    /// When the job starts.
    #[serde(default, with = "required")]
    pub start: Nanos,
    /// The most that a client starts later than that.
    #[serde(default = "a_millisecond", with = "required")]
    pub start_jitter: Nanos,
    /// What each client does in turns, again and again until it has made `requests`; the same all
    /// the time if there are none.
    #[serde(default, rename = "phase")]
    pub phases: Vec<Phase>,
}

/// For some requests a client does something else than its job says. It goes on where it was when
/// it last was in this phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How many requests a client makes before its next phase.
    #[serde(deserialize_with = "number::<_, 1, REQUESTS_MAX>")]
    pub requests: u32,
    /// As the job if `None`; so are those below.
    #[serde(default)]
    pub operation: Option<Operation>,
    /// One file for all, or one for each.
    #[serde(default)]
    pub file: Option<FileUse>,
    /// In which order.
    #[serde(default)]
    pub order: Option<Order>,
    /// The size of a request.
    #[serde(default, with = "optional")]
    pub request: Option<Bytes>,
    /// Between an answer and the next request.
    #[serde(default, with = "optional")]
    pub think: Option<Nanos>,
}

fn one() -> u32 {
    1
}

fn half() -> u32 {
    50
}

fn a_millisecond() -> Nanos {
    Nanos::millis(1)
}

impl Default for Job {
    /// 8 synchronous readers of a shared file in strides, 64 requests of 64 KiB each.
    fn default() -> Self {
        Self {
            name: "job".to_string(),
            applications: 1,
            clients: 8,
            weight: 1,
            limit: None,
            operation: Operation::Read,
            reads_percent: 50,
            file: FileUse::Shared,
            order: Order::Strided,
            request: Bytes::kib(64),
            requests: 64,
            file_bytes: None,
            window: 1,
            think: Nanos::ZERO,
            think_jitter: Nanos::ZERO,
            start: Nanos::ZERO,
            start_jitter: Nanos::millis(1),
            phases: Vec::new(),
        }
    }
}

/// What requests do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// All of them read.
    #[default]
    Read,
    /// All of them write.
    Write,
    /// `reads_percent` of them read.
    Mixed,
}

/// Which files a job has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileUse {
    /// One for all clients of an application.
    #[default]
    Shared,
    /// One for each client.
    PerProcess,
}

/// The order of a client's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other; in a shared file each client has a segment of its own.
    Contiguous,
    /// In a shared file of P clients, client i takes blocks i, i + P, i + 2 P, …
    #[default]
    Strided,
    /// Any block of the file, each time anew.
    Random,
}

/// What a job does at one of its requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doing {
    pub(crate) operation: Operation,
    pub(crate) file: FileUse,
    pub(crate) order: Order,
    pub(crate) request: Bytes,
    pub(crate) think: Nanos,
    /// Which of a client's requests of this phase it is, and how many of them there are.
    pub(crate) number: u32,
    pub(crate) requests: u32,
}

impl Job {
    /// What it does at a client's request of that number.
    pub(crate) fn doing(&self, number: u32) -> Doing {
        let round: u32 = self.phases.iter().map(|phase| phase.requests).sum();
        let plain = || self.plain(&Phase::default(), number, self.requests);
        let (Some(rounds), Some(mut left)) = (number.checked_div(round), number.checked_rem(round))
        else {
            return plain();
        };
        let mut before = 0;
        for phase in &self.phases {
            if left < phase.requests {
                let last_round = (self.requests % round).saturating_sub(before);
                let requests =
                    self.requests / round * phase.requests + last_round.min(phase.requests);
                return self.plain(phase, rounds * phase.requests + left, requests);
            }
            (left, before) = (left - phase.requests, before + phase.requests);
        }
        plain()
    }

    fn plain(&self, phase: &Phase, number: u32, requests: u32) -> Doing {
        Doing {
            operation: phase.operation.unwrap_or(self.operation),
            file: phase.file.unwrap_or(self.file),
            order: phase.order.unwrap_or(self.order),
            request: phase.request.unwrap_or(self.request),
            think: phase.think.unwrap_or(self.think),
            number,
            requests,
        }
    }

    /// What it does at the beginning of every phase.
    fn all_doings(&self) -> impl Iterator<Item = Doing> + '_ {
        let starts = self.phases.iter().scan(0, |start, phase| {
            let this = *start;
            *start += phase.requests;
            Some(this)
        });
        let whole = self.phases.is_empty().then_some(0);
        starts.chain(whole).map(|start| self.doing(start))
    }

    /// The longest request.
    pub(crate) fn request_max(&self) -> Bytes {
        self.all_doings().map(|doing| doing.request).max().unwrap_or(self.request)
    }

    /// Whether it ever uses a file for each client.
    pub(crate) fn has_own_files(&self) -> bool {
        self.all_doings().any(|doing| doing.file == FileUse::PerProcess)
    }

    /// Bytes of each file, if the requests decide.
    pub(crate) fn covered_bytes(&self) -> u128 {
        self.all_doings().map(|doing| self.covered_by(&doing)).max().unwrap_or_default()
    }

    /// Bytes of each file that a phase covers.
    pub(crate) fn covered_by(&self, doing: &Doing) -> u128 {
        let clients = match doing.file {
            FileUse::Shared => self.clients,
            FileUse::PerProcess => 1,
        };
        u128::from(doing.request.0) * u128::from(doing.requests) * u128::from(clients)
    }

    /// Looks for values that cannot be simulated.
    pub(super) fn validate(&self, scenario: &Scenario) -> Result<(), Invalid> {
        let key = |name: &str| format!("job \"{}\": {name}", self.name);
        in_range(&key("applications"), u64::from(self.applications), 1, APPLICATIONS_MAX)?;
        in_range(&key("clients"), u64::from(self.clients), 1, CLIENTS_MAX)?;
        in_range(&key("weight"), u64::from(self.weight), 1, WEIGHT_MAX)?;
        let shares = scenario.scheduler.sharing != Sharing::None;
        check(self.limit.is_none() || shares, &key("limit"), || {
            "limits hold where jobs share; set scheduler.sharing to \"sfq\" or \"drr\"".to_string()
        })?;
        in_range(&key("reads_percent"), u64::from(self.reads_percent), 0, 100)?;
        in_range(&key("requests"), u64::from(self.requests), 1, REQUESTS_MAX)?;
        in_range(&key("window"), u64::from(self.window), 1, WINDOW_MAX)?;
        in_range(&key("request"), self.request.0, 1, 1 << 40)?;
        for (name, time) in [
            ("think", self.think),
            ("think_jitter", self.think_jitter),
            ("start", self.start),
            ("start_jitter", self.start_jitter),
        ] {
            in_time(&key(name), time)?;
        }
        self.validate_phases()?;
        let file = self.file_bytes.map_or_else(|| self.covered_bytes(), |size| u128::from(size.0));
        check(file <= u128::from(FILE_BYTES_MAX), &key("requests"), || {
            format!("a file of {file} bytes; at most {FILE_BYTES_MAX}")
        })?;
        if let Some(bytes) = self.file_bytes {
            in_range(&key("file_bytes"), bytes.0, self.request_max().0, FILE_BYTES_MAX)?;
            let is_random = self.all_doings().all(|doing| doing.order == Order::Random);
            check(is_random, &key("file_bytes"), || {
                "only random order has a file size of its own; otherwise the requests decide"
                    .to_string()
            })?;
        }
        let whose = format!("job \"{}\"", self.name);
        self.all_doings().try_for_each(|doing| {
            let is_right = doing.file == FileUse::Shared || doing.order != Order::Strided;
            check(is_right, &key("order"), || {
                "strides are a pattern of a shared file; with file = \"per-process\" say \"contiguous\" or \"random\""
                    .to_string()
            })?;
            scenario.validate_length(&key("request"), &whose, doing.request)
        })
    }

    fn validate_phases(&self) -> Result<(), Invalid> {
        let key = |name: &str| format!("job \"{}\": {name}", self.name);
        check(self.phases.len() <= PHASES_MAX, &key("phase"), || {
            format!("{} phases; at most {PHASES_MAX}", self.phases.len())
        })?;
        let mut round = 0;
        for phase in &self.phases {
            in_range(&key("phase.requests"), u64::from(phase.requests), 1, REQUESTS_MAX)?;
            round += u64::from(phase.requests);
            if let Some(request) = phase.request {
                in_range(&key("phase.request"), request.0, 1, 1 << 40)?;
            }
            in_time(&key("phase.think"), phase.think.unwrap_or_default())?;
        }
        let most = u64::from(self.requests);
        check(round <= most, &key("phase.requests"), || {
            format!("{round} requests in all phases, but each client makes only {most}")
        })
    }
}
