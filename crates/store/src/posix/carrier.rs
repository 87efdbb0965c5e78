//! Who carries calls out without making the caller wait: io_uring or threads.

use std::os::fd::BorrowedFd;

use forebay_engine::store::Io;

use super::work::Work;

/// Takes works on and finishes them in any order.
pub(super) trait Carrier: Send + std::fmt::Debug {
    /// The name, for reports.
    fn name(&self) -> &'static str;

    /// Takes a work on; whoever gathers waits for [`flush`](Self::flush).
    fn start(&mut self, work: Work);

    /// Passes on what was gathered.
    fn flush(&mut self) {}

    /// Appends finished calls; never waits.
    fn take_finished(&mut self, finished: &mut Vec<Io>);

    /// Readable when something has finished.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Whether [`take_finished`](Self::take_finished) should be called without waiting for the descriptor.
    fn is_ready(&self) -> bool {
        false
    }
}
