//! Measures a device on a file of it, and keeps what was found.
