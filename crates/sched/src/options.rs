//! What a scheduler is made with.

use forebay_units::Bytes;

use crate::guard::GuardMode;

/// What a scheduler is made with, apart from its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// Which conflicting pairs keep their order.
    pub guard: GuardMode,
    /// Requests longer than this skip the policy; none does if `None`.
    pub large_bytes: Option<Bytes>,
    /// When requests step around the queues.
    pub bypass: Bypass,
    /// Most requests that wait at a time, queued or blocked; more are refused. At least 1.
    pub queue_requests_max: usize,
}

impl Default for SchedulerOptions {
    /// Guard `overlap`, 2 MiB (IOFSL 2010 found no gain from scheduling above), bypass when idle, 2^20 requests.
    fn default() -> Self {
        Self {
            guard: GuardMode::Overlap,
            large_bytes: Some(Bytes::mib(2)),
            bypass: Bypass::WhenIdle,
            queue_requests_max: 1 << 20,
        }
    }
}

/// When a request may step around the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// Never: every request passes the policy or the lane.
    Never,
    /// When nothing is queued, nothing conflicts and the store has room: there is nothing to order then.
    WhenIdle,
}
