//! `forebay probe` as a user meets it.

use std::path::Path;
use std::process::{Command, Output};

use forebay_units::Bytes;
use serde_json::Value;

/// With a place for profiles of its own.
fn forebay(home: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("probe").args(arguments).env("XDG_CACHE_HOME", home.join("cache"));
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory on a disk, which memory is not.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn path(folder: &Path) -> &str {
    folder.to_str().unwrap()
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_device_is_measured_once_and_shown_again() {
    let (home, place) = (folder(), folder());
    let flags = [path(place.path()), "--budget", "1s", "--size", "64MiB"];
    let first = forebay(home.path(), &[&flags[..], &["--json"]].concat());
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stderr).contains("kept in"), "{}", text(&first.stderr));
    let json: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), 28);
    assert_eq!(json["span_bytes"], 64 << 20);
    for ratio in json["ratios"].as_array().unwrap() {
        let of = |name: &str| ratio[name].as_f64().unwrap();
        assert!(of("low") <= of("ratio") && of("ratio") <= of("high"), "{ratio}");
    }
    assert_eq!(entries(place.path()), 0, "the test file is gone");

    let again = forebay(home.path(), &[&flags[..], &["--json"]].concat());
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    assert_eq!(again.stdout, first.stdout);
    let table = text(&forebay(home.path(), &flags).stdout);
    for part in ["a + b len", "read 4.0 KiB", "write 8.0 MiB", "reads: ", "writes: "] {
        assert!(table.contains(part), "{part}: {table}");
    }

    // A profile that cannot be read is measured anew, and says so.
    let kept = home.path().join("cache/forebay/devices");
    let file = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&file, "{}").unwrap();
    let third = forebay(home.path(), &flags);
    assert!(text(&third.stderr).contains("version"), "{}", text(&third.stderr));
    assert!(third.status.success() && std::fs::metadata(file).unwrap().len() > 1_000);
}

#[test]
fn a_file_is_only_read() {
    let (home, place) = (folder(), folder());
    let file = place.path().join("data");
    let content: Vec<u8> = (0..Bytes::mib(64).0 / 8).flat_map(u64::to_le_bytes).collect();
    std::fs::write(&file, &content).unwrap();
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    let before = std::fs::metadata(&file).unwrap().modified().unwrap();
    let flags = [path(&file), "--budget", "1s", "--no-write", "--json"];
    let output = forebay(home.path(), &flags);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdicts = json["verdicts"].to_string();
    assert!(verdicts.contains("writes: not measured"), "{verdicts}");
    assert_eq!(json["points"].as_array().unwrap().len(), 14);
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), before);
    assert!(std::fs::read(&file).unwrap() == content && entries(place.path()) == 1);
}

#[test]
fn a_model_is_drawn_compared_and_not_kept() {
    let (home, place) = (folder(), folder());
    let drawing = home.path().join("ssd.svg");
    let flags = [
        path(place.path()),
        "--store",
        "modelled:ssd",
        "--budget",
        "1s",
        "--size",
        "256MiB",
        "--output",
        drawing.to_str().unwrap(),
    ];
    let output = forebay(home.path(), &flags);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("modelled ssd") && table.contains("the model says"), "{table}");
    let svg = std::fs::read_to_string(&drawing).unwrap();
    assert!(svg.contains("sequential read") && svg.contains("128 KiB"), "{svg}");
    assert!(!home.path().join("cache").exists());
    assert_eq!(entries(place.path()), 0);
}

#[test]
fn nothing_is_left_when_it_is_killed() {
    use std::io::{BufRead as _, BufReader};
    let (home, place) = (folder(), folder());
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["probe", path(place.path()), "--budget", "600s", "--size", "64MiB"]);
    command.env("XDG_CACHE_HOME", home.path()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(entries(place.path()), 0, "{line}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_remedy() {
    let (home, place) = (folder(), folder());
    let small = place.path().join("small");
    std::fs::write(&small, "a few bytes").unwrap();
    let cases: [(&[&str], &str); 8] = [
        (&["/no/such/place"], "No such file"),
        (&["/dev/null"], "directory"),
        (&[path(&small), "--no-write"], "its directory"),
        (&[path(place.path()), "--no-write"], "a file of it"),
        (&[path(place.path()), "--size", "1MiB"], "64MiB"),
        (&[path(place.path()), "--budget", "10ms"], "1s"),
        (&[path(place.path()), "--store", "modelled:tape"], "hdd-57"),
        (&[path(place.path()), "--output", "plot.gif"], ".png"),
    ];
    for (arguments, expected) in cases {
        let output = forebay(home.path(), arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}
