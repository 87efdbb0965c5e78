//! What the selector costs: a request through it, and a decision at the end of an epoch.
//!
//! Real time, the best of some rounds: whatever else the machine does only adds.

use std::time::Instant;

use forebay_prior::default_tree;
use forebay_sched::{Access, Request};
use forebay_select::{Auto, AutoOptions};
use forebay_sim::device_profile;
use forebay_train::{Device, situation};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

use crate::report::{Report, Row};

const ROUNDS: usize = 15;
const REQUESTS: u64 = 20_000;
const CLIENTS: u32 = 32;
const LENGTH: u64 = 8 << 10;

/// Adds both.
pub(super) fn report(report: &mut Report) {
    let (mut request, mut epoch) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        let (of_request, of_epoch) = round();
        request = request.min(of_request);
        epoch = epoch.min(of_epoch);
    }
    report.rows.push(Row::median("request", "ns", &[], &[request]));
    report.rows.push(Row::median("epoch", "us", &[], &[epoch / 1000.0]));
    report.ratio("overhead_ns_per_request", Some(request));
    report.ratio("overhead_us_per_epoch", Some(epoch / 1000.0));
}

/// Nanoseconds of a request (submitted, dispatched, ended, no decision due), and of the longest
/// decision.
fn round() -> (f64, f64) {
    let device = device_profile(&Device::paper()[0].profile);
    let mut auto = Auto::new(AutoOptions {
        device,
        tree: default_tree(),
        stripe: situation::STRIPE,
        by_class: false,
        wait_max: Nanos::micros(900),
    });
    let requests: Vec<Request> = (0..REQUESTS).map(strided).collect();
    let begin = Instant::now();
    let mut time_of_decisions = 0.0;
    let mut longest = 0.0_f64;
    for (number, request) in requests.iter().enumerate() {
        let now = Timestamp(number as u64 * 100_000);
        auto.submitted(now, request);
        auto.dispatched(now, request.class, 1);
        auto.ended(now + Nanos::micros(50), request, Bytes(LENGTH), true);
        // Decisions are timed for themselves; there are few of them.
        if number % 256 == 255 {
            let begin = Instant::now();
            while auto.decide(now).is_some() {}
            let elapsed = begin.elapsed().as_nanos() as f64;
            longest = longest.max(elapsed);
            time_of_decisions += elapsed;
        }
    }
    let all = begin.elapsed().as_nanos() as f64;
    ((all - time_of_decisions) / REQUESTS as f64, longest)
}

/// Processes that read a file in turns.
fn strided(number: u64) -> Request {
    Request {
        file: FileIndex(0),
        access: Access::Read,
        range: ByteRange::new(Offset(number * LENGTH), Bytes(LENGTH)),
        class: ClassId(0),
        client: ClientId((number % u64::from(CLIENTS)) as u32),
        tag: number,
    }
}
