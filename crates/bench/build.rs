//! Tells the library of which commit it is made, as archived runs say it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(root) = checkout() else { return };
    // A commit moves one of the first two; everything else that makes a checkout dirty is below the others.
    let of_git = ["HEAD", "logs/HEAD"]
        .iter()
        .filter_map(|name| git(&root, &["rev-parse", "--git-path", name]));
    let sources = ["crates", "Cargo.toml", "Cargo.lock"].map(str::to_owned);
    for path in of_git.chain(sources).map(|path| root.join(path)).filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    if let Some(commit) = git(&root, &["describe", "--always", "--dirty", "--abbrev=12"]) {
        println!("cargo::rustc-env=FOREBAY_COMMIT={commit}");
    }
}

/// The workspace, if it is a checkout of its own and not only inside of one.
fn checkout() -> Option<PathBuf> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let workspace = here.parent()?.parent()?.canonicalize().ok()?;
    let top = git(&workspace, &["rev-parse", "--show-toplevel"])?;
    (Path::new(&top).canonicalize().ok()? == workspace).then_some(workspace)
}

/// What git says, in one line; nothing without git, or if it refuses.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(folder).args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let said = said.trim();
    (output.status.success() && !said.is_empty()).then(|| said.to_owned())
}
