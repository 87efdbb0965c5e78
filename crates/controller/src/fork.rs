//! Which process this is: a controller made before a fork is of no use in the child.
//!
//! Threads, and whatever lock one of them held, stay behind in the parent. A handler counts forks
//! in the child, which is cheaper to ask at every call than the process id.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;

use crate::sys;

/// Forks between this process and the one that loaded the library, as far as handlers ran.
static FORKS: AtomicU32 = AtomicU32::new(0);
static HANDLER: Once = Once::new();

/// The process that made something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker {
    forks: u32,
}

impl Maker {
    pub(crate) fn this_process() -> Self {
        HANDLER.call_once(|| sys::run_in_forked_child(count_fork));
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    pub(crate) fn is_this_process(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }
}

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
