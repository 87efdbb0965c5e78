//! How often and how much a piece of code allocates on its own thread.
#![allow(dead_code, reason = "each test uses one half")]

mod sys;

/// Runs `work` and counts the allocations that this thread made in it.
pub(crate) fn allocations_during(work: impl FnOnce()) -> u64 {
    let before = sys::allocations();
    work();
    sys::allocations() - before
}

/// What `work` returned, and how many bytes more are in use after it.
pub(crate) fn bytes_kept_by<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = sys::bytes();
    let kept = work();
    (kept, sys::bytes() - before)
}
