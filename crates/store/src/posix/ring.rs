//! The carrier by io_uring: many calls passed on with one system call, no threads of ours.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use forebay_engine::store::Io;
use rustix::io::Errno;

use super::blocking;
use super::carrier::Carrier;
use super::sys::{Pushed, Ring};
use super::work::{Next, Work};

/// Works before, in and after the ring.
#[derive(Debug)]
pub(super) struct RingCarrier {
    ring: Ring,
    /// Works whose next step is not yet in the ring.
    gathered: VecDeque<Work>,
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
        Ok(Self { ring, gathered: VecDeque::new(), finished: Vec::new() })
    }

    /// Takes what the ring has finished; steps that have to follow are gathered.
    fn reap(&mut self) {
        while let Some((mut work, result)) = self.ring.pop() {
            match work.advance(result) {
                Next::Step => self.gathered.push_back(work),
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
            Next::Step => self.gathered.push_back(work),
            Next::Finished => self.finished.push(work.io),
        }
    }

    fn flush(&mut self) {
        while let Some(work) = self.gathered.pop_front() {
            match self.ring.push(work) {
                Pushed::Taken => continue,
                Pushed::Unsupported(mut work) => {
                    blocking::finish(&mut work);
                    self.finished.push(work.io);
                }
                Pushed::Full(work) => {
                    self.gathered.push_front(work);
                    if !self.ring.submit() {
                        break;
                    }
                }
            }
        }
        self.ring.submit();
        // What the page cache could serve is finished already: it need not wait for a poll.
        self.reap();
    }

    fn take_finished(&mut self, finished: &mut Vec<Io>) {
        self.reap();
        if !self.gathered.is_empty() || self.ring.has_unsubmitted() {
            self.flush();
        }
        finished.append(&mut self.finished);
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ring.descriptor()
    }

    fn is_ready(&self) -> bool {
        !self.finished.is_empty() || !self.gathered.is_empty()
    }
}
