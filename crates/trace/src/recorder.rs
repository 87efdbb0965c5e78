//! The recorder: events in, blocks out, in memory that never grows.
//!
//! ```text
//! record ─► current block ─(full)─► finished blocks ─ take_block ─► whoever writes them
//!                ▲                                                        │
//!                └───────────────── empty blocks ◄── give_back ───────────┘
//! ```
//!
//! All blocks exist from the start. When the current block is full and no empty one is there, the
//! current one is emptied instead: its events are lost, and the block after says how many. So a
//! writer that is too slow costs events, and never time or memory.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use forebay_units::Timestamp;

use crate::code::{Context, EVENT_BYTES_MAX, MEMBERS_MAX};
use crate::event::{Asked, Event, Members};
use crate::frame::{self, BlockHead, FRAME_BYTES, Totals, kind};

/// How much memory a recorder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Size of a block in bytes; at least [`RecorderOptions::BLOCK_BYTES_MIN`], at most 16 MiB.
    pub block_bytes: usize,
    /// How many blocks there are; at least 2.
    pub blocks: usize,
}

impl RecorderOptions {
    /// The smallest block: any event fits.
    pub const BLOCK_BYTES_MIN: usize = 16 << 10;

    /// Blocks of 64 KiB in so many bytes of memory, at least two.
    pub fn within(bytes: usize) -> Self {
        let block_bytes = 64 << 10;
        Self { block_bytes, blocks: (bytes / block_bytes).max(2) }
    }
}

impl Default for RecorderOptions {
    /// 64 blocks of 64 KiB: 4 MiB, some 400,000 events.
    fn default() -> Self {
        Self { block_bytes: 64 << 10, blocks: 64 }
    }
}

const _: () = assert!(
    RecorderOptions::BLOCK_BYTES_MIN >= FRAME_BYTES + BlockHead::BYTES + EVENT_BYTES_MAX,
    "the largest event fits into the smallest block"
);

/// A finished block. Its checksum is computed by whoever takes it, so not on the scheduler's time.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
}

impl Block {
    /// The bytes to be appended to the trace.
    pub fn seal(&mut self) -> &[u8] {
        frame::finish(&mut self.bytes);
        &self.bytes
    }
}

/// Takes events down.
#[derive(Debug)]
pub struct Recorder {
    empty: Vec<Block>,
    finished: VecDeque<Block>,
    current: Block,
    capacity: usize,
    context: Context,
    index: u64,
    /// Events in the current block.
    events_count: u32,
    /// Not yet told to any block.
    lost_events: u64,
    lost_blocks: u32,
    /// Of the blocks that are finished, and of all that were lost.
    totals: Totals,
}

impl Recorder {
    /// A recorder before the first event. `next_seq` is the `seq` that the next request will get:
    /// 0 for a scheduler that has accepted none.
    ///
    /// # Panics
    /// If the options are out of their ranges.
    pub fn new(options: RecorderOptions, next_seq: u64) -> Self {
        let capacity = options.block_bytes;
        assert!(
            (RecorderOptions::BLOCK_BYTES_MIN..=16 << 20).contains(&capacity),
            "a block has 16 KiB to 16 MiB"
        );
        assert!(options.blocks >= 2, "one block is being filled while another one is written");
        let block = || Block { bytes: Vec::with_capacity(capacity) };
        let mut this = Self {
            empty: (1..options.blocks).map(|_| block()).collect(),
            finished: VecDeque::with_capacity(options.blocks),
            current: block(),
            capacity,
            context: Context::new(0, next_seq),
            index: 0,
            events_count: 0,
            lost_events: 0,
            lost_blocks: 0,
            totals: Totals::default(),
        };
        this.begin_block();
        this
    }

    /// Takes an event down. Time that goes back counts as time that stands still. A batch that is
    /// too long for one event becomes several.
    // Where the kind of event is known, which is everywhere in `Traced`, only its own fields are
    // written: half of what a call for any event costs.
    #[inline(always)]
    pub fn record(&mut self, now: Timestamp, event: &Event<'_>) {
        match event {
            Event::Dispatch { asked, members, continues } if members.count() > MEMBERS_MAX => {
                self.record_long(now, *asked, *members, *continues);
            }
            Event::Lost { .. } | Event::Unknown { .. } => {}
            _ => self.record_one(now, event),
        }
    }

    #[cold]
    fn record_long(
        &mut self,
        now: Timestamp,
        asked: Asked,
        mut members: Members<'_>,
        continues: bool,
    ) {
        while members.count() > MEMBERS_MAX {
            let (front, back) = members.split(MEMBERS_MAX);
            self.record_one(now, &Event::Dispatch { asked, members: front, continues: true });
            members = back;
        }
        self.record_one(now, &Event::Dispatch { asked, members, continues });
    }

    #[inline(always)]
    fn record_one(&mut self, now: Timestamp, event: &Event<'_>) {
        if self.current.bytes.len() + Context::bytes_max(event) > self.capacity {
            self.change_block();
        }
        self.context.put(&mut self.current.bytes, now, event);
        self.events_count += 1;
    }

    /// The next finished block, oldest first. It is to come back by [`give_back`](Self::give_back).
    pub fn take_block(&mut self) -> Option<Block> {
        self.finished.pop_front()
    }

    /// The time of the latest event.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.context.time)
    }

    /// Whether a block is finished.
    pub fn has_block(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Takes a written block back, to be filled again.
    pub fn give_back(&mut self, mut block: Block) {
        block.bytes.clear();
        self.empty.push(block);
    }

    /// Finishes the current block early, so that what is recorded so far can be written. Does
    /// nothing if it has no events, or if there is no empty block to go on with.
    pub fn flush(&mut self) {
        if self.events_count > 0 && !self.empty.is_empty() {
            self.change_block();
        }
    }

    /// Events recorded and lost so far.
    pub fn totals(&self) -> Totals {
        Totals { events: self.totals.events + u64::from(self.events_count), ..self.totals }
    }

    /// Ends the recording: the last blocks, and then the frame that ends the trace.
    pub fn finish(mut self) -> (impl Iterator<Item = Block>, Totals) {
        let totals = self.totals();
        self.close_block();
        self.finished.push_back(self.current);
        (self.finished.into_iter(), totals)
    }

    #[cold]
    fn change_block(&mut self) {
        if let Some(empty) = self.empty.pop() {
            self.close_block();
            self.totals.events += u64::from(self.events_count);
            self.finished.push_back(core::mem::replace(&mut self.current, empty));
            self.index += 1;
            (self.lost_events, self.lost_blocks) = (0, 0);
        } else {
            self.totals.lost_events += u64::from(self.events_count);
            self.lost_events += u64::from(self.events_count);
            self.lost_blocks = self.lost_blocks.saturating_add(1);
            self.current.bytes.clear();
        }
        self.begin_block();
    }

    fn begin_block(&mut self) {
        self.events_count = 0;
        self.context = Context::new(self.context.time, self.context.next_seq);
        frame::begin(&mut self.current.bytes, kind::BLOCK);
        let head = BlockHead {
            index: self.index,
            lost_events: self.lost_events,
            lost_blocks: self.lost_blocks,
            events_count: 0,
            time: self.context.time,
            next_seq: self.context.next_seq,
        };
        head.put(&mut self.current.bytes);
    }

    /// Writes the number of events into the current block.
    fn close_block(&mut self) {
        let at = FRAME_BYTES + BlockHead::EVENTS_AT;
        self.current.bytes[at..at + 4].copy_from_slice(&self.events_count.to_le_bytes());
    }
}
