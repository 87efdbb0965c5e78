//! The situations: an access pattern of so many processes in front of a device.
//!
//! Source: AGIOS 2015, section 3 and Table II; which of its aspects combine to 192 is written down
//! in `docs/training.md`.

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

/// How the processes of an application share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    /// One file, a segment for each process.
    SharedContiguous,
    /// One file, blocks in turns.
    SharedStrided,
    /// A file for each process.
    FilePerProcess,
}

impl Layout {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::SharedContiguous, Self::SharedStrided, Self::FilePerProcess];

    /// As tables write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SharedContiguous => "shared-contiguous",
            Self::SharedStrided => "shared-strided",
            Self::FilePerProcess => "file-per-process",
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
    /// The application's request, in KiB: 16 is small, 256 large.
    pub request_kib: u32,
    /// What all of them do.
    pub direction: Direction,
}

impl Pattern {
    /// All of them, in the order of the tables.
    pub fn all() -> impl Iterator<Item = Self> {
        [1, 4].into_iter().flat_map(|applications| {
            Layout::ALL.into_iter().flat_map(move |layout| {
                [16, 256].into_iter().flat_map(move |request_kib| {
                    [Direction::Write, Direction::Read].into_iter().map(move |direction| Self {
                        applications,
                        layout,
                        request_kib,
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
    /// Of each server.
    pub device: &'static str,
    /// What the applications do.
    pub pattern: Pattern,
    /// Of each application.
    pub processes: u32,
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, processes, pattern } = self;
        let Pattern { applications, layout, request_kib, direction } = pattern;
        let operation = operation(*direction);
        write!(
            f,
            "{device},{applications},{},{request_kib},{operation},{processes}",
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
    pub const COLUMNS: &str = "device,applications,layout,request_kib,operation,processes";

    /// On these devices, of so many processes; all patterns of a device stand together.
    pub fn all<'a>(
        devices: &'a [Device],
        processes: &'a [u32],
    ) -> impl Iterator<Item = Self> + use<'a> {
        devices.iter().flat_map(move |device| {
            Pattern::all().flat_map(move |pattern| {
                processes.iter().map(move |processes| Self {
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
        let is_known = Pattern::all().any(|one| one == pattern) && [8, 16, 32].contains(&processes);
        (next().is_none() && is_known).then_some(Self { device, pattern, processes })
    }

    /// The requests of a process, and files of all applications together.
    fn requests(&self) -> u32 {
        if self.pattern.request_kib < 32 { SMALL_REQUESTS } else { LARGE_REQUESTS }
    }

    /// What the tree may ask: what servers see, known for sure.
    pub fn features(&self) -> Features {
        let Pattern { applications, layout, request_kib, direction } = self.pattern;
        let process_bytes = u64::from(self.requests()) * u64::from(request_kib) * 1024;
        let (files, file_bytes) = match layout {
            Layout::FilePerProcess => (applications * self.processes, process_bytes),
            _ => (applications, process_bytes * u64::from(self.processes)),
        };
        let spatiality = match layout {
            Layout::SharedStrided => Spatiality::Strided,
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
            device.ratio(direction, MESSAGE),
        )
    }

    /// As the simulator runs it; without a scheduler there is no time for its decisions either.
    pub fn scenario(&self, is_scheduled: bool) -> Scenario {
        let Pattern { applications, layout, request_kib, direction } = self.pattern;
        let device = Device::by_name(self.device).expect("situations are of known devices");
        let servers = Servers {
            count: SERVERS,
            stripe: STRIPE,
            transfer: Some(MESSAGE),
            device: device.profile,
            noise_percent: NOISE_PERCENT,
            ..Servers::default()
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
