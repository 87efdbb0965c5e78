//! What was seen of each file: the votes of its streams.

use forebay_units::Bytes;

use crate::pattern::{SizeClass, Spatiality};

/// Of a file's bytes, the part in bursts of a stripe or more from which on its requests are large:
/// of requests above a stripe that do not begin at one, some pieces are shorter.
const LARGE_PART: u64 = 10;
/// After so many windows nothing is left of what was before: 0.75^32 is a ten-thousandth.
const WINDOWS_FELT: u16 = 32;
/// The lead of the most frequent length is not counted beyond this, so that another can take over.
const LEAD_MAX: u8 = 32;

/// One way of going on, seen once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    /// Too little was seen of the stream.
    None,
    For(Spatiality),
}

/// Messages of a stream that belong together: what the application asked for at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: u64,
    pub(super) messages: u16,
    pub(super) reads: u16,
}

/// Sums over the bursts of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    contiguous: u32,
    strided: u32,
    random: u32,
    bursts: u32,
    pub(super) messages: u32,
    pub(super) reads: u32,
    adjacent: u32,
    pub(super) bytes: u64,
}

impl Counts {
    pub(super) const fn votes(&self) -> u32 {
        self.contiguous + self.strided + self.random
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.contiguous += other.contiguous;
        self.strided += other.strided;
        self.random += other.random;
        self.bursts += other.bursts;
        self.messages += other.messages;
        self.reads += other.reads;
        self.adjacent += other.adjacent;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// What most votes say, if there are any.
    pub(super) fn spatiality(&self) -> Option<Spatiality> {
        let most = self.contiguous.max(self.strided).max(self.random);
        match most {
            0 => None,
            _ if most == self.contiguous => Some(Spatiality::Contiguous),
            _ if most == self.strided => Some(Spatiality::Strided),
            _ => Some(Spatiality::Random),
        }
    }

    pub(super) fn reads_permille(&self) -> u32 {
        permille(self.reads, self.messages)
    }

    pub(super) fn hit_permille(&self) -> u32 {
        permille(self.contiguous + self.messages - self.bursts, self.messages)
    }

    pub(super) fn adjacent_permille(&self) -> u32 {
        permille(self.adjacent, self.bursts)
    }

    pub(super) fn request(&self) -> Bytes {
        Bytes(self.bytes / u64::from(self.messages.max(1)))
    }
}

fn permille(part: u32, all: u32) -> u32 {
    (u64::from(part) * 1000 / u64::from(all.max(1))).min(1000) as u32
}

/// A file in use.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    counts: Counts,
    /// Of the window before the one in which the file was seen last.
    before: Counts,
    /// The span of its offsets.
    start: u64,
    end: u64,
    /// The most frequent length of a burst, and its lead (Boyer and Moore, "MJRTY", 1981).
    length: u64,
    lead: u8,
    /// Bytes in bursts of a stripe or more, and in all; of each window before, a quarter less
    /// than of the one after it: this is remembered longer than the rest, because processes in
    /// step show one kind of piece for a while, and then another.
    bytes_large: u64,
    bytes_all: u64,
    /// Its first burst's stripe.
    pub(super) first_stripe: u64,
}

impl File {
    pub(super) fn new(first_stripe: u64) -> Self {
        Self { start: u64::MAX, first_stripe, ..Self::default() }
    }

    /// It is seen in a window, after another one.
    pub(super) fn turn(&mut self, window: u16, seen: u16) {
        if window != seen {
            let is_next = window.wrapping_sub(seen) == 1;
            self.before = if is_next { self.counts } else { Counts::default() };
            self.counts = Counts::default();
            for _ in 0..window.wrapping_sub(seen).min(WINDOWS_FELT) {
                self.bytes_large -= self.bytes_large / 4;
                self.bytes_all -= self.bytes_all / 4;
            }
        }
    }

    #[inline]
    pub(super) fn add(&mut self, burst: &Burst, vote: Vote, adjacent: u16, stripe: Bytes) {
        let counts = &mut self.counts;
        match vote {
            Vote::None => {}
            Vote::For(Spatiality::Contiguous) => counts.contiguous += 1,
            Vote::For(Spatiality::Strided) => counts.strided += 1,
            Vote::For(Spatiality::Random) => counts.random += 1,
        }
        counts.bursts += 1;
        counts.messages += u32::from(burst.messages);
        counts.reads += u32::from(burst.reads);
        counts.adjacent += u32::from(adjacent);
        counts.bytes = counts.bytes.saturating_add(burst.bytes);
        self.bytes_all = self.bytes_all.saturating_add(burst.bytes);
        if burst.bytes >= stripe.0 {
            self.bytes_large = self.bytes_large.saturating_add(burst.bytes);
        }
        self.start = self.start.min(burst.start);
        self.end = self.end.max(burst.end);
        if self.length == burst.bytes {
            self.lead = (self.lead + 1).min(LEAD_MAX);
        } else if self.lead == 0 {
            (self.length, self.lead) = (burst.bytes, 1);
        } else {
            self.lead -= 1;
        }
    }

    /// The sums of the present window and the one before.
    pub(super) fn recent(&self, window: u16, seen: u16) -> Counts {
        let mut counts = self.counts;
        if window == seen {
            counts.add(&self.before);
        }
        counts
    }

    pub(super) const fn size_class(&self) -> SizeClass {
        match self.bytes_large.saturating_mul(LARGE_PART) >= self.bytes_all {
            true => SizeClass::Large,
            false => SizeClass::Small,
        }
    }

    pub(super) const fn length(&self) -> Bytes {
        Bytes(self.length)
    }

    pub(super) const fn span(&self) -> Bytes {
        Bytes(self.end.saturating_sub(self.start))
    }
}
