//! Statistics: read under the lock if it is free, else published by whoever has it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use forebay_sched::{ClassStats, Fault, Stats};
use forebay_units::Timestamp;

use crate::active::Active;
use crate::controller::Controller;
use crate::error::Error;
use crate::locked::Locked;
use crate::ring::Operation;
use crate::waiting::Place;

/// How much a snapshot is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Counters and gauges: some hundred bytes.
    Counters = 0,
    /// Every class, and the accounts if they are kept: up to megabytes, copied while nothing else moves.
    Accounts = 1,
}

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
    /// What a policy from outside did wrong, for which TO has taken its place.
    pub policy_fault: Option<Fault>,
    /// Every class that is known; only with [`Detail::Accounts`], and with classes.
    pub classes: Vec<ClassStats>,
    /// Accounts by class and by file; only with [`Detail::Accounts`], and if they are kept.
    pub accounts: Option<forebay_stats::Snapshot>,
    /// When it was taken, on the controller's own clock, which starts at 0.
    pub taken: Timestamp,
    detail: Detail,
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
    pub(crate) fn snapshot(&self, now: Timestamp, detail: Detail) -> Snapshot {
        let counted = self.scheduler.stats();
        let all = (detail == Detail::Accounts).then_some(&self.scheduler);
        Snapshot {
            policy: self.scheduler.policy_name(),
            scheduler: Stats { rejected: counted.rejected + self.refused, ..counted },
            queued_count: self.scheduler.queued_count(),
            blocked_count: self.scheduler.blocked_count(),
            in_flight_count: self.scheduler.in_flight_count(),
            files_count: self.files.count(),
            policy_fault: self.scheduler.policy_fault(),
            classes: all.iter().flat_map(|scheduler| scheduler.classes(now)).collect(),
            accounts: all.and_then(|scheduler| scheduler.snapshot(now)),
            taken: now,
            detail,
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
    pub fn snapshot(&self, detail: Detail) -> Result<Arc<Snapshot>, Error> {
        let shared = &*self.shared;
        shared.check_process()?;
        let mut active = Active::enter(shared.slots.key());
        let (seen, _) = shared.published.latest();
        loop {
            if let Some(mut locked) = shared.try_lock()? {
                let now = locked.now(shared);
                let has_taken = locked.take_along(shared, now) > 0;
                let snapshot = Arc::new(locked.snapshot(now, detail));
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
            // Inside a call-back, followers are seen to below: the lock is tried.
            claim.publish(&Operation::Publish(detail));
            match &mut active {
                Some(active) => self.pump(active)?,
                // The holder of the lock looks into the ring once more; without one, go and look.
                None => {
                    if let Some(mut locked) = shared.try_lock()? {
                        let now = locked.now(shared);
                        self.leave_to_loop(locked, now, true);
                        continue;
                    }
                }
            }
            let newer = shared.published.place.sleep(None, || {
                let (number, snapshot) = shared.published.latest();
                let newer = snapshot.filter(|snapshot| number > seen && snapshot.detail >= detail);
                let newer = newer.map(Ok);
                newer.or_else(|| shared.is_broken().then_some(Err(Error::Broken)))
            });
            // Without a time to wake at, it sleeps until there is something.
            return newer.unwrap_or(Err(Error::Broken));
        }
    }
}
