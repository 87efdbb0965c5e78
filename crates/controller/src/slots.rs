//! Slots: what a ticket names, readable without the lock.
//!
//! A slot is one word of generation and state, the scheduler's name of the request, and the
//! submitter's mark: 24 bytes a live request. Who owns a slot in which state:
//!
//! ```text
//!   free ──► submitted ──► queued ──► in flight ──► ending ──► free, next generation
//!            by a thread   └────────── under the lock ──┐
//!            that waits                   `complete`, by compare-and-swap from any thread
//! ```
//!
//! Slots sit in chunks that double in size and never move, so finding one is two loads.

use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use crate::error::Error;
use crate::operation::Ticket;

const FIRST_CHUNK: u32 = 256;
const CHUNKS: usize = 20;
/// How many slots there can be: 2^28 − 256, sixteen times the largest queue.
const SLOTS_MAX: u32 = (FIRST_CHUNK << CHUNKS) - FIRST_CHUNK;
const NIL: u64 = u32::MAX as u64;

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// No request.
    Free,
    /// In the ring and to be waited for; the scheduler has not seen it. What is delivered is free
    /// until then: only its ring entry goes from the submitter's processor to the other.
    Submitted,
    /// The scheduler has it.
    Queued,
    /// Dispatched.
    InFlight,
    /// Completed by its service; the scheduler has not heard of it.
    Ending,
}

impl Stage {
    fn of(word: u64) -> Self {
        match word as u8 {
            0 => Self::Free,
            1 => Self::Submitted,
            2 => Self::Queued,
            3 => Self::InFlight,
            _ => Self::Ending,
        }
    }
}

const WAITED_FOR: u64 = 1 << 8;

/// A slot's word, as read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn stage(self) -> Stage {
        Stage::of(self.0)
    }

    /// Whether somebody sleeps, or will, until the request may go.
    pub(crate) fn is_waited_for(self) -> bool {
        self.0 & WAITED_FOR != 0
    }

    fn at(self, stage: Stage) -> Self {
        Self(self.0 & !0xff | stage as u64)
    }
}

/// A slot and its generation, which is what a ticket says: generation, four bits that are 0, slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) u64);

impl Name {
    /// Bits of a slot's number.
    pub(crate) const SLOT_BITS: u32 = 28;

    pub(crate) fn of(slot: u32, word: Word) -> Self {
        Self(u64::from(word.generation()) << 32 | u64::from(slot))
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 as u32 & ((1 << Self::SLOT_BITS) - 1)
    }
}

/// One live request, or none.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    word: AtomicU64,
    /// The scheduler's name of it; in a free slot, the next free one. Used under the lock only.
    request: AtomicU64,
    /// The submitter's mark.
    id: AtomicU64,
}

impl Slot {
    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    pub(crate) fn request(&self) -> u64 {
        self.request.load(Ordering::Relaxed)
    }

    /// Begins a request in a slot that is the caller's alone.
    pub(crate) fn begin(&self, id: u64, stage: Stage, is_waited_for: bool) {
        self.id.store(id, Ordering::Relaxed);
        let generation = self.word.load(Ordering::Relaxed) & !u64::from(u32::MAX);
        let flag = if is_waited_for { WAITED_FOR } else { 0 };
        let word = generation | flag | stage as u64;
        self.word.store(word, Ordering::Release);
    }

    /// Notes the scheduler's name; under the lock.
    pub(crate) fn set_request(&self, request: u64) {
        self.request.store(request, Ordering::Relaxed);
    }

    /// Moves a request on that only the holder of the lock moves.
    pub(crate) fn advance(&self, stage: Stage) -> Word {
        let word = self.word().at(stage);
        self.word.store(word.0, Ordering::Release);
        word
    }

    /// From in flight to ending, once.
    pub(crate) fn begin_ending(&self, seen: Word) -> bool {
        let ending = seen.at(Stage::Ending).0;
        self.word.compare_exchange(seen.0, ending, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// All slots of one controller.
pub(crate) struct Slots {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    /// Mixed into tickets, so that another controller's name nothing here.
    key: u64,
}

/// The slots that are free; under the lock.
#[derive(Debug)]
pub(crate) struct FreeSlots {
    first: u64,
    made: u32,
}

impl Default for FreeSlots {
    fn default() -> Self {
        Self { first: NIL, made: 0 }
    }
}

fn place(slot: u32) -> (usize, usize) {
    let shifted = slot.saturating_add(FIRST_CHUNK);
    let chunk = (shifted / FIRST_CHUNK).ilog2();
    (chunk as usize, (shifted - (FIRST_CHUNK << chunk)) as usize)
}

impl Slots {
    pub(crate) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
            key: RandomState::new().build_hasher().finish(),
        }
    }

    /// Tells this controller from others.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// A slot that was made.
    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        self.find(slot).expect("the slot was made")
    }

    fn find(&self, slot: u32) -> Option<&Slot> {
        let (chunk, index) = place(slot);
        self.chunks.get(chunk)?.get()?.get(index)
    }

    /// What a slot, free or not, is called in its present generation.
    pub(crate) fn name(&self, slot: u32) -> Name {
        Name::of(slot, self.slot(slot).word())
    }

    pub(crate) fn ticket(&self, name: Name) -> Ticket {
        Ticket(name.0 ^ self.key)
    }

    /// The live request that a ticket names.
    pub(crate) fn live(&self, ticket: Ticket) -> Option<(u32, &Slot, Word)> {
        let plain = ticket.0 ^ self.key;
        let slot = self.find(plain as u32)?;
        let word = slot.word();
        let is_live = word.generation() == (plain >> 32) as u32
            && !matches!(word.stage(), Stage::Free | Stage::Ending);
        is_live.then_some((plain as u32, slot, word))
    }

    /// The slot of a request that is found in flight, and is to be ended by the caller alone.
    ///
    /// # Errors
    /// [`Error::NotDispatched`], or [`Error::UnknownTicket`] if another thread ends it.
    pub(crate) fn begin_ending(
        &self,
        (slot, cell, word): (u32, &Slot, Word),
    ) -> Result<u32, Error> {
        if word.stage() != Stage::InFlight {
            return Err(Error::NotDispatched);
        }
        if cell.begin_ending(word) { Ok(slot) } else { Err(Error::UnknownTicket) }
    }

    /// Takes a free slot; `None` if 2^28 are in use.
    pub(crate) fn take(&self, free: &mut FreeSlots) -> Option<u32> {
        if free.first != NIL {
            let slot = free.first as u32;
            free.first = self.slot(slot).request();
            return Some(slot);
        }
        if free.made == SLOTS_MAX {
            return None;
        }
        let slot = free.made;
        free.made += 1;
        let (chunk, _) = place(slot);
        self.chunks[chunk]
            .get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Slot::default()).collect());
        Some(slot)
    }

    /// Ends what is in a slot: its tickets are void.
    pub(crate) fn free(&self, free: &mut FreeSlots, slot: u32) {
        let cell = self.slot(slot);
        let next = cell.word().generation().checked_add(1);
        // With its generations used up, a slot stays out of use: no ticket ever names two requests.
        let word = u64::from(next.unwrap_or(u32::MAX)) << 32;
        cell.word.store(word, Ordering::Release);
        if next.is_some() {
            cell.set_request(free.first);
            free.first = u64::from(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_24_bytes() {
        assert_eq!(size_of::<Slot>(), 24);
    }

    #[test]
    fn every_slot_has_its_own_place() {
        let mut expected = (0, 0);
        for slot in 0..100_000 {
            assert_eq!(place(slot), expected, "slot {slot}");
            expected.1 += 1;
            if expected.1 == (FIRST_CHUNK as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(place(SLOTS_MAX).0, CHUNKS);
    }

    #[test]
    fn a_ticket_is_void_after_its_request() {
        let (slots, mut free) = (Slots::new(), FreeSlots::default());
        let slot = slots.take(&mut free).unwrap();
        slots.slot(slot).begin(7, Stage::Queued, false);
        let ticket = slots.ticket(slots.name(slot));
        assert_eq!(slots.live(ticket).unwrap().0, slot);
        slots.free(&mut free, slot);
        assert!(slots.live(ticket).is_none());
        let again = slots.take(&mut free).unwrap();
        slots.slot(again).begin(8, Stage::Queued, false);
        assert_eq!(again, slot);
        assert!(slots.live(ticket).is_none());
    }

    #[test]
    fn a_ticket_of_another_controller_names_nothing() {
        let (mine, other) = (Slots::new(), Slots::new());
        let (mut free, mut others) = (FreeSlots::default(), FreeSlots::default());
        for _ in 0..1_000 {
            let slot = mine.take(&mut free).unwrap();
            mine.slot(slot).begin(0, Stage::Queued, false);
            let ticket = mine.ticket(mine.name(slot));
            let twin = other.take(&mut others).unwrap();
            other.slot(twin).begin(0, Stage::Queued, false);
            assert!(other.live(ticket).is_none());
        }
    }

    #[test]
    fn any_number_is_a_ticket_of_nothing() {
        let slots = Slots::new();
        for number in (0..10_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            assert!(slots.live(Ticket(number)).is_none());
        }
    }
}
