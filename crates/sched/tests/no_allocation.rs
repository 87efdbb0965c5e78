//! In steady state the scheduler allocates nothing, under any policy and guard mode.

mod counting;

use forebay_sched::{
    Access, Batch, Bypass, Cancellation, ClassOptions, Decision, GuardMode, PolicyName,
    PolicySettings, Request, Room, Scheduler, SchedulerOptions, build, source,
};
use forebay_stats::LedgerOptions;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Offset, Timestamp};

/// Random requests of all kinds, of which a constant number waits.
struct Load {
    scheduler: Scheduler,
    batch: Batch,
    now: Timestamp,
    random: u64,
    classes: u32,
}

impl Load {
    fn random(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn request(&mut self) -> Request {
        let access = match self.random(40) {
            0 => Access::Alone,
            1 => Access::Sync,
            2..10 => Access::Write,
            _ => Access::Read,
        };
        let range =
            ByteRange::new(Offset(self.random(4_000) * 4096), Bytes((1 + self.random(4)) * 4096));
        let (file, client) = (FileIndex(self.random(8) as u32), ClientId(self.random(8) as u32));
        Request { tag: 0, file, access, range, client, class: ClassId(client.0 % self.classes) }
    }

    /// Adds one request; one in sixteen is cancelled at once and replaced.
    fn submit(&mut self) {
        loop {
            let request = self.request();
            let admission = self.scheduler.submit(self.now, request, Room::Full);
            let id = admission.expect("the queue is long enough").id();
            if self.random(16) > 0 {
                return;
            }
            assert_eq!(self.scheduler.cancel(self.now, id), Cancellation::Cancelled);
        }
    }

    /// Completes `count` requests and replaces each by another.
    fn turn_over(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            self.now.0 += 1_000;
            let mut batch = std::mem::take(&mut self.batch);
            match self.scheduler.next(self.now, &mut batch) {
                Decision::Dispatch => {}
                Decision::Wait { until } => self.now = until,
                Decision::Idle => unreachable!("what is in flight is completed at once"),
            }
            for member in batch.members() {
                self.scheduler
                    .complete(self.now, member.id, member.request.range.length())
                    .expect("it is in flight");
                self.submit();
                left = left.saturating_sub(1);
            }
            self.batch = batch;
        }
    }
}

/// Without sharing if `classes` is 1; with sharing a ledger is kept too.
fn allocations(policy: PolicyName, guard: GuardMode, classes: u32) -> u64 {
    let options = SchedulerOptions {
        guard,
        bypass: Bypass::Never,
        large_bytes: Some(Bytes(12_288)),
        queue_requests_max: 4096,
    };
    let settings = PolicySettings::default();
    let mut scheduler = match classes {
        1 => Scheduler::new(options, build(policy, &settings)),
        _ => Scheduler::with_classes(options, ClassOptions::default(), source(policy, &settings)),
    };
    if classes > 1 {
        scheduler.keep_ledger(LedgerOptions::default());
    }
    let mut load = Load { scheduler, batch: Batch::new(), now: Timestamp(0), random: 7, classes };
    // The high-water mark first, then a smaller load: pools, maps and queues have seen the worst.
    (0..2_048).for_each(|_| load.submit());
    load.turn_over(15_000);
    let mut drained = Vec::new();
    load.scheduler.drain(&mut drained);
    (0..512).for_each(|_| load.submit());
    load.turn_over(2_000);
    counting::allocations_during(|| load.turn_over(10_000))
}

#[test]
fn no_policy_allocates_in_steady_state() {
    for policy in PolicyName::ALL {
        assert_eq!(allocations(policy, GuardMode::Overlap, 1), 0, "{policy}");
    }
}

#[test]
fn no_guard_mode_allocates_in_steady_state() {
    for guard in GuardMode::ALL {
        assert_eq!(allocations(PolicyName::To, guard, 1), 0, "guard {guard}");
    }
}

#[test]
fn neither_classes_nor_the_ledger_allocate_in_steady_state() {
    for policy in [PolicyName::To, PolicyName::Aioli] {
        assert_eq!(allocations(policy, GuardMode::Overlap, 4), 0, "{policy}");
    }
}
