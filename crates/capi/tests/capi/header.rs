//! `forebay.h` is what the code says, and compiles wherever it may be included.

use std::process::Command;

use crate::build::{STRICT, here, run};

#[test]
fn the_header_is_fresh() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let mut generated = Vec::new();
    cbindgen::Builder::new()
        .with_crate(here())
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut generated);
    let generated = without_rust(&String::from_utf8(generated).unwrap());
    let path = here().join("include/forebay.h");
    if std::env::var_os("FOREBAY_WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(generated == checked_in, "include/forebay.h is not what the code says; make header");
}

/// Takes out what concerns Rust only: the sections on safety.
fn without_rust(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in header.lines() {
        is_safety = match line.trim() {
            " *" | "*" if is_safety => true,
            "* # Safety" => {
                // The empty line before it goes too.
                if kept.last().is_some_and(|last| last.trim() == "*") {
                    kept.pop();
                }
                true
            }
            "*/" => false,
            _ => is_safety,
        };
        if !is_safety {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_header_compiles_as_c_and_as_cpp_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <forebay.h>\n#include <forebay.h>\nint main(void) { return forebay_version() == FOREBAY_VERSION ? 0 : 1; }\n";
    for (compiler, standard, name) in [
        ("gcc", "-std=c11", "use.c"),
        ("gcc", "-std=c17", "use.c"),
        ("g++", "-std=c++17", "use.cc"),
        ("g++", "-std=c++11", "use.cc"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, source).unwrap();
        let mut command = Command::new(compiler);
        command.arg(standard).args(STRICT).arg("-I").arg(here().join("include"));
        run(command.args(["-c", "-o", "/dev/null"]).arg(path));
    }
}

#[test]
fn every_function_of_the_header_is_exported_in_the_version_that_is_listed_and_nothing_else_is() {
    let header = std::fs::read_to_string(here().join("include/forebay.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '*', '/', '#', 't']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("forebay_"))
        .collect();
    declared.sort_unstable();
    assert!(declared.len() > 20, "{declared:?}");
    let library = crate::build::libraries().join("libforebay.so");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let mut exported: Vec<&str> = symbols
        .lines()
        // The version itself is listed as an absolute symbol.
        .filter(|line| !line.contains(" A "))
        .map(|line| line.rsplit(' ').next().unwrap())
        .collect();
    exported.sort_unstable();
    let listed = std::fs::read_to_string(here().join("tests/symbols")).unwrap();
    assert_eq!(exported, listed.lines().collect::<Vec<_>>(), "see forebay.map");
    let names = exported.iter().map(|symbol| symbol.split_once("@@").unwrap().0);
    assert_eq!(names.collect::<Vec<_>>(), declared);
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("soname: [libforebay.so.0]"), "{dynamic}");
}
