//! The pool's face: take a buffer, or learn that there is no room now.

use std::sync::Arc;

use forebay_units::Bytes;
use rustix::io::Errno;

use crate::buddy::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
use crate::buffer::Buffer;
use crate::sys::{Arena, Fault};
use crate::zones::Share;

/// Pages that an arena can have: page numbers are 31 bits, so a pool has less than 8 TiB.
const PAGES_MAX: u64 = 1 << 31;

/// How a pool is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// All the memory the pool will ever have; rounded down to whole 4 KiB pages.
    pub capacity: Bytes,
    /// The part that only [`Share::Dispatch`] may use; rounded up to whole pages.
    /// `None` means a quarter, and at least one largest block if the pool has two.
    pub reserve: Option<Bytes>,
    /// Whether to take the memory from the kernel at once (it costs about a second for 4 GiB)
    /// rather than page by page at first use.
    pub prefault: bool,
    /// Whether to ask for huge pages; a kernel without them ignores the wish.
    pub huge_pages: bool,
}

impl PoolOptions {
    /// `capacity` bytes, a quarter of them in reserve, pages at first use, no huge pages.
    pub fn new(capacity: Bytes) -> Self {
        Self { capacity, reserve: None, prefault: false, huge_pages: false }
    }

    fn reserve_bytes(&self) -> u64 {
        let default = || {
            let quarter = self.capacity.0 / 4;
            if self.capacity.0 >= 2 * BLOCK_BYTES_MAX {
                quarter.max(BLOCK_BYTES_MAX)
            } else {
                quarter
            }
        };
        self.reserve.map_or_else(default, |reserve| reserve.0)
    }
}

/// The pool; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct Pool {
    arena: Arc<Arena>,
}

impl Pool {
    /// A pool of `capacity` with the default options.
    ///
    /// # Errors
    /// As [`Pool::with_options`].
    pub fn new(capacity: Bytes) -> Result<Self, Errno> {
        Self::with_options(PoolOptions::new(capacity))
    }

    /// A pool.
    ///
    /// # Errors
    /// `EINVAL` when the capacity is less than a page or 8 TiB and more, or when the reserve leaves
    /// arrivals no page; what `mmap(2)` and `madvise(2)` say otherwise.
    pub fn with_options(options: PoolOptions) -> Result<Self, Errno> {
        let pages = options.capacity.0 / BLOCK_BYTES_MIN;
        let reserve_pages = options.reserve_bytes().div_ceil(BLOCK_BYTES_MIN);
        // A pool of one page has no room for a reserve of its own.
        let reserve_pages = if pages == 1 && options.reserve.is_none() { 0 } else { reserve_pages };
        if pages >= PAGES_MAX || reserve_pages >= pages {
            return Err(Errno::INVAL);
        }
        let fault = if options.prefault { Fault::Now } else { Fault::Later };
        let arena = Arena::map(
            (pages - reserve_pages) as u32,
            reserve_pages as u32,
            options.huge_pages,
            fault,
        )?;
        Ok(Self { arena: Arc::new(arena) })
    }

    /// Tries to take a buffer of `length` bytes; `None` when this share has no room now, and
    /// always for more than [`BLOCK_BYTES_MAX`] bytes.
    pub fn try_take(&self, length: Bytes, share: Share) -> Option<Buffer> {
        let block = self.arena.take(length.0, share)?;
        Some(Buffer::new(block, length.0 as usize))
    }

    /// All the memory the pool has.
    pub fn capacity_bytes(&self) -> Bytes {
        Bytes(self.arena.length() as u64)
    }

    /// Memory that arrivals could take if it were in one piece.
    pub fn arrival_free_bytes(&self) -> Bytes {
        Bytes(self.arena.zones().shared_free_bytes())
    }

    /// Memory in blocks that are out; a block counts whole, however short its buffer is.
    pub fn used_bytes(&self) -> Bytes {
        Bytes(self.arena.zones().used_bytes)
    }

    /// The most that [`used_bytes`](Self::used_bytes) has ever been.
    pub fn peak_bytes(&self) -> Bytes {
        Bytes(self.arena.zones().peak_bytes)
    }

    /// How many buffers were ever given back: when it has moved, what was refused may fit now.
    pub fn given_back(&self) -> u64 {
        self.arena.zones().given_back
    }
}
