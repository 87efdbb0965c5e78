//! What aIOLi is told.

use forebay_units::{Bytes, Nanos};

/// Parameters of [`Aioli`](super::Aioli).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AioliSettings {
    /// What a new queue's runs earn a step: from `quantum_bytes_min` on, never more than
    /// `run_bytes_max`; by default 32 KiB as in the paper's example.
    pub quantum_bytes: Bytes,
    /// The least that adaptation leaves: 512 bytes to `quantum_bytes`, by default 4 KiB.
    pub quantum_bytes_min: Bytes,
    /// Batches of a queue before its oldest eligible run must go: 1 to 1,024, by default 16.
    pub passes_max: u32,
    /// Longest that a jump is held back for the queue's own batches in flight:
    /// 0 (never) to 1 s, by default 200 ms, a little above two largest batches on a slow disk.
    pub hold_max: Nanos,
    /// Whether the device is kept for a file whose reader is expected back at once.
    pub synchronous_wait: SynchronousWait,
}

/// Whether other files wait for a synchronous reader between two of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SynchronousWait {
    /// Never, as in AGIOS.
    Off,
    /// As long as it pays, for a largest batch's worth of bytes at a time, as in aIOLi 2006, section 3.4.2.
    On,
}

impl Default for AioliSettings {
    fn default() -> Self {
        Self {
            quantum_bytes: Bytes::kib(32),
            quantum_bytes_min: Bytes::kib(4),
            passes_max: 16,
            hold_max: Nanos::millis(200),
            synchronous_wait: SynchronousWait::Off,
        }
    }
}

/// The longest wait that can pay, for a device on which a random request of the usual size takes
/// `random` and a sequential one `sequential`: never more than `wait_max` nor than the seek it may save,
/// and nothing where order gains less than a tenth.
pub fn effective_wait(random: Nanos, sequential: Nanos, wait_max: Nanos) -> Nanos {
    if u128::from(random.0) * 10 <= u128::from(sequential.0) * 11 {
        return Nanos::ZERO;
    }
    (random - sequential).min(wait_max)
}
