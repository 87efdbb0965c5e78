//! Jobs share a store: by weight, within limits, whatever their files and connections; and it can be
//! seen and changed while they run.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use forebay_device::Profile;
use forebay_forwarder::Status;
use forebay_forwarder::status::{Account, Class};
use forebay_tests::{Served, Through, built, compiled, finish, forebay};
use forebay_units::{Bytes, Direction};

const BLOCK: u64 = 64 << 10;

/// A disk that seeks, three times as fast as the real one; one request at a time, and small enough
/// a queue that each class always has more waiting than it is given.
const DISK: &[&str] =
    &["--store-kind=modelled:hdd-57", "--store-time-scale=0.3", "--store-depth=1"];

/// A load under the preload library, as one job.
struct Load {
    child: Child,
    go: ChildStdin,
    says: BufReader<ChildStdout>,
}

/// What a load does.
struct Shape<'a> {
    job: Option<&'a str>,
    direction: &'a str,
    file: &'a str,
    files: u32,
    block_bytes: u64,
    threads: u32,
}

impl Default for Shape<'_> {
    fn default() -> Self {
        Self {
            job: None,
            direction: "read",
            file: "data",
            files: 1,
            block_bytes: BLOCK,
            threads: 12,
        }
    }
}

impl Load {
    /// Starts a load that waits for its first word; all its connections are there.
    fn start(served: &Served, way: Through, program: &Path, shape: &Shape<'_>) -> Self {
        let mut command = Command::new(program);
        let arguments = [
            shape.direction.to_owned(),
            served.folder().join(shape.file).display().to_string(),
            shape.files.to_string(),
            shape.block_bytes.to_string(),
            (if shape.files > 1 { 16 } else { 4096 }).to_string(),
            shape.threads.to_string(),
        ];
        command
            .args(arguments)
            .env("LD_PRELOAD", built("libforebay_preload.so"))
            .env("FOREBAY_ENDPOINT", served.endpoint(way).to_string())
            .env("FOREBAY_PATHS", served.folder())
            .env("FOREBAY_EXPORT", served.folder())
            .env("FOREBAY_ON_FAILURE", "fail")
            .env("FOREBAY_TIMEOUT_MS", "600000");
        for name in ["FOREBAY_JOB", "SLURM_JOB_ID", "PBS_JOBID", "FLUX_JOB_ID"] {
            command.env_remove(name);
        }
        if let Some(job) = shape.job {
            command.env("FOREBAY_JOB", job);
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
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

    /// Waits until it says `word`.
    fn hear(&mut self, word: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it speaks");
        assert_eq!(line.trim(), word, "the load has failed");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

fn class<'s>(status: &'s Status, name: &str) -> &'s Class {
    let found = status.classes.iter().find(|class| class.name == name);
    found.unwrap_or_else(|| panic!("no class {name}: {:?}", status.classes))
}

fn bytes(status: &Status, job: &str) -> u64 {
    class(status, &format!("{}/{job}", user())).account.bytes
}

/// Lets `first` make so many calls while `second` runs without end; how many bytes each had meanwhile.
fn race(served: &Served, first: (&mut Load, &str), second: &str, calls: u64) -> (u64, u64) {
    let before = served.status();
    first.0.go(calls);
    first.0.hear("done");
    let after = served.status();
    let had = |job| bytes(&after, job) - bytes(&before, job);
    (had(first.1), had(second))
}

fn assert_ratio((first, second): (u64, u64), ratio: f64) {
    let seen = first as f64 / second as f64;
    assert!(
        (seen / ratio - 1.0).abs() <= 0.05,
        "{first} to {second}: {seen:.3}, should be {ratio}"
    );
}

fn set(served: &Served, way: Through, words: &[&str]) -> Output {
    let mut command = forebay();
    command.arg("set").arg(served.endpoint(way).to_string()).args(words);
    finish(&mut command)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn settings_file(folder: &Path, text: &str) -> String {
    let path = folder.join("forebay.toml");
    std::fs::write(&path, text).expect("a settings file");
    format!("--config={}", path.display())
}

#[test]
fn two_jobs_get_bytes_as_their_weights_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let config = settings_file(folder.path(), "[classes.gold]\nweight = 3\n");
    for discipline in ["sfq", "drr"] {
        let discipline = format!("--sharing-discipline={discipline}");
        let flags = [DISK, &[&config, &discipline, "--sharing-quantum-bytes=64KiB"]].concat();
        let served = Served::start(&flags);
        let load = |job, file| {
            Load::start(
                &served,
                Through::Unix,
                &program,
                &Shape { job: Some(job), file, ..Shape::default() },
            )
        };
        let (mut gold, mut plain) = (load("gold", "a"), load("plain", "b"));
        plain.go(0);
        assert_ratio(race(&served, (&mut gold, "gold"), "plain", 450), 3.0);
    }
}

#[test]
fn small_random_and_large_sequential_requests_share_the_disks_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let config = settings_file(folder.path(), "[classes.large]\nweight = 3\n");
    // Status before and after, and what the disk moved in a second of being busy: no wall clock,
    // which on a busy machine says more about the machine.
    let run = |flags: &[&str]| {
        let served = Served::start(&[DISK, flags].concat());
        let load = |job, direction, block_bytes| {
            let shape =
                Shape { job: Some(job), direction, file: job, block_bytes, ..Shape::default() };
            Load::start(&served, Through::Unix, &program, &shape)
        };
        let (mut large, mut small) = (load("large", "scan", 1 << 20), load("small", "read", 4096));
        small.go(0);
        let before = served.status();
        large.go(300);
        large.hear("done");
        let after = served.status();
        let of_disk = |name| after.store_counters[name] - before.store_counters[name];
        let rate = of_disk("device_bytes") as f64 / (of_disk("busy_ns") as f64 / 1e9);
        (before, after, rate)
    };
    // Without shares each has what it manages to ask for; where one of the two is kept from the
    // processor that is another mixture, and no measure. So both are run again, twice at most.
    let mut pair = || {
        let (_, _, unshared) = run(&["--scheduler-policy=to", "--sharing-level=none"]);
        (unshared, run(&[&config]))
    };
    let (unshared, (before, after, shared)) = (0..2)
        .map(|_| pair())
        .find(|(unshared, (_, _, shared))| *shared >= 0.9 * unshared)
        .unwrap_or_else(&mut pair);
    let profile = Profile::by_name("hdd-57").expect("the disk that was modelled");
    let time = |job| {
        let of = |status| class(status, &format!("{}/{job}", user())).account.clone();
        let (before, after): (Account, Account) = (of(&before), of(&after));
        let bytes = Bytes(after.bytes - before.bytes);
        let seek = profile.random_time(Direction::Read, Bytes::kib(8))
            - profile.sequential_time(Direction::Read, Bytes::kib(8));
        seek.0 * (after.batches - before.batches)
            + profile.sequential_time(Direction::Read, bytes).0
    };
    assert_ratio((time("large"), time("small")), 3.0);
    assert!(shared >= 0.9 * unshared, "{shared} bytes a second, {unshared} in order of arrival");
}

#[test]
fn a_weight_that_is_set_live_holds_from_then_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(DISK);
    let load = |job, way| {
        Load::start(
            &served,
            way,
            &program,
            &Shape { job: Some(job), file: job, ..Shape::default() },
        )
    };
    let (mut first, mut second) = (load("first", Through::Unix), load("second", Through::Tcp));
    second.go(0);
    assert_ratio(race(&served, (&mut first, "first"), "second", 200), 1.0);
    let answer = set(&served, Through::Unix, &["class", "first", "weight=4"]);
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    assert_eq!(text(&answer.stdout), "class first: weight = 4\n");
    assert_ratio(race(&served, (&mut first, "first"), "second", 1000), 4.0);
    let status = served.status();
    assert_eq!(class(&status, &format!("{}/first", user())).settings["weight"], "4");
    let answer = set(&served, Through::Unix, &["policy=sjf"]);
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    assert_ratio(race(&served, (&mut first, "first"), "second", 1000), 4.0);
    assert_eq!(served.status().policy.to_lowercase(), "sjf");
}

#[test]
fn a_job_of_a_thousand_files_gets_no_more_than_a_job_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(DISK);
    let load = |job, files| {
        let shape = Shape { job: Some(job), file: job, files, ..Shape::default() };
        Load::start(&served, Through::Unix, &program, &shape)
    };
    let (mut one, mut many) = (load("one", 1), load("many", 1000));
    many.go(0);
    assert_ratio(race(&served, (&mut one, "one"), "many", 250), 1.0);
}

#[test]
fn users_share_first_and_their_jobs_below_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(&[DISK, &["--sharing-level=user"]].concat());
    let load = |job| {
        let shape = Shape { job: Some(job), file: job, ..Shape::default() };
        Load::start(&served, Through::Unix, &program, &shape)
    };
    let (mut a, mut b) = (load("a"), load("b"));
    a.go(20);
    b.go(20);
    a.hear("done");
    b.hear("done");
    let status = served.status();
    assert_eq!(status.classes.len(), 1, "{:?}", status.classes);
    assert_eq!(class(&status, &format!("user:{}", user())).account.bytes, (40 + 24) * BLOCK);
}

#[test]
fn a_limit_holds_for_all_connections_together() {
    const RATE: u64 = 8 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let config = settings_file(
        folder.path(),
        "[classes.slow]\nlimit_bytes_per_second = \"8MiB/s\"\nat_limit = \"wait\"\n",
    );
    let served = Served::start(&["--store-kind=modelled:ssd", &config]);
    // Four processes, two over each way in.
    let mut loads: Vec<_> = [Through::Unix, Through::Unix, Through::Tcp, Through::Tcp]
        .into_iter()
        .enumerate()
        .map(|(n, way)| {
            let file = format!("file{n}");
            let shape = Shape {
                job: Some("slow"),
                direction: "write",
                file: &file,
                threads: 2,
                ..Shape::default()
            };
            Load::start(&served, way, &program, &shape)
        })
        .collect();
    let mut rounds = |calls: u64| {
        loads.iter_mut().for_each(|load| load.go(calls));
        loads.iter_mut().for_each(|load| load.hear("done"));
        served.status()
    };
    // The first second's worth may go at once.
    let before = rounds(40);
    let after = rounds(120);
    let moved = bytes(&after, "slow") - bytes(&before, "slow");
    let seconds = (after.uptime_ns - before.uptime_ns) as f64 / 1e9;
    let rate = moved as f64 / seconds / RATE as f64;
    println!("{moved} bytes in {seconds:.3} s: {rate:.4} of the limit");
    assert_eq!(moved, 4 * 120 * BLOCK);
    assert!((0.98..=1.02).contains(&rate), "{rate:.4} of the limit");
    let slow = class(&after, &format!("{}/slow", user()));
    assert!(slow.account.throttled > 0 && slow.account.throttled_ns > 1_000_000_000, "{slow:?}");
}

#[test]
fn a_job_held_back_keeps_no_other_job_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(&["--store-kind=modelled:ssd", "--pool-bytes=4MiB"]);
    let load = |job, file, threads| {
        let shape = Shape { job: Some(job), direction: "write", file, threads, ..Shape::default() };
        Load::start(&served, Through::Unix, &program, &shape)
    };
    // The writes of the one fill the pool twice over, and leave it one a second.
    let mut slow = ["a", "b", "c"].map(|file| load("slow", file, 32));
    let mut fast = load("fast", "d", 4);
    let words = ["class", "slow", "limit=64KiB/s", "at_limit=wait"];
    assert!(set(&served, Through::Unix, &words).status.success());
    slow.iter_mut().for_each(|slow| slow.go(0));
    forebay_tests::wait_until("the burst is over and the pool is full", || {
        let status = served.status();
        class(&status, &format!("{}/slow", user())).alive.waiting > 20
            && status.calls.memory_waits > 0
    });
    let (fast_had, slow_had) = race(&served, (&mut fast, "fast"), "slow", 400);
    assert_eq!(fast_had, 400 * BLOCK);
    assert!(slow_had * 10 <= fast_had, "{slow_had} bytes of the slow one meanwhile");
}

#[test]
fn it_is_seen_whose_requests_hold_a_job_up_at_the_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(DISK);
    // Both are at 32 blocks with 12 threads, and the disk does one request at a time.
    let load = |job, direction| {
        let shape = Shape { job: Some(job), direction, files: 2, ..Shape::default() };
        Load::start(&served, Through::Unix, &program, &shape)
    };
    let (mut writer, mut reader) = (load("writer", "write"), load("reader", "read"));
    writer.go(0);
    reader.go(0);
    let [writes, reads] = ["writer", "reader"].map(|job| format!("{}/{job}", user()));
    forebay_tests::wait_until("the reader is blocked for some time", || {
        let status = served.status();
        let alive = &class(&status, &reads).alive;
        assert!(alive.waiting >= alive.blocked_now, "{alive:?}");
        let by = &alive.blocked_now_by;
        assert!(by.iter().all(|by| by.class == writes), "reads hold no reads up: {by:?}");
        assert_eq!(by.iter().map(|by| by.requests).sum::<u64>(), alive.blocked_now);
        assert_eq!(by.iter().map(|by| by.time_ns).sum::<u64>(), alive.blocked_now_ns);
        let file = status.files.iter().find(|file| file.alive.blocked_now > 0);
        let waited = file.map_or(0, |file| file.alive.oldest_waiting_ns);
        alive.blocked_now > 0 && waited >= 1_000_000
    });
    let endpoint = served.endpoint(Through::Unix).to_string();
    let said = text(&finish(forebay().args(["status", "--json", &endpoint])).stdout);
    for member in
        ["blocked_now", "blocked_now_ns", "blocked_now_by", "oldest_waiting_ns", "in_flight"]
    {
        assert!(said.contains(&format!("\"{member}\":")), "no {member} in {said}");
    }
}

#[test]
fn jobs_held_back_keep_no_other_job_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(&["--scheduler-queue-requests-max=64"]);
    let load = |job, direction, threads| {
        let shape = Shape { job: Some(job), direction, file: job, threads, ..Shape::default() };
        Load::start(&served, Through::Unix, &program, &shape)
    };
    let mut slow = ["a", "b"].map(|job| load(job, "read", 48));
    let (mut writer, mut reader) = (load("c", "write", 4), load("d", "read", 1));
    for job in ["a", "b"] {
        let words = ["class", job, "limit=16KiB/s", "at_limit=wait"];
        let answer = set(&served, Through::Unix, &words);
        assert!(answer.status.success(), "{}", text(&answer.stderr));
        assert!(text(&answer.stdout).contains("FOREBAY_TIMEOUT_MS"), "{}", text(&answer.stdout));
    }
    // Either of them alone would take three quarters of the places if it could.
    for (slow, least) in slow.iter_mut().zip([28, 42]) {
        slow.go(0);
        forebay_tests::wait_until("the burst is over and the places are taken", || {
            let status = served.status();
            status.scheduler.queued >= least && status.calls.unanswered > least
        });
    }
    writer.go(100);
    writer.hear("done");
    let before = served.status();
    reader.go(100);
    reader.hear("done");
    let after = served.status();
    let immediate = after.calls.immediate - before.calls.immediate;
    assert!(immediate >= 100, "{immediate} of 100 cached reads went past the queue");
    assert!(after.scheduler.queued >= 42, "{:?}", after.scheduler);
}

#[test]
fn a_read_that_needs_no_device_counts_where_a_class_waits_at_its_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(&[]);
    let shape = Shape { job: Some("slow"), block_bytes: 4096, threads: 1, ..Shape::default() };
    let mut load = Load::start(&served, Through::Unix, &program, &shape);
    load.go(100);
    load.hear("done");
    assert!(served.status().calls.immediate > 0, "the page cache answers");
    let words = ["class", "slow", "limit=200op/s", "at_limit=wait"];
    assert!(set(&served, Through::Unix, &words).status.success());
    let before = served.status();
    load.go(100);
    load.hear("done");
    let after = served.status();
    assert_eq!(after.calls.immediate, before.calls.immediate);
    let waited = after.uptime_ns - before.uptime_ns;
    assert!(waited > 400_000_000, "100 requests at 200 a second, 3 of them at once: {waited} ns");
}

#[test]
fn a_limit_idles_the_device_only_where_it_was_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let config =
        settings_file(folder.path(), "[classes.slow]\nlimit_bytes_per_second = \"64KiB/s\"\n");
    let served = Served::start(&["--store-kind=modelled:ssd", &config]);
    let shape = Shape { job: Some("slow"), ..Shape::default() };
    let mut load = Load::start(&served, Through::Unix, &program, &shape);
    let before = served.status();
    load.go(160);
    load.hear("done");
    let after = served.status();
    let seconds = (after.uptime_ns - before.uptime_ns) / 1_000_000_000;
    assert!(seconds < 20, "160 blocks of the limit are 160 s, it took {seconds} s although alone");
    let words = ["class", "slow", "at_limit=wait", "limit=8MiB/s"];
    assert!(set(&served, Through::Unix, &words).status.success());
    let before = served.status();
    load.go(64);
    load.hear("done");
    let waited = served.status().uptime_ns - before.uptime_ns;
    assert!(waited > 300_000_000, "4 MiB at 8 MiB/s, a burst of 1 MiB: {waited} ns");
}

#[test]
fn the_heaviest_job_is_the_first_that_one_sees() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled("load", folder.path());
    let served = Served::start(&[]);
    let load = |job, file| {
        Load::start(
            &served,
            Through::Unix,
            &program,
            &Shape { job, file, direction: "write", ..Shape::default() },
        )
    };
    let (mut heavy, mut light, mut nobody) =
        (load(Some("heavy"), "h"), load(Some("light"), "l"), load(None, "n"));
    for (load, calls) in [(&mut heavy, 500), (&mut light, 20), (&mut nobody, 100)] {
        load.go(calls);
        load.hear("done");
    }
    let mut command = forebay();
    let shown = finish(command.arg("status").arg(served.endpoint(Through::Unix).to_string()));
    let shown = text(&shown.stdout);
    let first = shown.lines().next().expect("a line");
    assert!(
        first.starts_with("heaviest") && first.contains(&format!("{}/heavy", user())),
        "{shown}"
    );
    let status = served.status();
    let names: Vec<_> = status.classes.iter().take(3).map(|class| class.name.clone()).collect();
    let job = |job| format!("{}/{job}", user());
    assert_eq!(names, [job("heavy"), job("-"), job("light")], "without a job, the user counts");
    let account = &status.classes[0].account;
    assert_eq!((account.bytes, account.read_bytes), (512 * BLOCK, 0));
    assert!(status.files[0].name.ends_with("/h"), "{:?}", status.files);
    assert_eq!(status.files[0].account.bytes, 512 * BLOCK);
}

#[test]
fn it_can_be_watched_line_by_line() {
    let served = Served::start(&["--store-kind=memory"]);
    let mut command = forebay();
    command.args(["status", "--watch=1"]).arg(served.endpoint(Through::Unix).to_string());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    for _ in 0..2 {
        let line = lines.next().expect("a line").expect("text");
        assert!(line.contains("nobody") && line.contains("0 queued"), "{line}");
    }
    // A reader that goes ends it.
    drop(lines);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_wrong_word_sets_nothing_and_says_what_is_allowed() {
    let served = Served::start(&["--store-kind=memory"]);
    for (words, parts) in [
        (&["class", "a", "weight=3", "limit=fast"][..], &["limit", "fast", "100MiB/s"][..]),
        (&["policy=lifo"], &["scheduler.policy", "lifo", "aioli"]),
        (&["pool.bytes=1"], &["pool.bytes", "cannot change"]),
    ] {
        let answer = set(&served, Through::Unix, words);
        assert_eq!(answer.status.code(), Some(2), "{words:?}");
        let said = text(&answer.stderr);
        assert!(said.contains("nothing was set"), "{said}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part}: {said}"));
    }
}

#[test]
fn over_tcp_nothing_is_set_unless_that_was_allowed() {
    let served = Served::start(&["--store-kind=memory"]);
    let refused = set(&served, Through::Tcp, &["class", "a", "weight=3"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("listen.tcp_control = allow"));
    let served = Served::start(&["--store-kind=memory", "--listen-tcp-control=allow"]);
    assert!(set(&served, Through::Tcp, &["class", "a", "weight=3"]).status.success());
}

#[test]
fn a_stranger_may_look_and_set_nothing() {
    if user() != 0 {
        eprintln!("NOT TESTED: only root can become another user");
        return;
    }
    let served = Served::start(&["--store-kind=memory"]);
    let folder = served.folder();
    let folder = folder.parent().expect("the export is in a folder");
    for (path, mode) in [(folder.to_path_buf(), 0o755), (folder.join("socket"), 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    // The command itself may lie where a stranger cannot look.
    let command = folder.join("forebay");
    std::fs::copy(built("forebay"), &command).expect("a copy");
    let as_stranger = |words: &[&str]| {
        let mut command = Command::new(&command);
        command.arg(words[0]).arg(served.endpoint(Through::Unix).to_string()).args(&words[1..]);
        finish(command.uid(65_534).gid(65_534))
    };
    let refused = as_stranger(&["set", "class", "a", "weight=3"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("only root"), "{}", text(&refused.stderr));
    assert!(as_stranger(&["status"]).status.success());
}
