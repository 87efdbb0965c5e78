//! Which controllers are calling back on this thread.
//!
//! A call-back that calls its own controller must not start a second loop inside the first: the
//! stack would grow with every such call. Here the inner call finds out that the loop is running.

use core::cell::RefCell;

use crate::locked::Kind;
use crate::operation::Turn;

thread_local! {
    static ACTIVE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// Buffers of loops that are over, for the next one.
    static SPARE: RefCell<Vec<Buffers>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug, Default)]
struct Buffers {
    turns: Vec<Turn>,
    batches: Vec<(Kind, usize)>,
    woken: Vec<u32>,
}

/// Whether the loop of this controller runs on this thread.
pub(crate) fn is_active(key: u64) -> bool {
    ACTIVE.try_with(|active| active.borrow().contains(&key)).unwrap_or(false)
}

/// A loop of one controller on this thread, until dropped.
#[derive(Debug)]
pub(crate) struct Active {
    /// What is to be delivered.
    pub(crate) turns: Vec<Turn>,
    /// Of which batches these are, and where among them each ends.
    pub(crate) batches: Vec<(Kind, usize)>,
    /// The slots of those whose sleep is over.
    pub(crate) woken: Vec<u32>,
    /// Whether this is the alarm's own thread, which may dispatch for as long as it likes.
    pub(crate) is_alarm: bool,
}

impl Active {
    /// Begins the loop, unless it runs already.
    pub(crate) fn enter(key: u64) -> Option<Self> {
        let enter = |active: &RefCell<Vec<u64>>| {
            let mut active = active.borrow_mut();
            let is_first = !active.contains(&key);
            if is_first {
                active.push(key);
            }
            is_first
        };
        // The list is gone in a thread that is ending, which has no call-back below it.
        if !ACTIVE.try_with(enter).unwrap_or(true) {
            return None;
        }
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        let Buffers { turns, batches, woken } = spare.unwrap_or_default();
        Some(Self { turns, batches, woken, is_alarm: false })
    }

    /// The turns since the last batch are one, unless all of them are waited for.
    pub(crate) fn end_batch(&mut self, kind: Kind) {
        self.batches.push((kind, self.turns.len()));
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        // Both fail only in a thread that is ending, whose lists are gone.
        _ = ACTIVE.try_with(|active| active.borrow_mut().pop());
        let mut turns = core::mem::take(&mut self.turns);
        let mut batches = core::mem::take(&mut self.batches);
        let mut woken = core::mem::take(&mut self.woken);
        turns.clear();
        batches.clear();
        woken.clear();
        let buffers = Buffers { turns, batches, woken };
        _ = SPARE.try_with(|spare| spare.borrow_mut().push(buffers));
    }
}
