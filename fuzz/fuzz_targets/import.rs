//! Any text as a log of another tool.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| forebay_fuzz::import(bytes));
