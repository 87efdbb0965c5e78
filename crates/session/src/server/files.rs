//! The files that a session has open, by handle.

use super::alloc::vec::Vec;

use forebay_wire::Handle;

/// Slots by handle, with the free ones remembered.
#[derive(Debug)]
pub(crate) struct Files<F> {
    /// `None`: free, or closing.
    slots: Vec<Option<F>>,
    free: Vec<Handle>,
}

impl<F: Copy> Files<F> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// How many handles are taken, closing ones included.
    pub(crate) fn taken_count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, file: F) -> Handle {
        if let Some(handle) = self.free.pop() {
            self.slots[handle.0 as usize] = Some(file);
            return handle;
        }
        self.slots.push(Some(file));
        Handle(u32::try_from(self.slots.len() - 1).expect("fewer handles than HANDLES_MAX"))
    }

    pub(crate) fn find(&self, handle: Handle) -> Option<F> {
        self.slots.get(handle.0 as usize).copied().flatten()
    }

    /// Takes the file out; its handle stays taken until [`release`](Files::release).
    pub(crate) fn close(&mut self, handle: Handle) -> Option<F> {
        self.slots.get_mut(handle.0 as usize).and_then(Option::take)
    }

    pub(crate) fn release(&mut self, handle: Handle) {
        self.free.push(handle);
    }

    /// The files that are open and not closing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = F> {
        self.slots.iter().copied().flatten()
    }
}
