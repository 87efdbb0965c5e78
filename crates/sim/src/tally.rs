//! What is counted while a simulation runs.

use alloc::vec::Vec;

use forebay_stats::Histogram;
use forebay_units::{Bytes, Nanos};

use crate::workload::Workload;

/// Of one application.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApplicationTally {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) failed: u64,
    pub(crate) short: u64,
    pub(crate) vanished: u64,
    /// From the request to its last answer.
    pub(crate) latency: Histogram,
    /// From the request to the moment at which a device first worked on it.
    pub(crate) forward: Histogram,
}

impl ApplicationTally {
    pub(crate) fn count(&mut self, latency: Nanos, reached: Option<Nanos>, moved: Bytes) {
        self.requests += 1;
        self.bytes += moved.0;
        self.latency.record(latency);
        if let Some(reached) = reached {
            self.forward.record(reached);
        }
    }
}

/// Of all applications.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) applications: Vec<ApplicationTally>,
    /// Requests that will be made if nobody vanishes.
    pub(crate) requests_planned: u64,
}

impl Tally {
    pub(crate) fn new(workload: &Workload) -> Self {
        let planned = workload.applications.iter().map(|application| {
            let requests = |rank| u64::from(workload.requests_and_window(application, rank).0);
            (0..application.clients).map(requests).sum::<u64>()
        });
        Self {
            applications: workload
                .applications
                .iter()
                .map(|_| ApplicationTally::default())
                .collect(),
            requests_planned: planned.sum(),
        }
    }

    /// Bytes that they moved.
    pub(crate) fn bytes(&self) -> u64 {
        self.applications.iter().map(|application| application.bytes).sum()
    }

    /// Requests that were answered.
    pub(crate) fn requests(&self) -> u64 {
        self.applications.iter().map(|application| application.requests).sum()
    }
}
