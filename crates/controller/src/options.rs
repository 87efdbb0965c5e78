//! What a controller is made with.

use forebay_sched::SchedulerOptions;
use forebay_stats::LedgerOptions;

use crate::error::Error;

/// The largest queue and the largest depth, in requests.
pub(crate) const REQUESTS_MAX: usize = 1 << 24;

/// What a controller is made with, apart from its policy and its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The scheduler's own. `queue_requests_max` bounds what waits, from 1 to 2^24; operations that
    /// threads hand over at the same moment may exceed it by 512.
    pub scheduler: SchedulerOptions,
    /// Dispatch depth, from 1 to 2^24: a batch leaves while fewer requests than this are in flight.
    pub depth: usize,
    /// Files without live requests that are remembered, so that a policy knows them when they come
    /// back; beyond that the longest idle is forgotten.
    pub idle_files_max: usize,
    /// Accounts by class and by file, if they are to be kept.
    pub ledger: Option<LedgerOptions>,
}

impl Default for Options {
    /// The scheduler's defaults, 64 requests in flight, 4,096 idle files, no accounts.
    fn default() -> Self {
        Self {
            scheduler: SchedulerOptions::default(),
            depth: 64,
            idle_files_max: 4_096,
            ledger: None,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let is_size = |requests| (1..=REQUESTS_MAX).contains(&requests);
        match is_size(self.depth) && is_size(self.scheduler.queue_requests_max) {
            true => Ok(()),
            false => Err(Error::OutOfRange),
        }
    }
}
