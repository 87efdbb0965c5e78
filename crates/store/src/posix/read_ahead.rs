//! Read-ahead for a file as a whole: for what all its readers do together.
//!
//! Source: the kernel's own read-ahead (`mm/readahead.c`), which sees each open file description
//! alone. To it 32 readers in strides are 32 random readers: it reads some pages ahead for each of
//! them, the disk goes back and forth between them, and what it brings is already out of order
//! when the next batch comes. Here all readers of a file meet, and together they sweep over it.
//!
//! Idea: a read that begins near where the file was read last continues a sweep. After two of
//! those a window opens in front of the sweep, grows fourfold, and stays filled to at least a half,
//! as long as at least about a quarter of what the sweep passes over is really read.
//! A read elsewhere closes it. Nothing is read here: the kernel is asked (`POSIX_FADV_WILLNEED`)
//! to have the bytes in its page cache, piece after piece in the order of the file, and a read of
//! what is still to be asked for waits until it has been. So the device sees one reader.
//!
//! Units: bytes. Cost: a few comparisons for a read, a system call for every piece of a sweep.
//!
//! Loses when: two sweeps over one file are further apart than [`NEAR`] and [`NEAR_READS`], so that
//! each closes the window of the other (then it is as if there were none); a sweep ends early (at
//! most a window is read in vain); readers leave gaps that are smaller and read more than a quarter
//! of the file, so that the gaps are read as well.

use std::ops::Range;

/// How far from the last read one may begin to be part of the same sweep, at least.
const NEAR: u64 = 4 << 20;

/// How far in reads of its own size, because readers in strides are that many blocks apart, ...
const NEAR_READS: u64 = 32;

/// ... and at most.
const NEAR_MAX: u64 = 32 << 20;

/// The first window of a sweep, unless the largest is smaller.
const WINDOW_MIN: u64 = 256 << 10;

/// How many times larger the next window is. Each is a journey of the arm where other files are
/// read too, so that a file of 16 MiB is not read in many of them.
const GROWTH: u64 = 4;

/// How many times what is read a sweep may pass over and still be read ahead of.
const SPARSE_MAX: u64 = 4;

/// What it may pass over besides: readers in strides begin in any order.
const PASSED_FREE: u64 = 2 << 20;

/// After so much, what was passed over and read counts half.
const PASSED_KEPT: u64 = 16 << 20;

/// Reads in a row that have to continue one another before anything is read ahead.
const CONTINUED_MIN: u32 = 2;

/// Where a file is being read, and what of it the kernel was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadAhead {
    /// Where the lowest read of this sweep began, and the furthest one ended.
    lowest: u64,
    reached: u64,
    /// What lies between these two is in the page cache or on its way there.
    given_from: u64,
    given: u64,
    /// What lies before this is to be; never less than `given`.
    wanted: u64,
    /// The largest window; 0 if nothing is to be read ahead.
    window_max: u64,
    window: u64,
    continued: u32,
    /// What `reached` has moved by lately, and what was read meanwhile.
    passed: u64,
    read: u64,
    /// Whether the kernel is being asked for a piece.
    is_asking: bool,
}

impl ReadAhead {
    /// Nothing was read yet; `window_max` bytes are read ahead at most, none for 0.
    pub(super) fn new(window_max: u64) -> Self {
        Self { window_max, lowest: u64::MAX, ..Self::default() }
    }

    /// The file is read at `range`.
    pub(super) fn read(&mut self, range: &Range<u64>) {
        if self.window_max == 0 {
            return;
        }
        if !self.is_near(range) {
            let (given, is_asking) = (range.start, self.is_asking);
            let began = Self { given, given_from: given, wanted: given, ..Self::default() };
            let window_max = self.window_max;
            let (lowest, reached) = (range.start, range.end);
            *self = Self { lowest, reached, window_max, is_asking, ..began };
            return;
        }
        self.pass(range);
        self.continued = self.continued.saturating_add(1);
        if self.continued < CONTINUED_MIN {
            return;
        }
        // More than half of the window is still there.
        if self.window > 0 && self.wanted >= range.end.saturating_add(self.window / 2) {
            return;
        }
        if self.passed > self.read.saturating_mul(SPARSE_MAX).saturating_add(PASSED_FREE) {
            return;
        }
        if self.window == 0 || self.wanted < range.start {
            // What lies before this, nobody will ask for. Readers in strides begin in any order: a sweep
            // of theirs begins with the lowest, and passes over what is in the page cache already.
            let from = match self.window {
                0 => self.lowest.max(range.start.saturating_sub(near(range))),
                _ => range.start,
            };
            (self.given_from, self.given) = (from, from);
        }
        self.window = (self.window * GROWTH).max(WINDOW_MIN).min(self.window_max);
        self.wanted = range.end.saturating_add(self.window);
    }

    /// The sweep goes on over `range`.
    fn pass(&mut self, range: &Range<u64>) {
        let reached = self.reached.max(range.end);
        self.passed = self.passed.saturating_add(reached - self.reached);
        self.read = self.read.saturating_add(range.end - range.start);
        self.reached = reached;
        self.lowest = self.lowest.min(range.start);
        while self.passed > PASSED_KEPT {
            (self.passed, self.read) = (self.passed / 2, self.read / 2);
        }
    }

    /// The file is read at `range`, which the page cache had. Where that is no part of the sweep,
    /// it has nothing to do with the device.
    pub(super) fn hit(&mut self, range: &Range<u64>) {
        if self.is_near(range) {
            self.read(range);
        }
    }

    /// The piece that the kernel is to be asked for now, of `piece_max` at most.
    /// [`given`](Self::given) says when it was.
    pub(super) fn ask(&mut self, piece_max: u64) -> Option<Range<u64>> {
        if self.is_asking || self.given >= self.wanted {
            return None;
        }
        self.is_asking = true;
        Some(self.given..self.wanted.min(self.given.saturating_add(piece_max)))
    }

    /// The kernel was asked for `piece`.
    pub(super) fn given(&mut self, piece: &Range<u64>) {
        self.is_asking = false;
        // Otherwise the sweep has ended meanwhile.
        if piece.start == self.given {
            self.given = piece.end.min(self.wanted);
        }
    }

    /// Whether the kernel is still to be asked for some of `range`: a read of it would pass the
    /// sweep. While it does, a piece is being asked for.
    pub(super) fn is_to_come(&self, range: &Range<u64>) -> bool {
        range.start < self.wanted && self.given < range.end.min(self.wanted)
    }

    /// Whether something is to be asked for, now or after what is being asked for.
    pub(super) fn is_wanting(&self) -> bool {
        self.given < self.wanted
    }

    /// Whether the kernel was asked for all of `range`: a read of it waits for what is on its way.
    pub(super) fn is_given(&self, range: &Range<u64>) -> bool {
        self.window > 0 && self.given_from <= range.start && range.end <= self.given
    }

    /// Asks for nothing more.
    pub(super) fn give_up(&mut self) {
        self.wanted = self.given;
    }

    /// Whether a read of `range` would be in front of what the kernel was asked for so far, in a sweep.
    pub(super) fn is_passed_by(&self, range: &Range<u64>) -> bool {
        self.window > 0 && range.end > self.given && self.is_near(range)
    }

    fn is_near(&self, range: &Range<u64>) -> bool {
        // The first read of all has only the beginning of the file to be near to.
        let near = if self.reached == 0 { NEAR } else { near(range) };
        self.reached.abs_diff(range.start) <= near
    }
}

/// How far from a read of this size others are part of the same sweep.
fn near(range: &Range<u64>) -> u64 {
    (range.end - range.start).saturating_mul(NEAR_READS).clamp(NEAR, NEAR_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const WINDOW_MAX: u64 = 4 << 20;
    const PIECE_MAX: u64 = 256 << 10;

    /// All that is to be asked for now.
    fn ask(ahead: &mut ReadAhead) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        while let Some(piece) = ahead.ask(PIECE_MAX) {
            ahead.given(&piece);
            pieces.push(piece);
        }
        pieces
    }

    /// What is asked for by reads of 64 KiB at these places, in units of 64 KiB.
    fn asked(places: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let mut ahead = ReadAhead::new(WINDOW_MAX);
        let read = |place: u64| {
            ahead.read(&(place * 64 * KIB..(place + 1) * 64 * KIB));
            ask(&mut ahead)
        };
        places.into_iter().flat_map(read).collect()
    }

    fn bytes(ranges: &[Range<u64>]) -> u64 {
        ranges.iter().map(|range| range.end - range.start).sum()
    }

    #[test]
    fn a_sweep_is_asked_for_once_in_order_and_ahead_of_its_readers() {
        let ranges = asked(0..200);
        assert!(ranges.windows(2).all(|two| two[0].end == two[1].start), "{ranges:?}");
        assert!(ranges.iter().all(|range| range.end - range.start <= PIECE_MAX));
        assert!(ranges.last().unwrap().end >= 200 * 64 * KIB + WINDOW_MAX / 2);
    }

    #[test]
    fn many_readers_in_strides_are_one_sweep() {
        // Rounds of 32 blocks, each round from its end to its start.
        let places = (0..10).flat_map(|round| (0..32).rev().map(move |rank| round * 32 + rank));
        let ranges = asked(places);
        assert!(bytes(&ranges) <= 10 * 32 * 64 * KIB + 2 * WINDOW_MAX, "{ranges:?}");
        assert!(ranges.windows(2).all(|two| two[0].end <= two[1].start), "{ranges:?}");
        assert!(ranges.last().unwrap().end >= 10 * 32 * 64 * KIB);
    }

    #[test]
    fn large_blocks_in_strides_are_one_sweep_in_whatever_order() {
        // Rounds of 32 MiB, each one from its middle on, 7 MiB further for every read.
        let mut ahead = ReadAhead::new(8 * MIB);
        let places = (0..8_u64).flat_map(|round| (0..32).map(move |rank| (round, rank)));
        let places = places.map(|(round, rank)| round * 32 + (16 + rank * 7) % 32);
        let mut pieces = Vec::new();
        for place in places {
            ahead.read(&(place * MIB..(place + 1) * MIB));
            pieces.extend(ask(&mut ahead));
        }
        assert!(pieces.windows(2).all(|two| two[0].end <= two[1].start), "{pieces:?}");
        assert!(bytes(&pieces) >= 5 * 32 * MIB, "{}", bytes(&pieces) / MIB);
    }

    #[test]
    fn a_sweep_begins_with_the_lowest_of_the_reads_that_began_it() {
        let first = |pieces: &[Range<u64>]| pieces.first().map(|piece| piece.start / (64 * KIB));
        assert_eq!(first(&asked([1000, 990, 994])), Some(990));
        // The first read of all is near to the beginning of the file, which nobody has read.
        assert_eq!(first(&asked([20, 10])), Some(10));
    }

    #[test]
    fn random_reads_ask_for_nothing() {
        let places = (0..1000).map(|turn: u64| turn.wrapping_mul(7_919) % 1_000_003);
        assert_eq!(asked(places), vec![]);
    }

    #[test]
    fn readers_that_leave_most_of_the_file_out_are_not_read_ahead_of_for_long() {
        // 8 of 64 KiB: twice the reads is the same sweep, read to a quarter.
        let asked_for = |every: u64, length: u64| {
            let mut ahead = ReadAhead::new(WINDOW_MAX);
            let read = |place: u64| {
                ahead.read(&(place * every..place * every + length));
                ask(&mut ahead)
            };
            let asked = (0..4096).flat_map(read).collect::<Vec<_>>();
            bytes(&asked)
        };
        assert!(asked_for(64 * KIB, 8 * KIB) <= WINDOW_MAX + PASSED_KEPT);
        assert!(asked_for(64 * KIB, 16 * KIB) >= 4096 * 64 * KIB);
    }

    #[test]
    fn what_was_asked_for_is_given_and_nothing_else() {
        let mut ahead = ReadAhead::new(WINDOW_MAX);
        let (before, read) = (MIB..MIB + 4096, MIB + 4096..MIB + 8192);
        ahead.read(&before);
        ahead.read(&read);
        ahead.read(&read);
        assert!(ahead.is_wanting() && !ahead.is_given(&read));
        let first = ahead.ask(PIECE_MAX).unwrap();
        ahead.given(&first);
        assert!(ahead.is_given(&read) && ahead.is_given(&before));
        assert!(!ahead.is_given(&(before.start - 1..before.end)));
        assert!(!ahead.is_given(&(first.start..first.end + 1)));
        ahead.give_up();
        assert!(!ahead.is_wanting() && ahead.is_given(&read));
    }

    #[test]
    fn without_a_window_nothing_is_asked_for() {
        let mut ahead = ReadAhead::new(0);
        for place in 0..100 {
            let range = place * 64 * KIB..(place + 1) * 64 * KIB;
            ahead.read(&range);
            assert_eq!((ahead.ask(PIECE_MAX), ahead.is_to_come(&range)), (None, false));
            assert!(!ahead.is_passed_by(&range));
        }
    }

    #[test]
    fn a_sweep_elsewhere_begins_small_again() {
        let ranges = asked((0..100).chain(100_000..100_003));
        let start = 100_000 * 64 * KIB;
        let elsewhere: Vec<_> = ranges.into_iter().filter(|range| range.start >= start).collect();
        // Of three reads, the third one opens the window, from the place of the first one on.
        assert_eq!(bytes(&elsewhere), 3 * 64 * KIB + WINDOW_MIN);
    }

    #[test]
    fn what_the_cache_had_elsewhere_does_not_close_the_window() {
        let mut ahead = ReadAhead::new(WINDOW_MAX);
        for place in 0..10 {
            ahead.read(&(place * 64 * KIB..(place + 1) * 64 * KIB));
        }
        let before = ahead.clone();
        ahead.hit(&(1 << 30..(1 << 30) + 64 * KIB));
        assert_eq!((ahead.reached, ahead.window), (before.reached, before.window));
        ahead.hit(&(640 * KIB..704 * KIB));
        assert_eq!(ahead.reached, 704 * KIB);
    }

    #[test]
    fn one_piece_at_a_time_and_a_read_of_what_is_to_come_waits_for_it() {
        let mut ahead = ReadAhead::new(WINDOW_MAX);
        let read = 0..64 * KIB;
        ahead.read(&read);
        assert!(!ahead.is_to_come(&read), "there is no sweep yet");
        ahead.read(&read);
        assert!(ahead.is_to_come(&read));
        let first = ahead.ask(PIECE_MAX).unwrap();
        assert_eq!(ahead.ask(PIECE_MAX), None);
        assert!(ahead.is_to_come(&read), "it is on its way");
        ahead.given(&first);
        assert!(!ahead.is_to_come(&read));
        assert!(ahead.is_to_come(&(0..first.end + 1)));
    }

    #[test]
    fn a_piece_of_a_sweep_that_has_ended_changes_nothing() {
        let mut ahead = ReadAhead::new(WINDOW_MAX);
        ahead.read(&(0..4096));
        ahead.read(&(4096..8192));
        let piece = ahead.ask(PIECE_MAX).unwrap();
        let far = 1 << 40..(1 << 40) + 4096;
        ahead.read(&far);
        assert!(!ahead.is_to_come(&far));
        assert_eq!(ahead.ask(PIECE_MAX), None);
        ahead.given(&piece);
        assert_eq!((ahead.ask(PIECE_MAX), ahead.given), (None, 1 << 40));
    }

    #[test]
    fn whatever_is_read_nothing_waits_for_ever_and_little_is_asked_for() {
        proptest::proptest!(|(reads in proptest::collection::vec((0..u64::MAX >> 1, 0..1u64 << 33, 1..1u64 << 23, proptest::bool::ANY), 1..200))| {
            let mut ahead = ReadAhead::new(WINDOW_MAX);
            let mut on_its_way = None;
            for (far, near, length, is_far) in reads {
                let start = if is_far { far } else { near % (16 << 20) };
                let range = start..start + length;
                ahead.read(&range);
                if let Some(piece) = on_its_way.take() {
                    ahead.given(&piece);
                }
                on_its_way = ahead.ask(PIECE_MAX);
                // Who waits is waited for.
                proptest::prop_assert!(!ahead.is_to_come(&range) || on_its_way.is_some());
                proptest::prop_assert!(ahead.given <= ahead.wanted);
                proptest::prop_assert!(ahead.wanted <= ahead.reached + WINDOW_MAX);
                if is_far {
                    continue;
                }
                // It ends, and then nobody waits.
                let mut rest = ahead.clone();
                on_its_way.iter().for_each(|piece| rest.given(piece));
                let pieces = ask(&mut rest);
                proptest::prop_assert!(bytes(&pieces) <= NEAR_MAX + WINDOW_MAX + length + (32 << 20));
                proptest::prop_assert!(!rest.is_to_come(&range));
            }
        });
    }
}
