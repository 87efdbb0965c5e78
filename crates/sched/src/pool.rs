//! A pool of small items named by index, which allocates only when it grows.

use alloc::vec::Vec;

/// Items by index; a freed index is handed out again, the latest first.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, item: T) -> u32 {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = item;
            return index;
        }
        self.items.push(item);
        // Room for freeing everything is made now, so that freeing never allocates.
        self.free.reserve(self.items.capacity());
        self.items.len() as u32 - 1
    }

    pub(crate) fn free(&mut self, index: u32) {
        self.free.push(index);
    }
}

impl<T> core::ops::Index<u32> for Pool<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Pool<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}
