//! Windows of time and of arrival before a store, seen in the forwarders' own traces: real
//! programs, real processes, and what is set while they run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use forebay_sched::sharing::{Discipline, WindowIdle};
use forebay_tests::{Served, Through, built, compiled, finish, forebay};
use forebay_trace::{Adjustment, Event, Fate, Named, Reader, Setup};
use forebay_units::{ClassId, Offset, Timestamp};

const BLOCK: u64 = 64 << 10;

/// A disk that seeks, three times as fast as the real one, one request at a time; and no waits for
/// better batches, which would let classes go out of turn.
const DISK: &[&str] = &[
    "--store-kind=modelled:hdd-57",
    "--store-time-scale=0.3",
    "--store-depth=1",
    "--scheduler-wait-max=0s",
];

/// A job of four threads that read blocks of 64 KiB anywhere in a file.
struct Job {
    child: Child,
    go: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Job {
    fn start(served: &Served, program: &Path, name: &str) -> Self {
        let file = served.folder().join(name).display().to_string();
        let mut child = Command::new(program)
            .args(["read", &file, "1", &BLOCK.to_string(), "4096", "4"])
            .env("LD_PRELOAD", built("libforebay_preload.so"))
            .env("FOREBAY_ENDPOINT", served.endpoint(Through::Unix).to_string())
            .env("FOREBAY_PATHS", served.folder())
            .env("FOREBAY_JOB", name)
            .env("FOREBAY_ON_FAILURE", "fail")
            .env("FOREBAY_TIMEOUT_MS", "600000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let go = child.stdin.take().expect("it is piped");
        let says = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut this = Self { child, go, says };
        this.hear("ready");
        this
    }

    /// Lets it make so many calls; 0 is without end.
    fn go(&mut self, calls: u64) {
        writeln!(self.go, "{calls}").expect("it listens");
    }

    fn hear(&mut self, word: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it speaks");
        assert_eq!(line.trim(), word, "the load has failed");
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What `forebay set` says, and whether it held.
fn set(served: &Served, words: &[&str]) -> (bool, String) {
    let endpoint = served.endpoint(Through::Unix).to_string();
    let output = finish(forebay().arg("set").arg(endpoint).args(words));
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// How many requests have left under each discipline, strict or not.
type Seen = BTreeMap<(&'static str, bool), u64>;

/// Reads a trace and holds what left against the discipline that was in force; who was named what.
fn check(path: &Path) -> (Seen, BTreeMap<String, ClassId>) {
    let bytes = std::fs::read(path).expect("it was written");
    let reader = Reader::new(&bytes).expect("a trace");
    let setup = Setup::of(reader.header()).expect("a forwarder says what it has");
    let mut discipline = setup.classes.expect("they share").sharing.discipline;
    let (mut seen, mut names) = (Seen::new(), BTreeMap::new());
    let mut came: BTreeMap<u64, (Timestamp, ClassId)> = BTreeMap::new();
    let mut left = |now: Timestamp, members: &[u64], came: &mut BTreeMap<u64, _>, by| {
        let all: Vec<(Timestamp, ClassId)> = members.iter().map(|seq| came[seq]).collect();
        let is_strict = match by {
            Discipline::Sfq | Discipline::Drr => false,
            Discipline::Twins(twins) => {
                let is_strict = twins.idle == WindowIdle::Strict;
                let due = twins.target_at(now);
                assert!(!is_strict || all.iter().all(|(_, class)| class.0 == due), "{now:?}");
                is_strict
            }
            Discipline::Sw(sw) => {
                let key = |(at, class): &(Timestamp, ClassId)| (sw.window_of(*at), *class);
                let first = came.values().map(key).min().expect("it was there");
                for member in &all {
                    assert_eq!(key(member), first, "out of order at {now:?}");
                    let end = sw.end_of(first.0);
                    assert!(!sw.is_strict || now >= end, "at {now:?}, before {end:?}");
                }
                sw.is_strict
            }
        };
        members.iter().for_each(|seq| _ = came.remove(seq));
        *seen.entry((by.as_str(), is_strict)).or_default() += members.len() as u64;
    };
    for record in reader {
        let record = record.expect("it is whole");
        match record.event {
            Event::Submit(submit) => {
                let seq = submit.seq.expect("there is room");
                came.insert(seq, (record.time, submit.request.class));
                assert_ne!(submit.fate, Fate::Blocked, "reads do not conflict");
                if let Discipline::Twins(twins) = discipline {
                    let Offset(start) = submit.request.range.start;
                    let target = start / BLOCK % u64::from(twins.targets);
                    assert_eq!(u64::from(submit.request.class.0), target);
                }
                if submit.fate == Fate::Bypassed {
                    left(record.time, &[seq], &mut came, discipline);
                }
            }
            Event::Dispatch { members, .. } => {
                let members: Vec<u64> = members.iter().collect();
                left(record.time, &members, &mut came, discipline);
            }
            Event::Setting { key, value } => {
                if let Some(Adjustment::Sharing(sharing)) = Adjustment::read(key, value) {
                    discipline = sharing.discipline;
                }
            }
            Event::Name { of: Named::Class(class), text } => {
                names.insert(text.to_owned(), class);
            }
            Event::Lost { .. } => panic!("the trace is not whole"),
            _ => {}
        }
    }
    assert!(came.is_empty(), "all have left");
    (seen, names)
}

#[test]
fn jobs_go_one_after_the_other_in_each_window_and_alike_at_every_forwarder() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let numbers = [["climate", "weather"], ["weather", "climate"]].map(|order| {
        let trace = folder.path().join(order[0]);
        let file = format!("--trace-file={}", trace.display());
        let sw =
            ["--sharing-discipline=sw", "--sharing-sw-window=20ms", "--sharing-windows=strict"];
        let served = Served::start(&[DISK, &sw, &[&file]].concat());
        let mut jobs = order.map(|job| Job::start(&served, &program, job));
        let mut pass = |calls| {
            jobs.iter_mut().for_each(|job| job.go(calls));
            jobs.iter_mut().for_each(|job| job.hear("done"));
        };
        pass(40);
        assert_eq!(served.status().sharing, "strict sw among jobs by time");
        for (words, parts) in [
            (
                &["discipline=twins"][..],
                &["sharing.discipline", "\"twins\"", "sharing.level = target"][..],
            ),
            (&["sw_window=0s"], &["sharing.sw_window", "\"0s\"", "60s"]),
            (&["policy=sw"], &["scheduler.policy", "\"sw\"", "set sharing.discipline = sw"]),
        ] {
            let (holds, said) = set(&served, words);
            assert!(!holds && parts.iter().all(|part| said.contains(part)), "{words:?}: {said}");
        }
        assert_eq!(
            set(&served, &["windows=work-conserving", "sw_window=5ms"]),
            (true, String::new())
        );
        pass(40);
        assert!(set(&served, &["discipline=drr"]).0);
        pass(20);
        drop(jobs);
        served.stop();
        let (seen, names) = check(&trace);
        for (by, count) in [(("sw", true), 320), (("sw", false), 320), (("drr", false), 160)] {
            assert!(seen.get(&by).is_some_and(|seen| *seen >= count / 4), "{by:?}: {seen:?}");
        }
        names
    });
    let jobs = |names: &BTreeMap<String, ClassId>| {
        let of_job = |name: &&String| name.ends_with("/climate") || name.ends_with("/weather");
        let jobs: Vec<String> = names.keys().filter(of_job).cloned().collect();
        jobs.into_iter().map(|name| (names[&name], name)).collect::<Vec<_>>()
    };
    assert_eq!(jobs(&numbers[0]).len(), 2);
    assert_eq!(jobs(&numbers[0]), jobs(&numbers[1]));
}

#[test]
fn each_data_server_has_its_windows() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let alone = finish(forebay().args(["serve", "--listen-unix=none", "--sharing-level=target"]));
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(said.contains("store.targets") && said.contains("at least 2"), "{said}");

    let trace = folder.path().join("trace");
    let file = format!("--trace-file={}", trace.display());
    let layout = ["--sharing-level=target", "--store-targets=4", "--store-stripe-bytes=64KiB"];
    let served = Served::start(&[DISK, &layout, &[&file]].concat());
    let mut job = Job::start(&served, &program, "climate");
    let mut pass = |calls| {
        job.go(calls);
        job.hear("done");
    };
    pass(10);
    let twins = ["discipline=twins", "windows=strict", "twins_window=3ms", "twins_shift=2"];
    assert_eq!(set(&served, &twins), (true, String::new()));
    assert_eq!(served.status().sharing, "strict twins among targets by time");
    pass(30);
    assert!(set(&served, &["windows=work-conserving", "twins_idle=1ms", "targets=3"]).0);
    pass(30);
    let (holds, said) = set(&served, &["targets=1"]);
    assert!(!holds && said.contains("store.targets") && said.contains("at least 2"), "{said}");
    let targets: Vec<String> =
        served.status().classes.iter().map(|class| class.name.clone()).collect();
    assert!((0..4).all(|n| targets.contains(&format!("target:{n}"))), "{targets:?}");
    drop(job);
    served.stop();
    let (seen, _) = check(&trace);
    for by in [("twins", true), ("twins", false)] {
        assert!(seen.get(&by).is_some_and(|seen| *seen >= 30), "{by:?}: {seen:?}");
    }
}
