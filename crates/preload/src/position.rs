//! Where a call reads or writes, and the shared file position.
//!
//! The position is the kernel's own, so calls that are not hooked and processes that share the
//! descriptor see the truth. A call at the position reserves its bytes by moving it: `lseek`
//! relative to the current position is one atomic step in the kernel. What the call did not use
//! it gives back the same way.

use std::os::fd::RawFd;

use rustix::fs::{SeekFrom, seek};

use crate::sys;

/// Where a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// At the file position, which moves.
    Position,
    /// At an offset; the position stays.
    Offset(i64),
}

/// Bytes of a file that this call alone moves.
#[derive(Debug)]
pub(crate) struct Reserved {
    number: RawFd,
    at: At,
    /// The first of them.
    pub(crate) start: u64,
    /// How many.
    pub(crate) length: u64,
}

impl At {
    /// Where the call would start now.
    pub(crate) fn start(self, number: RawFd) -> Option<u64> {
        match self {
            Self::Position => move_by(number, 0),
            Self::Offset(offset) => u64::try_from(offset).ok(),
        }
    }

    /// Reserves `length` bytes; `None` where the kernel is to say what is wrong.
    pub(crate) fn reserve(self, number: RawFd, length: u64) -> Option<Reserved> {
        let start = match self {
            Self::Position => move_by(number, i64::try_from(length).ok()?)?.checked_sub(length)?,
            Self::Offset(offset) => u64::try_from(offset).ok()?,
        };
        Some(Reserved { number, at: self, start, length })
    }
}

impl Reserved {
    /// Gives back what was not moved.
    pub(crate) fn settle(self, moved: u64) {
        let missing = self.length.saturating_sub(moved);
        if self.at == At::Position && missing > 0 {
            // `length` came from an `i64`.
            let _ = move_by(self.number, -(missing as i64));
        }
    }
}

/// Sets the position, as an append does.
pub(crate) fn set(number: RawFd, position: u64) {
    if let Some(descriptor) = sys::descriptor(number) {
        let _ = seek(descriptor, SeekFrom::Start(position));
    }
}

fn move_by(number: RawFd, bytes: i64) -> Option<u64> {
    seek(sys::descriptor(number)?, SeekFrom::Current(bytes)).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_was_not_moved_is_given_back() {
        let mut file = tempfile::tempfile().expect("temporary file");
        file.seek(SeekFrom::Start(10)).expect("seek");
        let reserved = At::Position.reserve(file.as_raw_fd(), 100).expect("reserve");
        assert_eq!((reserved.start, reserved.length), (10, 100));
        assert_eq!(file.stream_position().expect("position"), 110);
        reserved.settle(30);
        assert_eq!(file.stream_position().expect("position"), 40);
    }

    #[test]
    fn an_offset_leaves_the_position_alone() {
        let mut file = tempfile::tempfile().expect("temporary file");
        At::Offset(7).reserve(file.as_raw_fd(), 100).expect("reserve").settle(0);
        assert_eq!(file.stream_position().expect("position"), 0);
        assert!(At::Offset(-1).reserve(file.as_raw_fd(), 1).is_none());
    }

    #[test]
    fn a_position_beyond_the_largest_offset_is_left_to_the_kernel() {
        let mut file = tempfile::tempfile().expect("temporary file");
        file.seek(SeekFrom::Start(1 << 40)).expect("seek");
        assert!(At::Position.reserve(file.as_raw_fd(), i64::MAX as u64).is_none());
        assert_eq!(file.stream_position().expect("position"), 1 << 40);
    }
}
