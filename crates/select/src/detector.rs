//! The access pattern, from (file, offset, length, operation, client) alone.

use forebay_sched::Request;
use forebay_units::{FileIndex, Timestamp};

use crate::pattern::Pattern;

/// What of the recent past it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorOptions {
    /// Requests at least this long are large: the stripe of the data servers.
    pub stripe: forebay_units::Bytes,
}

/// What was seen of the recent requests.
#[derive(Clone, Debug)]
pub struct Detector {}

impl Detector {
    /// Nothing was seen yet.
    pub fn new(options: DetectorOptions) -> Self {
        _ = options;
        Self {}
    }

    /// A request has arrived. O(1).
    pub fn arrived(&mut self, now: Timestamp, request: &Request) {
        _ = (now, request);
    }

    /// The pattern of everything together, by majority of the files; `None` before enough was seen.
    pub fn pattern(&self, now: Timestamp) -> Option<Pattern> {
        _ = now;
        None
    }

    /// The pattern of one file.
    pub fn pattern_of(&self, now: Timestamp, file: FileIndex) -> Option<Pattern> {
        _ = (now, file);
        None
    }
}
