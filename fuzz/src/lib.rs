//! What the fuzz targets run: the same properties that `cargo test` runs on stable with fewer inputs.
//!
//! `cargo +nightly fuzz run wire|server|client|trace|import -- -max_total_time=60`, from this folder or the root.

#[path = "../../crates/wire/tests/frames/decode.rs"]
mod decode;
#[path = "../../crates/session/tests/hostile/harness.rs"]
mod harness;
#[path = "../../crates/trace/tests/format/import.rs"]
mod import;
#[path = "../../crates/trace/tests/format/read.rs"]
mod read;

/// Any bytes as a frame: decoding never panics, and what decodes encodes to the same bytes.
pub fn wire(bytes: &[u8]) {
    decode::decode_any(bytes);
}

/// A hostile client against the forwarder's half of a session.
pub fn server(bytes: &[u8]) {
    harness::against_server(bytes);
}

/// A hostile forwarder against the client's half of a session.
pub fn client(bytes: &[u8]) {
    harness::against_client(bytes);
}

/// Any bytes as a trace, and as the events of a block whose checksum fits.
pub fn trace(bytes: &[u8]) {
    read::read_any_and_sealed(bytes);
}

/// Any text as a log of another tool.
pub fn import(bytes: &[u8]) {
    import::import_any(bytes);
}
