//! What the law tests share: operations, a naive guard to compare with, and a driver that checks each step.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "a module of several tests, each of which uses a part of it"
)]

mod driver;
mod oracle;

pub use driver::{Driver, Place, Sharing};
pub use oracle::{Oracle, conflict};

use forebay_sched::{Access, Limits, PolicyName, PolicySettings, Request};
use forebay_units::{ByteRange, Bytes, ClassId, ClientId, FileIndex, Nanos, Offset};
use proptest::prelude::*;

/// Offsets and lengths are multiples of this.
pub const BLOCK: u64 = 4096;
/// Ranges end at or before this block, appends and truncations apart.
pub const BLOCKS: u64 = 40;
/// Files, and so file indices.
pub const FILES: u32 = 3;
/// Classes that requests belong to; one more than there are places for in `Sharing::Tight`.
pub const CLASSES: u32 = 4;
/// Requests longer than this skip the policy.
pub const LARGE: Bytes = Bytes(9 * BLOCK);

/// One step of a test.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Submits a request.
    Submit(Request, bool),
    /// Asks for a decision.
    Next,
    /// Asks for a decision of the policy alone.
    NextFromPolicy,
    /// Completes one request in flight.
    Complete(usize),
    /// Cancels one request: three times in four one that waits, else any.
    Cancel(usize),
    /// Puts another policy in charge.
    Switch(usize),
    /// Gives a class behind limits another share, or takes it back.
    Share(usize),
    /// Lets time pass.
    Sleep(u64),
}

fn request() -> impl Strategy<Value = Request> {
    let access = prop_oneof![
        8 => Just(Access::Read),
        8 => Just(Access::Write),
        1 => Just(Access::Alone),
        1 => Just(Access::Sync),
    ];
    (access, 0..FILES, 0..3u32, 0..CLASSES, 0..BLOCKS - 12, 1..13u64).prop_map(
        |(access, file, client, class, start, count)| {
            let range = match access {
                Access::Alone => ByteRange::from_start(Offset(start * BLOCK)),
                Access::Sync => ByteRange::default(),
                Access::Read | Access::Write => {
                    ByteRange::new(Offset(start * BLOCK), Bytes(count * BLOCK))
                }
            };
            let (file, client) = (FileIndex(file), ClientId(client));
            Request { tag: start, file, access, range, client, class: ClassId(class) }
        },
    )
}

/// Sequences of operations, up to `length_max` of them.
pub fn ops(length_max: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (request(), any::<bool>()).prop_map(|(request, room)| Op::Submit(request, room)),
        4 => Just(Op::Next),
        1 => Just(Op::NextFromPolicy),
        4 => any::<usize>().prop_map(Op::Complete),
        2 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::Switch),
        4 => any::<usize>().prop_map(Op::Share),
        1 => (1..2_000_000u64).prop_map(Op::Sleep),
    ];
    proptest::collection::vec(op, 1..length_max)
}

/// The same without policy switches, which a test of one policy must not do.
pub fn ops_without_switch(length_max: usize) -> impl Strategy<Value = Vec<Op>> {
    ops(length_max).prop_map(|mut ops| {
        ops.retain(|op| !matches!(op, Op::Switch(_)));
        ops
    })
}

/// Small limits, so that short tests reach them.
pub fn settings() -> PolicySettings {
    Limits {
        run_bytes_max: Bytes(16 * BLOCK),
        run_requests_max: 6,
        batch_bytes_max: Bytes(32 * BLOCK),
        wait_max: Nanos::micros(900),
    }
    .into()
}

/// No waits: whatever is ready must go when asked for.
pub fn settings_without_waits() -> PolicySettings {
    let mut settings = settings();
    settings.limits.wait_max = Nanos::ZERO;
    settings
}

/// The policy at a random place of the list.
pub fn any_policy(number: usize) -> PolicyName {
    PolicyName::ALL[number % PolicyName::ALL.len()]
}
