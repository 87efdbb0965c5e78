//! What happened, counted in bounded memory: histograms, the heaviest of many, a ledger by class and file.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
