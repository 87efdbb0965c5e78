//! Gives the shared library the name that AGIOS's has, so that programs linked against AGIOS load it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libagios.so");
}
