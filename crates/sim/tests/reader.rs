//! Whatever a scenario file says, it is run or refused: nothing in it makes the reader panic, wait
//! or take memory without end.

use forebay_sched::PolicyName;
use forebay_sim::{Scenario, Simulation};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

/// Every key, by section; those of a job and its phase are there once more for a second one.
const KEYS: &[(&str, &[&str])] = &[
    ("", &["name", "about", "colour"]),
    ("[network]", &["delay", "jitter", "bandwidth"]),
    (
        "[servers]",
        &["count", "stripe", "transfer", "device", "noise_percent", "depth", "request_cpu"],
    ),
    ("[forwarder]", &["depth", "request_cpu", "chunk", "chunks_in_flight", "memory"]),
    (
        "[scheduler]",
        &[
            "policy",
            "guard",
            "large",
            "run_bytes",
            "run_requests",
            "batch_bytes",
            "wait",
            "queue_requests",
            "sharing",
            "cpu",
        ],
    ),
    ("[faults]", &["stall_every", "stall", "fail_permille", "short_permille", "vanish_permille"]),
    ("[[job]]", JOB),
    ("[[job.phase]]", PHASE),
    ("[[job]]", JOB),
    ("[[job.phase]]", PHASE),
];
const JOB: &[&str] = &[
    "name",
    "applications",
    "clients",
    "weight",
    "limit",
    "operation",
    "reads_percent",
    "file",
    "order",
    "request",
    "requests",
    "file_bytes",
    "window",
    "think",
    "think_jitter",
    "start",
    "start_jitter",
];
const PHASE: &[&str] = &["requests", "operation", "file", "order", "request", "think"];

/// What a value may be: ordinary, at the edges of ranges, beyond them, or of another type.
const VALUES: &[&str] = &[
    "-1",
    "0",
    "1",
    "2",
    "3",
    "100",
    "101",
    "1000",
    "1024",
    "1025",
    "65536",
    "65537",
    "1000000",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "inf",
    "true",
    "[]",
    "{}",
    "1979-05-27",
    "\"\"",
    "\"-1 B\"",
    "\"0 B\"",
    "\"512 B\"",
    "\"64 KiB\"",
    "\"1 MiB\"",
    "\"1048576 GiB\"",
    "\"17179869183 GiB\"",
    "\"18446744073709551615 B\"",
    "\"0 ns\"",
    "\"5 us\"",
    "\"1 ms\"",
    "\"72057594037927936 ns\"",
    "\"18446744073 s\"",
    "\"1 B/s\"",
    "\"1 KiB/s\"",
    "\"18446744073709551615 B/s\"",
    "\"1250 MB/s\"",
    "\"hdd-57\"",
    "\"edel\"",
    "\"aioli\"",
    "\"auto\"",
    "\"file\"",
    "\"sfq\"",
    "\"drr\"",
    "\"mixed\"",
    "\"write\"",
    "\"shared\"",
    "\"per-process\"",
    "\"contiguous\"",
    "\"random\"",
    "\"strided\"",
];

/// A value that the key may well have.
fn ordinary(key: &str) -> &'static str {
    match key {
        "name" | "about" => "\"x\"",
        "bandwidth" | "limit" => "\"100 MB/s\"",
        "device" => "\"ssd\"",
        "policy" => "\"hbrr\"",
        "guard" => "\"client\"",
        "sharing" => "\"sfq\"",
        "operation" => "\"mixed\"",
        "file" => "\"per-process\"",
        "order" => "\"random\"",
        "request" | "chunk" | "stripe" | "transfer" => "\"16 KiB\"",
        "memory" | "file_bytes" | "large" | "run_bytes" => "\"1 MiB\"",
        "batch_bytes" => "\"4 MiB\"",
        "stall_every" => "\"10 ms\"",
        "requests" => "20",
        "short_permille" => "0",
        key if key.ends_with("permille") => "20",
        "clients" | "applications" | "weight" | "window" | "depth" | "count" => "2",
        "reads_percent" | "noise_percent" => "50",
        "run_requests" | "queue_requests" | "chunks_in_flight" => "3",
        _ => "\"100 us\"",
    }
}

/// A scenario: which sections and keys it has, and with which values.
fn scenario() -> impl Strategy<Value = String> {
    let sections = KEYS.iter().map(|(section, keys)| {
        let lines = keys.iter().map(|key| {
            let usual = Just(ordinary(key));
            let value = prop_oneof![40 => usual, 1 => proptest::sample::select(VALUES)];
            let is_needed = ["name", "clients", "request", "requests"].contains(key);
            let presence = if is_needed { 1.0 } else { 0.4 };
            let is_there = proptest::bool::weighted(if *key == "colour" { 0.01 } else { presence });
            (is_there, value).prop_map(move |(is_there, value)| match is_there {
                true => format!("{key} = {value}\n"),
                false => String::new(),
            })
        });
        let (heading, lines) = (*section, lines.collect::<Vec<_>>());
        (proptest::bool::weighted(0.7), lines).prop_map(move |(is_there, lines)| {
            match is_there || heading.is_empty() {
                true => format!("{heading}\n{}", lines.concat()),
                false => String::new(),
            }
        })
    });
    sections.collect::<Vec<_>>().prop_map(|sections| sections.concat())
}

/// Reads it, and runs the beginning of what is small enough; whether it was run.
fn try_it(text: &str) -> bool {
    let Ok(scenario) = toml::from_str::<Scenario>(text) else { return false };
    let clients =
        scenario.jobs.iter().map(|job| u64::from(job.applications) * u64::from(job.clients));
    let is_small = clients.fold(0, u64::saturating_add) <= 10_000 && scenario.servers.count <= 64;
    if let Err(refused) = scenario.validate() {
        assert!(!refused.key.is_empty() && !refused.text.is_empty(), "{refused:?}");
        assert!(Simulation::new(&scenario, PolicyName::Aioli, 1).is_err());
        return false;
    }
    if !is_small || scenario.jobs.is_empty() {
        return false;
    }
    let policy = scenario.scheduler.policy;
    let mut simulation = Simulation::new(&scenario, policy, 1).expect("it is valid and has jobs");
    simulation.advance(3_000);
    true
}

#[test]
fn every_scenario_is_run_or_refused() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut run = 0;
    for _ in 0..3_000 {
        let text = scenario().new_tree(&mut runner).expect("it is drawn").current();
        match std::panic::catch_unwind(|| try_it(&text)) {
            Ok(was_run) => run += u32::from(was_run),
            Err(_) => panic!("this scenario makes it panic:\n{text}"),
        }
    }
    assert!(run > 100, "{run} of them were run");
}

proptest! {
    #[test]
    fn what_is_no_scenario_is_refused(text in "\\PC{0,200}", at in 0_usize..2_000) {
        try_it(&text);
        // And one that is cut off, or has something in its middle.
        let whole = include_str!("../../../scenarios/faults.toml");
        let at = (0..=at.min(whole.len())).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
        try_it(&whole[..at]);
        try_it(&format!("{}{text}{}", &whole[..at], &whole[at..]));
    }
}

/// With every key, also those that have no default.
const WHOLE: &str = r#"
name = "whole"
about = "every key"
[network]
delay = "31 us"
jitter = "7 ns"
bandwidth = "65536001 B/s"
[servers]
count = 3
stripe = "96 KiB"
transfer = 4097
device = "suno"
noise_percent = 7
depth = 5
request_cpu = "6 us"
[forwarder]
depth = 9
request_cpu = "2 us"
chunk = "128 KiB"
chunks_in_flight = 2
memory = "3 MiB"
[scheduler]
policy = "hbrr"
guard = "client"
large = "1 MiB"
run_bytes = "512 KiB"
run_requests = 33
batch_bytes = "2 MiB"
wait = "800 us"
queue_requests = 77
sharing = "drr"
cpu = "123 ns"
[faults]
stall_every = "5 s"
stall = "10 ms"
fail_permille = 1
short_permille = 2
vanish_permille = 3
[[job]]
name = "a"
applications = 2
clients = 4
weight = 5
limit = "10 MB/s"
operation = "mixed"
reads_percent = 60
file = "per-process"
order = "random"
request = "64 KiB"
requests = 10
file_bytes = "1 GiB"
window = 2
think = "1 ms"
think_jitter = "2 ms"
start = "3 s"
start_jitter = "4 s"
[[job.phase]]
requests = 2
operation = "read"
file = "shared"
order = "random"
request = "8 KiB"
think = "5 ns"
"#;

#[test]
fn a_scenario_is_written_with_every_key_and_read_as_the_same() {
    let whole: Scenario = toml::from_str(WHOLE).expect("it is one");
    let written = toml::to_string(&whole).expect("it can be written");
    assert_eq!(toml::from_str::<Scenario>(&written).expect("it is read"), whole);
    for (section, keys) in KEYS {
        for key in keys.iter().filter(|key| **key != "colour") {
            let line = format!("{key} = ");
            let is_line = |text: &str| text.lines().any(|it| it.starts_with(&line));
            assert!(is_line(WHOLE) && is_line(&written), "{section} {key}: {written}");
        }
    }
    // Defaults are written, too.
    let plain = Scenario { name: "plain".into(), ..Scenario::default() };
    let written = toml::to_string(&plain).expect("it can be written");
    assert_eq!(toml::from_str::<Scenario>(&written).expect("it is read"), plain);
    for line in
        ["bandwidth = \"1250 MB/s\"", "wait = \"900 us\"", "policy = \"aIOLi\"", "count = 1"]
    {
        assert!(written.lines().any(|it| it == line), "{line}: {written}");
    }
}
