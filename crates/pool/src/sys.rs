//! The pool's memory: one anonymous mapping, handed out as blocks that nobody else can reach.
//!
//! All unsafe code of the crate is here. It rests on two facts: [`Zones`] never has two blocks
//! out that share a page, and a [`Block`] keeps the mapping alive.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::buddy::BLOCK_BYTES_MIN;
use crate::zones::{Share, Span, Zones};

/// The mapping and what of it is out.
#[derive(Debug)]
pub(crate) struct Arena {
    base: NonNull<u8>,
    length: usize,
    zones: Mutex<Zones>,
}

// SAFETY: `base` is an address of memory that any thread may use; who uses which part is decided under `zones`' lock.
unsafe impl Send for Arena {}
// SAFETY: as above; a shared `Arena` alone gives no access to its memory, only a `Block` does.
unsafe impl Sync for Arena {}

/// When the memory gets its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Page by page, at first use.
    Later,
    /// All at once, before the first buffer is taken.
    Now,
}

impl Arena {
    /// Maps zeroed memory for `shared_pages + reserve_pages`.
    pub(crate) fn map(
        shared_pages: u32,
        reserve_pages: u32,
        huge: bool,
        fault: Fault,
    ) -> Result<Self, Errno> {
        let length = (shared_pages as usize + reserve_pages as usize) * BLOCK_BYTES_MIN as usize;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other memory.
        let mapped = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let base = NonNull::new(mapped.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let arena =
            Self { base, length, zones: Mutex::new(Zones::new(shared_pages, reserve_pages)) };
        if huge {
            // Only advice: a kernel without huge pages refuses it, and the pool works all the same.
            // SAFETY: the range is the mapping made above; the advice does not change its content.
            let _ = unsafe { rustix::mm::madvise(mapped, length, Advice::LinuxHugepage) };
        }
        if fault == Fault::Now {
            // SAFETY: as above; populating writes nothing but zeros to pages that are zero.
            unsafe { rustix::mm::madvise(mapped, length, Advice::LinuxPopulateWrite) }?;
        }
        Ok(arena)
    }

    /// Takes a block that holds `bytes`.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64, share: Share) -> Option<Block> {
        let span = self.zones().take(bytes, share)?;
        debug_assert!(span.offset() + span.length() <= self.length);
        Some(Block { arena: Arc::clone(self), span })
    }

    /// The books.
    pub(crate) fn zones(&self) -> MutexGuard<'_, Zones> {
        // The books are whole after every call: a panic elsewhere leaves nothing half done in them.
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes mapped.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no block is left, because each keeps the arena alive.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// A block of the arena, owned: nobody else can reach its bytes until it is dropped.
#[derive(Debug)]
pub(crate) struct Block {
    arena: Arc<Arena>,
    span: Span,
}

impl Block {
    /// Bytes in the block.
    pub(crate) fn length(&self) -> usize {
        self.span.length()
    }

    /// The whole block.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the span lies in the mapping, which lives as long as `self.arena`; its bytes are initialised
        // (the kernel zeroed them); no other block overlaps it, so only `&mut self` could write to it.
        unsafe { std::slice::from_raw_parts(self.base(), self.length()) }
    }

    /// The whole block, to be written.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`; `&mut self` makes this the only view of the block.
        unsafe { std::slice::from_raw_parts_mut(self.base(), self.length()) }
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: `Zones` hands out spans inside the pages it was made for, which are those of the mapping.
        unsafe { self.arena.base.as_ptr().add(self.span.offset()) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.zones().give(self.span);
    }
}
