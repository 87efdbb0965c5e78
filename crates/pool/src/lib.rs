//! One fixed pool of I/O buffers: all the memory that data may ever occupy.
//!
//! ```text
//!   Pool ──► Arena (one mmap)  ┌───────────── shared zone ─────────────┬── reserve ──┐
//!                              │ arrivals; dispatches when they need it│ dispatches  │
//!                              └───────────────────────────────────────┴─────────────┘
//!            Zones: a buddy allocator for each zone, blocks of 4 KiB … 1 MiB
//!   Buffer ─► one block, given back when dropped
//! ```
//!
//! The reserve is a place and not only a number: arrivals never touch it, so they cannot
//! fragment it either, and a dispatch finds a block there however full the rest is.
//!
//! The pool has no list of waiters. Whoever was refused looks at [`Pool::given_back`], which
//! moves whenever a buffer returns, and tries again.
//!
//! Buffers are not cleared between owners: a holder sends on only what was written to it.

mod buddy;
mod buffer;
mod pool;
mod sys;
mod zones;

pub use buddy::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN};
pub use buffer::Buffer;
pub use pool::{Pool, PoolOptions};
pub use zones::Share;
