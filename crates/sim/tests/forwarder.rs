//! Pieces of requests on their way through a forwarder and through full queues: none is lost, none
//! overtakes another, and what is said of when devices begin is so.

use forebay_sched::{Access, PolicyName, Request};
use forebay_sim::scenario::{Faults, Forwarder, Job, Operation, Order};
use forebay_sim::{Outcome, Pace, Scenario, Simulation, run};
use forebay_trace::Recorded;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

fn outcome(scenario: &Scenario, seed: u64) -> Outcome {
    run(scenario, PolicyName::To, seed).expect("the scenario is valid")
}

/// Readers of 1 MiB in pieces of 64 KiB, through a forwarder to four quick servers.
fn chunked(clients: u32) -> Scenario {
    let job = Job {
        clients,
        request: Bytes::mib(1),
        requests: 20,
        order: Order::Contiguous,
        ..Job::default()
    };
    let mut scenario = Scenario { name: "chunked".into(), jobs: vec![job], ..Scenario::default() };
    scenario.servers.count = 4;
    scenario.servers.depth = 8;
    scenario.servers.device = forebay_device::Profile::by_name("ssd").expect("it is known");
    scenario.forwarder = Some(Forwarder { chunk: Some(Bytes::kib(64)), ..Forwarder::default() });
    scenario
}

#[test]
fn pieces_whose_answers_travel_for_long_are_waited_for() {
    for megabytes in [1, 10, 100] {
        let mut scenario = chunked(4);
        scenario.network.bandwidth = Some(forebay_device::Rate::megabytes_per_second(megabytes));
        let outcome = outcome(&scenario, 1);
        assert_eq!((outcome.requests, outcome.bytes), (80, 80 << 20));
        // All of it passes the forwarder's link.
        let least = (80 << 20) * 1000 / megabytes;
        assert!(outcome.makespan_ns >= least, "{} {least}", outcome.makespan_ns);
    }
}

#[test]
fn no_more_pieces_are_under_way_than_the_scenario_says() {
    let mut scenario = chunked(1);
    scenario.network.bandwidth = Some(forebay_device::Rate::megabytes_per_second(10));
    let latency = |chunks_in_flight| {
        let mut scenario = scenario.clone();
        scenario.forwarder.as_mut().expect("there is one").chunks_in_flight = chunks_in_flight;
        scenario.network.delay = Nanos::millis(100);
        scenario.network.jitter = Nanos::ZERO;
        outcome(&scenario, 1).latency.mean_ns
    };
    // 16 pieces, one after the other, each over four ways of 0.1 s; two at a time in half of that.
    assert!((6_400_000_000..6_700_000_000).contains(&latency(1)), "{}", latency(1));
    assert!((3_200_000_000..3_400_000_000).contains(&latency(2)), "{}", latency(2));
}

#[test]
fn clients_that_vanish_between_pieces_leave_nothing_behind() {
    for seed in 0..40 {
        let mut scenario = chunked(16);
        scenario.faults = Faults { vanish_permille: 900, ..Faults::default() };
        scenario.jobs[0].operation = Operation::Mixed;
        let outcome = outcome(&scenario, seed);
        assert!(outcome.vanished > 0 && outcome.requests < 16 * 20, "{seed}");
    }
}

#[test]
fn a_vanished_clients_place_in_a_full_queue_is_given_up_once() {
    for seed in 0..40 {
        let mut scenario = chunked(64);
        scenario.jobs[0] =
            Job { request: Bytes::kib(64), requests: 40, window: 4, ..scenario.jobs[0].clone() };
        scenario.scheduler.queue_requests = 2;
        // Without processor time one thing leads to the next at the same moment.
        scenario.scheduler.cpu = Some(Nanos::ZERO);
        scenario.forwarder = Some(Forwarder {
            memory: Some(Bytes::kib(512)),
            depth: 2,
            request_cpu: Nanos::ZERO,
            ..Forwarder::default()
        });
        scenario.faults = Faults { vanish_permille: 900, ..Faults::default() };
        let outcome = outcome(&scenario, seed);
        assert!(outcome.vanished > 0 && outcome.requests < 64 * 40, "{seed}");
    }
}

#[test]
fn nothing_overtakes_what_found_the_queue_full() {
    let one = |number: u32| Recorded {
        at: Timestamp(u64::from(number) * 200_000),
        request: Request {
            tag: 0,
            client: ClientId(number),
            class: ClassId(0),
            file: FileIndex(0),
            access: Access::Read,
            range: ByteRange::new(Offset(u64::from(number) << 24), Bytes::kib(4)),
        },
        after: None,
        think: Nanos::ZERO,
        moved: None,
        latency: None,
    };
    let record: Vec<Recorded> = (0..200).map(one).collect();
    let mut scenario = Scenario { name: "full".into(), ..Scenario::default() };
    scenario.network.jitter = Nanos::ZERO;
    scenario.scheduler.queue_requests = 2;
    let mut simulation = Simulation::replay(&scenario, &record, Pace::Open, PolicyName::To, 1)
        .expect("the record is valid");
    simulation.watch_arrivals();
    while simulation.advance(u64::MAX) {}
    let clients: Vec<u32> =
        simulation.take_arrivals().iter().map(|arrival| arrival.request.client.0).collect();
    assert_eq!(clients, (0..200).collect::<Vec<u32>>());
}

#[test]
fn forward_latency_ends_when_a_device_begins_and_not_when_it_is_told() {
    let job = Job {
        clients: 1,
        window: 16,
        requests: 160,
        request: Bytes::kib(64),
        order: Order::Random,
        file_bytes: Some(Bytes::mib(1024)),
        ..Job::default()
    };
    let mut scenario = Scenario { name: "deep".into(), jobs: vec![job], ..Scenario::default() };
    scenario.servers.depth = 16;
    let deep = outcome(&scenario, 1);
    // Fifteen others are before it at the device, whose work on it is the sixteenth part of all.
    let share = deep.forward_latency.mean_ns as f64 / deep.latency.mean_ns as f64;
    assert!((0.9..0.96).contains(&share), "{share}");
    scenario.jobs[0].window = 1;
    let alone = outcome(&scenario, 1);
    assert!(alone.forward_latency.max_ns < 60_000, "the network and the processor");
}

#[test]
fn what_clients_ask_for_can_be_watched() {
    let mut scenario = chunked(4);
    scenario.jobs[0].operation = Operation::Mixed;
    let unwatched = outcome(&scenario, 3);
    let mut simulation = Simulation::new(&scenario, PolicyName::To, 3).expect("it is valid");
    assert!(simulation.requests().is_empty());
    simulation.watch_requests();
    while simulation.advance(1000) {}
    let made = simulation.requests().to_vec();
    assert_eq!(simulation.finish(), unwatched, "watching changes nothing");
    assert_eq!(made.len() as u64, unwatched.requests);
    assert!(made.iter().all(|made| made.request.range.length() == Bytes::mib(1)), "in one piece");
    assert!(made.is_sorted_by_key(|made| made.at));
    let answers = made.iter().filter_map(|made| made.answer);
    assert_eq!(answers.clone().map(|answer| answer.moved.0).sum::<u64>(), unwatched.bytes);
    assert_eq!(answers.map(|answer| answer.at.0).max(), Some(unwatched.makespan_ns));
}
