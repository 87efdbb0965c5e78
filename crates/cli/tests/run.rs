//! `forebay run` as a user meets it: exit codes, signals, environment, report, and nothing left behind.
//!
//! The library preloaded here is an empty one, compiled on the spot: what goes through the
//! forwarder is tested end to end elsewhere.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use forebay_client::{Connection, Endpoint, Limits, Who};
use rustix::process::{Pid, Signal, kill_process};

/// A directory for one test, with an empty library to preload.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("empty.c");
        std::fs::write(&source, "").unwrap();
        let compiler = Command::new("gcc")
            .args(["-shared", "-o"])
            .arg(library_in(folder.path()))
            .arg(&source)
            .status();
        assert!(compiler.expect("gcc is there: scripts/install-deps installs it").success());
        Self(folder)
    }

    /// `forebay run` with flags, then a command; the sockets' directory and the current one are the scene's.
    fn run(&self, flags: &[&str], command: &[&str]) -> Command {
        let mut forebay = Command::new(env!("CARGO_BIN_EXE_forebay"));
        forebay.arg("run").args(flags).arg("--").args(command).current_dir(self.0.path());
        forebay.env("FOREBAY_PRELOAD", library_in(self.0.path())).env_remove("LD_PRELOAD");
        forebay.env("XDG_RUNTIME_DIR", self.runtime());
        forebay
    }

    fn output(&self, flags: &[&str], command: &[&str]) -> Output {
        self.run(flags, command).output().unwrap()
    }

    fn runtime(&self) -> PathBuf {
        let path = self.0.path().join("runtime");
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

fn library_in(folder: &Path) -> PathBuf {
    folder.join("empty.so")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_exit_code_is_the_programs() {
    let scene = Scene::new();
    for (script, code) in
        [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        assert_eq!(scene.output(&[], &["sh", "-c", script]).status.code(), Some(code), "{script}");
    }
}

#[test]
fn a_program_that_cannot_be_run_has_its_own_code() {
    let scene = Scene::new();
    let missing = scene.output(&[], &["no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("no-such-program-anywhere: no such program"));
    assert_eq!(scene.output(&[], &["./empty.c"]).status.code(), Some(126));
}

#[test]
fn a_bad_setting_is_refused_before_the_program_starts() {
    let scene = Scene::new();
    let refused = scene.output(&["--policy", "lifo"], &["touch", "started"]);
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    for part in ["scheduler.policy", "\"lifo\"", "aioli"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!scene.0.path().join("started").exists());
}

#[test]
fn the_program_finds_its_forwarder_in_the_environment() {
    let scene = Scene::new();
    let here = scene.0.path().canonicalize().unwrap();
    let output = scene.output(&["--on-failure", "direct", "--job", "night"], &["env"]);
    let environment = text(&output.stdout);
    let socket = format!("FOREBAY_ENDPOINT=unix:{}/runtime/forebay-", scene.0.path().display());
    for line in [
        &socket,
        &format!("FOREBAY_PATHS={}\n", here.display()),
        "FOREBAY_ON_FAILURE=direct\n",
        "FOREBAY_JOB=night\n",
        &format!("LD_PRELOAD={}/empty.so\n", here.display()),
    ] {
        assert!(environment.contains(line), "{line}: {environment}");
    }
    let over_tcp = text(&scene.output(&["--tcp"], &["env"]).stdout);
    assert!(over_tcp.contains("FOREBAY_ENDPOINT=tcp:127.0.0.1:"), "{over_tcp}");
    assert!(over_tcp.contains(&format!("FOREBAY_EXPORT={}\n", here.display())), "{over_tcp}");
}

#[test]
fn a_signal_is_passed_on() {
    let scene = Scene::new();
    let script = "trap 'kill $!; exit 7' TERM; sleep 60 & echo ready; wait; exit 1";
    let mut child = scene.run(&[], &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

/// A run whose program has ended with 5 while a client is still connected.
fn run_with_a_client_left_behind(scene: &Scene) -> (Child, Connection) {
    let mut command = scene.run(&[], &["sh", "-c", "echo $FOREBAY_ENDPOINT; read line; exit 5"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut endpoint = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut endpoint).unwrap();
    let endpoint: Endpoint = endpoint.trim().parse().unwrap();
    let client = Connection::connect(&endpoint, &Who::default(), Limits::default()).unwrap();
    drop(child.stdin.take());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("left behind"));
    (child, client)
}

#[test]
fn a_program_left_behind_is_still_served() {
    let scene = Scene::new();
    let (mut child, mut left_behind) = run_with_a_client_left_behind(&scene);
    left_behind.status().unwrap();
    drop(left_behind);
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_signal_ends_the_wait_for_programs_left_behind() {
    let scene = Scene::new();
    let (mut child, mut left_behind) = run_with_a_client_left_behind(&scene);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert!(left_behind.status().is_err());
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let scene = Scene::new();
    let binary = env!("CARGO_BIN_EXE_forebay");
    let inner = "trap '' HUP; exec \"$0\" run -- sh -c 'kill -HUP $PPID $$; echo alive'";
    let mut shell = Command::new("sh");
    shell.args(["-c", inner, binary]).current_dir(scene.0.path());
    let output = shell.env("FOREBAY_PRELOAD", library_in(scene.0.path())).output().unwrap();
    assert_eq!(text(&output.stdout), "alive\n", "{}", text(&output.stderr));
}

#[test]
fn the_report_is_text_on_standard_error_or_json_where_asked() {
    let scene = Scene::new();
    let plain = text(&scene.output(&[], &["true"]).stderr);
    assert!(plain.starts_with("forebay: ") && plain.contains("nothing under"), "{plain}");

    let file = scene.0.path().join("report.json");
    let output = scene.output(&["--report", file.to_str().unwrap()], &["sh", "-c", "exit 3"]);
    assert_eq!(text(&output.stderr), "");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(report["exit_code"], 3);
    assert_eq!(report["command"][0], "sh");
    assert_eq!(report["status"]["clients"]["processes"], 0);
}

#[test]
fn no_directory_stays_behind() {
    let scene = Scene::new();
    scene.output(&[], &["true"]);
    assert_eq!(std::fs::read_dir(scene.runtime()).unwrap().count(), 0);
}
