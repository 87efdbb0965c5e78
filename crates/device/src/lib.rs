//! Device models: when a storage device would have finished a request, in integer nanoseconds.
//!
//! ```text
//!   Profile ──► Device::serve(arrival, direction, position, length) ──► completion
//!   (a value:      │  splits the request over its members (striping)
//!    what it is)   ├── Disk:  seek curve, rotation, drive cache       hard disk, RAID-0
//!                  └── Flash: cost of an operation by direction       SSD channels
//! ```
//!
//! Everything is virtual time: `completion = max(arrival, busy until) + service`, and nothing
//! here knows a clock. Whoever wants real time sleeps until the completion; since each is
//! computed from the one before and not from when the sleeper awoke, oversleep never adds up.
//!
//! [`Profile`] also answers in closed form ([`Profile::ratio_permille`]) what running the model
//! would show ([`measure::ratio_permille`]); a test holds the two together.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod device;
mod disk;
mod flash;
mod head;
pub mod measure;
mod profile;
mod random;
mod rate;
mod seek;
mod time_scale;

pub use device::{Device, Statistics};
pub use disk::Disk;
pub use flash::{Flash, FlashCost};
pub use profile::{Medium, PROFILES, Profile, RANDOM_SPAN, UnknownProfile};
pub use random::SplitMix64;
pub use rate::Rate;
pub use seek::SeekCurve;
pub use time_scale::{TimeScale, TimeScaleError};
