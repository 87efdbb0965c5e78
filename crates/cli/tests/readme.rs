//! Every command in README.md, executed: a command that does not work does not belong there.
//!
//! Blocks of `make` commands run in the repository with `FOREBAY_DEMO_QUICK=1`, which makes the
//! demonstration a matter of seconds. `make test` itself is left out: this test is part of it, and
//! it would never end. All other blocks run in a directory with copies of `docs` and `scenarios`, in the
//! order in which they stand, with the `forebay` just built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// What any block may take, a debug build on a busy machine included.
const LIMIT_SECONDS: &str = "400";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The blocks of shell commands of a document.
fn blocks(document: &str) -> Vec<String> {
    let fenced = document.split("\n```").skip(1).step_by(2);
    fenced
        .filter_map(|block| block.strip_prefix("sh\n"))
        .map(|block| block.to_owned() + "\n")
        .collect()
}

fn folder_of_forebay() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_forebay")).parent().unwrap().to_owned()
}

fn run(block: &str, folder: &Path) {
    let forebay = folder_of_forebay();
    let path = std::env::join_paths(
        std::iter::once(forebay.clone())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    // With a limit, so that a command that hangs fails with its name.
    let mut shell = Command::new("timeout");
    shell
        .args(["--kill-after=5", LIMIT_SECONDS, "bash", "-eu", "-c", block])
        .current_dir(folder)
        .env("PATH", path.unwrap());
    shell.env("PRELOAD", forebay.join("libforebay_preload.so")).env_remove("LD_PRELOAD");
    let output = shell.output().unwrap();
    assert!(
        output.status.success(),
        "{block}\nended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn readme() -> String {
    std::fs::read_to_string(repository().join("README.md")).unwrap()
}

fn is_make(block: &str) -> bool {
    block.starts_with("make ")
}

/// The files of a folder, without its folders.
fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// `make demo` may link the programs anew that the other commands use.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn the_commands_for_users_work() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    for name in ["docs", "scenarios"] {
        copy_files(&repository().join(name), &folder.path().join(name));
    }
    let blocks: Vec<String> =
        blocks(&readme()).into_iter().filter(|block| !is_make(block)).collect();
    assert!(blocks.len() >= 5, "README.md lost its examples");
    blocks.iter().for_each(|block| run(block, folder.path()));
}

#[test]
fn the_commands_for_the_repository_work() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let blocks: Vec<String> =
        blocks(&readme()).into_iter().filter(|block| is_make(block)).collect();
    assert_eq!(
        blocks,
        ["make demo\nmake test\n"],
        "README.md shows the two commands, in one block"
    );
    // The profile of this very test, which is built already.
    let profile = if folder_of_forebay().ends_with("release") { "release" } else { "dev" };
    run(&format!("FOREBAY_DEMO_QUICK=1 PROFILE={profile} make demo"), &repository());
}
