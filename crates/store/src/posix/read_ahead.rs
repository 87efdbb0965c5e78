//! Read-ahead for a file as a whole: for what all its readers do together.
//!
//! Source: the kernel's own read-ahead (`mm/readahead.c`), which sees each open file description
//! alone. To it 32 readers in strides are 32 random readers: it reads some pages ahead for each of
//! them, the disk goes back and forth between them, and what it brings is already out of order
//! when the next batch comes. Here all readers of a file meet, and together they sweep over it.
//!
//! Idea: a read that begins near where the file was read last continues a sweep. After two of
//! those a window opens in front of the sweep, doubles, and stays filled to at least a half.
//! A read elsewhere closes it. Nothing is read here: the kernel is asked (`POSIX_FADV_WILLNEED`)
//! to have the bytes in its page cache, from where they are served as any others.
//!
//! Units: bytes. Cost: a look at one value for a read, a system call for every 256 KiB of a sweep.
//!
//! Loses when: two sweeps over one file are further apart than [`NEAR`], so that each closes the
//! window of the other (then it is as if there were none); a sweep ends early (at most a window
//! is read in vain).

use std::ops::Range;

/// How far from the last read one may begin to be part of the same sweep.
const NEAR: u64 = 4 << 20;

/// The first window of a sweep, and the largest.
const WINDOW_MIN: u64 = 256 << 10;
const WINDOW_MAX: u64 = 2 << 20;

/// Reads in a row that have to continue one another before anything is read ahead.
const CONTINUED_MIN: u32 = 2;

/// What the kernel takes in one call without leaving something out: it stops silently after the
/// device's largest request or its own read-ahead, whichever is more.
pub(super) const PIECE_MAX: u64 = 256 << 10;

/// Where a file is being read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    /// The end of the furthest read of this sweep.
    reached: u64,
    /// What lies before this was asked for.
    asked: u64,
    window: u64,
    continued: u32,
}

impl ReadAhead {
    /// The file is read at `[start, end)`; which bytes should be on their way to the cache now.
    pub(super) fn read(&mut self, start: u64, end: u64) -> Option<Range<u64>> {
        let is_near = start.saturating_add(NEAR) >= self.reached
            && start <= self.reached.saturating_add(NEAR);
        if !is_near {
            *self = Self { reached: end, asked: start, window: 0, continued: 0 };
            return None;
        }
        self.reached = self.reached.max(end);
        self.continued = self.continued.saturating_add(1);
        if self.continued < CONTINUED_MIN {
            return None;
        }
        // More than half of the window is still there.
        if self.asked >= end.saturating_add(self.window / 2) && self.window > 0 {
            return None;
        }
        self.window = (self.window * 2).clamp(WINDOW_MIN, WINDOW_MAX);
        let wanted = end.saturating_add(self.window);
        let from = if (start..wanted).contains(&self.asked) { self.asked } else { start };
        self.asked = wanted;
        Some(from..wanted)
    }
}

/// A range in pieces that the kernel takes whole.
pub(super) fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range.step_by(PIECE_MAX as usize).map(move |start| start..end.min(start + PIECE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// What is asked for by reads of 64 KiB at these places, in units of 64 KiB.
    fn asked(places: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut ahead = ReadAhead::default();
        let read = |place: u64| ahead.read(place * 64 * KIB, (place + 1) * 64 * KIB);
        places.into_iter().filter_map(read).collect()
    }

    #[test]
    fn a_sweep_is_asked_for_once_and_ahead_of_its_readers() {
        let ranges = asked(0..200);
        assert!(ranges.windows(2).all(|two| two[0].end == two[1].start), "{ranges:?}");
        assert!(ranges.last().unwrap().end >= 200 * 64 * KIB + WINDOW_MAX / 2);
        // A window is filled in halves, so that there are few calls.
        assert!(ranges.len() < 20, "{}", ranges.len());
    }

    #[test]
    fn many_readers_in_strides_are_one_sweep() {
        // Rounds of 32 blocks, each round from its end to its start.
        let places = (0..10).flat_map(|round| (0..32).rev().map(move |rank| round * 32 + rank));
        let ranges = asked(places);
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert!(bytes <= 10 * 32 * 64 * KIB + 2 * WINDOW_MAX, "{bytes} {ranges:?}");
        assert!(ranges.last().unwrap().end >= 10 * 32 * 64 * KIB);
    }

    #[test]
    fn random_reads_ask_for_nothing() {
        let places = (0..1000).map(|turn: u64| turn.wrapping_mul(7_919) % 1_000_003);
        assert_eq!(asked(places), vec![]);
    }

    #[test]
    fn a_sweep_elsewhere_begins_small_again() {
        let ranges = asked((0..100).chain(100_000..100_003));
        let last = ranges.last().unwrap();
        assert_eq!(last.end - last.start, 64 * KIB + WINDOW_MIN);
    }

    #[test]
    fn the_end_of_all_offsets_is_no_trouble() {
        let mut ahead = ReadAhead { reached: u64::MAX - 5, ..ReadAhead::default() };
        for _ in 0..4 {
            let _ = ahead.read(u64::MAX - 10, u64::MAX);
        }
        assert_eq!(
            pieces(0..PIECE_MAX + 1).collect::<Vec<_>>(),
            [0..PIECE_MAX, PIECE_MAX..PIECE_MAX + 1]
        );
    }
}
