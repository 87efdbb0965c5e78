//! A folder, a forwarder and programs run in it with and without the preload library.
#![allow(dead_code, reason = "each test binary uses its own part of it")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::forwarder::Forwarder;

/// Where a program's I/O goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Past us.
    None,
    /// Over a Unix socket.
    Unix,
    /// Over TCP.
    Tcp,
}

/// A place to run programs.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
    pub(crate) forwarder: Option<Forwarder>,
    endpoint: String,
}

impl Lab {
    pub(crate) fn new(door: Door) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(folder.path().join("data")).expect("folder");
        let forwarder = match door {
            Door::None => None,
            Door::Unix => Some(Forwarder::unix(&folder.path().join("socket"))),
            Door::Tcp => Some(Forwarder::tcp(&folder.path().join("data"))),
        };
        let endpoint =
            forwarder.as_ref().map(|forwarder| forwarder.endpoint.to_string()).unwrap_or_default();
        Self { folder, forwarder, endpoint }
    }

    /// The folder that is forwarded, in which programs run.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A file beside it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles one of the programs in `tests/programs`.
    pub(crate) fn compile(&self, name: &str) -> PathBuf {
        let program = self.beside(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(name)
            .with_extension("c");
        let compiled = Command::new("cc")
            .args(["-O2", "-w", "-pthread", "-o"])
            .args([&program, &source])
            .status()
            .expect("a C compiler is needed: apt-get install gcc");
        assert!(compiled.success());
        program
    }

    /// A program that will run in the folder, under the preload library if there is a forwarder.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.data()).env("LC_ALL", "C");
        if !self.endpoint.is_empty() {
            command
                .env("LD_PRELOAD", library())
                .env("FOREBAY_ENDPOINT", &self.endpoint)
                .env("FOREBAY_PATHS", self.data())
                .env("FOREBAY_EXPORT", self.data())
                .env("FOREBAY_TIMEOUT_MS", "20000");
        }
        command
    }

    /// What the folder holds.
    pub(crate) fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn add(folder: &Path, root: &Path, content: &mut BTreeMap<PathBuf, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).expect("list") {
                let path = entry.expect("entry").path();
                let about = std::fs::symlink_metadata(&path).expect("stat");
                let name = path.strip_prefix(root).expect("beneath").to_owned();
                if about.is_dir() {
                    add(&path, root, content);
                } else if about.is_file() {
                    content.insert(name, std::fs::read(&path).expect("read"));
                }
            }
        }
        let mut content = BTreeMap::new();
        add(&self.data(), &self.data(), &mut content);
        content
    }
}

/// The library under test. Cargo builds a `cdylib` for nobody's tests, so they ask for it.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let tests = std::env::current_exe().expect("path of the test");
        let folder = tests.parent().and_then(Path::parent).expect("the folder of the profile");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "forebay-preload"]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo").success());
        folder.join("libforebay_preload.so")
    })
}

/// Ends the test with everything that a failing program said.
pub(crate) fn succeeded(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}
