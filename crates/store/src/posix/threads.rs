//! The carrier for where io_uring is forbidden: a fixed number of threads that make blocking calls.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use forebay_engine::store::Io;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::blocking;
use super::carrier::Carrier;
use super::work::Work;

/// Threads, as many as calls make sense at once. Dropping it ends them after the calls they are in.
#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when there is work or the end.
    changed: Condvar,
    finished: Mutex<Vec<Io>>,
    /// Readable exactly while `finished` has something; changed under its lock.
    signal: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    works: VecDeque<Work>,
    is_closed: bool,
}

impl Threads {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// What `eventfd(2)` or the making of a thread says.
    pub(super) fn new(count: usize) -> Result<Self, Errno> {
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            finished: Mutex::default(),
            signal,
        });
        let mut threads = Self { shared, threads: Vec::with_capacity(count) };
        for number in 0..count {
            let shared = Arc::clone(&threads.shared);
            let builder = std::thread::Builder::new().name(format!("store-{number}"));
            let thread = builder.spawn(move || shared.carry_out()).map_err(|error| {
                error.raw_os_error().map_or(Errno::AGAIN, Errno::from_raw_os_error)
            })?;
            threads.threads.push(thread);
        }
        Ok(threads)
    }
}

impl Shared {
    /// A thread's life: one work after the other until the end.
    fn carry_out(&self) {
        while let Some(mut work) = self.next_work() {
            blocking::finish(&mut work);
            let mut finished = lock(&self.finished);
            if finished.is_empty() {
                // An eventfd at 0 takes a 1 without fail.
                let _ = rustix::io::write(&self.signal, &1u64.to_ne_bytes());
            }
            finished.push(work.io);
        }
    }

    fn next_work(&self) -> Option<Work> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(work) = queue.works.pop_front() {
                return Some(work);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Nothing panics while it holds one of these locks, so what a poisoned one guards is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Carrier for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn start(&mut self, work: Work) {
        lock(&self.shared.queue).works.push_back(work);
        self.shared.changed.notify_one();
    }

    fn take_finished(&mut self, taken: &mut Vec<Io>) {
        let mut finished = lock(&self.shared.finished);
        if !finished.is_empty() {
            let _ = rustix::io::read(&self.shared.signal, &mut [0; 8]);
            taken.append(&mut finished);
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.signal.as_fd()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.shared.queue).is_closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on its own.
            let _ = thread.join();
        }
    }
}
