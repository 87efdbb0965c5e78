//! Compiling C programs against the library of this build.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of this crate.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The top of the repository.
pub(crate) fn top() -> PathBuf {
    here().join("../..").canonicalize().expect("the crate is in the repository")
}

/// Where cargo has put libforebay.so and libforebay.a: beside this test.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let folder = test.parent().expect("a program is in a folder").to_owned();
    assert!(folder.join("libforebay.so").exists(), "{} has no libforebay.so", folder.display());
    folder
}

/// The library under the name that programs look for at run time.
pub(crate) fn library_folder(folder: &Path) -> PathBuf {
    let linked = folder.join("lib");
    std::fs::create_dir_all(&linked).unwrap();
    for name in ["libforebay.so", "libforebay.so.0"] {
        let link = linked.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(libraries().join("libforebay.so"), link).unwrap();
        }
    }
    linked
}

/// Runs a command; what it printed.
///
/// # Panics
/// With everything it said, if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let output = output(command);
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

pub(crate) fn output(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; see scripts/install-deps"))
}

/// What a compiler must find nothing to say about.
pub(crate) const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];
