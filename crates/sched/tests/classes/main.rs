//! Classes before one disk, in virtual time: shares, limits, boosts, and who is remembered.

mod boosts;
mod limits;
mod shares;
mod tracking;
mod world;
