//! Statistics: read under the lock if it is free, else published by whoever has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use forebay_sched::{ClassStats, Fault, Stats};
use forebay_select::Why;
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
    /// Every class, why the policy was chosen, and the accounts if they are kept. Rows are shared, not
    /// copied, but each is looked at, and so is each live request, while nothing else moves.
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
    /// Why the policy is what it is; only with [`Detail::Accounts`], and if it is chosen.
    pub why: Option<Why>,
    /// When it was taken, on the controller's own clock, which starts at 0.
    pub taken: Timestamp,
    detail: Detail,
}

/// The snapshot that was published last, while somebody waits for one.
#[derive(Debug, Default)]
pub(crate) struct Published {
    latest: Mutex<Latest>,
    place: Place,
}

#[derive(Debug, Default)]
struct Latest {
    number: u64,
    snapshot: Option<Arc<Snapshot>>,
    readers: usize,
}

impl Published {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the one before, to be dropped without the lock: that frees every row's account.
    pub(crate) fn set(&self, snapshot: Snapshot) -> Option<Arc<Snapshot>> {
        let mut latest = self.latest();
        latest.number += 1;
        if latest.readers == 0 {
            // Who had asked for it was served meanwhile; it must not stay, unread.
            return Some(Arc::new(snapshot));
        }
        latest.snapshot.replace(Arc::new(snapshot))
    }

    pub(crate) fn announce(&self) {
        self.place.wake();
    }

    /// Begins to wait for the next one.
    fn reader(&self) -> Reader<'_> {
        let mut latest = self.latest();
        latest.readers += 1;
        Reader { of: self, seen: latest.number }
    }
}

/// Somebody who waits for a snapshot. With the last one the snapshot goes: accounts that nobody
/// reads need not be copied when they change.
struct Reader<'a> {
    of: &'a Published,
    seen: u64,
}

impl Reader<'_> {
    fn newer(&self, detail: Detail) -> Option<Arc<Snapshot>> {
        let latest = self.of.latest();
        let newer = latest.snapshot.as_ref().filter(|_| latest.number > self.seen);
        newer.filter(|snapshot| snapshot.detail >= detail).cloned()
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let mut latest = self.of.latest();
        latest.readers -= 1;
        let unread = if latest.readers == 0 { latest.snapshot.take() } else { None };
        drop(latest);
        drop(unread);
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
            why: all.and(self.selection.as_ref()).and_then(|selection| selection.why(now)),
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
        let reader = shared.published.reader();
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
                let newer = reader.newer(detail).map(Ok);
                newer.or_else(|| shared.is_broken().then_some(Err(Error::Broken)))
            });
            // Without a time to wake at, it sleeps until there is something.
            return newer.unwrap_or(Err(Error::Broken));
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_sched::{PolicyName, PolicySettings, build};

    use super::*;
    use crate::operation::Delivery;
    use crate::options::Options;

    #[test]
    fn what_was_published_goes_with_the_last_who_reads_it() {
        let policy = build(PolicyName::To, &PolicySettings::default());
        let controller = Controller::new(&Options::default(), policy, Delivery::Poll).unwrap();
        let shared = &controller.shared;
        let published = &shared.published;
        let snapshot = |detail| {
            let (locked, now, _) = shared.lock_in_turn().unwrap();
            locked.snapshot(now, detail)
        };
        let (first, second) = (published.reader(), published.reader());
        assert!(published.set(snapshot(Detail::Counters)).is_none());
        assert!(first.newer(Detail::Counters).is_some());
        assert!(first.newer(Detail::Accounts).is_none(), "that is not enough");
        assert!(published.set(snapshot(Detail::Accounts)).is_some(), "freed without the lock");
        let read = first.newer(Detail::Accounts).unwrap();
        drop(first);
        assert!(second.newer(Detail::Accounts).is_some(), "another one still waits");
        assert!(published.reader().newer(Detail::Counters).is_none(), "it was there before");
        drop(second);
        assert_eq!(Arc::strong_count(&read), 1);
        assert!(published.set(snapshot(Detail::Accounts)).is_some(), "nobody reads it any more");
        assert!(published.latest().snapshot.is_none());
    }
}
