//! Forwarders that are absent, die, fall silent or answer with errors.

#[path = "../../client/tests/forwarder/mod.rs"]
mod forwarder;
mod lab;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forwarder::Forwarder;
use lab::{Door, Lab};
use rustix::io::Errno;

/// Python that carries out one line of its input at a time and prints the value or the errno.
const INTERPRETER: &str = r#"
import os, sys
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except OSError as error: print("errno", error.errno, flush=True)
"#;

/// A program that does what the test tells it.
struct Told {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Told {
    fn start(lab: &Lab, environment: &[(&str, &str)]) -> Self {
        let mut command = lab.command("python3");
        command.args(["-c", INTERPRETER]).envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("python3");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    fn tell(&mut self, what: &str) -> String {
        writeln!(self.input, "{what}").expect("it lives");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("it answers");
        answer.trim_end().to_owned()
    }

    /// Ends it and returns what it said on standard error.
    fn end(self) -> String {
        drop(self.input);
        let output = self.child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        String::from_utf8(output.stderr).expect("text")
    }
}

fn lab() -> Lab {
    let lab = Lab::new(Door::Unix);
    std::fs::write(lab.data().join("file"), "content").expect("write");
    lab
}

const OPEN: &str = "os.open('file', os.O_RDWR)";
const APPEND: &str = "os.open('file', os.O_RDWR | os.O_APPEND)";

#[test]
fn without_a_forwarder_it_goes_direct_and_says_so_once() {
    let mut lab = lab();
    drop(lab.forwarder.take());
    let mut told = Told::start(&lab, &[]);
    let file = told.tell(OPEN);
    assert_eq!(told.tell(&format!("os.read({file}, 100)")), "b'content'");
    assert_eq!(told.tell(&format!("os.write({file}, b'more')")), "4");
    assert_eq!(told.tell(&format!("os.pread({file}, 100, 0)")), "b'contentmore'");
    let said = told.end();
    assert_eq!(said.matches("forebay:").count(), 1, "{said}");
    assert!(said.contains("cannot connect") && said.contains("going direct"), "{said}");
}

#[test]
fn without_a_forwarder_it_fails_where_that_is_wanted() {
    let mut lab = lab();
    drop(lab.forwarder.take());
    let mut told = Told::start(&lab, &[("FOREBAY_ON_FAILURE", "fail")]);
    let file = told.tell(OPEN);
    assert_eq!(told.tell(&format!("os.read({file}, 100)")), "errno 5");
    assert_eq!(told.tell(&format!("os.write({file}, b'more')")), "errno 5");
    assert_eq!(told.tell(&format!("os.lseek({file}, 0, 1)")), "0", "the position is where it was");
    assert_eq!(
        told.tell("open('/proc/self/comm').read().strip()"),
        "python3",
        "other files are none of our business"
    );
    let said = told.end();
    assert!(said.contains("calls fail with EIO"), "{said}");
}

#[test]
fn a_forwarder_that_dies_is_replaced_by_the_kernel() {
    let mut lab = lab();
    let mut told = Told::start(&lab, &[]);
    let file = told.tell(OPEN);
    assert_eq!(told.tell(&format!("os.read({file}, 3)")), "b'con'");
    drop(lab.forwarder.take());
    assert_eq!(told.tell(&format!("os.read({file}, 3)")), "b'ten'");
    assert_eq!(told.tell(&format!("os.write({file}, b'TTT')")), "3");
    assert_eq!(told.tell(&format!("os.pread({file}, 100, 0)")), "b'contenTTT'");
    let said = told.end();
    assert_eq!(said.matches("forebay:").count(), 1, "{said}");
}

fn a_restart_is_not_noticed(door: Door) {
    let mut lab = Lab::new(door);
    std::fs::write(lab.data().join("file"), "content").expect("write");
    let mut told = Told::start(&lab, &[("FOREBAY_ON_FAILURE", "fail")]);
    let (file, appending) = (told.tell(OPEN), told.tell(APPEND));
    for text in ["content", "content1", "content12"] {
        assert_eq!(told.tell(&format!("os.pread({file}, 100, 0)")), format!("b'{text}'"));
        lab.forwarder = lab.forwarder.take().map(Forwarder::restart);
        assert_eq!(told.tell(&format!("os.write({appending}, b'{}')", text.len() - 6)), "1");
        lab.forwarder = lab.forwarder.take().map(Forwarder::restart);
    }
    assert_eq!(told.tell(&format!("os.pread({file}, 100, 0)")), "b'content123'");
    assert_eq!(told.end(), "");
}

#[test]
fn a_restart_is_not_noticed_over_unix() {
    a_restart_is_not_noticed(Door::Unix);
}

#[test]
fn a_restart_is_not_noticed_over_tcp() {
    a_restart_is_not_noticed(Door::Tcp);
}

#[test]
fn a_write_into_silence_is_an_error_and_a_read_goes_direct() {
    let lab = lab();
    let forwarder = lab.forwarder.as_ref().expect("a forwarder");
    let mut told = Told::start(&lab, &[("FOREBAY_TIMEOUT_MS", "200")]);
    let file = told.tell(OPEN);
    assert_eq!(told.tell(&format!("os.read({file}, 3)")), "b'con'");
    forwarder.state.is_silent.store(true, Ordering::SeqCst);
    let start = Instant::now();
    assert_eq!(told.tell(&format!("os.write({file}, b'more')")), "errno 5");
    assert_eq!(told.tell(&format!("os.lseek({file}, 0, 1)")), "3");
    assert_eq!(told.tell(&format!("os.read({file}, 100)")), "b'tent'");
    assert!(start.elapsed() < Duration::from_secs(5), "it does not hang");
    let said = told.end();
    assert!(said.contains("may or may not have happened"), "{said}");
}

#[test]
fn the_stores_errors_reach_the_program_unchanged() {
    let lab = lab();
    let forwarder = lab.forwarder.as_ref().expect("a forwarder");
    let mut told = Told::start(&lab, &[]);
    let (file, appending) = (told.tell(OPEN), told.tell(APPEND));
    for errno in [Errno::NOSPC, Errno::IO, Errno::DQUOT] {
        let number = errno.raw_os_error();
        forwarder.state.error.store(number, Ordering::SeqCst);
        let failed = format!("errno {number}");
        assert_eq!(told.tell(&format!("os.write({file}, b'more')")), failed);
        assert_eq!(told.tell(&format!("os.write({file}, b'm' * 1000000)")), failed);
        assert_eq!(told.tell(&format!("os.write({appending}, b'more')")), failed);
        assert_eq!(told.tell(&format!("os.read({file}, 3)")), failed);
        assert_eq!(told.tell(&format!("os.lseek({file}, 0, 1)")), "0");
    }
    forwarder.state.error.store(0, Ordering::SeqCst);
    assert_eq!(told.tell(&format!("os.read({file}, 100)")), "b'content'");
    assert_eq!(told.end(), "");
}

#[test]
fn a_forwarder_is_started_when_it_is_first_needed() {
    let mut lab = lab();
    drop(lab.forwarder.take());
    let marker = lab.beside("started");
    let command = format!(
        "echo \"$LD_PRELOAD$FOREBAY_ENDPOINT\" >'{}'; ls -l /proc/$$/fd >&2",
        marker.display()
    );
    let mut told =
        Told::start(&lab, &[("FOREBAY_START", &command), ("FOREBAY_ON_FAILURE", "fail")]);
    let file = told.tell(OPEN);
    assert!(!marker.exists(), "opening is not a need");
    let socket = lab.beside("socket");
    let waiting = std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !std::fs::read(&marker).is_ok_and(|said| !said.is_empty()) {
            assert!(Instant::now() < deadline, "the command runs");
            std::thread::yield_now();
        }
        (Forwarder::unix(&socket), std::fs::read(&marker).expect("marker"))
    });
    assert_eq!(told.tell(&format!("os.read({file}, 100)")), "b'content'");
    let (forwarder, said) = waiting.join().expect("started");
    assert_eq!(said, b"\n", "the command does not inherit our environment");
    assert_eq!(forwarder.count(|state| &state.reads), 1);
    assert_eq!(told.tell("os.waitpid(-1, 0)"), "errno 10", "no child is left");
    assert_eq!(told.end(), "");
}

#[test]
fn wrong_settings_are_told_when_they_matter() {
    let lab = lab();
    let environment = [("FOREBAY_TIMEOUT_MS", "soon"), ("FOREBAY_ON_FAILURE", "fail")];
    let mut told = Told::start(&lab, &environment);
    let file = told.tell(OPEN);
    assert_eq!(told.tell(&format!("os.read({file}, 100)")), "errno 5");
    let said = told.end();
    assert!(said.contains("FOREBAY_TIMEOUT_MS: expected 1 to"), "{said}");
}

#[test]
fn a_file_outside_the_export_is_left_to_the_kernel() {
    let lab = Lab::new(Door::Tcp);
    std::fs::write(lab.beside("elsewhere"), "content").expect("write");
    let paths = format!("{}:{}", lab.data().display(), lab.beside("").display());
    let mut told = Told::start(&lab, &[("FOREBAY_PATHS", &paths), ("FOREBAY_REPORT", "1")]);
    let file = told.tell("os.open('../elsewhere', os.O_RDWR)");
    assert_eq!(told.tell(&format!("os.read({file}, 100)")), "b'content'");
    let said = told.end();
    assert!(said.contains("1 outside the export"), "{said}");
}
