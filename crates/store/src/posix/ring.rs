//! The carrier by io_uring: many calls passed on with one system call, no threads of ours.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use forebay_engine::store::Io;
use rustix::io::Errno;

use super::blocking;
use super::carrier::Carrier;
use super::sys::Ring;
use super::work::{Next, Work};

/// Works before, in and after the ring.
#[derive(Debug)]
pub(super) struct RingCarrier {
    ring: Ring,
    /// Works whose next step is not yet in the ring.
    gathered: VecDeque<Work>,
    /// Whether a flush would get something into the kernel now.
    is_flush_due: bool,
    /// Calls that are over but not yet taken.
    finished: Vec<Io>,
}

impl RingCarrier {
    /// A ring with room for `depth` calls between two flushes.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` where io_uring is absent or forbidden, `EOPNOTSUPP` where it is too old.
    pub(super) fn new(depth: usize) -> Result<Self, Errno> {
        let ring = Ring::new(depth)?;
        Ok(Self { ring, gathered: VecDeque::new(), is_flush_due: false, finished: Vec::new() })
    }

    fn gather(&mut self, mut work: Work) {
        if self.ring.supports(work.step()) {
            self.gathered.push_back(work);
            self.is_flush_due = true;
        } else {
            blocking::finish(&mut work);
            self.finished.push(work.io);
        }
    }

    /// Takes what the ring has finished; steps that have to follow are gathered.
    fn reap(&mut self) {
        while let Some((mut work, result)) = self.ring.pop() {
            // Its place is free for one that waits.
            self.is_flush_due |= !self.gathered.is_empty();
            match work.advance(result) {
                Next::Step => self.gather(work),
                Next::Finished => self.finished.push(work.io),
            }
        }
    }
}

impl Carrier for RingCarrier {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn start(&mut self, mut work: Work) {
        match work.begin() {
            Next::Step => self.gather(work),
            Next::Finished => self.finished.push(work.io),
        }
    }

    fn flush(&mut self) {
        self.is_flush_due = false;
        loop {
            while self.ring.has_room() {
                let Some(work) = self.gathered.pop_front() else { break };
                self.ring.push(work);
            }
            if !self.ring.submit() {
                self.is_flush_due = true;
                break;
            }
            if self.gathered.is_empty() || !self.ring.has_room() {
                break;
            }
        }
        // What the page cache could serve is finished already: it need not wait for a poll.
        self.reap();
    }

    fn take_finished(&mut self, finished: &mut Vec<Io>) {
        self.reap();
        if self.is_flush_due {
            self.flush();
        }
        finished.append(&mut self.finished);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.descriptor()
    }

    fn is_ready(&self) -> bool {
        !self.finished.is_empty() || self.is_flush_due
    }
}
