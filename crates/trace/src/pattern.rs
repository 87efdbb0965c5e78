//! How sequential accesses are, as Darshan counts it: an access is *sequential* if it begins at or
//! behind the end of the one before, and *consecutive* if it begins exactly there.
//!
//! Source: P. Carns et al., "24/7 Characterization of Petascale I/O Workloads", 2009, table 2
//! (`POSIX_SEQ_*`, `POSIX_CONSEC_*`). There it is counted by process and file; here also for other
//! views of the same accesses.

use alloc::collections::BTreeMap;

use forebay_units::{ByteRange, Offset};
use serde::Serialize;

/// Accesses of one view, and how many of them went on from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pattern {
    /// Accesses that had one before them.
    pub accesses: u64,
    /// Of these, those at or behind the end of the one before.
    pub sequential: u64,
    /// Of these, those exactly at its end.
    pub consecutive: u64,
}

impl Pattern {
    pub(crate) fn add(&mut self, before: Option<Offset>, range: ByteRange) {
        let Some(end) = before else { return };
        self.accesses += 1;
        self.sequential += u64::from(range.start >= end);
        self.consecutive += u64::from(range.start == end);
    }
}

/// A pattern with the ends of the latest accesses by some key.
#[derive(Clone, Debug)]
pub(crate) struct View<K> {
    pub(crate) pattern: Pattern,
    ends: BTreeMap<K, Offset>,
}

impl<K> Default for View<K> {
    fn default() -> Self {
        Self { pattern: Pattern::default(), ends: BTreeMap::new() }
    }
}

impl<K: Ord> View<K> {
    pub(crate) fn see(&mut self, key: K, range: ByteRange) {
        let before = self.ends.insert(key, range.end);
        self.pattern.add(before, range);
    }
}
