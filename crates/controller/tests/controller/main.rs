//! The controller from outside: every call, many threads, classes, traces, forks.

mod calls;
mod extras;
mod slow;
mod stress;
mod support;
