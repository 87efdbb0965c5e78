//! Which of the members' descriptors a call goes through.
//!
//! A batch may hold requests that came through different descriptors of one file. One descriptor
//! has to serve them all: one that keeps every member's promise of durability, and one that does
//! not append what was meant for an offset.

use std::cmp::Reverse;
use std::sync::Arc;

use forebay_engine::store::{Operation, StoreFile};
use rustix::io::Errno;

use super::open_file::OpenFile;
use crate::slab::Slab;

/// The descriptor for `operation`.
///
/// # Errors
/// `EBADF` (for a truncation `EINVAL`) when any member may not do this, even if another may: nobody reads
/// or writes with somebody else's rights. `EINVAL` for a write at an offset when all members append (Linux would
/// append it), and for an append when none does.
pub(super) fn file_for(
    files: &Slab<Arc<OpenFile>>,
    members: &[StoreFile],
    operation: Operation,
) -> Result<Arc<OpenFile>, Errno> {
    let file_of = |member: &StoreFile| files.get(member.0).ok_or(Errno::BADF);
    for member in members {
        file_of(member)?.check_rights(operation)?;
    }
    // Every round but the last finds one more descriptor whose flags have changed.
    for _ in 0..=members.len() {
        let fitting = members.iter().filter_map(|member| files.get(member.0)).filter(|file| fits(file, operation));
        let chosen = fitting.min_by_key(|file| rank(file, operation)).ok_or(Errno::INVAL)?;
        if !needs_fresh_flags(operation) || !chosen.refresh()? {
            return Ok(Arc::clone(chosen));
        }
    }
    Err(Errno::INVAL)
}

fn fits(file: &OpenFile, operation: Operation) -> bool {
    match operation {
        Operation::Write(_) => !file.appends(),
        Operation::Append => file.appends(),
        _ => true,
    }
}

/// Whether `O_APPEND`, switched on or off by the client meanwhile, would put bytes where nobody meant them.
/// Looking costs a tenth of a microsecond.
fn needs_fresh_flags(operation: Operation) -> bool {
    matches!(operation, Operation::Write(_) | Operation::Append)
}

/// Smaller is better: for writes the most durable first, then for all the page cache before the device.
fn rank(file: &OpenFile, operation: Operation) -> (Reverse<u8>, bool) {
    let durability = if needs_fresh_flags(operation) { file.durability() } else { 0 };
    (Reverse(durability), file.is_direct())
}
