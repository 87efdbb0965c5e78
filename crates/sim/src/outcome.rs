//! What a simulation showed, in plain numbers that can be written as JSON.
//!
//! Nothing here depends on the machine or on how long the simulation took: the same scenario,
//! policy and seed give the same bytes.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use forebay_stats::Histogram;
use forebay_units::{Nanos, Timestamp};
use serde::Serialize;

use crate::node::Node;
use crate::tally::ApplicationTally;
use crate::workload::Workload;
use crate::world::{Client, World};

/// What a simulation showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy in charge, or `auto`.
    pub policy: &'static str,
    /// The seed.
    pub seed: u64,
    /// From the beginning to the last answer.
    pub makespan_ns: u64,
    /// Bytes that requests moved.
    pub bytes: u64,
    /// The same over the makespan.
    pub bytes_per_second: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Of these, reads that ended early.
    pub short: u64,
    /// Clients that vanished.
    pub vanished: u64,
    /// From a request to its last answer.
    pub latency: Latency,
    /// From a request to the moment at which a device first worked on it.
    pub forward_latency: Latency,
    /// Parts that the scheduler dispatched, over the batches that it made of them.
    pub merge_ratio: f64,
    /// Jain's index over the rates of all clients: 1 when all are equal, 1/n when one has everything.
    pub fairness_clients: f64,
    /// The same over applications.
    pub fairness_applications: f64,
    /// Mean over servers of the time in which a device was at work, over the makespan.
    pub device_utilisation: f64,
    /// Policies that selectors have put in charge after the first one.
    pub switches: u64,
    /// Events that were simulated.
    pub events: u64,
    /// Each application.
    pub applications: Vec<Application>,
    /// Each server, and the forwarder after them.
    pub nodes: Vec<NodeOutcome>,
}

/// How long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// On average.
    pub mean_ns: u64,
    /// The median, to within 1/16 as the others below.
    pub p50_ns: u64,
    /// Not exceeded by 95 of 100.
    pub p95_ns: u64,
    /// Not exceeded by 99 of 100.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// What an application's clients saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Application {
    /// The job's name, with a number if there are several applications.
    pub name: String,
    /// From its first client's first request to its last answer.
    pub completion_ns: u64,
    /// When the last answer came, since the beginning.
    pub finished_ns: u64,
    /// Between the first client that was finished and the last one.
    pub completion_spread_ns: u64,
    /// Bytes that requests moved.
    pub bytes: u64,
    /// The same over `completion_ns`.
    pub bytes_per_second: f64,
    /// Requests that were answered.
    pub requests: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Of these, reads that ended early.
    pub short: u64,
    /// Clients that vanished.
    pub vanished: u64,
    /// From a request to its last answer.
    pub latency: Latency,
    /// From a request to the moment at which a device first worked on it.
    pub forward_latency: Latency,
}

/// What a server or the forwarder did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeOutcome {
    /// `server-N` or `forwarder`.
    pub name: String,
    /// The policy that had its turn last.
    pub policy: &'static str,
    /// Policies that its selector has put in charge after the first one.
    pub switches: u64,
    /// How long each policy was in charge; classes with policies of their own are added up.
    pub policy_ns: BTreeMap<&'static str, u64>,
    /// Parts that were dispatched.
    pub dispatched: u64,
    /// Batches that they were dispatched in.
    pub batches: u64,
    /// Requests for which the device had to position anew.
    pub seeks: u64,
    /// Requests that continued the one before.
    pub sequential: u64,
    /// Time in which the device was at work.
    pub device_busy_ns: u64,
    /// Time in which the processor was.
    pub cpu_busy_ns: u64,
    /// Decisions to wait for a better batch.
    pub waits: u64,
    /// Parts that first had to wait for an earlier conflicting one.
    pub blocked: u64,
    /// The most data that was there at a time.
    pub memory_peak_bytes: u64,
}

impl Latency {
    fn of(histogram: &Histogram) -> Self {
        Self {
            mean_ns: histogram.mean().0,
            p50_ns: histogram.percentile(50.0).0,
            p95_ns: histogram.percentile(95.0).0,
            p99_ns: histogram.percentile(99.0).0,
            max_ns: histogram.max().0,
        }
    }
}

fn per_second(bytes: u64, time: Nanos) -> f64 {
    if time == Nanos::ZERO { 0.0 } else { bytes as f64 * 1e9 / time.0 as f64 }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Jain, Chiu, Hawe 1984: the square of the sum over n times the sum of squares.
fn jain(rates: impl Iterator<Item = f64>) -> f64 {
    let (count, sum, squares) = rates.fold((0u64, 0.0, 0.0), |(count, sum, squares), rate| {
        (count + 1, sum + rate, squares + rate * rate)
    });
    if squares == 0.0 { 1.0 } else { sum * sum / (count as f64 * squares) }
}

impl Outcome {
    pub(crate) fn new(world: &World, workload: &Workload, policy: &'static str, seed: u64) -> Self {
        let tallies = &world.tally.applications;
        let begin = Timestamp(0);
        let end = world.clients.iter().map(|client| client.finished).max().unwrap_or_default();
        let makespan = end - begin;
        let (mut latency, mut forward) = (Histogram::new(), Histogram::new());
        for tally in tallies {
            latency.merge(&tally.latency);
            forward.merge(&tally.forward);
        }
        let sum = |of: fn(&ApplicationTally) -> u64| tallies.iter().map(of).sum::<u64>();
        let bytes = sum(|tally| tally.bytes);
        let applications: Vec<Application> =
            (0..tallies.len()).map(|number| Application::new(world, workload, number)).collect();
        let client_rates = world
            .clients
            .iter()
            .map(|client| per_second(client.bytes, client.finished - client.started));
        let devices = world.nodes.iter().filter_map(|node| node.drive.as_ref());
        let (device_count, busy) =
            devices.fold((0u64, 0u64), |(count, busy), drive| (count + 1, busy + drive.busy().0));
        // With a forwarder the scheduler is there, and it is the last node.
        let scheduled = match world.nodes.last() {
            Some(node) if node.drive.is_none() => core::slice::from_ref(node),
            _ => &world.nodes[..],
        };
        let dispatched = scheduled.iter().map(|node| node.dispatched).sum();
        let batches = scheduled.iter().map(|node| node.batches).sum();
        Self {
            policy,
            seed,
            makespan_ns: makespan.0,
            bytes,
            bytes_per_second: per_second(bytes, makespan),
            requests: sum(|tally| tally.requests),
            failed: sum(|tally| tally.failed),
            short: sum(|tally| tally.short),
            vanished: sum(|tally| tally.vanished),
            latency: Latency::of(&latency),
            forward_latency: Latency::of(&forward),
            merge_ratio: ratio(dispatched, batches),
            fairness_clients: jain(client_rates),
            fairness_applications: jain(applications.iter().map(|one| one.bytes_per_second)),
            device_utilisation: ratio(busy, makespan.0.saturating_mul(device_count)),
            switches: world.nodes.iter().map(|node| node.selector.switches).sum(),
            events: world.events,
            applications,
            nodes: world
                .nodes
                .iter()
                .enumerate()
                .map(|(n, node)| NodeOutcome::new(n, node, end))
                .collect(),
        }
    }

    /// The slowest application's completion less the quickest one's, over their mean.
    pub fn completion_gap(&self) -> f64 {
        let times = self.applications.iter().map(|one| one.completion_ns);
        let (least, most) = (times.clone().min().unwrap_or(0), times.clone().max().unwrap_or(0));
        let sum: u64 = times.sum();
        ratio((most - least) * self.applications.len() as u64, sum)
    }
}

impl Application {
    fn new(world: &World, workload: &Workload, number: usize) -> Self {
        let application = &workload.applications[number];
        let tally = &world.tally.applications[number];
        let first = application.first_client as usize;
        let clients: &[Client] = &world.clients[first..first + application.clients as usize];
        let starts = clients.iter().map(|client| client.started);
        let ends = clients.iter().map(|client| client.finished);
        let started = starts.min().unwrap_or_default();
        let finished = ends.clone().max().unwrap_or_default();
        let completion = finished - started;
        Self {
            name: application.name.clone(),
            completion_ns: completion.0,
            finished_ns: finished.0,
            completion_spread_ns: (finished - ends.min().unwrap_or_default()).0,
            bytes: tally.bytes,
            bytes_per_second: per_second(tally.bytes, completion),
            requests: tally.requests,
            failed: tally.failed,
            short: tally.short,
            vanished: tally.vanished,
            latency: Latency::of(&tally.latency),
            forward_latency: Latency::of(&tally.forward),
        }
    }
}

impl NodeOutcome {
    fn new(number: usize, node: &Node, end: Timestamp) -> Self {
        let statistics = node.drive.as_ref().map(|drive| drive.statistics()).unwrap_or_default();
        let scheduler = node.scheduler.stats();
        let name = match node.drive {
            Some(_) => alloc::format!("server-{number}"),
            None => "forwarder".to_string(),
        };
        Self {
            name,
            policy: node.selector.last().as_str(),
            switches: node.selector.switches,
            policy_ns: node.selector.times(end),
            dispatched: node.dispatched,
            batches: node.batches,
            seeks: statistics.seeks,
            sequential: statistics.sequential,
            device_busy_ns: node.drive.as_ref().map_or(0, |drive| drive.busy().0),
            cpu_busy_ns: node.cpu_busy.0,
            waits: scheduler.waits,
            blocked: scheduler.blocked,
            memory_peak_bytes: node.memory.peak.0,
        }
    }
}
