//! SW among classes: windows of arrival, and in each of them one class after the other.
//!
//! Source:      Song, Yin, Chen, Sun 2011, "Server-side I/O coordination for parallel file
//!              systems", section 3.
//! Idea:        the class goes whose oldest request came in the earliest window, and among those the
//!              one with the lowest number. Data servers that share a clock and the numbers serve the
//!              same program at about the same time without talking to each other.
//! Units:       windows in nanoseconds.
//! Cost:        O(log n) a decision for n classes. What a class has queued is not searched for its
//!              oldest: it comes to its policy window by window ([`front`](super::Shares::front)), so
//!              that is the window which the policy is at.
//! Deviations:  1. Strict, or work-conserving, as [`SwSettings`](super::SwSettings) says; the paper's servers wait.
//!              2. Within a window the class's own policy decides, where the paper has arrival.
//!              3. A class that a limit holds back, or whose policy waits, lets the next go.
//!              4. What a conflict held back until its window was over here goes first, alone.
//! Loses when:  classes are alike on one server only: a window is then a wait, and a class with a
//!              high number waits for all others of its window.
//!
//! Bound: a request waits for those that came before the end of its own window, and for no other;
//! strict, also for that end, and nothing of a window leaves before it.

use forebay_units::ClassId;

/// Places of a class's number in a tag.
const CLASS_BITS: u32 = 32;

/// Where a class stands whose oldest request came in a window.
pub(super) fn tag(window: u64, class: ClassId) -> u128 {
    u128::from(window) << CLASS_BITS | u128::from(class.0)
}

/// The window of a tag.
pub(super) fn window_of(tag: u128) -> u64 {
    (tag >> CLASS_BITS) as u64
}
