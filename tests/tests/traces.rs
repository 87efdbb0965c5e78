//! Traces of real forwarders: they lead a scheduler to the same decisions, agree with what the
//! forwarder says of itself, and cost neither answers nor the forwarder when their disk is full.

use std::path::Path;
use std::sync::Barrier;
use std::thread;

use forebay_forwarder::Status;
use forebay_forwarder::settings::{Level, Settings, StoreKind};
use forebay_sched::PolicyName;
use forebay_tests::{Client, Running, Through, finish, forebay, report};
use forebay_trace::{Adjustment, Checker, End, Event, Lives, Reader, Setup, Workload};
use rustix::fs::{CWD, FileType, Mode, mknodat};

const CLIENTS: u64 = 8;
const ROUNDS: u64 = 12;
const BLOCK: usize = 8192;

/// Clients that write adjacent blocks of a shared file, read those of others, and append to one
/// file in conflict with each other, all at once on a modelled disk.
fn busy(trace: &Path, change: impl Fn(&mut Settings)) -> Status {
    let running = Running::start(|settings| {
        settings.trace.file = Some(trace.to_owned());
        settings.store.kind = StoreKind::Modelled("hdd-57".into());
        settings.store.time_scale = 0.1;
        settings.store.depth = 2;
        change(settings);
    });
    let start = Barrier::new(CLIENTS as usize);
    thread::scope(|scope| {
        for n in 0..CLIENTS {
            let (running, start) = (&running, &start);
            scope.spawn(move || {
                let mut client = running.connect(Through::ALL[n as usize % 2]);
                let (_, shared) = client.open("shared");
                let (_, log) = client.open_to_append("log");
                let mut bytes = [n as u8; BLOCK];
                for round in 0..ROUNDS {
                    start.wait();
                    let at = |client: u64| (round * CLIENTS + client) * BLOCK as u64;
                    assert_eq!(client.write(shared, at(n), &bytes).unwrap(), BLOCK);
                    client.append(log, &bytes[..100]).unwrap();
                    client.connection.sync(log).unwrap();
                    let mut seen = [0; BLOCK];
                    client.read(shared, at((n + 1) % CLIENTS), &mut seen).unwrap();
                    bytes[0] = bytes[0].wrapping_add(1);
                }
            });
        }
    });
    running.wait_until_quiet(0);
    running.stop()
}

#[test]
fn a_recorded_forwarder_decides_the_same_when_its_trace_is_played() {
    let folder = tempfile::tempdir().expect("a folder");
    for policy in ["to", "to-agg", "sjf", "mlf", "aioli", "hbrr", "hbrr-bytes"] {
        let path = folder.path().join(policy);
        let status = busy(&path, |settings| {
            settings.scheduler.policy = policy.into();
            settings.sharing.level = Level::None;
        });
        let bytes = std::fs::read(&path).expect("it was written");
        let reader = Reader::new(&bytes).expect("a trace");
        assert_eq!(reader.header().setting("scheduler.policy"), Some(policy));
        let setup = Setup::of(reader.header()).expect("a forwarder says what it has");
        let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
        for record in reader {
            let record = record.expect("it is whole");
            checker.check(&record).unwrap_or_else(|error| panic!("{policy}: {error}"));
        }
        let scheduler = &status.scheduler;
        assert!(scheduler.submitted >= 3 * CLIENTS * ROUNDS, "{scheduler:?}");
        assert!(checker.decisions_count() >= scheduler.submitted + scheduler.batches);
    }
}

/// Two jobs that read the same way from files of their own on a modelled disk, one connection for
/// each reader; `change` is called in the middle of it.
fn shared_by_jobs(trace: &Path, policy: &str, change: impl Fn(&Running)) -> Status {
    const READERS: u64 = 4;
    let running = Running::start(|settings| {
        settings.trace.file = Some(trace.to_owned());
        settings.store.kind = StoreKind::Modelled("hdd-57".into());
        settings.store.time_scale = 0.1;
        settings.store.depth = 1;
        settings.scheduler.policy = policy.into();
        for (name, key, value) in [
            ("climate", "weight", "3"),
            ("weather", "limit_bytes_per_second", "4MiB/s"),
            ("weather", "at_limit", "wait"),
            (&*format!("user:{}", rustix::process::getuid().as_raw()), "weight", "5"),
        ] {
            settings.classes.set(name, key, value).expect("it can be set");
        }
    });
    let files = ["climate", "weather"].map(|job| {
        let path = running.folder().join(job);
        std::fs::write(path, vec![1; 64 * BLOCK]).expect("it can be written");
        job
    });
    let middle = Barrier::new(1 + 2 * READERS as usize);
    thread::scope(|scope| {
        for (job, reader) in files.iter().flat_map(|job| (0..READERS).map(move |n| (*job, n))) {
            let (running, middle) = (&running, &middle);
            scope.spawn(move || {
                let way = Through::ALL[reader as usize % 2];
                let endpoint = running.endpoint(way);
                let mut client = Client::connect_as(job, endpoint, &running.folder());
                let (_, file) = client.open(job);
                let mut bytes = [0; BLOCK];
                let mut pass = |round: u64| {
                    for n in 0..10 {
                        let at = (round * 32 + n * READERS + reader) % 64 * BLOCK as u64;
                        assert_eq!(client.write(file, at, &bytes).unwrap(), BLOCK);
                        client.connection.sync(file).unwrap();
                        client.read(file, at, &mut bytes).unwrap();
                    }
                };
                pass(0);
                middle.wait();
                pass(1);
            });
        }
        middle.wait();
        change(&running);
    });
    running.wait_until_quiet(0);
    running.stop()
}

fn is_for_a_class(told: &Adjustment, policy: PolicyName) -> bool {
    matches!(told, Adjustment::ClassPolicy(_, choice) if choice.policy == policy)
}

/// `forebay set` with these words.
fn set(running: &Running, words: &[&str]) {
    let endpoint = running.endpoint(Through::Unix).to_string();
    let output = finish(forebay().args(["set", &endpoint]).args(words));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn jobs_with_weights_a_limit_and_changes_while_they_run_replay_to_the_same_decisions() {
    let folder = tempfile::tempdir().expect("a folder");
    for policy in ["aioli", "to"] {
        let path = folder.path().join(policy);
        let status = shared_by_jobs(&path, policy, |running| {
            set(running, &["class", "climate", "weight=1", "limit_operations_per_second=5000/s"]);
            set(running, &["class", "weather", "policy=sjf", "limit_bytes_per_second=64MiB/s"]);
            set(running, &["discipline=drr", "cost=bytes"]);
            set(running, &["policy=hbrr", "run_requests_max=8"]);
            set(running, &["class", "weather", "policy=none"]);
        });
        let bytes = std::fs::read(&path).expect("it was written");
        let reader = Reader::new(&bytes).expect("a trace");
        let setup = Setup::of(reader.header()).expect("a forwarder says what it has");
        assert!(setup.classes.is_some());
        let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
        let mut told = Vec::new();
        for record in reader.clone() {
            let record = record.expect("it is whole");
            if let Event::Setting { key, value } = record.event {
                told.push(Adjustment::read(key, value).expect("it is understood"));
            }
            checker.check(&record).unwrap_or_else(|error| panic!("{policy}: {error}"));
        }
        let scheduler = &status.scheduler;
        assert!(scheduler.submitted >= 160, "{scheduler:?}");
        assert!(checker.decisions_count() >= scheduler.submitted + scheduler.batches);
        let weights = told.iter().filter_map(|told| match told {
            Adjustment::Class(_, Some(share)) => Some(share.share.weight),
            Adjustment::Group(_, Some(share)) => Some(share.weight),
            _ => None,
        });
        let weights: Vec<u32> = weights.collect();
        assert_eq!(weights[0], 5, "the user comes first: {weights:?}");
        assert!(weights.contains(&3) && weights.contains(&1), "{weights:?}");
        for is_there in [
            |told: &Adjustment| matches!(told, Adjustment::Sharing(_)),
            |told: &Adjustment| matches!(told, Adjustment::Policy(_)),
            |told: &Adjustment| is_for_a_class(told, PolicyName::Sjf),
            // What is taken back at a class leaves what all have.
            |told: &Adjustment| is_for_a_class(told, PolicyName::Hbrr),
        ] {
            assert!(told.iter().any(is_there), "{told:?}");
        }
        let without = Setup { classes: None, ..setup };
        let mut other = Checker::new(without.scheduler(), without.policy_settings());
        let mut records = reader.map(|record| record.expect("it is whole"));
        assert!(records.any(|record| other.check(&record).is_err()), "{policy}");
    }
    let output = finish(forebay().args(["trace", "stat"]).arg(folder.path().join("to")));
    let text = String::from_utf8_lossy(&output.stdout);
    for wanted in
        ["sharing", "discipline sfq", "weather): weight 1", "at_limit wait", "policy HBRR"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn a_trace_agrees_with_what_the_forwarder_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    let status = busy(&path, |_| {});
    let bytes = std::fs::read(&path).expect("it was written");
    let (mut lives, mut completed, mut immediate) = (Lives::default(), 0, 0);
    let (mut read, mut written, mut batches) = (0, 0, 0);
    for record in Reader::new(&bytes).expect("a trace") {
        let record = record.expect("it is whole");
        batches += u64::from(matches!(record.event, Event::Dispatch { .. }));
        lives.take(&record, |_, life| {
            completed += u64::from(life.end == End::Completed);
            immediate += u64::from(life.end == End::Immediate);
            match life.request.access {
                forebay_sched::Access::Read => read += life.moved.0,
                _ => written += life.moved.0,
            }
        });
    }
    assert_eq!(lives.open().count(), 0);
    assert_eq!(completed, status.scheduler.submitted);
    assert_eq!(immediate, status.calls.immediate);
    assert_eq!((read, written), (status.calls.read_bytes, status.calls.written_bytes));
    assert!(batches >= status.scheduler.batches);
    let names: Vec<String> = lives.catalog.clients.into_values().collect();
    assert!(names.len() >= CLIENTS as usize && names[0].starts_with("test "), "{names:?}");
    let files = lives.catalog.files.iter().filter_map(|file| file.name.as_deref());
    assert_eq!(
        files.filter(|name| name.ends_with("shared")).count(),
        1,
        "one file, however opened"
    );
}

#[test]
fn a_trace_that_cannot_be_written_costs_the_trace_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a pipe with a name");
    let reader = path.clone();
    // Takes the beginning and goes.
    let reader = thread::spawn(move || {
        let mut pipe = std::fs::File::open(reader).expect("it opens");
        std::io::Read::read_exact(&mut pipe, &mut [0; 12]).expect("the beginning comes");
    });
    let status = busy(&path, |_| {});
    reader.join().expect("it has the beginning");
    assert_eq!(status.calls.errors, 0);
    assert_eq!(status.calls.writes, 2 * CLIENTS * ROUNDS);
}

#[test]
fn the_io_of_a_real_program_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let [trace, told] = ["run.trace", "report.json"].map(|name| folder.path().join(name));
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a fresh name");
    std::fs::write(data.join("a"), vec![7; 300_000]).expect("it can be written");
    let mut record = forebay();
    record.args(["trace", "record", "-o"]).arg(&trace).arg("--report").arg(&told);
    record.args(["--", "dd", "if=a", "of=b", "bs=4096", "status=none"]).current_dir(&data);
    let output = finish(&mut record);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&trace).expect("it was written");
    let workload = Workload::read(Reader::new(&bytes).expect("a trace"));
    assert!(workload.damages.is_empty());
    let moved: u64 = workload.requests.iter().filter_map(|request| Some(request.moved?.0)).sum();
    assert_eq!(moved, 600_000);
    let calls = &report(&told)["status"]["calls"];
    assert_eq!(calls["accepted"].as_u64(), Some(workload.requests.len() as u64), "{calls}");
    let names: Vec<_> = workload.catalog.files.iter().filter_map(|f| f.name.as_deref()).collect();
    assert!(names.len() == 2 && names[0].ends_with("data/a"), "{names:?}");
    assert!(workload.catalog.clients.values().all(|name| name.starts_with("dd ")));
}
