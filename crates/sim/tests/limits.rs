//! What is legal runs to its end, and what would not is refused with its key.

use forebay_device::Profile;
use forebay_sched::{Access, PolicyName, Request};
use forebay_sim::scenario::{Forwarder, Job, Order, Sharing};
use forebay_sim::{Invalid, Pace, Scenario, Simulation, run};
use forebay_trace::Recorded;
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

fn refusal(job: Job) -> Invalid {
    let scenario = Scenario { jobs: vec![job], ..Scenario::default() };
    Simulation::new(&scenario, PolicyName::To, 1).map(drop).expect_err("it is refused")
}

#[test]
fn more_under_way_than_memory_holds_is_refused_before_it_is_begun() {
    let job = Job { clients: 1000, window: 65_536, requests: 65_536, ..Job::default() };
    let refused = refusal(job.clone());
    assert_eq!(refused.key, "job \"job\": window");
    assert!(refused.text.contains("1000 clients") && refused.text.contains("65536"), "{refused}");
    // As many by the parts of a request.
    let job = Job { clients: 65_536, requests: 2, request: Bytes::mib(1), ..Job::default() };
    let mut scenario = Scenario { jobs: vec![job], ..Scenario::default() };
    scenario.servers.transfer = Some(Bytes(512));
    let refused = run(&scenario, PolicyName::To, 1).expect_err("it is refused");
    assert!(refused.text.contains("2048 parts"), "{refused}");
    // A forwarder's clients send a few at a time.
    scenario.forwarder = Some(Forwarder { chunk: Some(Bytes(512)), ..Forwarder::default() });
    assert!(Simulation::new(&scenario, PolicyName::To, 1).is_ok());
}

#[test]
fn times_beyond_all_use_are_refused() {
    let long = Nanos(18_000_000_000_000_000_000);
    for (key, job) in [
        ("start", Job { start: long, ..Job::default() }),
        ("start_jitter", Job { start_jitter: long, ..Job::default() }),
        ("think", Job { think: long, ..Job::default() }),
        ("think_jitter", Job { think_jitter: long, ..Job::default() }),
    ] {
        let refused = refusal(job);
        assert!(refused.key.ends_with(key) && refused.text.contains("18000000000 s"), "{refused}");
    }
    let mut scenario = Scenario { jobs: vec![Job::default()], ..Scenario::default() };
    scenario.network.delay = long;
    let refused = run(&scenario, PolicyName::To, 1).expect_err("it is refused");
    assert_eq!(refused.key, "network.delay");
}

#[test]
fn the_longest_times_run_to_their_end() {
    let longest = Nanos(1 << 56);
    let job = Job { think: longest, start: longest, requests: 600, clients: 1, ..Job::default() };
    let mut scenario = Scenario { jobs: vec![job], ..Scenario::default() };
    scenario.network.delay = longest;
    scenario.servers.noise_percent = 40;
    let outcome = run(&scenario, PolicyName::To, 1).expect("it is valid");
    assert_eq!(outcome.requests, 600);
}

#[test]
fn a_record_near_the_end_of_numbers_is_refused() {
    let recorded = |at: u64, start: u64, length: u64| Recorded {
        at: Timestamp(at),
        request: Request {
            tag: 0,
            file: FileIndex(0),
            access: Access::Read,
            range: ByteRange::new(Offset(start), Bytes(length)),
            client: ClientId(0),
            class: ClassId(0),
        },
        after: None,
        think: Nanos::ZERO,
        moved: None,
        latency: None,
    };
    let replay = |scenario: &Scenario, one| {
        Simulation::replay(scenario, &[one], Pace::Open, PolicyName::To, 1).map(Simulation::finish)
    };
    let plain = Scenario::default();
    let text = |one| replay(&plain, one).expect_err("it is refused").to_string();
    assert!(text(recorded(1 << 63, 0, 1)).starts_with("request 0 of the record: it comes"));
    assert!(text(recorded(0, 1 << 63, 1)).contains("ends at byte 9223372036854775809"));
    assert!(text(recorded(0, 0, 1 << 60)).contains("files have at most"));
    assert_eq!(replay(&plain, recorded(1 << 56, 1 << 49, 1 << 20)).expect("it runs").requests, 1);
    let forwarder = Forwarder { memory: Some(Bytes::kib(4)), ..Forwarder::default() };
    let small = Scenario { forwarder: Some(forwarder), ..Scenario::default() };
    assert!(replay(&small, recorded(0, 0, 8192)).is_err_and(|one| one.key == "forwarder.memory"));
}

#[test]
fn windows_are_refused_where_there_is_nothing_to_have_them() {
    let refused = |change: fn(&mut Scenario), key: &str, part: &str| {
        let mut scenario = Scenario { jobs: vec![Job::default()], ..Scenario::default() };
        change(&mut scenario);
        let policy = scenario.scheduler.policy;
        let refused = Simulation::new(&scenario, policy, 1).map(drop).expect_err("it is refused");
        assert_eq!(refused.key, key);
        assert!(refused.text.contains(part), "{refused}");
    };
    refused(|it| it.scheduler.sharing = Sharing::Twins, "scheduler.sharing", "[forwarder]");
    refused(
        |it| {
            it.scheduler.sharing = Sharing::Twins;
            it.forwarder = Some(Forwarder::default());
        },
        "scheduler.sharing",
        "servers.count",
    );
    refused(|it| it.scheduler.strict = true, "scheduler.strict", "twins or sw");
    refused(
        |it| {
            it.scheduler.sharing = Sharing::Sw;
            it.scheduler.window = Some(Nanos::secs(61));
        },
        "scheduler.window",
        "1 us to 60 s",
    );
    refused(
        |it| {
            it.scheduler.sharing = Sharing::Sfq;
            it.scheduler.policy = PolicyName::Sw;
        },
        "scheduler.policy",
        "scheduler.sharing to sw",
    );
}

/// One process a job reads requests that span all of four servers, each server with its own
/// scheduler, or one forwarder before them.
fn spanning(sharing: Sharing, strict: bool, has_forwarder: bool) -> Scenario {
    let job = |name: &str| Job {
        name: name.into(),
        clients: 1,
        request: Bytes::kib(256),
        requests: 20,
        order: Order::Contiguous,
        ..Job::default()
    };
    let jobs = vec![job("one"), job("two"), job("three")];
    let mut scenario = Scenario { jobs, ..Scenario::default() };
    (scenario.servers.count, scenario.servers.device) =
        (4, Profile::by_name("ssd").expect("it is known"));
    scenario.forwarder =
        has_forwarder.then(|| Forwarder { chunk: Some(Bytes::kib(64)), ..Forwarder::default() });
    (scenario.scheduler.sharing, scenario.scheduler.strict) = (sharing, strict);
    scenario.scheduler.window = Some(Nanos::millis(2));
    scenario
}

#[test]
fn every_request_ends_under_windows_and_strict_ones_are_waited_for() {
    for (sharing, has_forwarder) in
        [(Sharing::Sw, false), (Sharing::Sw, true), (Sharing::Twins, true)]
    {
        let outcome = |strict| {
            let outcome = run(&spanning(sharing, strict, has_forwarder), PolicyName::To, 1);
            outcome.expect("the scenario is valid")
        };
        let (loose, strict) = (outcome(false), outcome(true));
        for outcome in [&loose, &strict] {
            assert_eq!((outcome.requests, outcome.bytes), (60, 60 << 18), "{sharing:?}");
        }
        assert_eq!(outcome(true), strict, "the same seed, the same outcome");
        // On average a strict window costs half of one, or the others' before one's own.
        let [loose, strict] = [&loose, &strict].map(|outcome| outcome.latency.mean_ns);
        assert!(strict > loose + 500_000, "{sharing:?}: {strict} after {loose}");
    }
}
