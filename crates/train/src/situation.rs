//! The situations: an access pattern of so many processes in front of a device.
//!
//! Source: AGIOS 2015, section 3 and Table II; which of its aspects combine to 192 is written down
//! in `docs/training.md`. Those at a forwarder are ours: the paper's schedulers are at data servers
//! and see messages of 8 KiB, a forwarder's sees what the application asks for as a whole.

use std::fmt;

use forebay_select::{Features, SizeClass, Spatiality};
use forebay_sim::Scenario;
use forebay_sim::scenario::{FileUse, Job, Operation, Order, Scheduling, Servers};
use forebay_units::{Bytes, Direction, Nanos};

use crate::device::Device;

/// Of the data servers (AGIOS 2015, section 3).
pub const STRIPE: Bytes = Bytes::kib(32);
/// The most that one message carries, and so the size of a request at a server.
pub const MESSAGE: Bytes = Bytes::kib(8);
/// Data servers.
const SERVERS: u32 = 4;
/// The standard deviation of the logarithm of a service time.
const NOISE_PERCENT: u32 = 5;
/// Bytes of each process in small and in large requests: what a run of some milliseconds allows.
/// The paper's processes move 64 MB to 1 GB.
const SMALL_REQUESTS: u32 = 64;
const LARGE_REQUESTS: u32 = 12;

/// At which layer the scheduler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// One at each of four data servers, which are given stripes in messages of 8 KiB (the paper's).
    Servers,
    /// At a forwarder in front of one device, which is given whole requests.
    Forwarder,
}

impl Layer {
    /// Both, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Servers, Self::Forwarder];

    /// As tables write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Forwarder => "forwarder",
        }
    }

    /// Applications that are alike and start together. A forwarder gives each job a policy of its
    /// own, so there it is one.
    const fn applications(self) -> &'static [u32] {
        match self {
            Self::Servers => &[1, 4],
            Self::Forwarder => &[1],
        }
    }

    /// How its processes share the work.
    const fn layouts(self) -> &'static [Layout] {
        match self {
            Self::Servers => &Layout::PAPER,
            Self::Forwarder => &Layout::ALL,
        }
    }

    /// The application's requests, in KiB. What is longer than 2 MiB skips a forwarder's policy.
    const fn requests_kib(self) -> &'static [u32] {
        match self {
            Self::Servers => &[16, 256],
            Self::Forwarder => &[8, 16, 32, 64, 128, 256, 512, 1024, 2048],
        }
    }

    /// Processes of an application in any table.
    const fn processes(self) -> &'static [u32] {
        match self {
            Self::Servers => &[8, 16, 32],
            Self::Forwarder => &[8, 32],
        }
    }
}

/// How the processes of an application share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// One file, a segment for each process.
    SharedContiguous,
    /// One file, blocks in turns.
    SharedStrided,
    /// A file for each process.
    FilePerProcess,
    /// One file, blocks anywhere; not in the paper.
    SharedRandom,
}

impl Layout {
    /// The paper's, in the order of the tables.
    pub const PAPER: [Self; 3] =
        [Self::SharedContiguous, Self::SharedStrided, Self::FilePerProcess];
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 4] =
        [Self::SharedContiguous, Self::SharedStrided, Self::FilePerProcess, Self::SharedRandom];

    /// As tables write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SharedContiguous => "shared-contiguous",
            Self::SharedStrided => "shared-strided",
            Self::FilePerProcess => "file-per-process",
            Self::SharedRandom => "shared-random",
        }
    }
}

/// What the applications do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// Applications that are alike and start together.
    pub applications: u32,
    /// Files and order.
    pub layout: Layout,
    /// The application's request, in KiB: less than 32 is small.
    pub request_kib: u32,
    /// What all of them do.
    pub direction: Direction,
}

impl Pattern {
    /// All of a layer, in the order of the tables.
    pub fn all(layer: Layer) -> impl Iterator<Item = Self> {
        layer.applications().iter().flat_map(move |applications| {
            layer.layouts().iter().flat_map(move |layout| {
                layer.requests_kib().iter().flat_map(move |request_kib| {
                    [Direction::Write, Direction::Read].into_iter().map(move |direction| Self {
                        applications: *applications,
                        layout: *layout,
                        request_kib: *request_kib,
                        direction,
                    })
                })
            })
        })
    }
}

/// A pattern of so many processes in front of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Situation {
    /// Where the scheduler is.
    pub layer: Layer,
    /// Of each server, or of the forwarder.
    pub device: &'static str,
    /// What the applications do.
    pub pattern: Pattern,
    /// Of each application.
    pub processes: u32,
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, device, processes, pattern } = self;
        let Pattern { applications, layout, request_kib, direction } = pattern;
        let operation = operation(*direction);
        write!(
            f,
            "{},{device},{applications},{},{request_kib},{operation},{processes}",
            layer.as_str(),
            layout.as_str()
        )
    }
}

/// As tables write it.
pub const fn operation(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

impl Situation {
    /// What [`Display`](fmt::Display) writes, in order.
    pub const COLUMNS: &str = "layer,device,applications,layout,request_kib,operation,processes";

    /// At a layer, on these devices, of so many processes; all patterns of a device stand together.
    pub fn all<'a>(
        layer: Layer,
        devices: &'a [Device],
        processes: &'a [u32],
    ) -> impl Iterator<Item = Self> + use<'a> {
        devices.iter().flat_map(move |device| {
            Pattern::all(layer).flat_map(move |pattern| {
                processes.iter().map(move |processes| Self {
                    layer,
                    device: device.profile.name,
                    pattern,
                    processes: *processes,
                })
            })
        })
    }

    /// Reads what [`Display`](fmt::Display) writes; `None` for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let mut words = text.split(',');
        let mut next = || words.next();
        let layer = next()?;
        let layer = Layer::ALL.into_iter().find(|one| one.as_str() == layer)?;
        let device = Device::by_name(next()?)?.profile.name;
        let applications = next()?.parse().ok()?;
        let layout = next()?;
        let layout = Layout::ALL.into_iter().find(|one| one.as_str() == layout)?;
        let request_kib = next()?.parse().ok()?;
        let word = next()?;
        let direction =
            [Direction::Read, Direction::Write].into_iter().find(|one| operation(*one) == word)?;
        let processes = next()?.parse().ok()?;
        let pattern = Pattern { applications, layout, request_kib, direction };
        let is_known =
            Pattern::all(layer).any(|one| one == pattern) && layer.processes().contains(&processes);
        (next().is_none() && is_known).then_some(Self { layer, device, pattern, processes })
    }

    /// The requests of a process.
    fn requests(&self) -> u32 {
        if self.pattern.request_kib < 32 { SMALL_REQUESTS } else { LARGE_REQUESTS }
    }

    /// The length of a request as a scheduler is given it.
    fn request_there(&self) -> Bytes {
        match self.layer {
            Layer::Servers => MESSAGE,
            Layer::Forwarder => Bytes::kib(u64::from(self.pattern.request_kib)),
        }
    }

    /// What the tree may ask: what the scheduler sees, known for sure.
    pub fn features(&self) -> Features {
        let Pattern { applications, layout, request_kib, direction } = self.pattern;
        let process_bytes = u64::from(self.requests()) * u64::from(request_kib) * 1024;
        let (files, file_bytes) = match layout {
            Layout::FilePerProcess => (applications * self.processes, process_bytes),
            _ => (applications, process_bytes * u64::from(self.processes)),
        };
        let spatiality = match layout {
            Layout::SharedStrided => Spatiality::Strided,
            Layout::SharedRandom => Spatiality::Random,
            _ => Spatiality::Contiguous,
        };
        let size_class = if request_kib < 32 { SizeClass::Small } else { SizeClass::Large };
        let device = Device::by_name(self.device).expect("situations are of known devices");
        Features::known(
            direction,
            files,
            Bytes(file_bytes),
            spatiality,
            size_class,
            self.request_there(),
            device.ratio(direction, self.request_there()),
        )
    }

    /// As the simulator runs it; without a scheduler there is no time for its decisions either.
    pub fn scenario(&self, is_scheduled: bool) -> Scenario {
        let Pattern { applications, layout, request_kib, direction } = self.pattern;
        let device = Device::by_name(self.device).expect("situations are of known devices");
        let device = device.profile;
        let servers =
            Servers { stripe: STRIPE, device, noise_percent: NOISE_PERCENT, ..Servers::default() };
        let servers = match self.layer {
            Layer::Servers => Servers { count: SERVERS, transfer: Some(MESSAGE), ..servers },
            // As the forwarder's modelled store: a batch for each disk or channel.
            Layer::Forwarder => Servers { count: 1, depth: device.members, ..servers },
        };
        let job = Job {
            name: "application".to_owned(),
            applications,
            clients: self.processes,
            operation: match direction {
                Direction::Read => Operation::Read,
                Direction::Write => Operation::Write,
            },
            file: match layout {
                Layout::FilePerProcess => FileUse::PerProcess,
                _ => FileUse::Shared,
            },
            order: match layout {
                Layout::SharedStrided => Order::Strided,
                Layout::SharedRandom => Order::Random,
                _ => Order::Contiguous,
            },
            request: Bytes::kib(u64::from(request_kib)),
            requests: self.requests(),
            ..Job::default()
        };
        let cpu = if is_scheduled { None } else { Some(Nanos::ZERO) };
        Scenario {
            name: self.to_string(),
            servers,
            scheduler: Scheduling { cpu, ..Scheduling::default() },
            jobs: vec![job],
            ..Scenario::default()
        }
    }
}
