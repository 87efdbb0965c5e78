//! Gives the shared library its SONAME, and every symbol that as its version.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for argument in [
        "-Wl,-soname,libforebay.so.0",
        // The compiler passes a version script without a name, which neither linker joins with one
        // that has; this linker can name the version after the library instead.
        "-fuse-ld=bfd",
        "-Wl,--default-symver",
    ] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
