//! Which controllers are calling back on this thread.
//!
//! A call-back that calls its own controller must not start a second loop inside the first: the
//! stack would grow with every such call. Here the inner call finds out that the loop is running.

use core::cell::RefCell;
use core::ops::{Deref, DerefMut};

use crate::locked::Kind;
use crate::operation::Turn;

thread_local! {
    static LOOPS: RefCell<Loops> = const { RefCell::new(Loops { active: Vec::new(), spare: Vec::new() }) };
}

/// The loops of this thread.
#[derive(Debug)]
struct Loops {
    /// The keys of the controllers whose loops run.
    active: Vec<u64>,
    /// Buffers of loops that are over, for the next ones.
    #[expect(clippy::vec_box, reason = "each goes in and out once a request, in one word")]
    spare: Vec<Box<Buffers>>,
}

/// What a loop has decided and not done yet.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// What is to be delivered.
    pub(crate) turns: Vec<Turn>,
    /// Of which batches these are, and where among them each ends.
    pub(crate) batches: Vec<(Kind, usize)>,
    /// The slots of those whose sleep is over.
    pub(crate) woken: Vec<u32>,
}

/// Whether the loop of this controller runs on this thread.
pub(crate) fn is_active(key: u64) -> bool {
    LOOPS.try_with(|loops| loops.borrow().active.contains(&key)).unwrap_or(false)
}

/// A loop of one controller on this thread, until dropped.
#[derive(Debug)]
pub(crate) struct Active {
    key: u64,
    /// There until it is dropped.
    buffers: Option<Box<Buffers>>,
    /// Whether this is the alarm's own thread, which may dispatch for as long as it likes.
    pub(crate) is_alarm: bool,
}

impl Active {
    /// Begins the loop, unless it runs already.
    pub(crate) fn enter(key: u64) -> Option<Self> {
        let enter = |loops: &RefCell<Loops>| {
            let mut loops = loops.borrow_mut();
            if loops.active.contains(&key) {
                return None;
            }
            loops.active.push(key);
            Some(loops.spare.pop().unwrap_or_default())
        };
        // The loops are gone in a thread that is ending, which has no call-back below it.
        let buffers = LOOPS.try_with(enter).unwrap_or_else(|_| Some(Box::default()))?;
        Some(Self { key, buffers: Some(buffers), is_alarm: false })
    }

    /// How many requests are to be delivered or woken.
    pub(crate) fn decided_count(&self) -> usize {
        self.turns.len() + self.woken.len()
    }

    /// The turns since the last batch are one, unless all of them are waited for.
    pub(crate) fn end_batch(&mut self, kind: Kind) {
        let end = self.turns.len();
        self.batches.push((kind, end));
    }
}

impl Deref for Active {
    type Target = Buffers;

    fn deref(&self) -> &Buffers {
        self.buffers.as_ref().expect("it is not dropped")
    }
}

impl DerefMut for Active {
    fn deref_mut(&mut self) -> &mut Buffers {
        self.buffers.as_mut().expect("it is not dropped")
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let Some(mut buffers) = self.buffers.take() else { return };
        buffers.turns.clear();
        buffers.batches.clear();
        buffers.woken.clear();
        // It fails only in a thread that is ending, whose loops are gone.
        _ = LOOPS.try_with(|loops| {
            let mut loops = loops.borrow_mut();
            // Loops are inside each other, but rounds end in any order.
            if let Some(place) = loops.active.iter().rposition(|key| *key == self.key) {
                loops.active.swap_remove(place);
            }
            loops.spare.push(buffers);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_of_several_controllers_end_in_any_order() {
        let (first, second) = (Active::enter(1).unwrap(), Active::enter(2).unwrap());
        drop(first);
        assert!(!is_active(1) && is_active(2));
        assert!(Active::enter(2).is_none());
        drop(second);
        assert!(!is_active(2));
    }
}
