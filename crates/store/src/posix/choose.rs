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
    let members: Vec<&Arc<OpenFile>> =
        members.iter().filter_map(|member| files.get(member.0)).collect();
    // Every round but the last finds one more descriptor whose flags have changed.
    for _ in 0..=members.len() {
        let fitting = members.iter().filter(|file| fits(file, operation));
        let chosen = fitting.min_by_key(|file| rank(file, operation));
        let doubted = chosen.map_or(members.as_slice(), std::slice::from_ref);
        if !depends_on_append(operation) || !any_changed(doubted)? {
            return chosen.map(|&file| Arc::clone(file)).ok_or(Errno::INVAL);
        }
    }
    Err(Errno::INVAL)
}

/// Sees the flags of all again, whatever the first ones say.
fn any_changed(files: &[&Arc<OpenFile>]) -> Result<bool, Errno> {
    files.iter().try_fold(false, |changed, file| Ok(file.refresh()? || changed))
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
fn depends_on_append(operation: Operation) -> bool {
    matches!(operation, Operation::Write(_) | Operation::Append)
}

/// Smaller is better: for writes the most durable first, then for all the page cache before the device.
fn rank(file: &OpenFile, operation: Operation) -> (Reverse<u8>, bool) {
    let durability = if depends_on_append(operation) { file.durability() } else { 0 };
    (Reverse(durability), file.is_direct())
}

#[cfg(test)]
mod tests {
    use forebay_units::Offset;
    use rustix::fs::{Mode, OFlags, open};

    use super::*;
    use crate::posix::open_file::DSYNC;

    const PLAIN: OFlags = OFlags::empty();

    fn opened(flags: &[OFlags]) -> (Slab<Arc<OpenFile>>, Vec<StoreFile>) {
        let directory = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let file = tempfile::NamedTempFile::new_in(directory).unwrap();
        let mut files = Slab::default();
        let open_one = |flags: &OFlags| {
            let descriptor = open(file.path(), OFlags::RDWR | *flags, Mode::empty()).unwrap();
            StoreFile(files.insert(Arc::new(OpenFile::from_descriptor(descriptor).unwrap().0)))
        };
        let members = flags.iter().map(open_one).collect();
        (files, members)
    }

    fn is_chosen(flags: &[OFlags], operation: Operation, expected: usize) -> bool {
        let (files, members) = opened(flags);
        let chosen = file_for(&files, &members, operation).unwrap();
        Arc::ptr_eq(&chosen, files.get(members[expected].0).unwrap())
    }

    #[test]
    fn a_write_keeps_the_strongest_promise_among_its_members() {
        let write = Operation::Write(Offset(0));
        assert!(is_chosen(&[PLAIN, DSYNC, PLAIN], write, 1));
        assert!(is_chosen(&[PLAIN, DSYNC, OFlags::SYNC], write, 2));
        assert!(is_chosen(&[OFlags::SYNC | OFlags::APPEND, DSYNC, PLAIN], write, 1));
    }

    #[test]
    fn the_page_cache_is_preferred_to_the_device() {
        assert!(is_chosen(&[OFlags::DIRECT, PLAIN], Operation::Read(Offset(0)), 1));
        assert!(is_chosen(&[OFlags::DIRECT, PLAIN], Operation::Write(Offset(0)), 1));
        assert!(is_chosen(&[OFlags::DIRECT | DSYNC, PLAIN], Operation::Write(Offset(0)), 0));
    }

    #[test]
    fn no_members_or_unknown_ones_are_refused() {
        let (files, _) = opened(&[PLAIN]);
        assert_eq!(file_for(&files, &[], Operation::Sync).unwrap_err(), Errno::INVAL);
        assert_eq!(file_for(&files, &[StoreFile(9)], Operation::Sync).unwrap_err(), Errno::BADF);
    }
}
