//! `forebay trace` as a user meets it: logs become traces, traces become tables, CSV, plots and replays.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_forwarder::Forwarder;
use forebay_forwarder::settings::Sources;
use forebay_sched::policies::hbrr::HbrrQuantum;
use forebay_sched::sharing::{
    AtLimit, ClassShare, Discipline, Rate, Share, SharingSettings, SwSettings, TwinsSettings,
};
use forebay_sched::{Access, Bypass, ClassOptions, Limits, PolicyName, Request, SchedulerOptions};
use forebay_trace::{
    Adjustment, Event, Fate, Header, PolicyChoice, Recorder, RecorderOptions, Setup, Submit,
};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset, Timestamp};
use serde_json::Value;

/// A folder with logs and traces in it.
struct Scene(tempfile::TempDir);

const FIO: &str = "fio version 3 iolog
0 /data/a add
1 /data/a open
100 /data/a write 0 8192
300 /data/a read 8192 4096
700 /data/a sync 0 0
900 /data/a read 0 8192
950 /data/a close
";

impl Scene {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn trace(&self, arguments: &[&str]) -> Output {
        let mut forebay = Command::new(env!("CARGO_BIN_EXE_forebay"));
        forebay.arg("trace").args(arguments).current_dir(self.0.path());
        forebay.output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.trace(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(arguments)).unwrap()
    }

    /// What a command that does not succeed says, and its exit code.
    fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.trace(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
        (output.status.code().unwrap(), text(&output.stderr))
    }

    /// A trace of a log.
    fn import(&self, log: &str, name: &str) {
        std::fs::write(self.path("log"), log).unwrap();
        self.done(&["import", "log", "-o", name]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Eight ranks that read in strides of 16 KiB, four of them one file and four another, in turns.
fn strided() -> String {
    let mut text = String::new();
    for rank in 0..8_u64 {
        let (file, place) = (rank % 2, rank / 2);
        text += &format!("# DXT, file_id: {file}, file_name: /scratch/{file}\n");
        text += &format!("# DXT, rank: {rank}, hostname: node{}\n", rank / 4);
        for turn in 0..40_u64 {
            let (offset, start) = ((turn * 4 + place) * 16_384, turn * 50 + rank);
            let seconds = |tenths: u64| format!("{}.{:04}", tenths / 10_000, tenths % 10_000);
            text += &format!(
                " X_POSIX {rank} read {turn} {offset} 16384 {} {}\n",
                seconds(start),
                seconds(start + 45)
            );
        }
    }
    text
}

#[test]
fn a_log_becomes_a_trace_with_statistics_and_lines() {
    let scene = Scene::new();
    scene.import(FIO, "t");
    let summary = scene.json(&["stat", "t", "--json"]);
    assert_eq!(summary["requests"]["all"], 4);
    assert_eq!(summary["bytes"], serde_json::json!({"read": 12_288, "written": 8_192}));
    assert_eq!(summary["files"]["heaviest"][0]["name"], "/data/a");
    assert_eq!(summary["damages"].as_array().unwrap().len(), 0);
    let shown = scene.done(&["stat", "t"]);
    for part in ["4: 2 reads, 2 writes", "fio iolog", "as each client asked", "8.0 KiB"] {
        let part = part.replace("2 writes", "1 writes");
        assert!(shown.contains(&part), "{part:?} is not in\n{shown}");
    }
    let csv = scene.done(&["export", "t"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 5, "{csv}");
    assert!(lines[0].starts_with("seq,client,client_name"));
    assert_eq!(
        lines[1],
        "0,0,log 1,0,class 0,0,/data/a,write,0,8192,100000,,,100000,,8192,0,completed"
    );
}

#[test]
fn a_plot_is_drawn_as_its_name_says() {
    let scene = Scene::new();
    scene.import(FIO, "t");
    scene.done(&["stat", "t", "--plot", "t.svg"]);
    scene.done(&["stat", "t", "--plot", "t.png"]);
    assert!(std::fs::read_to_string(scene.path("t.svg")).unwrap().starts_with("<svg "));
    assert!(std::fs::read(scene.path("t.png")).unwrap().starts_with(b"\x89PNG"));
    let (code, error) = scene.refused(&["stat", "t", "--plot", "t.gif"]);
    assert!(code == 2 && error.contains("neither .svg nor .png"), "{error}");
}

#[test]
fn a_damaged_trace_is_read_as_far_as_it_goes_and_says_where_it_ends() {
    let scene = Scene::new();
    scene.import(&strided(), "t");
    let bytes = std::fs::read(scene.path("t")).unwrap();
    std::fs::write(scene.path("cut"), &bytes[..bytes.len() - 1]).unwrap();
    for command in [&["stat", "cut"][..], &["export", "cut"], &["replay", "cut"]] {
        let output = scene.trace(command);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(!output.stdout.is_empty());
        let error = text(&output.stderr);
        assert!(error.contains("cut: byte ") && error.contains("cut off"), "{error}");
    }
    std::fs::write(scene.path("no"), "no trace").unwrap();
    let (code, error) = scene.refused(&["stat", "no"]);
    assert!(code == 1 && error.contains("no: byte 0: not a trace"), "{error}");
}

#[test]
fn what_cannot_be_imported_or_replayed_is_named_with_what_would_do() {
    let scene = Scene::new();
    scene.import(FIO, "t");
    std::fs::write(scene.path("log"), FIO.replace("read 0 8192", "read 0 8k")).unwrap();
    std::fs::write(scene.path("empty"), "fio version 2 iolog\n").unwrap();
    scene.done(&["import", "empty", "-o", "e"]);
    for (arguments, code, part) in [
        (&["import", "log", "-o", "u"][..], 2, "log: line 7: the length is \"8k\""),
        (&["import", "absent", "-o", "u"], 1, "absent: "),
        (&["replay", "t", "--policy", "best"], 2, "best: unknown policy; one of TO"),
        (&["replay", "t", "--device", "tape"], 2, "hdd-57"),
        (&["replay", "t", "--guard", "some"], 2, "one of none, overlap, client, file"),
        (&["replay", "t", "--against", "absent"], 2, "neither a directory nor unix:/path"),
        (&["replay", "t", "--against", "unix:/x", "--policy", "to"], 2, "forebay set"),
        (&["replay", "e"], 1, "no requests in it"),
    ] {
        let (found, error) = scene.refused(arguments);
        assert_eq!(found, code, "{arguments:?}: {error}");
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn a_trace_is_checked_and_the_first_event_that_breaks_a_law_is_told() {
    let scene = Scene::new();
    let old = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/old");
    // A folder is each trace in it; what is none is left out.
    let folder = scene.path("folder");
    std::fs::create_dir(&folder).unwrap();
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(old).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        names.push(name.into_string().unwrap());
        std::fs::copy(path, folder.join(names.last().unwrap())).unwrap();
    }
    names.sort();
    std::fs::write(folder.join("notes"), "no trace").unwrap();
    let json = scene.json(&["check", "folder", "--decisions", "--json"]);
    let found: Vec<(&str, bool, u64)> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let name = one["trace"].as_str().unwrap().trim_start_matches("folder/");
            (name, one["obeys"].as_bool().unwrap(), one["same_decisions"].as_u64().unwrap())
        })
        .collect();
    let expected = [(&*names[0], true, 823), (&*names[1], true, 565)];
    assert_eq!(found, expected);
    let shown = scene.done(&["check", "folder"]);
    assert!(shown.contains("888 events, 300 requests, 0 of them open\n"), "{shown}");
    // A log of another tool.
    scene.import(FIO, "t");
    assert!(scene.done(&["check", "t"]).contains("obeys (a log without decisions)"));
    let (code, error) = scene.refused(&["check", "t", "folder", "--decisions"]);
    assert_eq!((code, error.as_str()), (1, ""), "what is found is on standard output");

    let twice = broken(Event::Complete { seq: 0, errno: 0, moved: Bytes(16_384) });
    std::fs::write(folder.join("broken"), twice).unwrap();
    let output = scene.trace(&["check", "folder", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let breach = &json[0]["breach"];
    assert_eq!((&breach["event"], &breach["time_ns"]), (&2.into(), &20.into()), "{json}");
    assert_eq!(breach["text"], "request 0 ended and was over");
    assert_eq!((&json[0]["obeys"], &json[1]["obeys"]), (&false.into(), &true.into()));
    let output = scene.trace(&["check", "folder/broken"]);
    let said = text(&output.stdout);
    assert!(said.contains("broken: event 2 (byte ") && said.contains("20 ns): "), "{said}");

    // Whole and without a breach, but decided otherwise: the recorded policy was another one.
    let other = broken(Event::Idle { asked: forebay_trace::Asked::Anything });
    std::fs::write(scene.path("other"), other).unwrap();
    assert!(scene.done(&["check", "other"]).contains("obeys"));
    let output = scene.trace(&["check", "other", "--decisions"]);
    let said = text(&output.stdout);
    assert!(output.status.code() == Some(1) && said.contains("decided otherwise"), "{said}");

    // What is missing is no reason to pass.
    let bytes = std::fs::read(folder.join(&names[0])).unwrap();
    std::fs::write(scene.path("cut"), &bytes[..bytes.len() - 1]).unwrap();
    let output = scene.trace(&["check", "cut"]);
    let said = text(&output.stdout);
    assert!(output.status.code() == Some(1) && said.contains("cut off"), "{said}");
    std::fs::create_dir(scene.path("empty")).unwrap();
    let (code, error) = scene.refused(&["check", "empty"]);
    assert!(code == 1 && error.contains("empty: no traces in it"), "{error}");
}

/// A request that comes, goes and ends, and then something else.
fn broken(last: Event<'_>) -> Vec<u8> {
    let setup = Setup {
        policy: PolicyName::To,
        options: SchedulerOptions::default(),
        limits: Limits::default(),
        hbrr_quantum: HbrrQuantum::Ranges(4),
        classes: None,
    };
    let header = Header { settings: setup.entries(), ..Header::default() };
    let mut recorder = Recorder::new(RecorderOptions::default(), 0);
    let request = Request {
        tag: 0,
        file: FileIndex(0),
        access: Access::Read,
        range: ByteRange::new(Offset(0), Bytes(16_384)),
        client: ClientId(0),
        class: ClassId(0),
    };
    let is_idle = matches!(last, Event::Idle { .. });
    let fate = if is_idle { Fate::Queued } else { Fate::Bypassed };
    let submit = Submit { seq: None, request, has_room: !is_idle, fate };
    recorder.record(Timestamp(5), &Event::Submit(submit));
    if !is_idle {
        let end = Event::Complete { seq: 0, errno: 0, moved: Bytes(16_384) };
        recorder.record(Timestamp(10), &end);
    }
    recorder.record(Timestamp(20), &last);
    let (blocks, totals) = recorder.finish();
    let mut bytes = header.to_bytes();
    blocks.for_each(|mut block| bytes.extend_from_slice(block.seal()));
    bytes.extend(totals.to_bytes());
    bytes
}

#[test]
fn virtual_time_shows_what_each_policy_would_have_done_in_the_same_bytes_each_time() {
    let scene = Scene::new();
    scene.import(&strided(), "t");
    let replay = ["replay", "t", "--policy", "to,aioli", "--device", "hdd-57", "--json"];
    let first = scene.done(&replay);
    assert_eq!(first, scene.done(&replay));
    let json: Value = serde_json::from_str(&first).unwrap();
    let runs = json["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["recorded", "to", "aioli"]);
    for run in runs {
        assert_eq!((&run["requests"], &run["bytes"]), (&320.into(), &(320 * 16_384).into()));
    }
    let merged = |run: &Value| run["merge_ratio"].as_f64().unwrap();
    assert_eq!(merged(&runs[1]), 1.0, "TO does not merge");
    assert!(merged(&runs[2]) > 1.5, "{first}");
    let time = |run: &Value| run["makespan_ns"].as_u64().unwrap();
    assert!(time(&runs[2]) < time(&runs[1]), "{first}");
    // In an open loop nothing can be over before the last request has come.
    let open = scene.json(&["replay", "t", "--policy", "aioli", "--pace", "open", "--json"]);
    assert!(time(&open["runs"][1]) >= (39 * 50 + 7) * 100_000);
    assert_eq!((&open["pace"], &open["time"]), (&"open".into(), &"virtual".into()));
    let all = scene.done(&["replay", "t", "--policy", "all"]);
    assert!(all.lines().count() > 6 && all.contains("hbrr"), "{all}");
}

/// A trace of a forwarder whose class 1 has a limit: 64 reads of 16 KiB of each of two classes, each
/// class a client.
fn recorded_with_a_limit(limit: Share) -> Vec<u8> {
    let classes = forebay_sched::ClassOptions::default();
    let setup = Setup {
        policy: PolicyName::To,
        options: SchedulerOptions::default(),
        limits: Limits::default(),
        hbrr_quantum: HbrrQuantum::Ranges(3),
        classes: Some(classes),
    };
    let wait = ("scheduler.wait_max".to_owned(), "700us".to_owned());
    let settings = setup.entries().into_iter().chain([wait]).collect();
    let header = Header { source: "a test".into(), clock_base_ns: 0, settings };
    let mut recorder = Recorder::new(RecorderOptions::default(), 0);
    let share = Share { at_limit: AtLimit::Wait, ..limit };
    let share = ClassShare { share, ..ClassShare::default() };
    let limit = Adjustment::Class(ClassId(1), Some(share));
    let (key, value) = (limit.key(), limit.value());
    recorder.record(Timestamp(5), &Event::Setting { key: &key, value: &value });
    for number in 0..128_u64 {
        let (client, place) = ((number % 2) as u32, number / 2);
        let request = Request {
            tag: 0,
            file: FileIndex(client),
            access: Access::Read,
            range: ByteRange::new(Offset(place * 16_384), Bytes(16_384)),
            client: ClientId(client),
            class: ClassId(client),
        };
        let submit = Submit { seq: None, request, has_room: true, fate: Fate::Queued };
        recorder.record(Timestamp(10 + number * 1000), &Event::Submit(submit));
        let end = Event::Complete { seq: number, errno: 0, moved: Bytes(16_384) };
        recorder.record(Timestamp(500 + number * 1000), &end);
    }
    let (blocks, totals) = recorder.finish();
    let mut bytes = header.to_bytes();
    blocks.for_each(|mut block| bytes.extend_from_slice(block.seal()));
    bytes.extend(totals.to_bytes());
    bytes
}

#[test]
fn recorded_classes_keep_their_limits_and_what_is_not_replayed_is_said() {
    let scene = Scene::new();
    // A million bytes a second.
    let bytes = Some(Rate { per_second: 1_000_000, burst: 1 << 16 });
    let limit = Share { bytes, ..Share::default() };
    std::fs::write(scene.path("t"), recorded_with_a_limit(limit)).unwrap();
    let makespan = |run: &Value| run["makespan_ns"].as_u64().unwrap();
    let json = scene.json(&["replay", "t", "--policy", "to,auto", "--device", "ssd", "--json"]);
    let runs = json["runs"].as_array().unwrap();
    assert_eq!((&runs[1]["policy"], &runs[2]["policy"]), (&"to".into(), &"auto".into()));
    // 1 MiB less what may go at once, and less the last request, at a million bytes a second.
    let least = ((1 << 20) - (1 << 16) - (1 << 14)) * 1000;
    for run in &runs[1..] {
        assert_eq!((&run["requests"], &run["failed"]), (&128.into(), &0.into()));
        assert!((least..least * 11 / 10).contains(&makespan(run)), "{run}");
    }
    let said = |policy: &str| text(&scene.trace(&["replay", "t", "--policy", policy]).stderr);
    assert!(!said("to").contains("not replayed"), "{}", said("to"));
    std::fs::create_dir(scene.path("folder")).unwrap();
    // In real time, too; a forwarder that runs has its own. A hundred requests a second.
    let limit = Share { ops: Some(Rate::ops(100)), ..Share::default() };
    std::fs::write(scene.path("t"), recorded_with_a_limit(limit)).unwrap();
    let output = scene.trace(&["replay", "t", "--policy", "auto", "--against", "folder", "--json"]);
    let said = text(&output.stderr);
    assert!(!said.contains("not replayed"), "{said}");
    let json = serde_json::from_slice(&output.stdout).unwrap();
    check_live(&json, &["auto"], 128, 2 << 20);
    let run = &json["runs"][1];
    assert!(makespan(run) >= 590_000_000, "64 requests, of which 3 go at once: {run}");
}

/// Two files, of which all reads have come at once: HBRR's turns end where the recorded quantum says.
#[test]
fn what_a_policy_was_made_with_is_replayed_and_what_was_changed_before_the_first_request() {
    let trace = |header: HbrrQuantum, changed: Option<HbrrQuantum>| {
        let setup = Setup {
            policy: PolicyName::Hbrr,
            options: SchedulerOptions::default(),
            limits: Limits { run_requests_max: 1, ..Limits::default() },
            hbrr_quantum: header,
            classes: None,
        };
        let header = Header { settings: setup.entries(), ..Header::default() };
        let mut recorder = Recorder::new(RecorderOptions::default(), 0);
        if let Some(hbrr_quantum) = changed {
            let choice = Adjustment::Policy(PolicyChoice { hbrr_quantum, ..setup.choice() });
            let (key, value) = (choice.key(), choice.value());
            recorder.record(Timestamp(3), &Event::Setting { key: &key, value: &value });
        }
        for number in 0..64_u64 {
            let request = Request {
                tag: 0,
                file: FileIndex((number % 2) as u32),
                access: Access::Read,
                range: ByteRange::new(Offset(number / 2 * 16_384), Bytes(16_384)),
                client: ClientId(number as u32),
                class: ClassId(0),
            };
            let submit = Submit { seq: None, request, has_room: false, fate: Fate::Queued };
            recorder.record(Timestamp(10), &Event::Submit(submit));
        }
        let (blocks, totals) = recorder.finish();
        let mut bytes = header.to_bytes();
        blocks.for_each(|mut block| bytes.extend_from_slice(block.seal()));
        bytes.extend(totals.to_bytes());
        bytes
    };
    let scene = Scene::new();
    let seeks = |bytes: Vec<u8>| {
        std::fs::write(scene.path("t"), bytes).unwrap();
        let json = scene.json(&["replay", "t", "--json"]);
        let run = &json["runs"][1];
        assert_eq!((&run["policy"], &run["requests"]), (&"hbrr".into(), &64.into()));
        run["seeks"].as_u64().unwrap()
    };
    let (short, long) = (HbrrQuantum::Ranges(1), HbrrQuantum::Ranges(32));
    let few = seeks(trace(long, None));
    let many = seeks(trace(short, None));
    assert!(many > 2 * few, "{many} and {few}");
    assert_eq!(seeks(trace(short, Some(long))), few);
    assert_eq!(seeks(trace(long, Some(short))), many);
}

/// What a replay in real time has to have done.
fn check_live(json: &Value, policies: &[&str], requests: u64, bytes: u64) {
    let runs = &json["runs"].as_array().unwrap()[1..];
    let names: Vec<&str> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(names, policies);
    for run in runs {
        assert_eq!((&run["requests"], &run["bytes"]), (&requests.into(), &bytes.into()), "{run}");
        assert_eq!(run["failed"], 0);
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn real_time_asks_a_forwarder_over_files_that_are_gone_afterwards() {
    let scene = Scene::new();
    let folder = scene.path("folder");
    std::fs::create_dir(&folder).unwrap();
    scene.import(FIO, "t");
    let json = scene.json(&["replay", "t", "--policy", "to,hbrr", "--against", "folder", "--json"]);
    check_live(&json, &["to", "hbrr"], 4, 20_480);
    scene.import(&strided(), "t");
    let json = scene.json(&["replay", "t", "--against", "folder", "--json"]);
    check_live(&json, &["aioli"], 320, 320 * 16_384);
    assert!(is_empty(&folder));
}

#[test]
fn real_time_has_every_policy_but_sw_which_is_no_policy_of_a_forwarder() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("folder")).unwrap();
    scene.import(FIO, "t");
    let all = ["replay", "t", "--policy", "all,to", "--against", "folder", "--json"];
    let names = PolicyName::ALL.into_iter().filter(|name| *name != PolicyName::Sw);
    let mut names: Vec<String> = names.map(|name| name.to_string().to_lowercase()).collect();
    names.push("to".into());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    check_live(&scene.json(&all), &names, 4, 20_480);
    let at = |at: u64| at * 1_000_000;
    let recorded = in_windows(PolicyName::Sw, None, None, &[(at(1), 0), (at(2), 1)]);
    std::fs::write(scene.path("sw"), recorded).unwrap();
    for arguments in [&["t", "--policy", "to,sw"][..], &["sw"]] {
        let arguments = [&["replay"], arguments, &["--against", "folder"]].concat();
        let (code, error) = scene.refused(&arguments);
        assert!(code == 2 && error.contains("sharing.discipline = sw"), "{error}");
        assert!(!error.contains("making"), "nothing has been played: {error}");
    }
}

/// A trace of reads of 16 KiB, each at its time and of its class, which is a client, and over at
/// once. Classes share in one way and from some time on in another one.
fn in_windows(
    policy: PolicyName,
    made: Option<Discipline>,
    changed: Option<(u64, Discipline)>,
    requests: &[(u64, u32)],
) -> Vec<u8> {
    let sharing = |discipline| SharingSettings { discipline, ..SharingSettings::default() };
    let setup = Setup {
        policy,
        options: SchedulerOptions { bypass: Bypass::Never, ..SchedulerOptions::default() },
        limits: Limits::default(),
        hbrr_quantum: HbrrQuantum::Ranges(3),
        classes: made
            .map(|made| ClassOptions { sharing: sharing(made), ..ClassOptions::default() }),
    };
    let header = Header { settings: setup.entries(), ..Header::default() };
    let mut recorder = Recorder::new(RecorderOptions::default(), 0);
    let mut changed = changed;
    for (number, (at, class)) in (0_u64..).zip(requests) {
        if let Some((when, discipline)) = changed.filter(|(when, _)| when <= at) {
            let change = Adjustment::Sharing(sharing(discipline));
            let (key, value) = (change.key(), change.value());
            recorder.record(Timestamp(when), &Event::Setting { key: &key, value: &value });
            changed = None;
        }
        let request = Request {
            tag: 0,
            file: FileIndex(0),
            access: Access::Read,
            range: ByteRange::new(Offset(number << 20), Bytes(16_384)),
            client: ClientId(*class),
            class: ClassId(*class),
        };
        let submit = Submit { seq: None, request, has_room: true, fate: Fate::Queued };
        recorder.record(Timestamp(*at), &Event::Submit(submit));
        let end = Event::Complete { seq: number, errno: 0, moved: Bytes(16_384) };
        recorder.record(Timestamp(*at), &end);
    }
    let (blocks, totals) = recorder.finish();
    let mut bytes = header.to_bytes();
    blocks.for_each(|mut block| bytes.extend_from_slice(block.seal()));
    bytes.extend(totals.to_bytes());
    bytes
}

#[test]
fn windows_are_on_in_virtual_time_when_they_were_on() {
    const MS: u64 = 1_000_000;
    let window = Nanos::secs(1);
    let sw = |start| {
        let start = Timestamp(start * MS);
        Discipline::Sw(SwSettings { window, start, is_strict: true })
    };
    let twins = |start, shift| {
        let start = Timestamp(start * MS);
        let twins = TwinsSettings { window, targets: 2, shift, start, ..TwinsSettings::default() };
        Discipline::Twins(twins)
    };
    let scene = Scene::new();
    let check = |made, changed, requests: &[(u64, u32)], longest: u64, makespan: u64| {
        let requests: Vec<_> = requests.iter().map(|(at, class)| (at * MS, *class)).collect();
        let trace = in_windows(PolicyName::To, Some(made), changed, &requests);
        std::fs::write(scene.path("t"), trace).unwrap();
        let json = scene.json(&["replay", "t", "--device", "ssd", "--json"]);
        let run = &json["runs"][1];
        assert_eq!(run["requests"], requests.len());
        // The device takes some 0.1 ms.
        for (found, ms) in [(&run["latency"]["max_ns"], longest), (&run["makespan_ns"], makespan)] {
            let found = found.as_u64().unwrap();
            assert!((ms * MS..(ms + 5) * MS).contains(&found), "{ms} ms: {run}");
        }
    };
    // Windows end at 3 s and 4 s.
    check(sw(0), None, &[(2900, 0), (2950, 1)], 100, 100);
    check(sw(0), None, &[(2900, 0), (3300, 1)], 700, 1100);
    check(sw(2900), None, &[(2900, 0), (3300, 1)], 1000, 1000);
    // The first one has yet to begin, at 3.4 s: until its end there is none before it.
    check(sw(3400), None, &[(2900, 0)], 1500, 1500);
    // From some time on, before and after the first request.
    check(Discipline::Sfq, Some((2800, sw(0))), &[(2900, 0)], 100, 100);
    check(Discipline::Sfq, Some((3500, sw(0))), &[(2900, 0), (3600, 1)], 400, 1100);
    // Window 2 is of server 0, window 3 of server 1, and with a shift the other way round.
    check(twins(0, 0), None, &[(2900, 1)], 100, 100);
    check(twins(0, 0), None, &[(2900, 0)], 0, 0);
    check(twins(0, 1), None, &[(2900, 0)], 100, 100);
    check(twins(0, 0), None, &[(3300, 0)], 700, 700);
    check(twins(0, 0), None, &[(3300, 1)], 0, 0);
}

#[test]
fn real_time_has_windows_of_arrival_and_says_that_it_has_none_of_servers() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("folder")).unwrap();
    let replay = |discipline| {
        let requests: Vec<_> = (0..8).map(|number| (1000 + number, number as u32 % 2)).collect();
        let trace = in_windows(PolicyName::To, Some(discipline), None, &requests);
        std::fs::write(scene.path("t"), trace).unwrap();
        let output = scene.trace(&["replay", "t", "--against", "folder", "--json"]);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        check_live(&json, &["to"], 8, 8 * 16_384);
        (json["runs"][1]["makespan_ns"].as_u64().unwrap(), text(&output.stderr))
    };
    let (_, said) = replay(Discipline::Twins(TwinsSettings::default()));
    assert!(said.contains("not replayed in real time: windows of data servers"), "{said}");
    let sw = SwSettings { window: Nanos::millis(40), is_strict: true, ..SwSettings::default() };
    let (makespan, said) = replay(Discipline::Sw(sw));
    assert!(!said.contains("not replayed"), "{said}");
    // Each client asks four times, and nothing leaves before the window is over.
    assert!(makespan >= 3 * sw.window.0, "{makespan}");
}

#[test]
fn real_time_asks_a_running_forwarder_over_either_kind_of_socket() {
    let scene = Scene::new();
    let (socket, folder) = (scene.path("socket"), scene.path("folder"));
    std::fs::create_dir(&folder).unwrap();
    let settings = Sources::new()
        .flag("listen.unix", socket.to_str().unwrap())
        .flag("listen.tcp", "127.0.0.1:0")
        .flag("export.root", folder.to_str().unwrap())
        .resolve()
        .unwrap();
    let forwarder = Forwarder::bind(&settings).unwrap();
    let [unix, tcp] = [0, 1].map(|number| forwarder.endpoints()[number].to_string());
    let stopper = forwarder.stopper();
    let serving = std::thread::spawn(move || forwarder.run().unwrap());
    scene.import(FIO, "t");
    let against = |endpoint: &str, flag: &str| {
        scene.json(&["replay", "t", "--against", endpoint, flag, "folder", "--json"])
    };
    check_live(&against(&unix, "--files"), &["as it is"], 4, 20_480);
    check_live(&against(&tcp, "--export"), &["as it is"], 4, 20_480);
    let (code, error) = scene.refused(&["replay", "t", "--against", &tcp]);
    assert!(code == 1 && error.contains("--export DIR"), "{error}");
    stopper.stop();
    let status = serving.join().unwrap();
    assert_eq!((status.calls.read_bytes, status.calls.written_bytes), (24_576, 16_384));
    assert!(is_empty(&folder));
}

#[test]
fn recording_is_running_with_a_trace() {
    let scene = Scene::new();
    let (source, library) = (scene.path("empty.c"), scene.path("empty.so"));
    std::fs::write(&source, "").unwrap();
    let compiler = Command::new("gcc").args(["-shared", "-o"]).arg(&library).arg(&source).status();
    assert!(compiler.expect("gcc is there: scripts/install-deps installs it").success());
    let mut forebay = Command::new(env!("CARGO_BIN_EXE_forebay"));
    forebay.args(["trace", "record", "-o", "run.trace", "--policy", "hbrr", "--"]);
    forebay.args(["sh", "-c", "exit 3"]).current_dir(scene.0.path());
    forebay.env("FOREBAY_PRELOAD", &library).env_remove("LD_PRELOAD");
    let output = forebay.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let summary = scene.json(&["stat", "run.trace", "--json"]);
    assert_eq!(summary["policy"], "HBRR");
    assert!(summary["source"].as_str().unwrap().starts_with("forebay "));
    assert!(summary["clock_base_ns"].as_u64().unwrap() > 1_700_000_000_000_000_000);
}
