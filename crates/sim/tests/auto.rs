//! Selectors beside real schedulers in virtual time.

use std::sync::Arc;

use forebay_sched::PolicyName::{self, Aioli, Sjf, To, ToAgg};
use forebay_select::{Feature, Leaf, Node, SwitchReason, Tree};
use forebay_sim::scenario::{Faults, FileUse, Forwarder, Job, Operation, Order, Phase, Sharing};
use forebay_sim::{Automatic, Choice, Outcome, Scenario, Simulation, run};
use forebay_units::{Bytes, Nanos, Timestamp};

fn leaf(policy: PolicyName, speedups: &[(PolicyName, f64)]) -> Node {
    let mut log_speedups = vec![(To, 0.0)];
    log_speedups.extend(speedups.iter().map(|(policy, speedup)| (*policy, speedup.ln())));
    Node::Leaf(Leaf { policy, log_speedups, support: 10 })
}

fn auto(nodes: Vec<Node>) -> Choice {
    Choice::Auto(Automatic::new(Arc::new(Tree::new(nodes).expect("it is a tree"))))
}

/// A tree of one leaf.
fn stump(policy: PolicyName, speedups: &[(PolicyName, f64)]) -> Choice {
    auto(vec![leaf(policy, speedups)])
}

/// A tree that knows nothing.
fn ignorant() -> Choice {
    stump(To, &[(Sjf, 1.0), (Aioli, 1.0), (ToAgg, 1.0)])
}

/// 32 synchronous readers of one file in strides.
fn strided(device: &str, request: Bytes, requests: u32) -> Scenario {
    let mut scenario = Scenario { name: "strided".into(), ..Scenario::default() };
    scenario.servers.device = forebay_device::Profile::by_name(device).expect("it is known");
    scenario.servers.noise_percent = 5;
    scenario.jobs.push(Job {
        clients: 32,
        request,
        requests,
        think: Nanos::micros(20),
        think_jitter: Nanos::micros(40),
        ..Job::default()
    });
    scenario
}

fn outcome(scenario: &Scenario, choice: impl Into<Choice>) -> Outcome {
    run(scenario, choice, 1).expect("the scenario is valid")
}

fn share(outcome: &Outcome, policy: PolicyName) -> f64 {
    let times = &outcome.nodes[0].policy_ns;
    let own = times.get(policy.as_str()).copied().unwrap_or_default();
    own as f64 / times.values().sum::<u64>() as f64
}

#[test]
fn clients_whose_queue_a_policy_empties_by_merging_are_no_light_load() {
    for (device, request, requests) in [
        ("hdd-57", Bytes::kib(4), 2000),
        ("hdd-57", Bytes::kib(64), 200),
        ("ssd", Bytes::kib(4), 4000),
    ] {
        let scenario = strided(device, request, requests);
        let best = outcome(&scenario, Sjf).makespan_ns as f64;
        for policy in [Sjf, Aioli] {
            let chosen = outcome(&scenario, stump(policy, &[(policy, 2.0)]));
            assert!(share(&chosen, policy) > 0.95, "{:?}", chosen.nodes[0].policy_ns);
            let ratio = best / chosen.makespan_ns as f64;
            assert!(ratio > 0.95, "{device} {request:?} {policy}: {ratio}");
        }
    }
}

#[test]
fn one_process_alone_has_time_order() {
    let mut scenario = strided("hdd-57", Bytes::kib(64), 4000);
    scenario.jobs[0].clients = 1;
    let chosen = outcome(&scenario, stump(Aioli, &[(Aioli, 2.0)]));
    assert!(share(&chosen, To) > 0.9, "{:?}", chosen.nodes[0].policy_ns);
    let plain = outcome(&scenario, To);
    assert!(chosen.makespan_ns as f64 <= plain.makespan_ns as f64 * 1.02);
}

#[test]
fn without_any_knowledge_it_is_faster_than_to_all_the_same() {
    let scenario = strided("edel", Bytes::kib(4), 8000);
    let (plain, chosen) = (outcome(&scenario, To), outcome(&scenario, ignorant()));
    let ratio = plain.makespan_ns as f64 / chosen.makespan_ns as f64;
    assert!(ratio > 2.0, "{ratio}: {:?}", chosen.nodes[0].policy_ns);
}

#[test]
fn every_phase_has_the_policy_of_its_pattern() {
    let mut scenario = strided("edel", Bytes::kib(16), 8000);
    scenario.jobs[0].phases = vec![
        Phase { requests: 2000, ..Phase::default() },
        Phase {
            requests: 2000,
            operation: Some(Operation::Write),
            file: Some(FileUse::PerProcess),
            order: Some(Order::Contiguous),
            ..Phase::default()
        },
    ];
    let split = Node::Split { feature: Feature::IsRead, threshold: 0.5, below: 1, above: 2 };
    let tree = vec![split, leaf(ToAgg, &[(ToAgg, 1.3), (Sjf, 1.1)]), leaf(Sjf, &[(Sjf, 2.0)])];
    let mut simulation = Simulation::new(&scenario, auto(tree), 1).expect("it is valid");
    let mut seen = Vec::new();
    let mut at = 0;
    while simulation.advance_until(Timestamp(at)) {
        at += 50_000_000;
        let (_, selector) = simulation.selectors().next().expect("the server has one");
        let why = selector.why(Timestamp(at)).remove(0);
        let is_trial = [SwitchReason::Explore, SwitchReason::LightLoad].contains(&why.reason);
        if !is_trial && why.leaf.is_some() && seen.last() != Some(&why.policy) {
            seen.push(why.policy);
        }
    }
    assert_eq!(seen, [Sjf, ToAgg, Sjf, ToAgg]);
    let chosen = simulation.finish();
    assert!(chosen.switches >= 3 && chosen.policy == "auto", "{}", chosen.switches);
}

#[test]
fn switching_loses_nothing_and_the_same_seed_chooses_the_same() {
    for number in 0..12 {
        let mut scenario = strided("suno", Bytes::kib(8 << (number % 3)), 120);
        scenario.servers.count = 1 + number % 3;
        scenario.servers.depth = 1 + number % 2;
        scenario.scheduler.sharing = [Sharing::None, Sharing::Sfq][number as usize % 2];
        if number % 4 == 3 {
            scenario.forwarder = Some(Forwarder { depth: 4, ..Forwarder::default() });
        }
        let writers = Job {
            operation: Operation::Mixed,
            order: Order::Random,
            requests: 120,
            request: Bytes::kib(8),
            ..Job::default()
        };
        scenario.jobs.push(writers);
        if number >= 8 {
            scenario.faults =
                Faults { fail_permille: 20, vanish_permille: 100, ..Faults::default() };
        }
        let once = outcome(&scenario, ignorant());
        assert_eq!(once, outcome(&scenario, ignorant()));
        let planned = 32 * 120 + 8 * 120;
        if once.vanished == 0 {
            assert_eq!(once.requests, planned, "{number}");
        }
        if number < 8 {
            let bytes = 32 * 120 * scenario.jobs[0].request.0 + 8 * 120 * 8192;
            assert_eq!((once.bytes, once.failed), (bytes, 0), "{number}");
        }
        let dispatched: u64 = once.nodes.iter().map(|node| node.dispatched).sum();
        assert!(dispatched >= once.requests - once.vanished, "{number}");
    }
}

#[test]
fn classes_have_policies_of_their_own() {
    let mut scenario = strided("edel", Bytes::kib(16), 4000);
    scenario.scheduler.sharing = Sharing::Sfq;
    let writers = Job { operation: Operation::Write, ..scenario.jobs[0].clone() };
    scenario.jobs.push(writers);
    let split = Node::Split { feature: Feature::IsRead, threshold: 0.5, below: 1, above: 2 };
    let tree = vec![split, leaf(To, &[(Sjf, 0.8)]), leaf(Sjf, &[(Sjf, 2.0)])];
    let mut simulation = Simulation::new(&scenario, auto(tree), 1).expect("it is valid");
    simulation.advance_until(Timestamp(3_000_000_000));
    let (_, selector) = simulation.selectors().next().expect("the server has one");
    let policies: Vec<PolicyName> =
        selector.why(Timestamp(0)).iter().map(|why| why.policy).collect();
    assert_eq!(policies, [Sjf, To]);
}
