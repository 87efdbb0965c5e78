//! A controller that writes down what it dispatches.

use std::sync::{Arc, Mutex};

use forebay_controller::{Batch, Controller, Delivery, FileKey, Options, Submission, Ticket, Turn};
use forebay_sched::{Access, PolicyName, PolicySettings, SchedulerOptions, build};
use forebay_units::{Bytes, Offset};

/// What was dispatched, batch by batch.
pub(crate) type Log = Arc<Mutex<Vec<Vec<Turn>>>>;

pub(crate) const KIB: u64 = 1_024;

pub(crate) fn file(low: u64) -> FileKey {
    FileKey { high: 1, low }
}

pub(crate) fn read(id: u64, low: u64, offset: u64) -> Submission {
    Submission::new(id, file(low), Access::Read, Offset(offset), Bytes(8 * KIB))
}

pub(crate) fn write(id: u64, low: u64, offset: u64) -> Submission {
    Submission::new(id, file(low), Access::Write, Offset(offset), Bytes(8 * KIB))
}

pub(crate) fn options(depth: usize, queue: usize) -> Options {
    let scheduler = SchedulerOptions { queue_requests_max: queue, ..SchedulerOptions::default() };
    Options { scheduler, depth, ..Options::default() }
}

pub(crate) fn controller(policy: PolicyName, options: &Options, delivery: Delivery) -> Controller {
    Controller::new(options, build(policy, &PolicySettings::default()), delivery).unwrap()
}

/// A controller whose call-back only writes down; its requests stay in flight.
pub(crate) fn logging(policy: PolicyName, options: &Options) -> (Controller, Log) {
    let log = Log::default();
    let writes = Arc::clone(&log);
    let call_back = move |_: &Controller, batch: &Batch<'_>| {
        writes.lock().unwrap().push(batch.turns.to_vec());
    };
    (controller(policy, options, Delivery::CallBack(Box::new(call_back))), log)
}

/// The marks of what was dispatched, batch by batch.
pub(crate) fn ids(log: &Log) -> Vec<Vec<u64>> {
    log.lock().unwrap().iter().map(|batch| batch.iter().map(|turn| turn.id).collect()).collect()
}

pub(crate) fn ticket(log: &Log, id: u64) -> Ticket {
    let log = log.lock().unwrap();
    let mut turns = log.iter().flatten();
    turns.find(|turn| turn.id == id).expect("the request was dispatched").ticket
}
