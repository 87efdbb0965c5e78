//! The C library from C: its header, its example, its man page, and programs that use it.

mod build;
mod header;
mod install;
mod programs;
