//! One step of a call as an ordinary system call, which waits for the device.

use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fdatasync, fsync, ftruncate};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev, writev};

use super::work::{Next, Step, Work};

/// Carries a call out to its end.
pub(super) fn finish(work: &mut Work) {
    let mut next = work.begin();
    while next == Next::Step {
        let result = make_call(work, ReadWriteFlags::empty());
        next = work.advance(result);
    }
}

/// Makes the system call for the next step; `flags` are for reads only. The bytes it moved.
pub(super) fn make_call(work: &mut Work, flags: ReadWriteFlags) -> Result<u64, Errno> {
    let file = Arc::clone(&work.file);
    let moved = match work.step() {
        Step::Read(offset) => {
            let mut slices: Vec<IoSliceMut<'_>> = work.pieces().map(IoSliceMut::new).collect();
            return Ok(preadv2(&file, &mut slices, offset, flags)? as u64);
        }
        Step::Write(offset) => pwritev(&file, &slices(work), offset)?,
        Step::Append => writev(&file, &slices(work))?,
        Step::Sync => fsync(&file).map(|()| 0)?,
        Step::DataSync => fdatasync(&file).map(|()| 0)?,
        Step::Truncate(size) => ftruncate(&file, size).map(|()| 0)?,
        Step::Allocate { mode, offset, length } => {
            fallocate(&file, FallocateFlags::from_bits_retain(mode), offset, length).map(|()| 0)?
        }
        Step::Advise { advice, offset, length } => {
            fadvise(&file, offset, NonZeroU64::new(length), named(advice)?).map(|()| 0)?
        }
    };
    Ok(moved as u64)
}

fn slices(work: &mut Work) -> Vec<IoSlice<'_>> {
    work.pieces().map(|piece| IoSlice::new(piece)).collect()
}

/// The advice with the number that programs pass.
fn named(advice: u32) -> Result<Advice, Errno> {
    const ALL: [Advice; 6] = [
        Advice::Normal,
        Advice::Random,
        Advice::Sequential,
        Advice::WillNeed,
        Advice::DontNeed,
        Advice::NoReuse,
    ];
    ALL.into_iter().find(|named| *named as u32 == advice).ok_or(Errno::INVAL)
}
