//! `forebay check` against programs compiled on the spot, and against made-up evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::elf::Facts;
use super::finding::{Evidence, Permissions, judge};
use super::*;

const READER: &str =
    "#include <unistd.h>\nint main(void) { char byte; return read(0, &byte, 1) == 1 ? 0 : 1; }\n";
const STDIO: &str =
    "#include <stdio.h>\nint main(int n, char **a) { return fopen(a[n - 1], \"r\") ? 0 : 1; }\n";
/// Stands for the preload library: what it exports is hooked.
const LIBRARY: &str =
    "long read(int f, void *b, unsigned long n) { (void)f; (void)b; (void)n; return 0; }\n";

/// A directory with compiled programs.
struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.0.path().join(format!("{name}.c"));
        let program = self.0.path().join(name);
        std::fs::write(&file, source).unwrap();
        let status = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(&file).status();
        assert!(status.expect("gcc is there: scripts/install-deps installs it").success());
        program
    }

    fn hooks(&self) -> PathBuf {
        self.compile("library.so", LIBRARY, &["-shared", "-fPIC"])
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A finding from made-up facts; `change` makes the evidence worse.
fn judged(change: impl FnOnce(&mut Facts, &mut Permissions)) -> Finding {
    let plain = || Facts {
        machine: 62,
        is_64: true,
        interpreter: Some("/lib64/ld-linux-x86-64.so.2".to_owned()),
        imports: set(&["read", "close", "malloc"]),
        ..Facts::default()
    };
    let (mut facts, mut permissions) = (plain(), Permissions::default());
    change(&mut facts, &mut permissions);
    judge(&Evidence {
        path: Path::new("program"),
        program: Path::new("program"),
        facts: &facts,
        native: &plain(),
        hooked: &set(&["read", "write", "close", "mmap"]),
        libraries: &BTreeMap::new(),
        permissions,
    })
}

#[test]
fn a_program_that_reads_through_a_hooked_call_is_scheduled() {
    let workshop = Workshop::new();
    let finding = examine(&workshop.compile("reader", READER, &[]), &workshop.hooks()).unwrap();
    assert_eq!(finding.verdict, Verdict::Scheduled, "{finding}");
    assert_eq!(finding.scheduled, ["read"]);
}

#[test]
fn a_static_program_is_not_scheduled() {
    let workshop = Workshop::new();
    let finding =
        examine(&workshop.compile("reader", READER, &["-static"]), &workshop.hooks()).unwrap();
    assert_eq!(finding.verdict, Verdict::NotScheduled);
    assert!(finding.obstacles[0].contains("statically linked"), "{finding}");
}

#[test]
fn a_program_that_only_uses_stdio_is_not_scheduled_and_the_reason_is_given() {
    let workshop = Workshop::new();
    let finding = examine(&workshop.compile("stdio", STDIO, &[]), &workshop.hooks()).unwrap();
    assert_eq!(finding.verdict, Verdict::NotScheduled, "{finding}");
    assert_eq!(finding.unhooked[0].call, "fopen");
    assert!(finding.to_string().contains("stdio calls the kernel"), "{finding}");
}

#[test]
fn a_call_in_a_library_of_the_program_counts() {
    let workshop = Workshop::new();
    let folder = workshop.0.path().display().to_string();
    workshop.compile("libhelp.so", &READER.replace("main", "help"), &["-shared", "-fPIC"]);
    let flags = ["-L", &folder, "-Wl,--no-as-needed", "-l:libhelp.so", "-Wl,-rpath,$ORIGIN"];
    let program = workshop.compile("program", "int main(void) { return 0; }", &flags);
    let finding = examine(&program, &workshop.hooks()).unwrap();
    assert_eq!(finding.verdict, Verdict::Scheduled, "{finding}");
}

#[test]
fn a_script_is_followed_to_its_interpreter() {
    let workshop = Workshop::new();
    let library = workshop.hooks();
    let direct = examine(&workshop.script("a.sh", "#!/bin/sh -e\nexit 0\n"), &library).unwrap();
    let by_name =
        examine(&workshop.script("b.sh", "#!/usr/bin/env -S sh -e\nexit 0\n"), &library).unwrap();
    assert_eq!(direct.program.file_name(), by_name.program.file_name());
    let endless = workshop.script("c.sh", "");
    std::fs::write(&endless, format!("#!{}\n", endless.display())).unwrap();
    assert!(examine(&endless, &library).is_err());
}

#[test]
fn a_file_that_is_no_program_is_an_error() {
    let workshop = Workshop::new();
    for (name, text) in [("empty", ""), ("text", "hello"), ("short", "\u{7f}ELF"), ("hash", "#!")] {
        assert!(examine(&workshop.script(name, text), &workshop.hooks()).is_err(), "{name}");
    }
}

#[test]
fn each_obstacle_is_named() {
    let cases: [(&str, Finding); 5] = [
        ("architecture", judged(|facts, _| facts.machine = 183)),
        ("Go program", judged(|facts, _| facts.is_go = true)),
        ("set-user-id", judged(|_, permissions| permissions.set_id = true)),
        ("capabilities", judged(|_, permissions| permissions.capabilities = true)),
        (
            "another C library",
            judged(|facts, _| facts.interpreter = Some("/lib/ld-musl-x86_64.so.1".to_owned())),
        ),
    ];
    for (word, finding) in cases {
        assert_eq!(finding.verdict, Verdict::NotScheduled);
        assert!(
            finding.obstacles.iter().any(|obstacle| obstacle.contains(word)),
            "{word}: {finding}"
        );
    }
}

#[test]
fn a_program_that_also_maps_files_is_partly_scheduled() {
    let finding = judged(|facts, _| facts.imports.extend(set(&["mmap", "sendfile"])));
    assert_eq!(finding.verdict, Verdict::PartlyScheduled);
    assert_eq!(finding.scheduled, ["read"]);
    assert_eq!(finding.followed, ["close"]);
    let calls: Vec<&str> = finding.unhooked.iter().map(|unhooked| unhooked.call.as_str()).collect();
    assert_eq!(calls, ["mmap", "sendfile"]);
}

#[test]
fn opening_and_closing_alone_is_nothing_to_schedule() {
    let finding = judged(|facts, _| facts.imports = set(&["close"]));
    assert_eq!(finding.verdict, Verdict::NotScheduled);
}

#[test]
fn a_set_id_file_is_an_obstacle_unless_it_is_the_callers_own() {
    let (owner, other) = ((7, 8), (9, 9));
    for (mode, caller, expected) in [
        (0o0755, other, false),
        (0o4755, owner, false),
        (0o4755, other, true),
        (0o2755, (9, 8), false),
        (0o2755, (7, 9), true),
    ] {
        assert_eq!(finding::changes_identity(mode, owner, caller), expected, "{mode:o} {caller:?}");
    }
}
