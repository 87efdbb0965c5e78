//! `forebay serve` and `forebay status` as a user meets them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running forwarder on a socket of its own; killed when the test is over, if it still runs.
struct Served {
    child: Child,
    socket: PathBuf,
}

impl Served {
    /// Starts one and waits until it says that it serves. Nobody reads what it says after that,
    /// which must not keep it from stopping.
    fn start(folder: &Path) -> Self {
        let socket = folder.join("socket");
        let mut command = forebay(&["serve", "--pool-bytes", "8MiB", "--listen-unix"]);
        let mut child = command.arg(&socket).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("forebay: serving on unix:"), "{line}");
        Self { child, socket }
    }

    fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    fn end_by(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forebay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> Output {
    forebay(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_forwarder_serves_says_so_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::start(folder.path());
        let shown = output(&["status", &served.endpoint()]);
        assert!(text(&shown.stdout).contains("8.0 MiB in use"), "{}", text(&shown.stdout));
        assert_eq!(served.end_by(signal), Some(0));
        assert!(!served.socket.exists());
    }
}

#[test]
fn the_status_is_json_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path());
    let mut command = forebay(&["status", "--json"]);
    let shown = command.env("FOREBAY_ENDPOINT", served.endpoint()).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(status["pool"]["capacity_bytes"], 8 << 20);
}

#[test]
fn the_socket_of_a_killed_forwarder_is_not_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Served::start(folder.path());
    first.end_by(Signal::KILL);
    assert!(first.socket.exists());
    let second = Served::start(folder.path());
    assert!(output(&["status", &second.endpoint()]).status.success());
}

#[test]
fn a_socket_in_use_and_a_file_in_the_way_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path());
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    for path in [&served.socket, &file] {
        let refused = output(&["serve", "--listen-unix", path.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("in use"), "{}", text(&refused.stderr));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    assert!(output(&["status", &served.endpoint()]).status.success());
}

#[test]
fn mistakes_in_file_environment_and_flags_are_all_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forebay.toml");
    std::fs::write(&file, "[pool]\nsize = \"8MiB\"\n").unwrap();
    let mut command = forebay(&["serve", "--policy", "lifo", "--config"]);
    let refused = command.arg(&file).env("FOREBAY_STORE_DEPTH", "many").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = text(&refused.stderr);
    for part in
        ["pool.size", "forebay.toml", "FOREBAY_STORE_DEPTH", "\"many\"", "0 to 4096", "\"lifo\""]
    {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn serving_nowhere_is_refused() {
    let refused = output(&["serve"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("listen.unix"));
}

#[test]
fn no_answer_is_a_failure_that_names_the_place() {
    let refused = output(&["status", "unix:/nonexistent/socket"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("unix:/nonexistent/socket"));
    assert_eq!(output(&["status", "nowhere"]).status.code(), Some(2));
}

#[test]
fn man_pages_and_completions_come_from_the_definitions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(output(&["generate", "man", path]).status.success());
    assert!(output(&["generate", "completions", path]).status.success());
    let page = std::fs::read_to_string(folder.path().join("forebay-serve.1")).unwrap();
    assert!(page.contains("pool\\-bytes"), "{page}");
    for name in ["forebay.1", "forebay-run.1", "forebay.bash", "_forebay", "forebay.fish"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}
