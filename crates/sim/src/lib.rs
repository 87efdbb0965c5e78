//! The simulator: clients, network, servers and devices in virtual time around the real scheduler.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
