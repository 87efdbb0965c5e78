//! The figures of IOFSL 2010 in virtual time: one forwarder, four servers, 128 writers.
//!
//! Source: Ohta, Kimpe, Cope, Iskra, Ross, Ishikawa 2010, "Optimization techniques at the I/O
//! forwarding layer", sections on out-of-order pipelining and on the request scheduler.
//!
//! The paper gives: 8 nodes of 16 cores, 10 Gbit/s Myrinet, one IOFSL forwarder, four PVFS2 servers
//! with one SATA disk each (39.76 MB/s writing), IOR with the same amount from each process, a
//! quantum of 8 ranges and 16 requests a batch. It does not give what a request costs a PVFS2
//! server, how much of a disk's positioning the server's page cache hides, how many requests
//! IOFSL had under way, nor the layout of the file. Those are the model's parameters; each of them
//! is varied, and the ratios that result stand beside the figure.

mod large;
mod small;

use forebay_device::{Disk, Medium, Profile, Rate, SeekCurve};
use forebay_sim::Scenario;
use forebay_sim::scenario::{Forwarder, Network, Scheduling, Servers};
use forebay_units::{Bytes, Nanos};

pub(crate) use large::large;
pub(crate) use small::small;

/// Processes of the paper's runs: 8 nodes of 16 cores.
const PROCESSES: u32 = 128;

const SEED: u64 = 1;

/// What the paper does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Assumed {
    /// Processor time of a request at a server.
    server_request: Nanos,
    /// What a write pays of the disk's positioning, in thousandths: the rest is hidden by caches
    /// that write later and in order.
    write_share_permille: u64,
    /// Requests that the forwarder has under way to the servers.
    depth: u32,
    /// One way between two machines.
    delay: Nanos,
}

/// The share of positioning is that of `graphene`, the disk of AGIOS 2015 whose measured writes
/// suffer least from being random; the others are guesses at such machines.
const ASSUMED: Assumed = Assumed {
    server_request: Nanos::micros(100),
    write_share_permille: 356,
    depth: 16,
    delay: Nanos::micros(30),
};

impl Assumed {
    /// The paper's machines, without clients.
    fn scenario(&self, name: &str) -> Scenario {
        Scenario {
            name: name.to_owned(),
            network: Network {
                delay: self.delay,
                jitter: Nanos(self.delay.0 / 3),
                bandwidth: Some(Rate::megabytes_per_second(1250)),
            },
            servers: Servers {
                count: 4,
                stripe: Bytes::kib(64),
                transfer: None,
                device: disk(self.write_share_permille),
                noise_percent: 5,
                depth: 16,
                request_cpu: self.server_request,
            },
            forwarder: Some(Forwarder { depth: self.depth, ..Forwarder::default() }),
            scheduler: Scheduling {
                run_bytes: Bytes::mib(1),
                // IOFSL's batch is at most 16 requests.
                run_requests: 16,
                ..Scheduling::default()
            },
            ..Scenario::default()
        }
    }
}

/// The servers' disk: the paper's rate of writing, and otherwise a desktop disk of its time.
fn disk(write_share_permille: u64) -> Profile {
    let medium = Medium::Disk(Disk {
        transfer: Rate::bytes_per_second(39_760_000),
        interface: Rate::megabytes_per_second(300),
        seek: SeekCurve::fitted(
            Nanos::millis(1),
            Nanos::micros(8_500),
            Nanos::millis(17),
            Bytes(250_000_000_000),
        ),
        turns_per_minute: 7_200,
        overhead: Nanos::micros(100),
        gap_max: Bytes::kib(64),
        cache: Bytes::mib(8),
        write_share_permille,
    });
    Profile {
        name: "t2k",
        summary: "disk of 39.76 MB/s",
        medium,
        members: 1,
        stripe: Bytes::mib(1),
    }
}
