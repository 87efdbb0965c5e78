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

/// 2,000 of the 100,000 clients, and everything else the same.
#[test]
fn a_smaller_crowd_finishes_and_says_how_much_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.toml");
    let whole = std::fs::read_to_string(scenario("crowd.toml")).unwrap();
    let smaller = whole.replace("clients = 100000", "clients = 2000");
    assert_ne!(whole, smaller);
    std::fs::write(&path, smaller).unwrap();
    let output = forebay(&["simulate", path.to_str().unwrap(), "--policy", "to,aioli", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for run in json["runs"].as_array().unwrap() {
        assert_eq!(run["requests"], 2000 * 20);
        assert_eq!(run["bytes"], 2000 * 20 * 8192);
    }
    let said = text(&output.stderr);
    assert!(said.contains("TO: ") && said.contains(" million a second"), "{said}");
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
    says(format!("name = \"x\"\n[servers]\ncount = 0\n{job}"), &["servers.count", "1 to 1024"]);
    says("name = \"x\"\n".to_owned(), &["job", "[[job]]"]);
}

#[test]
fn a_policy_that_does_not_exist_is_refused_with_those_that_do() {
    let output = forebay(&["simulate", &scenario("strided.toml"), "--policy", "to,lifo"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("lifo") && said.contains("HBRR") && said.contains("all"), "{said}");
}

#[test]
fn the_checks_hold_and_their_failure_says_how_to_repeat_it() {
    let output = forebay(&["simulate", "--check", "--seeds", "1000..1010"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("kept every promise"));

    let wrong = ["--policy", "hbrr", "--guard", "none", "--promise", "overlap"];
    let output = forebay(&[&["simulate", "--check", "--seeds", "forever"][..], &wrong].concat());
    assert_eq!(output.status.code(), Some(1));
    let printed = text(&output.stdout);
    let command = printed.lines().last().unwrap().trim().strip_prefix("forebay ").unwrap();
    let again = forebay(&command.split(' ').collect::<Vec<_>>());
    assert_eq!((again.status.code(), text(&again.stdout)), (Some(1), printed));
}
