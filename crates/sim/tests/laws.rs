//! What holds in every simulation: nothing is lost, and the same seed gives the same outcome.

use forebay_device::SplitMix64;
use forebay_sched::sharing::{
    ClassShare, Discipline, Share, SharingSettings, TwinsSettings, WindowIdle,
};
use forebay_sched::{Access, GuardMode, PolicyName, Request};
use forebay_sim::scenario::{Faults, FileUse, Forwarder, Job, Operation, Order, Sharing};
use forebay_sim::{Outcome, Pace, Scenario, Simulation, run};
use forebay_trace::{Adjustment, Recorded};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};

/// Some scenario: every number makes another one.
fn any_scenario(number: u64) -> Scenario {
    let mut random = SplitMix64::new(number);
    let mut scenario = Scenario { name: "any".into(), ..Scenario::default() };
    let mut pick = |below| random.below(below);
    scenario.network.bandwidth = scenario.network.bandwidth.filter(|_| pick(4) > 0);
    let servers = &mut scenario.servers;
    servers.count = 1 + pick(5) as u32;
    servers.stripe = Bytes::kib(8 << pick(4));
    servers.transfer = (pick(2) == 0).then(|| Bytes::kib(4 << pick(4)));
    servers.device = forebay_device::PROFILES[pick(6) as usize];
    servers.noise_percent = [0, 5, 40][pick(3) as usize];
    servers.depth = 1 + pick(4) as u32;
    scenario.scheduler.guard = GuardMode::ALL[pick(4) as usize];
    scenario.scheduler.queue_requests = [2, 1 << 20][pick(2) as usize];
    scenario.scheduler.large = Bytes::kib(24);
    if pick(2) == 0 {
        let chunk = (pick(2) == 0).then_some(Bytes::kib(16));
        let memory = (pick(2) == 0).then_some(Bytes::kib(128));
        scenario.forwarder = Some(Forwarder { chunk, memory, depth: 4, ..Forwarder::default() });
    }
    for _ in 0..=pick(2) {
        let file = [FileUse::Shared, FileUse::PerProcess][pick(2) as usize];
        let order = match file {
            FileUse::Shared => [Order::Contiguous, Order::Strided, Order::Random][pick(3) as usize],
            FileUse::PerProcess => [Order::Contiguous, Order::Random][pick(2) as usize],
        };
        scenario.jobs.push(Job {
            applications: 1 + pick(2) as u32,
            clients: 1 + pick(12) as u32,
            operation: [Operation::Read, Operation::Write, Operation::Mixed][pick(3) as usize],
            file,
            order,
            request: Bytes(1 + pick(100_000)),
            requests: 1 + pick(20) as u32,
            window: 1 + pick(3) as u32,
            think: Nanos(pick(200_000)),
            think_jitter: Nanos(pick(200_000)),
            ..Job::default()
        });
    }
    scenario
}

fn asked_bytes(scenario: &Scenario) -> u64 {
    let bytes = |job: &Job| {
        u64::from(job.applications)
            * u64::from(job.clients)
            * u64::from(job.requests)
            * job.request.0
    };
    scenario.jobs.iter().map(bytes).sum()
}

fn asked_requests(scenario: &Scenario) -> u64 {
    let requests =
        |job: &Job| u64::from(job.applications) * u64::from(job.clients) * u64::from(job.requests);
    scenario.jobs.iter().map(requests).sum()
}

#[test]
fn every_request_is_answered_once_and_moves_its_bytes() {
    for number in 0..150 {
        let scenario = any_scenario(number);
        let policy = PolicyName::ALL[number as usize % PolicyName::ALL.len()];
        let outcome = run(&scenario, policy, number).expect("the scenario is valid");
        assert_eq!(outcome.bytes, asked_bytes(&scenario), "{number} {policy}: {scenario:?}");
        assert_eq!(outcome.requests, asked_requests(&scenario));
        assert_eq!((outcome.failed, outcome.short, outcome.vanished), (0, 0, 0));
        let finished = outcome.applications.iter().map(|one| one.finished_ns).max();
        assert_eq!(Some(outcome.makespan_ns), finished);
        assert!(
            (0.0..=1.0).contains(&outcome.device_utilisation),
            "{}",
            outcome.device_utilisation
        );
        assert!((0.0..=1.0001).contains(&outcome.fairness_clients));
        for node in &outcome.nodes {
            assert!(node.cpu_busy_ns <= outcome.makespan_ns);
        }
    }
}

#[test]
fn with_faults_every_request_of_a_client_that_stays_is_answered() {
    for number in 0..100 {
        let mut scenario = any_scenario(number);
        let short_permille = if scenario.forwarder.is_none() { 100 } else { 0 };
        scenario.faults = Faults {
            stall_every: Some(Nanos::millis(50)),
            stall: Nanos::millis(20),
            fail_permille: 50,
            short_permille,
            vanish_permille: 200,
        };
        let policy = PolicyName::ALL[number as usize % PolicyName::ALL.len()];
        let outcome = run(&scenario, policy, number).expect("the scenario is valid");
        assert!(outcome.bytes <= asked_bytes(&scenario));
        if outcome.vanished == 0 {
            assert_eq!(outcome.requests, asked_requests(&scenario), "{number}");
        } else {
            assert!(outcome.requests < asked_requests(&scenario), "{number}: {outcome:?}");
        }
    }
}

#[test]
fn each_fault_does_what_it_says() {
    let scenario = |faults| {
        let jobs = vec![Job { requests: 200, ..Job::default() }];
        Scenario { name: "faults".into(), jobs, faults, ..Scenario::default() }
    };
    let with = |faults| run(&scenario(faults), PolicyName::To, 3).expect("the scenario is valid");
    let plain = with(Faults::default());
    let failing = with(Faults { fail_permille: 100, ..Faults::default() });
    assert!((100..220).contains(&failing.failed), "{}", failing.failed);
    assert_eq!(failing.bytes, plain.bytes - failing.failed * 65_536);
    let short = with(Faults { short_permille: 100, ..Faults::default() });
    assert!((100..220).contains(&short.short), "{}", short.short);
    assert_eq!(short.bytes, plain.bytes - short.short * 32_768);
    let stall_every = Some(Nanos::millis(500));
    let stalling = with(Faults { stall_every, stall: Nanos::millis(200), ..Faults::default() });
    assert_eq!(stalling.bytes, plain.bytes);
    assert!(stalling.makespan_ns > plain.makespan_ns * 5 / 4);
    let vanishing = with(Faults { vanish_permille: 500, ..Faults::default() });
    assert!((1..8).contains(&vanishing.vanished), "{}", vanishing.vanished);
    assert!(vanishing.requests < plain.requests);
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_seed_another() {
    for number in 0..40 {
        let mut scenario = any_scenario(number);
        scenario.faults.fail_permille = 20;
        for policy in PolicyName::ALL {
            let once = run(&scenario, policy, 5).expect("the scenario is valid");
            assert_eq!(once, run(&scenario, policy, 5).expect("the scenario is valid"));
            let other: Outcome = run(&scenario, policy, 6).expect("the scenario is valid");
            assert_ne!(once.makespan_ns, other.makespan_ns, "{number} {policy}");
        }
    }
}

#[test]
fn going_by_steps_changes_nothing() {
    let scenario = any_scenario(12);
    let whole = run(&scenario, PolicyName::Hbrr, 1).expect("the scenario is valid");
    let mut stepped = Simulation::new(&scenario, PolicyName::Hbrr, 1).expect("it is valid");
    let mut before = 0;
    while stepped.advance(7) {
        let progress = stepped.progress();
        assert!(progress.events > before && progress.requests <= progress.requests_planned);
        before = progress.events;
    }
    assert_eq!(stepped.finish(), whole);
}

/// Six clients; each request follows some earlier one of its client, or none.
fn record() -> Vec<Recorded> {
    let mut random = SplitMix64::new(9);
    let mut last = [None; 6];
    (0..400)
        .map(|number| {
            let access = [Access::Read, Access::Read, Access::Write, Access::Sync, Access::Alone];
            let access = access[random.below(5) as usize];
            let start = Offset(random.below(1 << 24));
            let client = random.below(6) as usize;
            let after = last[client];
            if random.below(4) > 0 {
                last[client] = Some(number);
            }
            let request = Request {
                tag: u64::from(number),
                client: ClientId(1000 * client as u32),
                class: ClassId(client as u32 / 4),
                file: FileIndex(random.below(3) as u32),
                access,
                range: match access {
                    Access::Sync => ByteRange::default(),
                    Access::Alone => ByteRange::from_start(start),
                    Access::Read | Access::Write => ByteRange::new(start, Bytes::kib(16)),
                },
            };
            let (at, think) =
                (Timestamp(u64::from(number) * 500_000), Nanos(random.below(400_000)));
            Recorded { at, request, after, think, moved: None, latency: None }
        })
        .collect()
}

#[test]
fn a_record_is_replayed_whole_under_every_policy_and_pace() {
    let record = record();
    let is_plain = |one: &&Recorded| matches!(one.request.access, Access::Read | Access::Write);
    let bytes: u64 = record.iter().filter(is_plain).map(|one| one.request.range.length().0).sum();
    for policy in PolicyName::ALL {
        for (pace, servers) in
            [(Pace::Open, 1), (Pace::Closed, 1), (Pace::Open, 3), (Pace::Closed, 3)]
        {
            let mut scenario = Scenario { name: "record".into(), ..Scenario::default() };
            scenario.servers.count = servers;
            let replayed = Simulation::replay(&scenario, &record, pace, policy, 1);
            let outcome = replayed.expect("the record is valid").finish();
            assert_eq!((outcome.requests, outcome.bytes), (400, bytes), "{policy} {pace:?}");
            let names: Vec<&str> = outcome.applications.iter().map(|one| &*one.name).collect();
            assert_eq!(names, ["class-0", "class-1"]);
        }
    }
}

#[test]
fn an_open_loop_keeps_the_recorded_times_and_a_closed_one_follows_the_answers() {
    let one = |number: u32| Recorded {
        at: Timestamp(u64::from(number) * 1_000_000_000),
        request: Request {
            tag: 0,
            client: ClientId(0),
            class: ClassId(0),
            file: FileIndex(0),
            access: Access::Read,
            range: ByteRange::new(Offset(u64::from(number) << 20), Bytes::kib(4)),
        },
        after: number.checked_sub(1),
        think: Nanos::millis(100),
        moved: None,
        latency: None,
    };
    let record: Vec<Recorded> = (0..10).map(one).collect();
    let scenario = Scenario { name: "record".into(), ..Scenario::default() };
    let makespan = |pace| {
        let replayed = Simulation::replay(&scenario, &record, pace, PolicyName::To, 1);
        replayed.expect("the record is valid").finish().makespan_ns
    };
    assert!((9_000_000_000..9_100_000_000).contains(&makespan(Pace::Open)));
    // Nine pauses of 0.1 s; the answers come sooner here.
    assert!((900_000_000..1_200_000_000).contains(&makespan(Pace::Closed)));
}

#[test]
fn what_cannot_be_simulated_is_refused_with_key_and_remedy() {
    let refusal = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = any_scenario(0);
        scenario.forwarder = None;
        change(&mut scenario);
        run(&scenario, PolicyName::To, 1).expect_err("it is refused").to_string()
    };
    let says = |text: String, parts: &[&str]| {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    says(refusal(&|s| s.jobs.clear()), &["job", "[[job]]"]);
    says(refusal(&|s| s.servers.count = 0), &["servers.count", "1 to 1024"]);
    says(refusal(&|s| s.servers.depth = 0), &["servers.depth"]);
    says(refusal(&|s| s.jobs[0].clients = 0), &["clients"]);
    says(refusal(&|s| s.jobs[0].request = Bytes(0)), &["request"]);
    says(
        refusal(&|s| (s.jobs[0].file, s.jobs[0].order) = (FileUse::PerProcess, Order::Strided)),
        &["order", "contiguous"],
    );
    says(
        refusal(&|s| {
            s.forwarder = Some(Forwarder { memory: Some(Bytes(10)), ..Forwarder::default() });
        }),
        &["forwarder.memory", "forwarder.chunk"],
    );
    says(
        refusal(&|s| {
            s.forwarder = Some(Forwarder::default());
            s.faults.short_permille = 5;
        }),
        &["faults.short_permille", "forwarder"],
    );
}

#[test]
fn jobs_share_by_weight_and_within_limits() {
    let job = |name: &str, weight, limit: Option<u64>| Job {
        name: name.into(),
        clients: 16,
        requests: 1000,
        request: Bytes::kib(16),
        // Always something ready: a share that is not asked for goes to the other.
        window: 8,
        weight,
        limit: limit.map(forebay_device::Rate::bytes_per_second),
        ..Job::default()
    };
    for sharing in [Sharing::Sfq, Sharing::Drr] {
        let outcome = |jobs| {
            let mut scenario = Scenario { name: "shares".into(), jobs, ..Scenario::default() };
            scenario.scheduler.sharing = sharing;
            scenario.servers.device = forebay_device::PROFILES[5];
            run(&scenario, PolicyName::To, 1).expect("the scenario is valid")
        };
        let weighted = outcome(vec![job("light", 1, None), job("heavy", 3, None)]);
        let [light, heavy] = &weighted.applications[..] else { panic!("two applications") };
        // While both are there heavy has three times as much; then light has all.
        let ratio = light.completion_ns as f64 / heavy.completion_ns as f64;
        assert!((1.3..1.7).contains(&ratio), "{sharing:?}: {ratio}");
        let limited = outcome(vec![job("limited", 1, Some(20_000_000)), job("free", 1, None)]);
        let rate = limited.applications[0].bytes_per_second;
        assert!((18e6..=20.2e6).contains(&rate), "{sharing:?}: {rate}");
    }
}

#[test]
fn what_a_record_tells_of_its_classes_can_be_carried_over() {
    let one = |number: u32| Recorded {
        at: Timestamp(0),
        request: Request {
            tag: 0,
            client: ClientId(number),
            class: ClassId(number % 2),
            file: FileIndex(number % 2),
            access: Access::Read,
            range: ByteRange::new(Offset(u64::from(number / 2) << 14), Bytes::kib(16)),
        },
        after: None,
        think: Nanos::ZERO,
        moved: None,
        latency: None,
    };
    let record: Vec<Recorded> = (0..4000).map(one).collect();
    let completions = |adjustments: &[(u64, Adjustment)]| -> Vec<u64> {
        let mut scenario = Scenario { name: "classes".into(), ..Scenario::default() };
        scenario.scheduler.sharing = Sharing::Sfq;
        scenario.servers.device = forebay_device::PROFILES[5];
        let mut simulation =
            Simulation::replay(&scenario, &record, Pace::Open, PolicyName::To, 1).unwrap();
        for (at, adjustment) in adjustments {
            simulation.adjust(Timestamp(*at), *adjustment);
        }
        let outcome = simulation.finish();
        assert_eq!(outcome.requests, 4000);
        outcome.applications.iter().map(|one| one.completion_ns).collect()
    };
    let ratio = |times: &[u64]| times[0] as f64 / times[1] as f64;
    let alike = completions(&[]);
    assert!((0.95..1.05).contains(&ratio(&alike)), "{alike:?}");
    let heavy =
        ClassShare { share: Share { weight: 3, ..Share::default() }, ..ClassShare::default() };
    let weighted = completions(&[(0, Adjustment::Class(ClassId(1), Some(heavy)))]);
    assert!((1.3..1.6).contains(&ratio(&weighted)), "{weighted:?}");
    let late = completions(&[(alike[0] * 3 / 4, Adjustment::Class(ClassId(1), Some(heavy)))]);
    assert!(ratio(&late) > 1.02 && ratio(&late) < ratio(&weighted), "{late:?}");
    // Windows of TWINS as long as all of it takes: first one class, then the other.
    let window = Nanos(alike[0]);
    let start = Timestamp(0);
    let twins = TwinsSettings { window, targets: 2, shift: 0, start, idle: WindowIdle::Strict };
    let discipline = Discipline::Twins(twins);
    let sharing = SharingSettings { discipline, ..SharingSettings::default() };
    let windows = completions(&[(0, Adjustment::Sharing(sharing))]);
    assert!(windows[0] < alike[0] * 11 / 20 && windows[1] > alike[0], "{windows:?}");
}

#[test]
fn what_schedulers_accept_can_be_watched() {
    let job = Job { clients: 3, requests: 5, request: Bytes::kib(64), ..Job::default() };
    let mut scenario = Scenario { jobs: vec![job], ..Scenario::default() };
    scenario.servers.count = 2;
    scenario.servers.stripe = Bytes::kib(32);
    scenario.servers.transfer = Some(Bytes::kib(8));
    let unwatched = run(&scenario, PolicyName::Sjf, 1).unwrap();
    let mut simulation = Simulation::new(&scenario, PolicyName::Sjf, 1).unwrap();
    assert!(simulation.take_arrivals().is_empty());
    simulation.watch_arrivals();
    let mut arrivals = Vec::new();
    while simulation.advance(10) {
        arrivals.extend(simulation.take_arrivals());
    }
    arrivals.extend(simulation.take_arrivals());
    assert_eq!(arrivals.len(), 3 * 5 * 8, "a message of 8 KiB each");
    assert!((0..2).all(|node| arrivals.iter().filter(|one| one.node == node).count() == 60));
    assert!((0..2).all(|node| {
        arrivals.iter().filter(|one| one.node == node).is_sorted_by_key(|one| one.at)
    }));
    assert_eq!(simulation.finish(), unwatched, "watching changes nothing");
}
