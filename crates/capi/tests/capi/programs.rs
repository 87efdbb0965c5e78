//! C programs that use the library: every error, storms of threads, forks, policies, the examples.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::build::{STRICT, here, libraries, library_folder, output, run, top};

/// A folder with a C program in it, linked with the shared library.
fn compile(name: &str) -> (tempfile::TempDir, PathBuf) {
    compile_against("include", name)
}

/// As [`compile`], with the header in this folder of the crate.
fn compile_against(header: &str, name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    let lib = library_folder(folder.path());
    let mut command = Command::new("gcc");
    command.args(["-std=c11", "-O1", "-g", "-pthread"]).args(STRICT);
    command.arg("-I").arg(here().join(header)).arg("-o").arg(&program);
    command.arg(here().join("tests/c").join(name).with_extension("c"));
    run(command.arg(format!("-L{}", lib.display())).arg("-lforebay"));
    (folder, program)
}

fn with_library(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", program.parent().unwrap().join("lib"));
    command
}

/// Builds an example with its own Makefile.
fn make(example: &str, output: &Path) {
    make_against("include", example, output);
}

/// As [`make`], with the header in this folder of the crate.
fn make_against(header: &str, example: &str, output: &Path) {
    let lib = library_folder(output);
    let mut command = Command::new("make");
    command.arg("-C").arg(top().join("examples").join(example));
    command.arg(format!("OUTPUT={}", output.display()));
    command.arg(format!("CPPFLAGS=-I{}", here().join(header).display()));
    run(command.arg(format!("LDFLAGS=-L{}", lib.display())));
}

#[test]
fn every_error_is_the_documented_one() {
    let (_folder, program) = compile("errors");
    assert_eq!(run(&mut with_library(&program)), "ok\n");
}

#[test]
fn a_storm_of_threads_loses_and_doubles_nothing() {
    let (_folder, program) = compile("storm");
    assert_eq!(run(&mut with_library(&program)), "ok\n");
}

#[test]
fn a_forked_child_is_told_so_by_every_call() {
    let (_folder, program) = compile("forks");
    assert_eq!(run(&mut with_library(&program)), "ok\n");
}

#[test]
fn policies_from_outside_are_held_to_their_contract() {
    let (folder, program) = compile("policies");
    make("policy", folder.path());
    let mut command = with_library(&program);
    command.arg(folder.path().join("smallest_first.so")).arg(libraries().join("libforebay.so"));
    assert_eq!(run(&mut command), "ok\n");
}

/// The folder of the first header.
const FIRST: &str = "tests/c/first";

#[test]
fn what_was_compiled_against_the_first_header_runs_with_this_library() {
    for (name, arguments) in [("first", &[][..]), ("storm", &["200"]), ("forks", &[])] {
        let (_folder, program) = compile_against(FIRST, name);
        assert_eq!(run(with_library(&program).args(arguments)), "ok\n", "{name}");
    }
    let (folder, program) = compile_against(FIRST, "policies");
    make_against(FIRST, "policy", folder.path());
    let mut command = with_library(&program);
    command.arg(folder.path().join("smallest_first.so")).arg(libraries().join("libforebay.so"));
    assert_eq!(run(&mut command), "ok\n");
}

#[test]
fn a_program_links_with_the_static_library_as_the_manual_says() {
    let pkg_config = std::fs::read_to_string(here().join("forebay.pc.in")).unwrap();
    let private = pkg_config.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let manual = std::fs::read_to_string(here().join("man/forebay.3")).unwrap();
    assert!(manual.replace('\\', "").contains(&format!("libforebay.a {private}")), "{private}");
    let alone = private.replace("-lgcc_s", "-lgcc_eh");
    for (how, beside) in [("-pthread", private), ("-static", &alone)] {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("errors");
        let mut command = Command::new("gcc");
        command.args(["-std=c11", how]).args(STRICT);
        command.arg("-I").arg(here().join("include")).arg("-o").arg(&program);
        command.arg(here().join("tests/c/errors.c")).arg(libraries().join("libforebay.a"));
        run(command.args(beside.split(' ')));
        assert_eq!(run(&mut Command::new(program)), "ok\n");
    }
}

/// The file server, running.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(prefix: &[&str], policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        make("file-server", folder.path());
        let program = folder.path().join("file-server");
        let files = folder.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let words: Vec<&str> = prefix.iter().copied().chain([program.to_str().unwrap()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("LD_LIBRARY_PATH", folder.path().join("lib"));
        command.arg(folder.path().join("socket")).arg(files).arg(policy);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, folder }
    }

    fn client(&self, threads: &str, blocks: &str) -> String {
        let mut command = Command::new(self.folder.path().join("file-client"));
        run(command.arg(self.folder.path().join("socket")).args([threads, blocks]))
    }

    /// Ends it as an operator would; what it counted.
    fn end(mut self) -> serde_json::Value {
        run(Command::new("sh").arg("-c").arg(format!("kill {}", self.child.id())));
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success(), "{line}");
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn the_file_server_serves_its_clients_and_merges_what_they_ask() {
    for policy in ["TO", "TO-agg", "aIOLi"] {
        let server = Server::start(&[], policy);
        assert_eq!(server.client("4", "128"), "ok: 1536 requests\n");
        let counted = server.end();
        assert_eq!(counted["requests_completed"], 1536, "{counted}");
        assert_eq!(counted["requests_in_flight_now"], 0);
        assert_eq!(counted["policy"], policy);
    }
}

#[test]
fn the_file_server_has_room_again_when_clients_have_left() {
    let server = Server::start(&[], "TO");
    // More than the 1,024 that it serves at a time.
    for _ in 0..17 {
        assert_eq!(server.client("64", "1"), "ok: 192 requests\n");
    }
    assert_eq!(server.end()["requests_completed"], 17 * 192);
}

/// Runs under valgrind's memory checker; a fault is a failure.
const MEMCHECK: [&str; 5] = [
    "valgrind",
    "--error-exitcode=99",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
    "--quiet",
];

#[test]
fn valgrind_finds_nothing_wrong_with_the_library_nor_with_the_examples() {
    let policies = tempfile::tempdir().unwrap();
    make("policy", policies.path());
    let policy = policies.path().join("smallest_first.so");
    let (policy, library) = (policy.to_str().unwrap(), libraries().join("libforebay.so"));
    for policy in ["aIOLi", policy] {
        let server = Server::start(&MEMCHECK, policy);
        assert_eq!(server.client("2", "16"), "ok: 96 requests\n");
        assert_eq!(server.end()["requests_completed"], 96);
    }
    // A forked child cannot give back what its parent's threads hold.
    for (name, leaks, arguments) in [
        ("errors", "full", &[][..]),
        ("storm", "full", &["60"]),
        ("policies", "full", &[policy, library.to_str().unwrap()]),
        ("first", "full", &[]),
        ("forks", "no", &[]),
    ] {
        let header = if name == "first" { FIRST } else { "include" };
        let (folder, program) = compile_against(header, name);
        let mut command = Command::new(MEMCHECK[0]);
        command.args(&MEMCHECK[1..]).arg(format!("--leak-check={leaks}"));
        command.arg(&program).args(arguments);
        command.env("LD_LIBRARY_PATH", folder.path().join("lib"));
        let output = output(&mut command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {}\n{said}", output.status);
    }
}
