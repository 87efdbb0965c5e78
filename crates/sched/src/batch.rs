//! A batch: what goes to the store in one piece, the papers' *virtual request*.

use alloc::vec::Vec;

use forebay_units::{ByteRange, Direction, FileIndex};

use crate::request::{Accepted, Access};

/// Requests that leave together: one file, one direction, in offset order, without a gap.
///
/// A value to be re-used: [`Scheduler::next`](crate::scheduler::Scheduler::next) clears and fills it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(crate) members: Vec<Accepted>,
}

impl Batch {
    /// An empty batch.
    pub const fn new() -> Self {
        Self { members: Vec::new() }
    }

    /// The requests, in offset order; empty unless the last decision was to dispatch.
    pub fn members(&self) -> &[Accepted] {
        &self.members
    }

    /// The file that all members concern.
    ///
    /// # Panics
    /// If the batch is empty.
    pub fn file(&self) -> FileIndex {
        self.members[0].request.file
    }

    /// What all members do: several are all reads or all writes, a sync or an append is alone.
    ///
    /// # Panics
    /// If the batch is empty.
    pub fn access(&self) -> Access {
        self.members[0].request.access
    }

    /// Which way the data goes.
    ///
    /// # Panics
    /// If the batch is empty.
    pub fn direction(&self) -> Direction {
        self.access().direction()
    }

    /// The bytes that the members cover together.
    ///
    /// # Panics
    /// If the batch is empty.
    pub fn range(&self) -> ByteRange {
        let end = self.members.iter().map(|member| member.request.range.end).max();
        ByteRange {
            start: self.members[0].request.range.start,
            end: end.expect("a batch has members"),
        }
    }
}
