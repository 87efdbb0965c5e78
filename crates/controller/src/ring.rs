//! The ring: operations left by threads that found the lock taken.
//!
//! A bounded queue of many producers and one consumer, the holder of the lock (D. Vyukov's
//! bounded queue with a sequence number an entry). Every entry owns a free slot, so a thread that
//! claims an entry has the ticket of its request without any lock.
//!
//! ```text
//!   sequence = position        free: the producer that moves `tail` over it owns it
//!            = position + 1    published: the consumer may read it
//!            = position + ENTRIES   free again, for the next round
//! ```

use core::sync::atomic::{AtomicU64, Ordering};

use forebay_sched::Access;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, Offset};

use crate::operation::{FileKey, Notice, Outcome, Submission};
use crate::slots::Name;
use crate::statistics::Detail;

/// How many operations wait at most.
pub(crate) const ENTRIES: usize = 256;

/// Keeps what one side writes away from what the other reads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// One cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    sequence: AtomicU64,
    /// The free slot that comes with the entry; in the four bits above its number, what is asked.
    name: AtomicU64,
    words: [AtomicU64; 6],
}

/// What was asked of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A request is to be admitted, in the entry's slot.
    Submit(Submission),
    /// The request in this slot has ended, when the processor had counted so many ticks.
    End(u32, Ended, u64),
    /// The statistics are to be published.
    Publish(Detail),
    /// The claimer thought better of it.
    Nothing,
}

/// How a request ended, as the scheduler hears of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) moved: Bytes,
    /// 0 if it ended well.
    pub(crate) errno: u16,
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Moved(moved) => Self { moved, errno: 0 },
            // A failure is one, even if it does not say which.
            Outcome::Failed(errno) => Self { moved: Bytes::ZERO, errno: errno.max(1) },
        }
    }
}

const END: u64 = 4;
const PUBLISH: u64 = 5;
const NOTHING: u64 = 6;
/// Added to a submission that is waited for.
const WAITED_FOR: u64 = 8;

/// Where in an entry's name it says what is asked.
const CODE: u64 = 15 << Name::SLOT_BITS;

fn code(access: Access) -> u64 {
    match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Alone => 2,
        Access::Sync => 3,
    }
}

impl Entry {
    fn write(&self, operation: &Operation) {
        let set = |index: usize, value| self.words[index].store(value, Ordering::Relaxed);
        let what = match operation {
            Operation::Submit(asked) => {
                set(0, asked.file.high);
                set(1, asked.file.low);
                set(2, asked.range.start.0);
                set(3, asked.range.end.0);
                set(4, u64::from(asked.client.0) << 32 | u64::from(asked.class.0));
                set(5, asked.id);
                code(asked.access) + if asked.notice == Notice::Wait { WAITED_FOR } else { 0 }
            }
            Operation::End(slot, ended, ticks) => {
                set(0, u64::from(*slot));
                set(1, ended.moved.0);
                set(2, u64::from(ended.errno));
                set(3, *ticks);
                END
            }
            Operation::Publish(detail) => {
                set(0, *detail as u64);
                PUBLISH
            }
            Operation::Nothing => NOTHING,
        };
        let name = self.name.load(Ordering::Relaxed) & !CODE;
        self.name.store(name | what << Name::SLOT_BITS, Ordering::Relaxed);
    }

    /// The slot that comes with it.
    fn name(&self) -> Name {
        Name(self.name.load(Ordering::Relaxed) & !CODE)
    }

    #[inline]
    fn read(&self) -> Operation {
        let word = |index: usize| self.words[index].load(Ordering::Relaxed);
        let what = (self.name.load(Ordering::Relaxed) & CODE) >> Name::SLOT_BITS;
        let access = match what & !WAITED_FOR {
            0 => Access::Read,
            1 => Access::Write,
            2 => Access::Alone,
            3 => Access::Sync,
            END => {
                let ended = Ended { moved: Bytes(word(1)), errno: word(2) as u16 };
                return Operation::End(word(0) as u32, ended, word(3));
            }
            PUBLISH if word(0) == 0 => return Operation::Publish(Detail::Counters),
            PUBLISH => return Operation::Publish(Detail::Accounts),
            _ => return Operation::Nothing,
        };
        Operation::Submit(Submission {
            id: word(5),
            notice: if what & WAITED_FOR == 0 { Notice::Deliver } else { Notice::Wait },
            file: FileKey { high: word(0), low: word(1) },
            access,
            range: ByteRange { start: Offset(word(2)), end: Offset(word(3)) },
            client: ClientId((word(4) >> 32) as u32),
            class: ClassId(word(4) as u32),
        })
    }
}

/// The queue.
pub(crate) struct Ring {
    entries: Box<[Entry]>,
    tail: Apart<AtomicU64>,
    head: Apart<AtomicU64>,
}

/// An entry that is the caller's; to be published soon, since those behind it wait.
pub(crate) struct Claim<'a> {
    entry: &'a Entry,
    position: u64,
}

impl Claim<'_> {
    /// The free slot that comes with it, the claimer's if it publishes a submission.
    pub(crate) fn name(&self) -> Name {
        self.entry.name()
    }

    /// Returns how many entries were claimed up to this one.
    pub(crate) fn publish(self, operation: &Operation) -> u64 {
        self.entry.write(operation);
        // In one order with the look at the lock that follows, see `pump.rs`.
        self.entry.sequence.store(self.position + 1, Ordering::SeqCst);
        self.position + 1
    }
}

impl Ring {
    /// An empty ring; `slot` gives each entry the slot that comes with it.
    pub(crate) fn new(mut slot: impl FnMut() -> Name) -> Self {
        let entry = |position| Entry {
            sequence: AtomicU64::new(position),
            name: AtomicU64::new(slot().0),
            ..Entry::default()
        };
        Self {
            entries: (0..ENTRIES as u64).map(entry).collect(),
            tail: Apart::default(),
            head: Apart::default(),
        }
    }

    fn entry(&self, position: u64) -> &Entry {
        &self.entries[position as usize % ENTRIES]
    }

    /// Takes the next free entry; `None` if there is none.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let mut position = self.tail.0.load(Ordering::Relaxed);
        loop {
            let entry = self.entry(position);
            let sequence = entry.sequence.load(Ordering::Acquire);
            if sequence == position {
                match self.tail.0.compare_exchange_weak(
                    position,
                    position + 1,
                    Ordering::SeqCst,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return Some(Claim { entry, position }),
                    Err(moved) => position = moved,
                }
            } else if sequence < position {
                return None;
            } else {
                position = self.tail.0.load(Ordering::Relaxed);
            }
        }
    }

    /// Whether the oldest entry is published.
    pub(crate) fn has_published(&self) -> bool {
        let position = self.head.0.load(Ordering::SeqCst);
        self.entry(position).sequence.load(Ordering::SeqCst) == position + 1
    }

    /// Whether no entry is claimed.
    pub(crate) fn is_empty(&self) -> bool {
        self.freed_count() == self.claimed_count()
    }

    /// How many entries have been claimed, ever.
    pub(crate) fn claimed_count(&self) -> u64 {
        self.tail.0.load(Ordering::SeqCst)
    }

    /// How many of them are free again.
    pub(crate) fn freed_count(&self) -> u64 {
        self.head.0.load(Ordering::SeqCst)
    }

    /// The oldest entry, if it is published, with the slot that came with it. Under the lock.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Operation, Name)> {
        let position = self.head.0.load(Ordering::Relaxed);
        let entry = self.entry(position);
        let is_published = entry.sequence.load(Ordering::Acquire) == position + 1;
        is_published.then(|| (entry.read(), entry.name()))
    }

    /// Frees the oldest entry, which [`first`](Ring::first) has read, with this slot. Under the lock.
    pub(crate) fn free_first(&self, slot: Name) {
        let position = self.head.0.load(Ordering::Relaxed);
        let entry = self.entry(position);
        entry.name.store(slot.0, Ordering::Relaxed);
        self.head.0.store(position + 1, Ordering::Relaxed);
        entry.sequence.store(position + ENTRIES as u64, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn ring() -> Ring {
        let mut next = 0;
        Ring::new(|| {
            next += 1;
            Name(next - 1)
        })
    }

    #[test]
    fn an_entry_is_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    #[test]
    fn operations_come_out_as_they_went_in() {
        let ring = ring();
        let asked = Submission {
            id: u64::MAX,
            notice: Notice::Wait,
            file: FileKey { high: 1, low: 2 },
            access: Access::Sync,
            range: ByteRange { start: Offset(3), end: Offset(4) },
            client: ClientId(5),
            class: ClassId(6),
        };
        let all = [
            Operation::Submit(asked),
            Operation::End(7, Ended { moved: Bytes(8), errno: 5 }, 9),
            Operation::Publish(Detail::Accounts),
            Operation::Nothing,
        ];
        for operation in &all {
            ring.claim().unwrap().publish(operation);
        }
        for (index, operation) in all.iter().enumerate() {
            assert_eq!(ring.first(), Some((*operation, Name(index as u64))));
            ring.free_first(Name(index as u64));
        }
        assert!(ring.is_empty() && ring.first().is_none());
    }

    #[test]
    fn a_full_ring_takes_nothing_until_one_is_freed() {
        let ring = ring();
        for _ in 0..ENTRIES {
            ring.claim().unwrap().publish(&Operation::Publish(Detail::Counters));
        }
        assert!(ring.claim().is_none());
        ring.free_first(Name(0));
        assert!(ring.claim().is_some());
    }

    #[test]
    fn an_unpublished_entry_holds_up_those_behind_it() {
        let ring = ring();
        let first = ring.claim().unwrap();
        ring.claim().unwrap().publish(&Operation::Publish(Detail::Counters));
        assert!(ring.first().is_none() && !ring.has_published() && !ring.is_empty());
        first.publish(&Operation::Publish(Detail::Counters));
        assert!(ring.first().is_some() && ring.has_published());
    }

    #[test]
    fn each_producer_is_heard_in_order_and_completely() {
        const EACH: u64 = 20_000;
        let ring = ring();
        let done = AtomicUsize::new(0);
        let mut last = [0_u64; 3];
        std::thread::scope(|scope| {
            for producer in 0..3_u32 {
                let (ring, done) = (&ring, &done);
                scope.spawn(move || {
                    for number in 1..=EACH {
                        let ended = Ended { moved: Bytes(number), errno: 0 };
                        let operation = Operation::End(producer, ended, 0);
                        let claim = loop {
                            match ring.claim() {
                                Some(claim) => break claim,
                                None => std::thread::yield_now(),
                            }
                        };
                        claim.publish(&operation);
                    }
                    done.fetch_add(1, Ordering::Release);
                });
            }
            loop {
                let is_over = done.load(Ordering::Acquire) == 3;
                match ring.first() {
                    Some((Operation::End(slot, ended, _), spare)) => {
                        assert_eq!(ended.moved.0, last[slot as usize] + 1);
                        last[slot as usize] = ended.moved.0;
                        ring.free_first(spare);
                    }
                    Some(other) => panic!("{other:?}"),
                    None if is_over => break,
                    None => std::thread::yield_now(),
                }
            }
        });
        assert_eq!(last, [EACH; 3]);
    }
}
