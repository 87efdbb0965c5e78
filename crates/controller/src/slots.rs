//! Slots: what a ticket names, readable without the lock.
//!
//! A slot is half a word of generation and state, the scheduler's name of the request, and the
//! submitter's mark: 20 bytes a live request. Who owns a slot in which state:
//!
//! ```text
//!   free ──► submitted ──► queued ──► in flight ──► ending ──► free, next generation
//!            by a thread   └────────── under the lock ──┐
//!            that waits                   `complete`, by compare-and-swap from any thread
//! ```
//!
//! Slots sit in chunks that double in size and never move, so finding one is two loads.

use core::sync::atomic::{AtomicU32, Ordering};
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
    fn of(word: u32) -> Self {
        match word & STAGE {
            0 => Self::Free,
            1 => Self::Submitted,
            2 => Self::Queued,
            3 => Self::InFlight,
            _ => Self::Ending,
        }
    }
}

/// What a word holds below its generation, which has the 28 bits above.
const STAGE: u32 = 7;
const WAITED_FOR: u32 = 8;
const GENERATION: u32 = 16;

/// A slot's word, as read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u32);

impl Word {
    pub(crate) fn generation(self) -> u32 {
        self.0 / GENERATION
    }

    pub(crate) fn stage(self) -> Stage {
        Stage::of(self.0)
    }

    /// Whether somebody sleeps, or will, until the request may go.
    pub(crate) fn is_waited_for(self) -> bool {
        self.0 & WAITED_FOR != 0
    }

    fn at(self, stage: Stage) -> Self {
        Self(self.0 & !STAGE | stage as u32)
    }
}

/// A slot and its generation, which is what a ticket says: each in 28 bits, below four that are 0.
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

/// A number in two halves, for which 4 bytes are alignment enough. Not changed and read at a time.
#[derive(Debug, Default)]
struct Halves([AtomicU32; 2]);

impl Halves {
    fn load(&self) -> u64 {
        let [low, high] = self.0.each_ref().map(|half| u64::from(half.load(Ordering::Relaxed)));
        high << 32 | low
    }

    fn store(&self, number: u64) {
        self.0[0].store(number as u32, Ordering::Relaxed);
        self.0[1].store((number >> 32) as u32, Ordering::Relaxed);
    }
}

/// One live request, or none.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    word: AtomicU32,
    /// The scheduler's name of it; in a free slot, the next free one. Used under the lock only.
    request: Halves,
    /// The submitter's mark. Written before the word by whoever begins the request.
    id: Halves,
}

impl Slot {
    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.load()
    }

    pub(crate) fn request(&self) -> u64 {
        self.request.load()
    }

    /// Begins a request in a slot that is the caller's alone.
    pub(crate) fn begin(&self, id: u64, stage: Stage, is_waited_for: bool) {
        self.id.store(id);
        let generation = self.word.load(Ordering::Relaxed) & !(GENERATION - 1);
        let flag = if is_waited_for { WAITED_FOR } else { 0 };
        let word = generation | flag | stage as u32;
        self.word.store(word, Ordering::Release);
    }

    /// Notes the scheduler's name; under the lock.
    pub(crate) fn set_request(&self, request: u64) {
        self.request.store(request);
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
        let ended = cell.word().0 & !(GENERATION - 1);
        let next = ended.checked_add(GENERATION);
        cell.word.store(next.unwrap_or(ended), Ordering::Release);
        // With its generations used up, a slot stays out of use: no ticket ever names two requests. One
        // that is used a million times a second lasts for four minutes and there are 2^28.
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
    fn a_slot_is_20_bytes() {
        assert_eq!(size_of::<Slot>(), 20);
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_stays_out_of_use() {
        let (slots, mut free) = (Slots::new(), FreeSlots::default());
        let slot = slots.take(&mut free).unwrap();
        let last = u32::MAX - (GENERATION - 1);
        slots.slot(slot).word.store(last - GENERATION, Ordering::Relaxed);
        let mut tickets = Vec::new();
        for _ in 0..2 {
            slots.slot(slot).begin(u64::MAX - 1, Stage::InFlight, true);
            let ticket = slots.ticket(slots.name(slot));
            let found = slots.live(ticket).unwrap();
            assert_eq!((found.1.id(), found.2.is_waited_for()), (u64::MAX - 1, true));
            tickets.push(ticket);
            slots.free(&mut free, slot);
            if tickets.len() == 1 {
                assert_eq!(slots.take(&mut free), Some(slot));
            }
        }
        assert_ne!(tickets[0], tickets[1]);
        assert!(tickets.iter().all(|ticket| slots.live(*ticket).is_none()));
        assert_ne!(slots.take(&mut free), Some(slot));
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
