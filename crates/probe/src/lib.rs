//! Measures a device on a file of it, and keeps what was found.
//!
//! ```text
//! probe(path) ─► Place, Access      what the path is, and how to reach the device
//!            ─► One                 one call at a time at a store: the real one, or a model's
//!            ─► measure             runs of sequential and random reads and writes ─► Points
//!            ─► Record              points, and the curves through them (a DeviceProfile) ─► Cache
//! ```
//!
//! Whoever schedules asks [`load_record`], and where nothing was measured takes [`assumed`].

mod cache;
mod clock;
mod error;
mod identity;
mod known;
mod measure;
mod one;
mod probe;
mod record;
mod test_file;

pub use cache::{Cache, load_record};
pub use clock::{Clock, RealClock};
pub use error::{Error, ErrorKind};
pub use identity::Identity;
pub use known::{assumed, of_model};
pub use measure::{
    Extent, LENGTHS, Options, PIECE, Point, Progress, SPAN_MIN, Subject, measure, profile,
};
pub use probe::{BUDGET_MIN, ProbeOptions, probe};
pub use record::{RECORD_BYTES_MAX, Record, operation};
pub use test_file::Access;
