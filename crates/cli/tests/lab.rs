//! `forebay lab` and `forebay bench fig` as a user types them.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wrong_setting_is_refused_with_what_is_allowed() {
    let cases: [(&[&str], &str); 13] = [
        (&["--profile", "hdd"], "known: hdd-57"),
        (&["--reorder", "look"], "c-look:N"),
        (&["--size", "1MiB"], "64MiB"),
        (&["--queue-depth", "2"], "4 to 128"),
        (&["--time-scale", "0.01"], "0.1 to 100"),
        (&["--rate", "1KiB/s"], "rate 1024: not 1048576 to"),
        (&["--rate", "fast"], "'--rate <RATE>': not a rate such as"),
        (&["--seek", "1ms,2ms"], "three times such as"),
        (&["--seek", "1ms,2ms,17ms"], "the average is not 6333334 to 9533333 ns"),
        (&["--rpm", "1"], "rpm 1: not 1000 to 100000"),
        (&["--overhead", "1s"], "overhead 1000000000: not 0 to 100000000 ns"),
        (&["--write-share", "0"], "write-share 0: not 1 to 1000"),
        (&["--profile", "ssd", "--drive-cache", "0"], "\"ssd\" is flash"),
    ];
    for (flags, expected) in cases {
        let arguments = [&["lab", "disk", "up", "refused"], flags].concat();
        let output = forebay(&arguments);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{flags:?}: {}", said(&output));
    }
}

#[test]
fn a_disk_that_is_not_there_is_named() {
    let is_root = rustix::process::geteuid().is_root();
    for command in ["down", "check", "status"] {
        let output = forebay(&["lab", "disk", command, "nowhere"]);
        assert_eq!(output.status.code(), Some(2), "{command}: {}", said(&output));
        let expected = if is_root { "\"nowhere\"" } else { "needs root" };
        assert!(said(&output).contains(expected), "{command}: {}", said(&output));
    }
}

#[test]
fn a_figure_has_to_exist() {
    for arguments in [&["bench", "fig"][..], &["bench", "fig", "fig99"]] {
        let output = forebay(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains("aioli06-fig5"), "{}", said(&output));
    }
    let output = forebay(&["bench", "core", "fig99"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

/// Why no disk can be set up here, if none can.
fn obstacle() -> Option<String> {
    let daemon = Path::new(env!("CARGO_BIN_EXE_forebay")).with_file_name("forebay-lab-disk");
    let wanted = ["/dev/fuse", "/dev/loop-control", daemon.to_str().unwrap()];
    let is_missing = |path: &&&str| !Path::new(path).exists();
    match wanted.iter().find(is_missing) {
        _ if !rustix::process::geteuid().is_root() => Some("not root".to_owned()),
        missing => missing.map(|path| format!("no {path}")),
    }
}

macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = obstacle() {
            assert!(std::env::var_os("REQUIRE_LAB").is_none(), "{reason}");
            return println!("skipped: {reason}");
        }
    };
}

/// A disk that goes with the test, however that ends.
struct Up {
    name: String,
    shown: String,
}

impl Up {
    fn new(test: &str, flags: &[&str]) -> Self {
        let name = format!("test-{test}-{}", std::process::id());
        let up = forebay(
            &[&["lab", "disk", "up", &name, "--size", "64MiB", "--time-scale", "0.1"], flags]
                .concat(),
        );
        assert!(up.status.success(), "{}", said(&up));
        Self { name, shown: shown(&up) }
    }

    fn status(&self, flags: &[&str]) -> Output {
        forebay(&[&["lab", "disk", "status", &self.name], flags].concat())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        forebay(&["lab", "disk", "down", &self.name]);
    }
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_disk_goes_up_says_what_it_is_and_goes_down() {
    skip_unless_possible!();
    let flags = ["--elevator", "bfq", "--read-ahead", "2MiB", "--rate", "100MiB/s"];
    let disk = Up::new("cli", &flags);
    for text in ["bfq", "2048 KiB", "hdd-57, changed: 104.9 MB/s", "mkfs", "fifo", "4 at the drive"]
    {
        assert!(disk.shown.contains(text), "{text}: {}", disk.shown);
    }

    let status: Value = serde_json::from_slice(&disk.status(&["--json"]).stdout).unwrap();
    assert_eq!(status["is"]["queue"]["elevator"], "bfq");
    assert_eq!(status["is"]["settings"]["changes"]["rate"], 100 << 20);
    assert_eq!((&status["is_mounted"], &status["owner"]), (&true.into(), &"nobody".into()));
    assert_eq!(status["statistics"]["requests"], 0);
    assert!(shown(&forebay(&["lab", "disk", "status"])).contains(&disk.name));

    let down = forebay(&["lab", "disk", "down", &disk.name]);
    assert!(down.status.success(), "{}", said(&down));
    assert_eq!(disk.status(&[]).status.code(), Some(2));
}

#[test]
fn status_can_be_watched() {
    skip_unless_possible!();
    let disk = Up::new("watch", &[]);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["lab", "disk", "status", &disk.name, "--watch=1", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut now = || {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["statistics"]["now_ns"].as_u64().unwrap()
    };
    assert!(now() < now());
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn a_disk_is_as_well_in_another_network_namespace() {
    skip_unless_possible!();
    let disk = Up::new("network", &[]);
    let status = Command::new("unshare")
        .args(["--net", env!("CARGO_BIN_EXE_forebay"), "lab", "disk", "status", &disk.name])
        .output()
        .unwrap();
    assert!(status.status.success(), "{}{}", shown(&status), said(&status));
}

#[test]
fn without_root_it_says_that_root_is_needed() {
    skip_unless_possible!();
    let disk = Up::new("root", &[]);
    // Where everybody may run it.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("forebay");
    std::fs::copy(env!("CARGO_BIN_EXE_forebay"), &program).unwrap();
    for path in [folder.path(), &program] {
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let commands: [&[&str]; 6] = [
        &["status"],
        &["status", &disk.name],
        &["check", &disk.name],
        &["down", &disk.name],
        &["down", "--all"],
        &["up", "another"],
    ];
    for command in commands {
        let output = Command::new(&program)
            .args(["lab", "disk"])
            .args(command)
            .uid(65_534)
            .gid(65_534)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", said(&output));
        assert!(said(&output).contains("needs root"), "{command:?}: {}", said(&output));
    }
    assert!(disk.status(&[]).status.success());
}

#[test]
fn the_last_words_of_a_daemon_are_shown_before_they_are_gone() {
    skip_unless_possible!();
    let disk = Up::new("words", &[]);
    let directory = Path::new("/run/forebay/lab").join(&disk.name);
    let log = std::fs::OpenOptions::new().append(true).open(directory.join("log"));
    log.unwrap().write_all(b"a head crash\n").unwrap();
    let daemon = std::fs::read_to_string(directory.join("lock")).unwrap();
    assert!(Command::new("kill").args(["-s", "KILL", &daemon]).status().unwrap().success());
    // A process lets go of what it had open some time after there is nothing else left of it.
    let started = Instant::now();
    let status = loop {
        let status = disk.status(&[]);
        if shown(&status).contains("its daemon has ended") {
            break status;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{}", shown(&status));
    };
    assert_eq!(status.status.code(), Some(1));
    assert!(shown(&status).contains("a head crash"), "{}", shown(&status));
    let check = forebay(&["lab", "disk", "check", &disk.name]);
    assert!(said(&check).contains("a head crash"), "{}", said(&check));
    let down = forebay(&["lab", "disk", "down", &disk.name]);
    assert!(down.status.success() && said(&down).contains("a head crash"), "{}", said(&down));
}

/// The commands of docs/lab.md, as the page has them.
#[test]
fn the_commands_of_the_page_work() {
    skip_unless_possible!();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split("\n```").find_map(|block| block.strip_prefix("sh\n")).unwrap();
    // A name of this test's own: somebody may have followed the page.
    let name = format!("test-page-{}", std::process::id());
    let block = block.replace("scratch", &name);
    let folder = Path::new(env!("CARGO_BIN_EXE_forebay")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let output =
        Command::new("bash").args(["-eu", "-c", &block]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{block}\n{}{}", shown(&output), said(&output));
}
