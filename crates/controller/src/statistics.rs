//! Statistics: read under the lock if it is free, else published by whoever has it.

use core::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use forebay_sched::Stats;

use crate::active::Active;
use crate::controller::Controller;
use crate::error::Error;
use crate::locked::Locked;
use crate::ring::Operation;
use crate::waiting::Place;

/// The state of a controller at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The policy in charge.
    pub policy: &'static str,
    /// What the scheduler has counted since it was made.
    pub scheduler: Stats,
    /// Requests that wait, those included that wait for conflicting ones.
    pub queued_count: usize,
    /// Of them, those that wait for conflicting ones.
    pub blocked_count: usize,
    /// Requests dispatched and not completed.
    pub in_flight_count: usize,
    /// Files that have a number: live ones, and idle ones that are remembered.
    pub files_count: usize,
}

/// The snapshot that was published last.
#[derive(Debug, Default)]
pub(crate) struct Published {
    latest: Mutex<(u64, Option<Arc<Snapshot>>)>,
    place: Place,
}

impl Published {
    pub(crate) fn set(&self, snapshot: Snapshot) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = (latest.0 + 1, Some(Arc::new(snapshot)));
    }

    pub(crate) fn announce(&self) {
        self.place.wake();
    }

    fn latest(&self) -> (u64, Option<Arc<Snapshot>>) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Locked {
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            policy: self.scheduler.policy_name(),
            scheduler: self.scheduler.stats(),
            queued_count: self.scheduler.queued_count(),
            blocked_count: self.scheduler.blocked_count(),
            in_flight_count: self.scheduler.in_flight_count(),
            files_count: self.files.count(),
        }
    }

    /// Whether no request is alive.
    pub(crate) fn is_quiet(&self) -> bool {
        self.scheduler.queued_count() + self.scheduler.in_flight_count() == 0
    }
}

impl Controller {
    /// The state now. Never waits for the lock: while another thread has it, that one is asked to
    /// publish the state as it lets go.
    ///
    /// # Errors
    /// Only those of every call: [`Error::Forked`], [`Error::Broken`].
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        let mut active = Active::enter(shared.slots.key());
        let (seen, _) = shared.published.latest();
        loop {
            if let Some(mut locked) = shared.try_lock()? {
                let now = shared.now();
                let has_taken = locked.take_along(shared, now) > 0;
                let snapshot = Arc::new(locked.snapshot());
                match &mut active {
                    Some(active) => {
                        let decided = self.decide(&mut locked, now, active);
                        self.go_on(locked, now, decided, active)?;
                    }
                    None => self.leave_to_loop(locked, now, has_taken),
                }
                return Ok(snapshot);
            }
            let Some(claim) = shared.ring.claim() else {
                thread::yield_now();
                continue;
            };
            claim.publish(&Operation::Publish);
            match &mut active {
                Some(active) => self.pump(active)?,
                // The holder of the lock looks into the ring once more; without one, go and look.
                None => {
                    fence(Ordering::SeqCst);
                    if let Some(locked) = shared.try_lock()? {
                        self.leave_to_loop(locked, shared.now(), true);
                        continue;
                    }
                }
            }
            let newer = shared.published.place.sleep(None, || {
                let (number, snapshot) = shared.published.latest();
                (number > seen).then_some(snapshot).flatten()
            });
            return newer.ok_or(Error::Broken);
        }
    }
}
