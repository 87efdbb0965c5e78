//! Tests of `aioli`.

use super::*;
use crate::policy::Kept;
use crate::request::{Access, Request, RequestId};
use forebay_units::{ClassId, ClientId};

#[test]
fn a_change_of_the_quantum_keeps_growth_monotone_and_needs_in_order() {
    let mut growth = Growth { earned: 0, at_step: 0, quantum_bytes: 32 << 10 };
    let needs = [1, 4 << 10, 5 << 10, 1 << 20, 1 << 30];
    let mut earned = 0;
    for (step, quantum_bytes) in [(3, 64 << 10), (3, 4 << 10), (10, 1 << 20), (500, 4 << 10)] {
        assert!(growth.at(step) >= earned);
        earned = growth.at(step);
        growth.change(step, quantum_bytes);
        assert_eq!(growth.at(step), earned, "a change by itself earns nothing");
        assert!(needs.map(|need| growth.step_of(need)).is_sorted());
        for need in needs.into_iter().filter(|need| *need > earned) {
            let due = growth.step_of(need);
            assert!(growth.at(due) >= need && growth.at(due - 1) < need);
        }
    }
}

#[test]
fn the_quantum_stays_in_its_range() {
    let settings = AioliSettings::default();
    let limits = Limits::default();
    let mut policy = Aioli::new(&limits, settings);
    let request = Request {
        tag: 0,
        file: FileIndex(0),
        access: Access::Read,
        range: ByteRange::new(Offset(0), Bytes(4096)),
        client: ClientId(0),
        class: ClassId(0),
    };
    let request = Accepted { id: RequestId(0), seq: 0, arrived: Timestamp(0), request };
    let mut kept = Kept::default();
    kept.keep(&request);
    policy.add(Timestamp(0), &kept.requests(), &request);
    let queue = policy.runs.queue_of(&request.request).expect("it was added");
    for (used, quantum) in [(1, 1), (0, 1 << 20), (1 << 20, 1 << 20), (6, 10)].repeat(20) {
        let next = policy.adapted(queue, used, quantum, 1);
        assert!((settings.quantum_bytes_min.0..=limits.run_bytes_max.0).contains(&next));
        policy.runs.queue_note_mut(queue).growth.change(0, next);
    }
}
