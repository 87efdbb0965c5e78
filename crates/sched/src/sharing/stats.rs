//! What a class or a group has had.

use forebay_units::{Bytes, Nanos};

/// Counters of one class or group; all of them only grow while it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareStats {
    /// Batches charged.
    pub batches: u64,
    /// Requests charged.
    pub requests: u64,
    /// Bytes charged.
    pub bytes: Bytes,
    /// Cost charged, corrections included.
    pub cost: u64,
    /// Of the batches, those that left by reservation.
    pub reserved: u64,
    /// Of the batches, those that left beyond a limit because nobody else could go.
    pub borrowed: u64,
    /// How often it had something to dispatch, was its turn, and a limit held it back.
    pub throttled: u64,
    /// How long limits have held it back, until now if one does.
    pub throttled_time: Nanos,
    /// How often it was left aside: its policy waits, or the store has no room for what it has.
    pub held: u64,
}
