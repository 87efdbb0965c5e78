//! Byte, offset, range, time and identity types: every number in Forebay carries its unit.
//!
//! Arithmetic is defined only where it has a meaning: `Offset + Bytes → Offset`,
//! `Offset − Offset → Bytes`, `Timestamp + Nanos → Timestamp`, `Timestamp − Timestamp → Nanos`.
//! All of it saturates rather than wraps, because a scheduler that panics on a hostile
//! offset has lost every other request too; decoders reject ranges beyond [`OFFSET_MAX`] first.
#![no_std]
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// The largest offset a request may end at: `i64::MAX`, because `off_t` is signed (POSIX `<sys/types.h>`).
pub const OFFSET_MAX: Offset = Offset(i64::MAX as u64);

/// A count of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A position in a file, in bytes from its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// A moment, in nanoseconds since the start of the run; never wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// `n` binary kilobytes (1,024 bytes each).
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }
    /// `n` binary megabytes (1,048,576 bytes each).
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }
}

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// `n` microseconds.
    pub const fn micros(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }
    /// `n` milliseconds.
    pub const fn millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }
    /// `n` seconds.
    pub const fn secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }
}

macro_rules! amount {
    ($t:ident) => {
        impl Add for $t {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl AddAssign for $t {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl Sub for $t {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl SubAssign for $t {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
    };
}

macro_rules! point {
    ($point:ident, $amount:ident) => {
        impl Add<$amount> for $point {
            type Output = Self;
            fn add(self, by: $amount) -> Self {
                Self(self.0.saturating_add(by.0))
            }
        }
        impl Sub for $point {
            type Output = $amount;
            fn sub(self, earlier: Self) -> $amount {
                $amount(self.0.saturating_sub(earlier.0))
            }
        }
    };
}

amount!(Bytes);
amount!(Nanos);
point!(Offset, Bytes);
point!(Timestamp, Nanos);

/// A half-open range of bytes of one file, `[start, end)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// First byte.
    pub start: Offset,
    /// First byte that is no longer part of the range; never below `start`.
    pub end: Offset,
}

impl ByteRange {
    /// Every byte of a file, present and future: what an append or a truncation to zero may touch.
    pub const WHOLE_FILE: Self = Self { start: Offset(0), end: Offset(u64::MAX) };

    /// `length` bytes from `start`.
    pub fn new(start: Offset, length: Bytes) -> Self {
        Self { start, end: start + length }
    }
    /// All bytes from `start` on.
    pub fn from_start(start: Offset) -> Self {
        Self { start, end: Offset(u64::MAX) }
    }
    /// How many bytes the range covers.
    pub fn length(self) -> Bytes {
        self.end - self.start
    }
    /// Whether the range covers no byte.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
    /// Whether both ranges cover a common byte.
    pub fn intersects(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end && !self.is_empty() && !other.is_empty()
    }
}

/// Which way data moves, seen from the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the store to the program.
    Read,
    /// From the program to the store.
    Write,
}

/// What a file *is*, whatever path or address reached it: the key of every file-wise decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Device number of the file system (`st_dev`).
    pub device: u64,
    /// Inode number (`st_ino`).
    pub inode: u64,
    /// Inode generation, which tells a re-used inode number from the old file; 0 where the file system has none.
    pub generation: u64,
}

impl FileId {
    /// One number for the file, by which statistics know it: the parts mixed with the finisher of
    /// splitmix64 (S. Vigna, 2015). Two files share one by chance only.
    pub fn mixed(self) -> u64 {
        let mix = |n: u64| {
            let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            n ^ (n >> 31)
        };
        [self.device, self.generation]
            .into_iter()
            .fold(mix(self.inode), |key, part| mix(key ^ part))
    }
}

/// A small dense number that stands for a [`FileId`] inside one scheduler; re-used after the file is retired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIndex(pub u32);

/// A client (connection peer) as the scheduler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

/// A sharing class: a job, a user, whatever the embedder shares by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start.0, self.end.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_do_not_intersect() {
        let a = ByteRange::new(Offset(0), Bytes(8));
        assert!(!a.intersects(ByteRange::new(Offset(8), Bytes(8))));
        assert!(a.intersects(ByteRange::new(Offset(7), Bytes(1))));
    }

    #[test]
    fn an_empty_range_intersects_nothing() {
        let whole = ByteRange::WHOLE_FILE;
        assert!(!whole.intersects(ByteRange::new(Offset(5), Bytes(0))));
    }

    #[test]
    fn files_that_differ_in_any_part_are_told_apart() {
        let parts = [0, 1, 2, u64::MAX];
        let mut seen = core::array::from_fn::<_, 64, _>(|n| {
            let [device, inode, generation] = [n / 16, n / 4 % 4, n % 4].map(|part| parts[part]);
            FileId { device, inode, generation }.mixed()
        });
        seen.sort_unstable();
        assert!(seen.is_sorted_by(|a, b| a < b), "each is another");
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Offset(u64::MAX) + Bytes(1), Offset(u64::MAX));
        assert_eq!(Timestamp(1) - Timestamp(2), Nanos(0));
        assert_eq!(Bytes(1) - Bytes(2), Bytes(0));
    }
}
