//! TWINS: time windows, one data server at a time.
//!
//! Source:      Bez, Boito, Schnorr, Navaux, Méhaut 2017, "TWINS: Server Access Coordination in the
//!              I/O Forwarding Layer"; its form in AGIOS v2.
//! Idea:        time is cut into windows, and in each of them requests of one data server leave,
//!              server after server. Nodes that share a clock then do not all hit the same server.
//! Units:       window and idle time in nanoseconds; servers are numbered from 0.
//! Cost:        O(log n) a decision for n classes.
//! Deviations:  1. The window is computed from absolute time, so it does not drift, and nodes can be
//!                 aligned or shifted; AGIOS counts from its last switch.
//!              2. Among classes that are one server, SFQ(D) decides.
//!              3. Optionally work-conserving: a server that has nothing lends its window.
//! Loses when:  servers are loaded unevenly (strict: the store idles while others wait), or there is one
//!              server: windows then only delay.
//!
//! Bound, strict: what leaves at `t` is of the server whose window it is. The head of a server's queue
//! leaves at most `(targets − 1) · window` after it came, and after those before it.

use forebay_units::{Nanos, Timestamp};

use super::settings::TwinsSettings;

impl TwinsSettings {
    /// How many windows have passed since the start.
    fn windows(&self, now: Timestamp) -> u64 {
        (now - self.start).0 / self.window.0
    }

    /// Whose window it is.
    pub fn target_at(&self, now: Timestamp) -> u32 {
        let turn = u128::from(self.windows(now)) + u128::from(self.shift);
        (turn % u128::from(self.targets)) as u32
    }

    /// When the window that is on began.
    pub fn window_start(&self, now: Timestamp) -> Timestamp {
        self.start + Nanos(self.windows(now).saturating_mul(self.window.0))
    }

    /// When the next window of `target` begins; later than `now`.
    pub(super) fn next_start(&self, now: Timestamp, target: u32) -> Timestamp {
        let current = self.target_at(now);
        let ahead = u64::from(target) + u64::from(self.targets) - u64::from(current);
        let windows = (ahead - 1) % u64::from(self.targets) + 1;
        self.window_start(now) + Nanos(windows.saturating_mul(self.window.0))
    }
}
