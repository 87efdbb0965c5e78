//! Traces: every submit, decision and completion, in a compact format.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
