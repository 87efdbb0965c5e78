//! A simulation of one server is held against what its device model says in closed form.

use forebay_device::{PROFILES, Profile, Rate};
use forebay_sched::PolicyName;
use forebay_sim::scenario::{Forwarder, Job, Network, Operation, Order, Servers};
use forebay_sim::{Outcome, Scenario, run};
use forebay_units::{Bytes, Direction, Nanos};

/// No delay, no processor time: what remains is the device.
fn device_alone(device: Profile, job: Job) -> Scenario {
    let mut scenario = Scenario { name: "device".into(), jobs: vec![job], ..Scenario::default() };
    scenario.network = Network { delay: Nanos::ZERO, jitter: Nanos::ZERO, bandwidth: None };
    scenario.servers = Servers { device, request_cpu: Nanos::ZERO, ..Servers::default() };
    scenario.scheduler.cpu = Some(Nanos::ZERO);
    scenario
}

fn to(scenario: &Scenario) -> Outcome {
    run(scenario, PolicyName::To, 1).expect("the scenario is valid")
}

fn within(value: f64, expected: f64, percent: f64) -> bool {
    (value / expected - 1.0).abs() * 100.0 <= percent
}

#[test]
fn one_sequential_client_gets_what_the_device_gives_in_order() {
    for device in PROFILES {
        for operation in [Operation::Read, Operation::Write] {
            let direction = match operation {
                Operation::Write => Direction::Write,
                _ => Direction::Read,
            };
            let request = Bytes::kib(64);
            let job = Job { clients: 1, requests: 2000, request, operation, ..Job::default() };
            let outcome = to(&device_alone(device, job));
            let expected = 2000 * device.sequential_time(direction, request).0;
            let took = outcome.applications[0].completion_ns as f64;
            assert!(
                within(took, expected as f64, 3.0),
                "{} {operation:?}: {took} {expected}",
                device.name
            );
        }
    }
}

#[test]
fn one_random_client_gets_what_the_device_gives_out_of_order() {
    for device in PROFILES {
        let request = Bytes::kib(8);
        let job = Job {
            clients: 1,
            requests: 3000,
            request,
            order: Order::Random,
            file_bytes: Some(forebay_device::RANDOM_SPAN),
            ..Job::default()
        };
        let outcome = to(&device_alone(device, job));
        let expected = 3000 * device.random_time(Direction::Read, request).0;
        let took = outcome.applications[0].completion_ns as f64;
        assert!(within(took, expected as f64, 3.0), "{}: {took} {expected}", device.name);
    }
}

#[test]
fn a_synchronous_client_pays_the_network_twice_and_the_processors_once() {
    let job = Job { clients: 1, requests: 100, start_jitter: Nanos::ZERO, ..Job::default() };
    let mut scenario = device_alone(PROFILES[0], job);
    let alone = to(&scenario).makespan_ns;
    scenario.network = Network {
        delay: Nanos::millis(5),
        jitter: Nanos::ZERO,
        bandwidth: Some(Rate::bytes_per_second(65_536_000)),
    };
    scenario.servers.request_cpu = Nanos::millis(2);
    scenario.scheduler.cpu = Some(Nanos::millis(1));
    // Two ways of 5 ms, 3 ms of processor, 1 ms of link. What the drive reads ahead meanwhile is its gain.
    let added = (to(&scenario).makespan_ns - alone) / 100;
    let transfer = PROFILES[0].sequential_time(Direction::Read, Bytes::kib(64)).0;
    assert!((14_000_000 - transfer..=14_000_000).contains(&added), "{added}");
}

#[test]
fn striped_servers_share_the_work() {
    let job = Job { clients: 16, requests: 50, request: Bytes::mib(1), ..Job::default() };
    let mut scenario = device_alone(PROFILES[0], job);
    let one = to(&scenario);
    scenario.servers.count = 4;
    let four = to(&scenario);
    assert_eq!(one.bytes, four.bytes);
    for node in &four.nodes {
        let share = node.dispatched as f64 / four.requests as f64;
        assert!(share == 1.0, "every megabyte is on all four servers: {share}");
    }
    assert!(four.makespan_ns * 2 < one.makespan_ns, "{} {}", four.makespan_ns, one.makespan_ns);
}

#[test]
fn a_forwarder_merges_for_servers_that_do_not() {
    let job = Job {
        clients: 32,
        requests: 64,
        request: Bytes::kib(16),
        operation: Operation::Write,
        ..Job::default()
    };
    let mut scenario = device_alone(PROFILES[0], job);
    scenario.servers.count = 4;
    scenario.forwarder = Some(Forwarder::default());
    let none = to(&scenario);
    let hbrr = run(&scenario, PolicyName::Hbrr, 1).expect("the scenario is valid");
    assert_eq!(none.bytes, hbrr.bytes);
    assert!(none.merge_ratio == 1.0 && hbrr.merge_ratio > 1.3, "{}", hbrr.merge_ratio);
    assert!(hbrr.makespan_ns < none.makespan_ns);
}

#[test]
fn noise_changes_single_times_and_not_the_whole() {
    let job = Job { clients: 1, requests: 3000, ..Job::default() };
    let mut scenario = device_alone(PROFILES[0], job);
    let plain = to(&scenario);
    scenario.servers.noise_percent = 20;
    let noisy = to(&scenario);
    assert!(noisy.latency.p99_ns > plain.latency.p99_ns * 5 / 4);
    assert!(within(noisy.makespan_ns as f64, plain.makespan_ns as f64, 3.0));
}
