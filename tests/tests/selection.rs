//! Policy `auto` as its users meet it: chosen by real forwarders for real programs, explained,
//! pinned, switched while writers write, kept over restarts, and replayed.

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use forebay_forwarder::Status;
use forebay_forwarder::settings::{Level, Settings, StoreKind};
use forebay_forwarder::status::{Choice, Selection};
use forebay_prior::{load_state, save_state, write_tree};
use forebay_sched::PolicyName;
use forebay_select::{Leaf, Learned, Node, Tree};
use forebay_tests::{
    Client, Random, Running, Served, Through, finish, forebay, report, wait_until,
};
use forebay_trace::{Checker, Event, Reader, Setup};

const BLOCK: usize = 8192;
const POLICIES: [&str; 5] = ["to", "to-agg", "sjf", "mlf", "aioli"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A `forebay` command about a forwarder.
fn command(words: &[&str]) -> Output {
    finish(forebay().args(words))
}

fn selection(status: &Status) -> &Selection {
    status.selection.as_ref().expect("the policy is auto")
}

/// The class of a job of ours.
fn choice<'s>(status: &'s Status, job: &str) -> Option<&'s Choice> {
    let name = format!("{}/{job}", rustix::process::getuid().as_raw());
    selection(status).choices.iter().find(|choice| choice.class.as_deref() == Some(&name))
}

/// On a modelled disk ten times as fast as the real one.
fn auto(settings: &mut Settings) {
    settings.scheduler.policy = "auto".into();
    settings.store.kind = StoreKind::Modelled("hdd-57".into());
    settings.store.time_scale = 0.1;
    settings.store.depth = 2;
}

/// Tells threads to stop, also when the test fails before it would have told them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes blocks of a file of its own until told to stop; what the file has to hold then.
fn write_until(client: &mut Client, name: &str, seed: u64, stop: &AtomicBool) -> Vec<u8> {
    let (_, handle) = client.open(name);
    let mut random = Random::new(seed);
    let mut model = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let at = random.below(64) as usize * 1000;
        let bytes = random.bytes(1 + random.clone().below(BLOCK as u64) as usize);
        assert_eq!(client.write(handle, at as u64, &bytes).unwrap(), bytes.len());
        model.resize(model.len().max(at + bytes.len()), 0);
        model[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    model
}

#[test]
fn a_program_runs_under_it_and_the_report_names_what_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("report.json");
    let mut run = forebay();
    run.args(["run", "--policy", "auto", "--report"]).arg(&at).arg("--path").arg(folder.path());
    run.args(["--", "sh", "-c", "dd if=/dev/zero of=data bs=8k count=300 2>/dev/null"]);
    let output = finish(run.current_dir(folder.path()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(std::fs::read(folder.path().join("data")).unwrap(), vec![0; 300 * BLOCK]);
    let report = report(&at).to_string();
    assert!(report.contains("\"auto") && report.contains("\"arms\""), "{report}");
}

#[test]
fn why_tells_pattern_leaf_and_arms_of_each_class() {
    let running = Running::start(auto);
    let endpoint = running.endpoint(Through::Unix).to_string();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        for job in ["climate", "weather"] {
            let (running, stop) = (&running, &stop);
            scope.spawn(move || {
                let endpoint = running.endpoint(Through::Unix);
                let mut client = Client::connect_as(job, endpoint, &running.folder());
                write_until(&mut client, job, 7, stop)
            });
        }
        wait_until("both patterns are seen", || {
            let status = running.status();
            let seen = |job| choice(&status, job).is_some_and(|choice| choice.pattern.is_some());
            seen("climate") && seen("weather")
        });
        drop(stopping);
    });
    // A parameter that changes loses nothing of that.
    assert!(command(&["set", &endpoint, "run_requests_max=32"]).status.success());
    let name = format!("{}/climate", rustix::process::getuid().as_raw());
    let told = text(&command(&["why", &endpoint, "--class", &name]).stdout);
    for part in ["modelled hdd-57", &name, "seen", "writes", "leaf", "speed over TO"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("weather"), "{told}");
    let json = text(&command(&["why", &endpoint, "--json"]).stdout);
    let json: Selection = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
    assert!(json.choices.len() >= 2, "{json:?}");
    let of_climate = json.choices.iter().find(|one| one.class.as_deref() == Some(&name)).unwrap();
    assert_eq!(of_climate.pattern.as_ref().unwrap().direction, "write");
    assert!(of_climate.features.contains_key("device_ratio"), "{of_climate:?}");
    assert!(of_climate.arms.iter().any(|arm| arm.policy == of_climate.policy), "{of_climate:?}");
    let status = text(&command(&["status", &endpoint]).stdout);
    assert!(status.contains("policy auto → "), "{status}");
    let unknown = command(&["why", &endpoint, "--class", "nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains(&name), "{}", text(&unknown.stderr));
}

#[test]
fn a_pin_holds_for_its_class_until_it_is_released() {
    let running = Running::start(auto);
    let endpoint = running.endpoint(Through::Unix).to_string();
    let pin = |words: &[&str]| {
        let output = command(&[&["pin", &endpoint], words].concat());
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    };
    pin(&["mlf"]);
    pin(&["sjf", "--class", "weather"]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        for job in ["climate", "weather"] {
            let (running, stop) = (&running, &stop);
            scope.spawn(move || {
                let endpoint = running.endpoint(Through::Unix);
                let mut client = Client::connect_as(job, endpoint, &running.folder());
                write_until(&mut client, job, 7, stop)
            });
        }
        let are = |climate: Option<&str>, weather: Option<&str>| {
            let status = running.status();
            [("climate", climate), ("weather", weather)].iter().all(|(job, wanted)| {
                choice(&status, job).is_some_and(|choice| {
                    let is_in_force = wanted.is_none_or(|policy| choice.policy == policy);
                    is_in_force && choice.pinned.as_deref() == *wanted
                })
            })
        };
        wait_until("each has its pin", || are(Some("MLF"), Some("SJF")));
        pin(&["--release"]);
        wait_until("one pin is left", || are(None, Some("SJF")));
        pin(&["--release", "--class", "weather"]);
        wait_until("none is left", || are(None, None));
        // What was released is in nobody's way.
        let set = command(&["set", &endpoint, "policy=sjf"]);
        assert!(set.status.success(), "{}", text(&set.stderr));
        drop(stopping);
    });
    // What is set for a class from the start is a pin too.
    let running = Running::start(|settings| {
        auto(settings);
        settings.classes.set("climate", "policy", "to-agg").unwrap();
    });
    let mut client =
        Client::connect_as("climate", running.endpoint(Through::Unix), &running.folder());
    let (_, handle) = client.open("a");
    client.write(handle, 0, &[1; BLOCK]).unwrap();
    wait_until("it is pinned", || {
        let status = client.status();
        choice(&status, "climate").is_some_and(|choice| {
            (choice.policy.as_str(), choice.pinned.as_deref()) == ("TO-agg", Some("TO-agg"))
        })
    });
}

#[test]
fn where_nothing_is_chosen_a_pin_says_what_to_do() {
    let running = Running::start(|settings| settings.scheduler.policy = "sjf".into());
    let endpoint = running.endpoint(Through::Unix).to_string();
    let refused = command(&["pin", &endpoint, "mlf"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("SJF, not auto") && said.contains("policy=auto"), "{said}");
    let told = text(&command(&["why", &endpoint]).stdout);
    assert!(told.contains("SJF") && told.contains("scheduler.policy"), "{told}");
    assert_eq!(text(&command(&["why", &endpoint, "--json"]).stdout), "null\n");
    for words in
        [&["set", &endpoint, "pin=mlf"][..], &["set", &endpoint, "class", "a", "policy=auto"]]
    {
        let refused = command(words);
        assert_eq!(refused.status.code(), Some(2));
        let said = text(&refused.stderr);
        assert!(said.contains("scheduler.policy = auto"), "{said}");
    }
    // It can be had while it runs, and be ended.
    assert!(command(&["set", &endpoint, "policy=auto"]).status.success());
    assert!(command(&["pin", &endpoint, "mlf"]).status.success());
    let status = running.status();
    assert!(status.policy.starts_with("auto"), "{}", status.policy);
    assert!(command(&["set", &endpoint, "pin=none"]).status.success());
    assert!(command(&["set", &endpoint, "policy=to"]).status.success());
    assert_eq!(running.status().policy, "TO");
}

#[test]
fn writers_write_the_same_bytes_however_often_the_policy_changes() {
    for level in [Level::None, Level::Job] {
        let running = Running::start(|settings| {
            auto(settings);
            settings.sharing.level = level;
        });
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let stopping = Stop(&stop);
            let writers: Vec<_> = (0..6_u64)
                .map(|n| {
                    let (running, stop) = (&running, &stop);
                    scope.spawn(move || {
                        let way = Through::ALL[n as usize % 2];
                        let job = format!("job{}", n % 3);
                        let endpoint = running.endpoint(way);
                        let mut client = Client::connect_as(&job, endpoint, &running.folder());
                        let name = format!("file{n}");
                        let model = write_until(&mut client, &name, n, stop);
                        (name, model)
                    })
                })
                .collect();
            let mut operator = running.connect(Through::Unix);
            let mut random = Random::new(level as u64);
            for _ in 0..150 {
                let policy = POLICIES[random.below(5) as usize];
                let words = match (random.below(4), level) {
                    (0, _) => vec!["pin=none".to_owned()],
                    (1, Level::Job) => {
                        let job = format!("job{}", random.below(3));
                        vec!["class".to_owned(), job, format!("policy={policy}")]
                    }
                    _ => vec![format!("pin={policy}")],
                };
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let answer = operator.connection.control(&words).expect("an answer");
                assert!(answer.contains("\"set\""), "{answer}");
            }
            drop(stopping);
            for writer in writers {
                let (name, model) = writer.join().unwrap();
                let found = std::fs::read(running.folder().join(&name)).unwrap();
                assert!(found == model, "{name}: {} and {} bytes", found.len(), model.len());
            }
        });
        running.wait_until_quiet(1);
    }
}

/// Strided readers that keep a queue filled, until `enough` says so.
fn read_in_strides(running: &Running, enough: impl Fn(&Status) -> bool) {
    const READERS: u64 = 8;
    std::fs::write(running.folder().join("shared"), vec![7; 512 * BLOCK]).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        for reader in 0..READERS {
            let stop = &stop;
            scope.spawn(move || {
                let mut client = running.connect(Through::Unix);
                let (_, handle) = client.open("shared");
                let mut bytes = vec![0; BLOCK];
                let mut block = reader;
                while !stop.load(Ordering::Relaxed) {
                    client.read(handle, block % 512 * BLOCK as u64, &mut bytes).unwrap();
                    block += READERS;
                }
            });
        }
        wait_until("enough was done", || enough(&running.status()));
        drop(stopping);
    });
}

#[test]
fn a_recorded_forwarder_that_chose_decides_the_same_when_its_trace_is_played() {
    let folder = tempfile::tempdir().unwrap();
    for (name, level) in [("alone", Level::None), ("shared", Level::Job)] {
        let path = folder.path().join(name);
        let running = Running::start(|settings| {
            auto(settings);
            settings.trace.file = Some(path.clone());
            settings.sharing.level = level;
        });
        let endpoint = running.endpoint(Through::Unix).to_string();
        for policy in ["mlf", "sjf"] {
            assert!(command(&["pin", &endpoint, policy]).status.success());
            read_in_strides(&running, |status| {
                let choices = &selection(status).choices;
                let is_in_force = |choice: &Choice| choice.policy.eq_ignore_ascii_case(policy);
                choices.iter().any(is_in_force) && status.scheduler.submitted > 500
            });
        }
        running.wait_until_quiet(0);
        running.stop();
        switches_and_replays(&path);
    }
}

/// The trace has the switches, and leads a scheduler to the same decisions.
fn switches_and_replays(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.header().setting("scheduler.policy"), Some("auto"));
    let setup = Setup::of(reader.header()).unwrap();
    let mut checker = Checker::new(setup.scheduler(), setup.policy_settings());
    let mut switched = Vec::new();
    for record in reader {
        let record = record.expect("it is whole");
        checker.check(&record).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Event::Setting { key, value } = record.event
            && key.ends_with("policy")
        {
            switched.push(value.to_owned());
        }
    }
    for policy in ["MLF", "SJF"] {
        assert!(switched.iter().any(|value| value.contains(policy)), "{switched:?}");
    }
    assert!(checker.decisions_count() > 100);
}

#[test]
fn what_was_learned_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    // A site's own tree of one leaf, at which an earlier run has learned that MLF is far ahead.
    let arms = [PolicyName::To, PolicyName::Sjf, PolicyName::Mlf];
    let log_speedups = arms.map(|policy| (policy, 0.0)).to_vec();
    let leaf = Leaf { policy: PolicyName::To, log_speedups, support: 10 };
    let tree = Tree::new(vec![Node::Leaf(leaf)]).unwrap();
    let at = folder.path().join("tree.json");
    std::fs::write(&at, write_tree(&tree)).unwrap();
    let learned = [Learned { leaf: 0, policy: PolicyName::Mlf, mean: 0.7, blocks: 100.0 }];
    save_state(&state, "modelled hdd-57", &tree, &learned).unwrap();
    let start = || {
        Running::start(|settings| {
            auto(settings);
            settings.select.state = Some(state.clone());
            settings.select.tree = Some(at.clone());
            settings.sharing.level = Level::None;
        })
    };
    for _ in 0..2 {
        let running = start();
        read_in_strides(&running, |status| {
            let choices = &selection(status).choices;
            choices
                .iter()
                .flat_map(|choice| &choice.arms)
                .any(|arm| arm.policy == "MLF" && arm.speedup > 1.2)
        });
        running.stop();
        let kept = load_state(&state, "modelled hdd-57", &tree).unwrap();
        assert!(kept.iter().any(|one| one.policy == PolicyName::Mlf), "{kept:?}");
    }
    // A state that is none is in nobody's way.
    std::fs::write(&state, "not a state").unwrap();
    start().stop();
    let aside = folder.path().join("state.json.damaged");
    assert_eq!(std::fs::read(aside).unwrap(), b"not a state");
    // A place where none can be is told, with what to do.
    let socket = folder.path().join("socket");
    let mut serve = forebay();
    serve.args(["serve", "--policy=auto", "--store=memory", "--listen-unix"]).arg(&socket);
    let refused = finish(serve.arg("--select-state").arg(folder.path().join("no/state")));
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("select.state") && said.contains("no/state"), "{said}");
}

#[test]
fn a_profile_that_cannot_be_read_is_told_and_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("forebay"), "no folder of profiles").unwrap();
    let mut run = forebay();
    run.env("XDG_CACHE_HOME", folder.path()).args(["run", "--policy", "auto", "--", "true"]);
    let output = finish(run.current_dir(folder.path()));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("a profile that was found is not used"), "{said}");
}

#[test]
fn a_profile_that_came_meanwhile_is_used_when_auto_is_put_in_charge_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let measured = |name: &str| {
        let kinds = [("read", "sequential"), ("read", "random")];
        let points = kinds.map(|(operation, order)| {
            serde_json::json!({
                "operation": operation, "order": order, "bytes": 4096, "ns": 1e5, "error": 0.1,
                "runs": 3
            })
        });
        let profile = serde_json::json!({
            "version": 1, "device": { "key": name, "name": name, "is_rotating": null },
            "measured_at": 1, "access": "direct", "span_bytes": 67_108_864, "points": points
        });
        std::fs::write(&path, profile.to_string()).unwrap();
    };
    measured("the first disk");
    let running = Running::start(|settings| {
        auto(settings);
        settings.select.device = Some(path.clone());
    });
    let endpoint = running.endpoint(Through::Unix).to_string();
    assert!(selection(&running.status()).device.contains("the first disk"));
    measured("the second disk");
    for policy in ["policy=to", "policy=auto"] {
        assert!(command(&["set", &endpoint, policy]).status.success());
    }
    let device = selection(&running.status()).device.clone();
    assert!(device.contains("the second disk"), "{device}");
}

#[test]
fn a_process_of_its_own_serves_explains_and_is_pinned() {
    let served =
        Served::start(&["--policy=auto", "--store=modelled:hdd-57", "--store-time-scale=0.1"]);
    let endpoint = served.endpoint(Through::Unix).to_string();
    let told = text(&command(&["why", &endpoint]).stdout);
    assert!(told.contains("No request has come yet") || told.contains("start"), "{told}");
    assert!(command(&["pin", &endpoint, "hbrr-bytes"]).status.success());
    let mut client = served.connect(Through::Unix);
    let (file, handle) = client.open("a");
    client.write(handle, 0, &[5; BLOCK]).unwrap();
    wait_until("a pin beyond the arms holds too", || {
        let status = client.status();
        choice(&status, "tests").is_some_and(|choice| choice.policy == "HBRR")
    });
    client.write(handle, 0, &[6; BLOCK]).unwrap();
    assert_eq!(file.metadata().unwrap().len(), BLOCK as u64);
    // Over TCP nobody pins, as nobody sets.
    let remote = served.endpoint(Through::Tcp).to_string();
    let refused = command(&["pin", &remote, "to"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("tcp_control"), "{}", text(&refused.stderr));
}
