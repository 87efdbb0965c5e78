//! What the end-to-end tests share: finding the built programs, running a script natively and
//! through a forwarder, and comparing what it left behind; a forwarder in this process ([`Running`]).

mod random;
mod raw;
mod running;
mod served;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub use random::{Random, seeds};
pub use raw::{Frame, Raw, encoded, hello};
pub use running::{Client, Running, range};
pub use served::{Served, kill};

/// How long anything in these tests may take before it counts as hung.
pub const LIMIT: Duration = Duration::from_secs(240);

/// How the program's requests reach the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// A Unix socket, with descriptors.
    Unix,
    /// A TCP connection, with paths.
    Tcp,
}

impl Through {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Unix, Self::Tcp];
}

/// A program or library of this workspace, as it was built beside this test.
///
/// # Panics
/// If it was not built: `make test` builds everything first.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the running test has a path");
    let folder = test.ancestors().nth(2).expect("tests run from target/PROFILE/deps");
    let path = folder.join(name);
    assert!(path.exists(), "{} is missing: run `cargo build --workspace` first", path.display());
    path
}

/// The `forebay` command.
pub fn forebay() -> Command {
    Command::new(built("forebay"))
}

/// Compiles a C program of `tests/programs` into `folder`.
pub fn compiled(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(format!("{name}.c"));
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(
        cc.status().expect("cc is installed").success(),
        "{} does not compile",
        source.display()
    );
    program
}

/// Where programs are looked for. Debian puts some where only root looks.
fn search_path() -> std::ffi::OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

/// Whether all of these commands are installed; says visibly which is not.
pub fn has_commands(names: &[&str]) -> bool {
    let path = search_path();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
        .collect();
    if missing.is_empty() {
        return true;
    }
    let text = format!("NOT TESTED, not installed: {missing:?} (scripts/install-deps installs it)");
    assert!(std::env::var_os("CI").is_none(), "{text}");
    eprintln!("{text}");
    false
}

/// Runs to the end or panics after [`LIMIT`].
///
/// # Panics
/// If the command cannot be started or does not end.
pub fn finish(command: &mut Command) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output()));
    match receiver.recv_timeout(LIMIT) {
        Ok(output) => {
            let _ = waiter.join();
            output.expect("the output can be read")
        }
        Err(_) => {
            let _ =
                rustix::process::kill_process(pid.expect("a pid"), rustix::process::Signal::KILL);
            panic!("still running after {LIMIT:?}: {command:?}");
        }
    }
}

/// Runs a bash script in `folder`, natively.
pub fn natively(script: &str, folder: &Path) -> Output {
    finish(bash(&mut Command::new("bash"), script, folder))
}

/// Runs a bash script in `folder` under `forebay run`, all files of the folder going through it.
/// The forwarder's report is written to `report`.
pub fn through(way: Through, script: &str, folder: &Path, report: &Path) -> Output {
    let mut command = forebay();
    command.args(["run", "--on-failure", "fail", "--report"]).arg(report);
    command.arg("--path").arg(folder);
    if way == Through::Tcp {
        command.arg("--tcp");
    }
    command.args(["--", "bash"]);
    finish(bash(&mut command, script, folder))
}

fn bash<'a>(command: &'a mut Command, script: &str, folder: &Path) -> &'a mut Command {
    command
        .args(["-euc", script])
        .current_dir(folder)
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("HOME", folder)
        .env("SOURCE_DATE_EPOCH", "1000000000")
        .env("GIT_AUTHOR_DATE", "2001-09-09T01:46:40Z")
        .env("GIT_COMMITTER_DATE", "2001-09-09T01:46:40Z")
        .env("GIT_CONFIG_NOSYSTEM", "1")
}

/// The report of a run, as JSON.
///
/// # Panics
/// If there is none.
pub fn report(path: &Path) -> serde_json::Value {
    let text =
        fs::read_to_string(path).unwrap_or_else(|e| panic!("report {}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("report {}: {e}: {text}", path.display()))
}

/// Everything beneath a folder: name → kind, mode and content.
pub fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(&here).expect("a readable folder") {
            let path = entry.expect("an entry").path();
            let stat = fs::symlink_metadata(&path).expect("an entry that stays");
            let mode = stat.permissions().mode();
            let what = if stat.is_dir() {
                folders.push(path.clone());
                format!("folder {mode:o}")
            } else if stat.is_symlink() {
                format!("link to {}", fs::read_link(&path).expect("a link").display())
            } else {
                let bytes = fs::read(&path).expect("a readable file");
                format!(
                    "file {mode:o}, {} links, {} bytes, {:016x}",
                    stat.nlink(),
                    bytes.len(),
                    hash(&bytes)
                )
            };
            let name = path.strip_prefix(folder).expect("beneath the folder").to_path_buf();
            found.insert(name, what);
        }
    }
    found
}

/// FNV-1a, 64 bits: enough to tell files of a test apart, the same everywhere.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Waits until `is_so`, or panics with `what` after [`LIMIT`].
///
/// # Panics
/// If it does not become so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} until {what}");
        std::thread::yield_now();
    }
}
