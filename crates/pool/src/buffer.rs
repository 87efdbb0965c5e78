//! A piece of the pool in somebody's hands.

use std::ops::{Deref, DerefMut};

use crate::sys::Block;

/// A page-aligned piece of the pool: a slice of its length, given back when dropped.
///
/// The length may be anything up to the capacity, which is the block's size (a power of two
/// from 4 KiB to 1 MiB). What the bytes hold before they are written is unspecified.
pub struct Buffer {
    block: Block,
    length: usize,
}

impl Buffer {
    /// `length` bytes of `block`.
    pub(crate) fn new(block: Block, length: usize) -> Self {
        debug_assert!(length <= block.length());
        Self { block, length }
    }

    /// The largest length, in bytes.
    pub fn capacity(&self) -> usize {
        self.block.length()
    }

    /// Makes the buffer `length` bytes long; its bytes stay as they are.
    ///
    /// # Panics
    /// If `length` is more than the capacity.
    pub fn set_len(&mut self, length: usize) {
        assert!(length <= self.capacity(), "length {length} over the capacity {}", self.capacity());
        self.length = length;
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.as_slice()[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.block.as_mut_slice()[..self.length]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl std::fmt::Debug for Buffer {
    /// Length and capacity; never the bytes, which are somebody's data.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer")
            .field("length", &self.length)
            .field("capacity", &self.capacity())
            .finish()
    }
}
