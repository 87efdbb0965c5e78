//! Sharing: whose turn it is, decided before any policy looks at requests.
//!
//! A *class* is a job, a user, a client: whatever the embedder shares by. Each has a queue and a
//! policy of its own elsewhere; here are only classes, their shares, and what they have had.
//!
//! ```text
//!              ┌ window (TWINS), or window of arrival (SW)      twins.rs, sw.rs
//!   pick ──────┤ limits: token buckets of class and group        bucket.rs
//!              ├ reservations that are due (dmClock)              reservation.rs
//!              └ weights: SFQ(D) or DRR, among groups, then       sfq.rs, drr.rs
//!                among the classes of a group                     tree.rs
//! ```
//!
//! # How to use it
//!
//! One [`Shares`] stands before one device, however many front ends feed it. `now` never goes back.
//!
//! 1. A class that gets something to dispatch is [`ready`](Shares::ready), one that has nothing
//!    left is [`empty`](Shares::empty).
//! 2. While the store has room, ask [`pick`](Shares::pick). It promises nothing until the answer is
//!    used: asked again, it answers the same.
//! 3. Dispatch something of that class and [`charge`](Shares::charge) it, then call `empty` if
//!    that was the last. If the class's policy waits, [`hold`](Shares::hold) the class and pick again.
//! 4. When requests end, [`complete`](Shares::complete) them.
//!
//! Under SW also say when the oldest request came that waits in a class, with
//! [`front`](Shares::front): after `ready`, and whenever it is another one.
//!
//! What a batch costs is asked only when it leaves. So no bound depends on how large a policy lets
//! its batches grow while they wait, only on the largest that left.
//!
//! What leaves without having been picked (bypassed, or boosted because another class waits for
//! it) is charged all the same: it is debt, which delays that class's next turn. Nothing is free.

mod bucket;
mod drr;
mod node;
mod population;
mod reservation;
mod settings;
mod sfq;
mod shares;
mod stats;
mod sw;
#[cfg(test)]
mod tests;
mod tree;
mod twins;

pub use crate::policies::sw::SwSettings;
pub use settings::{
    AtLimit, ClassShare, CostModel, Discipline, GroupId, Rate, Share, ShareError, SharingSettings,
    Tariff, TwinsSettings, UnknownDiscipline, WindowIdle, Work,
};
pub use shares::{Pick, Reserved, Shares};
pub use stats::ShareStats;
