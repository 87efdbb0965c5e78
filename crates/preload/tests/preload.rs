//! Programs in C that exercise the hooked calls, with the library and without: the same results.

#[path = "../../client/tests/forwarder/mod.rs"]
mod forwarder;
mod lab;

use std::sync::atomic::Ordering;

use lab::{Door, Lab, succeeded};

/// Runs a program without the library and through `door`; all that it prints and leaves must be the same.
fn compare(name: &str, door: Door) -> Lab {
    let (without, with) = (Lab::new(Door::None), Lab::new(door));
    let expected = succeeded(&without.command(without.compile(name)).output().expect("run"));
    let output = with.command(with.compile(name)).output().expect("run");
    let got = succeeded(&output);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    for (number, (got, expected)) in got.lines().zip(expected.lines()).enumerate() {
        assert_eq!(got, expected, "line {} of {name} over {door:?}", number + 1);
    }
    assert_eq!(got.lines().count(), expected.lines().count());
    let (got, expected) = (with.content(), without.content());
    assert!(got.keys().eq(expected.keys()), "the same files");
    let forwarder = with.forwarder.as_ref().expect("a forwarder");
    assert!(
        forwarder.count(|state| &state.reads) > 0 && forwarder.count(|state| &state.writes) > 0
    );
    forwarder
        .wait_until("all files are closed", |state| state.files_open.load(Ordering::SeqCst) == 0);
    with
}

#[test]
fn every_call_answers_as_the_kernel_would_over_unix() {
    compare("calls", Door::Unix);
}

#[test]
fn every_call_answers_as_the_kernel_would_over_tcp() {
    compare("calls", Door::Tcp);
}

#[test]
fn processes_share_positions_locks_and_appends_over_unix() {
    compare("processes", Door::Unix);
}

#[test]
fn processes_share_positions_locks_and_appends_over_tcp() {
    compare("processes", Door::Tcp);
}

#[test]
fn threads_and_signal_handlers_find_their_way_over_unix() {
    compare("threads", Door::Unix);
}

#[test]
fn threads_and_signal_handlers_find_their_way_over_tcp() {
    compare("threads", Door::Tcp);
}

#[test]
fn descriptor_numbers_are_the_programs_own() {
    compare("hygiene", Door::Unix);
}
