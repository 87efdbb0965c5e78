//! How often a piece of code allocates on its own thread.

mod sys;

/// Runs `work` and counts the allocations that this thread made in it.
pub(crate) fn allocations_during(work: impl FnOnce()) -> u64 {
    let before = sys::allocations();
    work();
    sys::allocations() - before
}
