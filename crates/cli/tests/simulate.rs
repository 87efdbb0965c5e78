//! `forebay simulate` as a user meets it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn forebay(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn scenario(name: &str) -> String {
    scenarios().join(name).to_str().unwrap().to_owned()
}

/// What a scenario of this text makes the command say; it is refused.
fn refusal(toml: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    std::fs::write(&path, toml).unwrap();
    let output = forebay(&["simulate", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn two_processes_print_the_same_bytes_for_the_same_seed() {
    for name in ["agios.toml", "faults.toml", "forwarded.toml"] {
        let run = |seed| {
            let output = forebay(&[
                "simulate",
                &scenario(name),
                "--policy",
                "all",
                "--seed",
                seed,
                "--json",
            ]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            output.stdout
        };
        let first = run("7");
        assert!(first == run("7"), "{name}: the second run differs");
        assert!(first != run("8"), "{name}: the seed changes nothing");
    }
}

#[test]
fn every_scenario_of_the_folder_is_read_and_all_but_the_largest_run() {
    for entry in std::fs::read_dir(scenarios()).unwrap() {
        let path = entry.unwrap().path();
        let toml = std::fs::read_to_string(&path).unwrap();
        let read: forebay_sim::Scenario = toml::from_str(&toml).unwrap();
        assert!(!read.about.is_empty() && path.file_stem().unwrap() == &*read.name, "{path:?}");
        if read.name == "crowd" {
            continue;
        }
        let output = forebay(&["simulate", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.contains("makespan") && table.contains(&read.jobs[0].name), "{table}");
    }
}

/// All of the 100,000 clients, with one request each instead of 20.
#[test]
fn a_hundred_thousand_clients_finish_in_little_memory_with_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.toml");
    let whole = std::fs::read_to_string(scenario("crowd.toml")).unwrap();
    let shorter = whole.replace("\nrequests = 20\n", "\nrequests = 1\n");
    assert!(whole != shorter && shorter.contains("clients = 100000"));
    std::fs::write(&path, shorter).unwrap();
    let run = || {
        // All addresses that it has at a time, so its memory, too: at most 1 GiB.
        let limited = "ulimit -v 1048576 && exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, env!("CARGO_BIN_EXE_forebay"), "simulate"]);
        let output = command.arg(&path).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    };
    let first = run();
    let json: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(json["settings"]["job"][0]["clients"], 100_000);
    assert_eq!(json["runs"][0]["requests"], 100_000);
    assert_eq!(json["runs"][0]["bytes"], 100_000 * 8192);
    let said = text(&first.stderr);
    assert!(said.contains("aIOLi: ") && said.contains(" million a second"), "{said}");
    assert!(first.stdout == run().stdout, "the second run differs");
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    let job = "[[job]]\nname = \"j\"\nclients = 1\nrequest = \"4 KiB\"\nrequests = 1\n";
    let says = |toml: String, parts: &[&str]| {
        let said = refusal(&toml);
        for part in parts {
            assert!(said.contains(part), "\"{part}\" is missing: {said}");
        }
    };
    says(format!("name = \"x\"\n[servers]\nstripes = 4\n{job}"), &["stripes", "stripe", "depth"]);
    says(format!("name = \"x\"\ncolour = 1\n{job}"), &["colour", "servers", "job"]);
    says(format!("name = \"x\"\n{job}think = \"5\"\n"), &["think", "900 us"]);
    says(format!("name = \"x\"\n{job}operation = \"append\"\n"), &["append", "mixed"]);
    says(
        format!("name = \"x\"\n[servers]\ndevice = \"floppy\"\n{job}"),
        &["floppy", "hdd-57", "pastel"],
    );
    says(
        format!("name = \"x\"\n[scheduler]\npolicy = \"fifo\"\n{job}"),
        &["fifo", "aIOLi", "HBRR"],
    );
    let line_3 = |section: &str, key: &str| format!("name = \"x\"\n[{section}]\n{key}\n{job}");
    says(line_3("servers", "count = 0"), &["line 3", "count = 0", "from 1 to 1024"]);
    says(line_3("servers", "count = -1"), &["line 3", "count = -1", "from 1 to 1024"]);
    says(line_3("servers", "count = 5000000000"), &["line 3", "5000000000", "from 1 to 1024"]);
    says(line_3("servers", "count = \"4\""), &["line 3", "string \"4\"", "from 1 to 1024"]);
    says(
        line_3("servers", "stripe = 100"),
        &["line 3: servers.stripe: 100", "512 to 1099511627776"],
    );
    says(
        line_3("faults", "stall = \"1 s\""),
        &["line 3: faults.stall: ", "set faults.stall_every"],
    );
    says(
        line_3("faults", "stall_every = \"1 s\""),
        &["line 3: faults.stall_every: ", "set faults.stall,"],
    );
    says(
        format!("name = \"x\"\n{job}window = 3\nfile_bytes = 10\n"),
        &["line 8: job \"j\": file_bytes: 10 is not in 4096"],
    );
    says(line_3("scheduler", "policy = \"auto\""), &["line 3", "say --policy auto"]);
    says("name = \"x\"\n".to_owned(), &["job", "[[job]]"]);
}

/// Runs a scenario of the folder with more arguments; its JSON.
fn json(name: &str, more: &[&str]) -> Value {
    let output = forebay(&[&["simulate", &scenario(name), "--json"][..], more].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn results_say_what_was_simulated_with_every_default() {
    let json = json("forwarded.toml", &["--seed", "5"]);
    let settings = &json["settings"];
    assert_eq!((&json["scenario"], &json["seed"]), (&"forwarded".into(), &5.into()));
    assert_eq!(settings["servers"]["request_cpu"], "100 us");
    assert_eq!(settings["servers"]["transfer"], Value::Null);
    assert_eq!(settings["network"]["bandwidth"], "1250 MB/s");
    assert_eq!(settings["job"][0]["think"], "0 ns");
    assert_eq!(settings["forwarder"]["chunks_in_flight"], 4);
    let output = forebay(&["simulate", &scenario("phases.toml"), "--seed", "5"]);
    let shown = text(&output.stdout);
    for part in [
        "phases, seed 5",
        "  servers: count 2, depth 1, device hdd-57, noise_percent 5, request_cpu 5 us, stripe 64 KiB",
        "  forwarder: none",
        "policy aIOLi",
        "  job: applications 1, clients 16",
        "    phase: file per-process",
    ] {
        assert!(shown.contains(part), "\"{part}\" is missing: {shown}");
    }
}

#[test]
fn what_clients_ask_for_is_recorded_and_asked_again_of_other_servers() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("jobs.trace");
    let trace = trace.to_str().unwrap();
    let recorded = json("two-jobs.toml", &["--policy", "sjf", "--trace", trace]);
    let recorded = &recorded["runs"][0];
    let stat = forebay(&["trace", "stat", trace, "--json"]);
    let stat: Value = serde_json::from_slice(&stat.stdout).unwrap();
    assert_eq!(stat["requests"]["all"], recorded["requests"]);
    let again = |name: &str, more: &[&str]| {
        json(name, &[&["--policy", "sjf", "--requests", trace][..], more].concat())
    };
    // Of the same servers: the same load, and about as long.
    let same = again("two-jobs.toml", &[]);
    assert_eq!(same["requests"]["pace"], "closed");
    let run = &same["runs"][0];
    assert_eq!((&run["requests"], &run["bytes"]), (&recorded["requests"], &recorded["bytes"]));
    let names = |run: &Value| -> Vec<String> {
        let applications = run["applications"].as_array().unwrap();
        applications.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(run), names(recorded));
    let ratio = run["makespan_ns"].as_f64().unwrap() / recorded["makespan_ns"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    // Of four servers behind a forwarder, and of servers that fail.
    let forwarded = &again("forwarded.toml", &["--pace", "open"])["runs"][0];
    assert_eq!(forwarded["bytes"], recorded["bytes"]);
    assert!(forwarded["nodes"].as_array().unwrap().iter().all(|node| node["dispatched"] != 0));
    let faults = folder.path().join("faults.toml");
    let toml = "name = \"f\"\n[servers]\ncount = 3\n[faults]\nfail_permille = 100\n";
    std::fs::write(&faults, toml).unwrap();
    let output = forebay(&["simulate", faults.to_str().unwrap(), "--requests", trace, "--json"]);
    let failing: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(failing["runs"][0]["requests"], recorded["requests"]);
    assert!(failing["runs"][0]["failed"].as_u64().unwrap() > 0);
    // One trace has one run.
    let output =
        forebay(&["simulate", &scenario("two-jobs.toml"), "--policy", "all", "--trace", trace]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("name one with --policy"), "{said}");
}

#[test]
fn recorded_weights_hold_where_a_scenario_shares() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let job = |name: &str, weight: u32| {
        format!(
            "[[job]]\nname = \"{name}\"\nclients = 16\nrequest = \"16 KiB\"\nrequests = 200\n\
             window = 8\nweight = {weight}\n"
        )
    };
    let settings = "name = \"s\"\n[servers]\ndevice = \"ssd\"\n[scheduler]\nsharing = \"sfq\"\n";
    let text_of = format!("{settings}{}{}", job("light", 1), job("heavy", 3));
    std::fs::write(path("jobs.toml"), text_of).unwrap();
    std::fs::write(path("servers.toml"), settings).unwrap();
    let completions = |arguments: &[&str]| -> Vec<f64> {
        let output = forebay(&[&["simulate", "--policy", "to", "--json"][..], arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let applications = json["runs"][0]["applications"].as_array().unwrap();
        applications.iter().map(|it| it["completion_ns"].as_f64().unwrap()).collect()
    };
    let (jobs, servers, trace) = (path("jobs.toml"), path("servers.toml"), path("t"));
    let recorded = completions(&[&jobs, "--trace", &trace]);
    let replayed = completions(&[&servers, "--requests", &trace]);
    for times in [recorded, replayed] {
        let ratio = times[0] / times[1];
        assert!((1.25..1.75).contains(&ratio), "light over heavy: {ratio}");
    }
}

#[test]
fn a_policy_that_does_not_exist_is_refused_with_those_that_do() {
    let output = forebay(&["simulate", &scenario("strided.toml"), "--policy", "to,lifo"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("lifo") && said.contains("HBRR") && said.contains("all"), "{said}");
    let output = forebay(&["simulate", &scenario("strided.toml"), "--policy", "twins"]);
    assert!(text(&output.stderr).contains("orders data servers"), "{}", text(&output.stderr));
}

#[test]
fn the_checks_hold_and_their_failure_says_how_to_repeat_it() {
    let output = forebay(&["simulate", "--check", "--seeds", "1000..1010"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("kept every promise"));

    let json = |seeds: &str| {
        let output =
            forebay(&["simulate", "--check", "--json", "--policy", "sjf", "--seeds", seeds]);
        (output.status.success(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (held, json) = json("0..2");
    assert!(held && json["runs"] == 8 && json["broken"] == Value::Null, "{json}");

    let wrong = ["--policy", "hbrr", "--guard", "none", "--promise", "overlap"];
    let output = forebay(&[&["simulate", "--check", "--seeds", "forever"][..], &wrong].concat());
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    let command = printed.lines().last().unwrap().trim().strip_prefix("forebay ").unwrap();
    let again = forebay(&command.split(' ').collect::<Vec<_>>());
    assert_eq!((again.status.code(), text(&again.stdout)), (Some(1), printed.clone()));
    let as_json = forebay(&command.split(' ').chain(["--json"]).collect::<Vec<_>>());
    let json: Value = serde_json::from_slice(&as_json.stdout).unwrap();
    assert_eq!(as_json.status.code(), Some(1));
    assert_eq!(json["broken"]["repeat"], format!("forebay {command}"));
    assert!(!json["broken"]["violations"].as_array().unwrap().is_empty());
}
