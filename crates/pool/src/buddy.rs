//! A buddy allocator over page numbers: pure bookkeeping, no memory of its own to hand out.
//!
//! Blocks hold 2^order pages, order 0 … 8. A free block is marked at its first page and linked
//! into the list of its order; the lists are arrays indexed by page, so nothing is allocated
//! after [`Buddy::new`]. Taking splits a larger block, giving merges with the free buddy, at
//! most once an order: both cost at most [`ORDERS`] steps.

/// The smallest block, and the alignment of every block: one page.
pub const BLOCK_BYTES_MIN: u64 = 4 << 10;

/// The largest block, and so the longest buffer.
pub const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// How many sizes of block there are: 4 KiB, 8 KiB, … 1 MiB.
pub(crate) const ORDERS: usize = 9;

/// The end of a list.
const NOWHERE: u32 = u32::MAX;

/// Mark of a page that does not begin a free block.
const NOT_FREE: u8 = u8::MAX;

/// Free blocks of one run of pages, numbered from 0.
#[derive(Debug)]
pub(crate) struct Buddy {
    /// For each page, the order of the free block that begins there, or [`NOT_FREE`].
    free_order: Vec<u8>,
    /// For each page that begins a free block, the next free block of that order.
    next: Vec<u32>,
    /// The same backwards.
    previous: Vec<u32>,
    /// First free block of each order.
    first: [u32; ORDERS],
    /// Bit k is set when `first[k]` is a block.
    orders_with_free: u32,
}

/// The smallest order whose blocks hold `bytes`; `None` above [`BLOCK_BYTES_MAX`].
pub(crate) fn order_for(bytes: u64) -> Option<u8> {
    if bytes > BLOCK_BYTES_MAX {
        return None;
    }
    let pages = bytes.div_ceil(BLOCK_BYTES_MIN).max(1);
    Some(pages.next_power_of_two().trailing_zeros() as u8)
}

/// How many bytes a block of `order` holds.
pub(crate) fn block_bytes(order: u8) -> u64 {
    BLOCK_BYTES_MIN << order
}

impl Buddy {
    /// All of `pages` free, in the largest blocks that fit.
    pub(crate) fn new(pages: u32) -> Self {
        let mut buddy = Self {
            free_order: vec![NOT_FREE; pages as usize],
            next: vec![NOWHERE; pages as usize],
            previous: vec![NOWHERE; pages as usize],
            first: [NOWHERE; ORDERS],
            orders_with_free: 0,
        };
        let largest = ORDERS as u32 - 1;
        let mut page = 0;
        while page < pages {
            // Blocks are aligned to their size; the tail takes what its length allows.
            let order = largest.min((pages - page).ilog2()).min(page.trailing_zeros());
            buddy.link(page, order as u8);
            page += 1 << order;
        }
        buddy
    }

    /// Takes a block of `order`; its first page.
    pub(crate) fn take(&mut self, order: u8) -> Option<u32> {
        let usable = self.orders_with_free >> order;
        if usable == 0 {
            return None;
        }
        let mut found = order + usable.trailing_zeros() as u8;
        let page = self.first[usize::from(found)];
        self.unlink(page, found);
        while found > order {
            found -= 1;
            self.link(page + (1 << found), found);
        }
        Some(page)
    }

    /// Gives back the block of `order` at `page`, merging it with free buddies.
    pub(crate) fn give(&mut self, mut page: u32, mut order: u8) {
        debug_assert_eq!(self.free_order[page as usize], NOT_FREE, "page {page} was free already");
        while usize::from(order) < ORDERS - 1 {
            let buddy = page ^ (1 << order);
            if self.free_order.get(buddy as usize) != Some(&order) {
                break;
            }
            self.unlink(buddy, order);
            page &= !(1 << order);
            order += 1;
        }
        self.link(page, order);
    }

    fn link(&mut self, page: u32, order: u8) {
        let first = self.first[usize::from(order)];
        self.free_order[page as usize] = order;
        self.next[page as usize] = first;
        self.previous[page as usize] = NOWHERE;
        if first != NOWHERE {
            self.previous[first as usize] = page;
        }
        self.first[usize::from(order)] = page;
        self.orders_with_free |= 1 << order;
    }

    fn unlink(&mut self, page: u32, order: u8) {
        let (next, previous) = (self.next[page as usize], self.previous[page as usize]);
        self.free_order[page as usize] = NOT_FREE;
        if next != NOWHERE {
            self.previous[next as usize] = previous;
        }
        if previous != NOWHERE {
            self.next[previous as usize] = next;
            return;
        }
        self.first[usize::from(order)] = next;
        if next == NOWHERE {
            self.orders_with_free &= !(1 << order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_smallest_that_holds_the_bytes() {
        for (bytes, order) in
            [(0, 0), (1, 0), (4096, 0), (4097, 1), (65_536, 4), (65_537, 5), (1 << 20, 8)]
        {
            assert_eq!(order_for(bytes), Some(order), "{bytes} bytes");
        }
        assert_eq!(order_for((1 << 20) + 1), None);
    }

    #[test]
    fn halves_merge_back_into_the_whole() {
        let mut buddy = Buddy::new(256);
        let pages: Vec<u32> = (0..256).map(|_| buddy.take(0).unwrap()).collect();
        assert_eq!(buddy.take(0), None);
        for page in pages {
            buddy.give(page, 0);
        }
        assert_eq!(buddy.take(8), Some(0));
    }

    #[test]
    fn a_tail_shorter_than_the_largest_block_is_used() {
        let mut buddy = Buddy::new(256 + 3);
        assert_eq!(buddy.take(8), Some(0));
        assert_eq!(buddy.take(1), Some(256));
        assert_eq!(buddy.take(0), Some(258));
        assert_eq!(buddy.take(0), None);
        buddy.give(258, 0);
        buddy.give(256, 1);
        assert_eq!(buddy.take(1), Some(256));
    }
}
