//! `make install`, and what a program finds afterwards: header, libraries, pkg-config, man page.

use std::path::Path;
use std::process::Command;

use crate::build::{STRICT, here, libraries, run, top};

/// Installs the library of this build below `prefix`, without building anything.
fn install(prefix: &Path) {
    let mut command = Command::new("make");
    command.arg("-C").arg(top()).args(["install-capi", "CARGO=true"]);
    command.arg(format!("BUILT={}", libraries().display()));
    run(command.arg(format!("PREFIX={}", prefix.display())));
}

fn pkg_config(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(arguments);
    run(command.arg("forebay")).split_whitespace().map(str::to_owned).collect()
}

/// The example of the man page, as the reader sees it.
fn example(page: &str) -> String {
    let (_, from) = page.split_once(".EX\n").expect("the page has an example");
    let (example, _) = from.split_once(".EE").expect("the example ends");
    example.replace("\\-", "-").replace("\\e", "\\")
}

#[test]
fn the_example_of_the_man_page_builds_with_pkg_config_and_works() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    install(&prefix);
    let page = std::fs::read_to_string(prefix.join("share/man/man3/forebay.3")).unwrap();
    let source = folder.path().join("example.c");
    std::fs::write(&source, example(&page)).unwrap();
    let printed = "4 requests, 16384 bytes from 0\n";

    let program = folder.path().join("shared");
    let mut command = Command::new("gcc");
    command.args(["-std=c11"]).args(STRICT).arg("-o").arg(&program).arg(&source);
    run(command.args(pkg_config(&prefix, &["--cflags", "--libs"])));
    let mut command = Command::new(&program);
    assert_eq!(run(command.env("LD_LIBRARY_PATH", prefix.join("lib"))), printed);
    let needed = run(Command::new("readelf").arg("-V").arg(&program));
    assert!(needed.contains("libforebay.so.0"), "it asks for a version: {needed}");

    let program = folder.path().join("static");
    let mut command = Command::new("gcc");
    command.arg("-std=c11").arg("-o").arg(&program).arg(&source);
    command.args(pkg_config(&prefix, &["--cflags"])).arg(prefix.join("lib/libforebay.a"));
    let private = pkg_config(&prefix, &["--libs", "--static"]);
    run(command.args(private.iter().filter(|word| *word != "-lforebay")));
    assert_eq!(run(&mut Command::new(&program)), printed);
}

#[test]
fn the_man_page_names_every_function_and_every_setting() {
    let page = std::fs::read_to_string(here().join("man/forebay.3")).unwrap();
    let header = std::fs::read_to_string(here().join("include/forebay.h")).unwrap();
    for line in header.lines().filter(|line| line.starts_with("int forebay_")) {
        let name = line["int ".len()..].split('(').next().unwrap();
        assert!(page.contains(&format!("\"int {name}(")), "forebay.3 lacks {name}");
    }
    let sources = ["src/settings.rs", "src/sharing.rs"]
        .map(|source| std::fs::read_to_string(here().join(source)).unwrap());
    let keys = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let parameter = line.trim().strip_prefix("Parameter(\"");
        let word = || line.strip_prefix("const ")?.split_once(": &str = \"sharing.");
        match (parameter, word()) {
            (Some(rest), _) => rest.split('"').next().map(str::to_owned),
            (_, Some((_, rest))) => Some(format!("sharing.{}", rest.split('"').next()?)),
            _ => None,
        }
    });
    let mut count = 0;
    for key in keys {
        assert!(
            page.contains(&format!(".BR {key} "))
                || page.contains(&format!(".BR {key}\n"))
                || page.contains(&format!(".B {key}\n"))
                || page.contains(&format!(" \", \" {key}\n")),
            "forebay.3 lacks {key}"
        );
        count += 1;
    }
    assert!(count > 25, "{count}");
}

#[test]
fn what_is_installed_has_the_version_of_the_library() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    assert_eq!(pkg_config(folder.path(), &["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let lib = folder.path().join("lib");
    let link = std::fs::read_link(lib.join("libforebay.so.0")).unwrap();
    assert_eq!(link, Path::new(concat!("libforebay.so.", env!("CARGO_PKG_VERSION"))));
    assert_eq!(
        std::fs::read_link(lib.join("libforebay.so")).unwrap(),
        Path::new("libforebay.so.0")
    );
    let [major, minor, patch] = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ]
    .map(|number| number.parse::<u32>().unwrap());
    assert_eq!(forebay::abi::FOREBAY_VERSION, major * 1_000_000 + minor * 1_000 + patch);
}
