//! How each stream goes on: a stream is what one client does in one file.

use forebay_units::{Nanos, Timestamp};

use super::files::{Burst, Vote};
use crate::pattern::Spatiality;

/// Distances that are remembered: where a stride is no multiple of the stripe, a server sees it
/// with a period of up to as many distances as there are stripes in the stride.
const GAPS: usize = 8;
/// A burst ends here if nothing else ends it.
pub(super) const MESSAGES_MAX: u16 = 1024;
/// "There was none."
const NONE: u64 = u64::MAX;

/// The burst in the making, and where those before it were.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    latest: Timestamp,
    burst: Burst,
    /// Where the burst before ended.
    pub(super) end_before: u64,
    /// The last distances from an end to the next start, the lower halves.
    gaps: [u32; GAPS],
    gap_count: u8,
    gap_next: u8,
    /// Whether the burst may have begun before anybody looked.
    is_cut: bool,
}

impl Default for Stream {
    fn default() -> Self {
        let burst = Burst { start: 0, end: 0, bytes: 0, messages: 0, reads: 0 };
        Self {
            latest: Timestamp(0),
            burst,
            end_before: NONE,
            gaps: [0; GAPS],
            gap_count: 0,
            gap_next: 0,
            is_cut: false,
        }
    }
}

impl Stream {
    /// How long nothing came; `None` for the first message.
    #[inline]
    pub(super) fn pause(&mut self, now: Timestamp) -> Option<Nanos> {
        let latest = core::mem::replace(&mut self.latest, now);
        (self.burst.messages > 0).then(|| now - latest)
    }

    /// Nobody looked for a while: the burst in the making is lost, and the next one may be the rest
    /// of one.
    pub(super) fn cut(&mut self) {
        self.burst.messages = 0;
        self.is_cut = true;
    }

    /// Takes a message into the burst, or, if it is a new request's, begins another and hands out
    /// the one that is finished.
    #[inline]
    pub(super) fn take(
        &mut self,
        start: u64,
        end: u64,
        is_read: bool,
        is_new: bool,
    ) -> Option<Burst> {
        let bytes = end - start;
        let burst = &mut self.burst;
        if !is_new && burst.messages < MESSAGES_MAX {
            burst.start = burst.start.min(start);
            burst.end = burst.end.max(end);
            burst.bytes = burst.bytes.saturating_add(bytes);
            burst.messages += 1;
            burst.reads += u16::from(is_read);
            return None;
        }
        let next = Burst { start, end, bytes, messages: 1, reads: u16::from(is_read) };
        let burst = Some(core::mem::replace(burst, next)).filter(|burst| burst.messages > 0)?;
        if core::mem::take(&mut self.is_cut) {
            self.end_before = burst.end;
            return None;
        }
        Some(burst)
    }

    /// How a burst goes on from the one before, `gap` bytes further.
    #[inline]
    pub(super) fn vote(&mut self, gap: u64, is_first: bool) -> Vote {
        if is_first {
            return Vote::None;
        }
        if gap == 0 {
            return Vote::For(Spatiality::Contiguous);
        }
        let gap = gap as u32;
        if self.gaps[..self.gap_count as usize].contains(&gap) {
            return Vote::For(Spatiality::Strided);
        }
        let was_empty = self.gap_count == 0;
        self.gaps[self.gap_next as usize] = gap;
        self.gap_next = (self.gap_next + 1) % GAPS as u8;
        self.gap_count = (self.gap_count + 1).min(GAPS as u8);
        if was_empty { Vote::None } else { Vote::For(Spatiality::Random) }
    }
}
