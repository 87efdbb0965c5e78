//! What the posix store promises, kept by both of its engines on real files.

mod calls;
mod engine_choice;
mod opening;
mod rig;
mod sys;
