//! NOOP: a request is the program's as soon as it is added; it is only accounted.

use std::time::Instant;

use forebay_units::ByteRange;

use crate::by_name::ByName;
use crate::door::Failure;
use crate::metrics::Metrics;
use crate::name::Name;
use crate::queue::time_since;
use crate::sys::CallBacks;

/// See the module's head.
pub(crate) struct Passing {
    pub(crate) call_backs: CallBacks,
    pub(crate) metrics: Metrics,
    requests: ByName<()>,
    in_flight_max: usize,
    started: Instant,
}

impl Passing {
    pub(crate) fn new(call_backs: CallBacks, started: Instant, in_flight_max: usize) -> Self {
        let (metrics, requests) = (Metrics::default(), ByName::new());
        Self { call_backs, metrics, requests, in_flight_max, started }
    }

    /// A request is given to the program.
    pub(crate) fn add(&mut self, when: Instant, name: Name) -> Result<(), Failure> {
        if self.requests.count() >= self.in_flight_max {
            return Err(Failure::QueueFull);
        }
        self.requests.insert(name, ());
        let range = ByteRange::new(name.offset, name.length);
        let when = time_since(self.started, when);
        self.metrics.added(when, name.file, name.direction, range);
        Ok(())
    }

    /// The program is done with it.
    pub(crate) fn release(&mut self, name: &Name) -> Result<(), Failure> {
        self.requests.take_named(name).ok_or(Failure::Unknown)?;
        self.metrics.released(name.file, name.length);
        Ok(())
    }

    /// All there are are with the program.
    pub(crate) fn cancel(&self, name: &Name) -> Result<(), Failure> {
        Err(if self.requests.find(name).is_some() { Failure::InFlight } else { Failure::Unknown })
    }
}
