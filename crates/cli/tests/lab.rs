//! `forebay lab` and `forebay bench fig` as a user types them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wrong_setting_is_refused_with_what_is_allowed() {
    let cases: [(&[&str], &str); 5] = [
        (&["--profile", "hdd"], "known: hdd-57"),
        (&["--reorder", "look"], "c-look:N"),
        (&["--size", "1MiB"], "64MiB"),
        (&["--queue-depth", "2"], "4 to 128"),
        (&["--time-scale", "0.01"], "0.1 to 100"),
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
    for command in ["down", "check", "status"] {
        let output = forebay(&["lab", "disk", command, "nowhere"]);
        assert_eq!(output.status.code(), Some(2), "{command}: {}", said(&output));
        let is_root = rustix::process::geteuid().is_root();
        let expected = if is_root || command != "down" { "\"nowhere\"" } else { "root" };
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

#[test]
fn a_disk_goes_up_says_what_it_is_and_goes_down() {
    let daemon = Path::new(env!("CARGO_BIN_EXE_forebay")).with_file_name("forebay-lab-disk");
    let wanted = ["/dev/fuse", "/dev/loop-control", daemon.to_str().unwrap()];
    let is_missing = |path: &&&str| !Path::new(path).exists();
    let obstacle = match wanted.iter().find(is_missing) {
        _ if !rustix::process::geteuid().is_root() => Some("not root".to_owned()),
        missing => missing.map(|path| format!("no {path}")),
    };
    if let Some(reason) = obstacle {
        assert!(std::env::var_os("REQUIRE_LAB").is_none(), "{reason}");
        return println!("skipped: {reason}");
    }
    let name = format!("test-cli-{}", std::process::id());
    let flags =
        ["--size", "64MiB", "--time-scale", "0.1", "--elevator", "bfq", "--read-ahead", "2MiB"];
    let up = forebay(&[&["lab", "disk", "up", &name], &flags[..]].concat());
    assert!(up.status.success(), "{}", said(&up));
    let shown = String::from_utf8_lossy(&up.stdout).into_owned();
    for text in ["bfq", "2048 KiB", "hdd-57", "mkfs", "fifo"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }

    let status = forebay(&["lab", "disk", "status", &name, "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["is"]["queue"]["elevator"], "bfq");
    assert_eq!(
        (&status["is_mounted"], &status["statistics"]["requests"]),
        (&true.into(), &0.into())
    );
    assert!(String::from_utf8_lossy(&forebay(&["lab", "disk", "status"]).stdout).contains(&name));

    let down = forebay(&["lab", "disk", "down", &name]);
    assert!(down.status.success(), "{}", said(&down));
    assert_eq!(forebay(&["lab", "disk", "status", &name]).status.code(), Some(2));
}
