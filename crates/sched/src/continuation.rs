//! What a queue's recent past says about the request that would continue its last batch.
//!
//! A device that seeks gains from waiting a moment for that request, if it comes. Two things are
//! known without any model of the programs: how many requests were served whose senders have not
//! asked again (*away*: only they can bring the continuation, if programs are synchronous), and
//! how such waits ended lately (*trust*). While there is trust every jump waits; without it, one
//! in 1, 2, 4, … 64 jumps does, so a workload that never continues pays next to nothing and one
//! that starts to continue is noticed.

use forebay_units::{ByteRange, Nanos, Offset, Timestamp};

const TRUST_MAX: u8 = 8;
/// At least one jump in so many is tried with a wait.
const BACKOFF_MAX: u16 = 64;

/// The expected continuation of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Continuation {
    /// Where the last batch ended; `None` before the first.
    end: Option<Offset>,
    /// Dispatched and not completed.
    in_flight: u32,
    /// Completed, and nothing has arrived since in its place.
    thinking: u32,
    trust: u8,
    /// How sequential the last batches were, and waits made them: 0 (not at all) to `TRUST_MAX`.
    order: u8,
    /// Jumps without a wait between two tries, and how many of them are left.
    backoff: u16,
    skips: u16,
    /// There was a wait since the last batch.
    has_waited: bool,
    /// Where the jump that waits would go, and whether something has come that belongs in front of it.
    jump: Offset,
    has_gained: bool,
}

/// What an arrival means for a wait in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is the continuation: go.
    Continues,
    /// It is not, and nobody is left who could bring it: decide with what is there.
    AllBack,
    /// It is not, and others may: go on waiting.
    Other,
}

impl Continuation {
    /// Notes that a request has arrived and is now part of `run`.
    pub(crate) fn arrive(&mut self, request: ByteRange, run: ByteRange) -> Arrival {
        self.thinking = self.thinking.saturating_sub(1);
        let closes_gap = request.end == self.jump || self.jump < run.end;
        self.has_gained |= request.start < self.jump && closes_gap;
        match self.away() {
            _ if self.end == Some(request.start) => {
                self.trust = (self.trust + 1).min(TRUST_MAX);
                self.has_gained = true;
                Arrival::Continues
            }
            0 => Arrival::AllBack,
            _ => Arrival::Other,
        }
    }

    pub(crate) fn dispatch(&mut self, batch: ByteRange, count: u32) {
        let in_order = count > 1 || self.continues(batch.start);
        self.order =
            if in_order { (self.order + 1).min(TRUST_MAX) } else { self.order.saturating_sub(1) };
        self.end = Some(batch.end);
        self.in_flight += count;
        self.has_waited = false;
    }

    /// Notes that one request was completed; whether it was the last one in flight.
    pub(crate) fn complete(&mut self) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.thinking += 1;
        self.in_flight == 0
    }

    /// Whether a batch from `start` on would continue the last one.
    pub(crate) fn continues(&self, start: Offset) -> bool {
        self.end == Some(start)
    }

    /// How many requests were served whose senders are not back.
    fn away(&self) -> u32 {
        self.in_flight + self.thinking
    }

    /// Where the last batch ended.
    pub(crate) fn end(&self) -> Option<Offset> {
        self.end
    }

    /// Whether the queue's batches have been sequential.
    pub(crate) fn is_ordered(&self) -> bool {
        self.order > 0
    }

    /// Whether the next request is nearly sure to continue, and its sender is away.
    pub(crate) fn is_expected(&self) -> bool {
        self.trust >= TRUST_MAX / 2 && self.away() > 0
    }

    /// Until when to wait before a jump to `to`, if at all. Counts the jump.
    pub(crate) fn wait(
        &mut self,
        now: Timestamp,
        to: Offset,
        wait_max: Nanos,
        hold_max: Nanos,
    ) -> Option<Timestamp> {
        if wait_max == Nanos::ZERO
            || self.away() == 0
            || core::mem::replace(&mut self.has_waited, true)
        {
            return None;
        }
        if self.trust == 0 && self.skips > 0 {
            self.skips -= 1;
            return None;
        }
        (self.jump, self.has_gained) = (to, false);
        Some(now + if self.in_flight > 0 { hold_max.max(wait_max) } else { wait_max })
    }

    /// Learns from a wait that is over. Who has not come by now is no longer expected.
    pub(crate) fn end_wait(&mut self) {
        self.thinking = 0;
        if self.has_gained {
            self.trust = (self.trust + 1).min(TRUST_MAX);
            self.order = (self.order + 1).min(TRUST_MAX);
            self.backoff = 0;
        } else {
            self.trust /= 2;
            self.backoff = (self.backoff * 2).clamp(1, BACKOFF_MAX);
            self.skips = self.backoff;
        }
    }

    /// The end of the file was met: nothing continues. What is in flight stays in flight.
    pub(crate) fn forget(&mut self) {
        *self = Self { in_flight: self.in_flight, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Bytes;

    const WAIT: Nanos = Nanos::micros(900);
    const HOLD: Nanos = Nanos::millis(200);

    fn range(start: u64) -> ByteRange {
        ByteRange::new(Offset(start), Bytes(8))
    }

    /// `jumps` jumps of a workload that never continues; how many of them waited.
    fn waits(of: &mut Continuation, jumps: u64) -> u64 {
        let waited = |jump: u64| {
            of.dispatch(range(jump * 100), 1);
            of.complete();
            let waits = of.wait(Timestamp(0), Offset(jump * 100 + 50), WAIT, HOLD).is_some();
            if waits {
                of.end_wait();
            }
            u64::from(waits)
        };
        (1..=jumps).map(waited).sum()
    }

    #[test]
    fn waits_that_bring_nothing_become_rare() {
        let mut continuation = Continuation::default();
        assert!(waits(&mut continuation, 100) <= 7);
        assert!(waits(&mut continuation, 6_400) <= 101);
    }

    #[test]
    fn one_wait_that_pays_restores_the_next() {
        let mut continuation = Continuation::default();
        waits(&mut continuation, 300);
        while continuation.wait(Timestamp(0), Offset(0), WAIT, HOLD).is_none() {
            continuation.dispatch(range(0), 1);
            continuation.complete();
        }
        assert_eq!(continuation.arrive(range(8), range(8)), Arrival::Continues);
        continuation.end_wait();
        continuation.dispatch(range(8), 1);
        continuation.complete();
        assert!(continuation.wait(Timestamp(0), Offset(99), WAIT, HOLD).is_some());
    }

    #[test]
    fn nobody_away_means_no_wait() {
        let mut continuation = Continuation::default();
        continuation.dispatch(range(0), 1);
        continuation.complete();
        assert_eq!(continuation.arrive(range(50), range(50)), Arrival::AllBack);
        assert_eq!(continuation.wait(Timestamp(0), Offset(50), WAIT, HOLD), None);
    }

    #[test]
    fn a_wait_outlasts_batches_in_flight() {
        let mut continuation = Continuation::default();
        continuation.dispatch(range(0), 1);
        assert_eq!(
            continuation.wait(Timestamp(0), Offset(50), WAIT, HOLD),
            Some(Timestamp(HOLD.0))
        );
    }
}
