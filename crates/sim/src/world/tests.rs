//! What clients ask for does not hang on the policy.

use alloc::collections::BTreeMap;

use forebay_sched::PolicyName;

use super::*;
use crate::scenario::{Job, Operation, Order};

/// What a request is, by client and number.
type Requests = BTreeMap<(u32, u32), (Access, ByteRange)>;

/// All requests under a policy, in the order in which they were made, and how many failed.
fn requests(scenario: &Scenario, policy: PolicyName) -> (Requests, u64, u64) {
    let mut world = World::new(scenario, Workload::from_jobs(&scenario.jobs), &policy.into(), 3);
    let mut requests = Requests::new();
    while world.advance(1) {
        let asking = world.requests.iter().map(|(_, it)| it);
        requests
            .extend(asking.map(|it| ((it.client, it.number), (it.asked.access, it.asked.range))));
    }
    let job = &world.tally.applications[0];
    (requests, job.failed, world.now.0)
}

#[test]
fn every_policy_has_the_same_clients_however_many_requests_they_have_under_way() {
    let mut scenario = Scenario::default();
    scenario.faults.fail_permille = 50;
    scenario.jobs.push(Job {
        operation: Operation::Mixed,
        order: Order::Random,
        window: 4,
        think_jitter: Nanos::millis(3),
        ..Job::default()
    });
    let (first, failed, ended) = requests(&scenario, PolicyName::To);
    assert_eq!((first.len(), failed > 0), (8 * 64, true));
    for policy in [PolicyName::Sjf, PolicyName::Aioli, PolicyName::Hbrr] {
        let (others, others_failed, others_ended) = requests(&scenario, policy);
        assert_eq!((&first, failed), (&others, others_failed), "{policy}");
        assert_ne!(ended, others_ended, "{policy} has an order of its own");
    }
}
