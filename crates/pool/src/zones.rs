//! Which block serves whom: two buddy allocators, one that all use and one for dispatches only.

use crate::buddy::{BLOCK_BYTES_MIN, Buddy, block_bytes, order_for};

/// On whose account a buffer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Payload of a request that is still queued. May use all but the reserve.
    Arrival,
    /// Data of a dispatch. May use everything, so that what was dispatched can always finish.
    Dispatch,
}

/// A block by its place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First page, counted from the start of the arena.
    page: u32,
    order: u8,
}

impl Span {
    /// Bytes from the start of the arena.
    pub(crate) fn offset(self) -> usize {
        self.page as usize * BLOCK_BYTES_MIN as usize
    }

    /// Bytes in the block.
    pub(crate) fn length(self) -> usize {
        block_bytes(self.order) as usize
    }
}

/// All blocks of an arena, and how many are out.
#[derive(Debug)]
pub(crate) struct Zones {
    shared: Buddy,
    shared_used_bytes: u64,
    /// Pages in `shared`; the reserve begins after them.
    shared_pages: u32,
    reserve: Buddy,
    pub(crate) used_bytes: u64,
    pub(crate) peak_bytes: u64,
    /// Blocks ever given back.
    pub(crate) given_back: u64,
}

impl Zones {
    /// `shared_pages` for all, then `reserve_pages` for dispatches, all free.
    pub(crate) fn new(shared_pages: u32, reserve_pages: u32) -> Self {
        Self {
            shared: Buddy::new(shared_pages),
            shared_used_bytes: 0,
            shared_pages,
            reserve: Buddy::new(reserve_pages),
            used_bytes: 0,
            peak_bytes: 0,
            given_back: 0,
        }
    }

    /// Takes a block that holds `bytes`. No two blocks that are out have a page in common.
    pub(crate) fn take(&mut self, bytes: u64, share: Share) -> Option<Span> {
        let order = order_for(bytes)?;
        // Dispatches use the reserve first, so that they leave arrivals their room.
        let reserved = match share {
            Share::Arrival => None,
            Share::Dispatch => self.reserve.take(order).map(|page| page + self.shared_pages),
        };
        let page = match reserved {
            Some(page) => page,
            None => {
                let page = self.shared.take(order)?;
                self.shared_used_bytes += block_bytes(order);
                page
            }
        };
        self.used_bytes += block_bytes(order);
        self.peak_bytes = self.peak_bytes.max(self.used_bytes);
        Some(Span { page, order })
    }

    /// What is free outside the reserve.
    pub(crate) fn shared_free_bytes(&self) -> u64 {
        u64::from(self.shared_pages) * BLOCK_BYTES_MIN - self.shared_used_bytes
    }

    /// Gives back a block that [`take`](Self::take) handed out.
    pub(crate) fn give(&mut self, span: Span) {
        match span.page.checked_sub(self.shared_pages) {
            Some(page) => self.reserve.give(page, span.order),
            None => {
                self.shared.give(span.page, span.order);
                self.shared_used_bytes -= block_bytes(span.order);
            }
        }
        self.used_bytes -= block_bytes(span.order);
        self.given_back += 1;
    }
}
