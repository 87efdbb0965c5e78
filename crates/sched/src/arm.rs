//! Where the store's arm stands: the end of the last dispatch, of each file and of all.

use alloc::vec::Vec;

use forebay_units::{FileIndex, Offset};

use crate::request::{Access, Request};

/// What was dispatched last.
#[derive(Debug, Default)]
pub(crate) struct Arm {
    ends: Vec<Offset>,
    last: FileIndex,
}

impl Arm {
    /// Notes a dispatch that begins with `first` and ends at `end`. A sync moves nothing, and
    /// where an append or a truncation ends is not known.
    pub(crate) fn note(&mut self, first: &Request, end: Offset) {
        if !matches!(first.access, Access::Read | Access::Write) {
            return;
        }
        let index = first.file.0 as usize;
        if index >= self.ends.len() {
            self.ends.resize(index + 1, Offset(0));
        }
        self.ends[index] = end;
        self.last = first.file;
    }

    /// The file dispatched last.
    pub(crate) fn last_file(&self) -> FileIndex {
        self.last
    }

    /// Where the last dispatch of a file ended.
    pub(crate) fn end_of(&self, file: FileIndex) -> Offset {
        self.ends.get(file.0 as usize).copied().unwrap_or_default()
    }

    /// Forgets a file.
    pub(crate) fn retire(&mut self, file: FileIndex) {
        if let Some(end) = self.ends.get_mut(file.0 as usize) {
            *end = Offset(0);
        }
    }
}
