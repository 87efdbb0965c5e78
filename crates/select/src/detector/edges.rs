//! Where recent bursts began and ended, so that neighbours are recognised without sorting.

/// Places in each table.
const PLACES: usize = 512;
/// 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashed positions with the window in which they were seen; the youngest has its place.
#[derive(Clone, Debug)]
pub(super) struct Edges {
    starts: [u32; PLACES],
    ends: [u32; PLACES],
}

/// Place and mark of a position of a file.
fn hashed(file: u32, position: u64, window: u16) -> (usize, u32) {
    let hash = (position ^ u64::from(file) << 44).wrapping_mul(GOLDEN);
    let mark = (hash >> 31) as u32 & !0xff | u32::from(window & 0xff);
    ((hash >> 55) as usize % PLACES, mark)
}

/// Whether two marks are of one position, and the first one of this window or the one before.
fn is_recent(kept: u32, mark: u32) -> bool {
    kept & !0xff == mark & !0xff && (mark.wrapping_sub(kept) & 0xff) < 2
}

impl Edges {
    pub(super) const fn new() -> Self {
        Self { starts: [0; PLACES], ends: [0; PLACES] }
    }

    /// Notes a burst; how many recent ones it touches: 0 to 2. What it continues itself, if
    /// anything, does not count.
    #[inline]
    pub(super) fn add(
        &mut self,
        file: u32,
        start: u64,
        end: u64,
        continues: bool,
        window: u16,
    ) -> u16 {
        let (at_start, at_end) = (hashed(file, start, window), hashed(file, end, window));
        let before = !continues && is_recent(self.ends[at_start.0], at_start.1);
        let after = is_recent(self.starts[at_end.0], at_end.1);
        self.starts[at_start.0] = at_start.1;
        self.ends[at_end.0] = at_end.1;
        u16::from(before) + u16::from(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_found_on_both_sides_while_they_are_recent() {
        let mut edges = Edges::new();
        assert_eq!(edges.add(1, 0, 10, false, 5), 0);
        assert_eq!(edges.add(1, 20, 30, false, 5), 0);
        assert_eq!(edges.add(2, 10, 20, false, 5), 0, "another file");
        assert_eq!(edges.add(1, 10, 20, false, 6), 2);
        assert_eq!(edges.add(1, 30, 40, true, 6), 0, "its own");
        assert_eq!(edges.add(1, 40, 50, false, 8), 0, "long ago");
    }
}
