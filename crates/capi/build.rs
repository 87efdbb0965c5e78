//! Gives the shared library its SONAME, and its symbols the versions of `forebay.map`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{env, fs};

/// The compiler always passes a version script without a name, which no linker joins with one that
/// has names. So the linker is called through this, which puts ours in its place.
const LINKER: &str = r#"#!/bin/sh
for argument; do
    shift
    case $argument in
    --version-script=*) argument=--version-script=MAP ;;
    esac
    set -- "$@" "$argument"
done
exec ld.bfd "$@"
"#;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=forebay.map");
    let [map, folder] = ["CARGO_MANIFEST_DIR", "OUT_DIR"]
        .map(|name| env::var(name).expect("cargo says where things are"));
    let linker = Path::new(&folder).join("ld.bfd");
    let text = LINKER.replace("MAP", &format!("'{map}/forebay.map'"));
    fs::write(&linker, text).expect("the build's own folder can be written");
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755)).expect("it was just written");
    for argument in ["-Wl,-soname,libforebay.so.0", "-fuse-ld=bfd", &format!("-B{folder}")] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
