//! The daemon between clients and storage.

pub mod settings;
